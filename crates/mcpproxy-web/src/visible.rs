//! Renders untrusted text in a page: HTML is escaped, and invisible characters become visible marks.

use std::fmt;

use askama::filters::HtmlSafe;
use mcpproxy_core::Untrusted;

/// Safe HTML. Only this file creates it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Visible(String);

impl Visible {
    pub(crate) fn of(text: &str) -> Self {
        let mut html = String::with_capacity(text.len() + 16);
        for c in text.chars() {
            match c {
                '&' => html.push_str("&amp;"),
                '<' => html.push_str("&lt;"),
                '>' => html.push_str("&gt;"),
                '"' => html.push_str("&quot;"),
                '\'' => html.push_str("&#39;"),
                // A mark distinguishes a line break from wrapping.
                '\n' => html.push_str("<span class=\"mark\" title=\"line break\">↵</span>\n"),
                c => match mark(c) {
                    Some(name) => {
                        let code = u32::from(c);
                        html.push_str(&format!("<span class=\"mark\" title=\"{name}\">U+{code:04X}</span>"));
                    }
                    None => html.push(c),
                },
            }
        }
        Self(html)
    }

    /// Works like `of`, without marks for line breaks.
    pub(crate) fn lines(text: &str) -> Self {
        Self(text.split('\n').map(|line| Self::of(line).0).collect::<Vec<_>>().join("\n"))
    }

    /// Renders a difference of two texts, with at most about `most` bytes. Long runs of spaces or line breaks are counted,
    /// because they can push text out of sight. Returns true if something was left out.
    pub(crate) fn difference(pieces: &[(Side, String)], most: usize) -> (Self, bool) {
        let mut html = String::new();
        for (side, text) in pieces {
            let (start, end) = match side {
                Side::Both => ("", ""),
                Side::Old => ("<del>", "</del>"),
                Side::New => ("<ins>", "</ins>"),
            };
            html.push_str(start);
            let is_cut = push_within(&mut html, text, most);
            html.push_str(end);
            if is_cut {
                return (Self(html), true);
            }
        }
        (Self(html), false)
    }

    /// Renders a sentence in which commands and names are between backticks. Adds `home` to commands of this program, so
    /// that they work when they are copied. A backtick without a partner stays as it is.
    pub(crate) fn coded(text: &str, home: &str) -> Self {
        const PROGRAM: &str = "mcpproxy";
        let mut html = String::with_capacity(text.len() + 16);
        let mut rest = text;
        while let Some((before, after)) = rest.split_once('`')
            && let Some((code, next)) = after.split_once('`')
        {
            let code = match code.strip_prefix(PROGRAM).filter(|args| args.starts_with(' ')) {
                Some(args) => Self::lines(&format!("{PROGRAM}{home}{args}")),
                None => Self::lines(code),
            };
            html.push_str(&format!("{}<code>{code}</code>", Self::lines(before)));
            rest = next;
        }
        html.push_str(&Self::lines(rest).0);
        Self(html)
    }

    pub(crate) fn untrusted(text: &Untrusted) -> Self {
        Self::of(text.for_json())
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Tells if a mark stands for some character. The characters themselves are escaped, so every tag is one of ours.
    pub(crate) fn has_marks(&self) -> bool {
        self.0.contains('<')
    }
}

impl fmt::Display for Visible {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl HtmlSafe for Visible {}

/// A name that a page shows, with places where a line may break.
pub(crate) trait Breakable {
    /// Adds `<wbr>` after `_`, `-`, `:` and `.`, and before a capital letter that follows a small one. Without it, a browser
    /// breaks `send_external_mail` in the middle of a word. The text that a user copies stays the same.
    fn breakable(&self) -> Visible;
}

impl Breakable for Visible {
    fn breakable(&self) -> Visible {
        const BREAK: &str = "<wbr>";
        let mut html = String::with_capacity(self.0.len() + 32);
        // The character that ends a tag or an entity, which stay whole.
        let mut until: Option<char> = None;
        let (mut before, mut is_due) = (None::<char>, false);
        for c in self.0.chars() {
            if let Some(end) = until {
                html.push(c);
                until = until.filter(|_| c != end);
                continue;
            }
            let is_word_start = c.is_uppercase() && before.is_some_and(char::is_lowercase);
            if is_due || is_word_start {
                html.push_str(BREAK);
            }
            until = match c {
                '<' => Some('>'),
                '&' => Some(';'),
                _ => None,
            };
            is_due = matches!(c, '_' | '-' | ':' | '.');
            before = Some(c);
            html.push(c);
        }
        Visible(html)
    }
}

impl Breakable for str {
    fn breakable(&self) -> Visible {
        Visible::of(self).breakable()
    }
}

impl Breakable for String {
    fn breakable(&self) -> Visible {
        self.as_str().breakable()
    }
}

impl<T: Breakable + ?Sized> Breakable for &T {
    fn breakable(&self) -> Visible {
        (**self).breakable()
    }
}

/// Percent-encodes text for a part of an address.
pub(crate) fn url_part(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.' | b'~') {
            out.push(char::from(byte));
        } else {
            out.push_str(&format!("%{byte:02X}"));
        }
    }
    out
}

