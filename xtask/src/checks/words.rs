//! Checks for unfinished work, ignored tests, and disabled lints that prevent panics.

use crate::source::{Source, lines_with, lines_with_word};
use crate::tree::{File, Problem, Tree};

/// Split in two, so that this file does not contain them.
const MARKS: [&str; 3] = [concat!("TO", "DO"), concat!("FIX", "ME"), concat!("XX", "X")];

const UNFINISHED: [&str; 3] = [concat!("to", "do!"), concat!("unimple", "mented!"), concat!("#[", "ignore")];

/// Lints that keep a bad request from ending the process.
const KEPT: [&str; 8] = [
    "unwrap_used",
    "expect_used",
    "panic",
    "indexing_slicing",
    "string_slice",
    "unreachable",
    "unsafe_code",
    "await_holding_lock",
];

pub(super) fn check(tree: &Tree) -> Vec<Problem> {
    let mut problems = Vec::new();
    for file in &tree.files {
        for mark in MARKS {
            let lines = lines_with_word(&file.text, mark);
            problems.extend(
                lines.into_iter().map(|line| Problem::new(file, line, format!("`{mark}`: finish it or remove it"))),
            );
        }
    }
    for file in tree.rust() {
        for word in UNFINISHED {
            let lines = lines_with(&file.text, word);
            problems.extend(lines.into_iter().map(|line| Problem::new(file, line, format!("`{word}` is unfinished"))));
        }
        problems.extend(switched_off(file));
    }
    problems
}

fn switched_off(file: &File) -> Vec<Problem> {
    let code = Source::of(file).code;
    let mut problems = Vec::new();
    for (at, _) in code.match_indices("#[").chain(code.match_indices("#![")) {
        let attribute = code.get(at..).and_then(|rest| rest.split(']').next()).unwrap_or_default();
        let line = 1 + code.get(..at).unwrap_or_default().matches('\n').count();
        let lint = KEPT.iter().find(|lint| !lines_with_word(attribute, lint).is_empty());
        let is_off = ["allow(", "expect("].iter().any(|word| attribute.contains(word));
        problems.extend(lint.filter(|_| is_off).map(|lint| {
            Problem::new(file, line, format!("`{lint}` must not be allowed outside tests; return an error instead"))
        }));
    }
    problems
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_and_switched_off_lints_are_found() {
        let (mark, unfinished) = (MARKS[0], UNFINISHED[0]);
        let text = format!(
            "//! A.\n// {mark}: later\nfn a() {{ {unfinished}() }}\n#[expect(clippy::unwrap_used, reason = \"b\")]\nfn b() {{}}\n\
             #[expect(clippy::cast_precision_loss, reason = \"c\")]\nfn c() {{}}\n"
        );
        let in_test = "//! T.\n#![allow(clippy::unwrap_used, reason = \"a test\")]\n";
        let tree = Tree::of(&[("crates/a/src/a.rs", &text), ("crates/a/tests/t.rs", in_test)]);
        let found: Vec<String> = check(&tree).iter().map(Problem::to_string).collect();
        assert_eq!(
            found,
            [
                format!("crates/a/src/a.rs:2: `{mark}`: finish it or remove it"),
                format!("crates/a/src/a.rs:3: `{unfinished}` is unfinished"),
                "crates/a/src/a.rs:4: `unwrap_used` must not be allowed outside tests; return an error instead"
                    .to_owned(),
            ]
        );
    }
}
