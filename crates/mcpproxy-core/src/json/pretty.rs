//! Writes JSON text with line breaks and indentation, for people. Numbers keep all their digits.

use super::bytes::before_quote;
use super::reader::SERVER_DEPTH_MAX;
use super::{push_quoted, string_value};

/// Formats JSON text that the strict reader has accepted, with two spaces for each level. Other text gives odd lines,
/// never a panic.
pub fn pretty(text: &str) -> String {
    let bytes = text.as_bytes();
    let mut out = String::with_capacity(text.len() * 2);
    let (mut depth, mut at) = (0_usize, 0);
    while let Some(byte) = bytes.get(at).copied() {
        match byte {
            b' ' | b'\t' | b'\n' | b'\r' => at += 1,
            b'"' => {
                let end = string_end(bytes, at + 1);
                let string = text.get(at..end).unwrap_or_default();
                // Escapes are written in one way, so that no letter hides behind one.
                match string_value(string) {
                    Some(value) => push_quoted(&mut out, &value),
                    None => out.push_str(string),
                }
                at = end;
            }
            b'{' | b'[' => {
                let rest = text.get(at + 1..).unwrap_or_default();
                let after_space = rest.trim_start();
                out.push(char::from(byte));
                if let Some(close @ ('}' | ']')) = after_space.chars().next() {
                    out.push(close);
                    at += rest.len() - after_space.len() + 1;
                } else {
                    depth += 1;
                    break_line(&mut out, depth);
                }
                at += 1;
            }
            b'}' | b']' => {
                depth = depth.saturating_sub(1);
                break_line(&mut out, depth);
                out.push(char::from(byte));
                at += 1;
            }
            b',' => {
                out.push(',');
                break_line(&mut out, depth);
                at += 1;
            }
            b':' => {
                out.push_str(": ");
                at += 1;
            }
            _ => {
                let rest = text.get(at..).unwrap_or_default();
                let word = rest.split([',', '}', ']', ':', '"', ' ', '\t', '\n', '\r']).next().unwrap_or_default();
                out.push_str(word);
                at += word.len().max(1);
            }
        }
    }
    out
}

fn break_line(out: &mut String, depth: usize) {
    out.push('\n');
    // The readers accept no deeper text. Other text, such as a million brackets, must not grow with the square of its length.
    out.extend(std::iter::repeat_n("  ", depth.min(SERVER_DEPTH_MAX)));
}

/// Returns the place after the quote that ends a string.
pub(super) fn string_end(bytes: &[u8], mut at: usize) -> usize {
    while let Some(skipped) = before_quote(bytes.get(at..).unwrap_or_default()) {
        at += skipped;
        if bytes.get(at) == Some(&b'"') {
            return at + 1;
        }
        at += 2;
    }
    bytes.len()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::Value;

    #[test]
    fn looks_as_values_do_and_keeps_digits() {
        for text in [
            "{}",
            "[ ]",
            "null",
            r#"{"a":[1,2.5,{"b":{}}],"c\n":"x, {y}: \"z\"","d":[[],true, false ,null]}"#,
            "{ \"a\" : [ ] , \"b\" : \"\\u0041\" }",
        ] {
            let value: Value = serde_json::from_str(text).unwrap();
            assert_eq!(pretty(text), format!("{value:#}"), "{text}");
        }
        assert_eq!(pretty(r#"{"n":18446744073709551616}"#), "{\n  \"n\": 18446744073709551616\n}");
        assert_eq!(pretty(r#"{"n":1.0}"#), "{\n  \"n\": 1.0\n}");
        for odd in ["{", "]", "\"a", "{\"", "[,", "é", "\\", "{\"a\":é"] {
            pretty(odd);
        }
        // The first part of a longer text.
        assert_eq!(pretty(r#"{"a":[1,{"b":"x y"#), "{\n  \"a\": [\n    1,\n    {\n      \"b\": \"x y");
        assert!(pretty(&"[".repeat(10_000)).len() < 10_000 * 2 * (SERVER_DEPTH_MAX + 1), "bounded for each character");
    }
}
