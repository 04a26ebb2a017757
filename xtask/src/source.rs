//! Prepares Rust source for the checks: removes comments, strings and tests.

use crate::tree::File;

pub(crate) const TESTS: &str = "#[cfg(test)]\nmod tests {";

/// The lines of a file that run in the product, numbered from 1.
pub(crate) struct Source {
    /// The code, with comments and the contents of strings blanked.
    pub(crate) code: String,
    /// The code, with only comments blanked.
    pub(crate) with_strings: String,
}

impl Source {
    /// Returns the part of a file before its tests. A test file is empty.
    pub(crate) fn of(file: &File) -> Self {
        let text = if is_test(&file.path) { "" } else { before_tests(&file.text) };
        Self { code: blank(text, Blank::CommentsAndStrings), with_strings: blank(text, Blank::Comments) }
    }
}

/// Returns a whole file, tests included, with comments and the contents of strings blanked.
pub(crate) fn whole_code(text: &str) -> String {
    blank(text, Blank::CommentsAndStrings)
}

pub(crate) fn is_test(path: &str) -> bool {
    path.contains("/tests/") || path.contains("/benches/") || path.ends_with("/tests.rs")
}

fn before_tests(text: &str) -> &str {
    text.split_once(TESTS).map_or(text, |(before, _)| before)
}

/// Returns the numbers of the lines that contain `needle`, from 1.
pub(crate) fn lines_with(text: &str, needle: &str) -> Vec<usize> {
    (1..).zip(text.lines()).filter(|(_, line)| line.contains(needle)).map(|(number, _)| number).collect()
}

/// As `lines_with`, but only where `needle` is a whole word.
pub(crate) fn lines_with_word(text: &str, needle: &str) -> Vec<usize> {
    (1..).zip(text.lines()).filter(|(_, line)| has_word(line, needle)).map(|(number, _)| number).collect()
}

fn has_word(line: &str, needle: &str) -> bool {
    let is_part = |c: Option<char>| c.is_some_and(|c| c.is_alphanumeric() || c == '_');
    line.match_indices(needle).any(|(at, _)| {
        let (before, after) = (line.get(..at).unwrap_or_default(), line.get(at + needle.len()..).unwrap_or_default());
        !is_part(before.chars().next_back()) && !is_part(after.chars().next())
    })
}

#[derive(Clone, Copy, PartialEq)]
enum Blank {
    Comments,
    CommentsAndStrings,
}

/// The kind of text at a position.
#[derive(Clone, Copy)]
enum Inside {
    Code,
    LineComment,
    /// The nesting depth of block comments.
    BlockComment(usize),
    String,
    /// The number of `#` after the closing quote.
    RawString(usize),
}

/// Replaces characters with blanks, except line breaks.
fn blank(text: &str, what: Blank) -> String {
    let mut out = String::with_capacity(text.len());
    let mut inside = Inside::Code;
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let (taken, next) = step(rest, inside);
        let token = rest.get(..taken).unwrap_or(rest);
        let hidden = match (inside, next) {
            (Inside::LineComment | Inside::BlockComment(_), _) => true,
            (_, Inside::LineComment | Inside::BlockComment(_)) => true,
            (Inside::String | Inside::RawString(_), Inside::String | Inside::RawString(_)) => {
                what == Blank::CommentsAndStrings
            }
            // A character literal such as '"' is one token.
            (Inside::Code, Inside::Code) => first == '\'' && taken > 1 && what == Blank::CommentsAndStrings,
            _ => false,
        };
        out.extend(token.chars().map(|c| if hidden && c != '\n' { ' ' } else { c }));
        rest = rest.get(token.len()..).unwrap_or_default();
        inside = next;
    }
    out
}

