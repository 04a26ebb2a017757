//! Names for the servers of other clients: `GitHub` and `My Files` become `github` and `my-files`.

use std::collections::{HashMap, HashSet};

use crate::file::shown;
use crate::settings::suggest;
use crate::{SERVER_NAME_MAX_CHARS, ServerName};

/// The base of a name without any letter or digit that a server's name may have, such as `日本`.
const NAMELESS: &str = "server";
/// Other servers that a clash names. More would not fit into a line.
const OTHERS_SHOWN: usize = 3;

/// The name of a server here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct AssignedName {
    pub(super) name: ServerName,
    /// Why the server must not run.
    pub(super) clash: Option<String>,
}

/// Gives each server its own name. Returns `None` for a name of spaces alone.
///
/// Contracts, permissions and approvals refer to servers by name. So pasting a server must never give the name of a
/// running server to another one, wherever in the file it is pasted. A server wants the name that it is written with, or
/// its slug if that name is not valid: `GitHub` wants `github`.
///
/// - A server runs if no other server wants its name.
/// - If several servers want a name, none of them runs. Otherwise, pasting `github` into a file with `GitHub` would give
///   the contracts of the old server to the new one.
///
/// Servers that do not run get different names too, so that commands can find them. The one that is written exactly as
/// the name keeps it, and the others get a number.
///
/// Nothing depends on the order of the file, except the numbers of servers that are written alike in two sections.
pub(super) fn assign(written: &[&str]) -> Vec<Option<AssignedName>> {
    let wanted: Vec<Option<Wanted>> = written.iter().map(|name| Wanted::of(name)).collect();
    let mut claims: HashMap<&ServerName, Claims<'_>> = HashMap::new();
    for (wanted, written) in wanted.iter().zip(written) {
        if let Some(wanted) = wanted {
            let claims = claims.entry(&wanted.name).or_default();
            claims.written.push(written);
            claims.exact += usize::from(wanted.is_exact);
        }
    }
    let mut taken = HashSet::new();
    let mut names = Vec::with_capacity(written.len());
    for (wanted, written) in wanted.iter().zip(written) {
        let holder = wanted.as_ref().and_then(|wanted| {
            let claims = claims.get(&wanted.name).filter(|claims| claims.keeps_name(wanted))?;
            Some(AssignedName { name: wanted.name.clone(), clash: claims.clash(&wanted.name, written) })
        });
        taken.extend(holder.as_ref().map(|holder| holder.name.clone()));
        names.push(holder);
    }
    let mut nameless: Vec<_> =
        names.iter_mut().zip(wanted.iter().zip(written)).filter(|(name, _)| name.is_none()).collect();
    nameless.sort_by_key(|(_, (_, written))| **written);
    let mut free = FreeNames { taken, next: HashMap::new() };
    for (name, (wanted, written)) in nameless {
        let Some(wanted) = wanted else { continue };
        let clash = claims.get(&wanted.name).and_then(|claims| claims.clash(&wanted.name, written));
        *name = Some(AssignedName { name: free.take(&wanted.name), clash });
    }
    names
}

/// The name that a server would like to have.
struct Wanted {
    name: ServerName,
    /// True if it is written exactly so.
    is_exact: bool,
}

impl Wanted {
    fn of(written: &str) -> Option<Self> {
        match ServerName::parse(written) {
            Ok(name) => Some(Self { name, is_exact: true }),
            Err(_) => slug(written).map(|name| Self { name, is_exact: false }),
        }
    }
}

/// The servers that want one name.
#[derive(Default)]
struct Claims<'w> {
    written: Vec<&'w str>,
    exact: usize,
}

impl Claims<'_> {
    /// Returns true if this server gets the name without a number.
    fn keeps_name(&self, wanted: &Wanted) -> bool {
        self.written.len() == 1 || (wanted.is_exact && self.exact == 1)
    }

    /// Returns why the servers must not run, or `None` if only one server wants the name.
    fn clash(&self, name: &ServerName, written: &str) -> Option<String> {
        if self.written.len() < 2 {
            return None;
        }
        if self.written.iter().filter(|other| **other == written).count() > 1 {
            return Some(format!("two sections have a server `{}`; keep one of them, or rename one", shown(written)));
        }
        let mut others: Vec<&str> = self.written.iter().copied().filter(|other| *other != written).collect();
        others.sort_unstable();
        others.dedup();
        let more = if others.len() > OTHERS_SHOWN { " and more" } else { "" };
        let all = std::iter::once(written).chain(others.into_iter().take(OTHERS_SHOWN));
        let all: Vec<String> = all.map(|one| format!("`{}`", shown(one))).collect();
        Some(format!(
            "several servers would be called `{name}` here, so none of them runs: {}{more}. Give each server a \
             different name.",
            all.join(", ")
        ))
    }
}

/// Numbers names. Remembers the last number of each, because a thousand servers may want the same one.
struct FreeNames {
    taken: HashSet<ServerName>,
    next: HashMap<ServerName, usize>,
}

impl FreeNames {
    fn take(&mut self, wanted: &ServerName) -> ServerName {
        let next = self.next.entry(wanted.clone()).or_insert(1);
        let candidate = |number: usize| if number == 1 { Some(wanted.clone()) } else { numbered(wanted, number) };
        let found =
            (*next..).find_map(|number| Some((number, candidate(number).filter(|name| !self.taken.contains(name))?)));
        let (number, name) = found.unwrap_or_else(|| (*next, wanted.clone()));
        *next = number + 1;
        self.taken.insert(name.clone());
        name
    }
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
    (2..).filter_map(|number| numbered(wanted, number)).find(|name| !is_taken(name)).unwrap_or_else(|| wanted.clone())
}

