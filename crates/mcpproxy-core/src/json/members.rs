//! Cuts JSON text into slices of itself, without parsing it into values.
//!
//! A gateway that parses a message into types and writes it again changes the message. `1.0` becomes `1`, keys change
//! their order, and a field of the next protocol revision disappears. So messages are taken apart and put together from
//! slices of the text that arrived:
//!
//! ```text
//! members(r#"{"name":"t", "arguments":{"x":1.0}}"#)
//!     == [("name", "\"t\""), ("arguments", "{\"x\":1.0}")]
//! ```
//!
//! Each call looks at one level only. It steps over nested values by counting brackets outside of strings, which is
//! enough because the strict reader has already checked the syntax. Call [`members`] on a slice to go one level down.
//!
//! Text that did not pass the reader gives `None` or odd slices, never a panic and never a slice outside of the text.

use std::borrow::Cow;
use std::ops::Range;

use super::bytes::{before_backslash, before_bracket, before_quote, before_special};

/// The members of an object, in their order: the unescaped key and the exact text of the value.
pub type Members<'a> = Vec<(Cow<'a, str>, &'a str)>;

/// Splits the text of an object into its members. Returns `None` if the text is not an object.
pub fn members(object: &str) -> Option<Members<'_>> {
    let mut found = Vec::with_capacity(8);
    walk(object, |key, value| {
        found.push((string_value(object.get(key)?)?, object.get(value)?));
        Some(Walk::On)
    })?;
    Some(found)
}

/// Returns one member of an object. Members after it are not looked at.
pub fn member<'a>(object: &'a str, wanted: &str) -> Option<&'a str> {
    let mut found = None;
    walk(object, |key, value| {
        if string_value(object.get(key)?)? != wanted {
            return Some(Walk::On);
        }
        found = object.get(value);
        Some(Walk::Done)
    })?;
    found
}

/// An object and the places of its members. It is split once, because each look at the members of a long text would
/// step over all of it again.
#[derive(Debug)]
pub struct OwnedObject {
    text: Box<str>,
    places: Vec<(Box<str>, Range<usize>)>,
}

impl OwnedObject {
    /// Copies the text of an object. Returns `None` if the text is not an object.
    pub fn new(object: &str) -> Option<Self> {
        let mut places = Vec::with_capacity(8);
        walk(object, |key, value| {
            places.push((string_value(object.get(key)?)?.into(), value));
            Some(Walk::On)
        })?;
        Some(Self { text: object.into(), places })
    }

    /// Returns the members, in their order.
    pub fn members(&self) -> Members<'_> {
        let places = self.places.iter();
        places.filter_map(|(key, place)| Some((Cow::Borrowed(&**key), self.text.get(place.clone())?))).collect()
    }

    /// Returns one member.
    pub fn member(&self, wanted: &str) -> Option<&str> {
        let (_, place) = self.places.iter().find(|(key, _)| key.as_ref() == wanted)?;
        self.text.get(place.clone())
    }
}

/// Tells `walk` whether to go on.
enum Walk {
    On,
    Done,
}

/// Calls `each` with the places of every key and its value. Returns `None` if the text is not an object, or if `each`
/// returns `None`.
fn walk(object: &str, mut each: impl FnMut(Range<usize>, Range<usize>) -> Option<Walk>) -> Option<()> {
    let mut cursor = Cursor::new(object);
    cursor.space();
    cursor.step(b'{')?;
    loop {
        cursor.space();
        match cursor.peek()? {
            b'}' => return Some(()),
            b',' => cursor.at += 1,
            b'"' => {
                let key = cursor.skip_value()?;
                cursor.space();
                cursor.step(b':')?;
                cursor.space();
                let value = cursor.skip_value()?;
                if let Walk::Done = each(key, value)? {
                    return Some(());
                }
            }
            _ => return None,
        }
    }
}

/// Returns the content of a JSON string, given its text with the quotes. Returns `None` for other text.
pub fn string_value(text: &str) -> Option<Cow<'_, str>> {
    let inner = text.strip_prefix('"')?.strip_suffix('"')?;
    Some(if inner.contains('\\') { Cow::Owned(unescape(inner)) } else { Cow::Borrowed(inner) })
}

/// Writes text as a JSON string.
pub fn quote(text: &str) -> String {
    let mut quoted = String::with_capacity(text.len() + 2);
    push_quoted(&mut quoted, text);
    quoted
}

