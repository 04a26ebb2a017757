//! Tests of policies, tested.

use serde_json::{Value, json};

use super::*;
use crate::policy::cases::{parse, run};

const POLICIES: &str = "@id(\"no-night-mail\") @message(\"No mail at night\")\n\
    forbid (principal, action, resource in Server::\"mail\") when { context.time.hour < 7 };\n\
    @id(\"no-bills\") forbid (principal, action == Action::\"destructive\", resource in Category::\"billing\")\n\
    unless { principal.grants.contains(\"billing:*\") };\n\
    @id(\"all\") forbid (principal == Agent::\"robot\", action, resource) when { principal.operations.contains(\"write\") \
    && resource.hasContract && resource.riskRank > 3 && resource.needs.contains(\"dry_run\") && context.hasReason \
    && resource.permissions.contains(\"p\") && resource.sideEffects.contains(\"s\") && resource.auditEvent == \"e\" \
    && context.sensitivity == \"private\" && resource.destructiveHint && context.now < datetime(\"2026-11-15\") };";

fn position(pointer: &str) -> (usize, usize) {
    (10 + pointer.len(), pointer.matches('/').count())
}

fn check(case: &Value, expected: Option<&str>, deciding: &[&str]) {
    let cases = parse(&json!([case]), &position).unwrap_or_else(|mistakes| panic!("{case}: {mistakes:?}"));
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
        Some("expected allow, but the call is refused by `no-night-mail`"),
        &["no-night-mail"],
    );
    check(
        &json!({"tool": "mail:send", "expect": "deny"}),
        Some("expected a refusal, but no policy refuses the call"),
        &[],
    );
    check(
        &json!({"tool": "mail:send", "expect": "deny", "rule": "no-bills"}),
        Some("expected a refusal by `no-bills`, but no policy refuses the call"),
        &[],
    );
    check(
        &json!({"tool": "mail:send", "time": night, "expect": "deny", "rule": "no-bills"}),
        Some("expected a refusal by `no-bills`, but the call is refused by `no-night-mail`"),
        &["no-night-mail"],
    );
    check(
        &json!({"tool": "mail:send", "expect": "deny", "rule": "no-night-mial"}),
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
        "expect": "deny", "rule": "all",
    });
    check(&whole, None, &["all"]);
    let lost = Some("expected a refusal by `all`, but no policy refuses the call");
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
    let check = |cases: Value, expected: &[&str]| {
        let found: Vec<String> = parse(&cases, &position).unwrap_err().iter().map(ToString::to_string).collect();
        assert_eq!(found, expected, "{cases}");
    };
    check(json!(7), &["line 10, column 0: expected a list of cases"]);
    check(json!({"cases": 7}), &["line 16, column 1: expected a list of cases"]);
    check(json!({"cases": [], "rules": 1}), &["line 16, column 1: `rules` is not known here"]);
    check(
        json!([7]),
        &["line 12, column 1: expected name, agent, tool, variant, sensitivity, reason, time, expect, rule"],
    );
    check(json!([{"tool": "a:b"}]), &["line 12, column 1: a case needs `expect`: allow or deny"]);
    check(
        json!([{"expect": "allow"}]),
        &[
            "line 17, column 2: expected name, risk, category, operation, permissions, sideEffects, needs, auditEvent, hints",
        ],
    );
    check(
        json!([{"tool": "b", "expect": "denied", "agnt": {}, "time": "noon", "variant": "raed", "rule": 1}]),
        &[
            "line 17, column 2: `agnt` is not known here; did you mean `agent`?",
            "line 17, column 2: `tool.name`: expected server:tool",
            "line 20, column 2: `variant` is one of read, write, destructive",
            "line 17, column 2: `time` is written 2026-11-15T03:00:00+01:00, or 03:00 sunday",
            "line 19, column 2: `expect` is one of allow, deny",
            "line 17, column 2: `rule` is a text",
        ],
    );
    let tool = json!({"name": "a:b", "risk": "huge", "needs": ["x"], "permissions": "p", "hints": {"readOnlyHint": 1}});
    check(
        json!([{"tool": tool, "agent": {"operations": ["eat"]}, "expect": "allow", "rule": "x"}]),
        &[
            "line 36, column 4: `readOnlyHint` is true or false",
            "line 23, column 3: `x` is not one of confirmation, step_up, dry_run",
            "line 22, column 3: `risk` is one of low, medium, high, critical, forbidden",
            "line 29, column 3: `permissions` is a list of texts",
            "line 29, column 3: operations are read, write, destructive",
            "line 17, column 2: `rule` goes with expect: deny",
        ],
    );
}
