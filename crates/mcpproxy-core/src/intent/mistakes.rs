//! Understands the mistakes that models make with the parameters of `call_tool_*`.
//!
//! [`understand`] rewrites a mistake only if it has one meaning. Everything else reaches the strict reader
//! ([`declare`](super::declare)) unchanged, which refuses it and says what to send:
//!
//! | given | read as |
//! |---|---|
//! | `arguments` | `args`, or `args_json` if it is a string |
//! | `tool`, `tool_name` | `name` |
//! | `args` as a string that contains a JSON object | `args_json` |
//! | `args_json` as an object | `args` |
//! | a tool's name without its server | `server:tool`, if one visible tool has that name |
//! | two spellings of one parameter, with the same value | that parameter |
//! | two spellings with different values | refused |
//! | arguments of the tool beside `name` | refused, with the shape to send |
//!
//! Two things must stay true. The rewriting never touches the variant, the intent, `dry_run` or `approval_id`, so it
//! cannot change which checks apply. And it keeps the bytes of the arguments, because an approval covers those bytes.
//!
//! Why not make [`declare`](super::declare) itself lenient? Direct calls use it too, and there `arguments` is the
//! tool's own object. One strict reader is also easier to test: the fuzzer knows exactly what it accepts.

use std::borrow::Cow;

use super::{Denial, QUOTE_MAX_CHARS, field};
use crate::json::{self, Members, canonical, members, quote, string_value};
use crate::{ToolName, Untrusted};

/// Other spellings of `name`.
const NAME_ALIASES: [&str; 2] = ["tool", "tool_name"];
const ARGS_ALIAS: &str = "arguments";
/// Most argument names that a suggested shape contains.
const SHAPE_NAMES_MAX: usize = 8;

/// The parameters of a call as they were meant.
#[derive(Debug, PartialEq, Eq)]
pub struct Understood<'a> {
    pub parameters: Cow<'a, str>,
    /// The members of the parameters, unless these were rewritten or are no object.
    pub fields: Option<Members<'a>>,
    /// The tools that a name without a server could mean, if there are several.
    pub candidates: Vec<ToolName>,
}

/// Rewrites unambiguous mistakes. `find` returns the tools of this name that the agent may see.
pub fn understand<'a>(parameters: &'a str, find: impl FnOnce(&str) -> Vec<ToolName>) -> Understood<'a> {
    let unchanged = |fields, candidates| Understood { parameters: Cow::Borrowed(parameters), fields, candidates };
    let Some(fields) = members(parameters) else { return unchanged(None, Vec::new()) };
    let name = meant_name(&fields);
    let args = meant_args(&fields);
    let bare = name.as_deref().filter(|name| !name.is_empty() && !name.contains(':'));
    let (full, candidates) = match bare.map(find).unwrap_or_default() {
        candidates if candidates.len() > 1 => (None, candidates),
        candidates => (candidates.into_iter().next().map(|tool| tool.to_string()), Vec::new()),
    };
    let is_renamed = name.is_some() && NAME_ALIASES.iter().any(|alias| field(&fields, alias).is_some());
    if full.is_none() && !is_renamed && args.is_none() {
        return unchanged(Some(fields), candidates);
    }
    let mut rewritten = Vec::with_capacity(fields.len());
    if let Some(name) = full.as_deref().or(name.as_deref()) {
        rewritten.push(format!("\"name\":{}", quote(name)));
    }
    if let Some((key, value)) = args {
        rewritten.push(format!("\"{key}\":{value}"));
    }
    let is_replaced = |key: &str| {
        let is_name = key == "name" || NAME_ALIASES.contains(&key);
        (name.is_some() && is_name) || (args.is_some() && ["args", "args_json", ARGS_ALIAS].contains(&key))
    };
    let kept = fields.iter().filter(|(key, _)| !is_replaced(key));
    rewritten.extend(kept.map(|(key, value)| format!("{}:{value}", quote(key))));
    let parameters = Cow::Owned(format!("{{{}}}", rewritten.join(",")));
    Understood { parameters, fields: None, candidates }
}

/// Returns the name under any spelling, if all spellings that are given agree.
fn meant_name<'a>(fields: &Members<'a>) -> Option<Cow<'a, str>> {
    let spellings = ["name"].into_iter().chain(NAME_ALIASES);
    let given: Vec<&str> = spellings.filter_map(|key| field(fields, key)).collect();
    let names: Vec<Cow<'_, str>> = given.iter().filter_map(|text| string_value(text)).collect();
    let first = names.first()?.clone();
    (names.len() == given.len() && names.iter().all(|name| *name == first)).then_some(first)
}

