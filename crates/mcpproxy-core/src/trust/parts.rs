//! Cuts a definition into texts with readable places, so that each can be read and compared by itself.
//!
//! `{"inputSchema": {"properties": {"to": {"description": "…"}}}}` has one text, at `parameter to`, `description`. Every
//! value of the definition is in one of the parts: what a model may read, a reviewer must see.

use crate::json::{canonical, members, string_value};
use serde_json::value::RawValue;

/// One value of a definition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Part {
    /// The keys and indexes that lead to the value.
    pub path: Vec<String>,
    /// The thing that the value describes, such as `parameter to`. Empty for the definition itself.
    pub owner: String,
    pub field: String,
    /// The text of a string, and the JSON of everything else.
    pub text: String,
    /// The JSON in canonical form. It differs between `"1"` and `1`, whose texts are the same.
    pub json: String,
}

/// Cuts a definition into parts, in the order in which the server wrote them.
pub fn parts(json: &str) -> Vec<Part> {
    let mut parts = Vec::new();
    add(&mut Vec::new(), json, &mut parts);
    parts
}

fn add(path: &mut Vec<String>, json: &str, parts: &mut Vec<Part>) {
    let json = json.trim();
    match json.bytes().next() {
        Some(b'{') => match members(json).filter(|members| !members.is_empty()) {
            Some(members) => {
                for (key, value) in members {
                    path.push(key.into_owned());
                    add(path, value, parts);
                    path.pop();
                }
            }
            None => parts.push(part(path, json, json.to_owned())),
        },
        Some(b'[') => {
            let elements: Vec<&RawValue> = serde_json::from_str(json).unwrap_or_default();
            let is_flat = elements.iter().all(|element| !element.get().starts_with(['{', '[']));
            if is_flat {
                let texts: Vec<String> = elements.iter().map(|element| text_of(element.get())).collect();
                let text = if texts.is_empty() { json.to_owned() } else { texts.join(", ") };
                parts.push(part(path, json, text));
                return;
            }
            let names = names(&elements);
            for (index, element) in elements.iter().enumerate() {
                let name = names.as_ref().and_then(|names| names.get(index).cloned());
                path.push(name.unwrap_or_else(|| index.to_string()));
                add(path, element.get(), parts);
                path.pop();
            }
        }
        _ => parts.push(part(path, json, text_of(json))),
    }
}

fn text_of(json: &str) -> String {
    string_value(json).map_or_else(|| json.to_owned(), Into::into)
}

/// Returns the names of elements that have one each, such as the arguments of a prompt. A new element then does not
/// shift the others.
fn names(elements: &[&RawValue]) -> Option<Vec<String>> {
    let name = |element: &&RawValue| {
        let members = members(element.get())?;
        let (_, name) = members.into_iter().find(|(key, _)| key == "name")?;
        Some(string_value(name)?.into())
    };
    let names: Vec<String> = elements.iter().map(name).collect::<Option<_>>()?;
    let distinct: std::collections::HashSet<&String> = names.iter().collect();
    (distinct.len() == names.len()).then_some(names)
}

fn part(path: &[String], json: &str, text: String) -> Part {
    let (owner, field) = place(path);
    Part { path: path.to_vec(), owner, field, text, json: canonical(json) }
}

/// Words a path: the thing that is described, and the field of it.
fn place(path: &[String]) -> (String, String) {
    let (Some(first), rest) = (path.first(), path.get(1..).unwrap_or_default()) else {
        return (String::new(), "text".to_owned());
    };
    match first.as_str() {
        "inputSchema" => of_schema("parameter", "parameters", rest),
        "outputSchema" => of_schema("result", "results", rest),
        "arguments" if !rest.is_empty() => {
            let (name, rest) = (rest.first().cloned().unwrap_or_default(), rest.get(1..).unwrap_or_default());
            (format!("argument {name}"), rest.join("."))
        }
        _ if rest.is_empty() => (String::new(), first.clone()),
        _ => (first.clone(), rest.join(".")),
    }
}

/// Words a path in a schema: `properties`, `to`, `items`, `type` is the type of `parameter to[]`.
fn of_schema(one: &str, all: &str, path: &[String]) -> (String, String) {
    let mut name = String::new();
    let mut rest = path;
    loop {
        match rest {
            [word, property, more @ ..] if word == "properties" => {
                if !name.is_empty() {
                    name.push('.');
                }
                name.push_str(property);
                rest = more;
            }
            [word, more @ ..] if word == "items" && !name.is_empty() => {
                name.push_str("[]");
                rest = more;
            }
            _ => break,
        }
    }
    let field = if rest.is_empty() { "schema".to_owned() } else { rest.join(".") };
    if name.is_empty() { (all.to_owned(), field) } else { (format!("{one} {name}"), field) }
}

/// A value that differs between two versions.
pub struct Changed<'a> {
    pub part: &'a Part,
    pub old: Option<String>,
    pub new: Option<String>,
}