/// The version that a piece of a difference belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Side {
    Both,
    Old,
    New,
}

/// Longer runs of spaces or line breaks are counted instead of rendered.
const SPACES_MAX: usize = 7;
const BREAKS_MAX: usize = 3;

/// Appends text until `html` is full. Returns true if text was left out.
fn push_within(html: &mut String, text: &str, most: usize) -> bool {
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        if html.len() > most {
            return true;
        }
        let is_break = first == '\n';
        let run = match first {
            ' ' | '\n' => rest.chars().take_while(|c| *c == first).count(),
            _ => 1,
        };
        let (taken, after) = rest.split_at_checked(run.max(1) * first.len_utf8()).unwrap_or((rest, ""));
        match (is_break, run) {
            (true, run) if run > BREAKS_MAX => {
                html.push_str(&format!("\n<span class=\"mark\" title=\"line breaks\">{run} line breaks</span>\n"));
            }
            (false, run) if run > SPACES_MAX => {
                html.push_str(&format!(" <span class=\"mark\" title=\"spaces\">{run} spaces</span> "));
            }
            _ => html.push_str(&Visible::lines(taken).0),
        }
        rest = after;
    }
    false
}

/// Escapes plain text on one line, with escapes instead of marks.
pub(crate) fn plain(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '\n' => out.push_str("\\n"),
            c if mark(c).is_some() => out.push_str(&format!("\\u{{{:x}}}", u32::from(c))),
            c => out.push(c),
        }
    }
    out
}

/// Writes the invisible and text-moving characters of JSON text as escapes such as `\u202e`. It stays the same JSON.
///
/// For text that a user edits. A text field cannot show marks, and it would move the text that follows the character.
pub(crate) fn json_escapes(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            // JSON allows these outside of strings only, where they separate values.
            '\n' | '\r' | '\t' => out.push(c),
            c if mark(c).is_some() => {
                for unit in c.encode_utf16(&mut [0; 2]) {
                    out.push_str(&format!("\\u{unit:04x}"));
                }
            }
            c => out.push(c),
        }
    }
    out
}

