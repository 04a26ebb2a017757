//! Names for the servers of other clients: `GitHub` and `My Files` become `github` and `my-files`.

use std::collections::HashSet;

use crate::settings::suggest;
use crate::{SERVER_NAME_MAX_CHARS, ServerName};

/// The base of a name without any letter or digit that a server's name may have, such as `日本`.
const NAMELESS: &str = "server";

/// Gives each server its own name, in the order of the file. Returns `None` for a name of spaces alone.
///
/// A name that is valid already stays as it is, wherever it stands: pasting `GitHub` before `github` must not rename
/// the server that contracts refer to. The others get the next free number.
pub(super) fn assign(written: &[&str]) -> Vec<Option<ServerName>> {
    let mut taken = HashSet::new();
    let mut names: Vec<Option<ServerName>> =
        written.iter().map(|name| ServerName::parse(name).ok().filter(|name| taken.insert(name.clone()))).collect();
    for (name, written) in names.iter_mut().zip(written) {
        if name.is_none()
            && let Some(wanted) = slug(written)
        {
            let free = free_name(&wanted, |name| taken.contains(name));
            taken.insert(free.clone());
            *name = Some(free);
        }
    }
    names
}

/// Returns the name that a server would like to have.
pub(super) fn slug(written: &str) -> Option<ServerName> {
    if written.trim().is_empty() {
        return None;
    }
    suggest::server_name(written).or_else(|| ServerName::parse(NAMELESS).ok())
}

/// Returns `wanted`, or `wanted-2`, `wanted-3` and so on if it is taken.
pub fn free_name(wanted: &ServerName, is_taken: impl Fn(&ServerName) -> bool) -> ServerName {
    if !is_taken(wanted) {
        return wanted.clone();
    }
    let numbered = |number: usize| {
        let suffix = format!("-{number}");
        let base: String = wanted.as_str().chars().take(SERVER_NAME_MAX_CHARS - suffix.len()).collect();
        ServerName::parse(&format!("{}{suffix}", base.trim_end_matches(['-', '_']))).ok()
    };
    (2..).filter_map(numbered).find(|name| !is_taken(name)).unwrap_or_else(|| wanted.clone())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_server_has_its_own_name() {
        let check = |written: &[&str], expected: &[Option<&str>]| {
            let names = assign(written);
            assert_eq!(names.iter().map(|name| name.as_ref().map(ServerName::as_str)).collect::<Vec<_>>(), expected);
        };
        check(&["GitHub", "My Files"], &[Some("github"), Some("my-files")]);
        check(&["GitHub", "github", "GITHUB"], &[Some("github-2"), Some("github"), Some("github-3")]);
        check(&["a b", "a-b", "a-b-2", "a/b"], &[Some("a-b-3"), Some("a-b"), Some("a-b-2"), Some("a-b-4")]);
        check(&["日本", "東京"], &[Some("server"), Some("server-2")]);
        check(&["github", "github"], &[Some("github"), Some("github-2")]);
        check(&["", " "], &[None, None]);
        check(&["io.github.owner/server"], &[Some("io-github-owner-server")]);
    }

    #[test]
    fn long_names_keep_their_number() {
        let long = "A".repeat(100);
        let names = assign(&[&long, &long, &format!("{}-", "a".repeat(62))]);
        let names: Vec<&str> = names.iter().flatten().map(ServerName::as_str).collect();
        assert_eq!(names, ["a".repeat(63), format!("{}-2", "a".repeat(61)), format!("{}-", "a".repeat(62))]);
    }
}
