//! Finds what a change of contracts, policies and settings allows that was not allowed before, and makes rules without
//! it.
//!
//! A contract file that an editor has written by half is often valid YAML, and its contracts are weaker. So is one that
//! an agent with a shell has edited. [`Weaker::between`] compares the rules in force with the new ones, and
//! [`Rules::without`] takes everything of the new rules but that. The gateway enforces the result until a user confirms
//! the rest.
//!
//! Contracts are compared twice:
//!
//! - **By pattern**, with nothing but the operator's files. This also covers tools of servers that are not connected.
//! - **By tool**, for the tools that servers list now, with the server's own contract and annotations. A contract can
//!   weaken these too, such as `operation: read` for a tool that its server calls destructive.
//!
//! Both compare merged contracts field by field (`contract/weaker.rs`), so a new contract for `mail:send` that is weaker
//! than the old one for `mail:*` is found. A weaker field keeps its old value in every pattern that applies. All other
//! fields take the new value. A policy can only forbid, so one that is gone or changed is weaker, and stays beside the
//! new ones.
//!
//! Invariant: the result of [`Rules::without`] is not weaker than the rules in force. Fields depend on each other, and a
//! mix of old and new values could be weaker than both. So the mix is compared once more. If it is weaker after all, all
//! old contracts stay.
//!
//! Example: `fx:*` is `forbidden`, and the new file says `low` for `fx:list` and adds `permissions` to `fx:*`. The
//! permissions apply at once, and `fx:list` stays forbidden until a user confirms.

mod judge;
mod settings;
mod trust;

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use serde_json::Value;

use super::diff::{ChangeKind, FieldChange, ToolChange, applying, changed_needs, of_operator};
use crate::catalog::Offered;
use crate::contract::{CONTRACTS_MAX, Contract, Contracts, Effective, Source, StepUp, ToolPattern};
use crate::policy::{POLICIES_MAX, Policies, Policy};
use crate::settings::{Channels, ContractSettings, IntentSettings, PeopleSettings};
use crate::{RiskLevel, ToolName, Untrusted};
use judge::{Judge, decisive_facts};
use settings::{held_channels, held_intent, held_settings, weaker_settings};

pub use settings::SettingChange;
pub use trust::TrustRules;

/// The contracts, the policies and the settings that go with them.
#[derive(Clone, Debug, Default)]
pub struct Rules {
    pub contracts: Arc<Contracts>,
    pub policies: Arc<Policies>,
    pub settings: ContractSettings,
    /// A policy about destructive calls is worth nothing if such a call may be declared as a read.
    pub intent: IntentSettings,
    /// Anyone who has an agent's token can answer a form, so a form lifts the need for a user.
    pub channels: Channels,
    /// A server that is accepted at first sight can describe its tools as it likes.
    pub trust: TrustRules,
    /// Everyone who may sign in can approve.
    pub people: PeopleSettings,
}

/// Everything that new rules allow and old ones do not.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Weaker {
    /// Sorted by name, with the weaker fields only.
    pub contracts: Vec<ToolChange>,
    pub policies: Vec<GonePolicy>,
    pub settings: Vec<SettingChange>,
    /// True if a tool is forbidden or needs a second factor under the old rules, or if a policy or setting is weaker.
    /// Lifting that needs a second factor too.
    pub needs_step_up: bool,
    /// The keys that are weaker, by pattern.
    held: HashMap<ToolPattern, BTreeSet<&'static str>>,
}

/// A policy that the new files no longer have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GonePolicy {
    pub id: String,
    pub file: Arc<str>,
    pub line: usize,
}

/// Too many old contracts or policies would stay beside the new ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "more than {} contracts or {} policies, together with old ones that stay in force until a user confirms that they are \
     gone; change fewer at a time, or restart the gateway to apply all changes",
    CONTRACTS_MAX,
    POLICIES_MAX
)]
pub struct TooMany;

impl Weaker {
    /// Compares the rules. `tools` are those that servers list now.
    pub fn between(old: &Rules, new: &Rules, tools: &[Arc<Offered>]) -> Self {
        let mut found = Self::default();
        let facts = decisive_facts(old, new);
        let judge = Judge { settings: old.settings, facts: &facts };
        if !Arc::ptr_eq(&old.contracts, &new.contracts) {
            found.compare_patterns(&old.contracts, &new.contracts, judge);
            found.compare_tools(&old.contracts, &new.contracts, judge, tools);
            found.contracts.sort_by(|a, b| a.tool.cmp(&b.tool));
        }
        let gone = new.policies.gone_since(&old.policies).into_iter();
        found.policies = gone.map(GonePolicy::of).collect();
        found.settings = weaker_settings(old, new);
        found.needs_step_up |= !found.policies.is_empty() || !found.settings.is_empty();
        found
    }

