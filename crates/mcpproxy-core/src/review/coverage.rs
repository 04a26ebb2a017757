//! Coverage: the tools that have a risk level, who set it, and the tools that still need one.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::catalog::Tool;
use crate::contract::Source;
use crate::{Catalog, RiskLevel, ServerName, ToolName, Variant};

/// The coverage of a catalog, including its forbidden tools. This is for operators only.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Coverage {
    /// Sorted by name.
    pub tools: Vec<Covered>,
    pub totals: Vec<Total>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Covered {
    pub name: ToolName,
    pub risk: Option<RiskLevel>,
    pub operation: Option<Variant>,
    pub classified_by: Classifier,
}

/// The author of a tool's risk level.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Classifier {
    Operator { file: Arc<str>, line: usize },
    Server,
    Nobody,
}

/// The tools of one server, counted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Total {
    pub server: ServerName,
    pub tools: usize,
    pub by_operator: usize,
    pub by_server: usize,
    pub by_nobody: usize,
}

impl Covered {
    /// Returns true if the tool has no risk level.
    pub fn needs_draft(&self) -> bool {
        self.classified_by == Classifier::Nobody
    }
}

impl Classifier {
    /// Formats the author for a table: `contracts/mail.yaml:12`, `server` or `nobody`.
    pub fn words(&self) -> String {
        match self {
            Self::Operator { file, line } => format!("{}:{line}", crate::Untrusted::new(file.as_ref()).for_terminal()),
            Self::Server => "server".to_owned(),
            Self::Nobody => "nobody".to_owned(),
        }
    }
}

pub fn coverage(catalog: &Catalog) -> Coverage {
    let mut tools: Vec<Covered> = catalog.tools().chain(catalog.forbidden()).map(|tool| covered(tool)).collect();
    tools.sort_by(|a, b| a.name.cmp(&b.name));
    let mut totals: BTreeMap<&ServerName, Total> = BTreeMap::new();
    for tool in &tools {
        let server = tool.name.server();
        let none = || Total { server: server.clone(), tools: 0, by_operator: 0, by_server: 0, by_nobody: 0 };
        let total = totals.entry(server).or_insert_with(none);
        total.tools += 1;
        match tool.classified_by {
            Classifier::Operator { .. } => total.by_operator += 1,
            Classifier::Server => total.by_server += 1,
            Classifier::Nobody => total.by_nobody += 1,
        }
    }
    let totals = totals.into_values().collect();
    Coverage { tools, totals }
}

fn covered(tool: &Tool) -> Covered {
    let risk = tool.contract.risk.as_ref();
    let classified_by = match risk.map(|risk| &risk.source) {
        Some(Source::Operator { file, line }) => Classifier::Operator { file: Arc::clone(file), line: *line },
        Some(Source::Server) => Classifier::Server,
        // A risk level is never a default, so these sources do not occur with one.
        Some(Source::Hints | Source::Level | Source::Default) | None => Classifier::Nobody,
    };
    let operation = tool.contract.operation.as_ref().map(|operation| operation.value);
    Covered { name: tool.name.clone(), risk: tool.contract.risk(), operation, classified_by }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalog::{Offer, Offered};
    use crate::contract::{Contract, Contracts, ToolPattern, Written};

    #[test]
    fn counts_by_server_and_by_who() {
        let server = ServerName::parse("fx").unwrap();
        let risk = |value| Some(Written { value, line: 4, column: 1 });
        let offered = |name: &str, contract| {
            let json = format!(r#"{{"name":"{name}","inputSchema":{{}},"annotations":{{"readOnlyHint":true}}}}"#);
            Offered::parse(&server, &json).map(|offered| Offered { contract, ..offered })
        };
        let own = Contract { risk: risk(RiskLevel::Low), ..Contract::default() };
        let tools = [offered("plain", None), offered("own", Some(own)), offered("taken", None)];
        let pattern = ToolPattern { server: server.clone(), prefix: "taken".to_owned(), is_exact: true };
        let file = Some("contracts/a.yaml".into());
        let contract = Contract { file, risk: risk(RiskLevel::Forbidden), ..Contract::default() };
        let contracts: Contracts = [(pattern, contract)].into_iter().collect();
        let offers = [(server, Arc::new(Offer::new(tools).0))];
        let catalog = Catalog::default().next(offers, &Arc::new(contracts), &Arc::default());
        let found = coverage(&catalog);
        let rows: Vec<String> = found
            .tools
            .iter()
            .map(|tool| {
                let risk = tool.risk.map_or("-", RiskLevel::as_str);
                format!("{} {risk} {} {}", tool.name, tool.classified_by.words(), tool.needs_draft())
            })
            .collect();
        assert_eq!(
            rows,
            ["fx:own low server false", "fx:plain - nobody true", "fx:taken forbidden contracts/a.yaml:4 false"]
        );
        let server = ServerName::parse("fx").unwrap();
        assert_eq!(found.totals, [Total { server, tools: 3, by_operator: 1, by_server: 1, by_nobody: 1 }]);
    }
}
