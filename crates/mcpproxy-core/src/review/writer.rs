//! Writes contracts as YAML: plain block mappings, with JSON quotes around every text that is not a simple word.

use serde_json::Value;

use crate::Untrusted;

/// Longer words are quoted, because some parsers limit the length of plain scalars.
const PLAIN_MAX_BYTES: usize = 200;

/// Writes one contract as an element of a list, with `notes` as comments around it.
pub(super) fn contract(notes: &Notes, tool: &str, fields: &[(&'static str, Value)]) -> String {
    let comments = |indent: &str, notes: &[String]| -> String {
        notes.iter().map(|note| format!("{indent}# {}\n", inert(note))).collect()
    };
    let mut text = comments("", &notes.before);
    text.push_str(&format!("- tool: {}\n", scalar(tool)));
    for (name, value) in fields {
        text.push_str(&format!("  {name}: {}\n", flow(value)));
    }
    text + &comments("  ", &notes.after)
}

/// Comments around a contract.
#[derive(Debug, Default)]
pub(super) struct Notes {
    pub(super) before: Vec<String>,
    /// Fields that the operator may want to write, and why the draft leaves them out.
    pub(super) after: Vec<String>,
}

/// Writes a value on one line.
pub(super) fn flow(value: &Value) -> String {
    match value {
        Value::Null | Value::Bool(_) | Value::Number(_) => value.to_string(),
        Value::String(text) => scalar(text),
        Value::Array(values) => {
            let values: Vec<String> = values.iter().map(flow).collect();
            format!("[{}]", values.join(", "))
        }
        Value::Object(fields) if fields.is_empty() => "{}".to_owned(),
        Value::Object(fields) => {
            let fields: Vec<String> =
                fields.iter().map(|(key, value)| format!("{}: {}", scalar(key), flow(value))).collect();
            format!("{{ {} }}", fields.join(", "))
        }
    }
}

/// Writes a text. Quotes it unless every YAML parser reads it as this text.
pub(super) fn scalar(text: &str) -> String {
    let begins_with_letter = text.bytes().next().is_some_and(|b| b.is_ascii_alphabetic());
    let is_plain =
        |part: &str| part.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'.' | b'-' | b'/'));
    // A colon between two letters is part of a word, as in `mail:send`. At the end it would make a key.
    let is_word = text.split(':').all(|part| !part.is_empty() && is_plain(part));
    if begins_with_letter && is_word && !is_word_of_yaml(text) && text.len() <= PLAIN_MAX_BYTES {
        text.to_owned()
    } else {
        quoted(text)
    }
}

/// Returns true for words with a meaning in YAML: `no` is a boolean in some dialects, and `null` is null in all of
/// them.
fn is_word_of_yaml(text: &str) -> bool {
    let words = ["true", "false", "null", "yes", "no", "on", "off", "y", "n"];
    words.iter().any(|word| text.eq_ignore_ascii_case(word))
}

/// Writes a text in double quotes with JSON's escapes, which YAML shares. Control and invisible characters are escaped.
fn quoted(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 2);
    out.push('"');
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            ' '..='~' => out.push(c),
            c if c.is_alphanumeric() => out.push(c),
            c => {
                let mut units = [0u16; 2];
                for unit in c.encode_utf16(&mut units) {
                    out.push_str(&format!("\\u{unit:04x}"));
                }
            }
        }
    }
    out.push('"');
    out
}

/// Makes text safe for a comment: no line break can end the comment early.
fn inert(note: &str) -> String {
    Untrusted::new(note).for_terminal().into_owned()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn texts_are_quoted_when_they_could_be_anything_else() {
        let check = |text: &str, expected: &str| assert_eq!(scalar(text), expected, "{text:?}");
        check("mail:emails.send_external", "mail:emails.send_external");
        check("low", "low");
        check("24h", "\"24h\"");
        check("no", "\"no\"");
        check("Null", "\"Null\"");
        check("", "\"\"");
        check("a:", "\"a:\"");
        check("a: b", "\"a: b\"");
        check("- x", "\"- x\"");
        check("x #y", "\"x #y\"");
        check("*alias", "\"*alias\"");
        check("&anchor", "\"&anchor\"");
        check("!!python/object", "\"!!python/object\"");
        check("a\nriskLevel: low", "\"a\\nriskLevel: low\"");
        check("\"}\\", "\"\\\"}\\\\\"");
        check("\u{202E}evil\u{2028}\u{7}\u{85}", "\"\\u202eevil\\u2028\\u0007\\u0085\"");
        check("é🙂", "\"é\\ud83d\\ude42\"");
    }

    #[test]
    fn a_contract_is_a_list_element() {
        let notes = Notes { before: vec!["two\nlines".to_owned()], after: vec!["auditEvent: x".to_owned()] };
        let fields = [
            ("riskLevel", json!("low")),
            ("permissions", json!(["a:b", "c d"])),
            ("dryRun", json!({"mode": "supported", "parameter": "dryRun"})),
            ("inputSchema", json!({})),
        ];
        let expected = "\
# two\\nlines
- tool: fx:tool
  riskLevel: low
  permissions: [a:b, \"c d\"]
  dryRun: { mode: supported, parameter: dryRun }
  inputSchema: {}
  # auditEvent: x
";
        assert_eq!(contract(&notes, "fx:tool", &fields), expected);
    }
}
