//! JSON values whose numbers keep all their digits.
//!
//! `serde_json` reads a number into 64 bits. `18446744073709551616` and `18446744073709551617` become the same `f64`,
//! so a condition on one of them would let the other through. The server gets the text, with all digits. So whatever
//! decides on a value must compare the number that is sent, not the one that fits into 64 bits.
//!
//! Nearly all numbers survive: written back, they are the same number. An [`ExactValue`] keeps the digits of the few
//! others aside, by the place of the number in memory. A value never changes after it was read, so the places stay
//! valid.
//!
//! Why not the feature `arbitrary_precision` of `serde_json`? It changes numbers for all crates of the build, and it
//! breaks types with `#[serde(flatten)]` and untagged enums, which the MCP SDK has.

use std::collections::HashMap;

use serde_json::{Number, Value};

use super::decimal::Decimal;
use super::pretty::string_end;

/// Numbers up to this length without an exponent always survive 64 bits: they have at most 15 digits.
const SHORT_MAX_BYTES: usize = 15;

/// A JSON value with its numbers as they were written.
#[derive(Debug, Default)]
pub struct ExactValue {
    /// Boxed, so that a number that is the whole value keeps its place too.
    value: Box<Value>,
    long: LongNumbers,
}

/// The numbers of one value that 64 bits cannot hold, by their places in memory.
#[derive(Debug, Default)]
pub(crate) struct LongNumbers(HashMap<usize, LongNumber>);

#[derive(Clone, Debug)]
pub(crate) struct LongNumber {
    pub(crate) text: Box<str>,
    pub(crate) decimal: Decimal,
}

/// A part of an exact value.
#[derive(Clone, Copy)]
pub(crate) struct ExactPart<'a> {
    pub(crate) value: &'a Value,
    long: &'a LongNumbers,
}

impl ExactValue {
    /// Reads JSON text that the strict reader has accepted. Returns `None` for other text.
    pub fn read(text: &str) -> Option<Self> {
        let value: Box<Value> = Box::new(serde_json::from_str(text).ok()?);
        let written = numbers_in_text(text);
        let mut long = HashMap::new();
        if written.iter().any(|number| !is_exact(number)) {
            let numbers = numbers_in(&value);
            // A key that is there twice has one value, but two numbers. The strict reader refuses it.
            if numbers.len() != written.len() {
                return None;
            }
            for (number, text) in numbers.into_iter().zip(written).filter(|(_, text)| !is_exact(text)) {
                long.insert(place(number), LongNumber { text: text.into(), decimal: Decimal::parse(text)? });
            }
        }
        Some(Self { value, long: LongNumbers(long) })
    }

    pub fn value(&self) -> &Value {
        &self.value
    }

    pub(crate) fn whole(&self) -> ExactPart<'_> {
        ExactPart { value: &self.value, long: &self.long }
    }

    pub(crate) fn long(&self) -> &LongNumbers {
        &self.long
    }

    /// Copies a part of this value.
    pub(crate) fn copy_of(&self, part: &Value) -> Self {
        self.with_numbers_of(part, part.clone())
    }

    /// Takes over the digits for a copy of `part` that has the same numbers in the same order.
    pub(crate) fn with_numbers_of(&self, part: &Value, copy: Value) -> Self {
        let copy = Box::new(copy);
        let mut long = HashMap::new();
        if !self.long.is_empty() {
            for (from, to) in numbers_in(part).into_iter().zip(numbers_in(&copy)) {
                long.extend(self.long.find(from).map(|number| (place(to), number.clone())));
            }
        }
        Self { value: copy, long: LongNumbers(long) }
    }
}

/// Takes a value that never was text, so that 64 bits hold all its numbers.
impl From<Value> for ExactValue {
    fn from(value: Value) -> Self {
        Self { value: Box::new(value), long: LongNumbers::default() }
    }
}

impl LongNumbers {
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn find(&self, number: &Number) -> Option<&LongNumber> {
        if self.0.is_empty() { None } else { self.0.get(&place(number)) }
    }

    /// Counts the digits, which is what comparing them costs.
    pub(crate) fn bytes(&self) -> usize {
        self.0.values().map(|number| number.text.len()).sum()
    }
}

impl<'a> ExactPart<'a> {
    pub(crate) fn new(value: &'a Value, long: &'a LongNumbers) -> Self {
        Self { value, long }
    }

    /// Goes to a part of this part.
    pub(crate) fn part(self, value: &'a Value) -> Self {
        Self { value, long: self.long }
    }

    pub(crate) fn long(self, number: &Number) -> Option<&'a LongNumber> {
        self.long.find(number)
    }
}

