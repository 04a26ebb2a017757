//! Reads text byte by byte, and recognizes the quotes and escapes of JSON at any level of embedding.
//!
//! JSON inside a string of JSON escapes its quotes as `\"`, and one level deeper as `\\\"`. The number of backslashes
//! tells the level, and a string ends only at a quote of its own level.

use std::ops::Range;

#[cfg(test)]
thread_local! {
    /// Bytes stepped over so far, so that a test can find quadratic work.
    pub(super) static STEPS: std::cell::Cell<usize> = const { std::cell::Cell::new(0) };
}

/// A text and its bytes. Bytes beyond the end read as zero.
#[derive(Clone, Copy)]
pub(super) struct Text<'t> {
    text: &'t str,
    bytes: &'t [u8],
}

impl<'t> Text<'t> {
    pub(super) fn new(text: &'t str) -> Self {
        Self { text, bytes: text.as_bytes() }
    }

    pub(super) fn len(self) -> usize {
        self.bytes.len()
    }

    pub(super) fn at(self, at: usize) -> u8 {
        self.bytes.get(at).copied().unwrap_or(0)
    }

    pub(super) fn slice(self, range: Range<usize>) -> &'t str {
        self.text.get(range).unwrap_or_default()
    }

    /// Returns `true` if `word` is at `at`, ignoring case.
    pub(super) fn has(self, at: usize, word: &str) -> bool {
        self.bytes.get(at..at + word.len()).is_some_and(|found| found.eq_ignore_ascii_case(word.as_bytes()))
    }

    /// Returns `true` if `word` ends at `end`, ignoring case.
    pub(super) fn has_before(self, end: usize, word: &str) -> bool {
        end.checked_sub(word.len()).is_some_and(|start| self.has(start, word))
    }

    /// Returns the first position from `at` on whose byte is not one of `those`.
    pub(super) fn skip(self, at: usize, those: impl Fn(u8) -> bool) -> usize {
        let rest = self.bytes.get(at..).unwrap_or_default();
        let count = rest.iter().position(|b| !those(*b)).unwrap_or(rest.len());
        #[cfg(test)]
        STEPS.set(STEPS.get() + count + 1);
        at + count
    }

    /// Returns the position after the backslashes at `at`.
    pub(super) fn backslashes(self, at: usize) -> usize {
        self.skip(at, |b| b == b'\\')
    }

    /// Decodes the `uXXXX` at `at`, if it is an ASCII character.
    pub(super) fn coded(self, at: usize) -> Option<u8> {
        if self.at(at) != b'u' || self.at(at + 1) != b'0' || self.at(at + 2) != b'0' {
            return None;
        }
        let digit = |at| char::from(self.at(at)).to_digit(16).and_then(|digit| u8::try_from(digit).ok());
        Some(digit(at + 3)? << 4 | digit(at + 4)?)
    }

    /// Returns `true` if a word can begin at `at`: not after a letter or digit, except in camel case or after an
    /// escape.
    pub(super) fn begins_word(self, at: usize) -> bool {
        let Some(last) = at.checked_sub(1) else { return true };
        let before = self.at(last);
        !before.is_ascii_alphanumeric()
            || (self.at(at).is_ascii_uppercase() && !before.is_ascii_uppercase())
            || self.ends_escape(at)
    }

    /// Returns `true` if an escape such as `\n`, `\u0022` or `%20` ends at `at`.
    pub(super) fn ends_escape(self, at: usize) -> bool {
        let back = |count: usize| at.checked_sub(count).map_or(0, |before| self.at(before));
        (back(2) == b'\\' && matches!(back(1), b'n' | b'r' | b't' | b'b' | b'f'))
            || (back(3) == b'%' && back(2).is_ascii_hexdigit() && back(1).is_ascii_hexdigit())
            || (back(6) == b'\\' && at.checked_sub(5).is_some_and(|start| self.coded(start).is_some()))
    }

    /// Returns the position after white space, written plainly or as escapes.
    pub(super) fn space(self, mut at: usize) -> usize {
        loop {
            at = self.skip(at, |b| matches!(b, b' ' | b'\t' | b'\n' | b'\r'));
            let behind = self.backslashes(at);
            if behind == at || !matches!(self.at(behind), b'n' | b'r' | b't') {
                return at;
            }
            at = behind + 1;
        }
    }
}

