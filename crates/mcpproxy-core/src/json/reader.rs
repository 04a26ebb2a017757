//! The strict reader. Every byte from an agent or a server passes it before any other code parses it.
//!
//! The gateway decides on a call and then forwards the agent's own bytes. The decision is only worth something if the
//! server reads those bytes the same way. JSON parsers disagree on more than one expects:
//!
//! ```text
//! {"to":"me","to":"everyone"}     first key, last key, or an error
//! {"n\u0061me":1,"name":2}        a duplicate only after unescaping
//! "\ud800"                        an error, U+FFFD, or invalid UTF-8
//! 1e400                           infinity, an error, or a big number
//! ```
//!
//! So the reader refuses every text that two parsers could read in two ways. It also refuses a byte order mark, deep
//! nesting, and the private keys with which `serde_json` marks raw values and numbers.
//!
//! The algorithm is a recursive descent over the bytes that builds nothing. It returns the same text, now known to hold
//! exactly one JSON value. Nesting is limited, so recursion cannot exhaust the stack. Keys are compared after
//! unescaping. The path to a duplicate key is put together only on the way out of a failure, so valid text pays nothing
//! for it.
//!
//! Two invariants, both tested with random input:
//! - `serde_json` parses every text that the reader accepts, and keeps every key. Other modules rely on that.
//! - The reader never panics, whatever the bytes.
//!
//! Why not `serde_json` alone? It silently keeps the last of two equal keys, and its depth limit cannot be set per
//! source. An agent may nest 64 levels deep, a server 127, because real schemas are deeper than real arguments.

mod scalars;

use std::borrow::Cow;
use std::collections::HashSet;

use super::error::{ReadError, ReadErrorKind};
use crate::Untrusted;

/// Maximum nesting depth of a message from an agent.
pub const DEPTH_MAX: usize = 64;
/// Maximum nesting depth of a message from a server. `serde_json` reads no deeper than this.
pub const SERVER_DEPTH_MAX: usize = 127;

/// Objects with more keys than this use a hash set to find duplicates, smaller ones a list.
const FEW_KEYS: usize = 16;

/// Prefix of the keys that `serde_json` reserves. It reads an object with such a key as raw text or as a number.
const PRIVATE_KEY: &str = "$serde_json::private::";

/// Reads a message from an agent. The returned text holds exactly one unambiguous JSON value.
pub fn read(bytes: &[u8]) -> Result<&str, ReadError> {
    read_to_depth(bytes, DEPTH_MAX)
}

/// Reads a message from a server, which may be nested deeper than an agent's.
pub fn read_server(bytes: &[u8]) -> Result<&str, ReadError> {
    read_to_depth(bytes, SERVER_DEPTH_MAX)
}

fn read_to_depth(bytes: &[u8], depth_max: usize) -> Result<&str, ReadError> {
    let text = match std::str::from_utf8(bytes) {
        Ok(text) => text,
        Err(error) => return Err(ReadError::at(bytes, error.valid_up_to(), ReadErrorKind::Utf8)),
    };
    if bytes.starts_with(b"\xEF\xBB\xBF") {
        return Err(ReadError::at(bytes, 0, ReadErrorKind::ByteOrderMark));
    }
    let mut reader = StrictReader { text, bytes, at: 0, depth_max, keys: Vec::new() };
    reader.space();
    if reader.peek().is_none() {
        return Err(ReadError::at(bytes, reader.at, ReadErrorKind::Empty));
    }
    let read = reader.value(0).and_then(|()| {
        reader.space();
        if reader.peek().is_some() { Err(ReadFailure::of(ReadErrorKind::Trailing)) } else { Ok(()) }
    });
    match read {
        Ok(()) => Ok(text),
        Err(failure) => Err(ReadError::at(bytes, reader.at, failure.into_kind())),
    }
}

struct StrictReader<'a> {
    text: &'a str,
    bytes: &'a [u8],
    at: usize,
    depth_max: usize,
    /// The keys of all objects around the current position, the innermost last.
    keys: Vec<Cow<'a, str>>,
}

/// An error on its way up the call stack. Each container adds its step to the path, so that valid text needs no path.
/// Boxed as a whole, because every function returns one, and most return none.
struct ReadFailure(Box<FailedRead>);

struct FailedRead {
    kind: ReadErrorKind,
    path: Vec<String>,
}

impl ReadFailure {
    fn of(kind: ReadErrorKind) -> Self {
        Self(Box::new(FailedRead { kind, path: Vec::new() }))
    }

