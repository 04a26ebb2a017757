//! Checks one tool's effective contract by itself.

use super::super::coverage::{STANDARD_FIELDS, missing_fields};
use super::super::names;
use super::{Findings, Looked, level};
use crate::contract::{DryRun, Effective, Idempotency, Source, StepUp};
use crate::schema::Schema;
use crate::{RiskLevel, Untrusted, Variant};

pub(super) fn check(findings: &mut Findings, looked: &Looked<'_>) {
    name(findings, looked);
    level::check(findings, looked);
    missing(findings, looked);
    repetition(findings, looked);
    standard_fields(findings, looked);
    failures(findings, looked);
    patterns(findings, looked);
}

/// Returns true if the risk level is from a file that nobody has reviewed yet.
fn is_draft(effective: &Effective) -> bool {
    let source = effective.risk.as_ref().map(|risk| &risk.source);
    matches!(source, Some(Source::Operator { is_draft: true, .. }))
}

fn name(findings: &mut Findings, looked: &Looked<'_>) {
    let effective = looked.effective;
    let tool = looked.offered.name.tool();
    let subject = looked.offered.name.to_string();
    if let Some(why) = names::forbidden(tool)
        && effective.risk() != Some(RiskLevel::Forbidden)
        // The author of a contract for this tool alone has looked at it, unless it is a draft.
        && (looked.exact.is_none_or(|exact| exact.risk.is_none()) || is_draft(effective))
    {
        let place = effective.risk.as_ref().and_then(|risk| risk.source.place());
        let fix = "write `riskLevel: forbidden` in a contract for this tool alone, or another level if it is harmless";
        findings.add("C201", &subject, place, why.to_owned(), fix);
    }
    if let (Some(operation), Some(verb)) = (&effective.operation, names::verb(tool))
        && operation.value == Variant::Read
        && verb.operation != Variant::Read
        && looked.exact.is_none_or(|exact| exact.operation.is_none())
    {
        let place = operation.source.place();
        let message = format!("`{}` in its name suggests {}, but it is marked as reading", verb.word, verb.operation);
        let fix = "write the right `operation` in a contract for this tool alone";
        findings.add("C202", &subject, place, message, fix);
    }
}

fn missing(findings: &mut Findings, looked: &Looked<'_>) {
    let effective = looked.effective;
    let subject = looked.offered.name.to_string();
    let Some(risk) = &effective.risk else {
        if effective.is_written {
            let message = "the tool has a contract, but no risk level".to_owned();
            findings.add("C003", &subject, looked.place.clone(), message, "add `riskLevel`");
        }
        return;
    };
    let place = risk.source.place();
    let mut lacks = |code, is_missing: bool, field: &str, fix: &str| {
        if is_missing {
            let message = format!("{} without `{field}`", risk.value.as_str());
            findings.add(code, &subject, place.clone(), message, fix);
        }
    };
    match risk.value {
        RiskLevel::High | RiskLevel::Critical => {
            let fix = "describe the effects of a call for the user who approves it";
            lacks("C301", effective.side_effects.value.is_empty(), "sideEffects", fix);
            lacks("C302", effective.audit_event.is_none(), "auditEvent", "name the record, such as `email.sent`");
            lacks(
                "C303",
                effective.failure_modes.is_none(),
                "failureModes",
                "list the error codes that agents can expect",
            );
            let fix = "list the permissions that a token needs, such as `emails:send`";
            lacks("C304", effective.permissions.value.is_empty(), "permissions", fix);
        }
        RiskLevel::Low | RiskLevel::Medium | RiskLevel::Forbidden => {}
    }
    let reads = effective.operation.as_ref().is_some_and(|operation| operation.value == Variant::Read);
    let has_dry_run = !matches!(effective.dry_run.value, DryRun::None);
    if names::is_bulk(looked.offered.name.tool()) && !reads && !has_dry_run && risk.value != RiskLevel::Forbidden {
        let message = "its name suggests a bulk operation, and there is no `dryRun`".to_owned();
        findings.add("C305", &subject, place, message, "add `dryRun: { mode: required }`");
    }
}

/// Words by which a sentence speaks of repeated calls, and the starts of such words.
const OF_REPETITION: [&str; 8] = ["again", "twice", "once", "second", "same", "already", "retry", "retries"];
const STARTS_OF_REPETITION: [&str; 2] = ["repeat", "idempot"];

