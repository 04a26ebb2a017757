//! Walks through a definition and hands each string to the check for its place.

use std::collections::HashSet;

use serde_json::Value;

use super::quote::visible;
use super::text::Scanner;
use super::{Finding, Severity};
use super::{hints, parameters};

/// Members of schemas that give a parameter its values.
const VALUES: [&str; 6] = ["default", "const", "enum", "examples", "example", "pattern"];
/// Members whose strings are keywords of JSON Schema or names from elsewhere in the definition.
const KEYWORDS: [&str; 11] = [
    "taskSupport",
    "type",
    "$schema",
    "$ref",
    "$id",
    "format",
    "required",
    "name",
    "uri",
    "mimeType",
    "contentEncoding",
];
/// Nested deeper than this, a definition is refused elsewhere.
const DEPTH_MAX: usize = 64;

/// Returns the names that a text of the definition may use for itself: the tool and its parameters.
pub(super) fn own_names(definition: &Value) -> HashSet<String> {
    let mut names = HashSet::new();
    if let Some(name) = definition.get("name").and_then(Value::as_str) {
        let name = name.to_lowercase();
        // Tools of one server often start with its name. A verb is no such name.
        let family = name.split_once(['_', '-']).map(|(family, _)| family).filter(|family| !hints::is_verb(family));
        names.extend(family.map(|family| format!("{family}_")));
        names.insert(name);
    }
    for schema in ["inputSchema", "outputSchema"] {
        if let Some(schema) = definition.get(schema) {
            add_parameters(schema, &mut names, 0);
        }
    }
    for argument in definition.get("arguments").and_then(Value::as_array).into_iter().flatten() {
        names.extend(argument.get("name").and_then(Value::as_str).map(str::to_lowercase));
    }
    names
}

fn add_parameters(schema: &Value, names: &mut HashSet<String>, depth: usize) {
    if depth > DEPTH_MAX {
        return;
    }
    match schema {
        Value::Object(members) => {
            for (key, value) in members {
                if key == "properties" {
                    names.extend(
                        value.as_object().into_iter().flat_map(|members| members.keys()).map(|n| n.to_lowercase()),
                    );
                }
                add_parameters(value, names, depth + 1);
            }
        }
        Value::Array(elements) => elements.iter().for_each(|element| add_parameters(element, names, depth + 1)),
        // Values such as `sort_by: created_at` are code, and no names of other tools.
        Value::String(value) if depth > 0 && value.len() < 64 && value.contains('_') => {
            names.insert(value.to_lowercase());
        }
        _ => {}
    }
}

/// Where the walk is.
#[derive(Clone, Copy)]
struct Spot<'a> {
    /// The member that holds the value.
    key: &'a str,
    /// The parameter that the schema describes.
    parameter: &'a str,
    depth: usize,
}

/// Scans every string of the definition.
pub(super) fn walk(definition: &Value, scanner: &mut Scanner<'_>) {
    let mut place = String::new();
    visit(definition, Spot { key: "", parameter: "", depth: 0 }, &mut place, scanner);
}

fn visit(value: &Value, spot: Spot<'_>, place: &mut String, scanner: &mut Scanner<'_>) {
    if spot.depth > DEPTH_MAX {
        return;
    }
    match value {
        Value::String(text) => string(text, spot, place, scanner),
        Value::Array(elements) => {
            for (index, element) in elements.iter().enumerate() {
                below(place, &index.to_string(), |place| {
                    visit(element, Spot { depth: spot.depth + 1, ..spot }, place, scanner);
                });
            }
        }
        Value::Object(members) => {
            let is_parameters = spot.key == "properties";
            for (key, member) in members {
                let parameter = if is_parameters { key.as_str() } else { spot.parameter };
                // A parameter may be called `type` or `default`.
                let next = if is_parameters || (is_value(spot.key) && member.is_string()) {
                    if is_parameters { "" } else { spot.key }
                } else {
                    key.as_str()
                };
                below(place, key, |place| {
                    self::key(key, place, scanner);
                    visit(member, Spot { key: next, parameter, depth: spot.depth + 1 }, place, scanner);
                });
            }
            if let Some(parameters) = members.get("properties").and_then(Value::as_object) {
                let required = members.get("required").and_then(Value::as_array);
                for (name, schema) in parameters {
                    let is_required =
                        required.is_some_and(|names| names.iter().any(|other| other.as_str() == Some(name)));
                    let description = schema.get("description").map(|text| text.as_str().unwrap_or_default());
                    below(place, "properties", |place| {
                        below(place, name, |place| {
                            parameters::scan_name(name, is_required, description, place, &mut scanner.findings);
                        });
                    });
                }
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

fn is_value(key: &str) -> bool {
    VALUES.contains(&key)
}

fn string(text: &str, spot: Spot<'_>, place: &str, scanner: &mut Scanner<'_>) {
    if is_value(spot.key) {
        parameters::scan_value(spot.parameter, spot.key, text, place, &mut scanner.findings);
        scanner.value(text, place);
    } else if KEYWORDS.contains(&spot.key) && !text.contains(' ') {
        scanner.characters(text, place);
    } else {
        scanner.prose(text, place);
    }
}

/// Finds a required parameter that only the description explains, while others have descriptions of their own. That is
/// how a parameter looks that was added to a finished tool.
pub(super) fn undocumented(definition: &Value, findings: &mut Vec<Finding>) {
    let Some(schema) = definition.get("inputSchema") else { return };
    let (Some(parameters), Some(required), Some(text)) = (
        schema.get("properties").and_then(Value::as_object),
        schema.get("required").and_then(Value::as_array),
        definition.get("description").and_then(Value::as_str),
    ) else {
        return;
    };
    let is_described = |name: &str| parameters.get(name).is_some_and(|schema| schema.get("description").is_some());
    if !parameters.keys().any(|name| is_described(name)) {
        return;
    }
    for name in required.iter().filter_map(Value::as_str).filter(|name| !is_described(name)) {
        if text.contains(&format!("`{name}`")) {
            let reason = format!("The required parameter `{}` has no description of its own.", visible(name));
            let place = format!("inputSchema/properties/{name}");
            findings.push(Finding { rule: "undocumented-parameter", severity: Severity::Medium, place, reason });
        }
    }
}

/// A name of a member is text that the model reads, too.
fn key(key: &str, place: &str, scanner: &mut Scanner<'_>) {
    if key.contains(' ') {
        scanner.prose(key, place);
    } else {
        scanner.characters(key, place);
    }
}

/// Runs with the place of a member, as a JSON pointer without the leading slash.
fn below(place: &mut String, key: &str, run: impl FnOnce(&mut String)) {
    let length = place.len();
    if length > 0 {
        place.push('/');
    }
    place.push_str(&key.replace('~', "~0").replace('/', "~1"));
    run(place);
    place.truncate(length);
}
