//! `inputSchema` and `outputSchema`, and the schemas inside other fields.

use std::sync::Arc;

use serde_json::{Value, json};

use crate::Untrusted;
use crate::contract::OutputSchema;
use crate::file::{Author, Node, NodeValue, Reader, to_object};
use crate::json::{canonical, read_server};
use crate::schema::Schema;

const EXPECTED: &str = "object (a JSON Schema)";

/// Reads `json`, the value of `node`, as a schema.
pub(super) fn read(reader: &mut Reader<'_>, node: &Node, json: &Value) -> Option<Arc<Schema>> {
    let text = json.to_string();
    let unusable = |why: &str| format!("unusable schema: {}", Untrusted::shortened(why, 400).for_terminal());
    // JSON from outside passes the strict reader, also when it was written as YAML.
    if let Err(error) = read_server(text.as_bytes()) {
        return reader.mistake(node.position, unusable(&error.kind.to_string()));
    }
    let schema = match reader.author {
        Author::Operator => Schema::parse(&text),
        // A server sends thousands of tools at once, and few of them are ever called.
        Author::Server => Schema::deferred(&text),
    };
    reader.checked(node, schema.map(Arc::new).map_err(|error| unusable(&error.to_string())))
}

pub(in crate::contract) fn read_input(reader: &mut Reader<'_>, node: &Node) -> Option<Arc<Schema>> {
    if !matches!(node.value, NodeValue::Object(_)) {
        return reader.wrong_type(node, EXPECTED);
    }
    read(reader, node, &node.to_json()?)
}

pub(in crate::contract) fn read_output(reader: &mut Reader<'_>, node: &Node) -> Option<OutputSchema> {
    let NodeValue::Object(members) = &node.value else { return reader.wrong_type(node, EXPECTED) };
    // `strict` is our own key, not a keyword of JSON Schema.
    let (strict, members): (Vec<_>, Vec<_>) = members.iter().partition(|member| member.name == "strict");
    let is_strict = strict.first().is_some_and(|member| reader.boolean(&member.node).unwrap_or(false));
    let schema = read(reader, node, &Value::Object(to_object(members)?))?;
    Some(OutputSchema { schema, is_strict })
}

/// Converts a schema to JSON. Its text was parsed when it came in, so it is valid.
pub(in crate::contract) fn to_json(schema: &Schema) -> Value {
    serde_json::from_str(schema.text()).unwrap_or(Value::Bool(true))
}

/// Converts an output schema to JSON, with `strict` inside the schema as in a file.
pub(in crate::contract) fn output_json(output: &OutputSchema) -> Value {
    let mut schema = to_json(&output.schema);
    if let (true, Some(fields)) = (output.is_strict, schema.as_object_mut()) {
        fields.insert("strict".to_owned(), true.into());
    }
    schema
}

/// Returns the text to hash. A parsed value would round large numbers.
pub(in crate::contract) fn digest_text(schema: &Schema) -> String {
    canonical(schema.text())
}

pub(in crate::contract) fn strict_schema() -> Value {
    json!({ "type": "boolean", "default": false, "description": "If true, the gateway replaces a result that does not match by an error. Otherwise, it adds a warning. This key is not part of the schema itself." })
}
