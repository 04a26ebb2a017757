//! Finds cycles between the top-level modules of a crate.
//!
//! A module that can reach itself cannot be read, moved or tested alone. The compiler allows such cycles, so this check
//! reads the imports instead:
//!
//! 1. The top-level modules of a crate are the `mod` lines of its `lib.rs` or `main.rs`, without those for tests.
//! 2. A module uses another one when any of its files names it as `crate::other`, or as `super::other` from the right
//!    depth. An item that the root re-exports with `pub use other::Item` counts, too.
//! 3. An edge from `a` to `b` is a problem when `b` reaches `a` again. Each such edge is reported once, at its first
//!    use.
//!
//! The check works on text: it sees every path in a `use` or in the code, and no path that a macro builds. That is
//! enough to keep the direction of a crate, and it needs no compiler. Cycles inside a folder are allowed, because a
//! folder is one thing to its neighbours.

use std::collections::{BTreeMap, BTreeSet};

use crate::source::{Source, is_test};
use crate::tree::{File, Problem, Tree};

/// The modules that one module uses, each with the first place that does.
type Uses<'t> = BTreeMap<String, (&'t File, usize)>;

pub(super) fn check(tree: &Tree) -> Vec<Problem> {
    let roots = tree.rust().filter_map(|file| {
        let folder = file.path.strip_suffix("lib.rs").or_else(|| file.path.strip_suffix("main.rs"))?;
        (folder.starts_with("crates/") && folder.ends_with("/src/")).then_some((folder, file))
    });
    roots.flat_map(|(folder, root)| check_crate(tree, folder, root)).collect()
}

fn check_crate<'t>(tree: &'t Tree, folder: &'t str, root: &File) -> Vec<Problem> {
    let code = Source::of(root).code;
    let modules = modules(&code);
    let exports = exports(&code);
    let mut graph: BTreeMap<&str, Uses<'t>> = BTreeMap::new();
    for file in tree.below(folder).filter(|file| !is_test(&file.path)) {
        let path: Vec<&str> = file.path.trim_start_matches(folder).trim_end_matches(".rs").split('/').collect();
        let Some(module) = path.first().filter(|first| modules.contains(**first)) else { continue };
        let depth = path.len() - usize::from(path.last() == Some(&"mod"));
        for (line, name) in names_from_root(&Source::of(file).code, depth) {
            let used = if modules.contains(name) { Some(name) } else { exports.get(name).map(String::as_str) };
            if let Some(used) = used.filter(|used| used != module) {
                graph.entry(module).or_default().entry(used.to_owned()).or_insert((file, line));
            }
        }
    }
    let mut problems = Vec::new();
    for (module, uses) in &graph {
        for (used, (file, line)) in uses {
            if reaches(&graph, used, module) {
                problems.push(Problem::new(
                    file,
                    *line,
                    format!("`{module}` uses `{used}`, which uses `{module}` directly or indirectly"),
                ));
            }
        }
    }
    problems
}

/// The names of the modules that a root declares for the product.
fn modules(code: &str) -> BTreeSet<&str> {
    let mut found = BTreeSet::new();
    let mut is_for_tests = false;
    for line in code.lines().map(str::trim) {
        if let Some(name) = line.strip_suffix(';').and_then(|line| line.rsplit_once("mod ")).map(|(_, name)| name)
            && !is_for_tests
        {
            found.insert(name);
        }
        is_for_tests = line == "#[cfg(test)]";
    }
    found
}

/// The items that a root re-exports, each with the module it comes from.
fn exports(code: &str) -> BTreeMap<&str, String> {
    let mut found = BTreeMap::new();
    for (at, word) in code.match_indices("use ") {
        let is_public = code.get(..at).is_some_and(|before| before.trim_end().ends_with(['b', ')']));
        let statement = code.get(at + word.len()..).and_then(|rest| rest.split(';').next()).unwrap_or_default();
        if let Some((module, items)) = statement.split_once("::").filter(|_| is_public) {
            let items = items.split(|c: char| !c.is_alphanumeric() && c != '_').filter(|item| !item.is_empty());
            found.extend(items.map(|item| (item, module.to_owned())));
        }
    }
    found
}

