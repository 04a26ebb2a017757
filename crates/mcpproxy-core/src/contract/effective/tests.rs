//! Tests for the effective contract: a table of merges, and property tests.

use std::time::Duration;

use proptest::option::of;
use proptest::prelude::*;
use proptest::sample::{select, subsequence};

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

fn maybe<T: Clone + std::fmt::Debug>(value: impl Strategy<Value = T>) -> impl Strategy<Value = Option<Written<T>>> {
    of(value.prop_map(|value| Written { value, line: 7, column: 3 }))
}

fn any_step_up() -> impl Strategy<Value = StepUp> {
    select(vec![StepUp::Never, StepUp::When(schema("{\"required\":[\"to\"]}")), StepUp::Always])
}

fn any_confirmation() -> impl Strategy<Value = Confirmation> {
    select(vec![Confirmation::None, Confirmation::When(schema("{\"required\":[\"to\"]}")), Confirmation::Required])
}

fn any_dry_run() -> impl Strategy<Value = DryRun> {
    let parameter = Some("dryRun".to_owned());
    select(vec![DryRun::None, DryRun::Supported { parameter: parameter.clone() }, DryRun::Required { parameter }])
}

fn any_contract() -> impl Strategy<Value = Contract> {
    let permissions = vec!["a:x".to_owned(), "b:y".to_owned(), "c:z".to_owned()];
    let user = (
        maybe(select(RiskLevel::ALL.to_vec())),
        maybe(select(Variant::ALL.to_vec())),
        maybe(any::<bool>()),
        maybe(any_confirmation()),
        maybe(any_step_up()),
    );
    let rest = (
        maybe(subsequence(permissions, 0..=3)),
        maybe(any_dry_run()),
        maybe((1u32..4).prop_map(|calls| RateLimit { calls, per: Duration::from_secs(60) })),
        maybe(select(vec![schema("{}"), schema("{\"type\":\"object\"}")])),
        maybe(any::<bool>().prop_map(|is_strict| OutputSchema { schema: schema("{}"), is_strict })),
        maybe("[a-c]".prop_map(Untrusted::new)),
    );
    (user, rest).prop_map(|((risk, operation, autonomous, confirmation, step_up), rest)| {
        let (permissions, dry_run, rate_limit, input_schema, output_schema, description) = rest;
        Contract {
            file: Some("contracts/any.yaml".into()),
            risk,
            operation,
            autonomous,
            confirmation,
            step_up,
            permissions,
            dry_run,
            rate_limit,
            input_schema,
            output_schema,
            description,
            ..Contract::default()
        }
    })
}

fn any_hints() -> impl Strategy<Value = Hints> {
    (of(any::<bool>()), of(any::<bool>())).prop_map(|(read_only, destructive)| Hints { read_only, destructive })
}

fn step_up_rank(step_up: &StepUp) -> u8 {
    match step_up {
        StepUp::Never => 0,
        StepUp::When(_) => 1,
        StepUp::Always => 2,
    }
}

fn dry_run_rank(dry_run: &DryRun) -> u8 {
    match dry_run {
        DryRun::None => 0,
        DryRun::Supported { .. } => 1,
        DryRun::Required { .. } => 2,
    }
}

/// Returns true if `a` stops or asks about every call that `b` does.
fn is_at_least_as_strict(a: &Effective, b: &Effective) -> bool {
    let value = |effective: &Effective| effective.operation.as_ref().map(|operation| operation.value);
    let calls = |effective: &Effective| effective.rate_limit.as_ref().map_or(u32::MAX, |limit| limit.value.calls);
    let strict = |effective: &Effective| effective.output_schema.as_ref().map(|schema| schema.value.is_strict);
    a.risk() >= b.risk()
        && value(a) >= value(b)
        && a.asks() >= b.asks()
        && a.may_ask() >= b.may_ask()
        && a.confirmation.value.rank() >= b.confirmation.value.rank()
        && a.autonomous.value <= b.autonomous.value
        // A forbidden tool is never called, so it needs no second factor.
        && (a.risk() == Some(RiskLevel::Forbidden)
            || step_up_rank(&a.step_up.value) >= step_up_rank(&b.step_up.value))
        && dry_run_rank(&a.dry_run.value) >= dry_run_rank(&b.dry_run.value)
        && b.permissions.value.iter().all(|permission| a.permissions.value.contains(permission))
        && calls(a) <= calls(b)
        && a.input_schema.is_some() >= b.input_schema.is_some()
        && strict(a) >= strict(b)
}

