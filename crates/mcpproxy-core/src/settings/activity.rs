//! The `activity` section: durability of the log, copies of its checkpoints, and retention.

use std::time::Duration;

use super::read::Reader;
use super::{amount, keys};
use crate::file::amount::{DAY, GIB};
use crate::file::{Fields, Node, NodeValue};

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ActivitySettings {
    pub durability: Durability,
    /// A file that gets a copy of every checkpoint, as the operator wrote it. The path may be relative.
    pub checkpoints_to: Option<String>,
    pub retention: Retention,
}

/// The setting `durability`: calls whose record is on disk before they are sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Durability {
    All,
    Writes,
}

/// The setting `retention`. `None` means no limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Retention {
    /// The age at which arguments and results are erased. Their records stay.
    pub payloads: Option<Duration>,
    /// The most bytes of arguments and results to keep. The oldest are removed first.
    pub payload_bytes: Option<u64>,
    /// The age at which records themselves are erased. Never less than `payloads`.
    pub records: Option<Duration>,
}

impl Default for ActivitySettings {
    fn default() -> Self {
        Self { durability: Durability::Writes, checkpoints_to: None, retention: Retention::default() }
    }
}

impl Default for Retention {
    fn default() -> Self {
        Self { payloads: Some(90 * DAY), payload_bytes: Some(4 * GIB), records: None }
    }
}

pub(super) fn read(reader: &mut Reader<'_>, fields: &Fields<'_>) -> Option<ActivitySettings> {
    let fields = reader.fields(&fields.find("activity")?.node, &keys::ACTIVITY)?;
    let default = ActivitySettings::default();
    Some(ActivitySettings {
        durability: reader.choice_of(&fields, "durability", keys::DURABILITY).unwrap_or(default.durability),
        checkpoints_to: fields.find("checkpoints_to").and_then(|field| reader.path(&field.node, "checkpoints_to")),
        retention: read_retention(reader, &fields).unwrap_or(default.retention),
    })
}

fn read_retention(reader: &mut Reader<'_>, fields: &Fields<'_>) -> Option<Retention> {
    let fields = reader.fields(&fields.find("retention")?.node, &keys::RETENTION)?;
    let default = Retention::default();
    let mut read = |key, parse| match fields.find(key) {
        Some(field) => read_age(reader, &field.node, parse).map(Some),
        None => Some(None),
    };
    // Read every key even after a mistake, so that all mistakes are reported at once.
    let payloads = read("payloads", amount::parse_payload_age);
    let records = read("records", amount::parse_record_age);
    let payload_bytes = fields.find("payload_bytes").map(|field| read_payload_bytes(reader, &field.node));
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
        reader.report(field.node.position, message);
    }
    Some(retention)
}

fn read_age(
    reader: &mut Reader<'_>,
    node: &Node,
    parse: fn(&str) -> Result<Option<Duration>, String>,
) -> Option<Option<Duration>> {
    if let NodeValue::Number(_) = &node.value {
        return reader.wrong_type_but(node, "string", "; write the unit too, such as \"90d\" or \"12h\"");
    }
    reader.parsed(node, parse)
}

fn read_payload_bytes(reader: &mut Reader<'_>, node: &Node) -> Option<Option<u64>> {
    let NodeValue::Number(number) = &node.value else { return reader.parsed(node, amount::parse_payload_bytes) };
    let bytes = amount::check_payload_bytes(number.as_u64().unwrap_or(0));
    reader.checked(node, bytes).map(Some)
}
