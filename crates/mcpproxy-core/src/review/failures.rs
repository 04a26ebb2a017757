//! Failure statistics: the declared failure modes that never occurred, and the failures that no contract declares.

use std::collections::BTreeMap;

use crate::json::{members, string_value};
use crate::outcome::UNDECLARED;
use crate::{Catalog, ErrorCode, ServerName, ToolName};

/// Different codes that are counted for one tool, at most. A server chooses its own codes.
const CODES_MAX: usize = 100;

/// Counts failures of recorded calls. There is an entry for each tool of the catalog that failed: agents invent names,
/// and those must not take memory.
#[derive(Debug)]
pub struct FailureCounts<'c> {
    catalog: &'c Catalog,
    tools: BTreeMap<ToolName, BTreeMap<String, Seen>>,
}

/// A failed or refused call, as recorded.
#[derive(Clone, Copy, Debug)]
pub struct FailedCall<'a> {
    pub id: &'a str,
    pub server: &'a str,
    pub tool: &'a str,
    pub code: Option<&'a str>,
    /// The metadata of the end of the call: a JSON object.
    pub end_metadata: Option<&'a str>,
}

/// The calls that failed with one code.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Seen {
    pub code: String,
    pub calls: u64,
    /// The id of one record.
    pub example: String,
    /// True if the server gave the code, and not the gateway.
    is_of_server: bool,
}

/// The failures of one tool.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ToolFailures {
    pub tool: ToolName,
    /// True if the contract declares failure modes.
    pub has_declared: bool,
    pub declared_seen: Vec<Seen>,
    pub never_seen: Vec<String>,
    /// Failures of the server that the contract does not declare.
    pub undeclared: Vec<Seen>,
}

impl<'c> FailureCounts<'c> {
    pub fn new(catalog: &'c Catalog) -> Self {
        Self { catalog, tools: BTreeMap::new() }
    }

    /// Counts one call. Pass the newest first, so that examples are recent.
    pub fn add(&mut self, call: FailedCall<'_>) {
        let Some((code, is_of_server)) = code_of(&call) else { return };
        let name = ServerName::parse(call.server).ok().and_then(|server| ToolName::of(&server, call.tool).ok());
        let Some(name) = name.filter(|name| self.catalog.resolve(name).is_some()) else { return };
        let codes = self.tools.entry(name).or_default();
        if codes.len() >= CODES_MAX && !codes.contains_key(&code) {
            return;
        }
        let new = || Seen { code: code.clone(), calls: 0, example: call.id.to_owned(), is_of_server };
        let seen = codes.entry(code.clone()).or_insert_with(new);
        seen.calls += 1;
        seen.is_of_server |= is_of_server;
    }

    /// Compares the counts with the contracts. Lists the tools that declare failure modes, and those with others.
    pub fn compare(&self) -> Vec<ToolFailures> {
        let tool = |tool: &std::sync::Arc<crate::Tool>| {
            let modes = tool.contract.failure_modes.as_ref().map(|modes| modes.value.as_slice());
            let declared = modes.unwrap_or_default();
            let codes = self.tools.get(&tool.name);
            let seen: Vec<&Seen> = codes.map(|codes| codes.values().collect()).unwrap_or_default();
            let is_declared = |seen: &&&Seen| declared.contains(&seen.code);
            let has_occurred = |code: &&String| seen.iter().any(|seen| seen.code == **code);
            let undeclared =
                seen.iter().filter(|seen| !is_declared(seen) && (seen.is_of_server || !is_of_gateway(&seen.code)));
            ToolFailures {
                tool: tool.name.clone(),
                has_declared: modes.is_some(),
                declared_seen: seen.iter().filter(is_declared).map(|seen| (*seen).clone()).collect(),
                never_seen: declared.iter().filter(|code| !has_occurred(code)).cloned().collect(),
                undeclared: undeclared.map(|seen| (*seen).clone()).collect(),
            }
        };
        let all = self.catalog.tools().map(tool);
        all.filter(|failures| failures.has_declared || !failures.undeclared.is_empty()).collect()
    }
}

/// Returns the failure that a record tells: the contract's name for it, the server's own code, or the gateway's. Also
/// returns whether the server gave it.
fn code_of(call: &FailedCall<'_>) -> Option<(String, bool)> {
    let failure = call.end_metadata.and_then(members).and_then(|fields| {
        fields.into_iter().find(|(key, _)| key == "failure").and_then(|(_, failure)| members(failure))
    });
    let word = |name: &str| {
        let failure = failure.as_ref()?;
        failure.iter().find(|(key, _)| key == name).and_then(|(_, value)| string_value(value)).map(String::from)
    };
    match word("code") {
        Some(code) if code == UNDECLARED => Some((word("original").unwrap_or(code), true)),
        Some(code) => Some((code, true)),
        None => Some((call.code?.to_owned(), false)),
    }
}

/// Returns true for a code that the gateway gives, such as for a refusal or a timeout. It is no failure of the tool.
fn is_of_gateway(code: &str) -> bool {
    const OTHERS: [&str; 3] = ["forbidden_attempt", "output_mismatch", "replayed"];
    ErrorCode::parse(code).is_some() || OTHERS.contains(&code)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::ServerName;
    use crate::catalog::{Offer, Offered};
    use crate::contract::Contracts;

    #[test]
    fn declared_and_undeclared_failures() {
        let server = ServerName::parse("fx").unwrap();
        let tools = ["a", "b", "c"].map(|name| format!(r#"{{"name":"{name}","inputSchema":{{}}}}"#));
        let offer = Offer::new(tools.iter().map(|tool| Offered::parse(&server, tool))).0;
        let text = "tool: fx:a\nfailureModes: [not_found, permission_denied, too_large]\n".to_owned();
        let contracts = Contracts::parse(&[("a.yaml".to_owned(), text)]).unwrap();
        let catalog = Catalog::default().next([(server, Arc::new(offer))], &Arc::new(contracts), &Arc::default());
        let mut counts = FailureCounts::new(&catalog);
        let mut add = |tool, code, end_metadata| {
            counts.add(FailedCall { id: "R", server: "fx", tool, code, end_metadata });
        };
        let undeclared = r#"{"failure":{"code":"undeclared_failure","declared":false,"original":"quota"}}"#;
        add("a", Some("undeclared_failure"), Some(undeclared));
        add("a", Some("undeclared_failure"), Some(undeclared));
        add("a", Some("not_found"), Some(r#"{"failure":{"code":"not_found","declared":true}}"#));
        add("a", Some("permission_denied"), None);
        add("a", Some("policy_violation"), None);
        add("b", Some("-32602"), None);
        add("c", Some("rate_limit_exceeded"), None);
        add("c", Some("replayed"), None);
        add("gone", Some("x"), None);
        add("no such name!", Some("x"), None);
        let line = |one: &ToolFailures| {
            let codes =
                |seen: &[Seen]| seen.iter().map(|one| format!("{} {}", one.code, one.calls)).collect::<Vec<_>>();
            format!("{} {:?} {:?} {:?}", one.tool, codes(&one.declared_seen), one.never_seen, codes(&one.undeclared))
        };
        assert_eq!(
            counts.compare().iter().map(line).collect::<Vec<_>>(),
            [r#"fx:a ["not_found 1", "permission_denied 1"] ["too_large"] ["quota 2"]"#, r#"fx:b [] [] ["-32602 1"]"#,]
        );
        let counted: Vec<&str> = counts.tools.keys().map(ToolName::tool).collect();
        assert_eq!(counted, ["a", "b", "c"], "names that no server lists take no memory");
    }
}
