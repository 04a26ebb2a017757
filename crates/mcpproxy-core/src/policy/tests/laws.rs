//! Property tests for policies: the index does not change results, and an additional policy never allows more.

use std::collections::BTreeSet;

use cedar_policy::{Authorizer, Decision, Policy, PolicyId, PolicySet};
use proptest::prelude::*;
use proptest::sample::select;

use super::*;
use crate::policy::read::Mentions;
use crate::{RiskLevel, Sensitivity};

const AGENTS: [&str; 5] = [
    "principal",
    "principal == Agent::\"laptop\"",
    "principal in Agent::\"phone\"",
    "principal is Agent",
    "principal is Agent in Agent::\"laptop\"",
];
const ACTIONS: [&str; 5] = [
    "action",
    "action == Action::\"read\"",
    "action in Action::\"call\"",
    "action in [Action::\"write\", Action::\"destructive\"]",
    "action in Action::\"destructive\"",
];
const RESOURCES: [&str; 8] = [
    "resource",
    "resource == Tool::\"mail:send\"",
    "resource in Tool::\"bank:pay\"",
    "resource in Server::\"mail\"",
    "resource is Tool",
    "resource is Tool in Server::\"bank\"",
    "resource in Category::\"billing\"",
    "resource is Tool in Category::\"billing\"",
];
const CONDITIONS: [&str; 14] = [
    "",
    "when { context.time.hour < 7 }",
    "when { context.hasReason } // why\n",
    "unless { context.hasReason }",
    "unless { principal.grants.contains(\"billing:*\") }",
    "when { resource.riskRank >= 3 } unless { context.sensitivity == \"public\" }",
    "unless { context.time.isWeekend } when { resource.name like \"*pay*\" }",
    "when { 9223372036854775807 + resource.riskRank > 0 }",
    "when { context.hasReason && 9223372036854775807 + resource.riskRank > 0 }",
    "unless { context.hasReason || 9223372036854775807 + resource.riskRank > 0 }",
    "when { context.now > datetime(\"2026-01-01\") || action == Action::\"read\" }",
    "when { action in Action::\"call\" && resource in [Server::\"bank\", Server::\"cash\"] }",
    "when { if context.variant == \"read\" then principal == Agent::\"phone\" else resource.category == \"\" }",
    "when { \"}\" != resource.tool && { a: \"{\" }.a == \"{\" } // }\n unless { principal.name == \"phone\" }",
];

fn a_policy() -> impl Strategy<Value = String> {
    let part = |words: &'static [&'static str]| select(words);
    (part(&AGENTS), part(&ACTIONS), part(&RESOURCES), part(&CONDITIONS))
        .prop_map(|(agent, action, resource, condition)| format!("forbid ({agent}, {action}, {resource}) {condition};"))
}

fn file(policies: &[String]) -> Policies {
    let text: Vec<String> =
        policies.iter().enumerate().map(|(n, policy)| format!("@id(\"r{n}\") {policy}\n")).collect();
    super::policies(&text.concat())
}

fn a_tool() -> impl Strategy<Value = Facts> {
    let risk = select(vec![None, Some(RiskLevel::Low), Some(RiskLevel::High)]);
    (select(&["mail:send", "bank:pay", "bank:list"][..]), select(&["", "billing", "talk"][..]), risk)
        .prop_map(|(name, category, risk)| Facts { category: category.to_owned(), risk, ..facts(name) })
}

fn a_call() -> impl Strategy<Value = (Agent, Intent, Clock)> {
    let agent = (select(&["laptop", "phone", "robot"][..]), any::<bool>()).prop_map(|(name, may_bill)| {
        let mut agent = agent(name);
        agent.scope.grants.extend(may_bill.then(|| "billing:*".to_owned()));
        agent
    });
    let sensitivity = select(vec![None, Some(Sensitivity::Public)]);
    let intent =
        (select(&Variant::ALL[..]), sensitivity, any::<bool>()).prop_map(|(variant, sensitivity, has_reason)| Intent {
            variant,
            is_declared: true,
            sensitivity,
            reason: has_reason.then(|| Untrusted::new("because")),
        });
    let clock = (0_i64..2_000_000_000_000, select(vec![0, 3600, -18_000]));
    (agent, intent, clock.prop_map(|(now_ms, utc_offset_s)| Clock { now_ms, utc_offset_s }))
}

