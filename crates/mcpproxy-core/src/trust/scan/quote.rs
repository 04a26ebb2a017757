//! Quotes text of a server: shortened, on one line, with invisible characters written out.

use std::fmt::Write as _;

use super::characters;
use super::fold::is_unseen;

const QUOTE_MAX_CHARS: usize = 120;

/// Returns the text between two positions and a little around it.
pub(super) fn passage(text: &str, start: usize, end: usize) -> String {
    let start = (start.saturating_sub(12)..=start).find(|at| is_word_start(text, *at)).unwrap_or(start);
    let end = (end..=text.len()).find(|at| text.get(*at..).is_some_and(|rest| !rest.starts_with(char::is_alphanumeric)));
    visible(text.get(start..end.unwrap_or(text.len())).unwrap_or_default())
}

fn is_word_start(text: &str, at: usize) -> bool {
    let before = text.get(..at).map(|before| before.ends_with(|c: char| !c.is_alphanumeric()));
    at == 0 || before == Some(true)
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
