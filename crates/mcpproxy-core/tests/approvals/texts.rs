//! Tests for the exact texts that agents get about approvals, dry runs and repeats.

use mcpproxy_core::settings::TwoKey;
use mcpproxy_core::{ApprovalId, Denial, Retry, RiskLevel, Ticket, ToolName, Untrusted, Variant, declare};
use serde_json::{Value, json};

use super::{ID, NOW_MS, World};

fn tool() -> ToolName {
    ToolName::parse("mail:send").unwrap()
}

fn check(denial: &Denial, code: &str, message: &str, details: &Value) {
    assert_eq!((denial.code(), denial.message().as_str(), &denial.details()), (code, message, details));
    assert!(!denial.is_malformed());
}

#[test]
fn confirmation_with_a_way_to_come_back() {
    let approval = Ticket {
        id: ApprovalId::parse(ID).unwrap(),
        url: format!("http://localhost:8080/ui/approvals/{ID}"),
        expires_ms: NOW_MS,
        side_effects: vec![Untrusted::new("An email is sent.")],
        retry: Retry::WithId,
        has_users: true,
    };
    let asked = Denial::ConfirmationRequired {
        tool: tool(),
        risk: Some(RiskLevel::Critical),
        needs_step_up: true,
        approval: Some(Box::new(approval.clone())),
    };
    check(
        &asked,
        "confirmation_required",
        "Tool 'mail:send' (risk level critical) needs a user's confirmation with a fresh second factor. A person must approve \
         this. Ask the user to open http://localhost:8080/ui/approvals/01M7FFDZNC0000A0000000000B. Then repeat exactly this call \
         with approval_id=01M7FFDZNC0000A0000000000B. Do not change the arguments.",
        &json!({
            "tool": "mail:send",
            "risk_level": "critical",
            "needs": ["confirmation", "step_up"],
            "approval_id": ID,
            "approve_url": "http://localhost:8080/ui/approvals/01M7FFDZNC0000A0000000000B",
            "expires_at": "2027-01-15T08:00:00.000Z",
            "side_effects": ["An email is sent."],
            "retry": {"same_call": true, "add": {"approval_id": ID}},
        }),
    );
    let nobody = Ticket { has_users: false, ..approval.clone() };
    let nobody = Denial::ConfirmationRequired {
        tool: tool(),
        risk: None,
        needs_step_up: false,
        approval: Some(Box::new(nobody)),
    };
    assert_eq!(
        nobody.message(),
        "Tool 'mail:send' needs a user's confirmation. A person must approve this. Nobody can yet: the user becomes the first \
         who can with the one-time link that the gateway prints with this question, in the terminal of `mcpproxy serve` or in the \
         client's log of `mcpproxy stdio`. Ask the user to open http://localhost:8080/ui/approvals/01M7FFDZNC0000A0000000000B. Then \
         repeat exactly this call with approval_id=01M7FFDZNC0000A0000000000B. Do not change the arguments."
    );
    assert_eq!(nobody.details()["nobody_can_approve"], true);
    let world = World::default();
    check(
        &world.approval_request().unanswered(),
        "confirmation_required",
        "Tool 'fx:t' (risk level high) needs a user's confirmation; a call asks for it",
        &json!({"tool": "fx:t", "risk_level": "high", "needs": ["confirmation"]}),
    );
    let waiting = world.approval_request().waiting(approval.clone());
    assert!(matches!(waiting, Denial::ConfirmationRequired { approval: Some(ticket), .. } if *ticket == approval));
}

#[test]
fn answers_of_users() {
    check(
        &Denial::ApprovalDenied { comment: None },
        "approval_denied",
        "A user denied this call; do not repeat it, and ask the user what to do instead",
        &json!({"comment": null}),
    );
    check(
        &Denial::ApprovalDenied { comment: Some(Untrusted::new("Not on Friday.\u{1b}[2J")) },
        "approval_denied",
        "A user denied this call and says: \"Not on Friday.\\u{1b}[2J\". Do not repeat it as it is",
        &json!({"comment": "Not on Friday.\u{1b}[2J"}),
    );
    check(
        &Denial::ApprovalExpired,
        "approval_expired",
        "The approval expired before the call was made; repeat the call without approval_id to ask again",
        &json!({}),
    );
    check(
        &Denial::ApprovalAlreadyUsed { record: Some("01R".to_owned()), outcome: Some("success".to_owned()) },
        "approval_already_used",
        "The approval was used already, for one call (record 01R), which ended as success; an approval is good for one call, so \
         repeat it without approval_id to ask for another",
        &json!({"record": "01R", "outcome": "success"}),
    );
    check(
        &Denial::NoSuchApproval,
        "approval_not_found",
        "There is no approval with this approval_id; repeat the call without approval_id to ask for one",
        &json!({}),
    );
    check(
        &Denial::ApprovalArgsMismatch,
        "approval_args_mismatch",
        "The approval is for another call; repeat exactly the call it was given for, or make this one without approval_id to ask \
         for it",
        &json!({}),
    );
    check(
        &Denial::ApprovalStale,
        "approval_stale",
        "The tool, its contract or your permissions changed since a user was asked; repeat the call without approval_id to ask \
         again",
        &json!({}),
    );
    check(
        &Denial::TooManyApprovals { most: 20 },
        "too_many_approvals",
        "20 of your calls wait for a user already, or you have asked too often in the last 10 minutes; ask the user to decide on them before you make more",
        &json!({"pending_max": 20}),
    );
}

