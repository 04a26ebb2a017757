//! Finds characters that a reader does not see or sees elsewhere. No honest tool uses them, so each is of high severity.

use unicode_general_category::{GeneralCategory, get_general_category};

use super::fold::{is_unseen, look_alike};

/// A kind of character, with the position of the first one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Found {
    pub(super) kind: Kind,
    pub(super) at: usize,
    pub(super) count: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Ansi,
    Control,
    Bidi,
    Tag,
    Invisible,
    PrivateUse,
    LookAlike,
    Marks,
}

impl Kind {
    pub(super) fn rule(self) -> &'static str {
        match self {
            Self::Ansi => "ansi-escape",
            Self::Control => "control-character",
            Self::Bidi => "bidi-control",
            Self::Tag => "tag-characters",
            Self::Invisible => "invisible-characters",
            Self::PrivateUse => "private-use-characters",
            Self::LookAlike => "look-alike-letters",
            Self::Marks => "stacked-marks",
        }
    }

    pub(super) fn reason(self) -> &'static str {
        match self {
            Self::Ansi => "has terminal escape sequences, which can hide or overwrite text",
            Self::Control => "has control characters, which can hide or overwrite text",
            Self::Bidi => "has characters that change the direction of writing, so it reads differently than it looks",
            Self::Tag => "has tag characters, which a model reads and a person does not see",
            Self::Invisible => "has invisible characters",
            Self::PrivateUse => "has characters without a defined meaning",
            Self::LookAlike => "mixes letters of other scripts that look like Latin ones into a word",
            Self::Marks => "has stacks of combining marks",
        }
    }
}

/// Combining marks in a row. Real languages need three at most.
const MARKS_MAX: usize = 4;

/// Returns each kind of suspicious character in a text once.
pub(super) fn find(text: &str) -> Vec<Found> {
    let is_plain = |byte: u8| matches!(byte, b' '..=b'~' | b'\n' | b'\t');
    if text.bytes().all(is_plain) {
        return Vec::new();
    }
    let mut found: Vec<Found> = Vec::new();
    let mut marks = 0;
    let mut previous = None;
    let mut in_flag = false;
    let mut chars = text.char_indices().peekable();
    while let Some((at, c)) = chars.next() {
        let next = chars.peek().map(|(_, next)| *next);
        marks = if get_mark(c) { marks + 1 } else { 0 };
        in_flag = (in_flag && is_tag(c)) || c == '\u{1f3f4}';
        let kind = match c {
            _ if marks > MARKS_MAX => Some(Kind::Marks),
            _ if in_flag => None,
            _ => kind(c, previous, next),
        };
        if let Some(kind) = kind {
            match found.iter_mut().find(|other| other.kind == kind) {
                Some(other) => other.count += 1,
                None => found.push(Found { kind, at, count: 1 }),
            }
        }
        previous = Some(c);
    }
    found
}

fn is_tag(c: char) -> bool {
    matches!(c, '\u{e0000}'..='\u{e007f}')
}

fn get_mark(c: char) -> bool {
    !c.is_ascii() && get_general_category(c) == GeneralCategory::NonspacingMark && !is_unseen(c)
}