/// Returns true if a place of a finding lies in the part. A place is a JSON pointer, with or without the leading slash.
pub fn is_at(place: &str, path: &[String]) -> bool {
    if path.is_empty() {
        return true;
    }
    let place = place.strip_prefix('/').unwrap_or(place);
    let keys: Vec<String> = place.split('/').map(|key| key.replace("~1", "/").replace("~0", "~")).collect();
    // An element of a list of texts has no line of its own.
    keys.starts_with(path)
}

/// Lists the values that differ: first those of the new version, in its order, then those that are gone.
pub fn changed<'a>(old: &'a [Part], new: &'a [Part]) -> Vec<Changed<'a>> {
    let mut left: Vec<Option<&Part>> = old.iter().map(Some).collect();
    let mut by_path: std::collections::HashMap<&[String], Vec<usize>> = std::collections::HashMap::new();
    for (index, part) in old.iter().enumerate().rev() {
        by_path.entry(&part.path).or_default().push(index);
    }
    let mut all = Vec::new();
    for part in new {
        let index = by_path.get_mut(part.path.as_slice()).and_then(Vec::pop);
        match index.and_then(|index| left.get_mut(index)?.take()) {
            Some(before) if before.json == part.json => {}
            // The texts are the same, so only the JSON shows the difference.
            Some(before) if before.text == part.text => {
                all.push(Changed { part, old: Some(before.json.clone()), new: Some(part.json.clone()) });
            }
            Some(before) => all.push(Changed { part, old: Some(before.text.clone()), new: Some(part.text.clone()) }),
            None => all.push(Changed { part, old: None, new: Some(part.text.clone()) }),
        }
    }
    let gone = left.into_iter().flatten();
    all.extend(gone.map(|part| Changed { part, old: Some(part.text.clone()), new: None }));
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(json: &str) -> Vec<String> {
        parts(json).into_iter().map(|part| format!("{}|{}|{}", part.owner, part.field, part.text)).collect()
    }

    #[test]
    fn every_value_has_a_place() {
        let json = r#"{"name": "t", "description": "Sends.", "annotations": {"readOnlyHint": true}, "icons": [{"src": "a"}],
            "inputSchema": {"type": "object", "required": ["to", "n"], "properties": {
                "to": {"type": "string", "description": "Who."},
                "n": {"enum": [1, "1", null], "items": {"type": "integer"}},
                "deep": {"properties": {"x": true}},
                "free": {}}}}"#;
        assert_eq!(
            shown(json),
            [
                "|name|t",
                "|description|Sends.",
                "annotations|readOnlyHint|true",
                "icons|0.src|a",
                "parameters|type|object",
                "parameters|required|to, n",
                "parameter to|type|string",
                "parameter to|description|Who.",
                "parameter n|enum|1, 1, null",
                "parameter n[]|type|integer",
                "parameter deep.x|schema|true",
                "parameter free|schema|{}",
            ]
        );
        assert_eq!(
            shown(r#"{"arguments": [{"name": "a", "required": true}]}"#),
            ["argument a|name|a", "argument a|required|true"]
        );
        assert_eq!(shown(r#""Call me first.""#), ["|text|Call me first."]);
    }

    #[test]
    fn differences() {
        let check = |old: &str, new: &str, expected: &[(&str, Option<&str>, Option<&str>)]| {
            let (old, new) = (parts(old), parts(new));
            let found = changed(&old, &new);
            let found: Vec<_> =
                found.iter().map(|one| (one.part.field.as_str(), one.old.as_deref(), one.new.as_deref())).collect();
            assert_eq!(found, expected);
        };
        check(r#"{"a": 1, "b": 2}"#, r#"{"b":2,"a":1}"#, &[]);
        check(r#"{"a": "x"}"#, r#"{"a": "y", "c": 1}"#, &[("a", Some("x"), Some("y")), ("c", None, Some("1"))]);
        check(r#"{"a": 1, "b": 2}"#, r#"{"b": 2}"#, &[("a", Some("1"), None)]);
        check(r#"{"a": 1}"#, r#"{"a": "1"}"#, &[("a", Some("1"), Some("\"1\""))]);
        check(r#"{"a": ["x, y"]}"#, r#"{"a": ["x", "y"]}"#, &[("a", Some("[\"x, y\"]"), Some("[\"x\",\"y\"]"))]);
        let long = ("18446744073709551616", "18446744073709551617");
        check(
            &format!("{{\"a\": {}}}", long.0),
            &format!("{{\"a\": {}}}", long.1),
            &[("a", Some(long.0), Some(long.1))],
        );
        let arguments = r#"{"arguments": [{"name": "new", "title": "N"}, {"name": "a", "title": "A"}]}"#;
        check(
            r#"{"arguments": [{"name": "a", "title": "A"}]}"#,
            arguments,
            &[("name", None, Some("new")), ("title", None, Some("N"))],
        );
    }
}
