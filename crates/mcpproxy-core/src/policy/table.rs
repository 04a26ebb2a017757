//! Every decision there is on intent and annotations, as one text: a change of policy is a diff of it.

use std::fmt::Write as _;
use std::sync::Arc;

use super::{Decision, decide};
use crate::catalog::{Catalog, Offer, Tool};
use crate::intent::declare;
use crate::settings::{IntentSettings, TwoKey, Unannotated};
use crate::{Agent, Scope, ServerName, Variant};

/// One case and what becomes of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Row {
    pub variant: Variant,
    /// What `intent.operation_type` says; `None` when there is no intent.
    pub declared: Option<&'static str>,
    pub read_only: Option<bool>,
    pub destructive: Option<bool>,
    pub rules: IntentSettings,
    /// `allow`, `allow with a warning` or `deny`, with what an agent is told.
    pub outcome: String,
}

/// A word that is no operation type.
const INVALID: &str = "delete";
const DECLARED: [Option<&str>; 5] = [None, Some("read"), Some("write"), Some("destructive"), Some(INVALID)];
const HINT: [Option<bool>; 3] = [None, Some(true), Some(false)];

/// All cases in a fixed order, decided by the functions that decide on real calls.
pub fn rows() -> Vec<Row> {
    let mut rows = Vec::new();
    for variant in Variant::ALL {
        for declared in DECLARED {
            for read_only in HINT {
                for destructive in HINT {
                    for rules in all_rules() {
                        let outcome = outcome(variant, declared, (read_only, destructive), &rules);
                        rows.push(Row { variant, declared, read_only, destructive, rules, outcome });
                    }
                }
            }
        }
    }
    rows
}

/// The rows as text, one a line.
pub fn table() -> String {
    let mut text =
        String::from("variant      declared     readOnly  destructive  strict  two_key   unannotated    outcome\n");
    for row in rows() {
        let _infallible = writeln!(
            text,
            "{:<11}  {:<11}  {:<8}  {:<11}  {:<6}  {:<8}  {:<13}  {}",
            row.variant.operation(),
            row.declared.unwrap_or("-"),
            hint_word(row.read_only),
            hint_word(row.destructive),
            row.rules.strict_server_validation,
            row.rules.two_key.as_str(),
            row.rules.unannotated.as_str(),
            row.outcome
        );
    }
    text
}

fn hint_word(hint: Option<bool>) -> &'static str {
    match hint {
        None => "-",
        Some(true) => "true",
        Some(false) => "false",
    }
}

fn all_rules() -> Vec<IntentSettings> {
    let mut all = Vec::new();
    for strict_server_validation in [true, false] {
        for two_key in [TwoKey::Optional, TwoKey::Required] {
            for unannotated in [Unannotated::Trust, Unannotated::Warn, Unannotated::RequireWrite] {
                all.push(IntentSettings { strict_server_validation, two_key, unannotated });
            }
        }
    }
    all
}

fn outcome(
    variant: Variant,
    declared: Option<&str>,
    (read_only, destructive): (Option<bool>, Option<bool>),
    rules: &IntentSettings,
) -> String {
    let intent = declared.map_or(String::new(), |word| format!(",\"intent\":{{\"operation_type\":\"{word}\"}}"));
    let parameters = format!("{{\"name\":\"server:tool\"{intent}}}");
    let declared = match declare(variant, &parameters, rules.two_key) {
        Ok(declared) => declared,
        Err(denial) => return format!("deny {}", denial.code()),
    };
    let catalog = catalog(read_only, destructive);
    let agent = Agent { name: "agent".to_owned(), scope: Scope::everything() };
    let tool = catalog.resolve(&declared.name);
    match decide(rules, &agent, declared, tool, &catalog) {
        Decision::Deny(denial) => {
            let call_with = denial.details().get("call_with").and_then(|name| name.as_str().map(str::to_owned));
            let instead = call_with.map(|name| format!(", use {name}")).unwrap_or_default();
            format!("deny {}{instead}", denial.code())
        }
        Decision::Allow(permit) => {
            let warned = permit.warnings().iter().fold(String::new(), |all, warning| all + " warn " + warning.code);
            let unverified = if permit.is_verified() { "" } else { " unverified" };
            format!("allow{warned}{unverified}")
        }
    }
}

fn catalog(read_only: Option<bool>, destructive: Option<bool>) -> Catalog {
    let hints: Vec<String> = [("readOnlyHint", read_only), ("destructiveHint", destructive)]
        .into_iter()
        .filter_map(|(name, value)| value.map(|value| format!("\"{name}\":{value}")))
        .collect();
    let json = format!("{{\"name\":\"tool\",\"inputSchema\":{{}},\"annotations\":{{{}}}}}", hints.join(","));
    let offers = ServerName::parse("server").ok().map(|server| {
        let (offer, _hidden) = Offer::new([Tool::parse(&server, &json)]);
        (server, Arc::new(offer))
    });
    Catalog::new(offers)
}