    pub fn is_empty(&self) -> bool {
        self.contracts.is_empty() && self.policies.is_empty() && self.settings.is_empty() && self.held.is_empty()
    }

    /// Returns true if a tool has the old value of this field, because the new one waits for a user. The file has
    /// something else in the line of the old value. `in_force` are the contracts with the old values.
    pub fn holds(&self, in_force: &Contracts, tool: &ToolName, field: &str) -> bool {
        let has_field = |contract: &Contract| contract.positions().iter().any(|(one, _)| one.key == field);
        // A change of a less specific contract does not reach a tool whose own contract has the field.
        let source = in_force.with_patterns(tool).find(|(_, contract)| has_field(contract)).map(|(pattern, _)| pattern);
        let reaches = |pattern: &ToolPattern| source.is_none_or(|source| !source.is_within(pattern));
        let holds = |pattern: &ToolPattern| pattern.matches(tool) && reaches(pattern);
        self.held.iter().any(|(pattern, fields)| fields.contains(field) && holds(pattern))
    }

    /// Words each change on one line, safe to print.
    pub fn lines(&self) -> Vec<String> {
        let contract = |change: &ToolChange| {
            let fields: Vec<String> = change.fields.iter().map(FieldChange::words).collect();
            if fields.is_empty() {
                return format!("{}: contract {}", change.tool, change.kind.as_str());
            }
            let gone = if change.kind == ChangeKind::Removed { "contract removed: " } else { "" };
            format!("{}: {gone}{}", change.tool, fields.join(", "))
        };
        let policy = |gone: &GonePolicy| {
            let (id, file) = (Untrusted::new(&*gone.id), Untrusted::new(&*gone.file));
            format!("policy {} removed or changed ({}:{})", id.for_terminal(), file.for_terminal(), gone.line)
        };
        let settings = self.settings.iter().map(|change| format!("setting {}", change.words()));
        let contracts = self.contracts.iter().map(contract);
        contracts.chain(self.policies.iter().map(policy)).chain(settings).collect()
    }

    fn compare_patterns(&mut self, old: &Contracts, new: &Contracts, judge: Judge<'_>) {
        let patterns: BTreeSet<&ToolPattern> = old.iter().chain(new.iter()).map(|(pattern, _)| pattern).collect();
        for pattern in patterns {
            let (before, after) = (applying(old, pattern), applying(new, pattern));
            let (is_new, is_removed) = (before.is_empty(), after.is_empty());
            let (before, after) = (of_operator(&before), of_operator(&after));
            let keys = judge.weaker_keys(&before, &after);
            if keys.is_empty() {
                continue;
            }
            self.needs_step_up |= is_guarded(&before);
            let kind = match (is_new, is_removed) {
                (_, true) => ChangeKind::Removed,
                (true, false) => ChangeKind::Added,
                (false, false) => ChangeKind::Changed,
            };
            self.contracts.push(ToolChange {
                tool: pattern.to_string(),
                kind,
                fields: changed_fields(&keys, &before, &after),
            });
            self.held.entry(pattern.clone()).or_default().extend(keys);
        }
    }

    /// Compares the tools that servers list. Names only those of which no pattern is named already.
    fn compare_tools(&mut self, old: &Contracts, new: &Contracts, judge: Judge<'_>, tools: &[Arc<Offered>]) {
        for tool in tools {
            let of = |contracts: &Contracts| -> Vec<ToolPattern> {
                contracts.with_patterns(&tool.name).map(|(pattern, _)| pattern.clone()).collect()
            };
            let patterns: BTreeSet<ToolPattern> = of(old).into_iter().chain(of(new)).collect();
            if patterns.is_empty() {
                continue;
            }
            let merged = |contracts: &Contracts| {
                Effective::of(&contracts.matching(&tool.name), tool.contract.as_ref(), tool.hints)
            };
            let (before, after) = (merged(old), merged(new));
            let keys = judge.weaker_keys(&before, &after);
            if keys.is_empty() {
                continue;
            }
            let is_held = |key: &&str| {
                let keys_of = |pattern: &ToolPattern| self.held.get(pattern).is_some_and(|keys| keys.contains(key));
                patterns.iter().any(keys_of)
            };
            let unnamed: Vec<&'static str> = keys.iter().copied().filter(|key| !is_held(key)).collect();
            if !unnamed.is_empty() {
                self.needs_step_up |= is_guarded(&before);
                let fields = changed_fields(&unnamed, &before, &after);
                self.contracts.push(ToolChange { tool: tool.name.to_string(), kind: ChangeKind::Changed, fields });
            }
            for pattern in patterns {
                self.held.entry(pattern).or_default().extend(keys.iter().copied());
            }
        }
    }
}

