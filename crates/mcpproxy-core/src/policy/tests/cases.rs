//! Tests for the policy test cases.

use serde_json::{Value, json};

use super::policies;
use crate::policy::cases::{parse, run};

const POLICIES: &str = "@id(\"no-night-mail\") @message(\"No mail at night\")\n\
    forbid (principal, action, resource in Server::\"mail\") when { context.time.hour < 7 };\n\
    @id(\"no-bills\") forbid (principal, action == Action::\"destructive\", resource in Category::\"billing\")\n\
    unless { principal.grants.contains(\"billing:*\") };\n\
    @id(\"all\") forbid (principal == Agent::\"robot\", action, resource) when { principal.operations.contains(\"write\") \
    && resource.hasContract && resource.riskRank > 3 && resource.needs.contains(\"dry_run\") && context.hasReason \
    && resource.permissions.contains(\"p\") && resource.sideEffects.contains(\"s\") && resource.auditEvent == \"e\" \
    && context.sensitivity == \"private\" && resource.destructiveHint && context.now < datetime(\"2026-11-15\") };";

fn check(case: &Value, expected: Option<&str>, deciding: &[&str]) {
    let cases =
        parse("cases.json", &json!([case]).to_string()).unwrap_or_else(|mistakes| panic!("{case}: {mistakes:?}"));
    let verdict = run(&policies(POLICIES), &cases[0]);
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
        Some("expected allow, but it is forbidden by `no-night-mail`"),
        &["no-night-mail"],
    );
    check(
        &json!({"tool": "mail:send", "expect": "deny"}),
        Some("expected the call to be forbidden, but no policy forbids it"),
        &[],
    );
    check(
        &json!({"tool": "mail:send", "expect": "deny", "policy": "no-bills"}),
        Some("expected the call to be forbidden by `no-bills`, but no policy forbids it"),
        &[],
    );
    check(
        &json!({"tool": "mail:send", "time": night, "expect": "deny", "policy": "no-bills"}),
        Some("expected the call to be forbidden by `no-bills`, but it is forbidden by `no-night-mail`"),
        &["no-night-mail"],
    );
    check(
        &json!({"tool": "mail:send", "expect": "deny", "policy": "no-night-mial"}),
        Some("there is no policy `no-night-mial`; did you mean `no-night-mail`?"),
        &[],
    );
    let pay = json!({"name": "bank:pay", "category": "billing", "operation": "destructive"});
    check(&json!({"tool": pay, "expect": "deny"}), None, &["no-bills"]);
    check(&json!({"tool": pay, "variant": "write", "expect": "allow"}), None, &[]);
    check(&json!({"tool": pay, "agent": {"name": "x", "grants": ["billing:*"]}, "expect": "allow"}), None, &[]);
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
    let lost = Some("expected the call to be forbidden by `all`, but no policy forbids it");
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
    check("- tool: a:b", &["line 1, column 3: `expect` is missing; write `allow` or `deny`"]);
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
            "line 2, column 11: unknown value `denied`; write one of `allow`, `deny`",
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
