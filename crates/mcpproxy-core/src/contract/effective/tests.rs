//! Tests for the effective contract: a table of merges. `properties` says what holds for all contracts.

mod properties;

use std::time::Duration;

use super::*;
use crate::Pointer;
use crate::Untrusted;
use crate::contract::{Idempotency, OutputSchema, RateLimit, Sensitive};
use crate::schema::Schema;

const NO_HINTS: Hints = Hints { read_only: None, destructive: None };
const READ_ONLY: Hints = Hints { read_only: Some(true), destructive: None };
const DESTRUCTIVE: Hints = Hints { read_only: None, destructive: Some(true) };

fn written<T>(value: T) -> Option<Written<T>> {
    Some(Written { value, line: 7, column: 3 })
}

fn schema(text: &str) -> Arc<Schema> {
    Arc::new(Schema::parse(text).unwrap())
}

/// Parses a contract such as `risk=high operation=read alone=true confirmation=none stepUp=when`. All parts are
/// optional.
fn contract(text: &str) -> Contract {
    let mut contract = Contract { file: Some("contracts/a.yaml".into()), ..Contract::default() };
    for (key, value) in text.split_whitespace().map(|pair| pair.split_once('=').unwrap()) {
        match key {
            "risk" => contract.risk = written(RiskLevel::parse(value).unwrap()),
            "operation" => contract.operation = written(Variant::from_operation(value).unwrap()),
            "alone" => contract.autonomous = written(value == "true"),
            "confirmation" => {
                contract.confirmation = written(match value {
                    "none" => Confirmation::None,
                    "when" => Confirmation::When(schema("{\"required\":[\"to\"]}")),
                    _ => Confirmation::Required,
                });
            }
            "stepUp" => {
                contract.step_up = written(match value {
                    "never" => StepUp::Never,
                    "when" => StepUp::When(schema("{\"required\":[\"to\"]}")),
                    _ => StepUp::Always,
                });
            }
            _ => panic!("{key}"),
        }
    }
    contract
}

fn told(effective: &Effective) -> String {
    let source = |source: &Source| match source {
        Source::Operator { .. } => "operator",
        Source::Server => "server",
        Source::Hints => "hints",
        Source::Level => "level",
        Source::Default => "default",
    };
    let risk = effective
        .risk
        .as_ref()
        .map_or("-".to_owned(), |risk| format!("{}/{}", risk.value.as_str(), source(&risk.source)));
    let operation = effective
        .operation
        .as_ref()
        .map_or("-".to_owned(), |operation| format!("{}/{}", operation.value, source(&operation.source)));
    let step_up = match effective.step_up.value {
        StepUp::Never => "never",
        StepUp::When(_) => "when",
        StepUp::Always => "always",
    };
    let confirmation = match effective.confirmation.value {
        Confirmation::None => "none",
        Confirmation::When(_) => "when",
        Confirmation::Required => "required",
    };
    format!(
        "{risk} {operation} {}/{} {confirmation}/{} {step_up}/{}",
        effective.autonomous.value,
        source(&effective.autonomous.source),
        source(&effective.confirmation.source),
        source(&effective.step_up.source)
    )
}

