//! The parameters of a tool, as a table, and example arguments for a form.

use serde_json::{Map, Value};

use super::one::LongText;
use crate::visible::{Visible, json_escapes};

/// Rows of the table. The raw schema has the others.
const ROWS_MAX: usize = 60;
const SCHEMA_MAX_CHARS: usize = 20_000;
const EXAMPLE_DEPTH: usize = 3;
/// Longer examples are replaced by empty ones.
const EXAMPLE_MAX_BYTES: usize = 2_000;

pub(crate) struct Parameters {
    pub(crate) rows: Vec<Parameter>,
    pub(crate) left_out: usize,
    /// The schema as the server wrote it, or its beginning.
    pub(crate) schema: Visible,
    pub(crate) is_cut: bool,
}

pub(crate) struct Parameter {
    pub(crate) name: Visible,
    pub(crate) kind: Visible,
    pub(crate) is_required: bool,
    pub(crate) description: LongText,
}

impl Parameters {
    pub(crate) fn of(schema: &Value) -> Self {
        let properties = schema.get("properties").and_then(Value::as_object);
        let count = properties.map_or(0, Map::len);
        let required = required(schema);
        let rows = properties.into_iter().flatten().take(ROWS_MAX);
        let text = serde_json::to_string_pretty(schema).unwrap_or_default();
        let shown: String = text.chars().take(SCHEMA_MAX_CHARS).collect();
        Self {
            rows: rows.map(|(name, schema)| Parameter::new(name, schema, required.contains(&name.as_str()))).collect(),
            left_out: count.saturating_sub(ROWS_MAX),
            is_cut: shown.len() < text.len(),
            schema: Visible::lines(&shown),
        }
    }
}

impl Parameter {
    fn new(name: &str, schema: &Value, is_required: bool) -> Self {
        let description = schema.get("description").and_then(Value::as_str).unwrap_or_default();
        let name: String = name.chars().take(128).collect();
        Self {
            name: Visible::of(&name),
            kind: Visible::of(&kind(schema)),
            is_required,
            description: LongText::new(description),
        }
    }
}

/// Words the type: `string`, `array of string`, `one of "a", "b"`.
fn kind(schema: &Value) -> String {
    const SHOWN_MAX: usize = 8;
    let text = if let Some(choices) = schema.get("enum").and_then(Value::as_array) {
        let shown: Vec<String> = choices.iter().take(SHOWN_MAX).map(Value::to_string).collect();
        let more = if choices.len() > SHOWN_MAX { ", …" } else { "" };
        format!("one of {}{more}", shown.join(", "))
    } else {
        match (schema.get("type"), schema.get("items").map(kind)) {
            (Some(Value::String(word)), Some(items)) if word == "array" => format!("array of {items}"),
            (Some(Value::String(word)), _) => word.clone(),
            (Some(Value::Array(words)), _) => words.iter().filter_map(Value::as_str).collect::<Vec<_>>().join(" or "),
            _ => "any".to_owned(),
        }
    };
    text.chars().take(200).collect()
}

fn required(schema: &Value) -> Vec<&str> {
    let names = schema.get("required").and_then(Value::as_array);
    names.into_iter().flatten().filter_map(Value::as_str).collect()
}

/// Returns arguments with every required parameter, for a user to fill in.
pub(crate) fn example(schema: &Value) -> String {
    let text = serde_json::to_string_pretty(&object(schema, 0)).unwrap_or_default();
    json_escapes(if text.len() > EXAMPLE_MAX_BYTES { "{}" } else { &text })
}

fn object(schema: &Value, depth: usize) -> Value {
    let Some(properties) = schema.get("properties").and_then(Value::as_object) else {
        return Value::Object(Map::new());
    };
    let required = required(schema);
    let wanted = properties.iter().filter(|(name, _)| required.contains(&name.as_str())).take(ROWS_MAX);
    Value::Object(wanted.map(|(name, schema)| (name.clone(), value(schema, depth + 1))).collect())
}

fn value(schema: &Value, depth: usize) -> Value {
    let first = |name: &str| schema.get(name).and_then(Value::as_array).and_then(|values| values.first());
    let written = schema.get("default").or(schema.get("const")).or(first("enum")).or(first("examples"));
    if let Some(written) = written {
        return written.clone();
    }
    match schema.get("type").and_then(Value::as_str) {
        Some("integer" | "number") => schema.get("minimum").cloned().unwrap_or_else(|| 0.into()),
        Some("boolean") => false.into(),
        Some("array") => Value::Array(Vec::new()),
        Some("object") if depth < EXAMPLE_DEPTH => object(schema, depth),
        Some("object") => Value::Object(Map::new()),
        Some("null") => Value::Null,
        _ => "".into(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn examples_have_what_is_required() {
        let check = |schema: Value, expected: Value| {
            assert_eq!(serde_json::from_str::<Value>(&example(&schema)).unwrap(), expected, "{schema}");
        };
        check(json!({}), json!({}));
        check(json!({"properties": {"a": {"type": "string"}}}), json!({}));
        let all = json!({"required": ["a", "b", "c", "d", "e", "f", "gone"], "properties": {
            "a": {"type": "string"}, "b": {"type": "integer", "minimum": 3}, "c": {"enum": ["x", "y"]},
            "d": {"type": "array", "items": {"type": "string"}}, "e": {"type": "boolean"},
            "f": {"type": "object", "required": ["g"], "properties": {"g": {"default": "\u{202E}"}}}, "h": {},
        }});
        check(all, json!({"a": "", "b": 3, "c": "x", "d": [], "e": false, "f": {"g": "\u{202E}"}}));
        assert!(example(&json!({"required": ["g"], "properties": {"g": {"default": "\u{202E}"}}})).contains("\\u202e"));
        let large = json!({"required": ["g"], "properties": {"g": {"default": "x".repeat(5_000)}}});
        check(large, json!({}));
    }

    #[test]
    fn types_in_words() {
        let check = |schema: Value, expected: &str| assert_eq!(kind(&schema), expected, "{schema}");
        check(json!({"type": "array", "items": {"type": "string"}}), "array of string");
        check(json!({"type": ["string", "null"]}), "string or null");
        check(json!({"enum": ["a", 1]}), "one of \"a\", 1");
        check(json!(true), "any");
    }
}