/// Reports side effects that do not say what a repeated call does. Agents plan retries by them.
fn repetition(findings: &mut Findings, looked: &Looked<'_>) {
    let effective = looked.effective;
    let is_repeatable = match effective.idempotency.value {
        Idempotency::None => false,
        Idempotency::Natural { .. } | Idempotency::Key { .. } => true,
    };
    let speaks_of_it = effective.side_effects.value.iter().any(|effect| {
        let effect = effect.for_json().to_lowercase();
        // Whole words: `against` and `within seconds` do not speak of repetition.
        effect.split(|c: char| !c.is_alphanumeric()).any(|word| {
            OF_REPETITION.contains(&word) || STARTS_OF_REPETITION.iter().any(|start| word.starts_with(start))
        })
    });
    if is_repeatable && !speaks_of_it && effective.risk() != Some(RiskLevel::Forbidden) {
        let place = effective.side_effects.source.place().or_else(|| effective.idempotency.source.place());
        let message = "the tool is repeatable, but `sideEffects` do not say what a repeated call does".to_owned();
        let fix = "add a sentence such as \"Repeating the call returns the same link.\"";
        findings.add("C306", &looked.offered.name.to_string(), place, message, fix);
    }
}

/// Returns the fields whose absence has a warning of its own: C003, C301 and C304. C302 and C303 are only hints, so
/// C307 names their fields too.
fn warned_of(effective: &Effective) -> &'static [&'static str] {
    match effective.risk() {
        None => &["riskLevel"],
        Some(RiskLevel::High | RiskLevel::Critical) => &["sideEffects", "permissions"],
        Some(RiskLevel::Low | RiskLevel::Medium | RiskLevel::Forbidden) => &[],
    }
}

/// Reports fields of the contract standard that a written contract lacks, unless another warning names them.
fn standard_fields(findings: &mut Findings, looked: &Looked<'_>) {
    if !looked.effective.is_written {
        return;
    }
    let mut missing = missing_fields(looked.offered, looked.effective);
    let all = missing.len();
    let told = warned_of(looked.effective);
    missing.retain(|name| !told.contains(name));
    if missing.is_empty() {
        return;
    }
    let more = if missing.len() < all { " more" } else { "" };
    let names: Vec<String> = missing.iter().map(|name| format!("`{name}`")).collect();
    let message = format!("{}{more} of {STANDARD_FIELDS} fields are missing: {}", missing.len(), names.join(", "));
    let fix = "add them; `mcpproxy contract coverage` counts them for all tools";
    findings.add("C307", &looked.offered.name.to_string(), looked.place.clone(), message, fix);
}

/// Reports gateway error codes that the failure modes lack. Agents rely on that list.
fn failures(findings: &mut Findings, looked: &Looked<'_>) {
    let effective = looked.effective;
    let Some(declared) = &effective.failure_modes else { return };
    let steps_up = !matches!(effective.step_up.value, StepUp::Never);
    let answers = [
        ("permission_denied", !effective.permissions.value.is_empty()),
        ("rate_limit_exceeded", effective.rate_limit.is_some()),
        ("dry_run_required", matches!(effective.dry_run.value, DryRun::Required { .. })),
        ("confirmation_required", effective.may_ask() || steps_up),
    ];
    let left_out: Vec<String> = answers
        .into_iter()
        .filter(|(code, is_answered)| *is_answered && !declared.value.iter().any(|one| one == code))
        .map(|(code, _)| format!("`{code}`"))
        .collect();
    if !left_out.is_empty() && effective.risk() != Some(RiskLevel::Forbidden) {
        let message = format!("the gateway itself can return {}", left_out.join(", "));
        let subject = looked.offered.name.to_string();
        findings.add("C501", &subject, declared.source.place(), message, "add them to `failureModes`");
    }
}

/// Reports the patterns of a tool's own schema that only the server checks.
fn patterns(findings: &mut Findings, looked: &Looked<'_>) {
    if !looked.effective.is_written {
        return;
    }
    for field in ["inputSchema", "outputSchema"] {
        let Some(Ok(schema)) = looked.offered.field(field).map(Schema::of_server) else { continue };
        let Some(first) = schema.unchecked().first() else { continue };
        let others = match schema.unchecked().len() {
            1 => String::new(),
            all => format!(" and {} more", all - 1),
        };
        let place = Untrusted::shortened(first, 128);
        let message = format!("`{}` of its `{field}`{others} is left to the server", place.for_terminal());
        let fix = "if it matters, write a simpler `pattern` in the contract's own schema";
        findings.add("C405", &looked.offered.name.to_string(), None, message, fix);
    }
}
