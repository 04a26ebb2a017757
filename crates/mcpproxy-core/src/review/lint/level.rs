//! Compares the risk level of a tool with the definition of the level.
//!
//! Low tools only read, or leave nothing behind. Medium tools change little, and nothing outside. Payments, deletions,
//! permissions, passwords and keys are neither. A contract for one tool alone does not silence these findings: a level that
//! is too low is the mistake that they look for.

use super::super::draft::open_world;
use super::super::names;
use super::{Findings, Looked};
use crate::{RiskLevel, Variant};

pub(super) fn check(findings: &mut Findings, looked: &Looked<'_>) {
    let Some(risk) = &looked.effective.risk else { return };
    match risk.value {
        RiskLevel::Low => {
            too_low(findings, looked);
            open_and_low(findings, looked);
        }
        RiskLevel::Medium => too_low(findings, looked),
        RiskLevel::High | RiskLevel::Critical | RiskLevel::Forbidden => {}
    }
}

fn too_low(findings: &mut Findings, looked: &Looked<'_>) {
    let Some(reason) = reason(looked) else { return };
    let Some(risk) = &looked.effective.risk else { return };
    let message = format!("{}, but {reason}", risk.value.as_str());
    let fix = "write `riskLevel: critical`, or `high` if a mistake can be undone";
    findings.add("C203", &looked.offered.name.to_string(), risk.source.place(), message, fix);
}

/// Returns the reason why a tool is neither low nor medium.
fn reason(looked: &Looked<'_>) -> Option<String> {
    let tool = looked.offered.name.tool();
    if let Some(verb) = names::verb(tool).filter(|verb| verb.risk == RiskLevel::Critical) {
        return Some(format!("`{}` in its name suggests that nobody can undo it", verb.word));
    }
    // First, because it names the secret: a tool that returns a private key is also one that handles keys.
    if let Some(reason) = names::forbidden(tool) {
        return Some(reason.to_owned());
    }
    if let Some(subject) = names::subject(tool) {
        return Some(subject.reason.to_owned());
    }
    (looked.offered.hints.destructive == Some(true)).then(|| "the server says that it is destructive".to_owned())
}

fn open_and_low(findings: &mut Findings, looked: &Looked<'_>) {
    if open_world(looked.offered) != Some(true) {
        return;
    }
    let subject = looked.offered.name.to_string();
    let place = looked.effective.risk.as_ref().and_then(|risk| risk.source.place());
    if looked.effective.operation.as_ref().is_some_and(|operation| operation.value == Variant::Read) {
        let message = "low, and it reads from outside of its server (`openWorldHint`)".to_owned();
        let fix = "keep it if its results are harmless: others can write instructions for the agent into them";
        findings.add("C205", &subject, place, message, fix);
    } else {
        let message = "low, but it acts outside of its server (`openWorldHint`)".to_owned();
        findings.add("C204", &subject, place, message, "write `riskLevel: high`, or `critical` if it reaches people");
    }
}
