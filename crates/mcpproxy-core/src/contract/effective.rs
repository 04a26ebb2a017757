//! The contract that counts: of operator, server, hints and level, field by field, with the source of each.

use std::sync::Arc;

use super::{Confirmation, Contract, DryRun, Idempotency, OutputSchema, RateLimit, Sensitive, StepUp, Written};
use crate::Hints;
use crate::schema::Schema;
use crate::{RiskLevel, Untrusted, Variant};

/// What is enforced for one tool. The operator's word is final; what it leaves open is the stricter of the server's
/// contract, the server's hints and what the risk level asks for.
#[derive(Clone, Debug, PartialEq)]
pub struct Effective {
    pub description: Option<Sourced<Untrusted>>,
    pub category: Option<Sourced<String>>,
    /// `None` when nobody classified the tool.
    pub risk: Option<Sourced<RiskLevel>>,
    /// `None` when neither a contract nor a hint says anything.
    pub operation: Option<Sourced<Variant>>,
    pub autonomous: Sourced<bool>,
    pub confirmation: Sourced<Confirmation>,
    pub step_up: Sourced<StepUp>,
    /// On top of the tool's own schema, which always counts.
    pub input_schema: Option<Sourced<Arc<Schema>>>,
    pub output_schema: Option<Sourced<OutputSchema>>,
    pub permissions: Sourced<Vec<String>>,
    pub side_effects: Sourced<Vec<Untrusted>>,
    pub audit_event: Option<Sourced<String>>,
    /// `None`: nothing is declared, so nothing can be undeclared.
    pub failure_modes: Option<Sourced<Vec<String>>>,
    pub idempotency: Sourced<Idempotency>,
    pub dry_run: Sourced<DryRun>,
    pub rate_limit: Option<Sourced<RateLimit>>,
    pub sensitive: Sourced<Vec<Sensitive>>,
    /// Whether anybody wrote a contract at all.
    pub is_written: bool,
    /// Whether the operator did.
    pub is_operators: bool,
    /// What a contract, and not only a hint, says at least. A server's hints may say more, but settings can turn those
    /// into warnings, and this never.
    pub written_operation: Option<Variant>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sourced<T> {
    pub value: T,
    pub source: Source,
}

/// Who said so.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Source {
    Operator {
        file: Arc<str>,
        line: usize,
    },
    /// The server's own contract.
    Server,
    /// The server's annotations.
    Hints,
    /// What the risk level asks for by itself.
    Level,
    /// Nobody said anything.
    Default,
}

impl Source {
    pub fn is_operator(&self) -> bool {
        matches!(self, Self::Operator { .. })
    }
}

/// What stands between an agent and a call.
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
    /// `operator` has the operator's contracts for the tool, the most specific first.
    pub fn of(operator: &[&Arc<Contract>], server: Option<&Contract>, hints: Hints) -> Self {
        let said = Said { operator, server };
        let risk = said.first(|one| one.risk.as_ref());
        Self {
            description: said.first(|one| one.description.as_ref()),
            category: said.first(|one| one.category.as_ref()),
            operation: said.operation(hints),
            autonomous: said.autonomous(risk.as_ref()),
            confirmation: said.confirmation(risk.as_ref()),
            step_up: said.step_up(risk.as_ref()),
            risk,
            input_schema: said.first(|one| one.input_schema.as_ref()),
            output_schema: said.first(|one| one.output_schema.as_ref()),
            permissions: said.first(|one| one.permissions.as_ref()).unwrap_or_default(),
            side_effects: said.first(|one| one.side_effects.as_ref()).unwrap_or_default(),
            audit_event: said.first(|one| one.audit_event.as_ref()),
            failure_modes: said.first(|one| one.failure_modes.as_ref()),
            idempotency: said.first(|one| one.idempotency.as_ref()).unwrap_or_else(|| by_default(Idempotency::None)),
            dry_run: said.first(|one| one.dry_run.as_ref()).unwrap_or_else(|| by_default(DryRun::None)),
            rate_limit: said.first(|one| one.rate_limit.as_ref()),
            sensitive: said.first(|one| one.sensitive.as_ref()).unwrap_or_default(),
            is_written: !operator.is_empty() || server.is_some(),
            is_operators: !operator.is_empty(),
            written_operation: said.first(|one| one.operation.as_ref()).map(|written| written.value),
        }
    }

    /// Whether the operator has said how dangerous the tool is. A server's word adds to what the settings ask for tools
    /// that nobody classified, and never lifts it.
    pub fn is_classified(&self) -> bool {
        self.risk.as_ref().is_some_and(|risk| risk.source.is_operator())
    }

    pub fn risk(&self) -> Option<RiskLevel> {
        self.risk.as_ref().map(|risk| risk.value)
    }

    /// What follows from the level for how a user is reached, what their yes takes and what they may grant, the stricter
    /// the greater. The operator's level says so alone; a server's own only adds to what no level at all asks for.
    pub fn strictest_by_risk<T: Ord>(&self, follows: impl Fn(Option<RiskLevel>) -> T) -> T {
        let by_level = follows(self.risk());
        if self.is_classified() { by_level } else { by_level.max(follows(None)) }
    }

    /// Whether the operator has said what the tool does; then nobody else's word counts.
    pub fn is_operators_operation(&self) -> bool {
        self.operation.as_ref().is_some_and(|operation| operation.source.is_operator())
    }

    /// Whether an agent alone may not make the call.
    pub fn asks(&self) -> bool {
        self.confirmation.value == Confirmation::Required || !self.autonomous.value
    }

    /// The argument by which the server itself is asked for a dry run.
    pub fn dry_run_parameter(&self) -> Option<&str> {
        match &self.dry_run.value {
            DryRun::None => None,
            DryRun::Supported { parameter } | DryRun::Required { parameter } => parameter.as_deref(),
        }
    }

    /// The same, if a call with it may go out although a real one
    /// would wait for a user. A server's word cannot open that way around what the operator asks for.
    pub fn native_dry_run(&self) -> Option<&str> {
        self.dry_run_parameter().filter(|_| self.dry_run.source.is_operator() || !self.operator_asks())
    }

    /// Whether the operator's own words are among those by which a user is asked.
    fn operator_asks(&self) -> bool {
        let by_level = self.risk.as_ref().is_some_and(|risk| asks(risk.value) && risk.source.is_operator());
        by_level
            || self.confirmation.value == Confirmation::Required && self.confirmation.source.is_operator()
            || !self.autonomous.value && self.autonomous.source.is_operator()
            || self.step_up.value != StepUp::Never && self.step_up.source.is_operator()
    }

    /// What an agent can expect to be asked for, in the order it will be.
    pub fn needs(&self) -> Vec<Need> {
        let step_up = !matches!(self.step_up.value, StepUp::Never);
        let dry_run = matches!(self.dry_run.value, DryRun::Required { .. });
        [(self.asks() || step_up, Need::Confirmation), (step_up, Need::StepUp), (dry_run, Need::DryRun)]
            .into_iter()
            .filter_map(|(is_needed, need)| is_needed.then_some(need))
            .collect()
    }
}

