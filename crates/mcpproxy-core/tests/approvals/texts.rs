//! Texts for agents about users, dry runs and repeats, word for word.

use mcpproxy_core::settings::TwoKey;
use mcpproxy_core::{
    ApprovalId, Approvers, Denial, DeniedBy, FirstOutcome, Retry, RiskLevel, Ticket, ToolName, Untrusted, Variant,
    declare,
};
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
        approvers: Approvers::Ready,
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
        "A user must approve this call of 'mail:send' (risk level critical) with a fresh second factor. Ask the user to open \
         http://localhost:8080/ui/approvals/01M7FFDZNC0000A0000000000B. Then repeat exactly this call with \
         approval_id=01M7FFDZNC0000A0000000000B. Do not change the arguments.",
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
    let without = |approvers: Approvers| Denial::ConfirmationRequired {
        tool: tool(),
        risk: None,
        needs_step_up: false,
        approval: Some(Box::new(Ticket { approvers, ..approval.clone() })),
    };
    let nobody = without(Approvers::NoAccount);
    assert_eq!(
        nobody.message(),
        "A user must approve this call of 'mail:send'. No approver account exists yet. Tell the user to open the one-time setup \
         link that `mcpproxy serve` prints in its terminal, or `mcpproxy stdio` in the client's log. The link is valid for an \
         hour. Each new approval request prints a valid one, and so does a restart of the gateway. A user who finds neither closes this client, runs `mcpproxy serve`, and starts the client again. Ask the user to open \
         http://localhost:8080/ui/approvals/01M7FFDZNC0000A0000000000B. Then repeat exactly this call with \
         approval_id=01M7FFDZNC0000A0000000000B. Do not change the arguments."
    );
    let lacks = |denial: &Denial| {
        let details = denial.details();
        [&details["nobody_can_approve"], &details["approver_lacks"]].map(ToString::to_string).join(" ")
    };
    assert_eq!(lacks(&nobody), r#"true "account""#);
    let not_enrolled = without(Approvers::NotEnrolled);
    assert_eq!(
        not_enrolled.message(),
        "A user must approve this call of 'mail:send'. No approver account has a second factor yet. Tell the user to run \
         `mcpproxy open`, sign in, and add an authenticator app or a passkey on the account page. Ask the user to open \
         http://localhost:8080/ui/approvals/01M7FFDZNC0000A0000000000B. Then repeat exactly this call with \
         approval_id=01M7FFDZNC0000A0000000000B. Do not change the arguments."
    );
    assert_eq!(lacks(&not_enrolled), r#"true "second_factor""#);
    assert_eq!(lacks(&asked), "null null");
    let world = World::default();
    check(
        &world.approval_request().unrequested(),
        "confirmation_required",
        "A user must approve this call of 'fx:t' (risk level high). Make the call to request the approval.",
        &json!({"tool": "fx:t", "risk_level": "high", "needs": ["confirmation"]}),
    );
    let waiting = world.approval_request().pending(approval.clone());
    assert!(matches!(waiting, Denial::ConfirmationRequired { approval: Some(ticket), .. } if *ticket == approval));
}

#[test]
fn answers_of_users() {
    check(
        &Denial::ApprovalDenied { by: DeniedBy::read(Some("anna")), comment: None },
        "approval_denied",
        "User 'anna' denied this call. Do not repeat it. Ask the user what to do instead.",
        &json!({"comment": null, "decided_by": "anna"}),
    );
    check(
        &Denial::ApprovalDenied {
            by: DeniedBy::read(Some("anna")),
            comment: Some(Untrusted::new("Not on Friday.\u{1b}[2J")),
        },
        "approval_denied",
        "User 'anna' denied this call: \"Not on Friday.\\u{1b}[2J\". Do not repeat it unchanged.",
        &json!({"comment": "Not on Friday.\u{1b}[2J", "decided_by": "anna"}),
    );
    // Only a user of the gateway is called a user.
    let client = DeniedBy::client("a", Some(" codex\u{1b} \"1\" "));
    for (stored, sentence) in [
        (Some("admin key"), "This call was denied with the operator's admin key"),
        (Some(client.as_str()), "This call was declined in the client \"codex\\u{1b} '1'\""),
        (Some("client of agent a"), "This call was declined in the client of agent a"),
        (None, "This call was denied"),
    ] {
        check(
            &Denial::ApprovalDenied { by: DeniedBy::read(stored), comment: None },
            "approval_denied",
            &format!("{sentence}. Do not repeat it. Ask the user what to do instead."),
            &json!({"comment": null, "decided_by": stored}),
        );
    }
    assert_eq!(DeniedBy::client("a", None), "client of agent a");
    check(
        &Denial::ApprovalExpired,
        "approval_expired",
        "The approval expired before the call was made. Repeat the call without approval_id to request a new one.",
        &json!({}),
    );
    check(
        &Denial::ApprovalAlreadyUsed { record: Some("01R".to_owned()), outcome: Some("success".to_owned()) },
        "approval_already_used",
        "The approval was already used for a call (record 01R) with the outcome success. An approval is valid for one call. Repeat \
         the call without approval_id to request a new one.",
        &json!({"record": "01R", "outcome": "success"}),
    );
    check(
        &Denial::NoSuchApproval,
        "approval_not_found",
        "No approval has this approval_id. Repeat the call without approval_id to request one.",
        &json!({}),
    );
    check(
        &Denial::ApprovalArgsMismatch,
        "approval_args_mismatch",
        "The approval is for another call. Repeat exactly the approved call, or make this one without approval_id to request an \
         approval for it.",
        &json!({}),
    );
    check(
        &Denial::ApprovalStale,
        "approval_stale",
        "The tool, its contract or your token changed after the approval was requested. Repeat the call without approval_id \
         to request a new one.",
        &json!({}),
    );
    check(
        &Denial::TooManyApprovals { most: 20 },
        "too_many_approvals",
        "Too many approval requests: 20 of your calls are pending, or you made too many requests in the last 10 minutes. Ask the \
         user to decide on the pending ones first.",
        &json!({"pending_max": 20}),
    );
}

#[test]
fn dry_runs_and_repeats() {
    check(
        &Denial::DryRunRequired { tool: tool(), next: json!({"a": 1}) },
        "dry_run_required",
        "Tool 'mail:send' needs a dry run of exactly this call within the last 10 minutes. Make the same call with dry_run: true, \
         read the result, then repeat this call.",
        &json!({"tool": "mail:send", "next": {"a": 1}}),
    );
    check(
        &Denial::IdempotencyConflict { tool: tool(), is_natural: false },
        "idempotency_conflict",
        "This idempotency_key was used for 'mail:send' with other arguments. Set a new idempotency_key for a new call.",
        &json!({"tool": "mail:send"}),
    );
    check(
        &Denial::IdempotencyConflict { tool: tool(), is_natural: true },
        "idempotency_conflict",
        "The contract of 'mail:send' treats this call as a repeat of an earlier one, but other arguments differ. Repeat that call \
         exactly, or set a new idempotency_key.",
        &json!({"tool": "mail:send"}),
    );
    check(
        &Denial::OutcomeUnknown { tool: tool(), record: "01R".to_owned(), first: FirstOutcome::Lost },
        "outcome_unknown",
        "This call of 'mail:send' was sent before (record 01R), but its result was lost, so it is not sent again. Find out if it \
         took effect and tell the user. If it did not, repeat the call with a new idempotency_key.",
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
    let no_approval =
        "approval_not_found: No approval has this approval_id. Repeat the call without approval_id to request one.";
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
