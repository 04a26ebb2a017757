//! Compares two merged contracts of one tool or pattern, field by field.

use std::collections::BTreeSet;

use super::Rules;
use crate::contract::{Effective, FIELDS, Sourced, StepUp};
use crate::settings::{ContractSettings, Unclassified};
use crate::{RiskLevel, Variant};

/// Compares two merged contracts of one tool or pattern.
#[derive(Clone, Copy)]
pub(super) struct Judge<'f> {
    /// The settings in force.
    pub(super) settings: ContractSettings,
    /// Facts on which a policy may depend.
    pub(super) facts: &'f BTreeSet<Fact>,
}

/// A fact about a tool that is neither strict nor weak by itself. A policy can depend on it, and another value may then
/// lift the policy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Fact {
    AuditEvent,
    Category,
    HasContract,
    NoLevel,
    NoOperation,
    SideEffects,
}

impl Judge<'_> {
    /// Returns the keys of the fields that are weaker after the change.
    pub(super) fn weaker_keys(self, before: &Effective, after: &Effective) -> Vec<&'static str> {
        // Nobody can call the tool, whatever else changes.
        if after.risk() == Some(RiskLevel::Forbidden) {
            return Vec::new();
        }
        let mut keys = before.weaker_fields(after);
        let mut add = |key: &'static str, is_weaker: bool| {
            if is_weaker && !keys.contains(&key) {
                keys.push(key);
            }
        };
        add("riskLevel", !before.is_classified() && after.is_classified() && self.is_lifted_by(after));
        let is_destructive =
            |one: &Effective| one.operation.as_ref().is_none_or(|one| one.value == Variant::Destructive);
        let asks = self.settings.unclassified == Unclassified::ConfirmDestructive && !before.is_classified();
        add("operation", asks && is_destructive(before) && !is_destructive(after));
        // A dry run at the server runs without an approval. A second factor is part of an approval.
        let native = after.native_dry_run();
        let may_ask = before.may_ask() || before.step_up.value != StepUp::Never || asks;
        add("dryRun", native.is_some() && native != before.native_dry_run() && may_ask);
        for (fact, key, is_changed) in changed_facts(before, after) {
            add(key, is_changed && self.facts.contains(&fact));
        }
        if self.facts.contains(&Fact::HasContract) && !before.is_operators && after.is_operators {
            // The contract waits as a whole.
            FIELDS.iter().for_each(|field| add(field.key, true));
        }
        keys
    }

    /// Returns true if the settings require more of a tool without a level of the operator than this level does.
    fn is_lifted_by(self, after: &Effective) -> bool {
        match self.settings.unclassified {
            Unclassified::Allow => false,
            Unclassified::ConfirmDestructive => !after.asks(),
            Unclassified::Deny => after.risk() != Some(RiskLevel::Forbidden),
        }
    }
}

/// Compares the facts that are fields of a contract. Returns each with the key of its field.
fn changed_facts(before: &Effective, after: &Effective) -> [(Fact, &'static str, bool); 5] {
    fn value<T>(field: Option<&Sourced<T>>) -> Option<&T> {
        field.map(|sourced| &sourced.value)
    }
    let category = value(before.category.as_ref()) != value(after.category.as_ref());
    let audit_event = value(before.audit_event.as_ref()) != value(after.audit_event.as_ref());
    let side_effects = before.side_effects.value != after.side_effects.value;
    [
        (Fact::AuditEvent, "auditEvent", audit_event),
        (Fact::Category, "category", category),
        (Fact::NoLevel, "riskLevel", before.risk.is_none() && after.risk.is_some()),
        (Fact::NoOperation, "operation", before.operation.is_none() && after.operation.is_some()),
        (Fact::SideEffects, "sideEffects", side_effects),
    ]
}

/// Parts of a policy that may forbid tools without a level, in lower case and without spaces.
const LOW_RANKS: [&str; 6] =
    ["unclassified", "riskrank<", "riskrank=", "riskrank!", ">resource.riskrank", "=resource.riskrank"];

/// Returns the facts on which a policy may depend. Looks for words, so it may find more than there are.
pub(super) fn decisive_facts(old: &Rules, new: &Rules) -> BTreeSet<Fact> {
    let mut facts = BTreeSet::new();
    for policy in old.policies.iter().chain(new.policies.iter()) {
        let text: String = policy.text.to_lowercase().split_whitespace().collect();
        let has = |word: &str| text.contains(word);
        let found = [
            (Fact::AuditEvent, has("auditevent")),
            (Fact::Category, has("category")),
            (Fact::HasContract, has("hascontract")),
            // A tool without a level has rank 0. `riskRank >= 3` does not depend on that.
            (Fact::NoLevel, LOW_RANKS.iter().any(|word| has(word)) || has("riskrank") && has("unless")),
            (Fact::NoOperation, has("operation") && has("unknown")),
            (Fact::SideEffects, has("sideeffects")),
        ];
        facts.extend(found.into_iter().filter_map(|(fact, is_found)| is_found.then_some(fact)));
    }
    facts
}
