//! `{ when: … }`: a JSON Schema for arguments, which says when a requirement applies. `stepUpAuth` and `confirmation` have
//! one.

use std::sync::Arc;

use serde_json::{Value, json};

use super::schemas;
use crate::file::{Keys, Node, NodeValue, Reader};
use crate::schema::Schema;

pub(in crate::contract) const KEYS: Keys = Keys { known: &["when"], advice: &[("if", "did you mean `when`?")] };

/// The value of `when`.
pub(super) enum Condition {
    Never,
    Matches(Arc<Schema>),
    Always,
}

impl Condition {
    pub(super) fn of(is_always: bool) -> Self {
        if is_always { Self::Always } else { Self::Never }
    }
}

/// Reads an object with `when`. `expected` describes every form of the field, for the message about a wrong type.
pub(super) fn read(reader: &mut Reader<'_>, node: &Node, expected: &str) -> Option<Condition> {
    if !matches!(node.value, NodeValue::Object(_)) {
        return reader.wrong_type(node, expected);
    }
    let fields = reader.fields(node, &KEYS)?;
    let condition = reader.required(node, &fields, "when", "`when: true`, or a JSON Schema for the arguments")?;
    match &condition.value {
        NodeValue::Bool(is_always) => Some(Condition::of(*is_always)),
        NodeValue::Object(_) => schemas::read(reader, condition, &condition.to_json()?).map(Condition::Matches),
        NodeValue::Null | NodeValue::Number(_) | NodeValue::Text(_) | NodeValue::Array(_) | NodeValue::Broken => {
            reader.wrong_type(condition, "boolean or object (a JSON Schema)")
        }
    }
}

pub(super) fn to_json(schema: &Schema) -> Value {
    json!({"when": schemas::to_json(schema)})
}

/// Returns the property `when` of the published schema. `effect` ends the sentence "A call whose arguments match it …".
pub(super) fn properties(effect: &str) -> Value {
    let description = format!("true, false, or a JSON Schema. A call whose arguments match it {effect}.");
    json!({ "when": { "type": ["boolean", "object"], "description": description } })
}
