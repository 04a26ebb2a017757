//! Checks that every Rust file is short, begins with a sentence about its purpose, and ends with its tests.

use crate::source::{TESTS, whole_code};
use crate::tree::{Problem, Tree};

const LINES_MAX: usize = 600;

pub(super) fn check(tree: &Tree) -> Vec<Problem> {
    let mut problems = Vec::new();
    for file in tree.rust() {
        let lines = file.text.lines().count();
        if lines > LINES_MAX {
            problems.push(Problem::new(
                file,
                LINES_MAX + 1,
                format!("{lines} lines; the limit is {LINES_MAX}, so split the file"),
            ));
        }
        let sentence = file.text.lines().next().and_then(|line| line.strip_prefix("//! "));
        if sentence.is_none_or(|sentence| sentence.trim().is_empty()) {
            problems.push(Problem::new(file, 1, "begin the file with `//! ` and a sentence that describes it"));
        }
        problems.extend(after_tests(&whole_code(&file.text)).map(|line| {
            Problem::new(file, line, "tests must come last, because other checks do not read the code after them")
        }));
    }
    problems
}

/// Returns the line of the first item after the tests.
fn after_tests(text: &str) -> Option<usize> {
    let (before, tests) = text.split_once(TESTS)?;
    let end = tests.lines().position(|line| line == "}")?;
    let behind = tests.lines().skip(end + 1).position(|line| !line.trim().is_empty())?;
    Some(before.lines().count() + TESTS.lines().count() + end + behind + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_nameless_and_badly_ended_files_are_found() {
        let long = "//! Long.\n".to_owned() + &"\n".repeat(LINES_MAX);
        let behind = format!("//! Ends badly.\n{TESTS}\n    fn test() {{}}\n}}\n\nfn hidden() {{}}\n");
        let tree = Tree::of(&[
            ("crates/a/src/long.rs", &long),
            ("crates/a/src/nameless.rs", "fn main() {}\n"),
            ("crates/a/src/behind.rs", &behind),
            ("crates/a/src/good.rs", &format!("//! Good.\n\n{TESTS}\n}}\n")),
            ("README.md", "no Rust\n"),
        ]);
        let found: Vec<String> = check(&tree).iter().map(Problem::to_string).collect();
        assert_eq!(
            found,
            [
                "crates/a/src/long.rs:601: 601 lines; the limit is 600, so split the file",
                "crates/a/src/nameless.rs:1: begin the file with `//! ` and a sentence that describes it",
                "crates/a/src/behind.rs:7: tests must come last, because other checks do not read the code after them",
            ]
        );
    }
}