/// Returns the parameter to send instead of what was given. `None` if nothing needs to change, or no one meaning
/// exists.
fn meant_args<'a>(fields: &Members<'a>) -> Option<(&'static str, &'a str)> {
    match (field(fields, "args"), field(fields, "args_json"), field(fields, ARGS_ALIAS)) {
        // A string that contains no object stays, so that the refusal names the parameter that was given.
        (Some(text), None, None) => (is_string(text) && object_in(text).is_some()).then_some(("args_json", text)),
        (None, Some(text), None) => text.starts_with('{').then_some(("args", text)),
        (None, None, Some(text)) => Some((if is_string(text) { "args_json" } else { "args" }, text)),
        (Some(own), None, Some(alias)) | (None, Some(own), Some(alias)) => {
            let (meant, other) = (object_in(own)?, object_in(alias)?);
            let is_same = canonical(&meant) == canonical(&other);
            is_same.then_some((if is_string(own) { "args_json" } else { "args" }, own))
        }
        // The published rule: `args` and `args_json` exclude each other, whatever they contain.
        (Some(_), Some(_), _) | (None, None, None) => None,
    }
}

fn is_string(text: &str) -> bool {
    text.starts_with('"')
}

/// Returns the object that a value is, or that its text contains.
fn object_in(text: &str) -> Option<Cow<'_, str>> {
    if !is_string(text) {
        return text.starts_with('{').then_some(Cow::Borrowed(text));
    }
    let inner = string_value(text)?;
    let is_object = json::read(inner.as_bytes()).is_ok_and(|inner| inner.trim().starts_with('{'));
    is_object.then_some(inner)
}

/// Refuses two spellings of one parameter that differ.
pub(super) fn agree(fields: &Members<'_>) -> Result<(), Denial> {
    let has = |key: &str| field(fields, key).is_some();
    let differ = |expected| Err(Denial::BadField { field: "name", expected });
    match (has("name"), has("tool"), has("tool_name")) {
        (true, true, _) => return differ("given once: name and tool have different values"),
        (true, false, true) => return differ("given once: name and tool_name have different values"),
        (false, true, true) => return differ("given once: tool and tool_name have different values"),
        (true, false, false) | (false, _, _) => {}
    }
    let key = ["args", "args_json"].into_iter().find(|key| has(key));
    match (key, has("args") && has("args_json"), has(ARGS_ALIAS)) {
        (Some(key), false, true) => Err(Denial::InvalidArgs(format!(
            "{key} and {ARGS_ALIAS} have different values; send the arguments once, as {key}"
        ))),
        (Some(_) | None, _, _) => Ok(()),
    }
}

/// Returns the shape to send, if the tool's own arguments stand beside `name`.
pub(super) fn shape(fields: &Members<'_>, known: &[&str]) -> Option<Untrusted> {
    if ["args", "args_json", ARGS_ALIAS].iter().any(|key| field(fields, key).is_some()) {
        return None;
    }
    let short = |text: &str| quote(&text.chars().take(QUOTE_MAX_CHARS).collect::<String>());
    let name = meant_name(fields).map_or_else(|| "\"server:tool\"".to_owned(), |name| short(&name));
    let own = fields.iter().filter(|(key, _)| !known.contains(&key.as_ref()) && !NAME_ALIASES.contains(&key.as_ref()));
    let names: Vec<String> = own.take(SHAPE_NAMES_MAX).map(|(key, _)| format!("{}:…", short(key))).collect();
    Some(Untrusted::new(format!("{{\"name\":{name},\"args\":{{{}}}}}", names.join(","))))
}

#[cfg(test)]
mod tests {
    use super::super::declare;
    use super::*;
    use crate::Variant;
    use crate::settings::TwoKey;

    /// Two servers have `list`, and one has `echo`.
    fn find(name: &str) -> Vec<ToolName> {
        let all = ["fx:echo", "fx:list", "git:list"].map(|name| ToolName::parse(name).unwrap());
        all.into_iter().filter(|tool| tool.tool() == name).collect()
    }

