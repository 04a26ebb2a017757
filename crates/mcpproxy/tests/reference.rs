//! Compares the generated reference pages in `docs/reference/` with the code.
//!
//! `BLESS=1 cargo nextest run -p mcpproxy --test reference` writes them.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test that cannot continue stops"
)]

mod common;

#[path = "reference/command_line.rs"]
mod command_line;
#[path = "reference/error_codes.rs"]
mod error_codes;
#[path = "reference/rest.rs"]
mod rest;
#[path = "reference/settings.rs"]
mod settings;

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;

#[test]
fn the_command_line_page_is_current() {
    compare("command-line.md", &command_line::page());
}

#[test]
fn the_error_codes_page_is_current() {
    compare("error-codes.md", &error_codes::page());
}

#[test]
fn the_settings_page_is_current() {
    compare("settings.md", &settings::page(&docs_json("mcp_config.schema.json")));
}

#[test]
fn the_rest_page_is_current() {
    compare("rest.md", &rest::page(&docs_json("openapi.json")));
}

fn docs() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs")
}

/// Reads a generated JSON file, which has its own test.
fn docs_json(name: &str) -> Value {
    serde_json::from_str(&fs::read_to_string(docs().join(name)).unwrap()).unwrap()
}

fn compare(name: &str, page: &str) {
    let path = docs().join("reference").join(name);
    if std::env::var_os("BLESS").is_some() {
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, page).unwrap();
        return;
    }
    let current = fs::read_to_string(&path).unwrap_or_default();
    if current != page {
        let line = 1 + current.lines().zip(page.lines()).take_while(|(old, new)| old == new).count();
        panic!(
            "docs/reference/{name} is out of date from line {line}; run \
             `BLESS=1 cargo nextest run -p mcpproxy --test reference`"
        );
    }
}

/// Formats a Markdown table.
fn table(header: &[&str], rows: &[Vec<String>]) -> String {
    let line = |cells: &[String]| format!("| {} |\n", cells.join(" | "));
    let header: Vec<String> = header.iter().map(|&name| name.to_owned()).collect();
    let rule: Vec<String> = header.iter().map(|_| "---".to_owned()).collect();
    let rows: String = rows.iter().map(|row| line(row)).collect();
    format!("{}{}{rows}", line(&header), line(&rule))
}

/// Escapes text for a cell of a Markdown table.
fn cell(text: &str) -> String {
    text.replace('|', "\\|").replace('\n', " ")
}

/// Describes the type of a JSON Schema in a few words.
fn type_of(schema: &Value, link: &dyn Fn(&str) -> String) -> String {
    if let Some(reference) = schema.get("$ref").and_then(Value::as_str) {
        return link(reference);
    }
    for combination in ["oneOf", "anyOf"] {
        if let Some(choices) = schema.get(combination).and_then(Value::as_array) {
            let mut words: Vec<String> = choices.iter().map(|choice| type_of(choice, link)).collect();
            words.dedup();
            return words.join(" or ");
        }
    }
    if let Some(values) = schema.get("enum").and_then(Value::as_array) {
        return values.iter().map(|value| format!("`{}`", plain(value))).collect::<Vec<_>>().join(", ");
    }
    if let Some(value) = schema.get("const") {
        return format!("`{}`", plain(value));
    }
    let name = match schema.get("type") {
        Some(Value::String(name)) => name.clone(),
        Some(Value::Array(names)) => names.iter().filter_map(Value::as_str).collect::<Vec<_>>().join(" or "),
        _ => "any".to_owned(),
    };
    match (name.as_str(), schema.get("items"), schema.get("additionalProperties")) {
        ("array" | "array or null", Some(items), _) => format!("list of {}", type_of(items, link)),
        ("object", _, Some(values)) if values.is_object() => format!("object of {}", type_of(values, link)),
        _ => name,
    }
}

/// Formats a value without the quotation marks of a string.
fn plain(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

fn text<'v>(value: &'v Value, name: &str) -> &'v str {
    value.get(name).and_then(Value::as_str).unwrap_or_default()
}
