//! The contract that each demo tool publishes in its `_meta`, and the tool annotations that follow from it.

use rmcp::model::{MetaObject, ToolAnnotations};
use serde_json::{Map, Value, json};

use crate::failure::Code;

/// The `_meta` key of a contract.
const META_KEY: &str = "mcp-first/contract";

/// The parameter that requests a dry run.
pub(crate) const DRY_RUN_PARAMETER: &str = "dryRun";

/// A contract. The tool itself has the name and the schemas.
#[derive(Clone, Copy)]
pub(crate) struct Contract {
    pub(crate) description: &'static str,
    pub(crate) category: &'static str,
    pub(crate) risk: Risk,
    pub(crate) operation: Operation,
    pub(crate) world: World,
    pub(crate) step_up: StepUp,
    pub(crate) permissions: &'static [&'static str],
    pub(crate) side_effects: &'static [&'static str],
    pub(crate) audit_event: &'static str,
    /// Error codes of the tool itself. [`Contract::failure_modes`] returns all codes.
    pub(crate) failures: &'static [Code],
    pub(crate) idempotency: Idempotency,
    pub(crate) dry_run: DryRun,
    pub(crate) rate_limit: Option<RateLimit>,
    /// JSON pointers to arguments that are masked.
    pub(crate) sensitive: &'static [&'static str],
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Risk {
    Low,
    Medium,
    High,
    Critical,
    Forbidden,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Operation {
    Read,
    Write,
    Destructive,
}

/// The reach of a tool: this server only, or the outside world.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum World {
    Closed,
    Open,
}

/// The condition under which an approval needs a second factor.
#[derive(Debug, Clone, Copy)]
pub(crate) enum StepUp {
    Never,
    Always,
    /// If the arguments match this JSON Schema.
    When(fn() -> Value),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Idempotency {
    None,
    /// Repeating the call changes nothing more, but the answer may differ and must not be replayed.
    Settles,
    /// These arguments identify the result, which is valid until the time at this JSON pointer.
    Natural {
        key_from: &'static [&'static str],
        valid_until: &'static str,
    },
    /// The agent sends an idempotency key, which is kept this long.
    Key(&'static str),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum DryRun {
    None,
    Supported,
    Required,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct RateLimit {
    pub(crate) calls: usize,
    pub(crate) per: &'static str,
}

impl Contract {
    /// A harmless read. The contracts override what differs.
    pub(crate) const PLAIN: Self = Self {
        description: "",
        category: "",
        risk: Risk::Low,
        operation: Operation::Read,
        world: World::Closed,
        step_up: StepUp::Never,
        permissions: &[],
        side_effects: &[],
        audit_event: "",
        failures: &[],
        idempotency: Idempotency::None,
        dry_run: DryRun::None,
        rate_limit: None,
        sensitive: &[],
    };

    /// Returns all error codes: those that follow from the contract, then the tool's own.
    pub(crate) fn failure_modes(&self) -> Vec<Code> {
        let implied = [
            (!self.permissions.is_empty(), Code::PermissionDenied),
            (self.needs_user(), Code::ConfirmationRequired),
            (self.dry_run == DryRun::Required, Code::DryRunRequired),
            (matches!(self.idempotency, Idempotency::Key(_)), Code::IdempotencyConflict),
            (true, Code::InvalidArguments),
        ];
        let implied = implied.into_iter().filter(|(holds, _code)| *holds).map(|(_holds, code)| code);
        implied.chain(self.failures.iter().copied()).collect()
    }

    /// Returns the tool annotations of MCP. They follow from the contract, so that both always agree.
    pub(crate) fn hints(&self) -> ToolAnnotations {
        let (read_only, destructive) = match self.operation {
            Operation::Read => (true, false),
            Operation::Write => (false, false),
            Operation::Destructive => (false, true),
        };
        let hints =
            ToolAnnotations::new().read_only(read_only).destructive(destructive).open_world(self.world == World::Open);
        match self.idempotency {
            Idempotency::None | Idempotency::Key(_) => hints,
            Idempotency::Settles | Idempotency::Natural { .. } => hints.idempotent(true),
        }
    }

    /// Returns the contract as the `_meta` of its tool.
    pub(crate) fn meta(&self) -> MetaObject {
        MetaObject(Map::from_iter([(META_KEY.to_owned(), self.to_json())]))
    }

    fn to_json(self) -> Value {
        let failure_modes: Vec<&str> = self.failure_modes().into_iter().map(Code::as_str).collect();
        let mut contract = json!({
            "description": self.description,
            "category": self.category,
            "riskLevel": self.risk.as_str(),
            "operation": self.operation.as_str(),
            "autonomousExecution": !self.needs_user(),
            "confirmation": if self.needs_user() { "required" } else { "none" },
            "stepUpAuth": { "when": self.step_up.condition() },
            "permissions": self.permissions,
            "sideEffects": self.side_effects,
            "auditEvent": self.audit_event,
            "failureModes": failure_modes,
            "idempotency": self.idempotency.to_json(),
            "dryRun": self.dry_run.to_json(),
        });
        if let Value::Object(fields) = &mut contract {
            if let Some(limit) = self.rate_limit {
                fields.insert("rateLimit".to_owned(), json!({ "calls": limit.calls, "per": limit.per }));
            }
            if !self.sensitive.is_empty() {
                fields.insert("sensitive".to_owned(), json!(self.sensitive));
            }
        }
        contract
    }

    fn needs_user(&self) -> bool {
        match self.risk {
            Risk::Low | Risk::Medium => false,
            Risk::High | Risk::Critical | Risk::Forbidden => true,
        }
    }
}

impl Risk {
    fn as_str(self) -> &'static str {
        match self {
            Self::Low => "low",
            Self::Medium => "medium",
            Self::High => "high",
            Self::Critical => "critical",
            Self::Forbidden => "forbidden",
        }
    }
}

impl Operation {
    fn as_str(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Write => "write",
            Self::Destructive => "destructive",
        }
    }
}

impl StepUp {
    /// A JSON Schema. `true` always matches, `false` never does.
    fn condition(self) -> Value {
        match self {
            Self::Never => Value::Bool(false),
            Self::Always => Value::Bool(true),
            Self::When(schema) => schema(),
        }
    }
}

impl Idempotency {
    fn to_json(self) -> Value {
        match self {
            Self::None | Self::Settles => json!({ "mode": "none" }),
            Self::Natural { key_from, valid_until } => {
                json!({ "mode": "natural", "keyFrom": key_from, "validUntil": valid_until })
            }
            Self::Key(ttl) => json!({ "mode": "key", "ttl": ttl }),
        }
    }
}

impl DryRun {
    fn to_json(self) -> Value {
        match self {
            Self::None => json!({ "mode": "none" }),
            Self::Supported => json!({ "mode": "supported", "parameter": DRY_RUN_PARAMETER }),
            Self::Required => json!({ "mode": "required", "parameter": DRY_RUN_PARAMETER }),
        }
    }
}
