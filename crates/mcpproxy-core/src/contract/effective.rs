//! The effective contract: what is enforced for one tool, merged from everything that was written about it.
//!
//! Up to four sources describe a tool. From the strongest to the weakest:
//!
//! 1. the operator's contracts, of which the most specific pattern comes first (`mail:send` before `mail:*`),
//! 2. the server's own contract, in `_meta` of the tool,
//! 3. the server's annotations ([`Hints`]), for the operation only,
//! 4. the risk level, which can require approvals by itself.
//!
//! Each field is merged by itself, and [`Sourced`] keeps who decided it, so that `contract show` can say so. Most
//! fields are plain: the operator's value, else the server's. Four fields decide on calls and have functions of their
//! own: [`merge_operation`], [`merge_autonomous`], [`merge_confirmation`] and [`merge_step_up`].
//!
//! Invariants:
//!
//! - **The operator has the last word.** A server's contract or annotations never change a field that the operator
//!   wrote.
//! - **A server can only make things stricter.** Of its contract and its annotations the stricter operation counts.
//!   [`Effective::strictest_by_risk`] uses its risk level only where it requires more than no level at all.
//! - **No contract is weaker than its risk level.** From `high` on a user approves, whatever the contracts say.
//!
//! Properties in `effective/tests.rs` check all three with random contracts.
//!
//! Why not let the more specific contract replace the other as a whole? Then an operator who writes one field for one
//! tool would lose everything that `mail:*` says, without noticing.
//!
//! Example: the server says `riskLevel: low` and `confirmation: none`. The operator writes `riskLevel: high` for
//! `mail:*`. The effective contract has risk level `high` (operator) and `confirmation: required` (risk level).

use std::sync::Arc;

use super::{Confirmation, Contract, DryRun, Effective, StepUp, Written};
use crate::json::ExactValue;
use crate::{Hints, RiskLevel, Variant};

/// A value and its source.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sourced<T> {
    pub value: T,
    pub source: Source,
}

/// The origin of a value in an effective contract.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Source {
    Operator {
        file: Arc<str>,
        line: usize,
        /// True if the file is still marked as a draft. The gateway enforces it either way.
        is_draft: bool,
    },
    /// The server's own contract.
    Server,
    /// The server's annotations.
    Hints,
    /// The risk level, which requires this by itself.
    Level,
    /// The default, because nothing was written.
    Default,
}

impl Source {
    pub fn is_operator(&self) -> bool {
        matches!(self, Self::Operator { .. })
    }

    /// Returns the source of a field that `contract` has in this line.
    pub(crate) fn operator(contract: &Contract, line: usize) -> Self {
        Self::Operator { file: contract.file.clone().unwrap_or_default(), line, is_draft: contract.is_draft }
    }

    /// Returns file and line, if the operator wrote the value.
    pub(crate) fn place(&self) -> Option<(Arc<str>, usize)> {
        match self {
            Self::Operator { file, line, .. } => Some((Arc::clone(file), *line)),
            Self::Server | Self::Hints | Self::Level | Self::Default => None,
        }
    }
}

/// A step that an agent has to take before a call runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Need {
    Confirmation,
    StepUp,
    DryRun,
}

impl Need {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Confirmation => "confirmation",
            Self::StepUp => "step_up",
            Self::DryRun => "dry_run",
        }
    }
}

impl Effective {
    /// Returns true if the operator wrote the risk level. A server's level adds to what the settings ask for
    /// unclassified tools, and never lifts it.
    pub fn is_classified(&self) -> bool {
        self.risk.as_ref().is_some_and(|risk| risk.source.is_operator())
    }

    pub fn risk(&self) -> Option<RiskLevel> {
        self.risk.as_ref().map(|risk| risk.value)
    }

    /// Returns what follows from the risk level; greater is stricter. The operator's level decides alone. A server's
    /// level counts only where it requires more than no level at all.
    pub fn strictest_by_risk<T: Ord>(&self, follows: impl Fn(Option<RiskLevel>) -> T) -> T {
        let by_level = follows(self.risk());
        if self.is_classified() { by_level } else { by_level.max(follows(None)) }
    }

