//! Tests which approvals are strong enough for an approval request.

use mcpproxy_core::settings::{ApprovalSettings, Channel, Unclassified};
use mcpproxy_core::{Approval, ApprovalState, Assurance, Limits, Variant};

use super::{NOW_MS, World, moment, word};

fn check(world: &World, approval: &Approval, expected: &str) {
    let approval_request = world.approval_request();
    let found = match approval_request.approved_by(&world.agent(), approval, moment(&Limits::default())) {
        Ok(permit) => word(&permit),
        Err(denial) => denial.code().to_owned(),
    };
    assert_eq!(found, expected, "{} {approval:?}", world.contract);
}

/// A server's own low risk level does not make a form sufficient where the settings require the page.
#[test]
fn a_servers_level_only_makes_it_stricter() {
    let least = |level: &str| {
        let meta = match level {
            "" => String::new(),
            level => format!(r#","_meta":{{"mcp-first/contract":{{"riskLevel":"{level}","stepUpAuth":false}}}}"#),
        };
        let tool = format!(r#"{{"name":"t","inputSchema":{{"type":"object"}}{meta}}}"#);
        let world = World { tool, contract: "confirmation: required".to_owned(), ..World::default() };
        let settings = ApprovalSettings::default();
        (world.approval_request().required_assurance(), settings.channel(&world.tool().contract))
    };
    let unclassified = least("");
    assert_eq!(unclassified, (Assurance::Form, Channel::Page));
    for level in ["low", "medium", "high"] {
        assert_eq!(least(level), unclassified, "{level}");
    }
    assert_eq!(least("critical"), (Assurance::Session, Channel::Page));
}

#[test]
fn every_state_and_every_assurance() {
    let yes = format!("approval {}", super::ID);
    let contracts = [
        ("riskLevel: medium\nconfirmation: required", Assurance::Form),
        ("confirmation: required", Assurance::Form),
        ("riskLevel: high", Assurance::Form),
        ("riskLevel: high\nstepUpAuth: true", Assurance::Factor),
        ("riskLevel: critical\nstepUpAuth: false", Assurance::Session),
        ("riskLevel: critical", Assurance::Factor),
        ("riskLevel: critical\nstepUpAuth: { when: { required: [to] } }", Assurance::Factor),
        ("riskLevel: critical\nstepUpAuth: { when: { required: [cc] } }", Assurance::Session),
    ];
    for (contract, least) in contracts {
        let world = World { contract: contract.to_owned(), ..World::default() };
        assert_eq!(world.approval_request().required_assurance(), least, "{contract}");
        assert_eq!(world.approval_request().needs_step_up(), least == Assurance::Factor, "{contract}");
        for state in ApprovalState::ALL {
            for given in [None].into_iter().chain(Assurance::ALL.map(Some)) {
                for expires_ms in [NOW_MS - 1, NOW_MS, NOW_MS + 1] {
                    let expected = match state {
                        ApprovalState::Pending => "confirmation_required",
                        ApprovalState::Consumed => "approval_already_used",
                        ApprovalState::Denied => "approval_denied",
                        ApprovalState::Expired => "approval_expired",
                        ApprovalState::Cancelled => "approval_stale",
                        ApprovalState::Approved if expires_ms <= NOW_MS => "approval_expired",
                        ApprovalState::Approved if given < Some(least) => "confirmation_required",
                        ApprovalState::Approved => &yes,
                    };
                    check(&world, &Approval { state, given, expires_ms, ..world.approval() }, expected);
                }
            }
        }
    }
}

#[test]
fn settings_can_require_approval() {
    let unclassified = Unclassified::ConfirmDestructive;
    let world = World { contract: String::new(), unclassified, variant: Variant::Destructive, ..World::default() };
    assert_eq!(world.approval_request().required_assurance(), Assurance::Form);
    let approval = Approval { given: Some(Assurance::Form), ..world.approval() };
    check(&world, &approval, &format!("approval {}", super::ID));
}

#[test]
fn the_permit_has_the_bytes_of_the_request_and_its_claim() {
    let world = World::of(
        "riskLevel: high",
        r#","args_json":" {\"b\": [1.0 , 18446744073709551616],\t\"a\":\"\\u00e9\"} ","idempotency_key":"k1","intent_reason":"r""#,
    );
    let (approval_request, approval) = (world.approval_request(), world.approval());
    let (arguments, claim) = (approval_request.arguments().clone(), approval_request.claim().cloned());
    assert_eq!(arguments.as_str(), "{\"b\": [1.0 , 18446744073709551616],\t\"a\":\"\\u00e9\"}");
    let permit = approval_request.approved_by(&world.agent(), &approval, moment(&Limits::default())).unwrap();
    assert_eq!(permit.arguments(), &arguments);
    assert_eq!(permit.claim(), claim.as_ref());
    assert_eq!(permit.claim().unwrap().key, "key:k1");
    assert_eq!(permit.intent().reason.as_ref().unwrap().for_json(), "r");
    assert!(!permit.is_dry_run());
    assert_eq!(permit.tool().name.to_string(), "fx:t");
}

/// Users may approve several calls at once, but the rate limit still applies.
#[test]
fn an_approval_does_not_lift_the_rate_limit() {
    let world = World { contract: "riskLevel: high\nrateLimit: { calls: 1, per: 1m }".to_owned(), ..World::default() };
    let limits = Limits::default();
    let answer = || world.approval_request().approved_by(&world.agent(), &world.approval(), moment(&limits));
    assert!(answer().is_ok());
    assert_eq!(answer().unwrap_err().code(), "rate_limit_exceeded");
    // An insufficient approval does not count against the rate limit.
    let fresh = Limits::default();
    let denied = Approval { state: ApprovalState::Denied, ..world.approval() };
    world.approval_request().approved_by(&world.agent(), &denied, moment(&fresh)).unwrap_err();
    assert!(world.approval_request().approved_by(&world.agent(), &world.approval(), moment(&fresh)).is_ok());
}

#[test]
fn the_reason_for_an_approval_is_named() {
    let check = |contract: &str, variant, unclassified, expected: &[&str]| {
        let world = World { contract: contract.to_owned(), variant, unclassified, ..World::default() };
        assert_eq!(world.approval_request().required_by(), expected, "{contract}");
    };
    let (write, allow) = (Variant::Write, Unclassified::Allow);
    check("riskLevel: high", write, allow, &["contract risk level high (contracts/a.yaml:2)"]);
    check(
        "riskLevel: critical\nconfirmation: required",
        write,
        allow,
        &[
            "contract risk level critical (contracts/a.yaml:2)",
            "confirmation: required (contracts/a.yaml:3)",
            "stepUpAuth (risk level)",
        ],
    );
    check(
        "stepUpAuth: { when: { required: [to] } }\nautonomousExecution: false",
        write,
        allow,
        &["autonomousExecution: false (contracts/a.yaml:3)", "stepUpAuth, for these arguments (contracts/a.yaml:2)"],
    );
    check(
        "category: files",
        Variant::Destructive,
        Unclassified::ConfirmDestructive,
        &["setting contracts.unclassified: confirm_destructive"],
    );
    check(
        "confirmation: { when: { required: [to] } }",
        write,
        allow,
        &["confirmation, for these arguments (contracts/a.yaml:2)"],
    );
    check(
        "# DRAFT: x\nriskLevel: high",
        write,
        allow,
        &["contract risk level high (contracts/a.yaml:3, draft, not reviewed)"],
    );
    let by_server = |contract: &str| {
        let tool = format!(r#"{{"name":"t","inputSchema":{{}},"_meta":{{"mcp-first/contract":{contract}}}}}"#);
        World { tool, contract: String::new(), ..World::default() }.approval_request().required_by()
    };
    assert_eq!(by_server(r#"{"riskLevel":"high"}"#), ["contract risk level high (server's contract)"]);
    // A condition that cannot be evaluated asks.
    let unknown = r#"{"confirmation":{"when":{"properties":{"to":{"pattern":"(?=a)"}}}}}"#;
    assert_eq!(by_server(unknown), ["confirmation, for these arguments (server's contract)"]);
}
