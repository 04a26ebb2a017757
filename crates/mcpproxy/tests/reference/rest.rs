//! The REST API, from the OpenAPI document.

use serde_json::Value;

use crate::{cell, table, text, type_of};

const INTRODUCTION: &str = "\
# REST API

This page is generated from the OpenAPI document (`GET /api/v1/openapi.json`, `docs/openapi.json`).

The commands of `mcpproxy` use the same API. A running gateway shows this page at `/api/v1/docs`. For errors, see
[Error codes](error-codes.md).
";

pub(crate) fn page(document: &Value) -> String {
    let mut page = INTRODUCTION.to_owned();
    for (path, methods) in members(document, "paths") {
        for (method, endpoint) in methods.as_object().unwrap() {
            page.push_str(&section(document, &method.to_uppercase(), path, endpoint));
        }
    }
    page.push_str("\n## Objects\n");
    for (name, schema) in members(document.get("components").unwrap(), "schemas") {
        page.push_str(&object(name, schema));
    }
    page
}

fn section(document: &Value, method: &str, path: &str, endpoint: &Value) -> String {
    let mut out = format!("\n## {method} {path}\n\n{}\n", sentence(text(endpoint, "summary")));
    let description = text(endpoint, "description");
    if !description.is_empty() && description != text(endpoint, "summary") {
        out.push_str(&format!("\n{description}\n"));
    }
    out.push_str(&format!("\nAccess: {}\n", access(document, endpoint)));
    let parameters: Vec<Vec<String>> = list(endpoint, "parameters")
        .iter()
        .map(|parameter| {
            let is_required = parameter.get("required").and_then(Value::as_bool).unwrap_or_default();
            vec![
                format!("`{}`", text(parameter, "name")),
                text(parameter, "in").to_owned(),
                cell(&type_of(parameter.get("schema").unwrap_or(&Value::Null), &link)),
                if is_required { "yes" } else { "no" }.to_owned(),
                cell(text(parameter, "description")),
            ]
        })
        .collect();
    if !parameters.is_empty() {
        out.push_str(&format!("\n{}", table(&["parameter", "in", "type", "required", "description"], &parameters)));
    }
    if let Some(body) = endpoint.get("requestBody") {
        out.push_str(&format!("\nBody: {}\n", content(body)));
    }
    let answers: Vec<Vec<String>> = members(endpoint, "responses")
        .into_iter()
        .map(|(status, answer)| vec![status.clone(), content(answer), cell(text(answer, "description"))])
        .collect();
    out + &format!("\n{}", table(&["status", "answer", "description"], &answers))
}

/// Names the credentials that open an endpoint.
fn access(document: &Value, endpoint: &Value) -> String {
    let schemes = document.pointer("/components/securitySchemes").unwrap_or(&Value::Null);
    let names: Vec<String> = list(endpoint, "security")
        .iter()
        .filter_map(Value::as_object)
        .map(|together| {
            let each = together.keys().map(|name| {
                let description = schemes.get(name).map(|scheme| text(scheme, "description")).unwrap_or_default();
                if description.is_empty() {
                    format!("`{name}`")
                } else {
                    format!("`{name}` ({})", description.trim_end_matches('.'))
                }
            });
            each.collect::<Vec<_>>().join(" and ")
        })
        .collect();
    if names.is_empty() { "everyone".to_owned() } else { names.join(", or ") }
}

/// Names the media types of a body and the objects in them.
fn content(body: &Value) -> String {
    let kinds: Vec<String> = members(body, "content")
        .into_iter()
        .map(|(kind, media)| match media.get("schema") {
            Some(schema) if kind == "application/json" => type_of(schema, &link),
            _ => format!("`{kind}`"),
        })
        .collect();
    if kinds.is_empty() { "-".to_owned() } else { kinds.join(" or ") }
}

fn object(name: &str, schema: &Value) -> String {
    let required: Vec<&str> = list(schema, "required").iter().filter_map(Value::as_str).collect();
    let rows: Vec<Vec<String>> = members(schema, "properties")
        .into_iter()
        .map(|(field, value)| {
            let is_optional = if required.contains(&field.as_str()) { "" } else { ", optional" };
            let kind = format!("{}{is_optional}", type_of(value, &link));
            vec![format!("`{field}`"), cell(&kind), cell(text(value, "description"))]
        })
        .collect();
    let description = text(schema, "description");
    let description = if description.is_empty() { String::new() } else { format!("\n{description}\n") };
    let fields = match rows.is_empty() {
        true => format!("{}\n", type_of(schema, &link)),
        false => table(&["field", "type", "description"], &rows),
    };
    format!("\n### {name}\n{description}\n{fields}")
}

fn link(reference: &str) -> String {
    let name = reference.rsplit('/').next().unwrap_or_default();
    format!("[{name}](#{})", name.to_lowercase())
}

fn sentence(summary: &str) -> String {
    if summary.ends_with('.') { summary.to_owned() } else { format!("{summary}.") }
}

fn members<'v>(value: &'v Value, name: &str) -> Vec<(&'v String, &'v Value)> {
    value.get(name).and_then(Value::as_object).map(|all| all.iter().collect()).unwrap_or_default()
}

fn list<'v>(value: &'v Value, name: &str) -> &'v [Value] {
    value.get(name).and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default()
}
