//! The schemas of real tools: all of them are usable, and what of them is not checked is known.

#[path = "data/tools.rs"]
mod tools;

use std::time::{Duration, Instant};

use mcpproxy_core::schema::Schema;
use mcpproxy_core::{Offered, ServerName};
use serde_json::{Map, Value, json};

/// Look-ahead, which only a backtracking engine runs.
const UNCHECKED: [&str; 3] = [
    "dynatrace-oss-dynatrace-mcp-server:send_email /properties/toRecipients/items/pattern",
    "dynatrace-oss-dynatrace-mcp-server:send_email /properties/ccRecipients/items/pattern",
    "dynatrace-oss-dynatrace-mcp-server:send_email /properties/bccRecipients/items/pattern",
];

#[test]
fn every_real_schema_is_used() {
    let began = Instant::now();
    let (mut tools, mut schemas, mut unchecked) = (0, 0, Vec::new());
    for list in tools::lists() {
        let server = ServerName::parse(&list.server.replace('.', "-")).unwrap();
        for json in &list.tools {
            let tool = Offered::parse(&server, json).unwrap_or_else(|error| panic!("{server} {error:?}"));
            tools += 1;
            for field in ["inputSchema", "outputSchema"] {
                let Some(text) = tool.field(field) else { continue };
                let schema = Schema::of_server(text).unwrap_or_else(|error| panic!("{} {field}: {error}", tool.name));
                schemas += 1;
                unchecked.extend(schema.unchecked().iter().map(|pointer| format!("{} {pointer}", tool.name)));
            }
        }
    }
    assert_eq!((tools, schemas), (3_004, 3_741));
    assert_eq!(unchecked, UNCHECKED);
    assert!(began.elapsed() < Duration::from_secs(30), "{:?}", began.elapsed());
}

/// Our walk and the library agree on values made for each real schema, and on those values with one mistake in them.
#[test]
fn the_library_agrees_on_real_schemas() {
    let (mut fitting, mut not_fitting) = (0, 0);
    for json in tools::lists().iter().flat_map(|list| &list.tools) {
        let tool: Value = serde_json::from_str(json).unwrap();
        for schema in ["inputSchema", "outputSchema"].iter().filter_map(|field| tool.get(*field)) {
            let ours = Schema::of_server(&schema.to_string()).unwrap();
            if !ours.unchecked().is_empty() {
                continue;
            }
            let engine = jsonschema::PatternOptions::regex();
            let options = jsonschema::options().with_pattern_options(engine).should_validate_formats(false);
            let theirs = options.build(schema).unwrap();
            for value in mistaken(&sample(schema, schema, 0)) {
                let admitted = ours.admits(&value);
                assert_eq!(admitted, theirs.is_valid(&value), "{} {value}", tool["name"]);
                assert_eq!(admitted, ours.check(&value).is_ok());
                *(if admitted { &mut fitting } else { &mut not_fitting }) += 1;
            }
        }
    }
    assert!(fitting > 5_000 && not_fitting > 10_000, "{fitting} {not_fitting}");
}

/// A value that a schema may well admit.
fn sample(schema: &Value, root: &Value, depth: usize) -> Value {
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

/// The value, and the value with each property of its top gone, of another type, or unknown.
fn mistaken(value: &Value) -> Vec<Value> {
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