fn kind(c: char, previous: Option<char>, next: Option<char>) -> Option<Kind> {
    match c {
        ' '..='~' | '\n' | '\t' => None,
        // Windows line ends. A lone return moves to the start of the line and overwrites it.
        '\r' if next == Some('\n') => None,
        '\u{1b}' | '\u{9b}' => Some(Kind::Ansi),
        '\0'..='\u{1f}' | '\u{7f}'..='\u{9f}' => Some(Kind::Control),
        '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{200e}' | '\u{200f}' | '\u{61c}' => Some(Kind::Bidi),
        c if is_tag(c) => Some(Kind::Tag),
        // The emoji form of a symbol, and the parts of one emoji.
        '\u{fe0e}' | '\u{fe0f}' if previous.is_some_and(|p| !p.is_alphabetic() && !is_unseen(p)) => None,
        '\u{200d}' if previous.is_some_and(joins) && next.is_some_and(joins) => None,
        '\u{200c}' if previous.is_some_and(is_joining) && next.is_some_and(is_joining) => None,
        '\u{e0100}'..='\u{e01ef}' if previous.is_some_and(|p| matches!(p, '\u{3400}'..='\u{9fff}')) => None,
        '\u{feff}' if previous.is_none() => None,
        c if is_unseen(c) => Some(Kind::Invisible),
        // Turkish and Azerbaijani write it between other Latin letters.
        'ı' => None,
        c if look_alike(c).is_some() => is_mixed(c, previous, next).then_some(Kind::LookAlike),
        c => match get_general_category(c) {
            GeneralCategory::PrivateUse | GeneralCategory::Unassigned => Some(Kind::PrivateUse),
            _ => None,
        },
    }
}

/// Emoji are joined with U+200D, also after a variation selector. So are letters of Indic scripts and Arabic.
fn joins(c: char) -> bool {
    c == '\u{fe0f}' || matches!(c, '\u{2190}'..='\u{2bff}' | '\u{1f000}'..='\u{1faff}') || is_joining(c)
}

fn is_joining(c: char) -> bool {
    matches!(c, '\u{600}'..='\u{6ff}' | '\u{900}'..='\u{dff}')
}

/// A Cyrillic or Greek letter beside a Latin one. Units and formulas such as `μs` and `Δx` have two letters only.
fn is_mixed(c: char, previous: Option<char>, next: Option<char>) -> bool {
    let is_latin = |other: Option<char>| other.is_some_and(|other| other.is_ascii_alphabetic());
    let is_greek = matches!(c, '\u{370}'..='\u{3ff}');
    match is_greek {
        true => is_latin(previous) && is_latin(next),
        false => is_latin(previous) || is_latin(next),
    }
}

/// Returns whether a character is suspicious on its own, whatever stands beside it.
pub(super) fn is_special(c: char) -> bool {
    matches!(kind(c, None, None), Some(Kind::PrivateUse | Kind::Bidi | Kind::Tag | Kind::Ansi | Kind::Control))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unseen_characters_are_found() {
        let check = |text: &str, expected: &[Kind]| {
            let found: Vec<Kind> = find(text).into_iter().map(|found| found.kind).collect();
            assert_eq!(found, expected, "{text:?}");
        };
        check("plain\n\ttext\r\n", &[]);
        check("\u{feff}a byte order mark at the start", &[]);
        check("hid\u{200b}den", &[Kind::Invisible]);
        check("soft\u{ad}hyphen", &[Kind::Invisible]);
        check("\u{3164}filler", &[Kind::Invisible]);
        check("tag\u{e0061}\u{e0062}", &[Kind::Tag]);
        check("left\u{202e}right", &[Kind::Bidi]);
        check("\u{1b}[8mhidden", &[Kind::Ansi]);
        check("list\rdelete", &[Kind::Control]);
        check("ab\u{8}\u{8}", &[Kind::Control]);
        check("\u{e001}", &[Kind::PrivateUse]);
        check("p\u{430}ssword", &[Kind::LookAlike]);
        check("z\u{300}\u{301}\u{302}\u{303}\u{304}", &[Kind::Marks]);
    }

    #[test]
    fn languages_and_emoji_are_not() {
        for text in [
            "Русский, Ελληνικά, 日本語, العربية, हिन्दी",
            "5 μs, Δx, Ω",
            "👩\u{200d}💻 ✔\u{fe0f} ⚠\u{fe0f}",
            "🏴\u{e0067}\u{e0062}\u{e0065}\u{e006e}\u{e0067}\u{e007f}",
            "می\u{200c}خواهم",
            "Kullanıcının kayıtlarını arar ve sonuçları döndürür.",
            "İstifadəçinin qeydlərini axtarır, nəticələri qaytarır.",
        ] {
            assert_eq!(find(text), [], "{text}");
        }
    }
}