/// Appends text as a JSON string.
pub fn push_quoted(out: &mut String, text: &str) {
    if before_special(text.as_bytes()) == text.len() {
        out.extend(["\"", text, "\""]);
    } else {
        // Writing a string as JSON cannot fail.
        out.push_str(&serde_json::to_string(text).unwrap_or_default());
    }
}

/// Unescapes the text between the quotes of a string, in one pass. The strict reader has checked the escapes. Text that
/// did not pass it is returned as it is.
pub(super) fn unescape(inner: &str) -> String {
    let mut plain = String::with_capacity(inner.len());
    let mut rest = inner;
    while let Some(at) = before_backslash(rest.as_bytes()) {
        let decoded = rest.get(at + 1..).and_then(unescape_one);
        let (Some(before), Some((decoded, behind))) = (rest.get(..at), decoded) else { return inner.to_owned() };
        plain.push_str(before);
        plain.push(decoded);
        rest = behind;
    }
    plain.push_str(rest);
    plain
}

/// Decodes the escape whose backslash is before the text. Returns its character, and the text behind the escape.
fn unescape_one(escape: &str) -> Option<(char, &str)> {
    let decoded = match escape.as_bytes().first()? {
        byte @ (b'"' | b'\\' | b'/') => char::from(*byte),
        b'b' => '\u{8}',
        b'f' => '\u{c}',
        b'n' => '\n',
        b'r' => '\r',
        b't' => '\t',
        b'u' => {
            let (unit, behind) = utf16_unit(escape.get(1..)?)?;
            if let Some(decoded) = char::from_u32(unit.into()) {
                return Some((decoded, behind));
            }
            let (second, behind) = utf16_unit(behind.strip_prefix("\\u")?)?;
            let decoded = char::decode_utf16([unit, second]).next()?.ok()?;
            return Some((decoded, behind));
        }
        _ => return None,
    };
    Some((decoded, escape.get(1..)?))
}

/// Reads four hexadecimal digits. Returns their number and the text behind them.
fn utf16_unit(text: &str) -> Option<(u16, &str)> {
    let (digits, behind) = text.split_at_checked(4)?;
    // `from_str_radix` would take a sign, too.
    let is_hex = digits.bytes().all(|byte| byte.is_ascii_hexdigit());
    let unit = u16::from_str_radix(digits, 16).ok().filter(|_| is_hex)?;
    Some((unit, behind))
}

