//! Properties of the effective contract, for random contracts of operators and servers.

use std::time::Duration;

use proptest::option::of;
use proptest::prelude::*;
use proptest::sample::{select, subsequence};

use super::*;

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
