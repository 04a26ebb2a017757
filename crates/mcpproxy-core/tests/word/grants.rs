//! A standing word covers what it says, and never what is too dangerous for one.

use std::sync::Arc;

use mcpproxy_core::schema::Schema;
use mcpproxy_core::{Digest, Grant, Limits, Refused, ToolName};
use proptest::prelude::*;

use super::{NOW_MS, World, moment, word};

fn grant(world: &World, schema: &str) -> Grant {
    let tool = world.tool();
    Grant {
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

fn found(world: &World, grant: &Grant) -> Result<String, Refused> {
    let question = world.question();
    let arguments = question.arguments().clone();
    match question.granted_by(&world.agent(), grant, moment(&Limits::default())) {
        Ok(permit) => {
            assert_eq!(permit.arguments(), &arguments);
            Ok(word(&permit))
        }
        Err(refused) => {
            // The question comes back as it was, so that a human can still be asked.
            let (question, refused) = *refused;
            assert_eq!(question.arguments(), &arguments);
            Err(refused)
        }
    }
}

#[test]
fn each_thing_a_grant_says() {
    let world = World::default();
    let good = || grant(&world, r#"{"required":["to"]}"#);
    let check = |name: &str, grant: Grant, expected: Result<&str, Refused>| {
        assert_eq!(found(&world, &grant), expected.map(str::to_owned), "{name}");
    };
    check("as it is", good(), Ok("grant g1"));
    check("any arguments", Grant { schema: grant(&world, "{}").schema, ..good() }, Ok("grant g1"));
    check("agent", Grant { agent: "phone".to_owned(), ..good() }, Err(Refused::OtherAgent));
    check("tool", Grant { tool: ToolName::parse("fx:u").unwrap(), ..good() }, Err(Refused::OtherTool));
    check("pin", Grant { pin: Digest::of(b""), ..good() }, Err(Refused::ToolChanged));
    check("contract", Grant { contract: Digest::of(b""), ..good() }, Err(Refused::ContractChanged));
    check("expired", Grant { expires_ms: NOW_MS, ..good() }, Err(Refused::Expired));
    check("used up", Grant { uses_left: 0, ..good() }, Err(Refused::UsedUp));
    check(
        "arguments",
        Grant { schema: grant(&world, r#"{"required":["cc"]}"#).schema, ..good() },
        Err(Refused::Arguments),
    );
    check("no arguments", Grant { schema: grant(&world, "false").schema, ..good() }, Err(Refused::Arguments));
}

#[test]
fn a_grant_is_about_arguments_and_nothing_else() {
    let found = |attached: &'static str| {
        let world = World { attached, ..World::default() };
        let permit = world.question().granted_by(&world.agent(), &grant(&world, "{}"), moment(&Limits::default()));
        permit.map(|permit| permit.attached().as_str().map(str::to_owned)).map_err(|refused| refused.1)
    };
    assert_eq!(found("{}"), Ok(None));
    // What nobody saw is not sent.
    assert_eq!(found(r#"{"_meta":{"to":"all"}}"#), Ok(None));
    for attached in [r#"{"inputResponses":{}}"#, r#"{"requestState":"x","_meta":{}}"#, r#"{"task":{}}"#] {
        assert_eq!(found(attached), Err(Refused::Attached), "{attached}");
    }
}

#[test]
fn a_grant_is_within_the_rate_limit() {
    let world = World { contract: "riskLevel: high\nrateLimit: { calls: 1, per: 1m }".to_owned(), ..World::default() };
    let (limits, grant) = (Limits::default(), grant(&world, "{}"));
    let take = || world.question().granted_by(&world.agent(), &grant, moment(&limits));
    assert!(take().is_ok());
    match take().unwrap_err().1 {
        Refused::RateLimit(denial) => assert_eq!(denial.code(), "rate_limit_exceeded"),
        other => panic!("{other:?}"),
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    /// However a contract asks, a grant covers neither a critical call nor one that takes a fresh factor.
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
            () if risk == "critical" => Err(Refused::Critical),
            () if needs_step_up => Err(Refused::StepUp),
            () => Ok("grant g1".to_owned()),
        };
        prop_assert_eq!(found(&world, &grant(&world, "{}")), expected);
    }
}
