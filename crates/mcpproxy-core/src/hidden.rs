//! What is masked in arguments, without keeping it: enough to tell later whether it was the same.

use serde_json::value::RawValue;

use crate::approval::{ApprovalId, Digest};
use crate::json::{self, canonical, string_value};

/// Values that lie deeper are looked at, shown and compared as a whole.
const SHOWN_DEPTH: usize = 8;

/// The parts of a JSON value that are looked at one by one.
pub enum Parts<'a> {
    Members(json::Members<'a>),
    Elements(Vec<&'a str>),
    /// A value that has no parts, or none that are looked at.
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

/// A place in a value, below another: a JSON pointer without its first slash.
pub fn below(pointer: &str, key: &str) -> String {
    let key = key.replace('~', "~0").replace('/', "~1");
    if pointer.is_empty() { key } else { format!("{pointer}/{key}") }
}

/// A place where something else is shown than what is there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hidden {
    pub pointer: String,
    /// What is shown, and what is there, as JSON.
    pub shown: String,
    pub whole: String,
}

impl Hidden {
    /// Every place that is masked in `shown`, which was made of `whole`.
    pub fn all(shown: &str, whole: &str) -> Vec<Self> {
        let mut found = Vec::new();
        find(&mut found, String::new(), shown.trim(), whole.trim(), 0);
        found
    }

    /// What is kept of a value that is hidden in the question of this id, to know it again. Who reads the database can try
    /// out what it may have been, as with the digest of all arguments; but not for all questions at once.
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
        // Masking may write a string in other words; then nothing is hidden.
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
