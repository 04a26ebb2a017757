//! Text from agents and servers, which must be escaped before it is printed.

use std::borrow::Cow;
use std::fmt::Write as _;

/// Text from an agent, a server or a file. It has no `Display`: the caller chooses the destination, and it is escaped
/// for that place.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Untrusted(String);

impl Untrusted {
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    /// Keeps only the beginning, for quotes in messages.
    pub fn shortened(text: &str, max_chars: usize) -> Self {
        match text.char_indices().nth(max_chars) {
            None => Self(text.to_owned()),
            Some((at, _)) => Self(format!("{}…", text.get(..at).unwrap_or_default())),
        }
    }

    /// Escapes the text for one line of a terminal or log: control, bidirectional and invisible characters become
    /// visible.
    pub fn for_terminal(&self) -> Cow<'_, str> {
        escape(&self.0, Lines::One)
    }

    /// As `for_terminal`, but line breaks stay line breaks.
    pub fn for_terminal_lines(&self) -> Cow<'_, str> {
        escape(&self.0, Lines::Many)
    }

    /// Returns the text unescaped, for structured output (JSON) whose writer escapes it.
    pub fn for_json(&self) -> &str {
        &self.0
    }
}

#[derive(Clone, Copy, PartialEq)]
enum Lines {
    One,
    Many,
}

fn escape(text: &str, lines: Lines) -> Cow<'_, str> {
    let kept = |c: char| (c == '\n' && lines == Lines::Many) || !is_hidden(c);
    if text.chars().all(kept) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len() + 16);
    for c in text.chars() {
        match c {
            c if kept(c) => out.push(c),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            c => {
                let _infallible = write!(out, "\\u{{{:x}}}", u32::from(c));
            }
        }
    }
    Cow::Owned(out)
}

/// Returns true for characters that act on a terminal or are invisible to a reader.
pub(crate) fn is_hidden(c: char) -> bool {
    c.is_control()
        || matches!(c,
            '\u{00AD}' | '\u{061C}' | '\u{180E}' | '\u{200B}'..='\u{200F}' | '\u{2028}'..='\u{202E}'
            | '\u{2060}'..='\u{206F}' | '\u{FE00}'..='\u{FE0F}' | '\u{FEFF}' | '\u{FFF9}'..='\u{FFFB}'
            | '\u{E0000}'..='\u{E01EF}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quotes_are_short() {
        assert_eq!(Untrusted::shortened("été", 3), Untrusted::new("été"));
        assert_eq!(Untrusted::shortened("étés", 3), Untrusted::new("été…"));
    }

    #[test]
    fn escapes_what_acts_or_hides() {
        let check = |text: &str, one: &str, many: &str| {
            let text = Untrusted::new(text);
            assert_eq!((text.for_terminal().as_ref(), text.for_terminal_lines().as_ref()), (one, many));
        };
        check("plain ünïcode 🙂", "plain ünïcode 🙂", "plain ünïcode 🙂");
        check("a\x1b[2Jb", "a\\u{1b}[2Jb", "a\\u{1b}[2Jb");
        check("a\nb\r\tc", "a\\nb\\r\\tc", "a\nb\\r\\tc");
        check("\u{202E}evil\u{200B}", "\\u{202e}evil\\u{200b}", "\\u{202e}evil\\u{200b}");
        check("tag\u{E0041}", "tag\\u{e0041}", "tag\\u{e0041}");
    }
}
