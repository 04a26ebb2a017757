//! Coverage: the tools that have a risk level, who set it, and how many fields of the contract standard each tool has.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::catalog::Offered;
use crate::catalog::Tool;
use crate::contract::{Effective, Source};
use crate::{Catalog, RiskLevel, ServerName, ToolName, Variant};

/// The number of fields in the contract standard.
pub const STANDARD_FIELDS: usize = 13;

/// The fields of the standard that a contract can have. The thirteenth is the name, which every tool has.
const FIELDS: [&str; STANDARD_FIELDS - 1] = [
    "description",
    "category",
    "riskLevel",
    "autonomousExecution",
    "confirmation",
    "stepUpAuth",
    "inputSchema",
    "outputSchema",
    "permissions",
    "sideEffects",
    "auditEvent",
    "failureModes",
];
/// The fields that mean something for a tool that is never called.
const OF_FORBIDDEN: [&str; 3] = ["description", "category", "riskLevel"];

/// Returns the fields of the standard that nobody has set: not the operator, not the server, and not the risk level.
pub fn missing_fields(offered: &Offered, effective: &Effective) -> Vec<&'static str> {
    let written = effective.fields();
    let of_server = |name: &str| match name {
        "description" => !offered.description.for_json().trim().is_empty(),
        "inputSchema" | "outputSchema" => offered.field(name).is_some_and(|schema| schema != "null"),
        _ => false,
    };
    let counts = |name: &&str| effective.risk() != Some(RiskLevel::Forbidden) || OF_FORBIDDEN.contains(name);
    let has = |name: &str| of_server(name) || written.iter().any(|(field, _, _)| *field == name);
    FIELDS.into_iter().filter(counts).filter(|name| !has(name)).collect()
}

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
    /// The fields of the standard that nobody has set.
    pub missing: Vec<&'static str>,
}

/// The author of a tool's risk level.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Classifier {
    Operator { file: Arc<str>, line: usize, is_draft: bool },
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
    /// The fields of the standard that its tools have, and could have.
    pub fields: usize,
    pub fields_max: usize,
}

impl Coverage {
    /// Returns the share of fields that are set, in percent and rounded down. Without tools, there is no share.
    pub fn percent(&self) -> Option<usize> {
        let fields: usize = self.totals.iter().map(|total| total.fields).sum();
        let fields_max: usize = self.totals.iter().map(|total| total.fields_max).sum();
        (fields * 100).checked_div(fields_max)
    }
}

impl Covered {
    /// Returns the number of fields of the standard that the tool has.
    pub fn fields(&self) -> usize {
        STANDARD_FIELDS - self.missing.len()
    }

    /// Returns true if the tool has no risk level.
    pub fn needs_draft(&self) -> bool {
        self.classified_by == Classifier::Nobody
    }
}

impl Classifier {
    /// Formats the author for a table: `contracts/mail.yaml:12`, `server` or `nobody`.
    pub fn words(&self) -> String {
        match self {
            Self::Operator { file, line, is_draft } => {
                let draft = if *is_draft { " (draft)" } else { "" };
                format!("{}:{line}{draft}", crate::Untrusted::new(file.as_ref()).for_terminal())
            }
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
        let none = || Total {
            server: server.clone(),
            tools: 0,
            by_operator: 0,
            by_server: 0,
            by_nobody: 0,
            fields: 0,
            fields_max: 0,
        };
        let total = totals.entry(server).or_insert_with(none);
        total.tools += 1;
        total.fields += tool.fields();
        total.fields_max += STANDARD_FIELDS;
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
        Some(Source::Operator { file, line, is_draft }) => {
            Classifier::Operator { file: Arc::clone(file), line: *line, is_draft: *is_draft }
        }
        Some(Source::Server) => Classifier::Server,
        // A risk level is never a default, so these sources do not occur with one.
        Some(Source::Hints | Source::Level | Source::Default) | None => Classifier::Nobody,
    };
    let operation = tool.contract.operation.as_ref().map(|operation| operation.value);
    let missing = missing_fields(&tool.offered, &tool.contract);
    Covered { name: tool.name.clone(), risk: tool.contract.risk(), operation, classified_by, missing }
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
                format!("{} {risk} {} {} {}", tool.name, tool.classified_by.words(), tool.needs_draft(), tool.fields())
            })
            .collect();
        assert_eq!(
            rows,
            ["fx:own low server false 6", "fx:plain - nobody true 2", "fx:taken forbidden contracts/a.yaml:4 false 11"]
        );
        let server = ServerName::parse("fx").unwrap();
        let total = Total {
            server,
            tools: 3,
            by_operator: 1,
            by_server: 1,
            by_nobody: 1,
            fields: 6 + 2 + 11,
            fields_max: 3 * STANDARD_FIELDS,
        };
        assert_eq!((found.totals.as_slice(), found.percent()), (&[total][..], Some(48)));
        assert_eq!(coverage(&Catalog::default()).percent(), None);
    }
}
