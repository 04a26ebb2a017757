//! Tests for the test cases of operators.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::{Value, json};

use super::{Rules, parse, run, with_bare_tools};
use crate::ServerName;
use crate::catalog::{Catalog, Offer, Offered};
use crate::contract::Contracts;
use crate::policy::Policies;
use crate::settings::Settings;

const POLICIES: &str = "@id(\"no-night-mail\") @message(\"No mail at night\")\n\
    forbid (principal, action, resource in Server::\"mail\") when { context.time.hour < 7 };\n\
    @id(\"no-bills\") forbid (principal, action == Action::\"destructive\", resource in Category::\"billing\")\n\
    unless { principal.grants.contains(\"billing:*\") };\n\
    @id(\"all\") forbid (principal == Agent::\"robot\", action, resource) when { principal.operations.contains(\"write\") \
    && resource.hasContract && resource.riskRank > 3 && resource.needs.contains(\"dry_run\") && context.hasReason \
    && resource.permissions.contains(\"p\") && resource.sideEffects.contains(\"s\") && resource.auditEvent == \"e\" \
    && context.sensitivity == \"private\" && resource.destructiveHint && context.now < datetime(\"2026-11-15\") };\n\
    @id(\"effects\") forbid (principal, action, resource) when { resource.sideEffects.contains(\"boom\") };\n\
    @id(\"events\") forbid (principal, action, resource) when { resource.auditEvent == \"bang\" };";

const CONTRACTS: &str = "
- { tool: mail:critical, riskLevel: critical }
- { tool: mail:secret, riskLevel: forbidden }
- { tool: mail:trial, riskLevel: low, operation: write, dryRun: required }
- { tool: mail:locked, riskLevel: low, operation: write, permissions: [mail:send] }
- { tool: mail:when, riskLevel: low, operation: write, stepUpAuth: { when: { required: [all] } } }
";

fn verdict(case: &Value) -> super::Verdict {
    let cases =
        parse("cases.json", &json!([case]).to_string()).unwrap_or_else(|mistakes| panic!("{case}: {mistakes:?}"));
    let policies = Policies::parse(&[("a.cedar".to_owned(), POLICIES.to_owned())]).unwrap();
    let contracts = Contracts::parse(&[("contracts/a.yaml".to_owned(), CONTRACTS.to_owned())]).unwrap();
    let server = ServerName::parse("known").unwrap();
    let listed = r#"{"name":"drop","inputSchema":{"required":["id"]},"annotations":{"destructiveHint":true}}"#;
    let offer = Offer::new([Offered::parse(&server, listed)]).0;
    let offers = with_bare_tools(&BTreeMap::from([(server, Arc::new(offer))]), &cases);
    let catalog = Catalog::default().next(offers, &Arc::new(contracts), &Arc::new(policies.clone()));
    run(&Rules { settings: Arc::new(Settings::default()), catalog }, &policies, &cases[0])
}

fn check(case: &Value, expected: Option<&str>, deciding: &[&str]) {
    let verdict = verdict(case);
    let found: Vec<&str> = verdict.deciding.iter().map(|one| one.policy.as_str()).collect();
    assert_eq!((verdict.failure.as_deref(), found.as_slice()), (expected, deciding), "{case}");
}

