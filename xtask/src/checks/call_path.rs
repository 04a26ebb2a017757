//! Checks that only `upstream/forward.rs` sends a tool call to a server, and only `decision.rs` makes its permit.

use crate::source::{Source, lines_with, lines_with_word};
use crate::tree::{Problem, Tree};

const METHOD: &str = "tools/call";
const DECISION: &str = "crates/mcpproxy-core/src/decision.rs";
const FORWARD: &str = "crates/mcpproxy-gateway/src/upstream/forward.rs";

/// The files that may contain the name of the method, how often, and why.
const PLACES: [(&str, usize, &str); 7] = [
    (FORWARD, 1, "sends it to a server, for a permit"),
    ("crates/mcpproxy-gateway/src/downstream/dispatch.rs", 2, "receives it from an agent"),
    ("crates/mcpproxy-gateway/src/downstream/stdio.rs", 1, "knows which requests wait for all servers"),
    ("crates/mcpproxy-gateway/src/headers.rs", 1, "knows which parameter a header repeats"),
    ("crates/mcpproxy-gateway/src/telemetry/otlp.rs", 1, "names the spans of a call"),
    ("crates/mcpproxy/src/commands/call.rs", 1, "is an agent itself and sends it to the gateway"),
    ("crates/mcpproxy/src/client/jsonrpc.rs", 1, "knows which parameter a header repeats"),
];

pub(super) fn check(tree: &Tree) -> Vec<Problem> {
    let mut problems = senders(tree);
    problems.extend(permits(tree));
    problems
}

/// Read access to the call of a permit. `DerefMut` would let the bytes change after the decision.
const DEREF: &str = "impl Deref for Permit {";

fn senders(tree: &Tree) -> Vec<Problem> {
    let mut problems = Vec::new();
    // The demo server and the benchmark are not part of the product.
    for file in tree.below("crates/mcpproxy") {
        let lines = lines_with(&Source::of(file).with_strings, METHOD);
        let allowed = PLACES.iter().find(|(path, ..)| *path == file.path).map_or(0, |(_, count, _)| *count);
        problems.extend(lines.iter().skip(allowed).map(|line| {
            Problem::new(
                file,
                *line,
                format!("`{METHOD}` is not allowed here; if it must be, add the file to xtask/src/checks/call_path.rs"),
            )
        }));
        if lines.len() < allowed {
            problems.push(Problem::new(file, 1, format!("`{METHOD}` must occur exactly {allowed} times in this file")));
        }
    }
    problems
}

fn permits(tree: &Tree) -> Vec<Problem> {
    let mut problems = Vec::new();
    for file in tree.below("crates/") {
        let code = Source::of(file).code;
        let made: Vec<usize> = lines_with_word(&code, "Permit {")
            .into_iter()
            .filter(|line| {
                let text = code.lines().nth(line - 1).unwrap_or_default();
                !text.contains("struct Permit {") && !text.contains("impl Permit {") && text != DEREF
            })
            .collect();
        let allowed = usize::from(file.path == DECISION);
        problems.extend(made.iter().skip(allowed).map(|line| {
            Problem::new(file, *line, "permits must be created in one place only: where `decide` allows a call")
        }));
        // `Deref` only reads. Any other trait could make a second permit.
        let is_deref = |line: usize| file.path == DECISION && code.lines().nth(line - 1) == Some(DEREF);
        for line in lines_with(&code, " for Permit").into_iter().filter(|line| !is_deref(*line)) {
            problems.push(Problem::new(file, line, "`Permit` must not implement a trait that can create or copy it"));
        }
    }
    match tree.find(DECISION) {
        Some(file) => problems.extend(derives(&file.text).map(|line| {
            Problem::new(file, line, "`Permit` must derive only `Debug`, so that one permit allows one call")
        })),
        None => problems.push(Problem::missing(DECISION, "the file that creates permits does not exist")),
    }
    if tree.find(FORWARD).is_none_or(|file| !Source::of(file).code.contains("permit: Permit,")) {
        problems.push(Problem::missing(FORWARD, "`forward` must take its permit by value"));
    }
    problems
}

/// Returns the line of the permit's `derive`, if it derives anything but `Debug`.
fn derives(policy: &str) -> Option<usize> {
    let lines: Vec<&str> = policy.lines().collect();
    let at = lines.iter().position(|line| line.starts_with("pub struct Permit {"))?;
    let derive = at.checked_sub(1).and_then(|above| lines.get(above))?;
    (*derive != "#[derive(Debug)]").then_some(at)
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD_DECISION: &str = "//! P.\n#[derive(Debug)]\npub struct Permit {\n}\nimpl Permit {\n}\nimpl Deref for Permit {\n}\nfn decide() {\n    Permit { }\n}\n";
    const GOOD_FORWARD: &str =
        "//! F.\nasync fn forward(server: &Server, permit: Permit, x: X) {\n    send(\"tools/call\")\n}\n";

    fn found(files: &[(&str, &str)]) -> Vec<String> {
        let all: Vec<(&str, &str)> =
            [(DECISION, GOOD_DECISION), (FORWARD, GOOD_FORWARD)].into_iter().chain(files.iter().copied()).collect();
        check(&Tree::of(&all)).iter().map(Problem::to_string).collect()
    }

    #[test]
    fn another_sender_is_found() {
        assert_eq!(found(&[]), [""; 0]);
        let sender = "//! A way round `tools/call`.\nfn sneak() { send(\"tools/call\") }\n";
        assert_eq!(
            found(&[("crates/mcpproxy-gateway/src/sneak.rs", sender), ("crates/bench/src/load.rs", sender)]),
            [
                "crates/mcpproxy-gateway/src/sneak.rs:2: `tools/call` is not allowed here; if it must be, add the file to xtask/src/checks/call_path.rs"
            ]
        );
    }

    #[test]
    fn another_permit_is_found() {
        let forged = "//! F.\nfn forge() -> Permit {\n    let made = Permit { tool };\n}\nimpl Clone for Permit {}\n";
        let found = found(&[("crates/mcpproxy-core/src/forged.rs", forged)]);
        assert!(
            found
                .iter()
                .any(|problem| problem.starts_with("crates/mcpproxy-core/src/forged.rs:3: permits must be created"))
        );
        assert!(
            found.iter().any(|problem| problem.starts_with("crates/mcpproxy-core/src/forged.rs:5: `Permit` must not implement"))
        );
        let writable = GOOD_DECISION.replace("fn decide", "impl DerefMut for Permit {\n}\nfn decide");
        assert!(!permits(&Tree::of(&[(DECISION, writable.as_str()), (FORWARD, GOOD_FORWARD)])).is_empty());
        let cloned = GOOD_DECISION.replace("(Debug)", "(Clone, Debug)");
        assert_eq!(derives(&cloned), Some(2));
        assert_eq!(derives(GOOD_DECISION), None);
    }
}
