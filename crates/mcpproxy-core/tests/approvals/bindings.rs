//! Tests that an approval is bound to every detail of its call.

use mcpproxy_core::{Limits, Variant};
use proptest::prelude::*;

use super::{World, moment};

fn answer(asked: &World, now: &World) -> Result<String, String> {
    let answered = now.approval_request().approved_by(&now.agent(), &asked.approval(), moment(&Limits::default()));
    answered.map(|permit| permit.arguments().as_str().to_owned()).map_err(|denial| denial.code().to_owned())
}

/// Returns worlds that differ in one detail, each with its name.
fn others() -> Vec<(&'static str, World)> {
    let base = World::default;
    let tool = |json: &str| World { tool: json.to_owned(), ..base() };
    let contract = |text: &str| World { contract: text.to_owned(), ..base() };
    let attached = |text: &'static str| World { attached: text, ..base() };
    let args = |args: &str| World { parameters: format!(",\"args\":{args}"), ..base() };
    vec![
        ("agent", World { agent: "phone", ..base() }),
        ("server", World { server: "fy", ..base() }),
        ("variant", World { variant: Variant::Destructive, ..base() }),
        (
            "description",
            tool(r#"{"name":"t","description":"x","inputSchema":{"properties":{"to":{},"dry":{"type":"boolean"}}}}"#),
        ),
        ("schema", tool(r#"{"name":"t","inputSchema":{"properties":{"to":{}}}}"#)),
        (
            "annotation",
            tool(
                r#"{"name":"t","inputSchema":{"properties":{"to":{},"dry":{"type":"boolean"}}},"annotations":{"idempotentHint":true}}"#,
            ),
        ),
        ("risk", contract("riskLevel: critical")),
        ("step-up", contract("riskLevel: high\nstepUpAuth: true")),
        ("condition", contract("riskLevel: high\nstepUpAuth: { when: { required: [to] } }")),
        ("permissions", contract("riskLevel: high\npermissions: [a:b]")),
        ("side effects", contract("riskLevel: high\nsideEffects: [It is sent.]")),
        ("input schema", contract("riskLevel: high\ninputSchema: { maxProperties: 3 }")),
        ("output schema", contract("riskLevel: high\noutputSchema: { maxProperties: 3 }")),
        ("operation", contract("riskLevel: high\noperation: write")),
        ("description of the contract", contract("riskLevel: high\ndescription: Sends.")),
        ("category", contract("riskLevel: high\ncategory: mail")),
        ("rate limit", contract("riskLevel: high\nrateLimit: { calls: 5, per: 1m }")),
        ("idempotency", contract("riskLevel: high\nidempotency: key")),
        ("dry run", contract("riskLevel: high\ndryRun: { mode: supported, parameter: dry }")),
        ("sensitive", contract("riskLevel: high\nsensitive: [/to]")),
        ("failure modes", contract("riskLevel: high\nfailureModes: [a]")),
        ("audit event", contract("riskLevel: high\nauditEvent: a.b")),
        ("a value", args(r#"{"to":["a","c"],"n":1}"#)),
        ("an order", args(r#"{"to":["b","a"],"n":1}"#)),
        ("a spelling", args(r#"{"to":["a","b"],"n":1.0}"#)),
        ("a type", args(r#"{"to":["a","b"],"n":"1"}"#)),
        ("a null", args(r#"{"to":["a","b"],"n":1,"x":null}"#)),
        ("one less", args(r#"{"to":["a","b"]}"#)),
        ("an answer", attached(r#"{"inputResponses":{"sure":"yes"}}"#)),
        ("another answer", attached(r#"{"inputResponses":{"sure":"no"}}"#)),
        ("a state", attached(r#"{"inputResponses":{"sure":"yes"},"requestState":"1"}"#)),
        ("a member that nobody knows", attached(r#"{"task":{"ttl":1}}"#)),
    ]
}

#[test]
fn every_change_gives_another_binding() {
    let mut all = others();
    all.push(("nothing", World::default()));
    for (one, asked) in &all {
        for (other, now) in &all {
            let found = answer(asked, now);
            if one == other {
                assert!(found.is_ok(), "{one}: {found:?}");
            } else {
                assert_eq!(found, Err("approval_stale".to_owned()), "{one} -> {other}");
            }
        }
    }
}

#[test]
fn equal_calls_have_equal_bindings() {
    let asked = World::default();
    let same = [
        World { parameters: r#","args":{"n":1,"to":["a","b"]}"#.to_owned(), ..World::default() },
        World {
            parameters: r#","args_json":" { \"n\" : 1, \"t\\u006f\" : [ \"a\", \"b\" ] } ""#.to_owned(),
            ..asked.clone()
        },
        // Not part of the binding: source locations, the agent's reason, the idempotency key, and other permissions.
        World { contract: "# a comment\nriskLevel: high".to_owned(), ..asked.clone() },
        World {
            parameters: r#","args":{"to":["a","b"],"n":1},"intent_reason":"again","idempotency_key":"k""#.to_owned(),
            ..asked.clone()
        },
        World {
            tool: r#"{ "inputSchema": {"properties":{"dry":{"type":"boolean"},"to":{}}}, "name":"\u0074" }"#.to_owned(),
            ..asked.clone()
        },
        World { grants: &["a:b", "*"], ..asked.clone() },
        // Clients number their requests there.
        World { attached: r#"{"_meta":{"request":7}}"#, ..asked.clone() },
    ];
    for now in same {
        let found = answer(&asked, &now).unwrap_or_else(|code| panic!("{code}: {now:?}"));
        // The bytes sent are those of this approval request, not of another with the same meaning.
        assert_eq!(found, now.approval_request().arguments().as_str());
    }
}

/// Adjacent parts of a binding cannot be confused: no agent, tool or variant reads as another.
#[test]
fn names_do_not_run_together() {
    let digest = |agent: &'static str, server: &'static str| {
        let world = World { agent, server, ..World::default() };
        world.approval_request().binding(&world.agent()).digest()
    };
    assert_ne!(digest("a", "bc"), digest("ab", "c"));
    assert_ne!(digest("a", "b"), digest("b", "a"));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Any two changes, alone or together, make the approval stale, and give no other error.
    #[test]
    fn a_stale_answer_is_told_as_stale(one in 0usize..32, other in 0usize..32) {
        let all = others();
        prop_assert_eq!(all.len(), 32);
        let (first, second) = (&all[one].1, &all[other].1);
        let found = answer(first, second);
        prop_assert_eq!(found.is_ok(), one == other);
        if let Err(code) = found {
            prop_assert_eq!(code, "approval_stale");
        }
    }

    #[test]
    fn arguments_are_bound_exactly(left in "[a-c1\\[\\]\", .]{0,8}", right in "[a-c1\\[\\]\", .]{0,8}") {
        let world = |value: &str| {
            let text = format!("{{\"x\":{value}}}");
            let quoted = serde_json::Value::String(text.clone()).to_string();
            let is_json = mcpproxy_core::json::read(text.as_bytes()).is_ok();
            is_json.then(|| World::of("riskLevel: high", &format!(",\"args_json\":{quoted}")))
        };
        if let (Some(one), Some(other)) = (world(&left), world(&right)) {
            let same = mcpproxy_core::canonical(&left) == mcpproxy_core::canonical(&right);
            prop_assert_eq!(answer(&one, &other).is_ok(), same);
        }
    }
}