#[test]
fn fields_come_from_the_right_source() {
    let check = |operator: &[&str], server: Option<&str>, hints: Hints, expected: &str| {
        let operator: Vec<Arc<Contract>> = operator.iter().map(|text| Arc::new(contract(text))).collect();
        let operator: Vec<&Arc<Contract>> = operator.iter().collect();
        let server = server.map(contract);
        let effective = Effective::of(&operator, server.as_ref(), hints);
        assert_eq!(told(&effective), expected, "{operator:?} {server:?} {hints:?}");
    };
    // Nothing is written.
    check(&[], None, NO_HINTS, "- - true/default none/default never/default");
    check(&[], None, READ_ONLY, "- read/hints true/default none/default never/default");
    check(&[], None, DESTRUCTIVE, "- destructive/hints true/default none/default never/default");
    let not_read_only = Hints { read_only: Some(false), destructive: Some(false) };
    check(&[], None, not_read_only, "- write/hints true/default none/default never/default");
    let not_destructive = Hints { read_only: None, destructive: Some(false) };
    check(&[], None, not_destructive, "- - true/default none/default never/default");
    // The requirements of each risk level.
    check(&["risk=low"], None, NO_HINTS, "low/operator - true/level none/level never/level");
    check(&["risk=medium"], None, NO_HINTS, "medium/operator - true/level none/level never/level");
    check(&["risk=high"], None, NO_HINTS, "high/operator - false/level required/level never/level");
    check(&["risk=critical"], None, NO_HINTS, "critical/operator - false/level required/level always/level");
    check(&["risk=forbidden"], None, NO_HINTS, "forbidden/operator - false/level required/level never/level");
    check(&[], Some("risk=critical"), NO_HINTS, "critical/server - false/level required/level always/level");
    // The minimum of a risk level holds against the operator, and against the server.
    let loose = "risk=high alone=true confirmation=none";
    check(&[loose], None, NO_HINTS, "high/operator - false/level required/level never/level");
    check(&[], Some(loose), NO_HINTS, "high/server - false/level required/level never/level");
    // Above that minimum the operator's value is final, and a server's contract can ask for more.
    let tight = "risk=low alone=false confirmation=required";
    check(&[tight], None, NO_HINTS, "low/operator - false/operator required/operator never/level");
    check(&[], Some(tight), NO_HINTS, "low/server - false/server required/server never/level");
    let relaxed = &["alone=true confirmation=none"];
    check(relaxed, Some(tight), NO_HINTS, "low/server - true/operator none/operator never/level");
    check(&["risk=medium"], Some(tight), NO_HINTS, "medium/operator - false/server required/server never/level");
    // A condition is stricter than nothing, and weaker than a risk level that always asks.
    check(&["risk=medium confirmation=when"], None, NO_HINTS, "medium/operator - true/level when/operator never/level");
    check(&["risk=low"], Some("confirmation=when"), NO_HINTS, "low/operator - true/level when/server never/level");
    check(
        &["risk=high"],
        Some("confirmation=when"),
        NO_HINTS,
        "high/operator - false/level required/level never/level",
    );
    check(&["confirmation=none"], Some("confirmation=when"), NO_HINTS, "- - true/default none/operator never/default");
    // The operation: the operator's value, even if it is weaker, else the strictest.
    check(&["operation=read"], None, DESTRUCTIVE, "- read/operator true/default none/default never/default");
    check(
        &["operation=destructive"],
        None,
        READ_ONLY,
        "- destructive/operator true/default none/default never/default",
    );
    check(&[], Some("operation=read"), DESTRUCTIVE, "- destructive/hints true/default none/default never/default");
    check(&[], Some("operation=write"), READ_ONLY, "- write/server true/default none/default never/default");
    check(&[], Some("operation=read"), READ_ONLY, "- read/server true/default none/default never/default");
    check(&[], Some("operation=read"), NO_HINTS, "- read/server true/default none/default never/default");
    // Step-up: a condition narrows the requirement of its own level.
    let narrowed = Some("risk=critical stepUp=when");
    check(&[], narrowed, NO_HINTS, "critical/server - false/level required/level when/server");
    check(&["risk=critical"], narrowed, NO_HINTS, "critical/operator - false/level required/level always/level");
    check(&["stepUp=when"], narrowed, NO_HINTS, "critical/server - false/level required/level when/operator");
    check(&["stepUp=never"], narrowed, NO_HINTS, "critical/server - false/level required/level never/operator");
    let waived = Some("risk=critical stepUp=never");
    check(&[], waived, NO_HINTS, "critical/server - false/level required/level never/server");
    check(&["risk=low"], narrowed, NO_HINTS, "low/operator - true/level none/level when/server");
    check(&[], Some("stepUp=always"), NO_HINTS, "- - true/default none/default always/server");
    // Each field comes from the most specific contract that has it.
    check(
        &["alone=false", "risk=low alone=true"],
        None,
        NO_HINTS,
        "low/operator - false/operator none/level never/level",
    );
    check(&["", "risk=low"], Some("risk=high"), NO_HINTS, "low/operator - true/level none/level never/level");
}

/// A new field must be part of the effective contract, or this does not compile.
#[test]
fn every_field_has_its_place() {
    let all = full();
    let effective = Effective::of(&[&Arc::new(all.clone())], None, NO_HINTS);
    let Contract {
        file: _,
        is_draft: _,
        description,
        category,
        risk,
        operation,
        autonomous,
        confirmation,
        step_up,
        input_schema,
        output_schema,
        permissions,
        side_effects,
        audit_event,
        failure_modes,
        idempotency,
        dry_run,
        rate_limit,
        sensitive,
        version,
    } = all;
    fn check<T: Clone + PartialEq + std::fmt::Debug>(field: Option<Written<T>>, found: Option<Sourced<T>>) {
        let source = Source::Operator { file: "contracts/all.yaml".into(), line: 7, is_draft: false };
        assert_eq!(found, field.map(|field| Sourced { value: field.value, source }));
    }
    let Effective { is_written, .. } = effective;
    assert!(is_written);
    check(description, effective.description);
    check(category, effective.category);
    check(risk, effective.risk);
    check(operation, effective.operation);
    check(autonomous, Some(effective.autonomous));
    check(confirmation, Some(effective.confirmation));
    check(step_up, Some(effective.step_up));
    check(input_schema, effective.input_schema);
    check(output_schema, effective.output_schema);
    check(permissions, Some(effective.permissions));
    check(side_effects, Some(effective.side_effects));
    check(audit_event, effective.audit_event);
    check(failure_modes, effective.failure_modes);
    check(idempotency, Some(effective.idempotency));
    check(dry_run, Some(effective.dry_run));
    check(rate_limit, effective.rate_limit);
    check(sensitive, Some(effective.sensitive));
    check(version, effective.version);
}

fn full() -> Contract {
    Contract {
        file: Some("contracts/all.yaml".into()),
        is_draft: false,
        description: written(Untrusted::new("Sends.")),
        category: written("communication".to_owned()),
        risk: written(RiskLevel::Critical),
        operation: written(Variant::Destructive),
        autonomous: written(false),
        confirmation: written(Confirmation::Required),
        step_up: written(StepUp::When(schema("{\"required\":[\"to\"]}"))),
        input_schema: written(schema("{\"type\":\"object\"}")),
        output_schema: written(OutputSchema { schema: schema("{}"), is_strict: true }),
        permissions: written(vec!["emails:send".to_owned()]),
        side_effects: written(vec![Untrusted::new("An email is sent.")]),
        audit_event: written("email.sent".to_owned()),
        failure_modes: written(vec!["invalid_recipient".to_owned()]),
        idempotency: written(Idempotency::Key { ttl: Duration::from_secs(60) }),
        dry_run: written(DryRun::Required { parameter: Some("dryRun".to_owned()) }),
        rate_limit: written(RateLimit { calls: 3, per: Duration::from_secs(60) }),
        sensitive: written(vec![Sensitive { text: "/to".to_owned(), pointer: Pointer::parse("/to").unwrap() }]),
        version: written("3".to_owned()),
    }
}
