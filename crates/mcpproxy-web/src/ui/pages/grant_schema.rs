//! Suggests a JSON Schema for a standing approval that matches exactly one call.

use mcpproxy_core::json;

use crate::visible::json_escapes;

/// Requires each argument to have its value. A masked value is replaced by its type, so that the schema reveals no
/// secret. Invisible characters in names and values are escapes: the user reads and edits the schema as plain text.
pub(crate) fn exactly(args: &str, shown_args: &str) -> String {
    let (Some(args), Some(shown)) = (json::members(args), json::members(shown_args)) else { return "{}".to_owned() };
    let names: Vec<String> = args.iter().map(|(name, _)| json::quote(name)).collect();
    let properties: Vec<String> = args
        .iter()
        .map(|(name, value)| {
            let is_shown = shown.iter().any(|(known, shown)| known == name && shown.trim() == value.trim());
            let rule = if is_shown { format!("{{\"const\": {}}}", value.trim()) } else { masked(value) };
            format!("    {}: {rule}", json::quote(name))
        })
        .collect();
    json_escapes(&format!(
        "{{\n  \"type\": \"object\",\n  \"properties\": {{\n{}\n  }},\n  \"required\": [{}],\n  \"additionalProperties\": false\n}}",
        properties.join(",\n"),
        names.join(", ")
    ))
}

fn masked(value: &str) -> String {
    let kind = match value.trim().bytes().next() {
        Some(b'"') => "string",
        Some(b'{') => "object",
        Some(b'[') => "array",
        Some(b't' | b'f') => "boolean",
        Some(b'n') => "null",
        _ => "number",
    };
    format!("{{\"type\": \"{kind}\"}}")
}

#[cfg(test)]
mod tests {
    use super::*;

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