    fn within(mut self, step: impl FnOnce() -> String) -> Self {
        if matches!(self.0.kind, ReadErrorKind::Duplicate { .. }) {
            self.0.path.push(step());
        }
        self
    }

    fn into_kind(self) -> ReadErrorKind {
        let FailedRead { kind, path } = *self.0;
        match kind {
            ReadErrorKind::Duplicate { key, .. } => {
                let pointer = path.into_iter().rev().map(pointer_step).collect();
                ReadErrorKind::Duplicate { key, pointer }
            }
            kind => kind,
        }
    }
}

/// Formats one step of a JSON pointer. Keys come from the sender, so they are escaped for display.
fn pointer_step(key: String) -> String {
    let key = if key.contains(['~', '/']) { key.replace('~', "~0").replace('/', "~1") } else { key };
    format!("/{}", Untrusted::new(key).for_terminal())
}

impl<'a> StrictReader<'a> {
    fn peek(&self) -> Option<u8> {
        self.bytes.get(self.at).copied()
    }

    fn space(&mut self) {
        while matches!(self.peek(), Some(b' ' | b'\t' | b'\n' | b'\r')) {
            self.at += 1;
        }
    }

    fn fail<T>(&self, expected: &'static str) -> Result<T, ReadFailure> {
        Err(ReadFailure::of(if self.peek().is_none() { ReadErrorKind::End } else { ReadErrorKind::Expected(expected) }))
    }

    fn value(&mut self, depth: usize) -> Result<(), ReadFailure> {
        match self.peek() {
            Some(b'{') => self.object(depth + 1),
            Some(b'[') => self.array(depth + 1),
            Some(b'"') => self.skip_string().map(|_| ()),
            Some(b't') => self.word("true"),
            Some(b'f') => self.word("false"),
            Some(b'n') => self.word("null"),
            Some(b'-' | b'0'..=b'9') => self.number(),
            _ => self.fail("a value"),
        }
    }

    fn object(&mut self, depth: usize) -> Result<(), ReadFailure> {
        self.enter(depth)?;
        let mut keys = ObjectKeys::above(&self.keys);
        if self.peek() == Some(b'}') {
            self.at += 1;
            return Ok(());
        }
        loop {
            if self.peek() != Some(b'"') {
                return self.fail("a key in double quotes");
            }
            let key = self.string()?;
            if !keys.insert(&mut self.keys, key.clone()) {
                return Err(ReadFailure::of(ReadErrorKind::Duplicate {
                    key: key.into_owned(),
                    pointer: String::new(),
                }));
            }
            if key.starts_with(PRIVATE_KEY) {
                return Err(ReadFailure::of(ReadErrorKind::Reserved(key.into_owned())));
            }
            self.space();
            if self.peek() != Some(b':') {
                return self.fail("`:`");
            }
            self.at += 1;
            self.space();
            self.value(depth).map_err(|failure| failure.within(|| key.into_owned()))?;
            self.space();
            match self.peek() {
                Some(b',') => self.at += 1,
                Some(b'}') => {
                    self.at += 1;
                    keys.leave(&mut self.keys);
                    return Ok(());
                }
                _ => return self.fail("`,` or `}`"),
            }
            self.space();
        }
    }

    fn array(&mut self, depth: usize) -> Result<(), ReadFailure> {
        self.enter(depth)?;
        if self.peek() == Some(b']') {
            self.at += 1;
            return Ok(());
        }
        for index in 0usize.. {
            self.value(depth).map_err(|failure| failure.within(|| index.to_string()))?;
            self.space();
            match self.peek() {
                Some(b',') => self.at += 1,
                Some(b']') => {
                    self.at += 1;
                    break;
                }
                _ => return self.fail("`,` or `]`"),
            }
            self.space();
        }
        Ok(())
    }

    fn enter(&mut self, depth: usize) -> Result<(), ReadFailure> {
        if depth > self.depth_max {
            return Err(ReadFailure::of(ReadErrorKind::Depth(self.depth_max)));
        }
        self.at += 1;
        self.space();
        Ok(())
    }
}

/// The keys of one object that were read so far. The first are on a stack that all objects share, so that an object
/// needs no allocation of its own.
struct ObjectKeys<'a> {
    /// Where the keys of this object begin on the stack.
    start: usize,
    /// All keys, once they are many.
    many: Option<HashSet<Cow<'a, str>>>,
}