/// Returns Cedar's own decision, with all policies and all inputs.
fn by_cedar(policies: &Policies, agent: &Agent, tool: &Facts, intent: &Intent, clock: Clock) -> BTreeSet<String> {
    let parse = |id: &str, text: &str| Policy::parse(Some(PolicyId::new(id)), text).unwrap();
    let all = policies.iter().map(|policy| parse(&policy.id, &policy.text));
    let all = all.chain([parse("implied", "permit (principal, action, resource);")]);
    let vocabulary = vocabulary::vocabulary().unwrap();
    let call = tool::Call { agent, tool: &tool.name, intent, clock };
    let everything = Mentions { principal: true, now: true, time: true };
    let request = facts::request(vocabulary, call, everything).unwrap();
    let entities = tool.entities(vocabulary).unwrap();
    let entities = entities.add_entities([facts::agent(agent, vocabulary).unwrap()], None).unwrap();
    let response = Authorizer::new().is_authorized(&request, &PolicySet::from_policies(all).unwrap(), &entities);
    let forbidding = response.diagnostics().reason().filter(|_| response.decision() == Decision::Deny);
    let failed = response.diagnostics().errors().map(|error| match error {
        cedar_policy::AuthorizationError::PolicyEvaluationError(error) => error.policy_id(),
    });
    forbidding.chain(failed).map(ToString::to_string).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    #[test]
    fn the_index_says_what_cedar_says(
        texts in proptest::collection::vec(a_policy(), 0..8),
        tool in a_tool(),
        calls in proptest::collection::vec(a_call(), 1..6),
    ) {
        let policies = file(&texts);
        for (agent, intent, clock) in calls {
            let found = refusals(&policies, &agent, &tool, &intent, clock);
            let expected = by_cedar(&policies, &agent, &tool, &intent, clock);
            prop_assert!(found.is_sorted(), "{:?}", found);
            prop_assert_eq!(found.into_iter().collect::<BTreeSet<_>>(), expected, "{:?}", &texts);
        }
    }

    #[test]
    fn one_more_policy_never_allows_more(
        mut texts in proptest::collection::vec(a_policy(), 1..6),
        more in a_policy(),
        tool in a_tool(),
        (agent, intent, clock) in a_call(),
    ) {
        let before = refusals(&file(&texts), &agent, &tool, &intent, clock);
        texts.push(more);
        let after = refusals(&file(&texts), &agent, &tool, &intent, clock);
        prop_assert!(before.iter().all(|policy| after.contains(policy)), "{:?} then {:?}", before, after);
    }

    #[test]
    fn no_text_is_too_strange(
        words in proptest::collection::vec(
            select(&[
                "forbid", "permit", "(", ")", "{", "}", "[", "]", "principal", "action", "resource", ",", ";", "when",
                "unless", "@id", "\"x\"", "\"", "//", "\n", "==", "context", ".", "time", "&&", "!", "if", "then",
                "else", "like", "has", "is", "in", "Tool", "::", "\"a:b\"", "?", "1", "é", "\u{202e}", "\\",
            ][..]),
            0..60,
        ),
        junk in "\\PC{0,40}",
    ) {
        let policy = "forbid (principal, action, resource) when {";
        for text in [words.join(" "), words.concat(), junk, format!("{policy} {} }};", words.join(" "))] {
            for mistake in mistakes(&[("a", &text)]) {
                prop_assert!(!mistake.contains(['\u{202e}', '\n']), "{:?}", mistake);
            }
        }
    }
}
