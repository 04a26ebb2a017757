//! Types YAML scalars without quotes by the core schema of YAML 1.2, in which `no` and `yes` are texts.

use serde_json::Number;

use super::NodeValue;
use crate::json::is_exact;

/// Returns the value, or the reason why JSON has none for it.
pub(super) fn typed(text: &str) -> Result<NodeValue, &'static str> {
    match text {
        "" | "~" | "null" | "Null" | "NULL" => return Ok(NodeValue::Null),
        "true" | "True" | "TRUE" => return Ok(NodeValue::Bool(true)),
        "false" | "False" | "FALSE" => return Ok(NodeValue::Bool(false)),
        ".nan" | ".NaN" | ".NAN" => return Err(NOT_FINITE),
        _ => {}
    }
    let unsigned = text.strip_prefix(['-', '+']).unwrap_or(text);
    if matches!(unsigned, ".inf" | ".Inf" | ".INF") {
        return Err(NOT_FINITE);
    }
    if let Some((digits, radix)) = with_radix(text) {
        let number = u64::from_str_radix(digits, radix).map_err(|_| TOO_LARGE)?;
        return Ok(NodeValue::Number(number.into()));
    }
    match decimal(unsigned) {
        None => Ok(NodeValue::Text(text.to_owned())),
        Some(digits) => {
            let sign = if text.starts_with('-') { "-" } else { "" };
            let written = format!("{sign}{digits}");
            let number = number(&written).ok_or(TOO_LARGE)?;
            if is_exact(&written) { Ok(NodeValue::Number(number)) } else { Err(TOO_LONG) }
        }
    }
}

const NOT_FINITE: &str = "JSON does not support this number; quote it if it is text";
const TOO_LARGE: &str = "this number is too large; quote it if it is text";
const TOO_LONG: &str = "this number has more digits than 64 bits hold exactly; use fewer, or quote it if it is text";

fn with_radix(text: &str) -> Option<(&str, u32)> {
    let (digits, radix) = match (text.strip_prefix("0x"), text.strip_prefix("0o")) {
        (Some(digits), _) => (digits, 16),
        (None, Some(digits)) => (digits, 8),
        (None, None) => return None,
    };
    (!digits.is_empty() && digits.chars().all(|c| c.is_digit(radix))).then_some((digits, radix))
}

/// Writes a decimal number as JSON does. YAML also allows `007`, `.5` and `1.`.
fn decimal(text: &str) -> Option<String> {
    let (mantissa, exponent) = match text.split_once(['e', 'E']) {
        Some((mantissa, exponent)) => {
            let digits = exponent.strip_prefix(['-', '+']).unwrap_or(exponent);
            is_digits(digits).then_some((mantissa, format!("e{exponent}")))?
        }
        None => (text, String::new()),
    };
    let (whole, fraction) = match mantissa.split_once('.') {
        Some((whole, fraction)) => (whole, Some(fraction)),
        None => (mantissa, None),
    };
    let has_whole = is_digits(whole);
    let fits = match fraction {
        None => has_whole,
        Some("") => has_whole,
        Some(fraction) => is_digits(fraction) && (has_whole || whole.is_empty()),
    };
    let whole = whole.trim_start_matches('0');
    let whole = if whole.is_empty() { "0" } else { whole };
    let fraction = fraction.map(|fraction| format!(".{}", if fraction.is_empty() { "0" } else { fraction }));
    fits.then(|| format!("{whole}{}{exponent}", fraction.unwrap_or_default()))
}

fn is_digits(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit())
}

fn number(text: &str) -> Option<Number> {
    serde_json::from_str(text).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_core_schema() {
        let check = |text: &str, expected: &str| {
            let found = match typed(text) {
                Err(message) => message.to_owned(),
                Ok(NodeValue::Text(text)) => format!("text {text}"),
                Ok(NodeValue::Number(number)) => format!("number {number}"),
                Ok(other) => format!("{other:?}"),
            };
            assert_eq!(found, expected, "{text}");
        };
        for null in ["", "~", "null", "Null", "NULL"] {
            check(null, "Null");
        }
        for text in
            ["nuLL", "no", "yes", "on", "off", "y", "tRUE", "-", "+", ".", "e", "1e", "1_000", "1:30", "0x", "0o8"]
        {
            check(text, &format!("text {text}"));
        }
        for text in ["0b1", "-0x1", "1.2.3", "1e5.0", "--1", "٣", "1 2", ".e1", "Infinity", "nan", "12 h", "24h"] {
            check(text, &format!("text {text}"));
        }
        check("true", "Bool(true)");
        check("FALSE", "Bool(false)");
        check("0", "number 0");
        check("-0", "number -0.0");
        check("007", "number 7");
        check("+12", "number 12");
        check("-12", "number -12");
        check("0x1F", "number 31");
        check("0o17", "number 15");
        check("1.5", "number 1.5");
        check(".5", "number 0.5");
        check("-1.", "number -1.0");
        check("1e3", "number 1000.0");
        check("1.5E-2", "number 0.015");
        check("18446744073709551615", "number 18446744073709551615");
        check("18446744073709551616", TOO_LONG);
        check("-9223372036854775809", TOO_LONG);
        check("0.10000000000000000000000000001", TOO_LONG);
        check("1e999", TOO_LARGE);
        check("0xFFFFFFFFFFFFFFFFF", TOO_LARGE);
        check("-.inf", NOT_FINITE);
        check(".NaN", NOT_FINITE);
    }
}
