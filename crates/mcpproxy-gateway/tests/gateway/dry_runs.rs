//! Dry runs: by the server if the contract names its parameter, otherwise a preview. Also calls that require a dry run
//! first.

use mcpproxy_core::{Agent as Identity, ApprovalState, Scope};
use mcpproxy_store::{NewDryRun, Step};
use serde_json::{Value, json};

use crate::agent::{Agent, Way};
use crate::asked::{ARGS, Got, OTHER_ARGS, SAME_ARGS, SEND, Stage, files, never_held, now_ms, send, with_approval};
use crate::peer::{Script, Speaks, text_result};

const NATIVE: &str = "riskLevel: low\ndryRun: { mode: supported, parameter: dryRun }";
const REQUIRED: &str = "riskLevel: low\ndryRun: required\nsideEffects: [A mail leaves.]";
const REQUIRED_NATIVE: &str = "riskLevel: low\ndryRun: { mode: required, parameter: dryRun }";
const REQUIRED_HIGH: &str = "riskLevel: high\ndryRun: required";
const REQUIRED_HIGH_NATIVE: &str = "riskLevel: high\ndryRun: { mode: required, parameter: dryRun }";
const DRY: &str = r#","dry_run":true"#;

async fn stage(contract: &str) -> (Stage, Agent) {
    let mut script = Script::new(Speaks::Legacy, &format!("[{SEND}]"));
    script.call = |params| Some(text_result(if params.contains(r#""dryRun":true"#) { "would send" } else { "sent" }));
    let stage = Stage::with(script, contract, never_held()).await;
    let agent = Agent::new(&stage.rig, Way::Session, "a").await;
    (stage, agent)
}

#[tokio::test]
async fn the_server_makes_its_own() {
    let (stage, mut agent) = stage(NATIVE).await;
    let got = Got::of(&mut agent, &stage.rig, &send(ARGS, DRY)).await;
    assert_eq!(got.code(), "would send");
    assert_eq!(got.result()["_meta"]["mcpproxy/dry_run"], json!({"by": "server", "needs": []}));
    // An agent that sets the parameter itself gets the same result.
    let own = r#"{"to":"ada","body":"hello","dryRun":true}"#;
    let got = Got::of(&mut agent, &stage.rig, &send(own, "")).await;
    assert_eq!(
        (got.code().as_str(), &got.result()["_meta"]["mcpproxy/dry_run"]["by"]),
        ("would send", &json!("server"))
    );
    assert_eq!(stage.sent(), [own, own]);
    assert_eq!(Got::of(&mut agent, &stage.rig, &send(ARGS, "")).await.code(), "sent");
    let records = stage.rig.whole_records().await;
    let dry: Vec<Value> = records
        .iter()
        .filter(|whole| whole.record.tool.is_some())
        .map(|whole| serde_json::from_str::<Value>(whole.record.metadata.for_json()).unwrap()["dry_run"].clone())
        .collect();
    assert_eq!(dry, [json!("server"), json!("server"), Value::Null]);
}

#[tokio::test]
async fn else_the_contract_says_what_would_happen() {
    let contract = "riskLevel: critical\nsideEffects: [A mail leaves.]\npermissions: [mail:send]\nsensitive: [/body]";
    let (stage, mut agent) = stage(contract).await;
    let got = Got::of(&mut agent, &stage.rig, &send(ARGS, DRY)).await;
    let preview = |missing: Value| {
        json!({
            "dryRun": true,
            "wouldCall": {"tool": "fx:send", "call_with": "call_tool_write", "arguments": {"to": "ada", "body": "hello"}},
            "warnings": [], "missingPermissions": missing, "expectedSideEffects": ["A mail leaves."],
            "needs": ["confirmation", "step_up"],
        })
    };
    assert_eq!(got.result()["structuredContent"], preview(json!([])));
    assert_eq!(serde_json::from_str::<Value>(got.text()).unwrap(), preview(json!([])));
    assert_eq!(got.result()["_meta"]["mcpproxy/dry_run"], json!({"by": "contract"}));
    assert_eq!(got.result()["isError"], false);
    // The preview lists missing permissions. A missing permission does not refuse it, and nothing is sent.
    let scope = Scope { grants: vec!["mail:read".to_owned()], ..Scope::everything() };
    let poor = Identity { name: "poor".to_owned(), scope };
    let mut poor = Agent::with(&stage.rig, Way::Session, poor, "/mcp", "{}").await;
    let got = Got::of(&mut poor, &stage.rig, &send(ARGS, DRY)).await;
    assert_eq!(got.result()["structuredContent"], preview(json!(["mail:send"])));
    assert_eq!(Got::of(&mut poor, &stage.rig, &send(ARGS, "")).await.code(), "permission_denied");
    assert_eq!((stage.sent(), stage.rig.store.count_pending().await.unwrap()), (Vec::new(), 0));
    // The approval request shows the preview with sensitive values masked.
    let id = Got::of(&mut agent, &stage.rig, &send(ARGS, "")).await.id();
    let seen = stage.rig.gateway.approvals().find(&id).await.unwrap().unwrap().dry_run.unwrap();
    assert!(!seen.is_native);
    let seen: Value = serde_json::from_str(seen.preview.for_json()).unwrap();
    assert_eq!(seen["wouldCall"]["arguments"], json!({"to": "ada", "body": "***"}));
    let records = stage.rig.whole_records().await;
    for whole in records.iter().filter_map(|whole| whole.args.as_ref()) {
        assert!(!whole.for_json().contains("hello"), "{}", whole.for_json());
    }
}

/// A dry run by an agent that lacks a permission does not count for its call.
#[tokio::test]
async fn a_dry_run_without_permission_counts_for_nothing() {
    for contract in [REQUIRED, REQUIRED_NATIVE] {
        let (stage, _) = stage(&format!("{contract}\npermissions: [mail:send]")).await;
        let lacking = Scope { grants: Vec::new(), ..Scope::everything() };
        let mut agent =
            Agent::with(&stage.rig, Way::Session, Identity { name: "b".to_owned(), scope: lacking }, "/mcp", "{}")
                .await;
        let got = Got::of(&mut agent, &stage.rig, &send(ARGS, DRY)).await;
        assert_eq!(got.result()["structuredContent"]["missingPermissions"], json!(["mail:send"]), "{contract}");
        stage.rig.revoke("b").await;
        let mut agent = Agent::new(&stage.rig, Way::Session, "b").await;
        assert_eq!(Got::of(&mut agent, &stage.rig, &send(ARGS, "")).await.code(), "dry_run_required", "{contract}");
        assert_eq!(stage.sent(), [""; 0], "{contract}");
    }
}

#[tokio::test]
async fn a_call_that_takes_a_dry_run_takes_one_of_exactly_itself() {
    for contract in [REQUIRED, REQUIRED_NATIVE] {
        let (stage, mut agent) = stage(contract).await;
        let refused = Got::of(&mut agent, &stage.rig, &send(ARGS, "")).await;
        assert_eq!(refused.code(), "dry_run_required", "{contract}");
        let next = &refused.details()["next"];
        let expected =
            json!({"tool": "call_tool_write", "arguments": {"name": "fx:send", "args_json": ARGS, "dry_run": true}});
        assert_eq!(next, &expected);
        assert_eq!(stage.sent(), [""; 0], "{contract}");
        // Make exactly the call that `next` in the refusal suggests.
        let params = format!(r#"{{"name":{},"arguments":{}}}"#, next["tool"], next["arguments"]);
        assert!(Got::of(&mut agent, &stage.rig, &params).await.result()["isError"] != true);
        let mut other = Agent::new(&stage.rig, Way::Session, "b").await;
        for (name, code) in [
            ("other arguments", Got::of(&mut agent, &stage.rig, &send(OTHER_ARGS, "")).await.code()),
            ("another agent", Got::of(&mut other, &stage.rig, &send(ARGS, "")).await.code()),
            (
                "another variant",
                Got::of(&mut agent, &stage.rig, &send(ARGS, "").replace("tool_write", "tool_destructive")).await.code(),
            ),
        ] {
            assert_eq!(code, "dry_run_required", "{name} {contract}");
        }
        assert_eq!(Got::of(&mut agent, &stage.rig, &send(SAME_ARGS, "")).await.code(), "sent", "{contract}");
        // While the dry run is fresh, the call can be repeated. A changed contract requires a new dry run.
        assert_eq!(Got::of(&mut agent, &stage.rig, &send(ARGS, "")).await.code(), "sent", "{contract}");
        stage.rig.gateway.reload(files(&stage.peer, &format!("{contract}\ncategory: mail"), never_held()));
        assert_eq!(Got::of(&mut agent, &stage.rig, &send(ARGS, "")).await.code(), "dry_run_required", "{contract}");
    }
}

/// `dryRun: false` is the server's default, so the call is the same with or without it.
#[tokio::test]
async fn a_real_call_may_say_that_it_is_one() {
    let (stage, mut agent) = stage(REQUIRED_NATIVE).await;
    let real = r#"{"to":"ada","body":"hello","dryRun":false}"#;
    assert_eq!(Got::of(&mut agent, &stage.rig, &send(real, "")).await.code(), "dry_run_required");
    assert_eq!(Got::of(&mut agent, &stage.rig, &send(ARGS, DRY)).await.code(), "would send");
    assert_eq!(Got::of(&mut agent, &stage.rig, &send(real, "")).await.code(), "sent");
    assert_eq!(stage.sent().last().unwrap(), real, "and it is sent as it is");
    let odd = r#"{"to":"ada","body":"hello","dryRun":"true"}"#;
    assert_eq!(Got::of(&mut agent, &stage.rig, &send(odd, "")).await.code(), "invalid_arguments");
}

/// A failed dry run does not count.
#[tokio::test]
async fn a_dry_run_that_failed_does_not_count() {
    let (stage, mut agent) = stage(REQUIRED_NATIVE).await;
    stage.peer.rewrite(|script| {
        script.call = |_| Some(r#"{"content":[{"type":"text","text":"no"}],"isError":true}"#.to_owned());
    });
    assert_eq!(Got::of(&mut agent, &stage.rig, &send(ARGS, DRY)).await.code(), "no");
    assert_eq!(Got::of(&mut agent, &stage.rig, &send(ARGS, "")).await.code(), "dry_run_required");
}

/// Rewrites the dry run of an open approval request with another time.
async fn made_at(stage: &Stage, id: &mcpproxy_core::ApprovalId, at_ms: i64) {
    let found = stage.find(id).await;
    let tool = found.tool.to_string();
    let made = NewDryRun {
        binding: found.binding,
        agent: found.agent,
        tool,
        preview: "{}".to_owned(),
        is_native: false,
        at_ms,
    };
    stage.write(Step::SaveDryRun(Box::new(made))).await;
}

#[tokio::test]
async fn a_dry_run_goes_stale() {
    let (stage, mut agent) = stage(REQUIRED_HIGH).await;
    assert_eq!(Got::of(&mut agent, &stage.rig, &send(ARGS, DRY)).await.result()["isError"], false);
    let id = Got::of(&mut agent, &stage.rig, &send(ARGS, "")).await.id();
    for (age_ms, expected) in [
        (599_000, "confirmation_required"),
        (601_000, "dry_run_required"),
        // A dry run with a time in the future does not count.
        (-60_000, "dry_run_required"),
    ] {
        made_at(&stage, &id, now_ms() - age_ms).await;
        assert_eq!(Got::of(&mut agent, &stage.rig, &send(ARGS, "")).await.code(), expected, "{age_ms}");
    }
    // The dry run must be fresh when the approval request is created. The time until the decision does not count.
    stage.approve(&id).await.unwrap();
    let named = send(ARGS, &with_approval(&id));
    made_at(&stage, &id, now_ms() - 700_000).await;
    assert_eq!(Got::of(&mut agent, &stage.rig, &named).await.code(), "dry_run_required");
    let created_ms = stage.find(&id).await.created_ms;
    made_at(&stage, &id, created_ms - 599_000).await;
    assert_eq!(Got::of(&mut agent, &stage.rig, &named).await.code(), "sent");
    assert_eq!(stage.state(&id).await, ApprovalState::Consumed);
}

/// A second dry run while the approval request is pending does not make the call stale.
#[tokio::test]
async fn a_dry_run_made_while_a_user_reads_counts() {
    for contract in [REQUIRED_HIGH, REQUIRED_HIGH_NATIVE] {
        let (stage, mut agent) = stage(contract).await;
        Got::of(&mut agent, &stage.rig, &send(ARGS, DRY)).await;
        let id = Got::of(&mut agent, &stage.rig, &send(ARGS, "")).await.id();
        // Let some time pass between the approval request and the second dry run.
        while now_ms() < stage.find(&id).await.created_ms + 20 {
            tokio::task::yield_now().await;
        }
        Got::of(&mut agent, &stage.rig, &send(ARGS, DRY)).await;
        stage.approve(&id).await.unwrap();
        let named = send(ARGS, &with_approval(&id));
        assert_eq!(Got::of(&mut agent, &stage.rig, &named).await.code(), "sent", "{contract}");
    }
}

#[tokio::test]
async fn the_server_s_own_preview_is_shown_with_the_request() {
    let contract = "riskLevel: high\ndryRun: { mode: required, parameter: dryRun }\nsensitive: [/body]";
    let (stage, mut agent) = stage(contract).await;
    stage.peer.rewrite(|script| script.call = |_| Some(text_result("would send hello to ada")));
    Got::of(&mut agent, &stage.rig, &send(ARGS, DRY)).await;
    for real in [ARGS, r#"{"to":"ada","body":"hello","dryRun":false}"#] {
        let id = Got::of(&mut agent, &stage.rig, &send(real, "")).await.id();
        let seen = stage.rig.gateway.approvals().find(&id).await.unwrap().unwrap().dry_run.unwrap();
        assert!(seen.is_native, "{real}");
        let seen: Value = serde_json::from_str(seen.preview.for_json()).unwrap();
        assert_eq!(seen["content"][0]["text"], "would send *** to ada", "{real}");
    }
    // An approval for another call does not replace the dry run.
    assert_eq!(Got::of(&mut agent, &stage.rig, &send(OTHER_ARGS, "")).await.code(), "dry_run_required");
    assert_eq!(stage.rig.store.count_pending().await.unwrap(), 2);
}