/// Joins two contracts into the stricter one, field by field. Without `stepUpAuth`, the risk level decides.
fn join(a: &Contract, b: &Contract) -> Contract {
    fn max<T: Clone>(
        a: &Option<Written<T>>,
        b: &Option<Written<T>>,
        more: impl Fn(&T, &T) -> bool,
    ) -> Option<Written<T>> {
        match (a, b) {
            (Some(a), Some(b)) => Some(if more(&b.value, &a.value) { b.clone() } else { a.clone() }),
            (a, b) => a.clone().or_else(|| b.clone()),
        }
    }
    let of_level = |one: &Contract| {
        let is_critical = one.risk.as_ref().is_some_and(|risk| risk.value == RiskLevel::Critical);
        one.step_up.clone().or_else(|| if is_critical { written(StepUp::Always) } else { None })
    };
    let both = |a: &[String], b: &[String]| a.iter().chain(b.iter().filter(|one| !a.contains(one))).cloned().collect();
    let permissions = match (&a.permissions, &b.permissions) {
        (Some(a), Some(b)) => written(both(&a.value, &b.value)),
        (a, b) => a.clone().or_else(|| b.clone()),
    };
    Contract {
        risk: max(&a.risk, &b.risk, |a, b| a > b),
        operation: max(&a.operation, &b.operation, |a, b| a > b),
        autonomous: max(&a.autonomous, &b.autonomous, |a, b| a < b),
        confirmation: max(&a.confirmation, &b.confirmation, |a, b| a.rank() > b.rank()),
        step_up: max(&of_level(a), &of_level(b), |a, b| step_up_rank(a) > step_up_rank(b)),
        permissions,
        dry_run: max(&a.dry_run, &b.dry_run, |a, b| dry_run_rank(a) > dry_run_rank(b)),
        rate_limit: max(&a.rate_limit, &b.rate_limit, |a, b| a.calls < b.calls),
        input_schema: a.input_schema.clone().or_else(|| b.input_schema.clone()),
        output_schema: max(&a.output_schema, &b.output_schema, |a, b| a.is_strict && !b.is_strict),
        ..a.clone()
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 512, failure_persistence: None, ..ProptestConfig::default() })]

    /// If the operator wrote nothing, a stricter contract of the server never makes the effective contract weaker.
    #[test]
    fn a_server_can_only_tighten(a in any_contract(), b in any_contract(), hints in any_hints()) {
        let stricter = join(&a, &b);
        let strict = Effective::of(&[], Some(&stricter), hints);
        for weaker in [&a, &b, &Contract::default()] {
            let weak = Effective::of(&[], Some(weaker), hints);
            prop_assert!(is_at_least_as_strict(&strict, &weak), "{strict:#?}\n{weak:#?}");
        }
        let without = Effective::of(&[], None, hints);
        prop_assert!(is_at_least_as_strict(&strict, &without), "{strict:#?}\n{without:#?}");
    }

    /// The same holds for any contract of the operator: only the fields that it leaves open can change.
    #[test]
    fn nor_under_an_operators_contract(
        operator in any_contract(), a in any_contract(), b in any_contract(), hints in any_hints()
    ) {
        let operator = Arc::new(operator);
        let strict = Effective::of(&[&operator], Some(&join(&a, &b)), hints);
        let weak = Effective::of(&[&operator], Some(&a), hints);
        prop_assert!(is_at_least_as_strict(&strict, &weak), "{strict:#?}\n{weak:#?}");
    }

    /// The operator's values are final, except for the minimum of the risk level.
    #[test]
    fn the_operators_contract_is_final(operator in any_contract(), server in any_contract(), hints in any_hints()) {
        let operator = Arc::new(operator);
        let effective = Effective::of(&[&operator], Some(&server), hints);
        let floor = effective.risk().is_some_and(asks);
        let Contract { risk, operation, autonomous, confirmation, step_up, dry_run, permissions, .. } = operator.as_ref();
        if let Some(risk) = risk {
            prop_assert_eq!(Some(risk.value), effective.risk());
        }
        if let Some(operation) = operation {
            prop_assert_eq!(Some(operation.value), effective.operation.as_ref().map(|operation| operation.value));
        }
        if let Some(autonomous) = autonomous {
            prop_assert_eq!(autonomous.value && !floor, effective.autonomous.value);
        }
        if let Some(confirmation) = confirmation {
            let expected = if floor { &Confirmation::Required } else { &confirmation.value };
            prop_assert_eq!(expected, &effective.confirmation.value);
        }
        if let Some(step_up) = step_up {
            prop_assert_eq!(&step_up.value, &effective.step_up.value);
        }
        if let Some(dry_run) = dry_run {
            prop_assert_eq!(&dry_run.value, &effective.dry_run.value);
        }
        if let Some(permissions) = permissions {
            prop_assert_eq!(&permissions.value, &effective.permissions.value);
        }
    }

    #[test]
    fn floors_always_hold(operator in any_contract(), server in of(any_contract()), hints in any_hints()) {
        let effective = Effective::of(&[&Arc::new(operator.clone())], server.as_ref(), hints);
        if effective.risk() >= Some(RiskLevel::High) {
            prop_assert!(effective.asks() && !effective.autonomous.value);
            prop_assert_eq!(&effective.confirmation.value, &Confirmation::Required);
        }
        let is_said = operator.step_up.is_some() || server.is_some_and(|server| server.step_up.is_some());
        if effective.risk() == Some(RiskLevel::Critical) && !is_said {
            prop_assert_eq!(&effective.step_up.value, &StepUp::Always);
        }
        prop_assert!(effective.operation.as_ref().map(|one| one.value) >= hints.operation() || operator.operation.is_some());
    }

    #[test]
    fn the_most_specific_counts(
        a in any_contract(), b in any_contract(), server in of(any_contract()), hints in any_hints()
    ) {
        let (a, b) = (Arc::new(a), Arc::new(b));
        let once = Effective::of(&[&a], server.as_ref(), hints);
        prop_assert_eq!(&Effective::of(&[&a, &a], server.as_ref(), hints), &once);
        let both = Effective::of(&[&a, &b], server.as_ref(), hints);
        prop_assert_eq!(&Effective::of(&[&a, &b, &a], server.as_ref(), hints), &both);
        // Both contracts, merged by hand into one file, mean the same as in two files.
        let one = Arc::new(Contract {
            file: a.file.clone(),
            description: a.description.clone().or_else(|| b.description.clone()),
            risk: a.risk.clone().or_else(|| b.risk.clone()),
            operation: a.operation.clone().or_else(|| b.operation.clone()),
            autonomous: a.autonomous.clone().or_else(|| b.autonomous.clone()),
            confirmation: a.confirmation.clone().or_else(|| b.confirmation.clone()),
            step_up: a.step_up.clone().or_else(|| b.step_up.clone()),
            input_schema: a.input_schema.clone().or_else(|| b.input_schema.clone()),
            output_schema: a.output_schema.clone().or_else(|| b.output_schema.clone()),
            permissions: a.permissions.clone().or_else(|| b.permissions.clone()),
            dry_run: a.dry_run.clone().or_else(|| b.dry_run.clone()),
            rate_limit: a.rate_limit.clone().or_else(|| b.rate_limit.clone()),
            ..Contract::default()
        });
        prop_assert_eq!(&Effective::of(&[&one], server.as_ref(), hints), &both);
    }
}
