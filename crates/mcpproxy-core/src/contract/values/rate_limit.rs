//! `rateLimit`: the most calls in a time span.

use serde_json::{Value, json};

use crate::contract::RateLimit;
use crate::file::amount::{DAY, duration_text};
use crate::file::{Keys, Node, Reader};

const CALLS_MAX: u32 = 100_000;

pub(in crate::contract) const KEYS: Keys = Keys {
    known: &["calls", "per"],
    advice: &[("limit", "did you mean `calls`?"), ("window", "did you mean `per`?"), ("period", "did you mean `per`?")],
};

pub(in crate::contract) fn read(reader: &mut Reader<'_>, node: &Node) -> Option<RateLimit> {
    let fields = reader.fields(node, &KEYS)?;
    let calls = reader.required(node, &fields, "calls", "the number of calls, such as `calls: 30`");
    let calls = calls.and_then(|node| reader.whole_number(node, 1..=CALLS_MAX));
    let per = reader.required(node, &fields, "per", "the time span, such as `per: 1m`");
    let per = per.and_then(|node| reader.duration(node, DAY, "24h"));
    Some(RateLimit { calls: calls?, per: per? })
}

pub(in crate::contract) fn to_json(limit: &RateLimit) -> Value {
    json!({"calls": limit.calls, "per": duration_text(limit.per)})
}

pub(in crate::contract) fn schema() -> Value {
    json!({
        "type": "object",
        "additionalProperties": false,
        "required": ["calls", "per"],
        "properties": {
            "calls": { "type": "integer", "minimum": 1, "maximum": CALLS_MAX, "description": "The most calls." },
            "per": { "$ref": "#/$defs/duration", "description": "The time span, from \"1s\" to \"24h\"." }
        }
    })
}
