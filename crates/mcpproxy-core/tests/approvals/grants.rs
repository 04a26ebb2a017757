//! Tests for standing approvals: they cover what they state, and never a critical call.

use std::sync::Arc;

use mcpproxy_core::schema::Schema;
use mcpproxy_core::{Digest, Limits, NotCovered, StandingApproval, ToolName};
use proptest::prelude::*;

use super::{NOW_MS, World, moment, word};

fn grant(world: &World, schema: &str) -> StandingApproval {
    let tool = world.tool();
    StandingApproval {
        id: "g1".to_owned(),
        agent: world.agent.to_owned(),
        tool: tool.name.clone(),
        pin: tool.pin(),
        contract: tool.contract_digest(),
        schema: Arc::new(Schema::parse(schema).unwrap()),
        expires_ms: NOW_MS + 1,
        uses_left: 1,
    }
}

fn found(world: &World, grant: &StandingApproval) -> Result<String, NotCovered> {
    let approval_request = world.approval_request();
    let arguments = approval_request.arguments().clone();
    match approval_request.covered_by(&world.agent(), grant, moment(&Limits::default())) {
        Ok(permit) => {
            assert_eq!(permit.arguments(), &arguments);
            Ok(word(&permit))
        }
        Err(refused) => {
            // The approval request is returned unchanged, so that a user can still approve it.
            let (approval_request, refused) = *refused;
            assert_eq!(approval_request.arguments(), &arguments);
            Err(refused)
        }
    }
}

