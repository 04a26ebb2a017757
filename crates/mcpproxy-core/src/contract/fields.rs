//! One contract out of its tree, field by field.

use std::sync::Arc;
use std::time::Duration;

use super::keys::{self, DryRunMode, IdempotencyMode};
use super::node::{Node, Value, to_object};
use super::read::{Fields, Reader};
use super::{Contract, DryRun, Idempotency, OutputSchema, RateLimit, Sensitive, StepUp};
use crate::schema::Schema;
use crate::settings::amount::DAY;
use crate::{Pointer, Untrusted};

pub(super) const DESCRIPTION_MAX_CHARS: usize = 4000;
pub(super) const SIDE_EFFECT_MAX_CHARS: usize = 500;
pub(super) const SIDE_EFFECTS_MAX: usize = 32;
/// Most permissions, failure modes, sensitive places and arguments of a key.
pub(super) const LIST_MAX: usize = 64;
/// Of a word, and of an argument's name.
pub(super) const NAME_MAX_CHARS: usize = 128;
pub(super) const POINTER_MAX_CHARS: usize = 256;
pub(super) const CALLS_MAX: u32 = 100_000;
pub(super) const TTL: Duration = DAY;
const TTL_MAX: Duration = Duration::from_secs(30 * 24 * 60 * 60);

/// What the known fields say; `file` is `None` for a server's.
pub(super) fn contract(reader: &mut Reader<'_>, fields: &Fields<'_>, file: Option<Arc<str>>) -> Contract {
    Contract {
        file,
        description: reader.field(fields, "description", |r, node| r.text(node, DESCRIPTION_MAX_CHARS)),
        category: reader.field(fields, "category", |r, node| r.parsed(node, word)),
        risk: reader.field(fields, "riskLevel", |r, node| r.choice(node, keys::RISK_LEVELS)),
        operation: reader.field(fields, "operation", |r, node| r.choice(node, keys::OPERATIONS)),
        autonomous: reader.field(fields, "autonomousExecution", Reader::boolean),
        confirmation: reader.field(fields, "confirmation", |r, node| r.choice(node, keys::CONFIRMATIONS)),
        step_up: reader.field(fields, "stepUpAuth", step_up),
        input_schema: reader.field(fields, "inputSchema", input_schema),
        output_schema: reader.field(fields, "outputSchema", output_schema),
        permissions: reader
            .field(fields, "permissions", |r, node| r.list(node, LIST_MAX, |r, node| r.parsed(node, permission))),
        side_effects: reader.field(fields, "sideEffects", |r, node| r.list(node, SIDE_EFFECTS_MAX, side_effect)),
        audit_event: reader.field(fields, "auditEvent", |r, node| r.parsed(node, word)),
        failure_modes: reader
            .field(fields, "failureModes", |r, node| r.list(node, LIST_MAX, |r, node| r.parsed(node, word))),
        idempotency: reader.field(fields, "idempotency", idempotency),
        dry_run: reader.field(fields, "dryRun", dry_run),
        rate_limit: reader.field(fields, "rateLimit", rate_limit),
        sensitive: reader
            .field(fields, "sensitive", |r, node| r.list(node, LIST_MAX, |r, node| r.parsed(node, sensitive))),
    }
}

fn step_up(reader: &mut Reader<'_>, node: &Node) -> Option<StepUp> {
    if let Value::Bool(always) = node.value {
        return Some(when(always));
    }
    if !matches!(node.value, Value::Object(_)) {
        return reader.wrong_type(node, "boolean or object with `when`");
    }
    let fields = reader.fields(node, &keys::STEP_UP)?;
    let condition = reader.required(node, &fields, "when", "`when: true`, or a JSON Schema for the arguments")?;
    match &condition.value {
        Value::Bool(always) => Some(when(*always)),
        Value::Object(_) => {
            let json = condition.to_json()?;
            reader.schema(condition, &json).map(StepUp::When)
        }
        _ => reader.wrong_type(condition, "boolean or object (a JSON Schema)"),
    }
}

