//! Strings, numbers, and the words `true`, `false` and `null`.

use std::borrow::Cow;

use super::{ReadFailure, StrictReader};
use crate::json::bytes::before_special;
use crate::json::error::ReadErrorKind;
use crate::json::members::unescape;

/// Maximum number of digits in an exponent.
const EXPONENT_MAX_DIGITS: usize = 9;

impl<'a> StrictReader<'a> {
    /// Reads a string and returns its content, unescaped where needed.
    pub(super) fn string(&mut self) -> Result<Cow<'a, str>, ReadFailure> {
        let start = self.at + 1;
        let escaped = self.skip_string()?;
        let inner = self.text.get(start..self.at - 1).unwrap_or_default();
        Ok(if escaped { Cow::Owned(unescape(inner)) } else { Cow::Borrowed(inner) })
    }

    /// Steps over a string and returns true if it has escapes. Values are not unescaped, because nothing compares them.
    pub(super) fn skip_string(&mut self) -> Result<bool, ReadFailure> {
        self.at += 1;
        let mut escaped = false;
        loop {
            self.at += before_special(self.bytes.get(self.at..).unwrap_or_default());
            match self.peek() {
                Some(b'"') => {
                    self.at += 1;
                    return Ok(escaped);
                }
                Some(b'\\') => {
                    escaped = true;
                    self.escape()?;
                }
                Some(_) => return self.fail("control characters in a string to be escaped"),
                None => return Err(ReadFailure::of(ReadErrorKind::End)),
            }
        }
    }

    fn escape(&mut self) -> Result<(), ReadFailure> {
        self.at += 1;
        match self.peek() {
            Some(b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't') => {
                self.at += 1;
                Ok(())
            }
            Some(b'u') => {
                self.at += 1;
                match self.hex4()? {
                    0xD800..=0xDBFF => {
                        if self.bytes.get(self.at..self.at + 2) != Some(b"\\u") {
                            return Err(ReadFailure::of(ReadErrorKind::LoneSurrogate));
                        }
                        self.at += 2;
                        match self.hex4()? {
                            0xDC00..=0xDFFF => Ok(()),
                            _ => Err(ReadFailure::of(ReadErrorKind::LoneSurrogate)),
                        }
                    }
                    0xDC00..=0xDFFF => Err(ReadFailure::of(ReadErrorKind::LoneSurrogate)),
                    _ => Ok(()),
                }
            }
            _ => self.fail("an escape such as `\\n` or `\\u00e9`"),
        }
    }

    fn hex4(&mut self) -> Result<u32, ReadFailure> {
        let mut code = 0;
        for _ in 0..4 {
            let Some(digit) = self.peek().and_then(|b| char::from(b).to_digit(16)) else {
                return self.fail("four hexadecimal digits");
            };
            code = code * 16 + digit;
            self.at += 1;
        }
        Ok(code)
    }

    pub(super) fn number(&mut self) -> Result<(), ReadFailure> {
        let start = self.at;
        if self.peek() == Some(b'-') {
            self.at += 1;
        }
        match self.peek() {
            Some(b'0') => self.at += 1,
            Some(b'1'..=b'9') => self.digits()?,
            _ => return self.fail("a digit"),
        }
        if self.peek() == Some(b'.') {
            self.at += 1;
            self.digits()?;
        }
        let mut may_overflow = self.at - start > 300;
        if matches!(self.peek(), Some(b'e' | b'E')) {
            may_overflow = true;
            self.at += 1;
            if matches!(self.peek(), Some(b'+' | b'-')) {
                self.at += 1;
            }
            let exponent = self.at;
            self.digits()?;
            // Code that compares numbers by their digits counts with exponents.
            if self.at - exponent > EXPONENT_MAX_DIGITS {
                self.at = start;
                return Err(ReadFailure::of(ReadErrorKind::NumberRange));
            }
        }
        // Ask both parsers: close to the largest `f64`, `serde_json` rounds differently from the standard library.
        let fits = |text: &str| {
            text.parse::<f64>().is_ok_and(f64::is_finite) && serde_json::from_str::<f64>(text).is_ok_and(f64::is_finite)
        };
        if may_overflow && !self.text.get(start..self.at).is_some_and(fits) {
            self.at = start;
            return Err(ReadFailure::of(ReadErrorKind::NumberRange));
        }
        Ok(())
    }

    fn digits(&mut self) -> Result<(), ReadFailure> {
        if !self.peek().is_some_and(|b| b.is_ascii_digit()) {
            return self.fail("a digit");
        }
        while self.peek().is_some_and(|b| b.is_ascii_digit()) {
            self.at += 1;
        }
        Ok(())
    }

    pub(super) fn word(&mut self, word: &'static str) -> Result<(), ReadFailure> {
        for expected in word.bytes() {
            if self.peek() != Some(expected) {
                return self.fail("a value");
            }
            self.at += 1;
        }
        Ok(())
    }
}
