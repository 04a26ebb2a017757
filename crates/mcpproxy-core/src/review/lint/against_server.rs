//! Compares the operator's contract with the server's, and both with the risk level.

use super::{Findings, Looked, Place};
use crate::RiskLevel;
use crate::contract::{Confirmation, Contract, DryRun, Source, StepUp, Written, asks};

pub(super) fn check(findings: &mut Findings, looked: &Looked<'_>) {
    operator_relaxes(findings, looked);
    server_contradicts_itself(findings, looked);
    without_effect(findings, looked);
}

/// Reports operator values that are weaker than the server's. They are allowed, but should not be accidental.
fn operator_relaxes(findings: &mut Findings, looked: &Looked<'_>) {
    let Looked { offered, operator, .. } = looked;
    let subject = offered.name.to_string();
    let fix = "keep it if this is intended, otherwise remove the field";
    if let (Some((mine, place)), Some(hinted)) =
        (said(operator, |one| one.operation.as_ref()), offered.hints.operation())
        && mine < hinted
    {
        let message = format!("`operation: {mine}`, but the server's annotations say {hinted}");
        findings.add("C102", &subject, place, message, fix);
    }
    let Some(own) = &offered.contract else { return };
    let mut less = |field: &str, mine: &str, theirs: &str, place: Place| {
        let message = format!("`{field}: {mine}`, but the server's contract says {theirs}");
        findings.add("C101", &subject, place, message, fix);
    };
    if let Some((mine, theirs, place)) = both(operator, own, |one| one.risk.as_ref())
        && mine < theirs
    {
        less("riskLevel", mine.as_str(), theirs.as_str(), place);
    }
    if let Some((mine, theirs, place)) = both(operator, own, |one| one.operation.as_ref())
        && mine < theirs
    {
        less("operation", mine.operation(), theirs.operation(), place);
    }
    if let Some((mine, theirs, place)) = both(operator, own, |one| one.autonomous.as_ref())
        && mine
        && !theirs
    {
        less("autonomousExecution", "true", "false", place);
    }
    if let Some((mine, theirs, place)) = both(operator, own, |one| one.confirmation.as_ref())
        && mine.rank() < theirs.rank()
    {
        less("confirmation", mine.word(), theirs.word(), place);
    }
    if let Some((mine, theirs, place)) = both(operator, own, |one| one.step_up.as_ref())
        && step_up_word(&mine) < step_up_word(&theirs)
    {
        less("stepUpAuth", step_up_word(&mine).1, step_up_word(&theirs).1, place);
    }
    if let Some((mine, theirs, place)) = both(operator, own, |one| one.dry_run.as_ref())
        && dry_run_word(&mine) < dry_run_word(&theirs)
    {
        less("dryRun.mode", dry_run_word(&mine).1, dry_run_word(&theirs).1, place);
    }
    if let Some((mine, theirs, place)) = both(operator, own, |one| one.permissions.as_ref()) {
        let missing = theirs.iter().filter(|permission| !mine.contains(permission)).count();
        if missing > 0 {
            let theirs = format!("{missing} more");
            less("permissions", &format!("{} of them", mine.len()), &theirs, place);
        }
    }
}

fn server_contradicts_itself(findings: &mut Findings, looked: &Looked<'_>) {
    let offered = looked.offered;
    let Some(own) = &offered.contract else { return };
    let subject = offered.name.to_string();
    if let (Some(written), Some(hinted)) = (&own.operation, offered.hints.operation())
        && written.value < hinted
    {
        let message = format!("the server's contract says {}, its annotations say {hinted}", written.value);
        let fix = "the stricter one applies; to decide it, write `operation` in your own contract";
        findings.add("C103", &subject, None, message, fix);
    }
    if let Some(risk) = own.risk.as_ref().filter(|risk| asks(risk.value)) {
        let level = risk.value.as_str();
        let fix = "the risk level applies; you need to do nothing, but tell the author of the server";
        if own.autonomous.as_ref().is_some_and(|written| written.value) {
            let message = format!("the server's contract says {level} and `autonomousExecution: true`");
            findings.add("C104", &subject, None, message, fix);
        }
        if let Some(weaker) = own.confirmation.as_ref().filter(|written| written.value != Confirmation::Required) {
            let message = format!("the server's contract says {level} and `confirmation: {}`", weaker.value.word());
            findings.add("C104", &subject, None, message, fix);
        }
    }
}

/// Finds fields of the operator that the risk level overrules.
fn without_effect(findings: &mut Findings, looked: &Looked<'_>) {
    let Looked { offered, operator, effective, .. } = looked;
    let subject = offered.name.to_string();
    let Some(risk) = effective.risk() else { return };
    if asks(risk) {
        let level = risk.as_str();
        let fix = "remove the field, or lower `riskLevel`";
        if let Some((true, place)) = said(operator, |one| one.autonomous.as_ref()) {
            let message = format!("`autonomousExecution: true` has no effect at level {level}");
            findings.add("C105", &subject, place, message, fix);
        }
        if let Some((weaker, place)) = said(operator, |one| one.confirmation.as_ref())
            && weaker != Confirmation::Required
        {
            let message = format!("`confirmation: {}` has no effect at level {level}", weaker.word());
            findings.add("C105", &subject, place, message, fix);
        }
    }
    if risk == RiskLevel::Critical && effective.step_up.value == StepUp::Never {
        let place = effective.step_up.source.place();
        let message = "critical, but no approval needs a second factor".to_owned();
        let fix = "remove `stepUpAuth`, or limit it to some arguments with `when`";
        findings.add("C106", &subject, place, message, fix);
    }
}

/// Returns the operator's value and its position.
fn said<T: Clone>(
    operator: &[&std::sync::Arc<Contract>],
    field: impl Fn(&Contract) -> Option<&Written<T>>,
) -> Option<(T, Place)> {
    operator.iter().find_map(|contract| {
        let written = field(contract)?;
        Some((written.value.clone(), Source::operator(contract, written.line).place()))
    })
}

/// Returns the operator's value and the server's, if both have one.
fn both<T: Clone>(
    operator: &[&std::sync::Arc<Contract>],
    own: &Contract,
    field: impl Fn(&Contract) -> Option<&Written<T>>,
) -> Option<(T, T, Place)> {
    let theirs = field(own)?.value.clone();
    let (mine, place) = said(operator, field)?;
    Some((mine, theirs, place))
}

fn step_up_word(step_up: &StepUp) -> (u8, &'static str) {
    match step_up {
        StepUp::Never => (0, "never"),
        StepUp::When(_) => (1, "when"),
        StepUp::Always => (2, "always"),
    }
}

fn dry_run_word(dry_run: &DryRun) -> (u8, &'static str) {
    match dry_run {
        DryRun::None => (0, "none"),
        DryRun::Supported { .. } => (1, "supported"),
        DryRun::Required { .. } => (2, "required"),
    }
}