fn when(always: bool) -> StepUp {
    if always { StepUp::Always } else { StepUp::Never }
}

fn input_schema(reader: &mut Reader<'_>, node: &Node) -> Option<Arc<Schema>> {
    if !matches!(node.value, Value::Object(_)) {
        return reader.wrong_type(node, "object (a JSON Schema)");
    }
    let json = node.to_json()?;
    reader.schema(node, &json)
}

fn output_schema(reader: &mut Reader<'_>, node: &Node) -> Option<OutputSchema> {
    let Value::Object(members) = &node.value else { return reader.wrong_type(node, "object (a JSON Schema)") };
    // `strict` is ours, and no word of JSON Schema.
    let (strict, members): (Vec<_>, Vec<_>) = members.iter().partition(|member| member.name == "strict");
    let is_strict = strict.first().is_some_and(|member| match member.node.value {
        Value::Bool(is_strict) => is_strict,
        _ => reader.boolean(&member.node).unwrap_or(false),
    });
    let json = serde_json::Value::Object(to_object(members)?);
    let schema = reader.schema(node, &json)?;
    Some(OutputSchema { schema, is_strict })
}

fn side_effect(reader: &mut Reader<'_>, node: &Node) -> Option<Untrusted> {
    let text = reader.text(node, SIDE_EFFECT_MAX_CHARS)?;
    if text.for_json().trim().is_empty() {
        return reader.mistake(node.place, "empty; say what happens, such as \"An email is sent.\"");
    }
    Some(text)
}

fn idempotency(reader: &mut Reader<'_>, node: &Node) -> Option<Idempotency> {
    if matches!(node.value, Value::Text(_)) {
        return match reader.choice(node, keys::IDEMPOTENCY_MODES)? {
            IdempotencyMode::None => Some(Idempotency::None),
            IdempotencyMode::Key => Some(Idempotency::Key { ttl: TTL }),
            IdempotencyMode::Natural => {
                reader.mistake(node.place, "`natural` needs `keyFrom`; write `{ mode: natural, keyFrom: [NAME] }`")
            }
        };
    }
    if !matches!(node.value, Value::Object(_)) {
        return reader.wrong_type(node, "`none`, `key` or object with `mode`");
    }
    let fields = reader.fields(node, &keys::IDEMPOTENCY)?;
    let mode = reader.required(node, &fields, "mode", "one of `none`, `natural`, `key`");
    let mode = mode.and_then(|mode| reader.choice(mode, keys::IDEMPOTENCY_MODES));
    // All are read before any is used, so that every mistake is told at once.
    let ttl = match fields.find("ttl") {
        Some(field) => reader.duration(field.node, TTL_MAX, "30d"),
        None => Some(TTL),
    };
    let key_from = fields.find("keyFrom");
    let key_from = key_from.map(|field| reader.list(field.node, LIST_MAX, |r, node| r.parsed(node, argument)));
    match mode? {
        IdempotencyMode::None => {
            useless(reader, &fields, &["keyFrom", "ttl"], "`none`; remove it")?;
            Some(Idempotency::None)
        }
        IdempotencyMode::Key => {
            useless(reader, &fields, &["keyFrom"], "`key`; remove it, or write mode `natural`")?;
            Some(Idempotency::Key { ttl: ttl? })
        }
        IdempotencyMode::Natural => {
            let example = "the arguments that name the result, such as `[fileId]`";
            let named = reader.required(node, &fields, "keyFrom", example)?;
            let key_from = key_from??;
            if key_from.is_empty() {
                return reader.mistake(named.place, "name at least one argument");
            }
            Some(Idempotency::Natural { key_from, ttl: ttl? })
        }
    }
}

