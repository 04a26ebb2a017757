//! Finds masked values in arguments, and hashes them so that a later call can be compared without storing the secret.

use serde_json::value::RawValue;

use crate::approval::{ApprovalId, Digest};
use crate::json::{self, canonical, string_value};

/// Values nested deeper than this are shown and compared as a whole.
const SHOWN_DEPTH: usize = 8;

/// The parts of a JSON value that are compared one by one.
pub enum Parts<'a> {
    Members(json::Members<'a>),
    Elements(Vec<&'a str>),
    /// A value without parts, or one that is nested too deeply to be split.
    Whole,
}

impl<'a> Parts<'a> {
    pub fn of(value: &'a str, depth: usize) -> Self {
        if depth >= SHOWN_DEPTH {
            return Self::Whole;
        }
        let members = || json::members(value).filter(|members| !members.is_empty()).map(Self::Members);
        let elements = || {
            let elements: Vec<&RawValue> = serde_json::from_str(value).ok()?;
            (!elements.is_empty()).then(|| Self::Elements(elements.into_iter().map(RawValue::get).collect()))
        };
        match value.bytes().next() {
            Some(b'{') => members().unwrap_or(Self::Whole),
            Some(b'[') => elements().unwrap_or(Self::Whole),
            _ => Self::Whole,
        }
    }
}

/// Appends a key to a JSON pointer. These pointers have no leading slash.
pub fn below(pointer: &str, key: &str) -> String {
    let key = key.replace('~', "~0").replace('/', "~1");
    if pointer.is_empty() { key } else { format!("{pointer}/{key}") }
}

/// A position where the masked text differs from the original.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hidden {
    pub pointer: String,
    /// The masked value as JSON. `whole` is the original value.
    pub shown: String,
    pub whole: String,
}

impl Hidden {
    /// Returns every position that is masked in `shown`, which was made from `whole`.
    pub fn all(shown: &str, whole: &str) -> Vec<Self> {
        let mut found = Vec::new();
        find(&mut found, String::new(), shown.trim(), whole.trim(), 0);
        found
    }

    /// Returns the hash of a masked value, to recognize the same value later. Anyone who can read the database can test
    /// guesses against it, as with the hash of all arguments. The approval id is part of the hash, so each guess tests
    /// one approval request only.
    pub fn mark(asked: &ApprovalId, value: &str) -> Digest {
        Digest::of(format!("{asked}\n{}", canonical(value)).as_bytes())
    }
}

fn find(found: &mut Vec<Hidden>, pointer: String, shown: &str, whole: &str, depth: usize) {
    if shown == whole {
        return;
    }
    match (Parts::of(shown, depth), Parts::of(whole, depth)) {
        (Parts::Members(shown), Parts::Members(whole)) if has_same_keys(&shown, &whole) => {
            for ((key, shown), (_, whole)) in shown.iter().zip(&whole) {
                find(found, below(&pointer, key), shown, whole, depth + 1);
            }
        }
        (Parts::Elements(shown), Parts::Elements(whole)) if shown.len() == whole.len() => {
            for (index, (shown, whole)) in shown.iter().zip(&whole).enumerate() {
                find(found, below(&pointer, &index.to_string()), shown, whole, depth + 1);
            }
        }
        // Masking may write a string with other escapes. Then nothing is hidden.
        (Parts::Whole, Parts::Whole) if string_value(shown).is_some() && string_value(shown) == string_value(whole) => {
        }
        _ => found.push(Hidden { pointer, shown: shown.to_owned(), whole: whole.to_owned() }),
    }
}

fn has_same_keys(shown: &json::Members<'_>, whole: &json::Members<'_>) -> bool {
    shown.len() == whole.len() && shown.iter().zip(whole).all(|((shown, _), (whole, _))| shown == whole)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Pointer, mask};

    #[test]
    fn every_place_that_is_masked() {
        let check = |whole: &str, sensitive: &[&str], expected: &[&str]| {
            let pointers: Vec<Pointer> = sensitive.iter().map(|one| Pointer::parse(one).unwrap()).collect();
            let shown = mask(whole, &pointers).into_owned();
            let found: Vec<String> = Hidden::all(&shown, whole)
                .into_iter()
                .map(|one| format!("{}: {} for {}", one.pointer, one.shown, one.whole))
                .collect();
            assert_eq!(found, expected, "{whole}");
        };
        check(r#"{"to":["a","b"],"n":1}"#, &[], &[]);
        check(r#"{"to":["a","b"],"n":1}"#, &["/to"], &[r#"to/0: "***" for "a""#, r#"to/1: "***" for "b""#]);
        check(r#"{"a/b":{"~":1}}"#, &["/a~1b/~0"], &[r#"a~1b/~0: "***" for 1"#]);
        check(r#"{"password":"x y"}"#, &[], &[r#"password: "***" for "x y""#]);
        check(
            r#"{"note":"password: eve@evil.example"}"#,
            &[],
            &[r#"note: "password: ***" for "password: eve@evil.example""#],
        );
        check(r#"{"a":"\u0041b"}"#, &[], &[]);
    }

    #[test]
    fn marks_tell_values_apart() {
        let id = |text: &str| ApprovalId::parse(text).unwrap();
        let (one, other) = (id("01K9ZQ4B2R0000000000000001"), id("01K9ZQ4B2R0000000000000002"));
        assert_eq!(Hidden::mark(&one, r#"{"a": 1, "b": 2}"#), Hidden::mark(&one, r#"{"b":2,"a":1}"#));
        assert_ne!(Hidden::mark(&one, r#""a""#), Hidden::mark(&one, r#""b""#));
        assert_ne!(
            Hidden::mark(&one, r#""a""#),
            Hidden::mark(&other, r#""a""#),
            "two questions cannot be held against each other"
        );
    }
}
