//! All contracts of the operator, and the lookup of those for one tool.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use super::{Contract, Effective, ToolPattern, files};
use crate::{Digest, Hints, Mistake, ServerName, ToolName};

/// Every contract from every file.
#[derive(Clone, Debug, Default)]
pub struct Contracts {
    /// In the order of files and lines. No two have the same pattern.
    written: Vec<(ToolPattern, Arc<Contract>)>,
    by_server: HashMap<ServerName, OfServer>,
    /// The line of each pattern in its file.
    lines: HashMap<ToolPattern, usize>,
}

/// The contracts for one server's tools, as indexes into `written`. With thousands of tools and contracts, trying every
/// contract for each tool would be slow.
#[derive(Clone, Debug, Default)]
struct OfServer {
    exact: HashMap<String, usize>,
    /// The longest prefix first.
    prefixes: Vec<usize>,
}

impl PartialEq for Contracts {
    fn eq(&self, other: &Self) -> bool {
        self.written == other.written
    }
}

impl Contracts {
    /// Reads all files, given as names and texts. A name that ends in `.json` is JSON, any other YAML. Each mistake
    /// comes with the name of its file.
    pub fn parse(files: &[(String, String)]) -> Result<Self, Vec<(String, Mistake)>> {
        files::parse(files)
    }

    /// Indexes contracts. If two have the same pattern, the first one applies. Files cannot have two.
    pub(super) fn new(contracts: impl IntoIterator<Item = (ToolPattern, Arc<Contract>)>) -> Self {
        let mut all = Self::default();
        for (pattern, contract) in contracts {
            let number = all.written.len();
            let of_server = all.by_server.entry(pattern.server.clone()).or_default();
            if pattern.is_exact {
                if of_server.exact.contains_key(&pattern.prefix) {
                    continue;
                }
                of_server.exact.insert(pattern.prefix.clone(), number);
            } else {
                let length = |at: usize| all.written.get(at).map_or(0, |(other, _)| other.prefix.len());
                let is_known = |at: &usize| all.written.get(*at).is_some_and(|(other, _)| *other == pattern);
                if of_server.prefixes.iter().any(is_known) {
                    continue;
                }
                let at = of_server.prefixes.partition_point(|other| length(*other) >= pattern.prefix.len());
                of_server.prefixes.insert(at, number);
            }
            all.written.push((pattern, contract));
        }
        all
    }

    /// Returns the contracts for a tool, the most specific first. Two patterns that match one tool are always nested,
    /// so the order is unambiguous.
    pub fn matching(&self, name: &ToolName) -> Vec<&Arc<Contract>> {
        self.with_patterns(name).map(|(_, contract)| contract).collect()
    }

    /// As `matching`, with the pattern of each contract.
    pub(crate) fn with_patterns(&self, name: &ToolName) -> impl Iterator<Item = (&ToolPattern, &Arc<Contract>)> {
        let of_server = self.by_server.get(name.server());
        let exact = of_server.and_then(|of_server| of_server.exact.get(name.tool()));
        let prefixes = of_server.into_iter().flat_map(|of_server| &of_server.prefixes);
        let written = exact.into_iter().chain(prefixes).filter_map(|number| self.written.get(*number));
        written.filter(|(pattern, _)| pattern.matches(name)).map(|(pattern, contract)| (pattern, contract))
    }

    pub(super) fn with_lines(self, lines: HashMap<ToolPattern, usize>) -> Self {
        Self { lines, ..self }
    }

    /// Returns the line of a pattern in its file, or 0 if it has no file.
    pub(crate) fn line(&self, pattern: &ToolPattern) -> usize {
        self.lines.get(pattern).copied().unwrap_or_default()
    }

    /// Returns contracts that are mixed from two sets. `mix` decides for each pattern, with what `old` and `new` have for
    /// it. The order is that of `new`, with patterns that only `old` has at the end.
    pub(crate) fn mixed(
        old: &Self,
        new: &Self,
        mix: impl Fn(&ToolPattern, Option<&Arc<Contract>>, Option<&Arc<Contract>>) -> Option<Arc<Contract>>,
    ) -> Self {
        let by_pattern: HashMap<&ToolPattern, &Arc<Contract>> = old.iter().collect();
        let known: HashSet<&ToolPattern> = new.iter().map(|(pattern, _)| pattern).collect();
        let both = new.iter().map(|(pattern, new)| (pattern, by_pattern.get(pattern).copied(), Some(new)));
        let gone = old.iter().filter(|(pattern, _)| !known.contains(pattern));
        let all = both.chain(gone.map(|(pattern, old)| (pattern, Some(old), None)));
        let all = all.filter_map(|(pattern, old, new)| Some((pattern.clone(), mix(pattern, old, new)?)));
        let lines = old.lines.iter().chain(&new.lines).map(|(pattern, line)| (pattern.clone(), *line)).collect();
        Self::new(all).with_lines(lines)
    }

    pub fn iter(&self) -> impl Iterator<Item = (&ToolPattern, &Arc<Contract>)> {
        self.written.iter().map(|(pattern, contract)| (pattern, contract))
    }

    pub fn is_empty(&self) -> bool {
        self.written.is_empty()
    }

    /// Hash of every contract, without source locations. The order of files and contracts does not matter.
    pub fn digest(&self) -> Digest {
        let line = |(pattern, contract): (&ToolPattern, &Arc<Contract>)| {
            format!("{pattern} {}\n", Effective::of(&[contract], None, Hints::default()).digest())
        };
        let mut lines: Vec<String> = self.iter().map(line).collect();
        lines.sort_unstable();
        Digest::of(lines.concat().as_bytes())
    }
}

impl FromIterator<(ToolPattern, Contract)> for Contracts {
    fn from_iter<I: IntoIterator<Item = (ToolPattern, Contract)>>(contracts: I) -> Self {
        Self::new(contracts.into_iter().map(|(pattern, contract)| (pattern, Arc::new(contract))))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Untrusted;
    use crate::contract::Written;

    #[test]
    fn the_most_specific_comes_first() {
        let patterns = ["fx:*", "fx:mail.*", "fx:mail.send", "fx:ma*", "other:mail.send", "fx:mail.send*", "fx:mail.*"];
        let contracts: Contracts = patterns
            .iter()
            .map(|text| {
                let description = Written { value: Untrusted::new(*text), line: 1, column: 1 };
                (ToolPattern::parse(text).unwrap(), Contract { description: Some(description), ..Contract::default() })
            })
            .collect();
        assert_eq!(contracts.iter().count(), 6, "the second of two with one pattern does not count");
        let check = |name: &str, expected: &[&str]| {
            let found = contracts.matching(&ToolName::parse(name).unwrap());
            let found: Vec<&str> = found.iter().map(|one| one.description.as_ref().unwrap().value.for_json()).collect();
            assert_eq!(found, expected, "{name}");
        };
        check("fx:mail.send", &["fx:mail.send", "fx:mail.send*", "fx:mail.*", "fx:ma*", "fx:*"]);
        check("fx:mail.sender", &["fx:mail.send*", "fx:mail.*", "fx:ma*", "fx:*"]);
        check("fx:map", &["fx:ma*", "fx:*"]);
        check("other:mail.send", &["other:mail.send"]);
        check("other:mail", &[]);
        check("third:x", &[]);
    }
}
