//! Checks the dependencies of each crate: the crates of the workspace, and libraries that only some crates may use.

use crate::tree::{File, Problem, Tree};

/// Each crate, with the workspace crates that it may use. Every crate needs an entry.
const CRATES: [(&str, &[&str]); 11] = [
    (
        "mcpproxy",
        &["mcpproxy-web", "mcpproxy-gateway", "mcpproxy-store", "mcpproxy-identity", "mcpproxy-core", "demo-server"],
    ),
    ("mcpproxy-web", &["mcpproxy-gateway", "mcpproxy-store", "mcpproxy-identity", "mcpproxy-core"]),
    ("mcpproxy-gateway", &["mcpproxy-store", "mcpproxy-identity", "mcpproxy-core"]),
    ("mcpproxy-identity", &[]),
    ("mcpproxy-store", &["mcpproxy-core"]),
    ("mcpproxy-core", &["mcpproxy-encoder"]),
    ("mcpproxy-encoder", &[]),
    ("demo-server", &[]),
    // The benchmark replays recorded calls in its own process.
    ("bench", &["mcpproxy-gateway", "mcpproxy-store", "mcpproxy-core"]),
    ("fuzz", &["mcpproxy-store", "mcpproxy-core"]),
    ("xtask", &["mcpproxy-core"]),
];

/// Libraries that belong to one layer, with the crates that may use them.
const LIBRARIES: [(&str, &[&str]); 7] = [
    ("sqlx", &["mcpproxy-store"]),
    ("rmcp", &["mcpproxy-gateway", "demo-server", "fuzz"]),
    ("axum", &["mcpproxy-web", "mcpproxy-gateway", "demo-server"]),
    ("tokio-rustls", &["mcpproxy-gateway", "mcpproxy-identity", "mcpproxy-web", "mcpproxy"]),
    ("jsonwebtoken", &["mcpproxy-identity"]),
    ("clap", &["mcpproxy", "bench"]),
    ("anyhow", &["mcpproxy", "bench", "xtask"]),
];

/// The only libraries that `mcpproxy-core` may use: no runtime, no clock, no log.
const CORE: (&str, &[&str]) = (
    "mcpproxy-core",
    &[
        "aho-corasick",
        "cedar-policy",
        "granit-parser",
        "jiff",
        "jsonc-parser",
        "jsonschema",
        "mcpproxy-encoder",
        "memchr",
        "miette",
        "serde_json",
        "sha2",
        "thiserror",
        "unicode-general-category",
        "unicode-normalization",
        "url",
    ],
);

/// Returns the workspace crates that a crate may use.
pub(super) fn uses(name: &str) -> &'static [&'static str] {
    CRATES.iter().find(|(known, _)| *known == name).map_or(&[], |(_, uses)| uses)
}

pub(super) fn check(tree: &Tree) -> Vec<Problem> {
    let manifests = tree.files.iter().filter(|file| file.path.ends_with("/Cargo.toml"));
    manifests.flat_map(check_manifest).collect()
}

fn check_manifest(file: &File) -> Vec<Problem> {
    let name = file.path.trim_end_matches("/Cargo.toml").rsplit('/').next().unwrap_or_default();
    let Some((_, allowed)) = CRATES.iter().find(|(known, _)| *known == name) else {
        return vec![Problem::new(
            file,
            1,
            format!("`{name}` has no entry in CRATES of xtask/src/checks/direction.rs"),
        )];
    };
    let mut problems = Vec::new();
    for (line, dependency) in dependencies(&file.text) {
        let is_ours = CRATES.iter().any(|(known, _)| *known == dependency);
        let library = LIBRARIES.iter().find(|(known, _)| *known == dependency);
        if is_ours && !allowed.contains(&dependency) {
            problems.push(Problem::new(
                file,
                line,
                format!("`{name}` must not depend on `{dependency}`, which is not below it"),
            ));
        }
        if library.is_some_and(|(_, users)| !users.contains(&name)) {
            problems.push(Problem::new(
                file,
                line,
                format!("`{name}` must not depend on `{dependency}`, which belongs to another layer"),
            ));
        }
        if name == CORE.0 && !CORE.1.contains(&dependency) {
            problems.push(Problem::new(
                file,
                line,
                format!("`{dependency}` is not in the list of libraries that core may use"),
            ));
        }
    }
    problems
}

/// Returns the dependencies in a manifest with their lines. Dev-dependencies are left out.
fn dependencies(manifest: &str) -> Vec<(usize, &str)> {
    let mut found = Vec::new();
    let mut is_list = false;
    for (number, line) in (1..).zip(manifest.lines()) {
        if let Some(section) = line.strip_prefix('[').and_then(|line| line.split(']').next()) {
            let section = section.rsplit_once("cfg(").map_or(section, |(_, tail)| tail);
            is_list = section.ends_with("dependencies") && !section.ends_with("dev-dependencies");
            let single = section.split_once("dependencies.").filter(|(before, _)| !before.ends_with("dev-"));
            found.extend(single.map(|(_, name)| (number, name)));
        } else if is_list {
            let name = line.split(['.', '=', ' ']).next().unwrap_or_default();
            if !name.is_empty() && !name.starts_with('#') {
                found.push((number, name));
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(path: &str, manifest: &str) -> Vec<String> {
        check(&Tree::of(&[(path, manifest)])).iter().map(Problem::to_string).collect()
    }

    #[test]
    fn dependencies_are_found_in_every_form() {
        let manifest = "[package]\nname = \"a\"\n[dependencies]\n# why\none.workspace = true\ntwo = { path = \"x\" }\n\
            [dev-dependencies]\nthree = \"1\"\n[dependencies.four]\nversion = \"1\"\n[target.'cfg(unix)'.dependencies]\nfive = \"1\"\n\
            [dev-dependencies.six]\nversion = \"1\"\n[build-dependencies]\nseven = \"1\"\n";
        let names: Vec<&str> = dependencies(manifest).into_iter().map(|(_, name)| name).collect();
        assert_eq!(names, ["one", "two", "four", "five", "seven"]);
    }

    #[test]
    fn wrong_directions_are_found() {
        let store = "[dependencies]\nmcpproxy-core.workspace = true\nmcpproxy-gateway.workspace = true\nrmcp = \"3\"\n";
        assert_eq!(
            found("crates/mcpproxy-store/Cargo.toml", store),
            [
                "crates/mcpproxy-store/Cargo.toml:3: `mcpproxy-store` must not depend on `mcpproxy-gateway`, which is not below it",
                "crates/mcpproxy-store/Cargo.toml:4: `mcpproxy-store` must not depend on `rmcp`, which belongs to another layer",
            ]
        );
        assert_eq!(
            found("crates/mcpproxy-core/Cargo.toml", "[dependencies]\nserde_json = \"1\"\ntokio = \"1\"\n"),
            ["crates/mcpproxy-core/Cargo.toml:3: `tokio` is not in the list of libraries that core may use"]
        );
        assert_eq!(
            found("crates/new/Cargo.toml", ""),
            ["crates/new/Cargo.toml:1: `new` has no entry in CRATES of xtask/src/checks/direction.rs"]
        );
    }
}
