//! Compares JSON values as JSON Schema does: numbers by value, objects regardless of order.

use std::cmp::Ordering;
use std::fmt::Write as _;

use serde_json::{Number, Value};

pub(super) fn is_integer(number: &Number) -> bool {
    whole(number).is_some() || number.as_f64().is_some_and(|float| float.fract() == 0.0)
}

/// Returns the number as an integer, if it is exactly one.
fn whole(number: &Number) -> Option<i128> {
    if let Some(int) = number.as_i64() {
        return Some(int.into());
    }
    if let Some(int) = number.as_u64() {
        return Some(int.into());
    }
    let float = number.as_f64()?;
    #[expect(clippy::cast_possible_truncation, reason = "the range was checked")]
    (float.fract() == 0.0 && float.abs() < 1e30).then_some(float as i128)
}

pub(super) fn compare(a: &Number, b: &Number) -> Option<Ordering> {
    match (whole(a), whole(b)) {
        (Some(a), Some(b)) => Some(a.cmp(&b)),
        _ => a.as_f64()?.partial_cmp(&b.as_f64()?),
    }
}

/// Returns `true` if a number is a multiple of another in decimal: 4.02 is 402 times 0.01.
pub(super) fn is_multiple(number: &Number, divisor: &Number) -> bool {
    let (Some((digits, power)), Some((by, by_power))) = (decimal(number), decimal(divisor)) else { return false };
    let Some(by) = Some(by).filter(|by| *by > 0) else { return false };
    match u32::try_from(power - by_power) {
        // Remainders stay below 64 bits, so their products fit into 128.
        Ok(shift) => {
            let (mut rest, mut ten, mut shift) = (digits % by, 10 % by, shift);
            while shift > 0 {
                if shift % 2 == 1 {
                    rest = rest * ten % by;
                }
                ten = ten * ten % by;
                shift /= 2;
            }
            rest == 0
        }
        Err(_) => {
            let scale = 10u128.checked_pow((by_power - power).unsigned_abs());
            digits == 0 || scale.and_then(|scale| by.checked_mul(scale)).is_some_and(|by| digits % by == 0)
        }
    }
}

/// Returns the decimal digits of a number without its sign, and its exponent.
fn decimal(number: &Number) -> Option<(u128, i32)> {
    let text = number.to_string();
    let (digits, power) = text.split_once(['e', 'E']).unwrap_or((&text, "0"));
    let (whole, fraction) =
        digits.trim_start_matches('-').split_once('.').unwrap_or((digits.trim_start_matches('-'), ""));
    let fraction = fraction.trim_end_matches('0');
    let power = power.parse::<i32>().ok()? - i32::try_from(fraction.len()).ok()?;
    Some((format!("{whole}{fraction}").parse().ok()?, power))
}

pub(super) fn equal(a: &Value, b: &Value) -> bool {
    match (a, b) {
        (Value::Number(a), Value::Number(b)) => compare(a, b) == Some(Ordering::Equal),
        (Value::Array(a), Value::Array(b)) => a.len() == b.len() && a.iter().zip(b).all(|(a, b)| equal(a, b)),
        (Value::Object(a), Value::Object(b)) => {
            a.len() == b.len() && a.iter().all(|(key, a)| b.get(key).is_some_and(|b| equal(a, b)))
        }
        _ => a == b,
    }
}

/// Returns a text that is the same for two values exactly if they are equal.
pub(super) fn key(value: &Value) -> String {
    let mut outcome = String::new();
    write_key(value, &mut outcome);
    outcome
}

fn write_key(value: &Value, outcome: &mut String) {
    let _infallible = match value {
        Value::Number(number) => match whole(number) {
            Some(int) => write!(outcome, "{int}"),
            None => write!(outcome, "{}", number.as_f64().unwrap_or(f64::NAN)),
        },
        Value::Array(items) => {
            outcome.push('[');
            for item in items {
                write_key(item, outcome);
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
                write_key(value, outcome);
                outcome.push(',');
            }
            write!(outcome, "}}")
        }
        Value::String(text) => write!(outcome, "{text:?}"),
        Value::Bool(_) | Value::Null => write!(outcome, "{value}"),
    };
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn numbers_are_compared_by_worth() {
        let check = |a: &str, b: &str, expected: bool| {
            let read = |text: &str| serde_json::from_str::<Value>(text).unwrap();
            let (a, b) = (read(a), read(b));
            assert_eq!((equal(&a, &b), key(&a) == key(&b)), (expected, expected), "{a} {b}");
        };
        check("1", "1.0", true);
        check("0", "-0.0", true);
        check("18446744073709551615", "18446744073709551615", true);
        check("18446744073709551615", "18446744073709551614", false);
        check("9007199254740993", "9007199254740992", false);
        check("0.1", "0.10", true);
        check(r#"{"a":1,"b":[2]}"#, r#"{"b":[2.0],"a":1}"#, true);
        check(r#"{"a":1}"#, r#"{"a":1,"b":1}"#, false);
        check(r#"["a"]"#, r#""a""#, false);
        check("true", "1", false);
        check(r#""1""#, "1", false);
    }

    #[test]
    fn multiples_are_those_of_the_digits() {
        let check = |number: &str, divisor: &str, expected: bool| {
            let read = |text: &str| serde_json::from_str::<Number>(text).unwrap();
            assert_eq!(is_multiple(&read(number), &read(divisor)), expected, "{number} {divisor}");
        };
        check("4.02", "0.01", true);
        check("0.075", "0.01", false);
        check("-7.5", "2.5", true);
        check("0", "1e308", true);
        check("1", "1e308", false);
        check("1e308", "1e-308", true);
        check("1e300", "7", false);
        check("1e-300", "1", false);
        check("18446744073709551615", "5", true);
        check("18446744073709551615", "18446744073709551614", false);
        check("1e20", "18446744073709551615", false);
        check("3.0", "1.5", true);
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
            prop_assert_eq!(equal(&a, &b), key(&a) == key(&b));
            prop_assert!(equal(&a, &a));
        }
    }
}