/// Returns the length of the token at the beginning of `rest` in bytes, and the kind of text after it.
fn step(rest: &str, inside: Inside) -> (usize, Inside) {
    let first = rest.chars().next().map_or(1, char::len_utf8);
    match inside {
        Inside::Code => {
            let raw = raw_string(rest);
            if rest.starts_with("//") {
                (2, Inside::LineComment)
            } else if rest.starts_with("/*") {
                (2, Inside::BlockComment(1))
            } else if let Some(marks) = raw {
                (marks + 2, Inside::RawString(marks))
            } else if rest.starts_with('"') {
                (1, Inside::String)
            } else {
                (character(rest).unwrap_or(first), Inside::Code)
            }
        }
        Inside::LineComment if rest.starts_with('\n') => (1, Inside::Code),
        Inside::BlockComment(depth) if rest.starts_with("/*") => (2, Inside::BlockComment(depth + 1)),
        Inside::BlockComment(1) if rest.starts_with("*/") => (2, Inside::Code),
        Inside::BlockComment(depth) if rest.starts_with("*/") => (2, Inside::BlockComment(depth - 1)),
        Inside::String if rest.starts_with('\\') => (1 + after(rest, 1), inside),
        Inside::String if rest.starts_with('"') => (1, Inside::Code),
        Inside::RawString(marks) => match rest.strip_prefix('"') {
            Some(tail) if tail.starts_with(&"#".repeat(marks)) => (1 + marks, Inside::Code),
            _ => (first, inside),
        },
        _ => (first, inside),
    }
}

/// Returns the number of `#` of a raw string that begins here. A word that ends in `r` never matches in practice,
/// because no quote follows a word in Rust.
fn raw_string(rest: &str) -> Option<usize> {
    let tail = rest.strip_prefix('r')?;
    let marks = tail.len() - tail.trim_start_matches('#').len();
    tail.trim_start_matches('#').starts_with('"').then_some(marks)
}

/// Returns the length of a character literal that begins here. Returns `None` for a lifetime.
fn character(rest: &str) -> Option<usize> {
    let tail = rest.strip_prefix('\'')?;
    if let Some(escape) = tail.strip_prefix('\\') {
        let skipped = after(escape, 0);
        let end = escape.get(skipped..)?.find('\'')?;
        return Some(2 + skipped + end + 1);
    }
    let length = after(tail, 0);
    tail.get(length..)?.starts_with('\'').then_some(1 + length + 1)
}

/// Returns the length of the character at a byte offset.
fn after(text: &str, at: usize) -> usize {
    text.get(at..).and_then(|rest| rest.chars().next()).map_or(0, char::len_utf8)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_and_strings_are_blank() {
        let check = |text: &str, code: &str, with_strings: &str| {
            assert_eq!(blank(text, Blank::CommentsAndStrings), code, "{text}");
            assert_eq!(blank(text, Blank::Comments), with_strings, "{text}");
        };
        check("a // b \"c\nd", "a        \nd", "a        \nd");
        check("a /* b /* c */ */ d", "a                 d", "a                 d");
        check(r#"a("b // \" c") // d"#, r#"a("         ")     "#, r#"a("b // \" c")     "#);
        check(r##"r#"a"b"# + c"##, r##"r#"   "# + c"##, r##"r#"a"b"# + c"##);
        check("('\"', '\\'', 'x')", "(   ,     ,    )", "('\"', '\\'', 'x')");
        check("fn f<'a>(x: &'a str)", "fn f<'a>(x: &'a str)", "fn f<'a>(x: &'a str)");
        check("\"ä\n\" // ü", "\" \n\"     ", "\"ä\n\"     ");
    }

    #[test]
    fn tests_are_left_out() {
        let file = |path: &str| File { path: path.to_owned(), text: format!("one();\n\n{TESTS}\n    two();\n}}\n") };
        assert_eq!(Source::of(&file("crates/a/src/lib.rs")).code, "one();\n\n");
        assert_eq!(Source::of(&file("crates/a/tests/a.rs")).code, "");
        assert_eq!(Source::of(&file("crates/a/src/tests.rs")).code, "");
    }

    #[test]
    fn words() {
        assert_eq!(lines_with_word("rand::random()\nbrand\nrandom\nuse rand;", "rand"), [1, 4]);
        assert_eq!(lines_with("a\nab\nb", "b"), [2, 3]);
    }
}