/// Returns the name of an invisible or text-moving character.
fn mark(c: char) -> Option<&'static str> {
    Some(match c {
        '\r' => "carriage return",
        '\t' => "tab",
        '\0' => "null",
        c if c.is_control() => "control character",
        '\u{202A}'..='\u{202E}' | '\u{2066}'..='\u{2069}' | '\u{200E}' | '\u{200F}' | '\u{061C}' => {
            "changes the direction of text"
        }
        '\u{200B}'..='\u{200D}'
        | '\u{2060}'..='\u{2065}'
        | '\u{206A}'..='\u{206F}'
        | '\u{FEFF}'
        | '\u{00AD}'
        | '\u{034F}'
        | '\u{180B}'..='\u{180F}'
        | '\u{115F}'
        | '\u{1160}'
        | '\u{17B4}'
        | '\u{17B5}'
        | '\u{3164}'
        | '\u{FFA0}'
        | '\u{2800}'
        | '\u{1D173}'..='\u{1D17A}'
        | '\u{E0000}'..='\u{E00FF}' => "invisible character",
        '\u{FE00}'..='\u{FE0F}' | '\u{E0100}'..='\u{E01EF}' => "variation selector",
        '\u{2028}' | '\u{2029}' => "line separator",
        '\u{FFF9}'..='\u{FFFB}' => "annotation character",
        '\u{00A0}' | '\u{1680}' | '\u{2000}'..='\u{200A}' | '\u{202F}' | '\u{205F}' | '\u{3000}' => "unusual space",
        '\u{E000}'..='\u{F8FF}' | '\u{F0000}'..='\u{10FFFF}' => "private character",
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_hides_and_nothing_acts() {
        let check = |text: &str, expected: &str| assert_eq!(Visible::of(text).to_string(), expected, "{text:?}");
        check("plain ünïcode 🙂", "plain ünïcode 🙂");
        check("<script>alert('1')</script>", "&lt;script&gt;alert(&#39;1&#39;)&lt;/script&gt;");
        check("a&b \"c\"", "a&amp;b &quot;c&quot;");
        check(
            "invoice\u{202E}gpj.exe",
            "invoice<span class=\"mark\" title=\"changes the direction of text\">U+202E</span>gpj.exe",
        );
        check("a\u{200B}b", "a<span class=\"mark\" title=\"invisible character\">U+200B</span>b");
        check("\u{1b}[2J", "<span class=\"mark\" title=\"control character\">U+001B</span>[2J");
        check("\u{E0041}", "<span class=\"mark\" title=\"invisible character\">U+E0041</span>");
        check("1\u{A0}000", "1<span class=\"mark\" title=\"unusual space\">U+00A0</span>000");
        check("a\nb", "a<span class=\"mark\" title=\"line break\">↵</span>\nb");
        check(
            "a\r\n",
            "a<span class=\"mark\" title=\"carriage return\">U+000D</span><span class=\"mark\" title=\"line break\">↵</span>\n",
        );
    }

    #[test]
    fn names_break_between_words() {
        let check = |text: &str, expected: &str| assert_eq!(text.breakable().to_string(), expected, "{text:?}");
        check("mail:send_external", "mail:<wbr>send_<wbr>external");
        check("every-thing.getHTMLPage", "every-<wbr>thing.<wbr>get<wbr>HTMLPage");
        check("plain", "plain");
        check("ends_", "ends_");
        check("", "");
        // Tags and entities stay whole.
        check("a_<b:c>&", "a_<wbr>&lt;b:<wbr>c&gt;&amp;");
        let marked = "a_\u{202E}b".breakable().to_string();
        let mark = "<span class=\"mark\" title=\"changes the direction of text\">U+202E</span>";
        assert_eq!(marked, format!("a_<wbr>{mark}b"));
    }

    #[test]
    fn commands_in_sentences_name_the_data_folder() {
        let check = |text: &str, expected: &str| {
            assert_eq!(Visible::coded(text, " --home '/my data'").to_string(), expected);
        };
        check("Nothing <b> here.", "Nothing &lt;b&gt; here.");
        check(
            "Run `mcpproxy config apply`, or set `lock`.",
            "Run <code>mcpproxy --home &#39;/my data&#39; config apply</code>, or set <code>lock</code>.",
        );
        check("`mcpproxy.db` and `<i>`", "<code>mcpproxy.db</code> and <code>&lt;i&gt;</code>");
        check("One ` is no code.", "One ` is no code.");
        check("`a` and `b", "<code>a</code> and `b");
        assert_eq!(Visible::coded("`mcpproxy lock`", "").to_string(), "<code>mcpproxy lock</code>");
    }

    #[test]
    fn differences_hide_nothing() {
        let check = |pieces: &[(Side, &str)], most: usize, expected: &str, is_cut: bool| {
            let pieces: Vec<(Side, String)> = pieces.iter().map(|(side, text)| (*side, (*text).to_owned())).collect();
            let (html, cut) = Visible::difference(&pieces, most);
            assert_eq!((html.to_string().as_str(), cut), (expected, is_cut), "{pieces:?}");
        };
        check(
            &[(Side::Both, "a "), (Side::Old, "<b>"), (Side::New, "\u{200B}")],
            1_000,
            "a <del>&lt;b&gt;</del><ins><span class=\"mark\" title=\"invisible character\">U+200B</span></ins>",
            false,
        );
        let spaces = " ".repeat(80);
        check(
            &[(Side::New, spaces.as_str())],
            1_000,
            "<ins> <span class=\"mark\" title=\"spaces\">80 spaces</span> </ins>",
            false,
        );
        check(&[(Side::New, "abcdef"), (Side::Both, "g")], 7, "<ins>abc</ins>", true);
    }

    #[test]
    fn plain_text_hides_nothing_either() {
        assert_eq!(plain("<b>\u{202E}a\u{A0}\u{1b}[2J\n"), "<b>\\u{202e}a\\u{a0}\\u{1b}[2J\\n");
    }

    /// A page marks every character that a terminal would escape.
    #[test]
    fn all_that_terminals_escape() {
        for c in (0..=u32::from(char::MAX)).filter_map(char::from_u32).filter(|c| *c != '\n') {
            let text = Untrusted::new(c.to_string());
            if text.for_terminal() != text.for_json() {
                assert!(mark(c).is_some(), "U+{:04X}", u32::from(c));
            }
        }
    }
}
