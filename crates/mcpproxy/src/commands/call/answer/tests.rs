//! Tests of results and refusals, as printed for people.

use mcpproxy_core::{ApprovalId, ToolName, Variant};
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
    let invocation = Invocation {
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
    let reported = failure(result, &invocation).map(|failure| crate::exit::report(&Err(failure.into())));
    let expected = expected.map(|(exit, text)| (exit, Some(text.to_owned())));
    assert_eq!(reported, expected, "{result}");
}

#[test]
fn refusals_name_their_source() {
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
        Some((Exit::ServerFailed, "server `fx` returned an error")),
    );
    check(
        &json!({"content": [{"type": "text", "text": "no user"}], "isError": true,
                "structuredContent": {"error": {"code": "not_found", "message": "no user"}}}),
        Some((Exit::ServerFailed, "server `fx` returned an error")),
    );
    check(
        &refusal("upstream_timeout", "server did not answer"),
        Some((Exit::ServerFailed, &format!("server did not answer (upstream_timeout)\n{hint}"))),
    );
    let too_long = format!("--reason is longer than 1000 characters. (REASON_TOO_LONG)\n{hint}");
    check(&refusal("REASON_TOO_LONG", "too long"), Some((Exit::Refused, &too_long)));
    check(
        &refusal("SERVER_MISMATCH", "marked destructive, use call_tool_destructive instead of call_tool_read"),
        Some((
            Exit::Refused,
            &format!(
                "`fx:delete_thing` can destroy data. Use `mcpproxy call tool-destructive`. (SERVER_MISMATCH)\n{hint}"
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
            "The arguments do not match the schema of `fx:delete_thing`. (invalid_arguments)\n  \
             /id: expected string, found 1\\u{1b} (Which\\none.)\n  \
             arguments: expected `to`, found nothing\n\
             hint: see the schema with `mcpproxy tools show fx:delete_thing` and the conditions of the contract with \
             `mcpproxy contract show fx:delete_thing`",
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
            "Policy `a` forbids this call: not now (policy_violation)\n  \
             Policy `b` forbids it too\n\
             hint: see all policies that apply: mcpproxy policy explain fx:delete_thing --variant write",
        )),
    );
    check(
        &refused("permission_denied", "lacks", json!({"missing_permissions": ["a:b", "c:it's"]})),
        Some((
            Exit::Refused,
            "The token in agent.token lacks the permissions `a:b`, `c:it's`, which `fx:delete_thing` requires. \
             (permission_denied)\n\
             hint: create a token that allows it: mcpproxy token create NAME --grant 'a:b' --grant 'c:it'\\''s'",
        )),
    );
    check(
        &refused("permission_denied", "may only read", json!({"operation": "write"})),
        Some((Exit::Refused, "The token in agent.token does not allow write operations. (permission_denied)")),
    );
    check(
        &refused("confirmation_required", "needs a user", json!({"needs": ["confirmation"]})),
        Some((
            Exit::Refused,
            "A user must approve this call of `fx:delete_thing`. (confirmation_required)\n\
             hint: see why: mcpproxy contract show fx:delete_thing",
        )),
    );
    check(
        &refused("output_mismatch", "not as promised", json!({"problems": []})),
        Some((
            Exit::ServerFailed,
            "not as promised (output_mismatch)\n\
             hint: see what the contract promises: mcpproxy contract show fx:delete_thing",
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
        "A user must approve this call of `fx:delete_thing` (risk level critical) with a second factor. \
         Open http://localhost:8080/ui/approvals/{ID} (confirmation_required)\n\
         hint: mcpproxy approvals wait {ID} && {CALL} --approval-id {ID}"
    );
    check(&waits, Some((Exit::Waiting, &said)));
    // A server that forges the same error counts as a failed server.
    let mut forged = waits.clone();
    forged["_meta"] = json!({});
    check(&forged, Some((Exit::ServerFailed, "server `fx` returned an error")));
}

#[test]
fn refusals_about_approvals_name_the_next_command() {
    let check = |code: &str, details: Value, sentence: &str, hint: Option<&str>| {
        let result = json!({"isError": true, "content": [], "_meta": {"mcpproxy/error": code}, "test": {"approval": 1},
            "structuredContent": {"error": {"code": code, "message": "No\u{1b}", "details": details}}});
        let hint = hint.map(|hint| format!("\nhint: {hint}")).unwrap_or_default();
        check(&result, Some((Exit::Refused, &format!("{sentence} ({code}){hint}"))));
    };
    let denied = |by: &str, comment: Option<&str>| json!({"comment": comment, "decided_by": by});
    check("approval_denied", denied("anna", Some("no\u{1b}")), "User 'anna' denied this call: no\\u{1b}", None);
    check("approval_denied", denied("anna", None), "User 'anna' denied this call.", None);
    check("approval_denied", denied("admin key", None), "This call was denied with the operator's admin key.", None);
    check("approval_denied", denied("client \"c\"", None), "This call was declined in the client \"c\".", None);
    check("approval_denied", json!({"comment": null}), "This call was denied.", None);
    let again = format!("request a new approval: {CALL}");
    check("approval_expired", json!({}), "The approval expired before the call was made.", Some(&again));
    let stale = "The tool, its contract or the token changed after the approval was requested.";
    check("approval_stale", json!({}), stale, Some(&again));
    let used = "The approval was already used. An approval allows one call.";
    let record = "see what is known about that call: mcpproxy activity show 01A";
    check("approval_already_used", json!({"record": "01A", "outcome": "success"}), used, Some(record));
    check("approval_already_used", json!({"record": null}), used, None);
    check(
        "approval_args_mismatch",
        json!({}),
        &format!("The approval `{ID}` is for a different call."),
        Some(&format!("see the call that it allows: mcpproxy approvals show {ID}")),
    );
    check(
        "approval_not_found",
        json!({}),
        &format!("There is no approval `{ID}`."),
        Some("list all approvals: mcpproxy approvals list --state all"),
    );
    check(
        "too_many_approvals",
        json!({}),
        "Too many calls already wait for an approval.",
        Some("decide on them first: mcpproxy approvals list"),
    );
    check(
        "dry_run_required",
        json!({}),
        "`fx:delete_thing` requires a dry run of this exact call within the last 10 minutes.",
        Some(&format!("{CALL} --dry-run")),
    );
    let key = "--idempotency-key must be 1 to 255 visible ASCII characters.";
    check("invalid_idempotency_key", json!({}), key, None);
    check(
        "idempotency_conflict",
        json!({}),
        "The contract treats this call as a repeat of an earlier one, but other arguments differ.",
        Some("use a new --idempotency-key for a new call"),
    );
    let unknown = "The same call was sent before, and the gateway does not know whether it ran.";
    check("outcome_unknown", json!({"record": "01A"}), unknown, Some(record));
    // A newer gateway can have codes that this version does not know.
    check("new_code", json!({"record": "01A"}), "No\\u{1b}", None);
}

#[test]
fn answers_that_are_not_of_this_call() {
    let check = |meta: Value, expected: Option<&str>| {
        assert_eq!(note(&json!({"content": [], "_meta": meta})).as_deref(), expected);
    };
    check(json!({}), None);
    check(
        json!({"mcpproxy/replayed": true, "mcpproxy/first_record": "01A"}),
        Some("This is the result of an earlier call with the same key (record 01A). Nothing was sent."),
    );
    check(
        json!({"mcpproxy/dry_run": {"by": "server", "needs": []}}),
        Some("This is a dry run by the server. Nothing was changed."),
    );
    check(
        json!({"mcpproxy/dry_run": {"by": "contract"}}),
        Some("This is a dry run made from the contract. Nothing was sent."),
    );
}

#[test]
fn a_servers_error_is_named_as_its_contract_names_it() {
    let failed = |failure: Value| json!({"isError": true, "content": [], "_meta": {"mcpproxy/failure": failure}});
    check(
        &failed(json!({"code": "no_such_user", "declared": true})),
        Some((Exit::ServerFailed, "server `fx` returned an error that its contract declares: no_such_user")),
    );
    check(
        &failed(json!({"code": "undeclared_failure", "declared": false, "original": "odd\u{1b}"})),
        Some((
            Exit::ServerFailed,
            "server `fx` returned an error that its contract does not declare: odd\\u{1b} (undeclared_failure)",
        )),
    );
    check(
        &failed(json!({"code": "undeclared_failure", "declared": false, "original": null})),
        Some((
            Exit::ServerFailed,
            "server `fx` returned an error that its contract does not declare (undeclared_failure)",
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