    fn check(parameters: &str, expected: &str) {
        let understood = understand(parameters, find);
        let found = match declare(Variant::Read, &understood.parameters, TwoKey::Optional) {
            Ok(declared) => format!("{} {}", declared.name, declared.arguments.as_str()),
            Err(denial) => format!("{}: {}", denial.code(), denial.message()),
        };
        assert_eq!(found, expected, "{parameters}");
    }

    #[test]
    fn mistakes_with_one_meaning() {
        for given in [
            r#"{"name":"fx:echo","args":{"n":1.0}}"#,
            r#"{"name":"fx:echo","arguments":{"n":1.0}}"#,
            r#"{"name":"fx:echo","arguments":"{\"n\":1.0}"}"#,
            r#"{"name":"fx:echo","args":"{\"n\":1.0}"}"#,
            r#"{"name":"fx:echo","args_json":{"n":1.0}}"#,
            r#"{"tool":"fx:echo","args":{"n":1.0}}"#,
            r#"{"tool_name":"fx:echo","arguments":{"n":1.0}}"#,
            r#"{"name":"fx:echo","tool":"fx:echo","args":{"n":1.0}}"#,
            r#"{"name":"echo","args":{"n":1.0}}"#,
            r#"{"tool":"echo","args":{"n":1.0}}"#,
            r#"{"name":"fx:echo","args":{"n":1.0},"arguments":{ "n" : 1.0 }}"#,
            r#"{"name":"fx:echo","args_json":"{\"n\":1.0}","arguments":{"n":1.0}}"#,
        ] {
            check(given, r#"fx:echo {"n":1.0}"#);
        }
    }

    #[test]
    fn other_mistakes_are_refused_with_the_next_step() {
        check(
            r#"{"name":"fx:echo","tool":"fx:list"}"#,
            "invalid_field: name must be given once: name and tool have different values",
        );
        check(
            r#"{"tool_name":"fx:echo","tool":"fx:list"}"#,
            "invalid_field: name must be given once: tool and tool_name have different values",
        );
        check(
            r#"{"name":"fx:echo","args":{"n":1},"arguments":{"n":2}}"#,
            "invalid_args: Invalid arguments: args and arguments have different values; send the arguments once, as args",
        );
        check(
            r#"{"name":"fx:echo","args":{},"args_json":"{}"}"#,
            "invalid_args: Invalid arguments: args and args_json are mutually exclusive",
        );
        check(
            r#"{"name":"fx:echo","args":"no object"}"#,
            "invalid_args: Invalid arguments: args must be a JSON object; send JSON text as args_json",
        );
        check(
            r#"{"name":"fx:echo","arguments":[1]}"#,
            "invalid_args: Invalid arguments: arguments must be a JSON object",
        );
        check(r#"{"name":"absent"}"#, "invalid_tool_name: Invalid tool name: expected server:tool");
        check(
            r#"{"tool":"fx:echo","text":"secret","n\u001b":1,"intent_reason":"r"}"#,
            "unknown_field: unknown field \"text\". The tool's own arguments go into args: \
             {\"name\":\"fx:echo\",\"args\":{\"text\":…,\"n\\u001b\":…}}",
        );
        check(
            r#"{"text":1}"#,
            "unknown_field: unknown field \"text\". The tool's own arguments go into args: \
             {\"name\":\"server:tool\",\"args\":{\"text\":…}}",
        );
        check(
            r#"{"name":"fx:echo","args":{},"text":1}"#,
            "unknown_field: unknown field \"text\"; remove it or put it into args",
        );
    }

    #[test]
    fn several_tools_of_one_name_are_all_named() {
        let understood = understand(r#"{"name":"list","args":{}}"#, find);
        assert_eq!(understood.candidates.len(), 2);
        assert_eq!(understood.parameters, r#"{"name":"list","args":{}}"#);
    }

    /// Leniency reaches names and arguments only. Everything that decides on the call stays as it was written.
    #[test]
    fn what_decides_is_never_rewritten() {
        let rest = r#""intent":{"operation_type":"write"},"dry_run":true,"approval_id":"x","idempotency_key":"k""#;
        let understood =
            understand(&format!(r#"{{"tool":"echo","arguments":{{}},{rest}}}"#), find).parameters.into_owned();
        assert_eq!(understood, format!(r#"{{"name":"fx:echo","args":{{}},{rest}}}"#));
        let mismatch = declare(Variant::Read, &understood, TwoKey::Optional).unwrap_err();
        assert_eq!(mismatch.code(), "INTENT_MISMATCH");
    }
}
