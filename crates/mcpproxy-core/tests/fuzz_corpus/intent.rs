//! Invariants of the intent parser, written a second time in another way.
//!
//! The parser looks for the first error in the text. Here, conditions are checked on a value that another parser has
//! read.

use std::borrow::Cow;

use mcpproxy_core::json::{self, DEPTH_MAX, members};
use mcpproxy_core::settings::TwoKey;
use mcpproxy_core::{Declared, Denial, REASON_MAX_CHARS, Variant, declare};
use serde_json::{Map, Value};

use crate::walk::{Walked, walk};

const CODES: [&str; 11] = [
    "unknown_field",
    "invalid_field",
    "invalid_tool_name",
    "invalid_args",
    "invalid_intent",
    "INVALID_OPERATION_TYPE",
    "INVALID_SENSITIVITY",
    "REASON_TOO_LONG",
    "MISSING_INTENT",
    "MISSING_OPERATION_TYPE",
    "INTENT_MISMATCH",
];

/// Checks that the parser accepts exactly the calls that `sound` accepts, and passes on what the agent wrote.
pub(crate) fn check(bytes: &[u8]) {
    let Ok(text) = json::read(bytes) else { return };
    parameters(text);
    // The kept inputs are whole messages, which contain the parameters.
    let inner = |text: &str, wanted: &str| -> Option<String> {
        members(text)?.into_iter().find(|(key, _)| key == wanted).map(|(_, value)| value.to_owned())
    };
    if let Some(found) = inner(text, "params").and_then(|params| inner(&params, "arguments")) {
        parameters(&found);
    }
}

fn parameters(text: &str) {
    let Walked { value, deepest, duplicates } = walk(text);
    assert!(deepest <= DEPTH_MAX && duplicates.is_empty(), "{text:?}");
    let Ok(value) = value else { panic!("another parser cannot read it: {text:?}") };
    for variant in Variant::ALL {
        for two_key in [TwoKey::Optional, TwoKey::Required] {
            let outcome = declare(variant, text, two_key);
            let is_sound = value.as_object().is_some_and(|fields| sound(fields, variant, two_key));
            assert_eq!(outcome.is_ok(), is_sound, "{variant} {two_key:?} {text:?}: {outcome:?}");
            match outcome {
                Ok(declared) => handed_on(text, &value, variant, &declared),
                Err(denial) => said(&denial),
            }
        }
    }
}

/// Returns `true` if a call is well-formed, as a list of conditions.
fn sound(fields: &Map<String, Value>, variant: Variant, two_key: TwoKey) -> bool {
    let known = |name: &String| {
        ["name", "args", "args_json", "intent"].contains(&name.as_str())
            || ["intent_operation_type", "intent_data_sensitivity", "intent_reason"].contains(&name.as_str())
    };
    let empty = Map::new();
    let nested = match fields.get("intent") {
        None => Some(&empty),
        Some(nested) => nested.as_object(),
    };
    let Some(nested) = nested else { return false };
    let nested_known = |name: &String| ["operation_type", "data_sensitivity", "reason"].contains(&name.as_str());
    let [operation, sensitivity, reason] =
        ["operation_type", "data_sensitivity", "reason"].map(|name| spoken(fields, nested, name));
    let arguments_fit = match (fields.get("args"), fields.get("args_json")) {
        (None, None) | (Some(Value::Object(_)), None) => true,
        (None, Some(Value::String(text))) => {
            json::read(text.as_bytes()).is_ok() && walk(text).value.is_ok_and(|v| v.is_object())
        }
        _ => false,
    };
    let operation_fits = match &operation {
        Ok(None) => two_key == TwoKey::Optional,
        Ok(Some(word)) => word == variant.operation(),
        Err(()) => false,
    };
    let sensitivity_fits = match &sensitivity {
        Ok(word) => word.as_ref().is_none_or(|word| ["public", "internal", "private", "unknown"].contains(&&**word)),
        Err(()) => false,
    };
    let reason_fits = reason.is_ok_and(|word| word.is_none_or(|word| word.chars().count() <= REASON_MAX_CHARS));
    fields.keys().all(known)
        && nested.keys().all(nested_known)
        && fields.get("name").and_then(Value::as_str).is_some_and(qualified)
        && arguments_fit
        && operation_fits
        && sensitivity_fits
        && reason_fits
}

/// Returns a field of the intent: flat, nested, or both with the same value. Fails if it is not a string or differs.
fn spoken<'a>(
    fields: &'a Map<String, Value>,
    nested: &'a Map<String, Value>,
    name: &str,
) -> Result<Option<Cow<'a, str>>, ()> {
    let mut words = Vec::new();
    for found in [fields.get(&format!("intent_{name}")), nested.get(name)].into_iter().flatten() {
        words.push(found.as_str().ok_or(())?);
    }
    words.dedup();
    if words.len() > 1 { Err(()) } else { Ok(words.first().map(|word| Cow::Borrowed(*word))) }
}

/// Returns `true` for `server:tool`, with the server `[a-z0-9][a-z0-9_-]{0,62}` without `__` and without a final `_`.
fn qualified(name: &str) -> bool {
    let parts: Vec<&str> = name.split(':').collect();
    let [server, tool] = parts.as_slice() else { return false };
    let is_word = |c: char| matches!(c, 'a'..='z' | '0'..='9');
    server.starts_with(is_word)
        && server.chars().all(|c| is_word(c) || c == '_' || c == '-')
        && (1..=63).contains(&server.len())
        && !format!("{server}_").contains("__")
        && tool.chars().all(|c| c.is_ascii_alphanumeric() || "_.-".contains(c))
        && (1..=128).contains(&tool.len())
}

/// Checks that the declared intent is the one in the text.
fn handed_on(text: &str, value: &Value, variant: Variant, declared: &Declared) {
    let arguments = declared.arguments.as_str();
    assert_eq!(Some(declared.name.to_string().as_str()), value.get("name").and_then(Value::as_str));
    assert_eq!(declared.intent.variant, variant);
    assert!(arguments.starts_with('{') && arguments.ends_with('}') && json::read(arguments.as_bytes()).is_ok());
    match (value.get("args"), value.get("args_json").and_then(Value::as_str)) {
        (Some(args), _) => {
            assert!(text.contains(arguments));
            assert_eq!(walk(arguments).value.ok().as_ref(), Some(args));
        }
        (None, Some(args_json)) => assert_eq!(arguments, args_json.trim()),
        (None, None) => assert_eq!(arguments, "{}"),
    }
    let words = |flat: &str, nested: &str| {
        let found = value.get(flat).or_else(|| value.pointer(nested));
        found.and_then(Value::as_str).map(str::to_owned)
    };
    let reason = declared.intent.reason.as_ref().map(|reason| reason.for_json().to_owned());
    assert_eq!(reason, words("intent_reason", "/intent/reason"));
    let sensitivity = declared.intent.sensitivity.map(|level| level.as_str().to_owned());
    assert_eq!(sensitivity, words("intent_data_sensitivity", "/intent/data_sensitivity"));
}

fn said(denial: &Denial) {
    assert!(CODES.contains(&denial.code()), "{}", denial.code());
    let message = denial.message();
    assert!(!message.is_empty() && !message.chars().any(char::is_control), "{message:?}");
    assert!(denial.details().is_object());
}