#[test]
fn cases_pass_and_fail() {
    let night = "03:00 sunday";
    check(&json!({"tool": "mail:send", "time": night, "expect": "deny"}), None, &["no-night-mail"]);
    check(&json!({"tool": "mail:send", "expect": "allow"}), None, &[]);
    check(
        &json!({"tool": "mail:send", "time": "2026-11-15T05:00:00+01:00", "expect": "deny", "rule": "no-night-mail"}),
        None,
        &["no-night-mail"],
    );
    check(
        &json!({"tool": "mail:send", "time": "2026-11-15T06:30:00Z", "expect": "allow"}),
        Some("expected allow, found deny policy_violation"),
        &["no-night-mail"],
    );
    check(&json!({"tool": "mail:send", "expect": "deny"}), Some("expected deny, found allow"), &[]);
    check(
        &json!({"tool": "mail:send", "expect": "deny", "policy": "no-bills"}),
        Some("expected deny, found allow"),
        &[],
    );
    check(
        &json!({"tool": "mail:send", "time": night, "expect": "deny", "policy": "no-bills"}),
        Some("expected deny by policy `no-bills`, found deny policy_violation by `no-night-mail`"),
        &["no-night-mail"],
    );
    check(
        &json!({"tool": "mail:send", "time": night, "expect": "deny", "policy": "no-night-mial"}),
        Some("there is no policy `no-night-mial`; did you mean `no-night-mail`?"),
        &["no-night-mail"],
    );
    let pay = json!({"name": "bank:pay", "category": "billing", "operation": "destructive"});
    check(&json!({"tool": pay, "expect": "deny"}), None, &["no-bills"]);
    check(&json!({"tool": pay, "variant": "write", "expect": "allow"}), None, &[]);
    check(&json!({"tool": pay, "agent": {"name": "x", "grants": ["billing:*"]}, "expect": "allow"}), None, &[]);
}

/// Each case through the whole decision: contracts, policies, annotations and the server's schema.
#[test]
fn contracts_and_policies_together() {
    let found = |case: Value| {
        let verdict = verdict(&case);
        assert_eq!(verdict.failure, None, "{case}: {:?}", verdict.why);
    };
    found(json!({"tool": "mail:send", "expect": "allow"}));
    found(json!({"tool": "mail:critical", "expect": "step_up"}));
    found(json!({"tool": "mail:secret", "expect": "not_found"}));
    found(json!({"tool": "mail:secret", "expect": "deny"}));
    found(json!({"tool": "mail:trial", "expect": "dry_run_required"}));
    found(json!({"tool": "mail:trial", "expect": "allow", "after_dry_run": true}));
    found(json!({"tool": "mail:trial", "expect": "allow", "dry_run": true}));
    found(json!({"tool": "mail:trial", "variant": "read", "expect": "deny contract_mismatch"}));
    found(json!({"tool": "mail:locked", "expect": "allow"}));
    found(json!({"tool": "mail:locked", "agent": {"grants": []}, "expect": "deny permission_denied"}));
    found(json!({"tool": "mail:locked", "agent": {"grants": ["mail:*"]}, "expect": "allow"}));
    found(json!({"tool": "mail:when", "expect": "allow", "args": {"one": 1}}));
    found(json!({"tool": "mail:when", "expect": "step_up", "args": {"all": true}}));
    found(json!({"tool": "mail:critical", "time": "03:00 sunday", "expect": "deny policy_violation",
                 "policy": "no-night-mail"}));
    // The list of this server is known: its annotations and schema count, and other names do not exist.
    found(json!({"tool": "known:drop", "args": {"id": 1}, "expect": "allow"}));
    found(json!({"tool": "known:drop", "expect": "deny invalid_arguments"}));
    found(json!({"tool": "known:drop", "variant": "write", "expect": "deny SERVER_MISMATCH"}));
    found(json!({"tool": "known:dorp", "expect": "not_found"}));
    // A description counts as the contract.
    found(json!({"tool": {"name": "bank:pay", "risk": "critical"}, "expect": "step_up"}));
    found(json!({"tool": {"name": "bank:pay", "risk": "high"}, "expect": "ask"}));
    found(json!({"tool": {"name": "bank:pay", "needs": ["dry_run"]}, "expect": "dry_run_required"}));
    found(json!({"tool": {"name": "bank:pay", "risk": "forbidden"}, "expect": "not_found"}));
    let described = |field: &str, value: Value| {
        let mut tool = json!({"name": "bank:pay", "risk": "low"});
        tool[field] = value;
        json!({"tool": tool, "expect": "deny policy_violation"})
    };
    found(described("sideEffects", json!(["boom"])));
    found(described("auditEvent", json!("bang")));
}

#[test]
fn a_failed_case_says_why() {
    let verdict = verdict(&json!({"tool": "mail:critical", "expect": "allow"}));
    assert_eq!(verdict.failure.as_deref(), Some("expected allow, found step_up"));
    assert!(verdict.why.contains(&"riskLevel: \"critical\" (operator, contracts/a.yaml:2)".to_owned()), "{verdict:?}");
}

