//! Lists the members of a JSON schema: path, type and description.

use serde_json::Value;

use super::{elements, escape, members, prose, text};

/// Stops recursive schemas.
const DEPTH_MAX: usize = 5;

pub(super) fn list(document: &Value, schema: &Value) -> String {
    let mut rows = String::new();
    add(document, schema, "", 0, &mut rows);
    if rows.is_empty() { String::new() } else { format!("<dl>\n{rows}</dl>\n") }
}

fn add(document: &Value, schema: &Value, path: &str, depth: usize, rows: &mut String) {
    if depth > DEPTH_MAX {
        return;
    }
    let schema = resolved(document, schema);
    for part in elements(schema.get("allOf")) {
        add(document, part, path, depth + 1, rows);
    }
    for (name, member) in members(schema.get("properties")) {
        let path = if path.is_empty() { name.to_owned() } else { format!("{path}.{name}") };
        let inner = resolved(document, member);
        let about = Some(text(member, "description")).filter(|about| !about.is_empty());
        rows.push_str(&format!(
            "<dt><code>{}</code> <span class=\"type\">{}</span></dt><dd>{}{}</dd>\n",
            escape(&path).replace('.', ".<wbr>"),
            escape(&kind(inner)),
            prose(about.unwrap_or_else(|| text(inner, "description"))),
            limits(inner),
        ));
        match inner.get("items") {
            Some(element) => add(document, element, &format!("{path}[]"), depth + 1, rows),
            None => add(document, inner, &path, depth + 1, rows),
        }
    }
}

fn resolved<'a>(document: &'a Value, schema: &'a Value) -> &'a Value {
    let pointer = text(schema, "$ref").strip_prefix('#');
    pointer.and_then(|pointer| document.pointer(pointer)).unwrap_or(schema)
}

/// Formats a type: `string`, `integer or null`.
pub(super) fn kind(schema: &Value) -> String {
    let words = match schema.get("type") {
        Some(Value::String(word)) => vec![word.as_str()],
        Some(Value::Array(words)) => words.iter().filter_map(Value::as_str).collect(),
        _ => vec!["any"],
    };
    let words = words.join(" or ");
    if text(schema, "format") == "date-time" { words.replace("string", "time") } else { words }
}

/// Lists the allowed values.
pub(super) fn limits(schema: &Value) -> String {
    let choices: Vec<String> = elements(schema.get("enum"))
        .filter_map(Value::as_str)
        .map(|choice| format!("<code>{}</code>", escape(choice)))
        .collect();
    let number = |name: &str| schema.get(name).map(ToString::to_string);
    let mut limits = Vec::new();
    if !choices.is_empty() {
        limits.push(choices.join(" "));
    }
    if let (Some(min), Some(max)) = (number("minimum"), number("maximum")) {
        limits.push(format!("{min} to {max}"));
    }
    limits.extend(number("default").map(|default| format!("default {default}")));
    if limits.is_empty() { String::new() } else { format!("<span class=\"limits\">{}</span>", limits.join("; ")) }
}