    /// Returns true if the operator wrote the operation. Then no hint of the server counts.
    pub fn is_operators_operation(&self) -> bool {
        self.operation.as_ref().is_some_and(|operation| operation.source.is_operator())
    }

    /// Returns true if an agent may make no call alone, whatever its arguments are.
    pub fn asks(&self) -> bool {
        self.confirmation.value == Confirmation::Required || !self.autonomous.value
    }

    /// Returns true if an agent may not make some calls alone.
    pub fn may_ask(&self) -> bool {
        self.confirmation.value != Confirmation::None || !self.autonomous.value
    }

    /// Returns true if `confirmation` has a condition, and these arguments match it.
    pub fn asks_by_condition(&self, arguments: &ExactValue) -> bool {
        match &self.confirmation.value {
            Confirmation::None | Confirmation::Required => false,
            Confirmation::When(schema) => schema.may_admit(arguments),
        }
    }

    /// Returns the argument that asks the server itself for a dry run.
    pub fn dry_run_parameter(&self) -> Option<&str> {
        match &self.dry_run.value {
            DryRun::None => None,
            DryRun::Supported { parameter } | DryRun::Required { parameter } => parameter.as_deref(),
        }
    }

    /// As `dry_run_parameter`, but only if such a call may run although a real call would wait for an approval. A
    /// server's contract cannot bypass an approval that the operator requires.
    pub fn native_dry_run(&self) -> Option<&str> {
        self.dry_run_parameter().filter(|_| self.dry_run.source.is_operator() || !self.operator_asks())
    }

    /// Returns true if one of the operator's fields requires an approval.
    fn operator_asks(&self) -> bool {
        let by_level = self.risk.as_ref().is_some_and(|risk| asks(risk.value) && risk.source.is_operator());
        by_level
            || self.confirmation.value != Confirmation::None && self.confirmation.source.is_operator()
            || !self.autonomous.value && self.autonomous.source.is_operator()
            || self.step_up.value != StepUp::Never && self.step_up.source.is_operator()
    }

    /// Returns the steps that a call needs, in their order.
    pub fn needs(&self) -> Vec<Need> {
        let step_up = !matches!(self.step_up.value, StepUp::Never);
        let dry_run = matches!(self.dry_run.value, DryRun::Required { .. });
        [(self.may_ask() || step_up, Need::Confirmation), (step_up, Need::StepUp), (dry_run, Need::DryRun)]
            .into_iter()
            .filter_map(|(is_needed, need)| is_needed.then_some(need))
            .collect()
    }
}

/// Everything that was written about one tool.
pub(super) struct Sources<'a> {
    operator: &'a [&'a Arc<Contract>],
    server: Option<&'a Contract>,
    hints: Hints,
    risk: Option<Sourced<RiskLevel>>,
}

impl<'a> Sources<'a> {
    pub(super) fn new(operator: &'a [&'a Arc<Contract>], server: Option<&'a Contract>, hints: Hints) -> Self {
        let sources = Self { operator, server, hints, risk: None };
        Self { risk: sources.first(|one| one.risk.as_ref()), ..sources }
    }

    fn operators<T: Clone>(&self, field: impl Fn(&Contract) -> Option<&Written<T>>) -> Option<Sourced<T>> {
        self.operator.iter().find_map(|contract| {
            let written = field(contract)?;
            Some(Sourced { value: written.value.clone(), source: Source::operator(contract, written.line) })
        })
    }

    fn servers<T: Clone>(&self, field: impl Fn(&Contract) -> Option<&Written<T>>) -> Option<Sourced<T>> {
        let value = field(self.server?)?.value.clone();
        Some(Sourced { value, source: Source::Server })
    }

    /// Returns the operator's value, else the server's.
    pub(super) fn first<T: Clone>(&self, field: impl Fn(&Contract) -> Option<&Written<T>>) -> Option<Sourced<T>> {
        self.operators(&field).or_else(|| self.servers(&field))
    }

    fn level(&self) -> Option<RiskLevel> {
        self.risk.as_ref().map(|risk| risk.value)
    }
}

