//! Lint: finds mistakes that no parser sees, by comparing contracts with the tools they are for.

mod against_server;
mod arguments;
mod codes;
mod level;
mod offers;
mod tool;

use std::sync::Arc;

use crate::catalog::{Catalog, Offered};
use crate::contract::{Contract, Contracts, Effective, ToolPattern, draft_line};
use crate::nearest;

use offers::Offers;

pub use codes::{CODES, Code, Severity};

/// Maximum number of unmatched patterns that are compared with all tool names, because that is slow with many tools.
const COMPARED_MAX: usize = 20;

/// One finding, with advice.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// A stable code of [`CODES`].
    pub code: &'static str,
    pub severity: Severity,
    /// The tool, pattern, server or file that the finding concerns.
    pub subject: String,
    /// File and line, if the operator wrote the value.
    pub place: Option<(Arc<str>, usize)>,
    pub message: String,
    pub fix: String,
}

/// Checks the operator's contracts, and those of the servers in the catalog. The contracts inside the catalog are
/// ignored. The catalog must have only servers that have listed their tools. Tools that wait for a review count as the
/// server's tools, but nothing else is said about them.
pub fn lint(contracts: &Contracts, catalog: &Catalog) -> Vec<Finding> {
    let offered: Vec<&Offered> = catalog.tools().chain(catalog.forbidden()).map(|tool| tool.offered.as_ref()).collect();
    let listed: Vec<&Offered> = catalog.listed().map(AsRef::as_ref).collect();
    let offers = Offers::new(&listed);
    let mut findings = Findings::default();
    for (pattern, contract) in contracts.iter() {
        let tools = offers.matching(pattern);
        if tools.is_empty() {
            let line = first_line(contract).unwrap_or_else(|| contracts.line(pattern));
            let place = contract.file.clone().map(|file| (file, line));
            findings.matches_nothing(pattern, place, catalog, &offers);
        }
        arguments::check(&mut findings, &pattern.to_string(), contract, &tools);
    }
    for offered in &offered {
        let operator = contracts.matching(&offered.name);
        let effective = Effective::of(&operator, offered.contract.as_ref(), offered.hints);
        let nearest = contracts.with_patterns(&offered.name).next();
        let looked_at = Looked {
            offered,
            operator: &operator,
            effective: &effective,
            exact: nearest.filter(|(pattern, _)| pattern.is_exact).map(|(_, contract)| contract.as_ref()),
            place: nearest.and_then(|(pattern, contract)| {
                let line = first_line(contract).unwrap_or_else(|| contracts.line(pattern));
                Some((contract.file.clone()?, line))
            }),
        };
        against_server::check(&mut findings, &looked_at);
        tool::check(&mut findings, &looked_at);
        if let Some(own) = &offered.contract {
            arguments::check(&mut findings, &offered.name.to_string(), own, &[offered]);
        }
    }
    findings.unclassified(contracts, &offered);
    findings.sorted()
}

/// Finds contracts that match no tool of a connected server: the findings C002 of [`lint`], without the other checks.
///
/// A gateway looks for them each time a server connects. The catalog must have only servers that have listed their
/// tools.
pub fn unmatched(contracts: &Contracts, catalog: &Catalog) -> Vec<Finding> {
    let listed: Vec<&Offered> = catalog.listed().map(AsRef::as_ref).collect();
    let offers = Offers::new(&listed);
    let mut findings = Findings::default();
    let unmatched = contracts.iter().filter(|(pattern, _)| catalog.has_server(&pattern.server));
    for (pattern, contract) in unmatched.filter(|(pattern, _)| offers.matching(pattern).is_empty()) {
        let line = first_line(contract).unwrap_or_else(|| contracts.line(pattern));
        findings.matches_nothing(pattern, contract.file.clone().map(|file| (file, line)), catalog, &offers);
    }
    findings.sorted()
}

/// Finds contract files that are still marked as drafts. `files` are names and texts.
pub fn lint_files(files: &[(String, String)]) -> Vec<Finding> {
    let mut findings = Findings::default();
    for (name, text) in files {
        let Some(at) = draft_line(text) else { continue };
        let place = Some((Arc::from(name.as_str()), at + 1));
        let message = "the file is still marked as a draft";
        let fix = "review and correct its contracts, then remove the line";
        findings.add("C019", name, place, message.to_owned(), fix);
    }
    findings.sorted()
}

/// One tool and all its contracts.
struct Looked<'a> {
    offered: &'a Offered,
    operator: &'a [&'a Arc<Contract>],
    effective: &'a Effective,
    /// The operator's contract for this tool alone. Its author has looked at the tool.
    exact: Option<&'a Contract>,
    /// The start of the most specific of the operator's contracts.
    place: Place,
}

#[derive(Default)]
struct Findings {
    all: Vec<Finding>,
    /// The number of patterns compared with the names of all tools.
    compared: usize,
}

/// File and line of something that the operator wrote.
type Place = Option<(Arc<str>, usize)>;

impl Findings {
    fn add(&mut self, code: &'static str, subject: &str, place: Place, message: String, fix: impl Into<String>) {
        // Every code is in the list. A test checks that.
        let severity = CODES.iter().find(|known| known.code == code).map_or(Severity::Warning, |known| known.severity);
        self.all.push(Finding { code, severity, subject: subject.to_owned(), place, message, fix: fix.into() });
    }

    fn matches_nothing(&mut self, pattern: &ToolPattern, place: Place, catalog: &Catalog, offers: &Offers<'_>) {
        let server = &pattern.server;
        if !catalog.has_server(server) {
            let message = format!("no server `{server}` is connected");
            let fix = "correct the name before the colon, or connect the server";
            self.add("C001", &pattern.to_string(), place, message, fix);
            return;
        }
        self.compared += 1;
        let names = (self.compared <= COMPARED_MAX).then(|| offers.names(server)).into_iter().flatten();
        let fix = match nearest(&pattern.prefix, names) {
            Some(near) => format!("did you mean `{server}:{near}`?"),
            None => format!("run `mcpproxy tools list --server {server}` to see its tools"),
        };
        self.add("C002", &pattern.to_string(), place, format!("server `{server}` has no such tool"), fix);
    }

    /// Reports one line per server. `contract coverage` lists all tools without contracts.
    fn unclassified(&mut self, contracts: &Contracts, all: &[&Offered]) {
        let mut counted: std::collections::BTreeMap<&str, (usize, usize)> = std::collections::BTreeMap::new();
        for offered in all {
            let is_classified = offered.contract.as_ref().is_some_and(|own| own.risk.is_some())
                || contracts.matching(&offered.name).iter().any(|contract| contract.risk.is_some());
            let (none, tools) = counted.entry(offered.name.server().as_str()).or_default();
            *tools += 1;
            *none += usize::from(!is_classified);
        }
        for (server, (none, tools)) in counted.into_iter().filter(|(_, (none, _))| *none > 0) {
            let message = format!("{none} of {tools} tools have no risk level");
            self.add("C004", server, None, message, format!("run `mcpproxy contract draft {server}` for a first file"));
        }
    }

    fn sorted(mut self) -> Vec<Finding> {
        self.all.sort_by(|a, b| {
            (&a.subject, a.code, &a.place, &a.message).cmp(&(&b.subject, b.code, &b.place, &b.message))
        });
        self.all.dedup();
        self.all
    }
}

/// Returns the first line of a contract's fields, if it has any.
fn first_line(contract: &Contract) -> Option<usize> {
    contract.positions().into_iter().map(|(_, position)| position.line).min()
}

#[cfg(test)]
mod tests;
