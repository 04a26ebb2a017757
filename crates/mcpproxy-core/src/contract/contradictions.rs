//! Finds contradictions between two fields of an operator's contract.

use super::{Confirmation, Contract, Written};
use crate::RiskLevel;
use crate::file::Reader;

/// Reports the weaker of two fields that contradict each other.
pub(super) fn check(reader: &mut Reader<'_>, contract: &Contract) {
    let level = contract.risk.as_ref().map(|risk| risk.value);
    let alone = contract.autonomous.as_ref();
    let confirmation = contract.confirmation.as_ref();
    let unconfirmed = confirmation.filter(|confirmation| confirmation.value == Confirmation::None);
    match level {
        Some(level @ (RiskLevel::High | RiskLevel::Critical)) => {
            not_alone(reader, alone, level);
            if let Some(field) = unconfirmed {
                let message = format!(
                    "`confirmation: none` contradicts risk level `{}`, which requires a user's approval; remove it, or \
                     lower the level",
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
            if let (Some(field), Some(Written { value: false, .. })) = (unconfirmed, alone) {
                let message = "`confirmation: none` contradicts `autonomousExecution: false`, which requires a user's \
                               approval; remove one of them";
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
