//! Repairs the schemas of evaluation sets that are not valid JSON Schema.

use mcpproxy_core::schema::Schema;
use serde_json::{Map, Value, json};

/// Returns the schema if it is valid, else with repaired types, else with the descriptions of its parameters only.
pub(super) fn mended(schema: &Value) -> Value {
    if is_usable(schema) {
        return schema.clone();
    }
    let mut typed = schema.clone();
    put_types_right(&mut typed);
    if is_usable(&typed) { typed } else { words_alone(schema) }
}

fn is_usable(schema: &Value) -> bool {
    schema.is_object() && Schema::inspect(&schema.to_string()).is_ok_and(|mistake| mistake.is_none())
}

/// Repairs a type: `float` is a type of programming languages, and `date (yyyy-mm-dd)` is a description.
fn put_types_right(schema: &mut Value) {
    match schema {
        Value::Object(fields) => {
            if let Some(Value::String(name)) = fields.get("type") {
                match known_type(name) {
                    Some(known) => fields.insert("type".to_owned(), json!(known)),
                    None => fields.remove("type"),
                };
            }
            fields.values_mut().for_each(put_types_right);
        }
        Value::Array(parts) => parts.iter_mut().for_each(put_types_right),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

fn known_type(name: &str) -> Option<&'static str> {
    match name {
        "string" | "str" | "enum" | "binary" => Some("string"),
        "integer" | "int" => Some("integer"),
        "number" | "float" | "double" => Some("number"),
        "boolean" | "bool" => Some("boolean"),
        "array" | "list" | "tuple" => Some("array"),
        "object" | "dict" => Some("object"),
        "null" => Some("null"),
        name if name.starts_with("date") || name.starts_with("time") => Some("string"),
        _ => None,
    }
}

fn words_alone(schema: &Value) -> Value {
    let mut kept = Map::new();
    for (name, parameter) in schema.get("properties").and_then(Value::as_object).into_iter().flatten() {
        let description = parameter.get("description").and_then(Value::as_str);
        kept.insert(name.clone(), description.map_or_else(|| json!({}), |text| json!({ "description": text })));
    }
    json!({ "type": "object", "properties": kept })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cannot_be_is_mended_and_nothing_else() {
        let check = |schema: Value, expected: Value| {
            assert_eq!(mended(&schema), expected, "{schema}");
            assert!(is_usable(&expected), "{expected}");
        };
        check(json!({}), json!({}));
        let odd_but_fine = json!({"type": "object", "properties": {"type": {"type": "string"}}, "optional": 1});
        check(odd_but_fine.clone(), odd_but_fine);
        check(
            json!({"type": "object", "properties": {"type": {"type": "str"}, "n": {"type": "float", "minimum": 1},
                "d": {"type": "date (yyyy-mm-dd)"}, "x": {"type": "any"}, "l": {"type": "tuple", "items": {"type": "int"}}}}),
            json!({"type": "object", "properties": {"type": {"type": "string"}, "n": {"type": "number", "minimum": 1},
                "d": {"type": "string"}, "x": {}, "l": {"type": "array", "items": {"type": "integer"}}}}),
        );
        check(
            json!({"type": "object", "properties": {"a": {"description": "An a", "$ref": "https://x.example/"}, "b": {}}}),
            json!({"type": "object", "properties": {"a": {"description": "An a"}, "b": {}}}),
        );
        check(json!("nothing"), json!({"type": "object", "properties": {}}));
    }
}
