//! Tools that a test case describes, and no server has listed.

use std::sync::Arc;

use serde_json::{Map, Value, json};

use crate::catalog::{Catalog, Offer, Offered};
use crate::contract::Contracts;
use crate::policy::facts::Facts;
use crate::replay::Rules;
use crate::{RiskLevel, Variant};

/// Returns rules with one server and one tool: the described one, with its description as the contract.
pub(super) fn rules(rules: &Rules, tool: &Facts) -> Rules {
    // A description consists of the same words as a contract, so it is always a valid one.
    let contracts = Contracts::parse(&[("case.json".to_owned(), contract(tool).to_string())]).unwrap_or_default();
    let offers = [(tool.name.server().clone(), Arc::new(offer([tool])))];
    let catalog = Catalog::default().next(offers, &Arc::new(contracts), rules.catalog.policies());
    Rules { settings: Arc::clone(&rules.settings), catalog }
}

/// Returns bare tools with the annotations of the case.
pub(super) fn offer<'f>(tools: impl IntoIterator<Item = &'f Facts>) -> Offer {
    let bare = tools.into_iter().map(|tool| {
        let hints = [("readOnlyHint", tool.hints.read_only), ("destructiveHint", tool.hints.destructive)];
        let hints: Map<String, Value> =
            hints.into_iter().filter_map(|(name, hint)| Some((name.to_owned(), hint?.into()))).collect();
        let json = json!({"name": tool.name.tool(), "inputSchema": {}, "annotations": hints});
        Offered::parse(tool.name.server(), &json.to_string())
    });
    Offer::new(bare).0
}

fn contract(tool: &Facts) -> Value {
    let mut fields = Map::new();
    let mut add = |key: &str, value: Value| drop(fields.insert(key.to_owned(), value));
    add("tool", tool.name.to_string().into());
    if let Some(risk) = tool.risk {
        add("riskLevel", risk.as_str().into());
    }
    if !tool.category.is_empty() {
        add("category", tool.category.as_str().into());
    }
    // A forbidden tool is never called, so its contract has nothing about calls.
    if tool.risk != Some(RiskLevel::Forbidden) {
        if let Some(operation) = Variant::from_operation(tool.operation) {
            add("operation", operation.operation().into());
        }
        add("permissions", json!(tool.permissions));
        add("sideEffects", json!(tool.side_effects));
        if !tool.audit_event.is_empty() {
            add("auditEvent", tool.audit_event.as_str().into());
        }
        for need in &tool.needs {
            match *need {
                "confirmation" => add("confirmation", "required".into()),
                "step_up" => add("stepUpAuth", true.into()),
                _ => add("dryRun", "required".into()),
            }
        }
    }
    Value::Object(fields)
}