/// Everything that was written about one tool.
#[derive(Clone, Copy)]
struct Said<'a> {
    operator: &'a [&'a Arc<Contract>],
    server: Option<&'a Contract>,
}

impl Said<'_> {
    fn operators<T: Clone>(self, field: impl Fn(&Contract) -> Option<&Written<T>>) -> Option<Sourced<T>> {
        self.operator.iter().find_map(|contract| {
            let written = field(contract)?;
            let source = Source::Operator { file: contract.file.clone().unwrap_or_default(), line: written.line };
            Some(Sourced { value: written.value.clone(), source })
        })
    }

    fn servers<T: Clone>(self, field: impl Fn(&Contract) -> Option<&Written<T>>) -> Option<Sourced<T>> {
        let value = field(self.server?)?.value.clone();
        Some(Sourced { value, source: Source::Server })
    }

    /// The operator's word, or else the server's.
    fn first<T: Clone>(self, field: impl Fn(&Contract) -> Option<&Written<T>>) -> Option<Sourced<T>> {
        self.operators(&field).or_else(|| self.servers(&field))
    }

    fn operation(self, hints: Hints) -> Option<Sourced<Variant>> {
        if let Some(written) = self.operators(|one| one.operation.as_ref()) {
            return Some(written);
        }
        let hinted = hints.operation().map(|value| Sourced { value, source: Source::Hints });
        match (self.servers(|one| one.operation.as_ref()), hinted) {
            (Some(written), Some(hinted)) if hinted.value > written.value => Some(hinted),
            (Some(written), _) => Some(written),
            (None, hinted) => hinted,
        }
    }

    fn autonomous(self, risk: Option<&Sourced<RiskLevel>>) -> Sourced<bool> {
        let written = self.first(|one| one.autonomous.as_ref());
        // The stricter answer is `false`.
        match (written, risk.map(|risk| risk.value)) {
            (Some(written), Some(level)) if written.value && asks(level) => by_level(false),
            (Some(written), _) => written,
            (None, Some(level)) => by_level(!asks(level)),
            (None, None) => by_default(true),
        }
    }

    fn confirmation(self, risk: Option<&Sourced<RiskLevel>>) -> Sourced<Confirmation> {
        let written = self.first(|one| one.confirmation.as_ref());
        let floor = |level| if asks(level) { Confirmation::Required } else { Confirmation::None };
        match (written, risk.map(|risk| floor(risk.value))) {
            (Some(written), Some(floor)) if written.value < floor => by_level(floor),
            (Some(written), _) => written,
            (None, Some(floor)) => by_level(floor),
            (None, None) => by_default(Confirmation::None),
        }
    }

    fn step_up(self, risk: Option<&Sourced<RiskLevel>>) -> Sourced<StepUp> {
        if let Some(written) = self.operators(|one| one.step_up.as_ref()) {
            return written;
        }
        let servers = self.servers(|one| one.step_up.as_ref());
        match risk.map(|risk| (risk.value, &risk.source)) {
            Some((RiskLevel::Critical, source)) => match servers {
                // A condition narrows what its own level asks for, not what somebody else's does.
                Some(servers) if *source == Source::Server => servers,
                Some(_) | None => by_level(StepUp::Always),
            },
            Some((RiskLevel::Low | RiskLevel::Medium | RiskLevel::High | RiskLevel::Forbidden, _)) => {
                servers.unwrap_or_else(|| by_level(StepUp::Never))
            }
            None => servers.unwrap_or_else(|| by_default(StepUp::Never)),
        }
    }
}

/// Whether a level by itself takes a user; nothing that anybody writes goes below that.
pub(crate) fn asks(level: RiskLevel) -> bool {
    match level {
        RiskLevel::Low | RiskLevel::Medium => false,
        RiskLevel::High | RiskLevel::Critical | RiskLevel::Forbidden => true,
    }
}

fn by_level<T>(value: T) -> Sourced<T> {
    Sourced { value, source: Source::Level }
}

fn by_default<T>(value: T) -> Sourced<T> {
    Sourced { value, source: Source::Default }
}

impl<T: Default> Default for Sourced<T> {
    fn default() -> Self {
        by_default(T::default())
    }
}

#[cfg(test)]
mod tests;
