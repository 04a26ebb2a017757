//! Makes everything in a text of a server visible, before it is printed next to marks of ours.
//!
//! A poisoned text hides: behind invisible or bidirectional characters, behind hundreds of spaces or empty lines, or by
//! looking like our own output. So hidden characters become `⟨U+202E⟩`, long runs of white space become `⟨80 spaces⟩`,
//! and a text cannot contain the marks of a difference, `[-` or `{+`, nor the brackets of these codes.

use crate::terminal::output::line;

/// Longer runs of spaces or line breaks are counted instead of printed.
const SPACES_MAX: usize = 7;
const BREAKS_MAX: usize = 3;

/// Returns a text in which nothing hides. Line breaks stay.
pub(super) fn visible(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text.chars().peekable();
    let mut before = ' ';
    while let Some(c) = rest.next() {
        match c {
            ' ' | '\t' | '\n' | '\r' => {
                let (mut spaces, mut breaks) = (0_usize, 0_usize);
                let mut next = Some(c);
                while let Some(c) = next {
                    match c {
                        '\n' => breaks += 1,
                        '\r' if rest.peek() == Some(&'\n') => {}
                        // Alone, it returns to the start of the line and overwrites it.
                        '\r' => push_code(&mut out, c),
                        _ => spaces += 1,
                    }
                    next = rest.next_if(|c| matches!(c, ' ' | '\t' | '\n' | '\r'));
                }
                push_white(&mut out, spaces, breaks);
            }
            // The marks of a difference, and the brackets of codes.
            '⟨' | '⟩' => push_code(&mut out, c),
            '-' | '+' if is_mark(before, c) || rest.peek().is_some_and(|next| is_mark(c, *next)) => {
                push_code(&mut out, c);
            }
            c if is_hidden(c) => push_code(&mut out, c),
            c => out.push(c),
        }
        before = c;
    }
    out
}

fn is_mark(first: char, second: char) -> bool {
    matches!((first, second), ('[', '-') | ('-', ']') | ('{', '+') | ('+', '}'))
}

/// Returns true for characters that act, that nobody sees, or that look like a space.
fn is_hidden(c: char) -> bool {
    let is_private = matches!(c, '\u{E000}'..='\u{F8FF}' | '\u{F0000}'..='\u{10FFFF}');
    let is_odd_space = c.is_whitespace() && !c.is_ascii();
    let is_blank_letter = matches!(c, '\u{115F}' | '\u{1160}' | '\u{3164}' | '\u{FFA0}' | '\u{2800}' | '\u{034F}');
    is_private || is_odd_space || is_blank_letter || line(c.encode_utf8(&mut [0; 4])) != c.to_string()
}

fn push_code(out: &mut String, c: char) {
    out.push_str(&format!("⟨U+{:04X}⟩", u32::from(c)));
}

fn push_white(out: &mut String, spaces: usize, breaks: usize) {
    if breaks > BREAKS_MAX {
        out.push_str(&format!("\n⟨{breaks} line breaks⟩\n"));
    } else if spaces > SPACES_MAX {
        out.push_str(&format!(" ⟨{spaces} spaces⟩ "));
    } else if breaks > 0 {
        out.push_str(if breaks > 1 { "\n\n" } else { "\n" });
    } else {
        out.push(' ');
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_hides() {
        let check = |text: &str, expected: &str| assert_eq!(visible(text), expected, "{text:?}");
        check("plain ünïcode 🙂 日本", "plain ünïcode 🙂 日本");
        check("a\u{202E}b\u{200B}c", "a⟨U+202E⟩b⟨U+200B⟩c");
        check("tag\u{E0041}", "tag⟨U+E0041⟩");
        check("private\u{E000}", "private⟨U+E000⟩");
        check("a\u{1b}[2Jb\u{7}", "a⟨U+001B⟩[2Jb⟨U+0007⟩");
        check("no\u{A0}break\u{3000}ideographic", "no⟨U+00A0⟩break⟨U+3000⟩ideographic");
        check("blank\u{3164}letter\u{2800}", "blank⟨U+3164⟩letter⟨U+2800⟩");
        check("one\ntwo\r\n\r\nthree", "one\ntwo\n\nthree");
        check("over\rwritten", "over⟨U+000D⟩ written");
        check("a\tb  c", "a b c");
        check(&format!("a{}b", " ".repeat(80)), "a ⟨80 spaces⟩ b");
        check(&format!("a{}b", "\n".repeat(40)), "a\n⟨40 line breaks⟩\nb");
        check("code ⟨U+202E⟩", "code ⟨U+27E8⟩U+202E⟨U+27E9⟩");
    }

    #[test]
    fn a_text_has_no_marks_of_ours() {
        for text in ["[-gone-]", "{+new+}", "a [-b", "c+} d", "[--]", "{++}", "-]+}"] {
            let shown = visible(text);
            for mark in ["[-", "-]", "{+", "+}"] {
                assert!(!shown.contains(mark), "{text} {shown}");
            }
        }
        assert_eq!(visible("a-b [x] {y} 1+1 -5"), "a-b [x] {y} 1+1 -5");
    }
}
