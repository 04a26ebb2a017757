//! The JSON Schema of a standing approval: made from the arguments of a call, and read back as sentences.

use mcpproxy_core::json;
use serde_json::Value;

use super::one_line;
use crate::visible::{Visible, json_escapes};

/// Longer schemas are shown as JSON only.
const READ_BYTES: usize = 16_384;

/// Requires every argument. One that `keeps` selects by its position must have its value, any other one its type.
///
/// A masked value is replaced by its type too, so that the schema reveals no secret. Invisible characters in names and
/// values are escapes: the user reads and edits the schema as plain text.
pub(crate) fn allowing(args: &str, shown_args: &str, keeps: impl Fn(usize) -> bool) -> String {
    let (Some(args), Some(shown)) = (json::members(args), json::members(shown_args)) else { return "{}".to_owned() };
    let names: Vec<String> = args.iter().map(|(name, _)| json::quote(name)).collect();
    let properties: Vec<String> = args
        .iter()
        .enumerate()
        .map(|(number, (name, value))| {
            let is_shown = shown.iter().any(|(known, shown)| known == name && shown.trim() == value.trim());
            let condition = match is_shown && keeps(number) {
                true => format!("{{\"const\": {}}}", value.trim()),
                false => of_type(value),
            };
            format!("    {}: {condition}", json::quote(name))
        })
        .collect();
    json_escapes(&format!(
        "{{\n  \"type\": \"object\",\n  \"properties\": {{\n{}\n  }},\n  \"required\": [{}],\n  \"additionalProperties\": false\n}}",
        properties.join(",\n"),
        names.join(", ")
    ))
}

fn of_type(value: &str) -> String {
    let kind = match value.trim().bytes().next() {
        Some(b'"') => "string",
        Some(b'{') => "object",
        Some(b'[') => "array",
        Some(b't' | b'f') => "boolean",
        // Nothing is known about the values that an empty one stands for.
        Some(b'n') => return "{}".to_owned(),
        _ => "number",
    };
    format!("{{\"type\": \"{kind}\"}}")
}

/// A condition on one argument, for the list of standing approvals.
pub(crate) struct Allowed {
    pub(crate) name: Visible,
    /// `None` if any value is allowed.
    pub(crate) value: Option<Visible>,
}

/// Reads a schema of the kind that [`allowing`] writes. Returns `None` for any other schema: sentences must not leave
/// out a condition, nor promise one.
pub(crate) fn read(schema: &str) -> Option<Vec<Allowed>> {
    let schema = (schema.len() <= READ_BYTES).then_some(schema)?;
    let known = ["type", "properties", "required", "additionalProperties"];
    let members = json::members(schema.trim())?;
    if members.len() != known.len() || members.iter().any(|(name, _)| !known.contains(&name.as_ref())) {
        return None;
    }
    let of = |name: &str| members.iter().find(|(known, _)| known == name).map(|(_, value)| value.trim());
    let properties = json::members(of("properties")?)?;
    let required: Vec<String> = serde_json::from_str(of("required")?).ok()?;
    let is_whole =
        properties.len() == required.len() && properties.iter().all(|(name, _)| required.iter().any(|one| one == name));
    if of("type") != Some("\"object\"") || of("additionalProperties") != Some("false") || !is_whole {
        return None;
    }
    properties.iter().map(|(name, condition)| allowed(name, condition)).collect()
}

fn allowed(name: &str, condition: &str) -> Option<Allowed> {
    let value = match json::members(condition)?.as_slice() {
        [] => None,
        [(key, value)] if key == "const" => Some(one_line::value(value)),
        [(key, value)] if key == "type" && serde_json::from_str::<Value>(value).ok()?.is_string() => None,
        _ => return None,
    };
    Some(Allowed { name: Visible::of(name), value })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn exactly(args: &str, shown: &str) -> String {
        allowing(args, shown, |_| true)
    }

    #[test]
    fn some_may_vary() {
        let args = r#"{"projectId": "p_web", "title": "Launch", "n": 1, "x": null}"#;
        let schema = allowing(args, args, |number| number == 0);
        let admits = |args: &str| {
            let args = json::ExactValue::read(args).unwrap();
            mcpproxy_core::schema::Schema::parse(&schema).unwrap().admits(&args)
        };
        assert!(admits(args) && admits(r#"{"projectId": "p_web", "title": "Other", "n": 2.5, "x": [1]}"#));
        for other in [
            r#"{"projectId": "p_app", "title": "Launch", "n": 1, "x": null}"#,
            r#"{"projectId": "p_web", "title": 7, "n": 1, "x": null}"#,
            r#"{"projectId": "p_web", "title": "Launch", "n": 1}"#,
            r#"{"projectId": "p_web", "title": "Launch", "n": 1, "x": null, "more": 1}"#,
        ] {
            assert!(!admits(other), "{other}");
        }
        let words = |schema: &str| {
            let word = |one: Allowed| {
                format!("{}={}", one.name, one.value.map_or("any".to_owned(), |value| value.to_string()))
            };
            read(schema).map(|all| all.into_iter().map(word).collect::<Vec<_>>())
        };
        assert_eq!(words(&schema).unwrap(), ["projectId=p_web", "title=any", "n=any", "x=any"]);
        for other in [
            "{}",
            r#"{"type": "object"}"#,
            &schema.replace("false", "true"),
            &schema.replace("{\"type\": \"string\"}", "{\"type\": \"string\", \"minLength\": 3}"),
            &schema.replace("\"title\", ", ""),
        ] {
            assert_eq!(words(other), None, "{other}");
        }
    }

    #[test]
    fn schemas() {
        let args = r#"{"to": ["a@b.example"], "n": 1.0, "key": "s3cr3t"}"#;
        let shown = r#"{"to": ["a@b.example"], "n": 1.0, "key": "***"}"#;
        let schema = exactly(args, shown);
        assert_eq!(
            schema,
            "{\n  \"type\": \"object\",\n  \"properties\": {\n    \"to\": {\"const\": [\"a@b.example\"]},\n    \
             \"n\": {\"const\": 1.0},\n    \"key\": {\"type\": \"string\"}\n  },\n  \
             \"required\": [\"to\", \"n\", \"key\"],\n  \"additionalProperties\": false\n}"
        );
        mcpproxy_core::schema::Schema::parse(&schema).unwrap();
        assert!(!schema.contains("s3cr3t"));
        // The character reverses the rest of the line, so the name would read as another one.
        let hidden = "{\"am\u{202E}tnuo\":\"a\u{200B}b\u{E0041}\", \"x\": [\n\t1]}";
        let schema = exactly(hidden, hidden);
        assert!(schema.contains(r#""am\u202etnuo": {"const": "a\u200bb\udb40\udc41"}"#), "{schema}");
        assert!(schema.contains(r#""required": ["am\u202etnuo", "x"]"#), "{schema}");
        let args = json::ExactValue::read(hidden).unwrap();
        assert!(mcpproxy_core::schema::Schema::parse(&schema).unwrap().admits(&args));
        assert_eq!(exactly("[]", "[]"), "{}");
        mcpproxy_core::schema::Schema::parse(&exactly("{}", "{}")).unwrap();
    }
}
