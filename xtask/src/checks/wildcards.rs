//! Finds `_ =>` in a match on one of our own enums.
//!
//! A wildcard arm hides every variant that is added later: a new risk level would be allowed, a new error would be
//! answered with a silent 500. If all variants are listed, the compiler names each place that needs a decision.
//!
//! The check works on text. It looks at each `match`, and reports a lone `_` beside a pattern such as `Risk::Low` or
//! `Self::Low`. The crate, or one that it may use, must define an enum of that name. A match on a tuple or a foreign
//! enum is not reported.

use std::collections::{BTreeMap, BTreeSet};

use super::direction;
use crate::source::{Source, is_test};
use crate::tree::{File, Problem, Tree};

pub(super) fn check(tree: &Tree) -> Vec<Problem> {
    let product: Vec<(&File, String)> =
        tree.below("crates/").filter(|file| !is_test(&file.path)).map(|file| (file, Source::of(file).code)).collect();
    let enums_of = |name: &str, declared: &str| -> BTreeSet<&str> {
        let files = product.iter().filter(|(file, _)| crate_of(file) == name);
        files.flat_map(|(_, code)| names_after(code, declared)).collect()
    };
    let names: BTreeSet<&str> = product.iter().map(|(file, _)| crate_of(file)).collect();
    // A crate sees its own enums, and the public ones of the crates that it may use.
    let enums: BTreeMap<&str, BTreeSet<&str>> = names
        .into_iter()
        .map(|name| {
            let others = direction::uses(name).iter().flat_map(|used| enums_of(used, "pub enum "));
            (name, others.chain(enums_of(name, "enum ")).collect())
        })
        .collect();
    let visible = |file: &File| enums.get(crate_of(file)).cloned().unwrap_or_default();
    product.iter().flat_map(|(file, code)| check_file(file, code, &visible(file))).collect()
}

fn crate_of(file: &File) -> &str {
    file.path.split('/').nth(1).unwrap_or_default()
}

fn check_file(file: &File, code: &str, enums: &BTreeSet<&str>) -> Vec<Problem> {
    let mut problems = Vec::new();
    for (at, word) in code.match_indices("match ") {
        let is_word = !code.get(..at).unwrap_or_default().ends_with(|c: char| c.is_alphanumeric() || c == '_');
        let Some(body) = code.get(at + word.len()..).filter(|_| is_word).and_then(body) else { continue };
        let patterns = patterns(body);
        let is_wild = patterns.iter().any(|pattern| pattern == "_");
        let own = patterns.iter().filter_map(|pattern| own_enum(pattern, enums)).next();
        if let Some(own) = own.filter(|_| is_wild) {
            let line = 1 + code.get(..at).unwrap_or_default().matches('\n').count();
            problems.push(Problem::new(file, line, format!("`_ =>` hides new variants of `{own}`; list them")));
        }
    }
    problems
}

/// Returns the text between the braces of a match. The expression before them may have braces only inside parentheses.
fn body(rest: &str) -> Option<&str> {
    let open = outside_brackets(rest).find(|(_, c)| *c == '{').map(|(at, _)| at)?;
    let inside = rest.get(open + 1..)?;
    let mut depth = 1_usize;
    for (at, c) in inside.char_indices() {
        match c {
            '{' => depth += 1,
            '}' => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return inside.get(..at);
        }
    }
    None
}

/// Returns the characters that are in no parentheses or square brackets.
fn outside_brackets(text: &str) -> impl Iterator<Item = (usize, char)> {
    let mut depth = 0_i32;
    text.char_indices().filter(move |(_, c)| {
        depth += match c {
            '(' | '[' => 1,
            ')' | ']' => -1,
            _ => 0,
        };
        depth == 0
    })
}

/// Returns the pattern of each arm, without its guard.
fn patterns(body: &str) -> Vec<String> {
    let mut found = Vec::new();
    let (mut pattern, mut depth, mut in_arm) = (String::new(), 0_i32, false);
    let mut chars = body.chars().peekable();
    while let Some(c) = chars.next() {
        match c {
            '=' if depth == 0 && !in_arm && chars.peek() == Some(&'>') => {
                chars.next();
                let text = pattern.split(" if ").next().unwrap_or_default();
                found.push(text.trim().to_owned());
                pattern.clear();
                in_arm = true;
                continue;
            }
            '{' | '(' | '[' => depth += 1,
            '}' | ')' | ']' => depth -= 1,
            _ => {}
        }
        // An arm ends with a comma, or with the brace of its block.
        if in_arm && depth == 0 && matches!(c, ',' | '}') {
            in_arm = false;
        } else if !(in_arm || pattern.is_empty() && matches!(c, ',' | ' ' | '\n')) {
            pattern.push(c);
        }
    }
    found
}

/// Returns the enum of ours that the pattern begins with.
fn own_enum<'p>(pattern: &'p str, enums: &BTreeSet<&str>) -> Option<&'p str> {
    let path = pattern.trim_start_matches(['&', '|', ' ', '\n']);
    let end = path.find(|c: char| !c.is_alphanumeric() && c != '_' && c != ':').unwrap_or(path.len());
    let (before, _) = path.get(..end)?.rsplit_once("::")?;
    let name = before.rsplit("::").next()?;
    (name == "Self" || enums.contains(name)).then_some(name)
}

fn names_after<'c>(code: &'c str, word: &str) -> impl Iterator<Item = &'c str> {
    code.match_indices(word).filter_map(move |(at, word)| {
        let rest = code.get(at + word.len()..)?;
        rest.split(|c: char| !c.is_alphanumeric() && c != '_').next().filter(|name| !name.is_empty())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(code: &str) -> Vec<String> {
        check(&Tree::of(&[("crates/a/src/a.rs", code)])).iter().map(Problem::to_string).collect()
    }

    #[test]
    fn a_wildcard_beside_our_own_variants_is_found() {
        let code = "enum Risk { Low, High }\nfn f(risk: Risk) -> u8 {\n    match (g)(|| { 1 }).max(risk) {\n        \
                    Risk::Low if true => { 1 }\n        _ => 2,\n    }\n}\n";
        assert_eq!(found(code), ["crates/a/src/a.rs:3: `_ =>` hides new variants of `Risk`; list them"]);
        let nested = "enum Risk { Low }\nfn f() {\n    match x { Some(y) => match y { Self::Low => (), _ => () }, None => () }\n}\n";
        assert_eq!(found(nested), ["crates/a/src/a.rs:3: `_ =>` hides new variants of `Self`; list them"]);
    }

    #[test]
    fn other_matches_are_left_alone() {
        for code in [
            "enum Risk { Low }\nfn f() { match risk { Risk::Low | Risk::High => 1 } }",
            "enum Risk { Low }\nfn f() { match value { Value::Null => Risk::Low, _ => Risk::High } }",
            "enum Risk { Low }\nfn f() { match (a, b) { (Risk::Low, true) => 1, _ => 2 } }",
            "enum Risk { Low }\nfn f() { match text { \"low\" => Some(Risk::Low), _ => None } }",
        ] {
            assert!(found(code).is_empty(), "{code}");
        }
    }
}
