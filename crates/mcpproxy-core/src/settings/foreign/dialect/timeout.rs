//! Timeouts that other clients write as a number without a unit.

use serde_json::Number;

use super::table::Unit;
use crate::file::{Node, NodeValue};
use crate::settings::amount;

/// Converts a number of seconds or milliseconds into a text with its unit.
pub(super) fn duration(node: &Node, unit: Unit) -> Option<String> {
    let text = match &node.value {
        // A reader of TOML may give a fraction as text.
        NodeValue::Text(text) => match text.parse::<Number>() {
            Ok(number) => in_milliseconds(&number, unit)?,
            Err(_) => text.clone(),
        },
        NodeValue::Number(number) => in_milliseconds(number, unit)?,
        NodeValue::Null | NodeValue::Bool(_) | NodeValue::Array(_) | NodeValue::Object(_) | NodeValue::Broken => {
            return None;
        }
    };
    amount::parse_duration(&text).ok().map(|_| text)
}

fn in_milliseconds(number: &Number, unit: Unit) -> Option<String> {
    const BOUNDARY: f64 = 1000.0;
    let number = number.as_f64().filter(|number| *number > 0.0 && *number < 1e12)?;
    let factor = match unit {
        Unit::Milliseconds => 1.0,
        Unit::Seconds => 1000.0,
        Unit::ByItsSize => {
            if number < BOUNDARY {
                1000.0
            } else {
                1.0
            }
        }
    };
    let milliseconds = (number * factor).round();
    Some(if milliseconds % 1000.0 == 0.0 { format!("{}s", milliseconds / 1000.0) } else { format!("{milliseconds}ms") })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_become_durations() {
        let check = |number: &str, unit: Unit, expected: Option<&str>| {
            let node = super::super::super::node(&serde_json::from_str(number).unwrap());
            assert_eq!(duration(&node, unit).as_deref(), expected, "{number}");
        };
        check("600000", Unit::ByItsSize, Some("600s"));
        check("1000", Unit::ByItsSize, Some("1s"));
        check("999", Unit::ByItsSize, Some("999s"));
        check("60", Unit::ByItsSize, Some("60s"));
        check("1.5", Unit::Seconds, Some("1500ms"));
        check("250", Unit::Milliseconds, Some("250ms"));
        check("\"2m\"", Unit::ByItsSize, Some("2m"));
        check("\"45.5\"", Unit::Seconds, Some("45500ms"));
        check("0", Unit::ByItsSize, None);
        check("-1", Unit::ByItsSize, None);
        check("1e300", Unit::ByItsSize, None);
        check("86400001", Unit::ByItsSize, None);
        check("true", Unit::ByItsSize, None);
        check("\"soon\"", Unit::ByItsSize, None);
    }
}
