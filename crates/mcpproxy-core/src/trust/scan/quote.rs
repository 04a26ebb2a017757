//! Quotes text of a server: shortened, on one line, with invisible characters written out.

use std::fmt::Write as _;

use super::characters;
use super::fold::is_unseen;

const QUOTE_MAX_CHARS: usize = 120;

/// Returns the text between two positions, with whole words at both ends.
pub(super) fn passage(text: &str, start: usize, end: usize) -> String {
    let is_inner = |c: char| c.is_alphanumeric() || c == '_';
    let before = text.get(..start).unwrap_or_default();
    let start = before.len() - before.chars().rev().take_while(|c| is_inner(*c)).map(char::len_utf8).sum::<usize>();
    let after = text.get(end..).unwrap_or_default();
    let end = end + after.chars().take_while(|c| is_inner(*c)).map(char::len_utf8).sum::<usize>();
    visible(text.get(start..end).unwrap_or_default())
}

/// Returns the text on one line. Invisible and control characters become `\u{…}`.
pub(super) fn visible(text: &str) -> String {
    let mut out = String::new();
    let mut count = 0;
    let mut was_space = true;
    for c in text.chars() {
        if count >= QUOTE_MAX_CHARS {
            out.push('…');
            break;
        }
        let is_space = c.is_whitespace();
        if is_space && was_space {
            continue;
        }
        was_space = is_space;
        count += 1;
        if is_space {
            out.push(' ');
        } else if c.is_control() || is_unseen(c) || characters::is_special(c) {
            let _infallible = write!(out, "\\u{{{:x}}}", u32::from(c));
        } else {
            out.push(c);
        }
    }
    out.trim_end().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quotes_show_what_is_there() {
        assert_eq!(visible("a\u{200b}b\n\n c\u{1b}[0m"), "a\\u{200b}b c\\u{1b}[0m");
        assert_eq!(visible(&"x".repeat(200)).chars().count(), QUOTE_MAX_CHARS + 1);
        assert_eq!(passage("one two three four", 5, 12), "two three");
    }
}