#[test]
fn dry_runs_and_repeats() {
    check(
        &Denial::DryRunRequired { tool: tool(), next: json!({"a": 1}) },
        "dry_run_required",
        "Tool 'mail:send' needs a dry run of exactly this call in the 10 minutes before it; make the same call with dry_run: true, \
         read its answer, then repeat this one",
        &json!({"tool": "mail:send", "next": {"a": 1}}),
    );
    check(
        &Denial::IdempotencyConflict { tool: tool(), is_natural: false },
        "idempotency_conflict",
        "This idempotency_key was used for 'mail:send' before, with other arguments; use a new key for a new call",
        &json!({"tool": "mail:send"}),
    );
    check(
        &Denial::IdempotencyConflict { tool: tool(), is_natural: true },
        "idempotency_conflict",
        "By its contract, 'mail:send' takes this for a repeat of an earlier call, but other arguments differ; repeat that call \
         exactly, or give this one an idempotency_key of its own",
        &json!({"tool": "mail:send"}),
    );
    check(
        &Denial::OutcomeUnknown { tool: tool(), record: "01R".to_owned() },
        "outcome_unknown",
        "This call of 'mail:send' was made before (record 01R), and nobody knows whether it ran, so it is not sent again. Find out \
         whether it ran and tell the user; if it did not, call again with a new idempotency_key",
        &json!({"tool": "mail:send", "record": "01R"}),
    );
}

#[test]
fn the_parameters_of_a_call() {
    let declared = |parameters: &str| {
        let parameters = format!("{{\"name\":\"fx:t\"{parameters}}}");
        match declare(Variant::Read, &parameters, TwoKey::Optional) {
            Ok(declared) => format!(
                "{:?} {} {}",
                declared.mode,
                declared.idempotency_key.as_deref().unwrap_or("-"),
                declared.approval.as_ref().map_or("-", ApprovalId::as_str)
            ),
            Err(denial) => format!("{}: {}", denial.code(), denial.message()),
        }
    };
    let check = |parameters: &str, expected: &str| assert_eq!(declared(parameters), expected, "{parameters}");
    let bad_key = "invalid_idempotency_key: idempotency_key must be 1–255 visible ASCII characters";
    let no_approval = "approval_not_found: There is no approval with this approval_id; repeat the call without approval_id to ask \
                       for one";
    check("", "Real - -");
    check(r#","dry_run":false"#, "Real - -");
    check(r#","dry_run":true"#, "DryRun - -");
    check(r#","dry_run":"true""#, "invalid_field: dry_run must be true or false");
    check(r#","dry_run":null"#, "invalid_field: dry_run must be true or false");
    check(r#","dryRun":true"#, "unknown_field: unknown field \"dryRun\"; did you mean \"dry_run\"?");
    check(r#","idempotency_key":"!~""#, "Real !~ -");
    check(&format!(",\"idempotency_key\":\"{}\"", "k".repeat(255)), &format!("Real {} -", "k".repeat(255)));
    check(&format!(",\"idempotency_key\":\"{}\"", "k".repeat(256)), bad_key);
    for bad in ["", "a b", " ", "é", "a\\nb", "a\\u0000", "a\\u007f"] {
        check(&format!(",\"idempotency_key\":\"{bad}\""), bad_key);
    }
    check(r#","idempotency_key":7"#, "invalid_field: idempotency_key must be a string");
    check(&format!(",\"approval_id\":\"{ID}\""), &format!("Real - {ID}"));
    check(&format!(",\"approval_id\":\"{}\"", ID.to_lowercase()), &format!("Real - {ID}"));
    check(r#","approval_id":"x""#, no_approval);
    check(r#","approval_id":"""#, no_approval);
    check(r#","approval_id":7"#, "invalid_field: approval_id must be a string");
}
