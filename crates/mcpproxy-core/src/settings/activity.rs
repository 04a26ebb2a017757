//! The `activity` part: what of the log is on disk when, where its checkpoints go, and how long it is kept.

use std::time::Duration;

use jsonc_parser::ast::Value;

use super::read::{Fields, Reader};
use super::{amount, keys};

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ActivitySettings {
    pub durability: Durability,
    /// A file that gets a copy of every checkpoint, as the operator wrote it: it may be relative.
    pub checkpoints_to: Option<String>,
    pub retention: Retention,
}

/// Which calls are on disk before they are sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Durability {
    All,
    Writes,
}

/// How long the log is kept. None is for good.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Retention {
    /// The age at which arguments and results are erased. Their records stay.
    pub payloads: Option<Duration>,
    /// How many bytes of arguments and results are kept; the oldest go first.
    pub payload_bytes: Option<u64>,
    /// The age at which records themselves are erased; never less than `payloads`.
    pub records: Option<Duration>,
}

impl Default for ActivitySettings {
    fn default() -> Self {
        Self { durability: Durability::Writes, checkpoints_to: None, retention: Retention::default() }
    }
}

impl Default for Retention {
    fn default() -> Self {
        Self { payloads: Some(90 * amount::DAY), payload_bytes: Some(4 * amount::GIB), records: None }
    }
}

pub(super) fn read(reader: &mut Reader<'_>, fields: &Fields<'_, '_>) -> Option<ActivitySettings> {
    let fields = reader.fields(fields.find("activity")?.value, &keys::ACTIVITY)?;
    let default = ActivitySettings::default();
    Some(ActivitySettings {
        durability: reader.choice_or(&fields, "durability", keys::DURABILITY, default.durability),
        checkpoints_to: fields.find("checkpoints_to").and_then(|field| reader.path(field.value, "checkpoints_to")),
        retention: read_retention(reader, &fields).unwrap_or(default.retention),
    })
}

fn read_retention(reader: &mut Reader<'_>, fields: &Fields<'_, '_>) -> Option<Retention> {
    let fields = reader.fields(fields.find("retention")?.value, &keys::RETENTION)?;
    let default = Retention::default();
    let mut read = |key, parse| match fields.find(key) {
        Some(field) => read_age(reader, field.value, parse).map(Some),
        None => Some(None),
    };
    // Every key is read whatever the others say, so that one look at the errors is enough.
    let payloads = read("payloads", amount::parse_payload_age);
    let records = read("records", amount::parse_record_age);
    let payload_bytes = fields.find("payload_bytes").map(|field| read_payload_bytes(reader, field.value));
    let retention = Retention {
        payloads: payloads?.unwrap_or(default.payloads),
        payload_bytes: payload_bytes.unwrap_or(Some(default.payload_bytes))?,
        records: records?.unwrap_or(default.records),
    };
    if let (Some(field), Some(records)) = (fields.find("records"), retention.records)
        && retention.payloads.is_none_or(|payloads| payloads > records)
    {
        let by_default = if fields.find("payloads").is_none() { ", which is \"90d\" without the key" } else { "" };
        let message = format!(
            "`records` is shorter than `payloads`{by_default}; arguments and results cannot outlive their records: make \
             `records` longer or `payloads` shorter"
        );
        reader.error_at(field.value, message);
    }
    Some(retention)
}

fn read_age(
    reader: &mut Reader<'_>,
    value: &Value<'_>,
    parse: fn(&str) -> Result<Option<Duration>, String>,
) -> Option<Option<Duration>> {
    if let Value::NumberLit(_) = value {
        return reader.wrong_type_but(value, "string", "; write the unit too, such as \"90d\" or \"12h\"");
    }
    reader.parsed(value, parse)
}

fn read_payload_bytes(reader: &mut Reader<'_>, value: &Value<'_>) -> Option<Option<u64>> {
    let Value::NumberLit(literal) = value else { return reader.parsed(value, amount::parse_payload_bytes) };
    let bytes = amount::check_payload_bytes(literal.value.parse().unwrap_or(0));
    reader.or_error(value, bytes).map(Some)
}
