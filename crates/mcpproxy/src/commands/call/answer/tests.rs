//! Answers, and what people are told of them.

use mcpproxy_core::ToolName;
use serde_json::json;

use super::super::Sensitivity;
use super::*;
use crate::home::Home;

const ID: &str = "01HF7YAT00ZZZZZZZZZZZZZZZZ";
const CALL: &str = "mcpproxy call tool-write fx:delete_thing --args '{\"a\": \"it'\\''s\"}' --sensitivity private \
                    --reason 'because'";

fn check(result: &Value, expected: Option<(Exit, &str)>) {
    let home = Home::resolve(None).unwrap();
    let tool = ToolName::parse("fx:delete_thing").unwrap();
    let id = ApprovalId::parse(ID).unwrap();
    let asked = Asked {
        home: &home,
        tool: &tool,
        variant: Variant::Write,
        args: Some("{\"a\": \"it's\"}"),
        sensitivity: Some(Sensitivity::Private),
        reason: Some("because"),
        dry_run: false,
        idempotency_key: None,
        approval: Some(&id).filter(|_| result.pointer("/test/approval").is_some()),
    };
    let reported = failure(result, &asked).map(|failure| crate::exit::report(&Err(failure.into())));
    let expected = expected.map(|(exit, text)| (exit, Some(text.to_owned())));
    assert_eq!(reported, expected, "{result}");
}

#[test]
fn who_said_no() {
    let refusal = |code: &str, message: &str| {
        json!({"isError": true, "content": [{"type": "text", "text": message}],
               "structuredContent": {"error": {"code": code, "message": message,
                                               "details": {"call_with": "call_tool_destructive"}}},
               "_meta": {"mcpproxy/error": code}})
    };
    let hint = "hint: mcpproxy call tool-destructive fx:delete_thing --args '{\"a\": \"it'\\''s\"}' \
                --sensitivity private --reason 'because'";
    check(&json!({"content": []}), None);
    check(&json!({"content": [], "isError": false}), None);
    check(
        &json!({"content": [{"type": "text", "text": "no"}], "isError": true}),
        Some((Exit::ServerFailed, "server `fx` reports an error")),
    );
    check(
        &json!({"content": [{"type": "text", "text": "no user"}], "isError": true,
                "structuredContent": {"error": {"code": "not_found", "message": "no user"}}}),
        Some((Exit::ServerFailed, "server `fx` reports an error")),
    );
    check(
        &refusal("upstream_timeout", "server did not answer"),
        Some((Exit::ServerFailed, &format!("server did not answer (upstream_timeout)\n{hint}"))),
    );
    let too_long = format!("too long (REASON_TOO_LONG)\n{hint}");
    check(&refusal("REASON_TOO_LONG", "too long"), Some((Exit::Refused, &too_long)));
    check(
        &refusal("SERVER_MISMATCH", "marked destructive, use call_tool_destructive instead of call_tool_read"),
        Some((
            Exit::Refused,
            &format!(
                "marked destructive, use call_tool_destructive instead of call_tool_read (SERVER_MISMATCH)\n{hint}"
            ),
        )),
    );
}

#[test]
fn refusals_say_what_to_do() {
    let refused = |code: &str, message: &str, details: Value| {
        json!({"isError": true, "content": [{"type": "text", "text": message}],
               "structuredContent": {"error": {"code": code, "message": message, "details": details}},
               "_meta": {"mcpproxy/error": code}})
    };
    check(
        &refused(
            "invalid_arguments",
            "Invalid arguments for 'fx:delete_thing': /id: expected string, found 1; arguments: …",
            json!({"problems": [
                {"pointer": "/id", "expected": "string", "found": "1\u{1b}", "description": "Which\none."},
                {"pointer": "", "expected": "`to`", "found": "nothing", "description": null},
            ]}),
        ),
        Some((
            Exit::Refused,
            "Invalid arguments for 'fx:delete_thing' (invalid_arguments)\n  \
             /id: expected string, found 1\\u{1b} (Which\\none.)\n  \
             the whole: expected `to`, found nothing\n\
             hint: `mcpproxy tools show fx:delete_thing` has the schema, `mcpproxy contract show fx:delete_thing` what a \
             contract adds",
        )),
    );
    check(
        &refused(
            "policy_violation",
            "Tool 'fx:delete_thing' is refused by policy 'a': not now",
            json!({"rule": "a", "rules": [{"rule": "a", "message": "not now"}, {"rule": "b", "message": null}]}),
        ),
        Some((
            Exit::Refused,
            "Tool 'fx:delete_thing' is refused by policy 'a': not now (policy_violation)\n  \
             also refused by policy 'b'\n\
             hint: the policies that were looked at: mcpproxy policy explain fx:delete_thing --variant write",
        )),
    );
    check(
        &refused("permission_denied", "lacks", json!({"missing_permissions": ["a:b", "c:it's"]})),
        Some((
            Exit::Refused,
            "lacks (permission_denied)\n\
             hint: a token that has them: mcpproxy token create NAME --grant 'a:b' --grant 'c:it'\\''s'",
        )),
    );
    check(
        &refused("permission_denied", "may only read", json!({"operation": "write"})),
        Some((Exit::Refused, "may only read (permission_denied)")),
    );
    check(
        &refused("confirmation_required", "needs a user", json!({"needs": ["confirmation"]})),
        Some((
            Exit::Refused,
            "needs a user (confirmation_required)\n\
             hint: `mcpproxy contract show fx:delete_thing` shows who asks for this",
        )),
    );
    check(
        &refused("output_mismatch", "not as promised", json!({"problems": []})),
        Some((
            Exit::ServerFailed,
            "not as promised (output_mismatch)\n\
             hint: `mcpproxy contract show fx:delete_thing` shows who asks for this",
        )),
    );
}

