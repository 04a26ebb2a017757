//! Checks that `mcpproxy-core` has no I/O: no files, clock, random numbers, environment, waiting or logging.

use crate::source::{Source, lines_with_word};
use crate::tree::{Problem, Tree};

const FORBIDDEN: [&str; 21] = [
    "std::fs",
    "std::env",
    "std::io",
    "std::process",
    "std::thread",
    "std::os",
    "SystemTime",
    "Instant",
    "Timestamp::now",
    "Zoned::now",
    "TcpStream",
    "UdpSocket",
    "ToSocketAddrs",
    "RandomState",
    "rand",
    "tokio",
    "tracing",
    "async",
    "await",
    "println",
    "eprintln",
];

pub(super) fn check(tree: &Tree) -> Vec<Problem> {
    let mut problems = Vec::new();
    for file in tree.below("crates/mcpproxy-core/src/") {
        let code = Source::of(file).code;
        for word in FORBIDDEN {
            problems.extend(lines_with_word(&code, word).into_iter().map(|line| {
                Problem::new(file, line, format!("`{word}` is not allowed in core; pass the value as a parameter"))
            }));
        }
    }
    problems
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clock_is_found_and_a_word_is_not() {
        let text = "//! Not the `Instant`.\nuse std::net::IpAddr;\nlet now = Instant::now();\nlet x = \"tokio\";\nlet operand = 1;\n";
        let tree = Tree::of(&[("crates/mcpproxy-core/src/a.rs", text), ("crates/mcpproxy-gateway/src/a.rs", text)]);
        let found: Vec<String> = check(&tree).iter().map(Problem::to_string).collect();
        assert_eq!(
            found,
            ["crates/mcpproxy-core/src/a.rs:3: `Instant` is not allowed in core; pass the value as a parameter"]
        );
    }
}
