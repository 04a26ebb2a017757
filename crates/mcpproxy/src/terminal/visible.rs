//! Formats JSON and YAML without control or invisible characters. Programs read the same values.

use std::fmt::Write as _;

use anyhow::Context as _;
use serde::Serialize;

use crate::terminal::output::lines;

/// Formats a value as JSON on one line.
pub(crate) fn json(value: &(impl Serialize + ?Sized)) -> anyhow::Result<String> {
    Ok(escaped(serde_json::to_string(value)?, escape_json))
}

pub(crate) fn json_pretty(value: &impl Serialize) -> anyhow::Result<String> {
    Ok(escaped(serde_json::to_string_pretty(value)?, escape_json))
}

pub(crate) fn yaml(value: &impl Serialize) -> anyhow::Result<String> {
    // Raw JSON has no meaning for the YAML writer, so convert it to a value first.
    let value = serde_json::to_value(value)?;
    let text = serde_saphyr::to_string(&value).context("could not write YAML")?;
    if !is_hidden(&text) {
        return Ok(text);
    }
    // YAML has escapes only in double quotes. With all strings in double quotes, YAML looks like JSON.
    Ok(escaped(serde_json::to_string_pretty(&value)? + "\n", escape_yaml))
}

fn is_hidden(text: &str) -> bool {
    // Plain ASCII needs no escapes.
    let is_plain = text.bytes().all(|byte| byte == b'\n' || (b' '..=b'~').contains(&byte));
    !is_plain && lines(text) != text
}

/// Escapes hidden characters. In JSON they occur only inside strings, so an escape is always valid there.
fn escaped(text: String, escape: fn(&mut String, char)) -> String {
    if !is_hidden(&text) {
        return text;
    }
    let mut out = String::with_capacity(text.len() + 64);
    let mut buffer = [0; 4];
    for c in text.chars() {
        if is_hidden(c.encode_utf8(&mut buffer)) { escape(&mut out, c) } else { out.push(c) }
    }
    out
}

fn escape_json(out: &mut String, c: char) {
    for unit in c.encode_utf16(&mut [0; 2]) {
        let _infallible = write!(out, "\\u{unit:04x}");
    }
}

fn escape_yaml(out: &mut String, c: char) {
    let _infallible = write!(out, "\\U{:08x}", u32::from(c));
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn nothing_hides_and_nothing_is_lost() {
        let value = json!({
            "plain": "ünï\ncode \"🙂\" \\u",
            "acts": "a\u{1b}[2J\u{9b}2J\u{7f}\r",
            "hides": ["\u{202e}x: y # z", "tag\u{e0041}", "\u{feff}- a", {"ke\u{200b}y": null}],
            "n": [1, 2.5, true],
        });
        let json = super::json(&value).unwrap();
        assert!(!is_hidden(&json) && json.contains("\\u202ex") && json.contains("\\udb40\\udc41"), "{json}");
        assert_eq!(serde_json::from_str::<Value>(&json).unwrap(), value);
        assert_eq!(serde_json::from_str::<Value>(&json_pretty(&value).unwrap()).unwrap(), value);
        let yaml = yaml(&value).unwrap();
        assert!(!is_hidden(&yaml), "{yaml}");
        assert_eq!(serde_saphyr::from_str::<Value>(&yaml).unwrap(), value, "{yaml}");
    }
}