/// Merges the operation: the operator's, else the stricter of the server's contract and hints.
pub(super) fn merge_operation(sources: &Sources<'_>) -> Option<Sourced<Variant>> {
    if let Some(written) = sources.operators(|one| one.operation.as_ref()) {
        return Some(written);
    }
    let hinted = sources.hints.operation().map(|value| Sourced { value, source: Source::Hints });
    match (sources.servers(|one| one.operation.as_ref()), hinted) {
        (Some(written), Some(hinted)) if hinted.value > written.value => Some(hinted),
        (Some(written), _) => Some(written),
        (None, hinted) => hinted,
    }
}

/// Merges `autonomousExecution`, which is false from risk level `high` on.
pub(super) fn merge_autonomous(sources: &Sources<'_>) -> Sourced<bool> {
    let written = sources.first(|one| one.autonomous.as_ref());
    // False is the stricter value.
    match (written, sources.level()) {
        (Some(written), Some(level)) if written.value && asks(level) => by_level(false),
        (Some(written), _) => written,
        (None, Some(level)) => by_level(!asks(level)),
        (None, None) => by_default(true),
    }
}

/// Merges `confirmation`, which is required from risk level `high` on.
pub(super) fn merge_confirmation(sources: &Sources<'_>) -> Sourced<Confirmation> {
    let written = sources.first(|one| one.confirmation.as_ref());
    let floor = |level| if asks(level) { Confirmation::Required } else { Confirmation::None };
    match (written, sources.level().map(floor)) {
        (Some(written), Some(floor)) if written.value.rank() < floor.rank() => by_level(floor),
        (Some(written), _) => written,
        (None, Some(floor)) => by_level(floor),
        (None, None) => by_default(Confirmation::None),
    }
}

/// Merges `stepUpAuth`: the operator's value, else what risk level and server ask for.
pub(super) fn merge_step_up(sources: &Sources<'_>) -> Sourced<StepUp> {
    if let Some(written) = sources.operators(|one| one.step_up.as_ref()) {
        return written;
    }
    let servers = sources.servers(|one| one.step_up.as_ref());
    match sources.risk.as_ref().map(|risk| (risk.value, &risk.source)) {
        Some((RiskLevel::Critical, source)) => match servers {
            // A server's condition narrows its own level, not the operator's.
            Some(servers) if *source == Source::Server => servers,
            Some(_) | None => by_level(StepUp::Always),
        },
        Some((RiskLevel::Low | RiskLevel::Medium | RiskLevel::High | RiskLevel::Forbidden, _)) => {
            servers.unwrap_or_else(|| by_level(StepUp::Never))
        }
        None => servers.unwrap_or_else(|| by_default(StepUp::Never)),
    }
}

/// Returns true if a risk level requires an approval by itself. No contract can lift that.
pub(crate) fn asks(level: RiskLevel) -> bool {
    match level {
        RiskLevel::Low | RiskLevel::Medium => false,
        RiskLevel::High | RiskLevel::Critical | RiskLevel::Forbidden => true,
    }
}

fn by_level<T>(value: T) -> Sourced<T> {
    Sourced { value, source: Source::Level }
}

pub(super) fn by_default<T>(value: T) -> Sourced<T> {
    Sourced { value, source: Source::Default }
}

/// A field of an effective contract, for the code that all fields share.
pub(super) trait Merged {
    type Value;

    /// The value and its source, unless nothing was written.
    fn shown(&self) -> Option<(&Self::Value, &Source)>;

    /// The value, default or not.
    fn value(&self) -> Option<&Self::Value>;
}

impl<T> Merged for Option<Sourced<T>> {
    type Value = T;

    fn shown(&self) -> Option<(&T, &Source)> {
        self.as_ref().map(|sourced| (&sourced.value, &sourced.source))
    }

    fn value(&self) -> Option<&T> {
        self.as_ref().map(|sourced| &sourced.value)
    }
}

impl<T> Merged for Sourced<T> {
    type Value = T;

    fn shown(&self) -> Option<(&T, &Source)> {
        (self.source != Source::Default).then_some((&self.value, &self.source))
    }

    fn value(&self) -> Option<&T> {
        Some(&self.value)
    }
}

#[cfg(test)]
mod tests;
