//! Folds a text for matching: lower case, compatibility forms and accents removed, invisible characters dropped, white
//! space collapsed. Attackers write `Ｉｇｎｏｒｅ` or put a zero-width space into a word. Both become `ignore`.
//!
//! Each byte of the folded text knows its origin, so that a finding can quote the text as the server wrote it. In the
//! folded text, a line break ends a paragraph or list item. All other white space is one space.

use unicode_general_category::{GeneralCategory, get_general_category};
use unicode_normalization::char::decompose_compatible;

/// A folded text, with the position in the original of each byte.
#[derive(Debug, Default)]
pub(super) struct Folded {
    pub(super) text: String,
    origin: Vec<u32>,
}

impl Folded {
    pub(super) fn of(original: &str) -> Self {
        let mut folded =
            Self { text: String::with_capacity(original.len()), origin: Vec::with_capacity(original.len()) };
        let mut chars = original.char_indices().peekable();
        while let Some((at, c)) = chars.next() {
            if c.is_ascii_graphic() {
                folded.push(c.to_ascii_lowercase(), at);
            } else if c.is_whitespace() {
                let mut breaks = usize::from(c == '\n');
                while let Some((_, next)) = chars.next_if(|(_, next)| next.is_whitespace()) {
                    breaks += usize::from(next == '\n');
                }
                let next = chars.peek().map(|(_, next)| *next);
                folded.space(at, breaks, next);
            } else if !c.is_ascii_control() {
                let next = chars.peek().map(|(_, next)| *next);
                folded.fold(c, at, next);
            }
        }
        folded
    }

    /// Returns the range of the original for a range of the folded text.
    pub(super) fn original(&self, start: usize, end: usize) -> (usize, usize) {
        let at = |index: usize| self.origin.get(index).map(|at| usize::try_from(*at).unwrap_or(usize::MAX));
        let last = end.checked_sub(1).and_then(at).unwrap_or_default();
        (at(start).unwrap_or_default(), last)
    }

    fn push(&mut self, c: char, at: usize) {
        self.text.push(c);
        self.origin.resize(self.text.len(), u32::try_from(at).unwrap_or(u32::MAX));
    }

    /// A blank line, or a line that starts like a list item or heading, ends a sentence. Other breaks only wrap lines.
    fn space(&mut self, at: usize, breaks: usize, next: Option<char>) {
        let starts_item = matches!(next, Some('-' | '*' | '#' | '|' | '>' | '<' | '•' | '`' | '0'..='9'));
        let is_break = breaks > 1 || (breaks == 1 && starts_item);
        self.push(if is_break { '\n' } else { ' ' }, at);
    }

    fn fold(&mut self, c: char, at: usize, next: Option<char>) {
        match c {
            '’' | '‘' | '´' | '′' => self.push('\'', at),
            '“' | '”' | '„' => self.push('"', at),
            '。' | '！' | '？' | '؟' | '।' | '…' => {
                self.push('.', at);
                self.push(' ', at);
            }
            '\u{ac00}'..='\u{d7a3}' | '\u{3040}'..='\u{30ff}' | '\u{4e00}'..='\u{9fff}' => self.push(c, at),
            _ => {
                let is_in_latin_word = self.text.ends_with(|c: char| c.is_ascii_alphanumeric())
                    || next.is_some_and(|next| next.is_ascii_alphanumeric());
                match look_alike(c).filter(|_| is_in_latin_word) {
                    Some(latin) => self.push(latin, at),
                    None => decompose_compatible(c, |part| self.part(part, at)),
                }
            }
        }
    }

    fn part(&mut self, c: char, at: usize) {
        if is_accent(c) || is_unseen(c) {
            return;
        }
        if c.is_alphanumeric() || get_general_category(c) == GeneralCategory::NonspacingMark {
            for lower in c.to_lowercase() {
                self.push(lower, at);
            }
        } else if c.is_ascii_graphic() {
            self.push(c, at);
        } else {
            self.push(' ', at);
        }
    }
}

/// Accents of Latin, Cyrillic and Greek letters, and the vowel marks of Arabic. Marks of other scripts carry meaning.
fn is_accent(c: char) -> bool {
    matches!(c, '\u{300}'..='\u{36f}' | '\u{64b}'..='\u{655}' | '\u{670}')
}

/// Characters without a shape: format characters, fillers, tags and variation selectors.
pub(super) fn is_unseen(c: char) -> bool {
    match c {
        '\u{3164}' | '\u{ffa0}' | '\u{115f}' | '\u{1160}' | '\u{2800}' | '\u{34f}' | '\u{17b4}' | '\u{17b5}' => true,
        '\u{fe00}'..='\u{fe0f}' | '\u{e0100}'..='\u{e01ef}' | '\u{180b}'..='\u{180f}' => true,
        ..'\u{80}' => false,
        _ => get_general_category(c) == GeneralCategory::Format,
    }
}

/// Letters of other scripts that look like a Latin one.
const LOOK_ALIKES: &[(char, &str)] = &[
    ('a', "аɑα@"),
    ('b', "ьЬВвβ"),
    ('c', "сϲⅽСᴄ"),
    ('d', "ԁⅾ"),
    ('e', "еєҽЕε"),
    ('g', "ɡԍ"),
    ('h', "һНн"),
    ('i', "іɩιІӏıⅰ"),
    ('j', "јЈϳ"),
    ('k', "кκКΚ"),
    ('l', "ⅼӀǀו"),
    ('m', "мМⅿΜ"),
    ('n', "ոпηΝ"),
    ('o', "оοօОΟσ"),
    ('p', "рρРΡ"),
    ('q', "ԛգ"),
    ('r', "гᴦ"),
    ('s', "ѕЅꜱ"),
    ('t', "тτТΤ"),
    ('u', "υսцᴜ"),
    ('v', "ѵνᴠ"),
    ('w', "ѡԝωᴡ"),
    ('x', "хχХΧ"),
    ('y', "уүУΥγ"),
    ('z', "ᴢΖ"),
];

/// Returns the Latin letter that a letter of another script looks like.
pub(super) fn look_alike(c: char) -> Option<char> {
    if c.is_ascii() {
        return None;
    }
    LOOK_ALIKES.iter().find(|(_, others)| others.contains(c)).map(|(latin, _)| *latin)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn other_forms_of_a_letter_become_one() {
        let check = |text: &str, expected: &str| assert_eq!(Folded::of(text).text, expected, "{text:?}");
        check("IGNORE  previous\n  rules", "ignore previous rules");
        check("Ｉｇｎｏｒｅ", "ignore");
        check("ig\u{200b}no\u{ad}re", "ignore");
        check("contraseña, élève", "contrasena, eleve");
        check("p\u{430}ssw\u{43e}rd", "password");
        check("don’t", "don't");
        check("無視。次", "無視. 次");
        check("one\n\ntwo\n- three", "one\ntwo\n- three");
    }

    #[test]
    fn positions_lead_back_to_the_original() {
        let text = "é\u{200b}\n\n  Tell";
        let folded = Folded::of(text);
        assert_eq!(folded.text, "e\ntell");
        assert_eq!(folded.original(2, 6), (9, 12));
        assert_eq!(text.get(9..), Some("Tell"));
    }
}
