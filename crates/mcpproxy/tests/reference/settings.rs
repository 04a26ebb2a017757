//! Settings, from their JSON Schema.

use serde_json::Value;

use crate::{cell, plain, table, text, type_of};

const INTRODUCTION: &str = "\
# Settings

This page is generated from the JSON Schema of the settings (`mcpproxy config schema`).

The settings are `mcp_config.json` in the data folder. Comments and trailing commas are allowed. Check the file with
`mcpproxy config check`.
";

pub(crate) fn page(schema: &Value) -> String {
    let mut page = INTRODUCTION.to_owned();
    let (mut top, mut sections) = (Vec::new(), Vec::new());
    for (key, value) in properties(schema) {
        if key == "mcpServers" || !properties(value).is_empty() {
            sections.push((key, value));
        } else {
            top.push(row(schema, key, value));
        }
    }
    page.push_str(&format!("\n## Top level\n\n{}", table(&HEADER, &top)));
    for (key, value) in sections {
        page.push_str(&format!("\n## `{key}`\n\n{}\n\n", text(value, "description")));
        let mut rows = Vec::new();
        if let Some(each) = value.get("additionalProperties").filter(|each| each.is_object()) {
            page.push_str("`NAME` is the name of the server.\n\n");
            collect(schema, &format!("{key}.NAME"), resolve(schema, each), &mut rows);
        } else {
            collect(schema, key, value, &mut rows);
        }
        page.push_str(&table(&HEADER, &rows));
    }
    page
}

const HEADER: [&str; 4] = ["key", "type", "default", "description"];

/// Adds a row for each setting below `path`.
fn collect(schema: &Value, path: &str, value: &Value, rows: &mut Vec<Vec<String>>) {
    for (key, below) in properties(value) {
        let path = format!("{path}.{key}");
        let resolved = resolve(schema, below);
        if properties(resolved).is_empty() {
            rows.push(row(schema, &path, below));
        } else {
            collect(schema, &path, resolved, rows);
        }
    }
}

fn row(schema: &Value, path: &str, value: &Value) -> Vec<String> {
    let resolved = resolve(schema, value);
    let find = |name: &str| value.get(name).or_else(|| resolved.get(name));
    let default = match find("default") {
        Some(default) => format!("`{}`", cell(&default.to_string())),
        None => String::new(),
    };
    let description = find("description").map(plain).unwrap_or_default();
    let kind = type_of(resolved, &|reference| type_of(definition(schema, reference), &|_| "object".to_owned()));
    vec![format!("`{path}`"), cell(&kind), default, cell(&description)]
}

fn properties(schema: &Value) -> Vec<(&String, &Value)> {
    schema.get("properties").and_then(Value::as_object).map(|all| all.iter().collect()).unwrap_or_default()
}

fn resolve<'v>(schema: &'v Value, value: &'v Value) -> &'v Value {
    value.get("$ref").and_then(Value::as_str).map_or(value, |reference| definition(schema, reference))
}

fn definition<'v>(schema: &'v Value, reference: &str) -> &'v Value {
    schema.pointer(reference.trim_start_matches('#')).unwrap_or(&Value::Null)
}
