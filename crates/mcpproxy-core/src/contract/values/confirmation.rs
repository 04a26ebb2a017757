//! `confirmation`: when a user has to approve a call.

use serde_json::{Value, json};

use super::condition::{self, Condition};
use super::schemas;
use crate::contract::Confirmation;
use crate::file::{Node, NodeValue, Reader};

const NONE: &str = "none";
const REQUIRED: &str = "required";
const EXPECTED: &str = "`none`, `required` or object with `when`";

pub(in crate::contract) fn read(reader: &mut Reader<'_>, node: &Node) -> Option<Confirmation> {
    if matches!(node.value, NodeValue::Text(_)) {
        let is_required = reader.choice(node, &[(NONE, false), (REQUIRED, true)])?;
        return Some(if is_required { Confirmation::Required } else { Confirmation::None });
    }
    Some(match condition::read(reader, node, EXPECTED)? {
        Condition::Never => Confirmation::None,
        Condition::Matches(schema) => Confirmation::When(schema),
        Condition::Always => Confirmation::Required,
    })
}

pub(in crate::contract) fn to_json(confirmation: &Confirmation) -> Value {
    match confirmation {
        Confirmation::None => NONE.into(),
        Confirmation::When(schema) => condition::to_json(schema),
        Confirmation::Required => REQUIRED.into(),
    }
}

/// A condition is an object as text, so it never equals one of the two words.
pub(in crate::contract) fn digest(confirmation: &Confirmation) -> Value {
    match confirmation {
        Confirmation::None => NONE.into(),
        Confirmation::When(schema) => schemas::digest_text(schema).into(),
        Confirmation::Required => REQUIRED.into(),
    }
}

pub(in crate::contract) fn schema() -> Value {
    json!({
        "anyOf": [
            { "enum": [NONE, REQUIRED] },
            {
                "type": "object",
                "additionalProperties": false,
                "required": ["when"],
                "properties": condition::properties("needs a user's approval")
            }
        ]
    })
}
