//! Checks that lock files name no private mirror, only the public registries.

use crate::source::lines_with;
use crate::tree::{Problem, Tree};

/// The source that Cargo writes, whatever mirror it used.
const CARGO_SOURCE: &str = concat!("source = \"registry+https://github.com/rust-lang/crates", ".io-index\"");

/// Hosts of package registries, and options that point to one. Split in two, so that this file does not contain them.
const HOSTS: [&str; 9] = [
    concat!("crates", ".io"),
    concat!("npmjs", ".org"),
    concat!("npmjs", ".com"),
    concat!("pypi", ".org"),
    concat!("python", "hosted.org"),
    concat!("docker", ".io"),
    concat!("ghcr", ".io"),
    concat!("--index", "-url"),
    concat!("--regi", "stry"),
];

pub(super) fn check(tree: &Tree) -> Vec<Problem> {
    let mut problems = Vec::new();
    for file in &tree.files {
        if file.path.ends_with("Cargo.lock") {
            let sources = (1..).zip(file.text.lines()).filter(|(_, line)| line.starts_with("source = "));
            let strange = sources.filter(|(_, line)| *line != CARGO_SOURCE);
            problems.extend(strange.map(|(line, _)| Problem::new(file, line, "the source is not the public index")));
            continue;
        }
        if file.path.ends_with("package-lock.json") {
            let lines = lines_with(&file.text, "\"resolved\": \"http");
            problems.extend(
                lines
                    .into_iter()
                    .map(|line| Problem::new(file, line, "an address; lock with `omit-lockfile-registry-resolved`")),
            );
        }
        for host in HOSTS {
            let lines = lines_with(&file.text, host);
            problems.extend(
                lines.into_iter().map(|line| Problem::new(file, line, format!("`{host}` is not allowed here"))),
            );
        }
    }
    problems
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mirrors_are_found() {
        let lock =
            format!("[[package]]\n{CARGO_SOURCE}\n[[package]]\nsource = \"registry+https://mirror.example/index\"\n");
        let node = "{\n\"resolved\": \"https://mirror.example/a.tgz\"\n}\n";
        let python = format!("mcp==2.0\n{} https://mirror.example\n", HOSTS[7]);
        let tree = Tree::of(&[("Cargo.lock", &lock), ("a/package-lock.json", node), ("requirements.txt", &python)]);
        let found: Vec<String> = check(&tree).iter().map(Problem::to_string).collect();
        assert_eq!(
            found,
            [
                "Cargo.lock:4: the source is not the public index".to_owned(),
                "a/package-lock.json:2: an address; lock with `omit-lockfile-registry-resolved`".to_owned(),
                format!("requirements.txt:2: `{}` is not allowed here", HOSTS[7]),
            ]
        );
    }
}