#[test]
fn a_user_is_waited_for() {
    let details = json!({
        "tool": "fx:delete_thing", "risk_level": "critical", "needs": ["confirmation", "step_up"], "approval_id": ID,
        "approve_url": format!("http://localhost:8080/ui/approvals/{ID}"), "expires_at": "2026-01-01T00:00:00Z",
    });
    let waits = json!({"isError": true, "content": [], "_meta": {"mcpproxy/error": "confirmation_required"},
        "structuredContent": {"error": {"code": "confirmation_required", "message": "…", "details": details}}});
    let said = format!(
        "a person must approve this call of 'fx:delete_thing' (risk level critical) with a fresh second factor: \
         http://localhost:8080/ui/approvals/{ID} (confirmation_required)\n\
         hint: mcpproxy approvals wait {ID} && {CALL} --approval-id {ID}"
    );
    check(&waits, Some((Exit::Waiting, &said)));
    // A server that says the same is a server that failed.
    let mut forged = waits.clone();
    forged["_meta"] = json!({});
    check(&forged, Some((Exit::ServerFailed, "server `fx` reports an error")));
}

#[test]
fn what_follows_from_a_users_word() {
    let check = |code: &str, details: Value, hint: Option<&str>| {
        let result = json!({"isError": true, "content": [], "_meta": {"mcpproxy/error": code}, "test": {"approval": 1},
            "structuredContent": {"error": {"code": code, "message": "No\u{1b}", "details": details}}});
        let hint = hint.map(|hint| format!("\nhint: {hint}")).unwrap_or_default();
        check(&result, Some((Exit::Refused, &format!("No\\u{{1b}} ({code}){hint}"))));
    };
    check("approval_denied", json!({"comment": "no"}), None);
    check("approval_expired", json!({}), Some(&format!("ask again: {CALL}")));
    check("approval_stale", json!({}), Some(&format!("ask again: {CALL}")));
    check(
        "approval_already_used",
        json!({"record": "01A", "outcome": "success"}),
        Some("mcpproxy activity show 01A shows what is known of it"),
    );
    check("approval_already_used", json!({"record": null}), None);
    check("approval_args_mismatch", json!({}), Some(&format!("mcpproxy approvals show {ID} shows the call it is for")));
    check("approval_not_found", json!({}), Some("mcpproxy approvals list --state all shows all there are"));
    check("too_many_approvals", json!({}), Some("decide on some of them: mcpproxy approvals list"));
    check("dry_run_required", json!({}), Some(&format!("{CALL} --dry-run")));
    check("invalid_idempotency_key", json!({}), None);
    check("idempotency_conflict", json!({}), Some("give another call another --idempotency-key"));
    check("outcome_unknown", json!({"record": "01A"}), Some("mcpproxy activity show 01A shows what is known of it"));
}

#[test]
fn answers_that_are_not_of_this_call() {
    let check = |meta: Value, expected: Option<&str>| {
        assert_eq!(note(&json!({"content": [], "_meta": meta})).as_deref(), expected);
    };
    check(json!({}), None);
    check(
        json!({"mcpproxy/replayed": true, "mcpproxy/first_record": "01A"}),
        Some("this call was made before, and this is its answer (record 01A); nothing was sent"),
    );
    check(
        json!({"mcpproxy/dry_run": {"by": "server", "needs": []}}),
        Some("a dry run, made by the server itself; nothing was changed"),
    );
    check(json!({"mcpproxy/dry_run": {"by": "contract"}}), Some("a dry run, made from the contract; nothing was sent"));
}

#[test]
fn a_servers_error_is_named_as_its_contract_names_it() {
    let failed = |failure: Value| json!({"isError": true, "content": [], "_meta": {"mcpproxy/failure": failure}});
    check(
        &failed(json!({"code": "no_such_user", "declared": true})),
        Some((Exit::ServerFailed, "server `fx` reports an error: no_such_user, as its contract declares")),
    );
    check(
        &failed(json!({"code": "undeclared_failure", "declared": false, "original": "odd\u{1b}"})),
        Some((
            Exit::ServerFailed,
            "server `fx` reports an error that its contract does not declare: odd\\u{1b} (undeclared_failure)",
        )),
    );
    check(
        &failed(json!({"code": "undeclared_failure", "declared": false, "original": null})),
        Some((
            Exit::ServerFailed,
            "server `fx` reports an error that its contract does not declare (undeclared_failure)",
        )),
    );
}

#[test]
fn content_for_people() {
    let check = |result: Value, expected: &str| assert_eq!(text(&result), expected);
    check(
        json!({"content": [{"type": "text", "text": "a\n\u{1b}[2Jb\n"}, {"type": "image", "mimeType": "image/png", "data": "AAAA"}]}),
        "a\n\\u{1b}[2Jb\n[image image/png, 4 characters of Base64; -o json has them]\n",
    );
    check(json!({"structuredContent": {"a": 1}}), "{\n  \"a\": 1\n}");
    check(json!({"content": [{"type": "new", "x": 1}]}), "{\"type\":\"new\",\"x\":1}\n");
    check(json!({}), "");
}