/// `None` if one of the fields is there, for which the mode has no use.
fn useless(reader: &mut Reader<'_>, fields: &Fields<'_>, names: &[&str], mode: &str) -> Option<()> {
    let written = names.iter().filter_map(|name| Some((name, fields.find(name)?)));
    let written: Vec<_> = written.collect();
    for (name, field) in &written {
        reader.mistake::<()>(field.place, format!("`{name}` means nothing with mode {mode}"));
    }
    written.is_empty().then_some(())
}

fn dry_run(reader: &mut Reader<'_>, node: &Node) -> Option<DryRun> {
    let (mode, fields) = if matches!(node.value, Value::Text(_)) {
        (reader.choice(node, keys::DRY_RUN_MODES)?, None)
    } else if !matches!(node.value, Value::Object(_)) {
        return reader.wrong_type(node, "`none`, `supported`, `required` or object with `mode`");
    } else {
        let fields = reader.fields(node, &keys::DRY_RUN)?;
        let mode = reader.required(node, &fields, "mode", "one of `none`, `supported`, `required`")?;
        (reader.choice(mode, keys::DRY_RUN_MODES)?, Some(fields))
    };
    let written = fields.and_then(|fields| fields.find("parameter"));
    if let (DryRunMode::None, Some(field)) = (mode, written) {
        return reader.mistake(field.place, "`parameter` means nothing with mode `none`; remove it");
    }
    let parameter = match written {
        Some(field) => Some(reader.parsed(field.node, argument)?),
        None => None,
    };
    Some(match mode {
        DryRunMode::None => DryRun::None,
        DryRunMode::Supported => DryRun::Supported { parameter },
        DryRunMode::Required => DryRun::Required { parameter },
    })
}

fn rate_limit(reader: &mut Reader<'_>, node: &Node) -> Option<RateLimit> {
    let fields = reader.fields(node, &keys::RATE_LIMIT)?;
    let calls = reader.required(node, &fields, "calls", "how many calls are allowed, such as `calls: 30`");
    let calls = calls.and_then(|node| reader.whole_number(node, 1..=CALLS_MAX));
    let per = reader.required(node, &fields, "per", "in what time, such as `per: 1m`");
    let per = per.and_then(|node| reader.duration(node, DAY, "24h"));
    Some(RateLimit { calls: calls?, per: per? })
}

fn word(text: &str) -> Result<String, String> {
    let fits = text.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'.' | b'-'));
    if fits && (1..=NAME_MAX_CHARS).contains(&text.len()) {
        return Ok(text.to_owned());
    }
    Err(format!("expected 1 to {NAME_MAX_CHARS} letters, digits, `_`, `.` or `-`"))
}

fn permission(text: &str) -> Result<String, String> {
    let fits = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'.' | b':' | b'/' | b'-' | b'*');
    if !text.bytes().all(fits) || !(1..=NAME_MAX_CHARS).contains(&text.len()) {
        return Err(format!("expected 1 to {NAME_MAX_CHARS} letters, digits, `_`, `.`, `:`, `/` or `-`"));
    }
    if text.contains('*') {
        return Err("a tool needs permissions by their whole names; `*` belongs to what an agent is granted".to_owned());
    }
    Ok(text.to_owned())
}

/// The name of an argument, which is any key that JSON can have.
fn argument(text: &str) -> Result<String, String> {
    if (1..=NAME_MAX_CHARS).contains(&text.chars().count()) {
        return Ok(text.to_owned());
    }
    Err(format!("expected the name of an argument, 1 to {NAME_MAX_CHARS} characters"))
}

fn sensitive(text: &str) -> Result<Sensitive, String> {
    if text.chars().count() > POINTER_MAX_CHARS {
        return Err(format!("longer than {POINTER_MAX_CHARS} characters"));
    }
    let pointer = Pointer::parse(text).map_err(|error| format!("{error}; expected a JSON pointer such as `/body`"))?;
    Ok(Sensitive { text: text.to_owned(), pointer })
}
