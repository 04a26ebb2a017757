//! Cuts JSON text into slices of itself, without parsing it into values.
//!
//! A gateway that parses a message into types and writes it again changes the message. `1.0` becomes `1`, keys change
//! their order, and a field of the next protocol revision disappears. So messages are taken apart and put together from
//! slices of the text that arrived:
//!
//! ```text
//! members(r#"{"name":"t", "arguments":{"x":1.0}}"#)
//!     == [("name", "\"t\""), ("arguments", "{\"x\":1.0}")]
//! ```
//!
//! Each call looks at one level only. It steps over nested values by counting brackets outside of strings, which is
//! enough because the strict reader has already checked the syntax. Call [`members`] on a slice to go one level down.
//!
//! Text that did not pass the reader gives `None` or odd slices, never a panic and never a slice outside of the text.

use std::borrow::Cow;

/// The members of an object, in their order: the unescaped key and the exact text of the value.
pub type Members<'a> = Vec<(Cow<'a, str>, &'a str)>;

/// Splits the text of an object into its members. Returns `None` if the text is not an object.
pub fn members(object: &str) -> Option<Members<'_>> {
    let mut cursor = Cursor::new(object);
    cursor.space();
    if cursor.peek() != Some(b'{') {
        return None;
    }
    cursor.at += 1;
    let mut found = Vec::with_capacity(8);
    loop {
        cursor.space();
        match cursor.peek()? {
            b'}' => return Some(found),
            b',' => cursor.at += 1,
            b'"' => {
                let key = cursor.skip_value()?;
                cursor.space();
                (cursor.peek()? == b':').then_some(())?;
                cursor.at += 1;
                cursor.space();
                let value = cursor.skip_value()?;
                found.push((string_value(object.get(key)?)?, object.get(value)?));
            }
            _ => return None,
        }
    }
}

/// Returns the content of a JSON string, given its text with the quotes. Returns `None` for other text.
pub fn string_value(text: &str) -> Option<Cow<'_, str>> {
    let inner = text.strip_prefix('"')?.strip_suffix('"')?;
    Some(if inner.contains('\\') { Cow::Owned(unescape(inner)) } else { Cow::Borrowed(inner) })
}

/// Writes text as a JSON string.
pub fn quote(text: &str) -> String {
    serde_json::Value::String(text.to_owned()).to_string()
}

/// Unescapes the text between the quotes of a string. The strict reader has checked the escapes.
pub(super) fn unescape(inner: &str) -> String {
    // `serde_json` wants the quotes that were cut off.
    serde_json::from_str(&format!("\"{inner}\"")).unwrap_or_else(|_| inner.to_owned())
}

/// A position in JSON text that the strict reader has accepted.
pub(super) struct Cursor<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Cursor<'a> {
    pub(super) fn new(text: &'a str) -> Self {
        Self { bytes: text.as_bytes(), at: 0 }
    }

    pub(super) fn peek(&self) -> Option<u8> {
        self.bytes.get(self.at).copied()
    }

    pub(super) fn space(&mut self) {
        while matches!(self.peek(), Some(b' ' | b'\t' | b'\n' | b'\r')) {
            self.at += 1;
        }
    }

    /// Steps over one byte. Returns `None` if another byte is there.
    pub(super) fn step(&mut self, byte: u8) -> Option<()> {
        (self.peek()? == byte).then(|| self.at += 1)
    }

    /// Steps over one value and returns its range.
    pub(super) fn skip_value(&mut self) -> Option<std::ops::Range<usize>> {
        let start = self.at;
        match self.peek()? {
            b'"' => self.skip_string()?,
            b'{' | b'[' => {
                let mut depth = 0usize;
                loop {
                    match self.peek()? {
                        b'"' => {
                            self.skip_string()?;
                            continue;
                        }
                        b'{' | b'[' => depth += 1,
                        b'}' | b']' => depth -= 1,
                        _ => {}
                    }
                    self.at += 1;
                    if depth == 0 {
                        break;
                    }
                }
            }
            _ => {
                while self.peek().is_some_and(|b| !matches!(b, b',' | b'}' | b']' | b' ' | b'\t' | b'\n' | b'\r')) {
                    self.at += 1;
                }
            }
        }
        Some(start..self.at)
    }

    fn skip_string(&mut self) -> Option<()> {
        self.at += 1;
        loop {
            // Strings are most of a large message, so this search decides how fast it is.
            self.at += memchr::memchr2(b'"', b'\\', self.bytes.get(self.at..)?)?;
            if self.peek()? == b'"' {
                self.at += 1;
                return Some(());
            }
            self.at += 2;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn keeps_order_and_exact_text() {
        let text = r#" { "b" : 1.0 , "a\u0062" : {"x":[1,"}\""]} , "c":"q\n", "d":[ ] } "#;
        let found: Vec<(String, &str)> =
            members(text).unwrap().into_iter().map(|(key, value)| (key.into_owned(), value)).collect();
        let expected = [("b", "1.0"), ("ab", r#"{"x":[1,"}\""]}"#), ("c", r#""q\n""#), ("d", "[ ]")];
        assert_eq!(found, expected.map(|(key, value)| (key.to_owned(), value)));
        assert_eq!(members("[1]"), None);
        assert_eq!(members("{}"), Some(vec![]));
        assert_eq!(string_value(r#""a\"b""#).as_deref(), Some("a\"b"));
        assert_eq!(string_value("1"), None);
    }

    proptest! {
        #[test]
        fn never_panics_on_unchecked_text(text in r#"[\[\]{}",:a-b\\ 1]{0,30}"#) {
            let _outcome = members(&text);
        }
    }
}