/// Every first name behind `crate::`, and behind as many `super::` as lead to the root from a file at this depth.
fn names_from_root(code: &str, depth: usize) -> Vec<(usize, &str)> {
    let climb = "super::".repeat(depth);
    let mut found = Vec::new();
    for prefix in ["crate::", climb.as_str()] {
        for (at, _) in code.match_indices(prefix) {
            let before = code.get(..at).unwrap_or_default();
            // Part of a longer path, such as one more `super::`.
            if before.ends_with(|c: char| c.is_alphanumeric() || matches!(c, '_' | ':')) {
                continue;
            }
            let rest = code.get(at + prefix.len()..).unwrap_or_default();
            let line = 1 + before.matches('\n').count();
            found.extend(first_names(rest).into_iter().map(|name| (line, name)));
        }
    }
    found
}

/// The name that a path begins with, or those of all paths in a group in braces.
fn first_names(rest: &str) -> Vec<&str> {
    let Some(group) = rest.strip_prefix('{') else { return vec![leading_name(rest)] };
    let mut depth = 0_usize;
    let mut names = vec![leading_name(group)];
    for (at, c) in group.char_indices() {
        match c {
            '{' => depth += 1,
            '}' if depth == 0 => break,
            '}' => depth -= 1,
            ',' if depth == 0 => names.push(leading_name(group.get(at + 1..).unwrap_or_default())),
            _ => {}
        }
    }
    names.retain(|name| !name.is_empty());
    names
}

fn leading_name(text: &str) -> &str {
    let text = text.trim_start();
    let end = text.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(text.len());
    text.get(..end).unwrap_or_default()
}

fn reaches(graph: &BTreeMap<&str, Uses<'_>>, from: &str, to: &str) -> bool {
    let mut seen = BTreeSet::new();
    let mut open = vec![from];
    while let Some(module) = open.pop() {
        if module == to {
            return true;
        }
        if seen.insert(module) {
            open.extend(graph.get(module).into_iter().flat_map(|uses| uses.keys().map(String::as_str)));
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(files: &[(&str, &str)]) -> Vec<String> {
        check(&Tree::of(files)).iter().map(Problem::to_string).collect()
    }

    #[test]
    fn a_cycle_is_reported_at_each_of_its_edges() {
        let root = "mod a;\nmod b;\nmod c;\npub use c::{Item, Other};\n#[cfg(test)]\nmod tests;\n";
        let files = [
            ("crates/x/src/lib.rs", root),
            ("crates/x/src/a.rs", "use crate::{\n    b::One,\n    c::{Two, Three},\n};\n"),
            ("crates/x/src/b/mod.rs", "fn f() { super::c::g() }\n"),
            ("crates/x/src/c/deep.rs", "use super::super::a::Four;\nuse super::sibling;\n"),
            ("crates/x/src/tests.rs", "use crate::a;\n"),
        ];
        assert_eq!(
            found(&files),
            [
                "crates/x/src/a.rs:1: `a` uses `b`, which uses `a` directly or indirectly",
                "crates/x/src/a.rs:1: `a` uses `c`, which uses `a` directly or indirectly",
                "crates/x/src/b/mod.rs:1: `b` uses `c`, which uses `b` directly or indirectly",
                "crates/x/src/c/deep.rs:1: `c` uses `a`, which uses `c` directly or indirectly",
            ]
        );
    }

    #[test]
    fn a_reexport_counts_as_its_module() {
        let root = "mod a;\nmod b;\npub(crate) use b::Item;\npub use a::{First, Second as Renamed};\n";
        let files = [
            ("crates/x/src/main.rs", root),
            ("crates/x/src/a.rs", "use crate::Item;\n"),
            ("crates/x/src/b.rs", "use crate::Renamed;\n"),
        ];
        let expected = [
            "crates/x/src/a.rs:1: `a` uses `b`, which uses `a` directly or indirectly",
            "crates/x/src/b.rs:1: `b` uses `a`, which uses `b` directly or indirectly",
        ];
        assert_eq!(found(&files), expected);
    }

    #[test]
    fn one_direction_is_fine() {
        let files = [
            ("crates/x/src/lib.rs", "mod a;\nmod b;\n"),
            ("crates/x/src/a.rs", "use crate::b::One;\n// crate::a\n"),
            (
                "crates/x/src/b.rs",
                "const TEXT: &str = \"crate::a\";\n#[cfg(test)]\nmod tests {\n    use crate::a;\n}\n",
            ),
        ];
        assert!(found(&files).is_empty());
    }
}