impl Rules {
    /// Returns these rules without what is `weaker` in them than in `old`.
    pub fn without(&self, weaker: &Weaker, old: &Self, tools: &[Arc<Offered>]) -> Result<Self, TooMany> {
        let gone = self.policies.gone_since(&old.policies);
        let policies = if gone.is_empty() { Arc::clone(&self.policies) } else { Arc::new(self.policies.with(gone)) };
        let (settings, intent) = (held_settings(old.settings, self.settings), held_intent(&old.intent, &self.intent));
        let mut contracts = Arc::clone(&self.contracts);
        if !weaker.held.is_empty() {
            contracts = Arc::new(Contracts::mixed(&old.contracts, &self.contracts, |pattern, old, new| {
                mix(weaker.held.get(pattern), old, new)
            }));
        }
        let channels = held_channels(old.channels, self.channels);
        let trust = self.trust.held(&old.trust);
        let people = self.people.held(&old.people);
        let mixed = Self { contracts, policies, settings, intent, channels, trust, people };
        if mixed.contracts.iter().count() > CONTRACTS_MAX || mixed.policies.iter().count() > POLICIES_MAX {
            return Err(TooMany);
        }
        if weaker.held.is_empty() || Weaker::between(old, &mixed, tools).is_empty() {
            return Ok(mixed);
        }
        Ok(Self { contracts: Arc::clone(&old.contracts), ..mixed })
    }
}

impl GonePolicy {
    fn of(policy: &Policy) -> Self {
        Self { id: policy.id.clone(), file: Arc::clone(&policy.file), line: policy.line }
    }
}

/// Keeps the old value of the held keys.
fn mix(
    held: Option<&BTreeSet<&'static str>>,
    old: Option<&Arc<Contract>>,
    new: Option<&Arc<Contract>>,
) -> Option<Arc<Contract>> {
    let Some(held) = held else { return new.cloned() };
    let mixed = Contract::mixed(old.map(AsRef::as_ref), new.map(AsRef::as_ref), |key| held.contains(key));
    // Nothing of a new contract may be left.
    (!mixed.positions().is_empty()).then(|| Arc::new(mixed))
}

/// Returns true for a tool that nobody may call, or only with a second factor.
fn is_guarded(contract: &Effective) -> bool {
    contract.risk() == Some(RiskLevel::Forbidden) || contract.step_up.value != StepUp::Never
}

/// Lists the weaker fields that somebody wrote, and the needs that are dropped. Fields that follow from the level are
/// left out, because the level is listed.
fn changed_fields(keys: &[&'static str], before: &Effective, after: &Effective) -> Vec<FieldChange> {
    let (old, new) = (before.fields(), after.fields());
    let mut changes = Vec::new();
    for key in keys.iter().copied() {
        let old = old.iter().find(|(field, _, _)| *field == key);
        let new = new.iter().find(|(field, _, _)| *field == key);
        let mut sources = [old, new].into_iter().flatten().map(|(_, _, source)| *source);
        if sources.clone().all(|source| matches!(source, Source::Level | Source::Default)) {
            continue;
        }
        let place = sources.rfind(|source| source.is_operator()).and_then(Source::place);
        let value = |field: Option<&(&'static str, Value, &Source)>| field.map(|(_, value, _)| value.clone());
        changes.push(FieldChange { field: key, before: value(old), after: value(new), place });
    }
    let (needed, needs) = (before.needs(), after.needs());
    if needed.iter().any(|need| !needs.contains(need)) {
        changes.extend(changed_needs(before, after));
    }
    changes
}

#[cfg(test)]
mod tests;