#[test]
fn each_field_of_a_standing_approval_counts() {
    let world = World::default();
    let good = || grant(&world, r#"{"required":["to"]}"#);
    let check = |name: &str, grant: StandingApproval, expected: Result<&str, NotCovered>| {
        assert_eq!(found(&world, &grant), expected.map(str::to_owned), "{name}");
    };
    check("as it is", good(), Ok("grant g1"));
    check("any arguments", StandingApproval { schema: grant(&world, "{}").schema, ..good() }, Ok("grant g1"));
    check("agent", StandingApproval { agent: "phone".to_owned(), ..good() }, Err(NotCovered::OtherAgent));
    check("tool", StandingApproval { tool: ToolName::parse("fx:u").unwrap(), ..good() }, Err(NotCovered::OtherTool));
    check("pin", StandingApproval { pin: Digest::of(b""), ..good() }, Err(NotCovered::ToolChanged));
    check("contract", StandingApproval { contract: Digest::of(b""), ..good() }, Err(NotCovered::ContractChanged));
    check("expired", StandingApproval { expires_ms: NOW_MS, ..good() }, Err(NotCovered::Expired));
    check("used up", StandingApproval { uses_left: 0, ..good() }, Err(NotCovered::UsedUp));
    check(
        "arguments",
        StandingApproval { schema: grant(&world, r#"{"required":["cc"]}"#).schema, ..good() },
        Err(NotCovered::Arguments),
    );
    check(
        "no arguments",
        StandingApproval { schema: grant(&world, "false").schema, ..good() },
        Err(NotCovered::Arguments),
    );
}

/// 64 bits round all these numbers to the same one. The server gets every digit.
#[test]
fn a_standing_approval_compares_every_digit() {
    let check = |schema: &str, amount: &str, is_covered: bool| {
        let parameters: &'static str = format!(r#","args":{{"to":{amount}}}"#).leak();
        let world = World::of("riskLevel: high", parameters);
        let schema = format!(r#"{{"properties":{{"to":{schema}}},"required":["to"]}}"#);
        assert_eq!(found(&world, &grant(&world, &schema)).is_ok(), is_covered, "{schema} {amount}");
    };
    let one = r#"{"const":18446744073709551616}"#;
    check(one, "18446744073709551616", true);
    check(one, "1.8446744073709551616e19", true);
    check(one, "18446744073709551617", false);
    check(one, "18446744073709552000", false);
    check(one, "1.8446744073709552e19", false);
    check(r#"{"maximum":18446744073709551616}"#, "18446744073709551617", false);
    check(r#"{"exclusiveMaximum":0.1}"#, "0.10000000000000000000000000001", false);
    check(r#"{"maximum":0.1}"#, "0.10000000000000000000000000001", false);
    check(r#"{"minimum":0.1}"#, "0.10000000000000000000000000001", true);
    check(r#"{"not":{"const":18446744073709551616}}"#, "18446744073709551617", true);
    check(r#"{"not":{"const":18446744073709551616}}"#, "18446744073709551616", false);
    check(r#"{"enum":[[18446744073709551616],7]}"#, "[18446744073709551617]", false);
    check(r#"{"type":"integer"}"#, "1.00000000000000000000000000001", false);
    check(r#"{"type":"integer"}"#, "18446744073709551617", true);
    check(r#"{"multipleOf":2}"#, "18446744073709551617", false);
    check(r#"{"uniqueItems":true}"#, "[18446744073709551616,18446744073709551617]", true);
    check(r#"{"uniqueItems":true}"#, "[18446744073709551616,18446744073709551616.0]", false);
}

#[test]
fn a_standing_approval_covers_arguments_only() {
    let found = |attached: &'static str| {
        let world = World { attached, ..World::default() };
        let permit =
            world.approval_request().covered_by(&world.agent(), &grant(&world, "{}"), moment(&Limits::default()));
        permit.map(|permit| permit.attached().as_str().map(str::to_owned)).map_err(|refused| refused.1)
    };
    assert_eq!(found("{}"), Ok(None));
    // `_meta` that no user reviewed is not sent.
    assert_eq!(found(r#"{"_meta":{"to":"all"}}"#), Ok(None));
    for attached in [r#"{"inputResponses":{}}"#, r#"{"requestState":"x","_meta":{}}"#, r#"{"task":{}}"#] {
        assert_eq!(found(attached), Err(NotCovered::Attached), "{attached}");
    }
}

#[test]
fn a_standing_approval_obeys_the_rate_limit() {
    let world = World { contract: "riskLevel: high\nrateLimit: { calls: 1, per: 1m }".to_owned(), ..World::default() };
    let (limits, grant) = (Limits::default(), grant(&world, "{}"));
    let take = || world.approval_request().covered_by(&world.agent(), &grant, moment(&limits));
    assert!(take().is_ok());
    match take().unwrap_err().1 {
        NotCovered::RateLimit(denial) => assert_eq!(denial.code(), "rate_limit_exceeded"),
        other => panic!("{other:?}"),
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    /// Whatever the contract, a standing approval covers neither a critical call nor one that needs a second factor.
    #[test]
    fn never_critical_and_never_step_up(
        risk in prop::sample::select(vec!["low", "medium", "high", "critical"]),
        step_up in prop::sample::select(vec!["", "stepUpAuth: true", "stepUpAuth: false",
            "stepUpAuth: { when: { required: [to] } }", "stepUpAuth: { when: { required: [cc] } }"]),
        has_to: bool,
    ) {
        let contract = format!("riskLevel: {risk}\nconfirmation: required\n{step_up}");
        let args = if has_to { r#"{"to":["a"]}"# } else { r#"{"cc":["a"]}"# };
        let world = World::of(&contract, &format!(",\"args\":{args}"));
        let needs_step_up = match step_up {
            "" => risk == "critical",
            "stepUpAuth: true" => true,
            "stepUpAuth: false" => false,
            when => when.contains("[to]") == has_to,
        };
        let expected = match () {
            () if risk == "critical" => Err(NotCovered::Critical),
            () if needs_step_up => Err(NotCovered::StepUp),
            () => Ok("grant g1".to_owned()),
        };
        prop_assert_eq!(found(&world, &grant(&world, "{}")), expected);
    }
}
