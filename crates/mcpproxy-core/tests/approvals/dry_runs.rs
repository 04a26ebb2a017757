//! Tests for dry runs: the arguments that are sent, the answers without sending, and the calls they count for.

use mcpproxy_core::settings::Unclassified;
use mcpproxy_core::{DRY_RUN_FRESH_MS, Decision, Limits, ParameterPlace, PriorState, Variant};
use serde_json::json;

use super::{NOW_MS, World};

const NATIVE: &str = "riskLevel: critical\ndryRun: { mode: required, parameter: dry }";

#[test]
fn the_server_is_asked_with_the_agents_arguments_and_one_more() {
    let check = |args: &str, expected: &str| {
        let world = World::of(NATIVE, &format!(",\"args\":{args},\"dry_run\":true"));
        assert_eq!(world.told(), format!("dry run {expected}"), "{args}");
    };
    check("{}", r#"{"dry":true}"#);
    check(r#"{ "to" : [ 1.0, "\u00e9" ] }"#, r#"{"to":[ 1.0, "\u00e9" ],"dry":true}"#);
    check(r#"{"dry":false,"to":1}"#, r#"{"to":1,"dry":true}"#);
    check(r#"{"dr\u0079":true}"#, r#"{"dry":true}"#);
    // The argument alone is enough, and any value other than `true` does not count.
    assert_eq!(World::of(NATIVE, r#","args":{"dry":true,"to":1}"#).told(), r#"dry run {"to":1,"dry":true}"#);
    assert!(World::of(NATIVE, r#","args":{"dry":false}"#).told().starts_with("dry_run_required"));
    assert!(World::of(NATIVE, r#","args":{"dry":"true"}"#).told().starts_with("invalid_arguments"));
}

#[test]
fn a_dry_run_and_its_call_belong_together() {
    let binding = |parameters: &str| {
        let world = World::of(NATIVE, parameters);
        world.declared().dry_run_binding(&world.agent(), &world.tool()).digest()
    };
    let call = binding(r#","args":{"to":[1],"n":2}"#);
    for same in [
        r#","args":{"to":[1],"n":2},"dry_run":true"#,
        r#","args":{"n":2,"to":[1],"dry":true}"#,
        r#","args":{"n":2,"to":[1],"dry":false}"#,
        r#","args":{"n":2,"to":[1],"dry":true},"dry_run":true,"intent_reason":"x""#,
    ] {
        assert_eq!(binding(same), call, "{same}");
    }
    for other in [r#","args":{"to":[1]},"dry_run":true"#, r#","args":{"to":[1],"n":2.0},"dry_run":true"#] {
        assert_ne!(binding(other), call, "{other}");
    }
    let fresh = World {
        prior: PriorState { dry_run_ms: Some(NOW_MS), is_repeat: false },
        ..World::of(NATIVE, r#","args":{"to":[1],"n":2}"#)
    };
    assert_eq!(fresh.approval_request().dry_run_binding(&fresh.agent()).digest(), call);
    assert_eq!(fresh.approval_request().binding(&fresh.agent()).digest(), call);
}

#[test]
fn a_dry_run_is_of_everything_that_is_sent() {
    let binding = |attached: &'static str| {
        let world = World { attached, ..World::of(NATIVE, r#","args":{"to":[1]}"#) };
        world.declared().dry_run_binding(&world.agent(), &world.tool()).digest()
    };
    let answered = binding(r#"{"inputResponses":{"sure":"yes"},"requestState":"dry"}"#);
    // `requestState` belongs to another exchange, and clients number their requests in `_meta`.
    for same in [
        r#"{"inputResponses":{"sure":"yes"}}"#,
        r#"{"requestState":"real","inputResponses":{"sure":"yes"},"_meta":{"n":1}}"#,
    ] {
        assert_eq!(binding(same), answered, "{same}");
    }
    for other in ["{}", r#"{"inputResponses":{"sure":"no"}}"#, r#"{"inputResponses":{"sure":"yes"},"task":{}}"#] {
        assert_ne!(binding(other), answered, "{other}");
    }
}

#[test]
fn ten_minutes() {
    let told = |dry_run_ms: Option<i64>| {
        let world = World {
            prior: PriorState { dry_run_ms, is_repeat: false },
            ..World::of("riskLevel: low\ndryRun: required", "")
        };
        world.told().split(':').next().unwrap().to_owned()
    };
    assert_eq!(told(None), "dry_run_required");
    assert_eq!(told(Some(NOW_MS)), "allow {}");
    assert_eq!(told(Some(NOW_MS - DRY_RUN_FRESH_MS)), "allow {}");
    assert_eq!(told(Some(NOW_MS - DRY_RUN_FRESH_MS - 1)), "dry_run_required");
    assert_eq!(told(Some(NOW_MS + 1)), "dry_run_required");
    for odd in [i64::MIN, i64::MAX] {
        assert_eq!(told(Some(odd)), "dry_run_required");
    }
}

#[test]
fn a_preview_tells_what_would_happen() {
    let world = World {
        grants: &["a:b"],
        ..World::of(
            "riskLevel: critical\nsideEffects: [\"It is sent\\u202E.\"]\npermissions: [a:b, c:d]\ndryRun: { mode: required, parameter: dry }",
            r#","args":{"to":[18446744073709551617],"dry":true},"dry_run":true"#,
        )
    };
    let Decision::Preview(preview) = world.decide(&Limits::default()) else { panic!("{}", world.told()) };
    assert_eq!(
        preview.to_json(ParameterPlace::Arguments).replace("18446744073709551617", "1"),
        json!({
            "dryRun": true,
            "wouldCall": {"tool": "fx:t", "call_with": "call_tool_write", "arguments": {"to": [1]}},
            "warnings": [],
            "missingPermissions": ["c:d"],
            "expectedSideEffects": ["It is sent\u{202E}."],
            "needs": ["confirmation", "step_up"],
        })
        .to_string()
    );
    let direct = preview.to_json(ParameterPlace::Meta);
    assert!(direct.contains(r#""wouldCall":{"tool":"fx:t","arguments":{"to":[18446744073709551617]}}"#), "{direct}");
}

#[test]
fn a_server_is_not_asked_where_that_could_be_the_call_itself() {
    let not_sent = |world: World| match world.decide(&Limits::default()) {
        Decision::Preview(preview) => {
            let codes = preview.warnings().iter().map(|warning| format!("{}: {}", warning.code, warning.message));
            codes.collect::<Vec<_>>().join("; ")
        }
        _ => world.told(),
    };
    let own = |contract: &str| {
        format!(
            r#"{{"name":"t","inputSchema":{{"properties":{{"to":{{}},"dry":{{}}}}}},"_meta":{{"mcp-first/contract":{contract}}}}}"#
        )
    };
    let dry_run = r#","dry_run":true"#;
    // No such argument: the server would ignore it and make the real call.
    let slip = World::of("riskLevel: critical\ndryRun: { mode: required, parameter: drey }", dry_run);
    assert_eq!(
        not_sent(slip),
        "dry_run_not_sent: The server's own dry run was not used: the tool has no argument 'drey'"
    );
    // The server's contract against the operator's.
    let server = own(r#"{"dryRun":{"mode":"supported","parameter":"dry"}}"#);
    let theirs = |contract: &str| World { tool: server.clone(), ..World::of(contract, dry_run) };
    let word = "dry_run_not_sent: The server's own dry run was not used: only the server's contract names 'dry', and a user must \
                approve the call; the operator can name it in a contract";
    for contract in ["riskLevel: high", "riskLevel: critical", "confirmation: required", "stepUpAuth: true"] {
        assert_eq!(not_sent(theirs(contract)), word, "{contract}");
        // Then the argument is like any other, and the call needs an approval.
        let call = World { parameters: r#","args":{"dry":true}"#.to_owned(), ..theirs(contract) };
        assert!(call.told().starts_with("ask"), "{}", call.told());
    }
    let unclassified = World {
        unclassified: Unclassified::ConfirmDestructive,
        variant: Variant::Destructive,
        ..theirs("category: mail")
    };
    assert_eq!(not_sent(unclassified), word);
    assert_eq!(theirs("riskLevel: medium").told(), r#"dry run {"dry":true}"#);
    // If only the server requires approval, its own dry run may be used.
    let all_its_own = own(r#"{"riskLevel":"critical","dryRun":{"mode":"required","parameter":"dry"}}"#);
    let world = World { tool: all_its_own, ..World::of("", dry_run) };
    assert_eq!(world.told(), r#"dry run {"dry":true}"#);
}

#[test]
fn only_what_is_sent_takes_a_turn() {
    let limits = Limits::default();
    let limit = "\nrateLimit: { calls: 1, per: 1m }";
    let preview = World::of(&format!("riskLevel: low{limit}"), r#","dry_run":true"#);
    for _ in 0..3 {
        assert!(matches!(preview.decide(&limits), Decision::Preview(_)));
    }
    let native = World::of(&format!("{NATIVE}{limit}"), r#","dry_run":true"#);
    assert!(matches!(native.decide(&limits), Decision::Allow(_)));
    assert!(matches!(native.decide(&limits), Decision::Deny(_)));
}

#[test]
fn the_next_call_is_ready_to_be_made() {
    let world = World::of("riskLevel: low\ndryRun: required", r#","args":{"n":18446744073709551617}"#);
    let Decision::Deny(denial) = world.decide(&Limits::default()) else { panic!("{}", world.told()) };
    let next = denial.details()["next"].clone();
    assert_eq!(
        next,
        json!({
            "tool": "call_tool_write",
            "arguments": {"name": "fx:t", "args_json": "{\"n\":18446744073709551617}", "dry_run": true},
        })
    );
    // The suggested dry run counts for this call.
    let parameters = next["arguments"].to_string().replace("{\"name\":\"fx:t\"", "").trim_end_matches('}').to_owned();
    let made = World { parameters, ..world.clone() };
    let binding = |world: &World| world.declared().dry_run_binding(&world.agent(), &world.tool()).digest();
    assert_eq!(binding(&made), binding(&world));
    assert!(matches!(made.decide(&Limits::default()), Decision::Preview(_)));
}
