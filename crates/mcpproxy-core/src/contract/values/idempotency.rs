//! `idempotency`: what happens when a call is repeated.

use std::time::Duration;

use serde_json::{Value, json};

use super::{LIST_MAX, argument, one_place, one_place_schema};
use crate::contract::Idempotency;
use crate::file::amount::{DAY, duration_text};
use crate::file::{Fields, Keys, Node, NodeValue, Reader, words};

pub(in crate::contract) const TTL: Duration = DAY;
const TTL_MAX: Duration = Duration::from_secs(30 * 24 * 60 * 60);

pub(in crate::contract) const KEYS: Keys =
    Keys { known: &["mode", "keyFrom", "ttl", "validUntil"], advice: &[("key", "did you mean `keyFrom`?")] };

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum IdempotencyMode {
    None,
    Natural,
    Key,
}

const MODES: [(&str, IdempotencyMode); 3] =
    [("none", IdempotencyMode::None), ("natural", IdempotencyMode::Natural), ("key", IdempotencyMode::Key)];

pub(in crate::contract) fn read(reader: &mut Reader<'_>, node: &Node) -> Option<Idempotency> {
    if matches!(node.value, NodeValue::Text(_)) {
        return match reader.choice(node, &MODES)? {
            IdempotencyMode::None => Some(Idempotency::None),
            IdempotencyMode::Key => Some(Idempotency::Key { ttl: TTL }),
            IdempotencyMode::Natural => {
                reader.mistake(node.position, "`natural` needs `keyFrom`; write `{ mode: natural, keyFrom: [NAME] }`")
            }
        };
    }
    if !matches!(node.value, NodeValue::Object(_)) {
        return reader.wrong_type(node, "`none`, `key` or object with `mode`");
    }
    let fields = reader.fields(node, &KEYS)?;
    let mode = reader.required(node, &fields, "mode", "one of `none`, `natural`, `key`");
    let mode = mode.and_then(|mode| reader.choice(mode, &MODES));
    // All fields are read before any is used, so that every mistake is reported at once.
    let ttl = match fields.find("ttl") {
        Some(field) => reader.duration(&field.node, TTL_MAX, "30d"),
        None => Some(TTL),
    };
    let key_from = fields.find("keyFrom");
    let key_from = key_from.map(|field| reader.list(&field.node, LIST_MAX, |r, node| r.parsed(node, argument)));
    let valid_until = fields.find("validUntil").map(|field| reader.parsed(&field.node, one_place));
    match mode? {
        IdempotencyMode::None => {
            refuse(reader, &fields, &["keyFrom", "ttl", "validUntil"], "`none`; remove it")?;
            Some(Idempotency::None)
        }
        IdempotencyMode::Key => {
            refuse(reader, &fields, &["keyFrom", "validUntil"], "`key`; remove it, or write mode `natural`")?;
            Some(Idempotency::Key { ttl: ttl? })
        }
        IdempotencyMode::Natural => {
            let example = "the arguments that identify the result, such as `[fileId]`";
            let named = reader.required(node, &fields, "keyFrom", example)?;
            let key_from = key_from??;
            if key_from.is_empty() {
                return reader.mistake(named.position, "name at least one argument");
            }
            let valid_until = match valid_until {
                Some(read) => Some(read?),
                None => None,
            };
            Some(Idempotency::Natural { key_from, ttl: ttl?, valid_until })
        }
    }
}

/// Returns `None` if one of the fields is there, because the mode has no use for it.
fn refuse(reader: &mut Reader<'_>, fields: &Fields<'_>, names: &[&str], mode: &str) -> Option<()> {
    let written: Vec<_> = names.iter().filter_map(|name| fields.find(name)).collect();
    for field in &written {
        reader.report(field.position, format!("`{}` has no effect with mode {mode}", field.name));
    }
    written.is_empty().then_some(())
}

pub(in crate::contract) fn to_json(idempotency: &Idempotency) -> Value {
    match idempotency {
        Idempotency::None => json!({"mode": "none"}),
        Idempotency::Natural { key_from, ttl, valid_until } => {
            let mut shown = json!({"mode": "natural", "keyFrom": key_from, "ttl": duration_text(*ttl)});
            if let (Some(pointer), Some(fields)) = (valid_until, shown.as_object_mut()) {
                fields.insert("validUntil".to_owned(), pointer.as_str().into());
            }
            shown
        }
        Idempotency::Key { ttl } => json!({"mode": "key", "ttl": duration_text(*ttl)}),
    }
}

pub(in crate::contract) fn schema() -> Value {
    json!({
        "anyOf": [
            { "enum": ["none", "key"] },
            {
                "type": "object",
                "additionalProperties": false,
                "required": ["mode"],
                "properties": {
                    "mode": { "enum": words(&MODES).collect::<Vec<_>>(), "description": "`none`: a repeated call runs again, unless the agent sends an idempotency key. `natural`: the arguments in `keyFrom` are the idempotency key, and a repeat gets the first successful result again. `key`: the agent sends an idempotency key (`idempotency_key`), and a call with the same key runs once." },
                    "keyFrom": {
                        "type": "array", "minItems": 1, "maxItems": LIST_MAX, "uniqueItems": true,
                        "items": { "$ref": "#/$defs/argument" },
                        "description": "The arguments that make two calls the same; for mode `natural` only."
                    },
                    "ttl": { "$ref": "#/$defs/duration", "default": "24h", "description": "The time for which a result is kept for repeats, at most \"30d\"." },
                    "validUntil": valid_until_schema()
                },
                "allOf": [
                    { "if": { "properties": { "mode": { "const": "natural" } } }, "then": { "required": ["keyFrom"] }, "else": { "properties": { "keyFrom": false, "validUntil": false } } },
                    { "if": { "properties": { "mode": { "const": "none" } } }, "then": { "properties": { "ttl": false } } }
                ]
            }
        ]
    })
}

fn valid_until_schema() -> Value {
    let mut schema = one_place_schema();
    if let Some(fields) = schema.as_object_mut() {
        let about = "A JSON pointer to a time, such as `/expiresAt`, in the structured result or else in the arguments. \
                     A repeat after that time runs again, even before `ttl` has passed; for mode `natural` only.";
        fields.insert("description".to_owned(), about.into());
    }
    schema
}
