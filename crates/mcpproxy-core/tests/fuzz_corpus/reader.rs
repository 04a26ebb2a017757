//! Invariants of the strict reader for any bytes.
//!
//! Another parser reads the same bytes step by step, so a mistake would have to be in both.

use mcpproxy_core::json::{self, DEPTH_MAX, ReadError, ReadErrorKind, members, string_value};
use serde_json::Value;

use crate::walk::{Walked, walk};

/// Checks that the reader accepts exactly the unambiguous texts, and refuses others for the reason that it names.
pub(crate) fn check(bytes: &[u8]) {
    match json::read(bytes) {
        Ok(text) => {
            assert_eq!(text.as_bytes(), bytes);
            accepted(text);
        }
        Err(error) => refused(bytes, &error),
    }
}

fn accepted(text: &str) {
    let Walked { value, deepest, duplicates } = walk(text);
    let Ok(value) = value else { panic!("accepted, and another parser cannot read it: {text:?}") };
    assert!(deepest <= DEPTH_MAX, "{deepest} deep: {text:?}");
    assert_eq!(duplicates, Vec::<String>::new(), "{text:?}");
    assert_eq!(serde_json::from_str::<Value>(text).ok().as_ref(), Some(&value), "two readings: {text:?}");
    takes_apart(text.trim(), &value);
    keeps_digits(text, &value);
    has_one_spelling(text, &value);
}

/// Checks that the text for digests is of the same value, and the same for the same value.
fn has_one_spelling(text: &str, value: &Value) {
    let canonical = json::canonical(text);
    assert_eq!(walk(&canonical).value.ok().as_ref(), Some(value), "{text:?} {canonical:?}");
    assert!(json::read(canonical.as_bytes()).is_ok(), "{text:?} {canonical:?}");
    let pretty = json::pretty(&canonical);
    for other in [&canonical, &pretty, &reversed(text.trim())] {
        assert_eq!(json::canonical(other), canonical, "{text:?} {other:?}");
    }
}

/// Writes the members of an object in reverse order.
fn reversed(text: &str) -> String {
    let Some(found) = members(text) else { return text.to_owned() };
    let pieces: Vec<String> = found.iter().rev().map(|(key, piece)| format!("{}:{piece}", json::quote(key))).collect();
    format!("{{{}}}", pieces.join(" , "))
}

/// Checks that values with all digits of their numbers, and text for people, are of the same value.
fn keeps_digits(text: &str, value: &Value) {
    assert_eq!(json::ExactValue::read(text).as_ref().map(json::ExactValue::value), Some(value), "{text:?}");
    let pretty = json::pretty(text);
    assert_eq!(serde_json::from_str::<Value>(&pretty).ok().as_ref(), Some(value), "{text:?} {pretty:?}");
}

/// Checks that the members of a value add up to the value, at every depth.
fn takes_apart(text: &str, value: &Value) {
    assert_eq!(string_value(text).as_deref(), value.as_str());
    let Value::Object(object) = value else {
        assert_eq!(members(text), None);
        return;
    };
    let found = members(text).unwrap_or_default();
    assert!(found.iter().map(|(key, _)| key.as_ref()).eq(object.keys()), "{text:?}");
    let pieces: Vec<String> = found.iter().map(|(key, piece)| format!("{}:{piece}", json::quote(key))).collect();
    assert_eq!(walk(&format!("{{{}}}", pieces.join(","))).value.ok().as_ref(), Some(value), "{text:?}");
    for ((_, piece), member) in found.iter().zip(object.values()) {
        assert_eq!(piece.trim(), *piece);
        takes_apart(piece, member);
    }
}

fn refused(bytes: &[u8], error: &ReadError) {
    assert!(!error.to_string().chars().any(char::is_control), "{error:?}");
    let lines = bytes.iter().filter(|byte| **byte == b'\n').count() + 1;
    assert!((1..=lines).contains(&error.line) && (1..=bytes.len() + 1).contains(&error.column), "{error}: {bytes:?}");
    let Ok(text) = std::str::from_utf8(bytes) else {
        assert_eq!(error.kind, ReadErrorKind::Utf8);
        return;
    };
    let Walked { value, deepest, duplicates } = walk(text);
    let is_right = match &error.kind {
        ReadErrorKind::Utf8 => false,
        ReadErrorKind::ByteOrderMark => text.starts_with('\u{feff}'),
        ReadErrorKind::Empty => text.trim().is_empty(),
        ReadErrorKind::End | ReadErrorKind::Expected(_) | ReadErrorKind::Trailing | ReadErrorKind::LoneSurrogate => {
            value.is_err()
        }
        ReadErrorKind::NumberRange => {
            let number = number_at(text, error);
            let exponent = number.rsplit(['e', 'E', '+', '-']).next().map_or(0, str::len);
            value.is_err() || exponent > 9 || number.parse::<f64>().is_ok_and(f64::is_infinite)
        }
        ReadErrorKind::Duplicate { key, .. } => duplicates.contains(key),
        ReadErrorKind::Reserved(key) => key.starts_with("$serde_json::private::"),
        ReadErrorKind::Depth(limit) => *limit == DEPTH_MAX && deepest > DEPTH_MAX,
    };
    assert!(is_right, "{error}: {text:?}");
}

/// Returns the number at the position of an error.
fn number_at(text: &str, error: &ReadError) -> String {
    let line = text.split('\n').nth(error.line - 1).unwrap_or_default();
    let number = line.chars().skip(error.column - 1).take_while(|c| c.is_ascii_digit() || "+-.eE".contains(*c));
    number.collect()
}
