//! Finds contradictions between two fields of an operator's contract.

use super::{Confirmation, Contract, Written};
use crate::RiskLevel;
use crate::file::Reader;

/// Reports the weaker of two fields that contradict each other.
pub(super) fn check(reader: &mut Reader<'_>, contract: &Contract) {
    let level = contract.risk.as_ref().map(|risk| risk.value);
    let alone = contract.autonomous.as_ref();
    let confirmation = contract.confirmation.as_ref();
    let weaker = confirmation.filter(|confirmation| confirmation.value != Confirmation::Required);
    match level {
        Some(level @ (RiskLevel::High | RiskLevel::Critical)) => {
            not_alone(reader, alone, level);
            if let Some(field) = weaker {
                let message = format!(
                    "`confirmation: {}` contradicts risk level `{}`, which requires a user's approval; remove it, or \
                     lower the level",
                    field.value.word(),
                    level.as_str()
                );
                reader.report(field.position(), message);
            }
        }
        Some(RiskLevel::Forbidden) => {
            not_alone(reader, alone, RiskLevel::Forbidden);
            never_called(reader, contract);
        }
        Some(RiskLevel::Low | RiskLevel::Medium) | None => {
            if let (Some(field), Some(Written { value: false, .. })) = (weaker, alone) {
                let message = format!(
                    "`confirmation: {}` contradicts `autonomousExecution: false`, which requires a user's approval; remove \
                     one of them",
                    field.value.word()
                );
                reader.report(field.position(), message);
            }
        }
    }
}

fn not_alone(reader: &mut Reader<'_>, alone: Option<&Written<bool>>, level: RiskLevel) {
    if let Some(field @ Written { value: true, .. }) = alone {
        let message = format!(
            "`autonomousExecution: true` contradicts risk level `{}`, which does not allow autonomous calls; remove it, or lower the level",
            level.as_str()
        );
        reader.report(field.position(), message);
    }
}

fn never_called(reader: &mut Reader<'_>, contract: &Contract) {
    for (field, position) in contract.positions().into_iter().filter(|(field, _)| field.calls_only) {
        let message = format!(
            "`{}` contradicts risk level `forbidden`: a forbidden tool is never called; remove it, or lower the level",
            field.key
        );
        reader.report(position, message);
    }
}
