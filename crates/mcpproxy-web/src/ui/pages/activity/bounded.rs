//! Shortens text of agents and servers for a page.
//!
//! A mark for an invisible character takes about 70 bytes of HTML. So a text that is short in characters can still be
//! long on the page, and both are limited.

use crate::visible::Visible;

/// HTML for each character that is shown. Five in six can be plain letters, and the rest marks.
const HTML_PER_CHAR: usize = 6;

/// Shows one line of at most `max_chars` characters. Line breaks become spaces.
pub(crate) fn line(text: &str, max_chars: usize) -> Visible {
    let bytes = fitting(text, max_chars, max_chars * HTML_PER_CHAR);
    let begin = text.get(..bytes).unwrap_or_default();
    let mut shown = begin.split(['\n', '\r', '\t', ' ']).filter(|word| !word.is_empty()).collect::<Vec<_>>().join(" ");
    if bytes < text.len() {
        shown.push('…');
    }
    Visible::of(&shown)
}

/// Shows the first lines of a text, with at most `max_html` bytes of HTML. Returns the number of bytes that are shown.
pub(crate) fn lines(text: &str, max_html: usize) -> (Visible, usize) {
    let bytes = fitting(text, usize::MAX, max_html);
    (Visible::lines(text.get(..bytes).unwrap_or_default()), bytes)
}

/// Returns the number of bytes at the beginning that stay within both limits.
fn fitting(text: &str, max_chars: usize, max_html: usize) -> usize {
    let mut html = 0;
    for (count, (at, c)) in text.char_indices().enumerate() {
        html += cost(c);
        if count >= max_chars || html > max_html {
            return at;
        }
    }
    text.len()
}

/// Returns the bytes of HTML that show a character.
fn cost(c: char) -> usize {
    match c {
        '&' | '<' | '>' | '"' | '\'' => 6,
        ' '..='~' | '\n' => 1,
        c => Visible::of(c.encode_utf8(&mut [0; 4])).to_string().len(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_short_whatever_is_in_it() {
        assert_eq!(line("a\n b\r\n\tc", 80).to_string(), "a b c");
        assert_eq!(line("<b>", 80).to_string(), "&lt;b&gt;");
        assert_eq!(line("abcdef", 3).to_string(), "abc…");
        for hostile in ["\u{202e}", "\u{1b}", "<", "é", "\u{0}", "\n"] {
            let shown = line(&hostile.repeat(1_000_000), 80).to_string();
            assert!(shown.len() <= 80 * HTML_PER_CHAR + 3, "{hostile:?} {}", shown.len());
        }
    }

    #[test]
    fn lines_keep_their_breaks_and_stop() {
        assert_eq!(lines("a\nb", 100).0.to_string(), "a\nb");
        let (shown, bytes) = lines(&"\u{7f}".repeat(65_536), 10_000);
        assert!(shown.to_string().len() <= 10_000 && bytes > 100, "{bytes}");
        assert_eq!(lines("éé", 3).1, 2);
    }
}
