//! Compares JSON values as JSON Schema does: numbers by value, objects regardless of order.

use std::cmp::Ordering;
use std::fmt::Write as _;

use serde_json::{Number, Value};

use crate::json::{Decimal, ExactPart};

/// Returns `true` if a number that 64 bits hold is an integer.
pub(super) fn is_integer(number: &Number) -> bool {
    whole(number).is_some() || number.as_f64().is_some_and(|float| float.fract() == 0.0)
}

/// Returns the number as an integer, if it was written as one.
fn whole(number: &Number) -> Option<i128> {
    number.as_i64().map(i128::from).or_else(|| number.as_u64().map(i128::from))
}

/// Compares two numbers by all their digits. Returns `None` if one of the values is no number.
pub(super) fn compare(a: ExactPart<'_>, b: ExactPart<'_>) -> Option<Ordering> {
    let (Value::Number(left), Value::Number(right)) = (a.value, b.value) else { return None };
    if a.long(left).is_none() && b.long(right).is_none() {
        if let (Some(left), Some(right)) = (whole(left), whole(right)) {
            return Some(left.cmp(&right));
        }
        // Rounding keeps the order, but may make two numbers equal: 2^63 + 1 as an integer, and 2^63 as a float.
        if let Some(order @ (Ordering::Less | Ordering::Greater)) = left.as_f64()?.partial_cmp(&right.as_f64()?) {
            return Some(order);
        }
    }
    Some(decimal(a, left)?.cmp(&decimal(b, right)?))
}

/// Returns `true` if a number is a multiple of another in decimal: 4.02 is 402 times 0.01.
pub(super) fn is_multiple(number: ExactPart<'_>, divisor: ExactPart<'_>) -> bool {
    let (Value::Number(left), Value::Number(right)) = (number.value, divisor.value) else { return false };
    let (Some(left), Some(right)) = (decimal(number, left), decimal(divisor, right)) else { return false };
    left.is_multiple_of(&right)
}

/// Returns all digits of a number. 64 bits hold a number exactly if the text that they are written as has its digits.
pub(super) fn decimal(part: ExactPart<'_>, number: &Number) -> Option<Decimal> {
    match part.long(number) {
        Some(long) => Some(long.decimal.clone()),
        None => Decimal::parse(&number.to_string()),
    }
}

pub(super) fn equal(a: ExactPart<'_>, b: ExactPart<'_>) -> bool {
    match (a.value, b.value) {
        (Value::Number(_), Value::Number(_)) => compare(a, b) == Some(Ordering::Equal),
        (Value::Array(left), Value::Array(right)) => {
            left.len() == right.len() && left.iter().zip(right).all(|(left, right)| equal(a.part(left), b.part(right)))
        }
        (Value::Object(left), Value::Object(right)) => {
            let has = |key: &String, value| right.get(key).is_some_and(|right| equal(a.part(value), b.part(right)));
            left.len() == right.len() && left.iter().all(|(key, value)| has(key, value))
        }
        (a, b) => a == b,
    }
}

/// Returns a text that is the same for two values exactly if they are equal.
pub(super) fn key(part: ExactPart<'_>) -> String {
    let mut outcome = String::new();
    write_key(part, &mut outcome);
    outcome
}

fn write_key(part: ExactPart<'_>, outcome: &mut String) {
    let _infallible = match part.value {
        Value::Number(number) => match decimal(part, number) {
            Some(decimal) => write!(outcome, "{decimal}"),
            None => write!(outcome, "{number}"),
        },
        Value::Array(items) => {
            outcome.push('[');
            for item in items {
                write_key(part.part(item), outcome);
                outcome.push(',');
            }
            write!(outcome, "]")
        }
        Value::Object(members) => {
            let mut sorted: Vec<_> = members.iter().collect();
            sorted.sort_by_key(|(key, _)| *key);
            outcome.push('{');
            for (key, value) in sorted {
                let _infallible = write!(outcome, "{key:?}:");
                write_key(part.part(value), outcome);
                outcome.push(',');
            }
            write!(outcome, "}}")
        }
        Value::String(text) => write!(outcome, "{text:?}"),
        value @ (Value::Bool(_) | Value::Null) => write!(outcome, "{value}"),
    };
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::json::ExactValue;
    use proptest::prelude::*;

    #[test]
    fn numbers_are_compared_by_worth() {
        let check = |a: &str, b: &str, expected: bool| {
            let (left, right) = (ExactValue::read(a).unwrap(), ExactValue::read(b).unwrap());
            let (left, right) = (left.whole(), right.whole());
            assert_eq!((equal(left, right), key(left) == key(right)), (expected, expected), "{a} {b}");
        };
        check("1", "1.0", true);
        check("0", "-0.0", true);
        check("18446744073709551615", "18446744073709551615", true);
        check("18446744073709551615", "18446744073709551614", false);
        check("9007199254740993", "9007199254740992", false);
        check("9007199254740993", "9007199254740993.0", true);
        check("9007199254740992.0", "9007199254740993", false);
        check("1152921504606846976", "1152921504606847000.0", false);
        check("18446744073709551616", "18446744073709551616", true);
        check("18446744073709551616", "18446744073709551617", false);
        check("18446744073709551616", "1.8446744073709551616e19", true);
        check("18446744073709551616", "18446744073709552000", false);
        check("0.10000000000000000000000000001", "0.1", false);
        check("1e-400", "0", false);
        check(r#"{"a":[18446744073709551616]}"#, r#"{"a":[18446744073709551617]}"#, false);
        check("0.1", "0.10", true);
        check(r#"{"a":1,"b":[2]}"#, r#"{"b":[2.0],"a":1}"#, true);
        check(r#"{"a":1}"#, r#"{"a":1,"b":1}"#, false);
        check(r#"["a"]"#, r#""a""#, false);
        check("true", "1", false);
        check(r#""1""#, "1", false);
    }

    fn any_value() -> impl Strategy<Value = Value> {
        let keyword_check = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            (-3i64..4).prop_map(Value::from),
            (-3i64..4).prop_map(|n| Value::from(n as f64 / 2.0)),
            "[ab]{0,3}".prop_map(Value::from),
        ];
        keyword_check.prop_recursive(3, 12, 3, |inner| {
            prop_oneof![
                proptest::collection::vec(inner.clone(), 0..3).prop_map(Value::from),
                proptest::collection::btree_map("[ab]", inner, 0..3).prop_map(|map| map.into_iter().collect()),
            ]
        })
    }

    proptest! {
        #[test]
        fn keys_and_equality_agree(a in any_value(), b in any_value()) {
            let (a, b) = (ExactValue::from(a), ExactValue::from(b));
            prop_assert_eq!(equal(a.whole(), b.whole()), key(a.whole()) == key(b.whole()));
            prop_assert!(equal(a.whole(), a.whole()));
        }
    }
}