/// The quote around a string, with the backslashes of its level of embedding. Some writers use `\u0022` for `\"`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Quote {
    pub(super) backslashes: usize,
    pub(super) mark: u8,
    pub(super) coded: bool,
}

impl Quote {
    pub(super) fn at(text: Text<'_>, at: usize) -> Option<Self> {
        let behind = text.backslashes(at);
        let backslashes = behind - at;
        match text.at(behind) {
            mark @ (b'"' | b'\'' | b'`') => Some(Self { backslashes, mark, coded: false }),
            b'u' if backslashes > 0 => {
                let mark = text.coded(behind).filter(|mark| matches!(mark, b'"' | b'\'' | b'`'))?;
                Some(Self { backslashes, mark, coded: true })
            }
            _ => None,
        }
    }

    pub(super) fn len(self) -> usize {
        self.backslashes + if self.coded { 5 } else { 1 }
    }

    /// Returns `true` for the quote of a JSON string that is not embedded in another one.
    pub(super) fn is_outermost(self) -> bool {
        self.mark == b'"' && !self.coded && self.backslashes.is_multiple_of(2)
    }

    /// Returns `true` if one value can mix both quotes, as Python's `repr` does.
    pub(super) fn goes_with(self, other: Self) -> bool {
        self == other || (!self.coded && !other.coded && self.backslashes == other.backslashes && other.mark != b'`')
    }
}

/// The end of a string.
pub(super) struct StringEnd {
    /// End of the content.
    pub(super) content: usize,
    /// Position after the closing quote, or `content` if there is none.
    pub(super) after: usize,
    pub(super) is_closed: bool,
}

/// The boundary of a string without a closing quote.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum StringBoundary {
    /// The end of the text, or of the surrounding string.
    Text,
    /// Also the end of the line, because quotes in prose are not always closed.
    Line,
}

/// Finds the end of the string whose content begins at `from`. Pass `is_json` if the whole text is JSON, where a plain
/// quote always ends a string.
pub(super) fn string_end(
    text: Text<'_>,
    from: usize,
    quote: Quote,
    within: StringBoundary,
    is_json: bool,
) -> StringEnd {
    let mut at = from;
    let open = |content| StringEnd { content, after: content, is_closed: false };
    while at < text.len() {
        at = text.skip(at, |b| !matches!(b, b'\\' | b'"' | b'\'' | b'`' | b'\n'));
        let behind = text.backslashes(at);
        let count = behind - at;
        let byte = text.at(behind);
        let is_line_end = byte == b'\n' || (count > 0 && matches!(byte, b'n' | b'r'));
        if quote.coded {
            match text.coded(behind).filter(|mark| count > 0 && *mark == quote.mark) {
                Some(_) if count % (4 * quote.backslashes) == quote.backslashes => {
                    return StringEnd { content: behind - quote.backslashes, after: behind + 5, is_closed: true };
                }
                Some(_) if count < quote.backslashes => return open(at),
                _ if byte == b'"' => return open(at),
                _ => {}
            }
        } else if byte == quote.mark {
            let unit = 2 * (quote.backslashes + 1);
            match count % unit {
                rest if rest == quote.backslashes => {
                    return StringEnd { content: behind - quote.backslashes, after: behind + 1, is_closed: true };
                }
                rest if rest == unit - 1 => {}
                _ => return open(at),
            }
        } else if byte == b'"' && is_json && count.is_multiple_of(2) {
            return open(at);
        }
        if within == StringBoundary::Line && is_line_end {
            return open(at);
        }
        // Never stop inside a multi-byte character.
        at = if text.at(behind).is_ascii() { behind + 1 } else { behind };
    }
    open(text.len())
}
