//! Writes equal JSON values the same way, so that a digest can compare them.

use std::borrow::Cow;
use std::ops::Range;

use super::members::{Cursor, quote, string_value};
use super::reader::SERVER_DEPTH_MAX;

/// Sorts keys by their bytes, writes strings with one set of escapes, and removes white space. Numbers stay as written,
/// because a server may treat `1` and `1.0` differently. No information is lost.
///
/// The text must have passed the strict reader. Other text is returned unchanged, or malformed in the same way.
pub fn canonical(json: &str) -> String {
    let mut writer = CanonicalWriter { text: json, cursor: Cursor::new(json), out: String::with_capacity(json.len()) };
    writer.cursor.space();
    let is_read = writer.value(0).is_some();
    writer.cursor.space();
    if is_read && writer.cursor.peek().is_none() { writer.out } else { json.to_owned() }
}

struct CanonicalWriter<'a> {
    text: &'a str,
    cursor: Cursor<'a>,
    out: String,
}

impl<'a> CanonicalWriter<'a> {
    fn value(&mut self, depth: usize) -> Option<()> {
        match self.cursor.peek()? {
            // Deeper than the strict reader allows. Copying the text unchanged keeps recursion bounded.
            b'{' | b'[' if depth > SERVER_DEPTH_MAX => self.as_written(),
            b'{' => self.object(depth + 1),
            b'[' => self.array(depth + 1),
            b'"' => {
                let content = string_value(self.next()?)?;
                self.out.push_str(&quote(&content));
                Some(())
            }
            _ => self.as_written(),
        }
    }

    fn as_written(&mut self) -> Option<()> {
        let text = self.next()?;
        self.out.push_str(text);
        (!text.is_empty()).then_some(())
    }

