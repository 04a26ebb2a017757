//! The curl example of an operation.

use serde_json::Value;

use super::{ADDRESS, Route, members, text};

pub(super) fn curl(route: &Route<'_>) -> String {
    let mut command = "curl -s".to_owned();
    let mut content = members(route.operation.pointer("/responses/200/content"));
    match content.next().map(|(kind, _)| kind) {
        // Without -N, curl buffers events.
        Some("text/event-stream") => command.push_str(" -N"),
        // With -f, curl reports errors and broken downloads in its exit code.
        Some("application/x-ndjson") => command.push_str(" -f -o activity.jsonl"),
        _ => {}
    }
    if route.method != "GET" {
        command.push_str(&format!(" -X {}", route.method));
    }
    if route.operation.get("security").is_some() {
        command.push_str(" -H \"X-API-Key: $MCPPROXY_KEY\"");
    }
    if let Some(example) = route.operation.pointer("/requestBody/content/application~1json/example") {
        command.push_str(&format!(" \\\n  -H 'Content-Type: application/json' -d '{example}'"));
    }
    format!("{command} \\\n  '{ADDRESS}{}'", target(route))
}

/// Builds the path and the query, with all parameters that have an example.
fn target(route: &Route<'_>) -> String {
    let mut path = route.path.to_owned();
    let mut query = Vec::new();
    for parameter in route.parameters() {
        let Some(example) = parameter.get("example").and_then(Value::as_str) else { continue };
        let (name, example) = (text(parameter, "name"), example.replace(' ', "+"));
        match text(parameter, "in") {
            "path" => path = path.replace(&format!("{{{name}}}"), &example),
            _ => query.push(format!("{name}={example}")),
        }
    }
    if query.is_empty() { path } else { format!("{path}?{}", query.join("&")) }
}
