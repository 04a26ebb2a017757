//! Checks calls and servers that try to bypass a contract.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::sync::Arc;

use mcpproxy_core::contract::Contracts;
use mcpproxy_core::policy::Clock;
use mcpproxy_core::settings::{ContractSettings, IntentSettings, TwoKey, Unannotated, Unclassified};
use mcpproxy_core::{
    Agent, Catalog, Decision, DecisionInputs, Limits, Moment, Offer, Offered, PriorState, Scope, ServerName, ToolName,
    Variant, check_result, decide, declare,
};

/// Builds a catalog with one tool, `fx:t`, and the operator's contract if there is one.
fn catalog(tool: &str, contract: &str) -> Catalog {
    let server = ServerName::parse("fx").unwrap();
    let (offer, hidden) = Offer::new([Offered::parse(&server, tool)]);
    assert!(hidden.is_empty(), "{hidden:?}");
    let files = match contract {
        "" => Vec::new(),
        contract => vec![("contracts/a.yaml".to_owned(), format!("tool: fx:t\n{contract}\n"))],
    };
    let contracts = Contracts::parse(&files).unwrap();
    Catalog::default().next([(server, Arc::new(offer))], &Arc::new(contracts), &Arc::default())
}

fn outcome(
    catalog: &Catalog,
    intent: &IntentSettings,
    unclassified: Unclassified,
    variant: Variant,
    args: &str,
) -> String {
    let declared = declare(variant, &format!(r#"{{"name":"fx:t","args":{args}}}"#), TwoKey::Optional).unwrap();
    let tool = catalog.resolve(&declared.name).cloned();
    let agent = Agent { name: "a".to_owned(), scope: Scope::everything() };
    let contracts = &ContractSettings { unclassified, ..ContractSettings::default() };
    let ground = DecisionInputs { intent, contracts, catalog };
    let moment = Moment {
        clock: Clock::default(),
        limits: &Limits::default(),
        prior: PriorState::default(),
        session_began_ms: None,
    };
    match decide(ground, &agent, declared, tool.as_ref(), moment) {
        Decision::Allow(_) => "allow".to_owned(),
        Decision::Ask(_) => "ask".to_owned(),
        Decision::Preview(_) => "preview".to_owned(),
        Decision::Repeat(_) => "repeat".to_owned(),
        Decision::Deny(denial) => format!("{}: {}", denial.code(), denial.message()),
    }
}

fn write(catalog: &Catalog, args: &str) -> String {
    outcome(catalog, &IntentSettings::default(), Unclassified::Allow, Variant::Write, args)
}

#[test]
fn a_condition_that_cannot_be_checked_requires_a_factor() {
    let patterns = r#"[ {pattern: "^a.*z$"}, {pattern: "^b.*z$"}, {pattern: "^c.*z$"}, {} ]"#;
    let when = format!("{{ properties: {{ to: {{ items: {{ anyOf: {patterns} }} }} }}, required: [danger] }}");
    let catalog =
        catalog(r#"{"name":"t","inputSchema":{}}"#, &format!("riskLevel: medium\nstepUpAuth: {{ when: {when} }}"));
    let items: Vec<String> = (0..20_000).map(|n| format!("\"{n}{}\"", "y".repeat(30))).collect();
    assert_eq!(write(&catalog, &format!(r#"{{"danger":1,"to":[{}]}}"#, items.join(","))), "ask");
    assert_eq!(write(&catalog, r#"{"to":["x"]}"#), "allow");
}

#[test]
fn a_server_cannot_lift_the_operators_setting_for_unclassified_tools() {
    let own = |contract: &str| {
        format!(
            r#"{{"name":"t","inputSchema":{{}},"annotations":{{"destructiveHint":true}},"_meta":{{"mcp-first/contract":{contract}}}}}"#
        )
    };
    let check = |server: &str, operator: &str, unclassified, expected: &str| {
        let catalog = catalog(&own(server), operator);
        let found = outcome(&catalog, &IntentSettings::default(), unclassified, Variant::Destructive, "{}");
        assert_eq!(found.split(':').next().unwrap(), expected, "{server} {operator}");
    };
    check(r#"{"riskLevel":"low"}"#, "", Unclassified::Allow, "allow");
    check(r#"{"riskLevel":"low"}"#, "", Unclassified::ConfirmDestructive, "ask");
    check(r#"{"riskLevel":"low"}"#, "", Unclassified::Deny, "contract_required");
    check(r#"{"riskLevel":"high"}"#, "", Unclassified::Allow, "ask");
    check(r#"{"riskLevel":"low"}"#, "riskLevel: medium", Unclassified::Deny, "allow");
    check("{}", "riskLevel: medium", Unclassified::ConfirmDestructive, "allow");
    check(r#"{"riskLevel":"low"}"#, "category: files", Unclassified::Deny, "contract_required");
}

#[test]
fn a_server_that_says_read_in_its_contract_has_annotated_its_tool() {
    let tool = r#"{"name":"t","inputSchema":{},"_meta":{"mcp-first/contract":{"operation":"read"}}}"#;
    let intent = IntentSettings { unannotated: Unannotated::RequireWrite, ..IntentSettings::default() };
    let plain = r#"{"name":"t","inputSchema":{}}"#;
    let read = |tool: &str| outcome(&catalog(tool, ""), &intent, Unclassified::Allow, Variant::Read, "{}");
    assert_eq!(read(tool), "allow");
    assert_eq!(read(plain).split(':').next().unwrap(), "SERVER_MISMATCH");
}

#[test]
fn null_is_an_argument_left_out_for_the_server_and_null_for_a_contract() {
    let tool = r#"{"name":"t","inputSchema":{"required":["q","n"],"properties":{"q":{"type":"string"},"n":{"type":["string","null"]},"loud":{"type":"boolean"}}}}"#;
    let plain = catalog(tool, "");
    let check = |args: &str, expected: &str| assert_eq!(write(&plain, args), expected, "{args}");
    check(r#"{"q":"a","n":null,"loud":null}"#, "allow");
    check(r#"{"q":"a","n":"b"}"#, "allow");
    let missing = "invalid_arguments: Invalid arguments for 'fx:t': /q: required property missing, expected a string";
    check(r#"{"q":null,"n":null,"loud":null}"#, missing);
    let wrong = "invalid_arguments: Invalid arguments for 'fx:t': /loud: expected true or false, found the number 1";
    check(r#"{"q":"a","n":null,"loud":1}"#, wrong);
    let strict = catalog(tool, "inputSchema: { properties: { loud: { type: boolean } } }");
    let strict = write(&strict, r#"{"q":"a","n":null,"loud":null}"#);
    assert_eq!(strict, "invalid_arguments: Invalid arguments for 'fx:t': /loud: expected true or false, found null");
}

#[test]
fn sensitive_values_are_never_revealed() {
    let tool = r#"{"name":"t","inputSchema":{"required":["body"],"properties":{"body":{"type":"integer"}}},"outputSchema":{"properties":{"body":{"type":"integer"}}}}"#;
    let catalog = catalog(tool, "riskLevel: low\nsensitive: [/body]");
    let tool = catalog.resolve(&ToolName::parse("fx:t").unwrap()).unwrap();
    let mismatch = check_result(tool, r#"{"content":[],"structuredContent":{"body":"zebra"}}"#).unwrap_err();
    assert_eq!(mismatch.problems.first().unwrap().to_string(), "/body: expected an integer, found something else");
    let wrong = write(&catalog, r#"{"body":"zebra"}"#);
    assert_eq!(
        wrong,
        "invalid_arguments: Invalid arguments for 'fx:t': /body: expected an integer, found something else"
    );
    let missing = write(&catalog, "{}");
    assert!(missing.contains("/body: required property missing"), "{missing}");
}