/// A position in JSON text that the strict reader has accepted.
pub(super) struct Cursor<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Cursor<'a> {
    pub(super) fn new(text: &'a str) -> Self {
        Self { bytes: text.as_bytes(), at: 0 }
    }

    pub(super) fn peek(&self) -> Option<u8> {
        self.bytes.get(self.at).copied()
    }

    pub(super) fn space(&mut self) {
        while matches!(self.peek(), Some(b' ' | b'\t' | b'\n' | b'\r')) {
            self.at += 1;
        }
    }

    /// Steps over one byte. Returns `None` if another byte is there.
    pub(super) fn step(&mut self, byte: u8) -> Option<()> {
        (self.peek()? == byte).then(|| self.at += 1)
    }

    /// Steps over one value and returns its range.
    pub(super) fn skip_value(&mut self) -> Option<Range<usize>> {
        let start = self.at;
        match self.peek()? {
            b'"' => self.skip_string()?,
            b'{' | b'[' => self.skip_container()?,
            _ => {
                while self.peek().is_some_and(|b| !matches!(b, b',' | b'}' | b']' | b' ' | b'\t' | b'\n' | b'\r')) {
                    self.at += 1;
                }
            }
        }
        Some(start..self.at)
    }

    fn skip_container(&mut self) -> Option<()> {
        let mut depth = 0usize;
        loop {
            self.at += before_bracket(self.bytes.get(self.at..)?)?;
            match self.peek()? {
                b'"' => self.skip_string()?,
                b'{' | b'[' => {
                    depth += 1;
                    self.at += 1;
                }
                b'}' | b']' => {
                    depth -= 1;
                    self.at += 1;
                    if depth == 0 {
                        return Some(());
                    }
                }
                _ => self.at += 1,
            }
        }
    }

    fn skip_string(&mut self) -> Option<()> {
        self.at += 1;
        loop {
            self.at += before_quote(self.bytes.get(self.at..)?)?;
            if self.peek()? == b'"' {
                self.at += 1;
                return Some(());
            }
            self.at += 2;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn keeps_order_and_exact_text() {
        let text = r#" { "b" : 1.0 , "a\u0062" : {"x":[1,"}\""]} , "c":"q\n", "d":[ ] } "#;
        let found: Vec<(String, &str)> =
            members(text).unwrap().into_iter().map(|(key, value)| (key.into_owned(), value)).collect();
        let expected = [("b", "1.0"), ("ab", r#"{"x":[1,"}\""]}"#), ("c", r#""q\n""#), ("d", "[ ]")];
        assert_eq!(found, expected.map(|(key, value)| (key.to_owned(), value)));
        assert_eq!(members("[1]"), None);
        assert_eq!(members("{}"), Some(vec![]));
        assert_eq!(string_value(r#""a\"b""#).as_deref(), Some("a\"b"));
        assert_eq!(string_value("1"), None);
    }

    #[test]
    fn text_is_quoted_as_serde_json_quotes_it() {
        for text in ["", "plain", "é😀", "a\"b", "back\\slash", "\u{0}\u{1f}\u{7f}\n", "</script>\u{2028}"] {
            assert_eq!(quote(text), serde_json::Value::from(text).to_string());
        }
    }

    #[test]
    fn strings_are_unescaped_as_serde_json_does() {
        let check = |inner: &str, expected: &str| assert_eq!(unescape(inner), expected, "{inner}");
        check(r#"a\"b\\c\/d\b\f\n\r\t"#, "a\"b\\c/d\u{8}\u{c}\n\r\t");
        check(r"\u0061\u00e9\u20AC\ud83d\ude00é😀", "aé€😀é😀");
        // Text that the strict reader refuses stays as it is.
        for odd in [r"\", r"\x", r"\u", r"\u12", r"\u+123", r"\ud800", r"\ud800\u0061", r"\udc00", r"a\u12é4"] {
            check(odd, odd);
        }
    }

    /// Splits an object with `serde_json`.
    fn slow_members(text: &str) -> Option<Vec<(String, String)>> {
        let all: serde_json::Map<String, serde_json::Value> = serde_json::from_str(text).ok()?;
        Some(all.into_iter().map(|(key, value)| (key, value.to_string())).collect())
    }

    proptest! {
        #[test]
        fn any_string_survives_quoting_and_unescaping(text in any::<String>(), long in "[ -~é]{0,80}") {
            for text in [text, long] {
                let quoted = serde_json::to_string(&text).unwrap();
                prop_assert_eq!(string_value(&quoted).unwrap(), text.as_str());
                let coded: String = text.encode_utf16().map(|unit| format!("\\u{unit:04x}")).collect();
                prop_assert_eq!(unescape(&coded), text);
            }
        }

        #[test]
        fn never_panics_on_unchecked_text(text in r#"[\[\]{}",:a-b\\ 1]{0,30}"#) {
            let _outcome = (members(&text), member(&text, "a"), OwnedObject::new(&text));
        }

        /// All forms of splitting find what a parser finds.
        #[test]
        fn splits_as_a_parser_does(
            keys in prop::collection::btree_set(r#"[a-c"\\é]{0,3}"#, 0..5),
            values in prop::collection::vec(
                prop::sample::select(vec![
                    r#""plain""#, r#""a\\\" }{""#, "[]", r#"[1,"]",{"a":"}"}]"#, r#"{"b":{"a":[["\\"]]}}"#, "null",
                    r#""a string that is longer than two words of eight bytes, with a \" in it""#, "-1",
                ]),
                5,
            ),
            space in prop::sample::select(vec!["", " ", "\n\t"]),
        ) {
            let each: Vec<String> =
                keys.iter().zip(&values).map(|(key, value)| format!("{}{space}:{space}{value}", quote(key))).collect();
            let text = format!("{space}{{{}{space}}}", each.join(&format!("{space},{space}")));
            let found = members(&text).unwrap();
            let owned = OwnedObject::new(&text).unwrap();
            prop_assert_eq!(&owned.members(), &found);
            for (key, value) in &found {
                prop_assert_eq!(member(&text, key), Some(*value));
                prop_assert_eq!(owned.member(key), Some(*value));
            }
            prop_assert_eq!(member(&text, "absent"), None);
            let found: Vec<(String, String)> =
                found.into_iter().map(|(key, value)| (key.into_owned(), value.to_owned())).collect();
            prop_assert_eq!(Some(found), slow_members(&text));
        }
    }
}
