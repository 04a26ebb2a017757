//! Generates valid and invalid values for real schemas: `#[path = "data/values.rs"] mod values;`.

use serde_json::{Map, Value, json};

/// Returns a value that a schema probably admits.
pub(crate) fn sample(schema: &Value, root: &Value, depth: usize) -> Value {
    let first = |keyword: &str| schema.get(keyword).and_then(|list| list.get(0));
    if depth > 5 {
        return Value::Null;
    }
    if let Some(reference) = schema.get("$ref").and_then(Value::as_str) {
        let target = reference.strip_prefix('#').and_then(|pointer| root.pointer(pointer));
        return target.map_or(Value::Null, |target| sample(target, root, depth + 1));
    }
    if let Some(value) = schema.get("const").or(schema.get("default")).or(first("enum")) {
        return value.clone();
    }
    if let Some(branch) = first("anyOf").or(first("oneOf")).or(first("allOf")) {
        return sample(branch, root, depth + 1);
    }
    match schema.get("type").and_then(Value::as_str).or(first("type").and_then(Value::as_str)) {
        Some("string") => json!("abcdefgh"),
        Some("integer" | "number") => schema.get("minimum").cloned().unwrap_or(json!(7)),
        Some("boolean") => json!(true),
        Some("array") => json!([schema.get("items").map_or(Value::Null, |items| sample(items, root, depth + 1))]),
        Some("object") => {
            let properties = schema.get("properties").and_then(Value::as_object);
            let members = properties.into_iter().flatten();
            members.map(|(name, schema)| (name.clone(), sample(schema, root, depth + 1))).collect()
        }
        _ => Value::Null,
    }
}

/// Returns the value, and copies in which a top-level property is missing, of another type, or unknown.
pub(crate) fn mistaken(value: &Value) -> Vec<Value> {
    let mut all = vec![value.clone(), json!({}), json!([value.clone()])];
    for name in value.as_object().map(|members| members.keys().take(4)).into_iter().flatten() {
        let without: Map<String, Value> = value
            .as_object()
            .into_iter()
            .flatten()
            .filter(|(key, _)| *key != name)
            .map(|(k, v)| (k.clone(), v.clone()))
            .collect();
        let with = |name: &str, value: Value| {
            let mut members = without.clone();
            members.insert(name.to_owned(), value);
            Value::Object(members)
        };
        all.extend([with(name, json!(1.5)), with(name, json!("")), with(name, json!([])), with("unknown", json!(1))]);
        all.push(Value::Object(without));
    }
    all
}
