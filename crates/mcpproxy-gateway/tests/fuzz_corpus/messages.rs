//! Invariants of taking any JSON text as a JSON-RPC message, written a second time in another way.
//!
//! The gateway cuts messages into slices. Here, conditions are checked on a value that another parser has read.

use std::collections::BTreeMap;

use mcpproxy_core::json;
use serde_json::value::RawValue;
use serde_json::{Map, Value};

use crate::message::{self, ID_MAX_BYTES, Message, RpcError};

pub(crate) fn check(bytes: &[u8]) {
    // Servers may nest deeper than agents. What holds for their texts holds for all.
    let Ok(text) = json::read_server(bytes) else { return };
    let Ok(value) = serde_json::from_str::<Value>(text) else { panic!("another parser cannot read it: {text:?}") };
    is_on_one_line(text, &value);
    sets_members(text, &value);
    match Message::parse(text) {
        Ok(message) => {
            let Value::Object(fields) = &value else { panic!("a message that is no object: {text:?}") };
            assert!(is_sound(text), "{text:?}: {message:?}");
            is_what_was_written(fields, &message);
        }
        Err(error) => {
            assert!(!is_sound(text), "{text:?}: {}", error.message);
            assert!(!error.message.is_empty() && !error.message.contains(char::is_control), "{text:?}");
            let id = message::id_of(text).map(|id| serde_json::from_str::<Value>(id).ok());
            assert!(id.is_none_or(|id| id.as_ref() == value.get("id")), "{text:?}");
        }
    }
}

/// Returns `true` for a request, a notification or a response, as a list of conditions.
fn is_sound(text: &str) -> bool {
    let Ok(fields) = serde_json::from_str::<BTreeMap<String, Box<RawValue>>>(text) else { return false };
    let raw = |name: &str| fields.get(name).map(|value| value.get());
    let is_text = |name: &str| raw(name).is_some_and(|value| value.starts_with('"'));
    let is_integer = |id: &str| id.trim_start_matches('-').bytes().all(|byte| byte.is_ascii_digit());
    let is_id = raw("id").is_none_or(|id| id.len() <= ID_MAX_BYTES && (is_text("id") || is_integer(id)));
    let is_response =
        raw("method").is_none() && raw("id").is_some() && raw("result").is_some() != raw("error").is_some();
    raw("jsonrpc") == Some("\"2.0\"") && is_id && (is_text("method") || is_response)
}

fn is_what_was_written(fields: &Map<String, Value>, message: &Message<'_>) {
    let same = |text: &str, name: &str| {
        assert_eq!(serde_json::from_str::<Value>(text).ok().as_ref(), fields.get(name), "{name}");
    };
    let optional = |text: Option<&str>, name: &str| match text {
        Some(text) => same(text, name),
        None => assert_eq!(fields.get(name), None, "{name}"),
    };
    match message {
        Message::Request { id, method, params } => {
            is_short(id);
            same(id, "id");
            assert_eq!(fields.get("method").and_then(Value::as_str), Some(method.as_ref()));
            optional(*params, "params");
            let again = message::request(id, method, params.unwrap_or("{}"));
            assert!(
                matches!(Message::parse(&again), Ok(Message::Request { id: found, .. }) if found == *id),
                "{again:?}"
            );
        }
        Message::Notification { method, params } => {
            assert_eq!(fields.get("method").and_then(Value::as_str), Some(method.as_ref()));
            assert!(!fields.contains_key("id"));
            optional(*params, "params");
        }
        Message::Response { id, outcome } => {
            is_short(id);
            same(id, "id");
            match outcome {
                Ok(result) => same(result, "result"),
                Err(error) => same(error, "error"),
            }
            is_passed_on(id, outcome);
        }
    }
}

fn is_short(id: &str) {
    assert!(id.len() <= ID_MAX_BYTES, "{} bytes", id.len());
}

/// Checks that the agent gets the result, or an error with the same code, message and data.
fn is_passed_on(id: &str, outcome: &Result<&str, &str>) {
    let reply = outcome.map(str::to_owned).map_err(RpcError::parse);
    let written = message::response(id, &reply);
    assert!(json::read_server(written.as_bytes()).is_ok(), "{written:?}");
    match (Message::parse(&written), reply) {
        (Ok(Message::Response { id: found, outcome: Ok(result) }), Ok(expected)) => {
            assert_eq!((found, result), (id, expected.as_str()));
        }
        (Ok(Message::Response { id: found, outcome: Err(error) }), Err(expected)) => {
            assert_eq!((found, RpcError::parse(error)), (id, expected));
        }
        (other, _) => panic!("{written:?} became {other:?}"),
    }
}

fn is_on_one_line(text: &str, value: &Value) {
    let line = message::one_line(text);
    assert!(!line.contains(['\n', '\r']), "{text:?}");
    assert_eq!(serde_json::from_str::<Value>(&line).ok().as_ref(), Some(value), "{text:?}");
    assert_eq!(message::into_one_line(text.to_owned()), line);
}

/// Checks that a member is set and all others stay.
fn sets_members(text: &str, value: &Value) {
    let Value::Object(fields) = value else { return };
    for name in ["id", "another \"name\""] {
        let mut expected = fields.clone();
        expected.insert(name.to_owned(), Value::from(7));
        let set = message::with_members(text, &[(name, "7")]);
        assert_eq!(serde_json::from_str::<Value>(&set).ok(), Some(Value::Object(expected)), "{text:?}");
    }
}