/// Returns `wanted-2` for 2, cut so that it stays a name.
fn numbered(wanted: &ServerName, number: usize) -> Option<ServerName> {
    let suffix = format!("-{number}");
    let base: String = wanted.as_str().chars().take(SERVER_NAME_MAX_CHARS - suffix.len()).collect();
    ServerName::parse(&format!("{}{suffix}", base.trim_end_matches(['-', '_']))).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(written: &[&str]) -> Vec<Option<String>> {
        assign(written).iter().map(|assigned| assigned.as_ref().map(|assigned| assigned.name.to_string())).collect()
    }

    fn clashes(written: &[&str]) -> Vec<bool> {
        assign(written).iter().flatten().map(|assigned| assigned.clash.is_some()).collect()
    }

    #[test]
    fn every_server_has_its_own_name() {
        let check = |written: &[&str], expected: &[Option<&str>]| {
            assert_eq!(names(written), expected.iter().map(|name| name.map(str::to_owned)).collect::<Vec<_>>());
        };
        check(&["GitHub", "My Files"], &[Some("github"), Some("my-files")]);
        check(&["GitHub", "github", "GITHUB"], &[Some("github-3"), Some("github"), Some("github-2")]);
        check(&["a b", "a-b", "a-b-2", "a/b"], &[Some("a-b-3"), Some("a-b"), Some("a-b-2"), Some("a-b-4")]);
        check(&["A-B-2", "a b", "a/b"], &[Some("a-b-2"), Some("a-b"), Some("a-b-3")]);
        check(&["日本", "東京"], &[Some("server"), Some("server-2")]);
        check(&["github", "github"], &[Some("github"), Some("github-2")]);
        check(&["", " "], &[None, None]);
        check(&["io.github.owner/server"], &[Some("io-github-owner-server")]);
    }

    #[test]
    fn only_a_server_with_its_own_name_runs() {
        let check = |written: &[&str], expected: &[bool]| assert_eq!(clashes(written), expected, "{written:?}");
        check(&["GitHub", "My Files"], &[false, false]);
        check(&["GitHub", "github"], &[true, true]);
        check(&["github", "GitHub", "GITHUB"], &[true, true, true]);
        check(&["GITHUB", "GitHub"], &[true, true]);
        check(&["github", "github"], &[true, true]);
        check(&["github", "github", "GitHub"], &[true, true, true]);
        check(&["A-B-2", "a b", "a/b"], &[false, true, true]);
    }

    /// `GitHub` alone runs as `github`. Its contracts must not apply to a server that is pasted next to it.
    #[test]
    fn a_paste_never_takes_a_name() {
        let running = |written: &[&str]| -> Vec<(String, String)> {
            let all = written.iter().zip(assign(written)).filter_map(|(written, one)| Some((written, one?)));
            let running = all.filter(|(_, one)| one.clash.is_none());
            running.map(|(written, one)| ((*written).to_owned(), one.name.to_string())).collect()
        };
        let pair = |written: &str, name: &str| (written.to_owned(), name.to_owned());
        assert_eq!(running(&["GitHub"]), [pair("GitHub", "github")]);
        assert_eq!(running(&["GitHub", "github"]), []);
        assert_eq!(running(&["github", "GITHUB"]), []);
        assert_eq!(running(&["GitHub", "git hub"]), [pair("GitHub", "github"), pair("git hub", "git-hub")]);
    }

    #[test]
    fn names_do_not_depend_on_the_order_of_the_file() {
        let mut written = vec!["GitHub", "GITHUB", "github", "a b", "a/b", "A-B-2", "日本", "x"];
        let find = |written: &[&str]| {
            let mut all: Vec<_> = written.iter().map(|name| (*name).to_owned()).zip(assign(written)).collect();
            all.sort_by(|(a, _), (b, _)| a.cmp(b));
            all
        };
        let expected = find(&written);
        for _ in 0..written.len() {
            written.rotate_left(1);
            assert_eq!(find(&written), expected);
            written.reverse();
            assert_eq!(find(&written), expected);
        }
    }

    #[test]
    fn a_clash_says_why() {
        let reason = |written: &[&str]| assign(written)[0].clone().unwrap().clash.unwrap();
        assert_eq!(
            reason(&["GitHub", "github"]),
            "several servers would be called `github` here, so none of them runs: `GitHub`, `github`. Give each server a \
             different name."
        );
        assert_eq!(reason(&["x", "x"]), "two sections have a server `x`; keep one of them, or rename one");
        let many = reason(&["a b", "a/b", "a.b", "a+b", "a=b"]);
        assert!(many.contains("`a+b`, `a.b`, `a/b` and more. Give"), "{many}");
    }

    #[test]
    fn long_names_keep_their_number() {
        let long = "A".repeat(100);
        let found = names(&[&long, &long, &format!("{}-", "a".repeat(62))]);
        let expected = ["a".repeat(63), format!("{}-2", "a".repeat(61)), format!("{}-", "a".repeat(62))];
        assert_eq!(found, expected.map(Some));
    }
}
