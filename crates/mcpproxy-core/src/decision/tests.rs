//! Tests for annotations, scopes and tools that do not exist.

mod order;
mod quarantine;

use super::*;
use crate::catalog::{Offer, Offered};
use crate::settings::{TwoKey, Unannotated};
use crate::{Scope, ServerName, Variant, intent};

fn hints_json(read_only: Option<bool>, destructive: Option<bool>) -> String {
    let hints = [("readOnlyHint", read_only), ("destructiveHint", destructive)]
        .into_iter()
        .filter_map(|(name, value)| value.map(|value| format!("\"{name}\":{value}")))
        .collect::<Vec<_>>()
        .join(",");
    format!(r#"{{"name":"tool","inputSchema":{{}},"annotations":{{{hints}}}}}"#)
}

fn outcome(
    settings: &IntentSettings,
    scope: Scope,
    hints: (Option<bool>, Option<bool>),
    variant: Variant,
    name: &str,
) -> String {
    let server = ServerName::parse("fx").unwrap();
    let (offer, hidden) = Offer::new([Offered::parse(&server, &hints_json(hints.0, hints.1))]);
    assert!(hidden.is_empty());
    let catalog = Catalog::new([(server, Arc::new(offer))]);
    let declared = intent::declare(variant, &format!(r#"{{"name":"{name}"}}"#), TwoKey::Optional).unwrap();
    let tool = catalog.resolve(&declared.name).cloned();
    let agent = Agent { name: "a1".to_owned(), scope };
    let inputs = DecisionInputs { intent: settings, contracts: &ContractSettings::default(), catalog: &catalog };
    let moment = Moment {
        clock: Clock::default(),
        limits: &Limits::default(),
        prior: PriorState::default(),
        session_began_ms: None,
    };
    match decide(inputs, &agent, declared, tool.as_ref(), moment) {
        Decision::Ask(_) => "ask".to_owned(),
        Decision::Preview(_) => "preview".to_owned(),
        Decision::Repeat(_) => "repeat".to_owned(),
        Decision::Deny(denial) => format!("deny {}: {}", denial.code(), denial.message()),
        Decision::Allow(permit) => {
            let warnings: Vec<&str> = permit.warnings().iter().map(|warning| warning.code).collect();
            let verified = if permit.is_verified() { "verified" } else { "unverified" };
            ["allow", verified, &warnings.join(" ")].join(" ").trim_end().to_owned()
        }
    }
}

#[test]
fn annotations_against_variants() {
    use Variant::{Destructive, Read, Write};
    let strict = IntentSettings::default();
    let lenient = IntentSettings { strict_server_validation: false, ..IntentSettings::default() };
    let check = |settings: &IntentSettings, hints, variant, expected: &str| {
        assert_eq!(outcome(settings, Scope::everything(), hints, variant, "fx:tool"), expected, "{hints:?} {variant}");
    };
    let marked = |used: &str| {
        format!(
            "deny SERVER_MISMATCH: Tool 'fx:tool' is marked destructive by server, use call_tool_destructive instead of {used}"
        )
    };
    check(&strict, (Some(true), None), Read, "allow verified");
    check(&strict, (None, Some(true)), Read, &marked("call_tool_read"));
    check(&strict, (Some(true), Some(true)), Read, &marked("call_tool_read"));
    check(&strict, (None, None), Read, "allow unverified");
    check(
        &strict,
        (Some(false), Some(false)),
        Read,
        "deny SERVER_MISMATCH: Tool 'fx:tool' is marked not read-only by server, use call_tool_write instead of call_tool_read",
    );
    check(&strict, (Some(true), None), Write, "allow verified overly_cautious");
    check(&strict, (None, Some(true)), Write, &marked("call_tool_write"));
    check(&strict, (None, None), Write, "allow unverified");
    check(&strict, (Some(false), None), Write, "allow verified");
    for hints in [(None, None), (Some(true), None), (None, Some(true)), (Some(false), Some(false))] {
        check(&strict, hints, Destructive, "allow verified");
    }
    check(&lenient, (None, Some(true)), Read, "allow unverified SERVER_MISMATCH");
    check(&lenient, (Some(false), None), Read, "allow unverified SERVER_MISMATCH");
    let warn = IntentSettings { unannotated: Unannotated::Warn, ..IntentSettings::default() };
    let require_write = IntentSettings { unannotated: Unannotated::RequireWrite, ..IntentSettings::default() };
    check(&warn, (None, None), Read, "allow unverified unannotated");
    check(
        &require_write,
        (None, None),
        Read,
        "deny SERVER_MISMATCH: Tool 'fx:tool' is not marked read-only by server, use call_tool_write instead of call_tool_read",
    );
}

#[test]
fn scope_narrows() {
    let settings = IntentSettings::default();
    let check = |scope: Scope, hints, variant, name: &str, expected: &str| {
        assert_eq!(outcome(&settings, scope, hints, variant, name), expected);
    };
    let read_only = Scope::read_only;
    check(read_only(), (Some(true), None), Variant::Read, "fx:tool", "allow verified");
    check(
        read_only(),
        (None, None),
        Variant::Read,
        "fx:tool",
        "deny permission_denied: Agent 'a1' may only read, and the server does not mark 'fx:tool' as read-only. Use retrieve_tools to find a tool whose call_with is call_tool_read.",
    );
    check(
        read_only(),
        (None, None),
        Variant::Write,
        "fx:tool",
        "deny permission_denied: Agent 'a1' may not use call_tool_write: its token does not allow write operations",
    );
    let elsewhere = Scope { servers: Some(vec![ServerName::parse("other").unwrap()]), ..Scope::everything() };
    let unknown =
        "deny tool_not_found: Tool 'fx:tool' not found: unknown server 'fx'; use retrieve_tools to find tools";
    check(elsewhere, (None, None), Variant::Read, "fx:tool", unknown);
}

#[test]
fn an_unknown_tool_comes_with_suggestions() {
    let settings = IntentSettings::default();
    let elsewhere = outcome(&settings, Scope::everything(), (None, None), Variant::Read, "nope:tool");
    assert_eq!(
        elsewhere,
        "deny tool_not_found: Tool 'nope:tool' not found: unknown server 'nope'; did you mean 'fx:tool'?"
    );
    let found = outcome(&settings, Scope::everything(), (None, None), Variant::Read, "fx:toll");
    assert_eq!(
        found,
        "deny tool_not_found: Tool 'fx:toll' not found: server 'fx' has no tool 'toll'; did you mean 'fx:tool'?"
    );
}

#[test]
fn tools_that_are_read_on_trust() {
    use crate::contract::Contracts;
    let server = ServerName::parse("fx").unwrap();
    let check = |hints: (Option<bool>, Option<bool>), contract: &str, unannotated: Unannotated, expected: bool| {
        let (offer, _) = Offer::new([Offered::parse(&server, &hints_json(hints.0, hints.1))]);
        let files =
            if contract.is_empty() { vec![] } else { vec![("contracts/a.yaml".to_owned(), contract.to_owned())] };
        let contracts = Arc::new(Contracts::parse(&files).unwrap());
        let catalog = Catalog::default().next([(server.clone(), Arc::new(offer))], &contracts, &Arc::default());
        let settings = IntentSettings { unannotated, ..IntentSettings::default() };
        let tool = catalog.tools().next().unwrap();
        let found = may_be_read_on_trust(&settings, tool);
        assert_eq!(found, expected, "{hints:?} {contract} {unannotated:?}");
        // The decision agrees: on trust means allowed, and not confirmed by anybody.
        if contract.is_empty() {
            let decided = outcome(&settings, Scope::everything(), hints, Variant::Read, "fx:tool");
            assert_eq!(found, decided.starts_with("allow unverified"), "{hints:?} {unannotated:?}: {decided}");
        }
    };
    check((None, None), "", Unannotated::Trust, true);
    check((None, Some(false)), "", Unannotated::Trust, true);
    check((None, None), "", Unannotated::Warn, true);
    check((None, None), "", Unannotated::RequireWrite, false);
    check((Some(true), None), "", Unannotated::Trust, false);
    check((Some(false), None), "", Unannotated::Trust, false);
    check((None, Some(true)), "", Unannotated::Trust, false);
    check((None, None), "tool: fx:tool\nriskLevel: low\n", Unannotated::Trust, true);
    check((None, None), "tool: fx:tool\noperation: read\n", Unannotated::Trust, false);
    check((None, None), "tool: fx:tool\noperation: write\n", Unannotated::Trust, false);
}

#[test]
fn tools_that_run_without_approval() {
    use crate::contract::Contracts;
    use crate::policy::Policies;
    use crate::settings::Unclassified;
    let server = ServerName::parse("fx").unwrap();
    let check = |contract: &str, policy: &str, unclassified: Unclassified, expected: bool| {
        let (offer, _) = Offer::new([Offered::parse(&server, &hints_json(None, Some(true)))]);
        let file =
            |name: &str, text: &str| if text.is_empty() { vec![] } else { vec![(name.to_owned(), text.to_owned())] };
        let contracts = Contracts::parse(&file("contracts/a.yaml", contract)).unwrap();
        let policies = Policies::parse(&file("policies/a.cedar", policy)).unwrap();
        let offers = [(server.clone(), Arc::new(offer))];
        let catalog = Catalog::default().next(offers, &Arc::new(contracts), &Arc::new(policies));
        let tool = catalog.tools().next().unwrap();
        let settings = ContractSettings { unclassified, ..ContractSettings::default() };
        assert_eq!(may_run_unasked(&settings, tool), expected, "{contract} {unclassified:?}");
    };
    check("", "", Unclassified::Allow, true);
    check("", "", Unclassified::ConfirmDestructive, false);
    check("", "", Unclassified::Deny, false);
    check("tool: fx:tool\nriskLevel: low\noperation: destructive\n", "", Unclassified::Deny, false);
    check("tool: fx:tool\nriskLevel: medium\noperation: destructive\n", "", Unclassified::Allow, false);
    check("tool: fx:tool\noperation: destructive\n", "", Unclassified::Allow, true);
    check("tool: fx:tool\nriskLevel: high\noperation: destructive\n", "", Unclassified::Allow, false);
    check("tool: fx:tool\nconfirmation: required\n", "", Unclassified::Allow, false);
    check("", "forbid (principal, action, resource);", Unclassified::Allow, false);
}
