//! Keeps `${…}` that a client sends as it is from becoming a reference here.

use serde_json::Value;

use super::dialect;
use crate::settings::reference::escaped;

/// Keys whose values are searched for references.
const WITH_REFERENCES: [&str; 7] = ["command", "args", "env", "cwd", "env_file", "url", "headers"];

/// Escapes `${` in the definition of a server, wherever the client does not resolve it. `is_reference` gets the text
/// between `${` and `}`. Returns true if anything was escaped.
///
/// Codex sends `${file:key}` as eleven characters. Here it would read a file, and send its content to the server.
pub fn escape_references(definition: &mut Value, is_reference: &dyn Fn(&str) -> bool) -> bool {
    let Value::Object(members) = definition else { return false };
    let mut has_changed = false;
    for (key, value) in members {
        if WITH_REFERENCES.contains(&dialect::our_key(key)) {
            escape(value, is_reference, &mut has_changed);
        }
    }
    has_changed
}

fn escape(value: &mut Value, is_reference: &dyn Fn(&str) -> bool, has_changed: &mut bool) {
    match value {
        Value::String(text) => {
            let new = escaped(text, is_reference);
            *has_changed |= new != *text;
            *text = new;
        }
        Value::Array(values) => values.iter_mut().for_each(|value| escape(value, is_reference, has_changed)),
        Value::Object(members) => members.values_mut().for_each(|value| escape(value, is_reference, has_changed)),
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}