/// Returns `true` if a number survives 64 bits: reading and writing it gives the same number.
pub(crate) fn is_exact(text: &str) -> bool {
    if text.len() <= SHORT_MAX_BYTES && !text.bytes().any(|byte| matches!(byte, b'e' | b'E')) {
        return true;
    }
    let read: Option<Number> = serde_json::from_str(text).ok();
    let written = read.and_then(|number| Decimal::parse(&number.to_string()));
    written.is_some() && written == Decimal::parse(text)
}

fn place(number: &Number) -> usize {
    std::ptr::from_ref(number).addr()
}

/// Returns the numbers of a value, in their order.
fn numbers_in(value: &Value) -> Vec<&Number> {
    fn add<'v>(value: &'v Value, numbers: &mut Vec<&'v Number>) {
        match value {
            Value::Number(number) => numbers.push(number),
            Value::Array(items) => items.iter().for_each(|item| add(item, numbers)),
            Value::Object(members) => members.values().for_each(|member| add(member, numbers)),
            Value::Null | Value::Bool(_) | Value::String(_) => {}
        }
    }
    let mut numbers = Vec::new();
    add(value, &mut numbers);
    numbers
}

/// Returns the numbers in JSON text, in their order.
fn numbers_in_text(text: &str) -> Vec<&str> {
    let bytes = text.as_bytes();
    let mut numbers = Vec::new();
    let mut at = 0;
    while let Some(byte) = bytes.get(at) {
        match byte {
            b'"' => at = string_end(bytes, at + 1),
            b'-' | b'0'..=b'9' => {
                let rest = bytes.get(at..).unwrap_or_default();
                let is_inside = |byte: &&u8| matches!(byte, b'0'..=b'9' | b'-' | b'+' | b'.' | b'e' | b'E');
                let end = at + rest.iter().take_while(is_inside).count();
                numbers.extend(text.get(at..end));
                at = end;
            }
            _ => at += 1,
        }
    }
    numbers
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn numbers_that_survive_64_bits() {
        for exact in [
            "0",
            "-0",
            "1.0",
            "0.1",
            "-12.50",
            "1e3",
            "1E-7",
            "18446744073709551615",
            "-9223372036854775808",
            "1000000000000000000000",
            "0.30000000000000004",
            "1.7976931348623157e308",
            "18446744073709552000",
            "1e22",
        ] {
            assert!(is_exact(exact), "{exact}");
        }
        for long in [
            "18446744073709551616",
            "18446744073709551617",
            "-9223372036854775809",
            "9007199254740993.0",
            "0.10000000000000000000000000001",
            "1e-400",
            "3.14159265358979323846",
        ] {
            assert!(!is_exact(long), "{long}");
        }
    }

    #[test]
    fn digits_are_kept_beside_the_value() {
        let text =
            r#"{"a\"1":[1,18446744073709551616,"-7\\"],"b":{"c":-0.5,"d":0.10000000000000000000000000001}, "e":2}"#;
        let exact = ExactValue::read(text).unwrap();
        let at = |value: &ExactValue, pointer: &str| {
            let number = value.value().pointer(pointer).and_then(Value::as_number).unwrap();
            value.long().find(number).map(|long| long.text.to_string())
        };
        assert_eq!(at(&exact, "/a\"1/1").as_deref(), Some("18446744073709551616"));
        assert_eq!(at(&exact, "/b/d").as_deref(), Some("0.10000000000000000000000000001"));
        assert_eq!([at(&exact, "/a\"1/0"), at(&exact, "/b/c"), at(&exact, "/e")], [None, None, None]);
        let copy = exact.copy_of(exact.value().pointer("/b").unwrap());
        assert_eq!((at(&copy, "/c"), at(&copy, "/d").is_some()), (None, true));
        let moved = ExactValue::read("18446744073709551616").unwrap();
        assert!(at(&Box::new(moved), "").is_some());
        assert!(ExactValue::read(r#"{"a":18446744073709551616,"a":1}"#).is_none());
        assert!(ExactValue::read("[1").is_none());
    }

    proptest! {
        /// Every number in a text is found, whatever strings are around it.
        #[test]
        fn numbers_of_text_and_value_agree(strings in proptest::collection::vec(".{0,6}", 1..6), number in any::<f64>()) {
            prop_assume!(number.is_finite());
            let parts: Vec<Value> = strings.iter().map(|text| serde_json::json!({text: [number, text]})).collect();
            let text = Value::from(parts).to_string();
            let value: Value = serde_json::from_str(&text).unwrap();
            prop_assert_eq!(numbers_in_text(&text).len(), numbers_in(&value).len());
        }
    }
}