    /// Steps over one value and returns its text.
    fn next(&mut self) -> Option<&'a str> {
        let place = self.cursor.skip_value()?;
        self.text.get(place)
    }

    fn array(&mut self, depth: usize) -> Option<()> {
        self.cursor.step(b'[')?;
        self.out.push('[');
        let mut is_first = true;
        while self.follows(b']')? {
            self.comma(&mut is_first);
            self.value(depth)?;
        }
        self.out.push(']');
        Some(())
    }

    fn object(&mut self, depth: usize) -> Option<()> {
        self.cursor.step(b'{')?;
        self.out.push('{');
        let start = self.out.len();
        let mut members: Vec<(Cow<'a, str>, Range<usize>)> = Vec::new();
        let mut is_first = true;
        while self.follows(b'}')? {
            self.comma(&mut is_first);
            let begin = self.out.len();
            let key = string_value(self.next()?)?;
            self.out.push_str(&quote(&key));
            self.cursor.space();
            self.cursor.step(b':')?;
            self.out.push(':');
            self.cursor.space();
            self.value(depth)?;
            members.push((key, begin..self.out.len()));
        }
        if !members.is_sorted_by(|(one, _), (next, _)| one.as_bytes() <= next.as_bytes()) {
            members.sort_by(|(one, _), (other, _)| one.as_bytes().cmp(other.as_bytes()));
            let each: Vec<&str> = members.iter().filter_map(|(_, place)| self.out.get(place.clone())).collect();
            let sorted = each.join(",");
            self.out.truncate(start);
            self.out.push_str(&sorted);
        }
        self.out.push('}');
        Some(())
    }

    /// Returns `true` if another element follows, and steps over the closing bracket otherwise.
    fn follows(&mut self, end: u8) -> Option<bool> {
        self.cursor.space();
        if self.cursor.peek()? == b',' {
            self.cursor.step(b',')?;
            self.cursor.space();
        }
        let is_end = self.cursor.peek()? == end;
        if is_end {
            self.cursor.step(end)?;
        }
        Some(!is_end)
    }

    fn comma(&mut self, is_first: &mut bool) {
        if !std::mem::replace(is_first, false) {
            self.out.push(',');
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;
    use serde_json::Value;

    use super::*;
    use crate::Digest;
    use crate::json::read_server;

    #[test]
    fn one_spelling() {
        let check = |text: &str, expected: &str| assert_eq!(canonical(text), expected, "{text}");
        check(r#" { "b" : 1 , "a" : [ ] } "#, r#"{"a":[],"b":1}"#);
        check(r#"{"\u0062":1,"a":{"d":null,"c":true}}"#, r#"{"a":{"c":true,"d":null},"b":1}"#);
        check("[3, 1,\n2]", "[3,1,2]");
        check(r#""\u00e9\/\u0022\ud83d\ude00""#, "\"é/\\\"😀\"");
        check("\"é/\\\"😀\"", "\"é/\\\"😀\"");
        // Keys sort by bytes: capitals first, and a prefix before a longer key.
        check(r#"{"é":1,"ab":2,"a":3,"B":4,"":5}"#, r#"{"":5,"B":4,"a":3,"ab":2,"é":1}"#);
        // Keys are compared after unescaping.
        check(r#"{"\u0061b":1,"B":2}"#, r#"{"B":2,"ab":1}"#);
        for number in
            ["1", "1.0", "1e0", "1E0", "-0", "0", "-0.0", "18446744073709551616", "18446744073709551617", "0.10"]
        {
            check(number, number);
            check(&format!(" [ {number} ] "), &format!("[{number}]"));
        }
        check("", "");
        check("{} {}", "{} {}");
        check("{\"a\"}", "{\"a\"}");
    }

    #[test]
    fn nesting_of_any_depth_ends() {
        let deep = |depth: usize| format!("{}{}", "[".repeat(depth), "]".repeat(depth));
        for depth in [1, 127, 128, 129, 200_000] {
            assert_eq!(canonical(&deep(depth)), deep(depth));
        }
        assert_eq!(canonical(&"[".repeat(200_000)), "[".repeat(200_000));
    }

    /// A value with its numbers as written.
    #[derive(Clone, Debug, PartialEq)]
    enum Tree {
        Word(&'static str),
        Number(String),
        Text(String),
        List(Vec<Tree>),
        Object(BTreeMap<String, Tree>),
    }

    fn trees() -> impl Strategy<Value = Tree> {
        let leaf = prop_oneof![
            prop::sample::select(vec!["true", "false", "null"]).prop_map(Tree::Word),
            "-?(0|[1-9][0-9]{0,18})(\\.[0-9]{1,3})?([eE][+-]?[0-9]{1,2})?".prop_map(Tree::Number),
            "[a-c\"\\\\/\u{0}-\u{1f}é😀]{0,4}".prop_map(Tree::Text),
        ];
        leaf.prop_recursive(4, 40, 5, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..5).prop_map(Tree::List),
                prop::collection::btree_map("[a-c\"é😀]{0,3}", inner, 0..5).prop_map(Tree::Object),
            ]
        })
    }

    /// Writes a tree in one of many ways. `seed` chooses the order of keys, the white space, and the escapes.
    fn write(tree: &Tree, seed: &mut u64, out: &mut String) {
        let mut next = |choices: u64| {
            *seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (*seed >> 33) % choices
        };
        let space = [" ", "", "\n", "\t "][usize::try_from(next(4)).unwrap()];
        out.push_str(space);
        match tree {
            Tree::Word(word) => out.push_str(word),
            Tree::Number(number) => out.push_str(number),
            Tree::Text(text) => write_text(text, next(2) == 0, out),
            Tree::List(list) => {
                out.push('[');
                for (at, one) in list.iter().enumerate() {
                    out.push_str(if at == 0 { "" } else { "," });
                    write(one, seed, out);
                }
                out.push_str(space);
                out.push(']');
            }
            Tree::Object(members) => {
                let mut members: Vec<(&String, &Tree)> = members.iter().collect();
                let (is_reversed, by) = (next(2) == 0, usize::try_from(next(5)).unwrap());
                if is_reversed {
                    members.reverse();
                }
                let by = by.min(members.len());
                members.rotate_left(by);
                out.push('{');
                for (at, (key, value)) in members.into_iter().enumerate() {
                    out.push_str(if at == 0 { space } else { "," });
                    write_text(key, is_reversed, out);
                    out.push_str(space);
                    out.push(':');
                    write(value, seed, out);
                }
                out.push('}');
            }
        }
        out.push_str(space);
    }

    fn write_text(text: &str, is_escaped: bool, out: &mut String) {
        if !is_escaped {
            out.push_str(&quote(text));
            return;
        }
        out.push('"');
        for unit in text.encode_utf16() {
            out.push_str(&format!("\\u{unit:04X}"));
        }
        out.push('"');
    }

    fn written(tree: &Tree, mut seed: u64) -> String {
        let mut out = String::new();
        write(tree, &mut seed, &mut out);
        out
    }

    proptest! {
        #[test]
        fn order_space_and_spelling_never_matter(tree in trees(), one: u64, other: u64) {
            let (one, other) = (written(&tree, one), written(&tree, other));
            prop_assert!(read_server(one.as_bytes()).is_ok(), "{}", one);
            prop_assert_eq!(canonical(&one), canonical(&other));
        }

        #[test]
        fn anything_else_does(one in trees(), other in trees(), seed: u64) {
            let (first, second) = (canonical(&written(&one, seed)), canonical(&written(&other, seed)));
            prop_assert_eq!(one == other, first == second);
            prop_assert_eq!(one == other, Digest::of(first.as_bytes()) == Digest::of(second.as_bytes()));
        }

        #[test]
        fn once_is_enough_and_nothing_is_lost(tree in trees(), seed: u64) {
            let text = written(&tree, seed);
            let once = canonical(&text);
            prop_assert_eq!(&canonical(&once), &once);
            prop_assert!(read_server(once.as_bytes()).is_ok(), "{}", once);
            let values: [Value; 2] = [&text, &once].map(|text| serde_json::from_str(text).unwrap());
            prop_assert_eq!(&values[0], &values[1]);
        }

        #[test]
        fn never_panics_on_unchecked_text(text in r#"[\[\]{}",:a-b\\ 1]{0,30}"#) {
            let _outcome = canonical(&text);
        }
    }
}
