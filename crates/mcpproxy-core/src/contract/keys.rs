//! Every key and every word a contract knows.

use super::Confirmation;
use crate::settings::suggest::list;
use crate::{RiskLevel, Variant, nearest};

/// The keys of one object, and what to say about keys that people write there for them.
pub(crate) struct Keys {
    pub(crate) known: &'static [&'static str],
    advice: &'static [(&'static str, &'static str)],
}

/// A file that has its contracts in a list.
pub(super) const FILE: Keys =
    Keys { known: &["$schema", "contracts"], advice: &[("tool", "move it into the list of `contracts`")] };

pub(crate) const CONTRACT: Keys = Keys {
    known: &[
        "$schema",
        "tool",
        "description",
        "category",
        "riskLevel",
        "operation",
        "autonomousExecution",
        "confirmation",
        "stepUpAuth",
        "inputSchema",
        "outputSchema",
        "permissions",
        "sideEffects",
        "auditEvent",
        "failureModes",
        "idempotency",
        "dryRun",
        "rateLimit",
        "sensitive",
    ],
    advice: &[
        ("name", "did you mean `tool`?"),
        ("server", "did you mean `tool`? It has both, as in `mail:send`"),
        ("risk", "did you mean `riskLevel`?"),
        ("level", "did you mean `riskLevel`?"),
        ("autonomous", "did you mean `autonomousExecution`?"),
        ("confirm", "did you mean `confirmation`?"),
        ("stepUp", "did you mean `stepUpAuth`?"),
        ("scopes", "did you mean `permissions`?"),
        ("requiredPermissions", "did you mean `permissions`?"),
        ("audit", "did you mean `auditEvent`?"),
        ("errors", "did you mean `failureModes`?"),
        ("idempotent", "did you mean `idempotency`?"),
        ("idempotentHint", "did you mean `idempotency`?"),
        ("readOnlyHint", "did you mean `operation: read`?"),
        ("destructiveHint", "did you mean `operation: destructive`?"),
    ],
};

pub(super) const STEP_UP: Keys = Keys { known: &["when"], advice: &[("if", "did you mean `when`?")] };

pub(super) const IDEMPOTENCY: Keys =
    Keys { known: &["mode", "keyFrom", "ttl"], advice: &[("key", "did you mean `keyFrom`?")] };

pub(super) const DRY_RUN: Keys = Keys {
    known: &["mode", "parameter"],
    advice: &[("argument", "did you mean `parameter`?"), ("param", "did you mean `parameter`?")],
};

pub(super) const RATE_LIMIT: Keys = Keys {
    known: &["calls", "per"],
    advice: &[("limit", "did you mean `calls`?"), ("window", "did you mean `per`?"), ("period", "did you mean `per`?")],
};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum IdempotencyMode {
    None,
    Natural,
    Key,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum DryRunMode {
    None,
    Supported,
    Required,
}

pub(super) const RISK_LEVELS: &[(&str, RiskLevel)] = &[
    ("low", RiskLevel::Low),
    ("medium", RiskLevel::Medium),
    ("high", RiskLevel::High),
    ("critical", RiskLevel::Critical),
    ("forbidden", RiskLevel::Forbidden),
];

pub(super) const OPERATIONS: &[(&str, Variant)] =
    &[("read", Variant::Read), ("write", Variant::Write), ("destructive", Variant::Destructive)];

pub(super) const CONFIRMATIONS: &[(&str, Confirmation)] =
    &[("none", Confirmation::None), ("required", Confirmation::Required)];

pub(super) const IDEMPOTENCY_MODES: &[(&str, IdempotencyMode)] =
    &[("none", IdempotencyMode::None), ("natural", IdempotencyMode::Natural), ("key", IdempotencyMode::Key)];

pub(super) const DRY_RUN_MODES: &[(&str, DryRunMode)] =
    &[("none", DryRunMode::None), ("supported", DryRunMode::Supported), ("required", DryRunMode::Required)];

/// The words of a table of choices.
pub(super) fn words<T>(choices: &'static [(&'static str, T)]) -> impl Iterator<Item = &'static str> {
    choices.iter().map(|(word, _)| *word)
}

impl Keys {
    /// What to write instead of a key that is not known.
    pub(super) fn advice(&self, name: &str) -> String {
        // A long key is no slip, and comparing it would take long.
        let name = if name.len() <= 64 { name } else { "" };
        if let Some((_, advice)) = self.advice.iter().find(|(foreign, _)| plainly(foreign).eq(plainly(name))) {
            return (*advice).to_owned();
        }
        let respelled = self.known.iter().copied().find(|known| plainly(known).eq(plainly(name)));
        match respelled.or_else(|| nearest(name, self.known.iter().copied())) {
            Some(known) => format!("did you mean `{known}`?"),
            None => format!("known keys: {}", list(self.known.iter().copied())),
        }
    }
}

/// A key without what tells `riskLevel` from `risk_level`, `risk-level` and `RISKLEVEL`.
fn plainly(name: &str) -> impl Iterator<Item = char> {
    name.chars().filter(|c| c.is_ascii_alphanumeric()).map(|c| c.to_ascii_lowercase())
}