impl<'a> ObjectKeys<'a> {
    /// Begins an object inside of all objects whose keys are on the stack.
    fn above(stack: &[Cow<'a, str>]) -> Self {
        Self { start: stack.len(), many: None }
    }

    /// Adds a key. Returns `false` if the object has it already.
    fn insert(&mut self, stack: &mut Vec<Cow<'a, str>>, key: Cow<'a, str>) -> bool {
        let own = stack.get(self.start..).unwrap_or_default();
        if own.len() < FEW_KEYS {
            let is_new = !own.iter().any(|other| **other == *key);
            stack.push(key);
            return is_new;
        }
        self.many.get_or_insert_with(|| own.iter().cloned().collect()).insert(key)
    }

    /// Ends the object.
    fn leave(&self, stack: &mut Vec<Cow<'a, str>>) {
        stack.truncate(self.start);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn check(text: &str, expected: &str) {
        let found = read(text.as_bytes()).map_or_else(|error| error.to_string(), |_| "ok".to_owned());
        assert_eq!(found, expected, "{text}");
    }

    #[test]
    fn accepts_json() {
        for good in [
            "{}",
            " [1, -0.5e3, 18446744073709551616, true, false, null] ",
            r#"{"a":{"a":1},"A":2,"\u0062":"\ud83d\ude00 \"\\\/\b\f\n\r\t"}"#,
            "1.0",
            "\"é\"",
        ] {
            check(good, "ok");
        }
    }

    #[test]
    fn refuses_what_two_readers_could_read_differently() {
        check("", "the text is empty (line 1, column 1)");
        check(" \n ", "the text is empty (line 2, column 2)");
        check("{\"a\":1", "unexpected end of text (line 1, column 7)");
        check("\u{feff}{}", "byte order mark before the JSON text (line 1, column 1)");
        check(r#"{"p":{"name":1,"n\u0061me":2}}"#, "duplicate key \"name\" at /p (line 1, column 27)");
        check(r#"{"a":1,"a":2}"#, "duplicate key \"a\" at / (line 1, column 11)");
        check(r#"[{"b":[0,{"x":1,"x":1}]}]"#, "duplicate key \"x\" at /0/b/1 (line 1, column 20)");
        check(r#"{"a/\u001b[2J":{"x":1,"x":1}}"#, "duplicate key \"x\" at /a~1\\u{1b}[2J (line 1, column 26)");
        check(r#"{"a":"\ud800"}"#, "lone surrogate (line 1, column 13)");
        check(r#""\udc00""#, "lone surrogate (line 1, column 8)");
        check(r#""\ud800\u0041""#, "lone surrogate (line 1, column 14)");
        check("1e400", "number out of range (line 1, column 1)");
        check("1e-400", "ok");
        check("[1e-1000000000]", "number out of range (line 1, column 2)");
        check("1.7976931348623157e308", "ok");
        check("1.7976931348623158e308", "ok");
        check(
            r#"{"$serde_json::private::RawValue":"{}"}"#,
            "key \"$serde_json::private::RawValue\" is reserved (line 1, column 34)",
        );
        check("[1,]", "expected a value (line 1, column 4)");
        check("{} {}", "trailing characters (line 1, column 4)");
        check("not json", "expected a value (line 1, column 2)");
        check("01", "trailing characters (line 1, column 2)");
        check("[1.]", "expected a digit (line 1, column 4)");
        check("{'a':1}", "expected a key in double quotes (line 1, column 2)");
        check("\"a\nb\"", "expected control characters in a string to be escaped (line 1, column 3)");
        check(r#""\x""#, "expected an escape such as `\\n` or `\\u00e9` (line 1, column 3)");
        check(&"[".repeat(65), "nesting deeper than 64 (line 1, column 65)");
        check(&format!("{}{}", "[".repeat(64), "]".repeat(64)), "ok");
        assert_eq!(read(b"\"\xff\"").unwrap_err().to_string(), "invalid UTF-8 (line 1, column 2)");
    }

    #[test]
    fn finds_duplicates_among_many_keys() {
        let keys: Vec<String> = (0..40).map(|n| format!("\"k{n}\":0")).collect();
        check(&format!("{{{}}}", keys.join(",")), "ok");
        check(&format!("{{{},\"k3\":1}}", keys.join(",")), "duplicate key \"k3\" at / (line 1, column 316)");
    }

    proptest! {
        /// `serde_json` accepts every text that the reader accepts.
        #[test]
        fn agrees_with_serde_json(text in r#"[\[\]{}",:0-9eE.+\-a-c\\un ]{0,40}"#) {
            if read(text.as_bytes()).is_ok() {
                prop_assert!(serde_json::from_str::<serde_json::Value>(&text).is_ok(), "{}", text);
            }
        }

        #[test]
        fn never_panics(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let _outcome = read(&bytes);
        }
    }
}
