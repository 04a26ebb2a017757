//! `stepUpAuth`: when an approval needs a fresh second factor.

use serde_json::{Value, json};

use super::schemas;
use crate::contract::StepUp;
use crate::file::{Keys, Node, NodeValue, Reader};

pub(in crate::contract) const KEYS: Keys = Keys { known: &["when"], advice: &[("if", "did you mean `when`?")] };

pub(in crate::contract) fn read(reader: &mut Reader<'_>, node: &Node) -> Option<StepUp> {
    if let NodeValue::Bool(always) = node.value {
        return Some(when(always));
    }
    if !matches!(node.value, NodeValue::Object(_)) {
        return reader.wrong_type(node, "boolean or object with `when`");
    }
    let fields = reader.fields(node, &KEYS)?;
    let condition = reader.required(node, &fields, "when", "`when: true`, or a JSON Schema for the arguments")?;
    match &condition.value {
        NodeValue::Bool(always) => Some(when(*always)),
        NodeValue::Object(_) => schemas::read(reader, condition, &condition.to_json()?).map(StepUp::When),
        NodeValue::Null | NodeValue::Number(_) | NodeValue::Text(_) | NodeValue::Array(_) | NodeValue::Broken => {
            reader.wrong_type(condition, "boolean or object (a JSON Schema)")
        }
    }
}

fn when(always: bool) -> StepUp {
    if always { StepUp::Always } else { StepUp::Never }
}

pub(in crate::contract) fn to_json(step_up: &StepUp) -> Value {
    match step_up {
        StepUp::Never => false.into(),
        StepUp::When(schema) => json!({"when": schemas::to_json(schema)}),
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
        "properties": {
            "when": { "type": ["boolean", "object"], "description": "true, false, or a JSON Schema. A call whose arguments match it needs a fresh second factor." }
        }
    })
}
