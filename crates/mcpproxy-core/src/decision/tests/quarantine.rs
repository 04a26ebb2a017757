//! Tests for tools that no user has accepted.

use std::collections::HashMap;

use super::*;
use crate::catalog::Quarantined;
use crate::contract::Contracts;
use crate::trust::Held;

const SINCE_MS: i64 = 1000;

/// A server with the tools `tool` and `other`, of which `tool` is quarantined.
fn catalog(was_shown: bool, contracts: Contracts) -> Catalog {
    let server = ServerName::parse("fx").unwrap();
    let tools = ["tool", "other"].map(|name| format!(r#"{{"name":"{name}","inputSchema":{{}}}}"#));
    let (offer, _) = Offer::new(tools.iter().map(|json| Offered::parse(&server, json)));
    let quarantined = Quarantined { reason: Held::Changed, since_ms: SINCE_MS, was_shown };
    let offer = offer.admit(&HashMap::from([("tool".to_owned(), quarantined)]));
    Catalog::default().next([(server, Arc::new(offer))], &Arc::new(contracts), &Arc::default())
}

fn code(catalog: &Catalog, scope: Scope, session_began_ms: Option<i64>) -> String {
    decided(catalog, scope, session_began_ms, "fx:tool").0
}

fn decided(catalog: &Catalog, scope: Scope, session_began_ms: Option<i64>, name: &str) -> (String, String) {
    let declared = intent::declare(Variant::Read, &format!(r#"{{"name":"{name}"}}"#), TwoKey::Optional).unwrap();
    let tool = catalog.resolve(&declared.name).cloned();
    let agent = Agent { name: "a1".to_owned(), scope };
    let (intent, contracts) = (IntentSettings::default(), ContractSettings::default());
    let inputs = DecisionInputs { intent: &intent, contracts: &contracts, catalog };
    let (limits, prior) = (Limits::default(), PriorState::default());
    let moment = Moment { clock: Clock::default(), limits: &limits, prior, session_began_ms };
    match decide(inputs, &agent, declared, tool.as_ref(), moment) {
        Decision::Deny(denial) => (denial.code().to_owned(), denial.message()),
        Decision::Allow(_) => ("allow".to_owned(), String::new()),
        Decision::Ask(_) | Decision::Preview(_) | Decision::Repeat(_) => ("other".to_owned(), String::new()),
    }
}

fn explained(catalog: &Catalog, scope: Scope) -> Option<&'static str> {
    let agent = Agent { name: "a1".to_owned(), scope };
    let (intent, contracts) = (IntentSettings::default(), ContractSettings::default());
    let inputs = DecisionInputs { intent: &intent, contracts: &contracts, catalog };
    let (limits, prior) = (Limits::default(), PriorState::default());
    let moment = Moment { clock: Clock::default(), limits: &limits, prior, session_began_ms: None };
    explain(inputs, &agent, Variant::Read, r#"{"name":"fx:tool"}"#, moment).denial().map(Denial::code)
}

#[test]
fn only_agents_that_know_a_tool_learn_that_it_is_quarantined() {
    let (shown, new) = (catalog(true, Contracts::default()), catalog(false, Contracts::default()));
    let check = |catalog: &Catalog, session_began_ms, expected: &str| {
        assert_eq!(code(catalog, Scope::everything(), session_began_ms), expected, "{session_began_ms:?}");
    };
    check(&shown, Some(SINCE_MS - 1), "tool_quarantined");
    check(&shown, Some(SINCE_MS), "tool_not_found");
    check(&shown, Some(SINCE_MS + 1), "tool_not_found");
    check(&shown, None, "tool_quarantined");
    check(&new, Some(SINCE_MS - 1), "tool_not_found");
    check(&new, None, "tool_not_found");
    let elsewhere = Scope { servers: Some(vec![ServerName::parse("b").unwrap()]), ..Scope::everything() };
    assert_eq!(code(&shown, elsewhere, None), "tool_not_found");
}

#[test]
fn the_answer_is_that_of_a_tool_that_does_not_exist() {
    let quarantined = decided(&catalog(false, Contracts::default()), Scope::everything(), None, "fx:tool");
    let server = ServerName::parse("fx").unwrap();
    let other = Offered::parse(&server, r#"{"name":"other","inputSchema":{}}"#);
    let without = Catalog::new([(server, Arc::new(Offer::new([other]).0))]);
    assert_eq!(quarantined, decided(&without, Scope::everything(), None, "fx:tool"));
}

#[test]
fn the_sentence_names_the_next_step() {
    let (_, message) = decided(&catalog(true, Contracts::default()), Scope::everything(), None, "fx:tool");
    assert_eq!(
        message,
        "Tool 'fx:tool' is quarantined: its definition changed, and a user must review it first. Tell the user to run \
         `mcpproxy servers review fx`."
    );
}

#[test]
fn the_rest_of_the_server_works_on() {
    let catalog = catalog(true, Contracts::default());
    assert_eq!(decided(&catalog, Scope::everything(), None, "fx:other").0, "allow");
    let everything = Scope::everything();
    let seen: Vec<&str> = catalog.visible(&everything).map(|tool| tool.name.tool()).collect();
    assert_eq!(seen, ["other"]);
    let quarantined: Vec<String> = catalog.all_quarantined().map(|(name, _)| name.to_string()).collect();
    assert_eq!(quarantined, ["fx:tool"]);
}

/// Otherwise a change of a forbidden tool would reveal it.
#[test]
fn a_forbidden_tool_stays_hidden() {
    let text = "tool: fx:tool\nriskLevel: forbidden\n";
    let catalog = catalog(true, Contracts::parse(&[("a.yaml".to_owned(), text.to_owned())]).unwrap());
    assert_eq!(code(&catalog, Scope::everything(), None), "tool_not_found");
}

#[test]
fn operators_see_the_reason() {
    for was_shown in [true, false] {
        let catalog = catalog(was_shown, Contracts::default());
        assert_eq!(explained(&catalog, Scope::everything()), Some("tool_quarantined"));
        let elsewhere = Scope { servers: Some(vec![ServerName::parse("b").unwrap()]), ..Scope::everything() };
        assert_eq!(explained(&catalog, elsewhere), Some("tool_not_found"));
    }
}
