//! The JSON Schema of a standing approval: made from the arguments of a call, and read back as sentences.

use mcpproxy_core::json;

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

/// The calls that a standing approval allows, for sentences in its row.
pub(crate) enum Allowance {
    /// The schema has no condition.
    Anything,
    /// Exactly these arguments, each with its condition.
    Arguments(Vec<Allowed>),
    /// Only the schema can say it. Sentences must not leave out a condition, nor promise one.
    Schema,
}

/// A condition on one argument.
pub(crate) struct Allowed {
    pub(crate) name: Visible,
    pub(crate) value: AllowedValue,
}

pub(crate) enum AllowedValue {
    Fixed(Visible),
    /// `any text`, for example.
    Any(&'static str),
}

impl Allowance {
    pub(crate) fn of(schema: &str) -> Self {
        if has_no_condition(schema) {
            return Self::Anything;
        }
        read(schema).map_or(Self::Schema, Self::Arguments)
    }
}

impl Allowed {
    /// Returns the value that the argument must have.
    pub(crate) fn fixed(&self) -> Option<&Visible> {
        match &self.value {
            AllowedValue::Fixed(value) => Some(value),
            AllowedValue::Any(_) => None,
        }
    }

    /// Returns the words for the values that the argument may have, if it has no fixed one.
    pub(crate) fn any(&self) -> Option<&'static str> {
        match &self.value {
            AllowedValue::Fixed(_) => None,
            AllowedValue::Any(words) => Some(words),
        }
    }
}

/// Arguments are always an object, so their type is no condition.
fn has_no_condition(schema: &str) -> bool {
    match json::members(schema.trim()).as_deref() {
        Some([]) => true,
        Some([(name, value)]) => name == "type" && value.trim() == "\"object\"",
        Some(_) | None => false,
    }
}

/// Reads a schema of the kind that [`allowing`] writes. Returns `None` for any other schema.
fn read(schema: &str) -> Option<Vec<Allowed>> {
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
        [] => AllowedValue::Any("anything"),
        [(key, value)] if key == "const" => AllowedValue::Fixed(one_line::value(value)),
        [(key, value)] if key == "type" => AllowedValue::Any(any_of_type(&json::string_value(value.trim())?)?),
        _ => return None,
    };
    Some(Allowed { name: Visible::of(name), value })
}

fn any_of_type(kind: &str) -> Option<&'static str> {
    Some(match kind {
        "string" => "any text",
        "number" => "any number",
        "integer" => "any whole number",
        "boolean" => "yes or no",
        "array" => "any list",
        "object" => "any object",
        _ => return None,
    })
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
                let value = one.fixed().map(ToString::to_string).or(one.any().map(str::to_owned));
                format!("{}={}", one.name, value.unwrap())
            };
            match Allowance::of(schema) {
                Allowance::Anything => Some(vec!["anything".to_owned()]),
                Allowance::Arguments(all) => Some(all.into_iter().map(word).collect::<Vec<_>>()),
                Allowance::Schema => None,
            }
        };
        assert_eq!(words(&schema).unwrap(), ["projectId=p_web", "title=any text", "n=any number", "x=anything"]);
        for open in ["{}", r#"{"type": "object"}"#] {
            assert_eq!(words(open).unwrap(), ["anything"]);
        }
        for other in [
            r#"{"type": "string"}"#,
            r#"{"required": ["id"]}"#,
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
