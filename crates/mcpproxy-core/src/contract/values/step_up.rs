//! `stepUpAuth`: when an approval needs a fresh second factor.

use serde_json::{Value, json};

use super::condition::{self, Condition};
use super::schemas;
use crate::contract::StepUp;
use crate::file::{Node, NodeValue, Reader};

pub(in crate::contract) fn read(reader: &mut Reader<'_>, node: &Node) -> Option<StepUp> {
    let condition = match node.value {
        NodeValue::Bool(is_always) => Condition::of(is_always),
        NodeValue::Null
        | NodeValue::Number(_)
        | NodeValue::Text(_)
        | NodeValue::Array(_)
        | NodeValue::Object(_)
        | NodeValue::Broken => condition::read(reader, node, "boolean or object with `when`")?,
    };
    Some(match condition {
        Condition::Never => StepUp::Never,
        Condition::Matches(schema) => StepUp::When(schema),
        Condition::Always => StepUp::Always,
    })
}

pub(in crate::contract) fn to_json(step_up: &StepUp) -> Value {
    match step_up {
        StepUp::Never => false.into(),
        StepUp::When(schema) => condition::to_json(schema),
        StepUp::Always => true.into(),
    }
}

pub(in crate::contract) fn digest(step_up: &StepUp) -> Value {
    match step_up {
        StepUp::Never => false.into(),
        StepUp::When(schema) => schemas::digest_text(schema).into(),
        StepUp::Always => true.into(),
    }
}

pub(in crate::contract) fn schema() -> Value {
    json!({
        "type": ["boolean", "object"],
        "additionalProperties": false,
        "required": ["when"],
        "properties": condition::properties("needs a fresh second factor")
    })
}
