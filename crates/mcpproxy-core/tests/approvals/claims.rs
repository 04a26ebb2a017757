//! Tests for idempotency keys: when two calls count as one.

use std::time::Duration;

use mcpproxy_core::{Declared, Denial, PriorState};

use super::World;

/// Returns the key, whether it is natural, and its lifetime in seconds.
fn claim(contract: &str, parameters: &str) -> Option<(String, bool, u64)> {
    let world = World::of(contract, parameters);
    let claim = world.declared().claim(&world.tool()).unwrap()?;
    assert_eq!(claim.arguments, world.declared().arguments.digest());
    Some((claim.key, claim.is_natural, claim.ttl.as_secs()))
}

#[test]
fn keys_of_agents_and_of_contracts() {
    let day = 24 * 3600;
    let given = |key: &str, ttl| Some((format!("key:{key}"), false, ttl));
    let natural = "riskLevel: low\nidempotency: { mode: natural, keyFrom: [to, n], ttl: 1h }";
    assert_eq!(claim("", r#","args":{"to":1}"#), None);
    assert_eq!(claim("", r#","args":{"to":1},"idempotency_key":"k""#), given("k", day));
    assert_eq!(claim("idempotency: { mode: key, ttl: 1h }", r#","idempotency_key":"~!""#), given("~!", 3600));
    assert_eq!(claim("idempotency: key", r#","args":{"to":1}"#), None);
    assert_eq!(claim(natural, r#","args":{"to":1},"idempotency_key":"k""#), given("k", 3600));
    let key = |args: &str| claim(natural, &format!(",\"args\":{args}"));
    let first = key(r#"{"to":1,"n":2,"x":3}"#).unwrap();
    assert!(first.0.starts_with("natural:") && first.0.len() == "natural:".len() + 64 && first.1, "{first:?}");
    assert_eq!(first.2, 3600);
    for same in [r#"{"n":2,"to":1}"#, r#"{"x":9, "n": 2, "t\u006f": 1}"#] {
        assert_eq!(key(same), Some(first.clone()), "{same}");
    }
    for other in [r#"{"to":2,"n":1}"#, r#"{"to":1}"#, r#"{"to":1,"n":2.0}"#, r#"{"to":1,"n":null}"#] {
        assert_ne!(key(other), Some(first.clone()), "{other}");
        assert!(key(other).is_some(), "{other}");
    }
    // None of the arguments that identify the result is given.
    assert_eq!(key(r#"{"x":3}"#), None);
    assert_eq!(key("{}"), None);
}

#[test]
fn a_key_is_for_everything_that_is_sent() {
    let claim = |attached: &'static str| {
        let world = World { attached, ..World::of("riskLevel: low", r#","idempotency_key":"k""#) };
        world.declared().claim(&world.tool()).unwrap().unwrap().arguments
    };
    let plain = claim("{}");
    assert_eq!(claim(r#"{"_meta":{"request":7}}"#), plain);
    let answered = claim(r#"{"inputResponses":{"sure":"yes"}}"#);
    assert_ne!(answered, plain);
    assert_eq!(claim(r#"{"_meta":{"request":7},"inputResponses":{"sure":"yes"}}"#), answered);
    for other in [r#"{"inputResponses":{"sure":"no"}}"#, r#"{"inputResponses":{"sure":"yes"},"requestState":"1"}"#] {
        assert!(![plain, answered].contains(&claim(other)), "{other}");
    }
}

#[test]
fn a_dry_run_claims_nothing() {
    let contract = "idempotency: key\ndryRun: { mode: supported, parameter: dry }";
    for parameters in [r#","dry_run":true,"idempotency_key":"k""#, r#","args":{"dry":true},"idempotency_key":"k""#] {
        assert_eq!(claim(contract, parameters), None);
        assert_eq!(World::of(contract, parameters).permit().claim(), None);
    }
    assert!(claim(contract, r#","args":{"dry":false},"idempotency_key":"k""#).is_some());
}

#[test]
fn a_permit_carries_its_claim() {
    let world = World::of("riskLevel: low", r#","idempotency_key":"k""#);
    let permit = world.permit();
    assert_eq!(permit.claim(), world.declared().claim(&world.tool()).unwrap().as_ref());
    assert_eq!(permit.claim().unwrap().ttl, Duration::from_secs(24 * 3600));
    assert_eq!(World::of("riskLevel: low", "").permit().claim(), None);
}

#[test]
fn an_unchecked_key_is_checked() {
    let world = World::of("riskLevel: low", "");
    let declared = Declared { idempotency_key: Some("a b".to_owned()), ..world.declared() };
    assert_eq!(declared.claim(&world.tool()), Err(Denial::InvalidIdempotencyKey));
}

#[test]
fn a_repeat_is_answered_before_limits_dry_runs_and_users() {
    let contract = "riskLevel: critical\ndryRun: required\nrateLimit: { calls: 1, per: 24h }\npermissions: [a:b]\ninputSchema: { required: [to] }";
    let prior = PriorState { is_repeat: true, dry_run_ms: None };
    let key = r#","args":{"to":1},"idempotency_key":"k""#;
    let repeat = World { prior, ..World::of(contract, key) };
    assert_eq!(repeat.told(), "repeat fx:t key:k");
    let lacks = World { grants: &[], ..repeat.clone() };
    assert!(lacks.told().starts_with("permission_denied"), "{}", lacks.told());
    let unfit = World { parameters: r#","idempotency_key":"k""#.to_owned(), ..repeat.clone() };
    assert!(unfit.told().starts_with("invalid_arguments"), "{}", unfit.told());
    let without = World { parameters: r#","args":{"to":1}"#.to_owned(), ..repeat };
    assert!(without.told().starts_with("dry_run_required"), "{}", without.told());
}
