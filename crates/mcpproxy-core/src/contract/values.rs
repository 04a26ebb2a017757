//! The values of contract fields: how each is read, written as JSON, and described in the JSON Schema.

pub(super) mod condition;
pub(super) mod confirmation;
pub(super) mod dry_run;
pub(super) mod idempotency;
pub(super) mod rate_limit;
pub(super) mod schemas;
pub(super) mod step_up;

use serde_json::{Value, json};

use super::Sensitive;
use crate::file::{Node, NodeValue, Reader};
use crate::{Pointer, Untrusted};

pub(super) const DESCRIPTION_MAX_CHARS: usize = 4000;
pub(super) const SIDE_EFFECTS_MAX: usize = 32;
/// Maximum number of permissions, failure modes, sensitive pointers, and arguments of an idempotency key.
pub(super) const LIST_MAX: usize = 64;
/// Maximum number of characters of a word, and of an argument's name.
pub(super) const NAME_MAX_CHARS: usize = 128;
const SIDE_EFFECT_MAX_CHARS: usize = 500;
const POINTER_MAX_CHARS: usize = 256;

pub(super) fn word(text: &str) -> Result<String, String> {
    let fits = text.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'.' | b'-'));
    if fits && (1..=NAME_MAX_CHARS).contains(&text.len()) {
        return Ok(text.to_owned());
    }
    Err(format!("expected 1 to {NAME_MAX_CHARS} letters, digits, `_`, `.` or `-`"))
}

pub(super) fn word_schema() -> Value {
    json!({ "type": "string", "pattern": format!("^[A-Za-z0-9_.-]{{1,{NAME_MAX_CHARS}}}$") })
}

/// Reads a version. A whole number is fine, but YAML would read `1.10` as 1.1, so any other number needs quotes.
pub(super) fn version(reader: &mut Reader<'_>, node: &Node) -> Option<String> {
    match &node.value {
        NodeValue::Number(number) if number.is_u64() => Some(number.to_string()),
        NodeValue::Number(_) => reader.mistake(node.position, "write the version in quotes, such as \"1.10\""),
        NodeValue::Text(_) => reader.parsed(node, word),
        NodeValue::Null | NodeValue::Bool(_) | NodeValue::Array(_) | NodeValue::Object(_) | NodeValue::Broken => {
            reader.wrong_type(node, "string or whole number")
        }
    }
}

pub(super) fn version_schema() -> Value {
    json!({ "anyOf": [{ "$ref": "#/$defs/word" }, { "type": "integer", "minimum": 0 }] })
}

pub(super) fn permission(text: &str) -> Result<String, String> {
    let fits = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'.' | b':' | b'/' | b'-' | b'*');
    if !text.bytes().all(fits) || !(1..=NAME_MAX_CHARS).contains(&text.len()) {
        return Err(format!("expected 1 to {NAME_MAX_CHARS} letters, digits, `_`, `.`, `:`, `/` or `-`"));
    }
    if text.contains('*') {
        return Err("a contract must name full permissions; `*` is only for tokens".to_owned());
    }
    Ok(text.to_owned())
}

pub(super) fn permission_schema() -> Value {
    json!({ "type": "string", "pattern": format!("^[A-Za-z0-9_.:/-]{{1,{NAME_MAX_CHARS}}}$") })
}

/// Reads the name of an argument, which is any key that JSON can have.
pub(super) fn argument(text: &str) -> Result<String, String> {
    if (1..=NAME_MAX_CHARS).contains(&text.chars().count()) {
        return Ok(text.to_owned());
    }
    Err(format!("expected the name of an argument, 1 to {NAME_MAX_CHARS} characters"))
}

pub(super) fn argument_schema() -> Value {
    json!({ "type": "string", "minLength": 1, "maxLength": NAME_MAX_CHARS })
}

pub(super) fn side_effect(reader: &mut Reader<'_>, node: &Node) -> Option<Untrusted> {
    let text = reader.text(node, SIDE_EFFECT_MAX_CHARS)?;
    if text.for_json().trim().is_empty() {
        return reader.mistake(node.position, "must not be empty; describe the effect, such as \"An email is sent.\"");
    }
    Some(text)
}

pub(super) fn side_effect_schema() -> Value {
    json!({ "type": "string", "minLength": 1, "maxLength": SIDE_EFFECT_MAX_CHARS })
}

pub(super) fn texts(texts: &[Untrusted]) -> Value {
    texts.iter().map(Untrusted::for_json).collect::<Vec<_>>().into()
}

pub(super) fn sensitive(text: &str) -> Result<Sensitive, String> {
    if text.chars().count() > POINTER_MAX_CHARS {
        return Err(format!("longer than {POINTER_MAX_CHARS} characters"));
    }
    let pointer = Pointer::parse(text).map_err(|error| format!("{error}; expected a JSON pointer such as `/body`"))?;
    Ok(Sensitive { text: text.to_owned(), pointer })
}

pub(super) fn pointers(pointers: &[Sensitive]) -> Value {
    pointers.iter().map(|sensitive| sensitive.text.as_str()).collect::<Vec<_>>().into()
}

pub(super) fn pointer_schema() -> Value {
    json!({ "type": "string", "maxLength": POINTER_MAX_CHARS, "pattern": "^(?:/(?:[^~/]|~[01])*)*$" })
}

/// Reads a JSON pointer to one value, without `*`.
pub(super) fn one_place(text: &str) -> Result<String, String> {
    let Sensitive { text, .. } = sensitive(text)?;
    if text.is_empty() || text.split('/').any(|segment| segment == "*") {
        return Err("must point to one value; write a pointer without `*`, such as `/expiresAt`".to_owned());
    }
    Ok(text)
}

pub(super) fn one_place_schema() -> Value {
    let mut schema = pointer_schema();
    if let Some(fields) = schema.as_object_mut() {
        fields.insert("minLength".to_owned(), 1.into());
        fields.insert("not".to_owned(), json!({ "pattern": "/\\*(?:/|$)" }));
    }
    schema
}

pub(super) fn list_schema(max: usize, items: Value) -> Value {
    json!({ "type": "array", "maxItems": max, "uniqueItems": true, "items": items })
}
