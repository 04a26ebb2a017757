//! Rust source as the checks look at it: without comments, strings or tests.

use crate::tree::File;

pub(crate) const TESTS: &str = "#[cfg(test)]\nmod tests {";

/// The lines of a file that run in the product, numbered from 1.
pub(crate) struct Source {
    /// Comments and the insides of strings are blank.
    pub(crate) code: String,
    /// Only comments are blank.
    pub(crate) with_strings: String,
}

impl Source {
    /// Nothing of a file that is a test, and of another what stands before its tests.
    pub(crate) fn of(file: &File) -> Self {
        let text = if is_test(&file.path) { "" } else { before_tests(&file.text) };
        Self { code: blank(text, Blank::CommentsAndStrings), with_strings: blank(text, Blank::Comments) }
    }
}

/// A whole file, tests included, without comments and the insides of strings.
pub(crate) fn whole_code(text: &str) -> String {
    blank(text, Blank::CommentsAndStrings)
}

pub(crate) fn is_test(path: &str) -> bool {
    path.contains("/tests/") || path.contains("/benches/") || path.ends_with("/tests.rs")
}

fn before_tests(text: &str) -> &str {
    text.split_once(TESTS).map_or(text, |(before, _)| before)
}

/// The lines of `text` that contain `needle`, as numbers from 1.
pub(crate) fn lines_with(text: &str, needle: &str) -> Vec<usize> {
    (1..).zip(text.lines()).filter(|(_, line)| line.contains(needle)).map(|(number, _)| number).collect()
}

/// As `lines_with`, but `needle` is not a part of a longer word.
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

/// What the characters at some place belong to.
#[derive(Clone, Copy)]
enum Inside {
    Code,
    LineComment,
    /// These nest.
    BlockComment(usize),
    String,
    /// Ends with a quote and so many `#`.
    RawString(usize),
}

/// Replaces characters with blanks; line breaks stay where they are.
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

/// How many bytes belong together at the beginning of `rest`, and what comes after them.
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

/// The number of `#` of a raw string that begins here. A word that ends in `r` is no beginning of one in practice:
/// nothing in Rust has a quote right after it.
fn raw_string(rest: &str) -> Option<usize> {
    let tail = rest.strip_prefix('r')?;
    let marks = tail.len() - tail.trim_start_matches('#').len();
    tail.trim_start_matches('#').starts_with('"').then_some(marks)
}

/// The length of a character literal that begins here; a lifetime is none.
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

/// The length of the character at a byte offset.
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