#[test]
fn every_field_of_a_case_matters() {
    let whole = json!({
        "name": "all", "variant": "write", "sensitivity": "private", "reason": "r", "time": "2026-11-14T09:00:00Z",
        "agent": {"name": "robot", "grants": [], "operations": ["write"]},
        "tool": {
            "name": "bank:pay", "risk": "critical", "category": "c", "operation": "write", "permissions": ["p"],
            "sideEffects": ["s"], "needs": ["dry_run"], "auditEvent": "e", "hints": {"destructiveHint": true},
        },
        "expect": "deny", "policy": "all",
    });
    check(&whole, None, &["all"]);
    let lost = Some("expected deny, found allow");
    for (pointer, value) in [
        ("/sensitivity", json!("public")),
        ("/reason", json!(" ")),
        ("/time", json!("2026-11-16T09:00:00Z")),
        ("/agent/name", json!("user")),
        ("/agent/operations", json!(["read"])),
        ("/tool/risk", json!("high")),
        ("/tool/permissions", json!([])),
        ("/tool/sideEffects", json!([])),
        ("/tool/needs", json!(["step_up"])),
        ("/tool/auditEvent", json!("f")),
        ("/tool/hints/destructiveHint", json!(false)),
    ] {
        let mut changed = whole.clone();
        *changed.pointer_mut(pointer).unwrap() = value;
        check(&changed, lost, &[]);
    }
}

#[test]
fn mistakes_in_cases() {
    let check = |cases: &str, expected: &[&str]| {
        let mistakes = parse("cases.yaml", cases).unwrap_err();
        let found: Vec<String> = mistakes.iter().map(ToString::to_string).collect();
        assert_eq!(found, expected, "{cases}");
    };
    check("7", &["line 1, column 1: expected a list of cases, found number"]);
    check("cases: 7", &["line 1, column 8: expected array, found number"]);
    check("cases: []\nrules: 1", &["line 2, column 1: unknown key `rules`; known keys: `cases`"]);
    check("[7]", &["line 1, column 2: expected object, found number"]);
    check("- tool: a:b", &["line 1, column 3: `expect` is missing; write the decision, such as `expect: allow`"]);
    check(
        "- tool: a:b\n  expect: deny\n  policy: x\n  rule: x",
        &["line 4, column 3: `rule` and `policy` mean the same; remove one of them"],
    );
    check(
        "- expect: allow",
        &["line 1, column 3: `tool` is missing; write the tool to call, such as `tool: mail:send`"],
    );
    check(
        "- tool: b\n  expect: denied\n  agnt: {}\n  time: noon\n  variant: raed\n  rule: 1",
        &[
            "line 1, column 9: expected server:tool",
            "line 2, column 11: expected `allow`, `ask`, `step_up`, `dry_run_required`, `not_found`, `deny` or `deny CODE`",
            "line 3, column 3: unknown key `agnt`; did you mean `agent`?",
            "line 4, column 9: expected a time such as `2026-11-15T03:00:00+01:00` or `03:00 sunday`",
            "line 5, column 12: unknown value `raed`; write one of `read`, `write`, `destructive`",
            "line 6, column 9: expected string, found number; put it in quotes",
        ],
    );
    check(
        "- tool:\n    name: a:b\n    risk: huge\n    needs: [x]\n    permissions: p\n    hints: { readOnlyHint: 1 }\n  \
         agent: { operations: [eat] }\n  expect: allow\n  rule: x",
        &[
            "line 3, column 11: unknown value `huge`; write one of `low`, `medium`, `high`, `critical`, `forbidden`",
            "line 4, column 13: unknown value `x`; write one of `confirmation`, `step_up`, `dry_run`",
            "line 5, column 18: expected array, found string",
            "line 6, column 28: expected boolean, found number",
            "line 7, column 25: unknown value `eat`; write one of `read`, `write`, `destructive`",
            "line 9, column 3: `rule` requires `expect: deny`; remove one of them",
        ],
    );
}
