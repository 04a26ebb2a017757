//! Why a call is refused, in the words the agent gets.

use serde_json::{Value, json};

use crate::contract::RateLimit;
use crate::rules::Violation;
use crate::schema::Problem;
use crate::{NameError, RiskLevel, ToolName, Untrusted, Variant};

/// One fact that stops a call. Its texts are part of the product: agents correct themselves by them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Denial {
    /// Our own tools take no such parameter.
    UnknownField {
        field: Untrusted,
        nearest: Option<&'static str>,
    },
    /// A parameter of ours is missing or has the wrong type.
    BadField {
        field: &'static str,
        expected: &'static str,
    },
    InvalidToolName(NameError),
    InvalidArgs(String),
    InvalidIntent(String),
    InvalidOperationType(Untrusted),
    InvalidSensitivity(Untrusted),
    ReasonTooLong,
    MissingIntent(Variant),
    MissingOperationType,
    IntentMismatch {
        variant: Variant,
        declared: Variant,
    },
    NoSuchTool {
        name: ToolName,
        missing: Missing,
        suggestions: Vec<ToolName>,
    },
    ServerMismatch {
        tool: ToolName,
        mark: Mark,
        used: Variant,
        right: Variant,
    },
    /// The agent's token does not cover this kind of operation.
    NotGranted {
        agent: String,
        variant: Variant,
    },
    /// The agent may only read, and nobody says that this tool only reads.
    NotKnownToRead {
        agent: String,
        tool: ToolName,
    },
    /// The contract says that the tool does more than the variant.
    ContractMismatch {
        tool: ToolName,
        used: Variant,
        right: Variant,
    },
    /// Nobody has said how dangerous the tool is, and the operator wants to know first.
    Unclassified {
        tool: ToolName,
    },
    MissingPermissions {
        agent: String,
        tool: ToolName,
        missing: Vec<String>,
    },
    /// The operator's rules forbid it; the first one speaks.
    PolicyViolation {
        tool: ToolName,
        violations: Vec<Violation>,
    },
    InvalidArguments {
        tool: ToolName,
        problems: Vec<Problem>,
    },
    RateLimitExceeded {
        tool: ToolName,
        limit: RateLimit,
        wait_ms: u64,
    },
    DryRunRequired {
        tool: ToolName,
    },
    ConfirmationRequired {
        tool: ToolName,
        risk: Option<RiskLevel>,
        needs_step_up: bool,
    },
}

/// The checks a call passes, in their order. The first that fails answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Check {
    Shape,
    TwoKeys,
    Exists,
    Annotations,
    Contract,
    Permissions,
    Arguments,
    RateLimit,
    DryRun,
    Confirmation,
}

impl Check {
    pub const ALL: [Self; 10] = [
        Self::Shape,
        Self::TwoKeys,
        Self::Exists,
        Self::Annotations,
        Self::Contract,
        Self::Permissions,
        Self::Arguments,
        Self::RateLimit,
        Self::DryRun,
        Self::Confirmation,
    ];

    pub fn words(self) -> &'static str {
        match self {
            Self::Shape => "shape and intent fields",
            Self::TwoKeys => "two keys",
            Self::Exists => "the tool exists",
            Self::Annotations => "server annotations",
            Self::Contract => "the contract's operation",
            Self::Permissions => "permissions and rules",
            Self::Arguments => "arguments",
            Self::RateLimit => "rate limit",
            Self::DryRun => "dry run",
            Self::Confirmation => "confirmation",
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Missing {
    Server,
    Tool,
}

/// What a server says of a tool that contradicts the variant used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mark {
    Destructive,
    NotReadOnly,
    Unannotated,
}

impl Denial {
    pub fn code(&self) -> &'static str {
        match self {
            Self::UnknownField { .. } => "UNKNOWN_FIELD",
            Self::BadField { .. } => "INVALID_FIELD",
            Self::InvalidToolName(_) => "INVALID_TOOL_NAME",
            Self::InvalidArgs(_) => "INVALID_ARGS",
            Self::InvalidIntent(_) => "INVALID_INTENT",
            Self::InvalidOperationType(_) => "INVALID_OPERATION_TYPE",
            Self::InvalidSensitivity(_) => "INVALID_SENSITIVITY",
            Self::ReasonTooLong => "REASON_TOO_LONG",
            Self::MissingIntent(_) => "MISSING_INTENT",
            Self::MissingOperationType => "MISSING_OPERATION_TYPE",
            Self::IntentMismatch { .. } => "INTENT_MISMATCH",
            Self::NoSuchTool { .. } => "TOOL_NOT_FOUND",
            Self::ServerMismatch { .. } => "SERVER_MISMATCH",
            Self::NotGranted { .. } | Self::NotKnownToRead { .. } | Self::MissingPermissions { .. } => {
                "permission_denied"
            }
            Self::ContractMismatch { .. } => "CONTRACT_MISMATCH",
            Self::Unclassified { .. } => "contract_required",
            Self::PolicyViolation { .. } => "policy_violation",
            Self::InvalidArguments { .. } => "invalid_arguments",
            Self::RateLimitExceeded { .. } => "rate_limit_exceeded",
            Self::DryRunRequired { .. } => "dry_run_required",
            Self::ConfirmationRequired { .. } => "confirmation_required",
        }
    }

    /// The check that failed.
    pub fn check(&self) -> Check {
        match self {
            Self::UnknownField { .. }
            | Self::BadField { .. }
            | Self::InvalidToolName(_)
            | Self::InvalidArgs(_)
            | Self::InvalidIntent(_)
            | Self::InvalidOperationType(_)
            | Self::InvalidSensitivity(_)
            | Self::ReasonTooLong => Check::Shape,
            Self::MissingIntent(_) | Self::MissingOperationType | Self::IntentMismatch { .. } => Check::TwoKeys,
            Self::NoSuchTool { .. } => Check::Exists,
            Self::ServerMismatch { .. } => Check::Annotations,
            Self::ContractMismatch { .. } | Self::Unclassified { .. } => Check::Contract,
            Self::NotGranted { .. }
            | Self::NotKnownToRead { .. }
            | Self::MissingPermissions { .. }
            | Self::PolicyViolation { .. } => Check::Permissions,
            Self::InvalidArguments { .. } => Check::Arguments,
            Self::RateLimitExceeded { .. } => Check::RateLimit,
            Self::DryRunRequired { .. } => Check::DryRun,
            Self::ConfirmationRequired { .. } => Check::Confirmation,
        }
    }

    /// Whether the request itself is malformed (a protocol error) or a well-formed call is refused (a tool result).
    pub fn is_malformed(&self) -> bool {
        matches!(self, Self::UnknownField { .. } | Self::BadField { .. })
    }

    /// The sentence for the agent: what to do instead.
    pub fn message(&self) -> String {
        match self {
            Self::UnknownField { field, nearest } => {
                let hint = nearest.map(|near| format!("; did you mean \"{near}\"?")).unwrap_or_default();
                format!("unknown field \"{}\"{hint}", field.for_terminal())
            }
            Self::BadField { field, expected } => format!("{field} must be {expected}"),
            Self::InvalidToolName(error) => format!("Invalid tool name: {error}"),
            Self::InvalidArgs(why) => format!("Invalid arguments: {why}"),
            Self::InvalidIntent(why) => format!("Invalid intent: {why}"),
            Self::InvalidOperationType(found) => {
                format!("Invalid intent.operation_type '{}': must be read, write, or destructive", found.for_terminal())
            }
            Self::InvalidSensitivity(found) => format!(
                "Invalid intent.data_sensitivity '{}': must be public, internal, private, or unknown",
                found.for_terminal()
            ),
            Self::ReasonTooLong => "intent.reason exceeds maximum length of 1000 characters".to_owned(),
            Self::MissingIntent(variant) => format!("intent parameter is required for {}", variant.tool()),
            Self::MissingOperationType => "intent.operation_type is required".to_owned(),
            Self::IntentMismatch { variant, declared } => {
                format!("Intent mismatch: tool is {} but intent declares {declared}", variant.tool())
            }
            Self::NoSuchTool { name, missing, suggestions } => no_such_tool(name, *missing, suggestions),
            Self::ServerMismatch { tool, mark, used, right } => {
                format!("Tool '{tool}' is {}, use {} instead of {}", mark.words(), right.tool(), used.tool())
            }
            Self::NotGranted { agent, variant } => {
                format!("Agent '{agent}' may not use {}: its token does not cover {variant} operations", variant.tool())
            }
            Self::NotKnownToRead { agent, tool } => {
                format!("Agent '{agent}' may only read, and '{tool}' is not marked as read-only")
            }
            Self::ContractMismatch { tool, used, right } => {
                format!("Tool '{tool}' is {right} by its contract, use {} instead of {}", right.tool(), used.tool())
            }
            Self::Unclassified { tool } => format!(
                "Tool '{tool}' has no contract that says how dangerous it is, and this gateway calls only tools that have \
                 one; ask its operator to write one"
            ),
            Self::MissingPermissions { agent, tool, missing } => format!(
                "Agent '{agent}' lacks {} for '{tool}'; its operator can give a token with {}",
                named("permission", missing),
                if missing.len() == 1 { "it" } else { "them" }
            ),
            Self::PolicyViolation { tool, violations } => policy_violation(tool, violations),
            Self::InvalidArguments { tool, problems } => invalid_arguments(tool, problems),
            Self::RateLimitExceeded { tool, limit, wait_ms } => format!(
                "Tool '{tool}' may be called {} in {}; try again in {}",
                times(limit.calls),
                span(limit.per.as_millis()),
                span(u128::from(*wait_ms))
            ),
            Self::DryRunRequired { tool } => format!(
                "Tool '{tool}' must not be called without a dry run before it, and none can be made here; tell the user what you \
                 wanted to do"
            ),
            Self::ConfirmationRequired { tool, risk, needs_step_up } => {
                confirmation_required(tool, *risk, *needs_step_up)
            }
        }
    }

    /// The same for programs.
    pub fn details(&self) -> Value {
        match self {
            Self::UnknownField { field, nearest } => json!({"field": field.for_json(), "nearest": nearest}),
            Self::BadField { field, expected } => json!({"field": field, "expected": expected}),
            Self::InvalidToolName(_) | Self::InvalidArgs(_) | Self::InvalidIntent(_) => json!({}),
            Self::InvalidOperationType(found) => {
                json!({"found": found.for_json(), "allowed": ["read", "write", "destructive"]})
            }
            Self::InvalidSensitivity(found) => {
                json!({"found": found.for_json(), "allowed": ["public", "internal", "private", "unknown"]})
            }
            Self::ReasonTooLong => json!({"max_characters": crate::REASON_MAX_CHARS}),
            Self::MissingIntent(variant) => json!({"tool_variant": variant.tool()}),
            Self::MissingOperationType => json!({"allowed": ["read", "write", "destructive"]}),
            Self::IntentMismatch { variant, declared } => {
                json!({"tool_variant": variant.tool(), "operation_type": declared.operation()})
            }
            Self::NoSuchTool { name, suggestions, .. } => {
                let suggestions: Vec<String> = suggestions.iter().map(ToString::to_string).collect();
                json!({"tool": name.to_string(), "suggestions": suggestions})
            }
            Self::ServerMismatch { tool, used, right, .. } => {
                json!({"tool": tool.to_string(), "tool_variant": used.tool(), "call_with": right.tool()})
            }
            Self::NotGranted { variant, .. } => json!({"operation": variant.operation()}),
            Self::NotKnownToRead { tool, .. } | Self::Unclassified { tool } | Self::DryRunRequired { tool } => {
                json!({"tool": tool.to_string()})
            }
            Self::ContractMismatch { tool, used, right } => {
                json!({"tool": tool.to_string(), "tool_variant": used.tool(), "call_with": right.tool()})
            }
            Self::MissingPermissions { tool, missing, .. } => {
                json!({"tool": tool.to_string(), "missing_permissions": missing})
            }
            Self::PolicyViolation { tool, violations } => {
                let rules: Vec<Value> =
                    violations.iter().map(|one| json!({"rule": one.rule, "message": one.message})).collect();
                json!({"tool": tool.to_string(), "rule": violations.first().map(|one| &one.rule), "rules": rules})
            }
            Self::InvalidArguments { tool, problems } => {
                let problems: Vec<Value> = problems
                    .iter()
                    .map(|one| {
                        json!({
                            "pointer": one.pointer,
                            "expected": one.expected,
                            "found": one.found,
                            "description": one.description,
                        })
                    })
                    .collect();
                json!({"tool": tool.to_string(), "problems": problems})
            }
            Self::RateLimitExceeded { tool, limit, wait_ms } => json!({
                "tool": tool.to_string(),
                "calls": limit.calls,
                "per_ms": u64::try_from(limit.per.as_millis()).unwrap_or(u64::MAX),
                "retry_after_ms": wait_ms,
            }),
            Self::ConfirmationRequired { tool, risk, needs_step_up } => json!({
                "tool": tool.to_string(),
                "risk_level": risk.map(RiskLevel::as_str),
                "needs": if *needs_step_up { vec!["confirmation", "step_up"] } else { vec!["confirmation"] },
            }),
        }
    }
}

impl Mark {
    fn words(self) -> &'static str {
        match self {
            Self::Destructive => "marked destructive by server",
            Self::NotReadOnly => "marked not read-only by server",
            Self::Unannotated => "not marked read-only by server",
        }
    }
}

fn no_such_tool(name: &ToolName, missing: Missing, suggestions: &[ToolName]) -> String {
    let fact = match missing {
        Missing::Server => format!("unknown server '{}'", name.server()),
        Missing::Tool => format!("server '{}' has no tool '{}'", name.server(), name.tool()),
    };
    let hint = match suggestions {
        [] => "use retrieve_tools to find tools".to_owned(),
        some => {
            let quoted: Vec<String> = some.iter().map(|name| format!("'{name}'")).collect();
            format!("did you mean {}?", quoted.join(" or "))
        }
    };
    format!("Tool '{name}' not found: {fact}; {hint}")
}

fn named(word: &str, names: &[String]) -> String {
    let quoted: Vec<String> = names.iter().map(|name| format!("'{name}'")).collect();
    format!("the {word}{} {}", if names.len() == 1 { "" } else { "s" }, quoted.join(", "))
}

fn policy_violation(tool: &ToolName, violations: &[Violation]) -> String {
    match violations.first() {
        Some(Violation { rule, message: Some(message), .. }) => {
            format!("Tool '{tool}' is refused by rule '{rule}': {message}")
        }
        Some(Violation { rule, message: None, .. }) => format!("Tool '{tool}' is refused by rule '{rule}'"),
        None => format!("Tool '{tool}' is refused by a rule of the operator"),
    }
}

fn invalid_arguments(tool: &ToolName, problems: &[Problem]) -> String {
    let separator = if problems.len() == 1 { " " } else { "\n" };
    format!("Invalid arguments for '{tool}':{separator}{}", Problem::message(problems))
}

fn confirmation_required(tool: &ToolName, risk: Option<RiskLevel>, needs_step_up: bool) -> String {
    let level = risk.map(|risk| format!(" (risk level {})", risk.as_str())).unwrap_or_default();
    let factor = if needs_step_up { " with a fresh second factor" } else { "" };
    format!(
        "Tool '{tool}'{level} needs a human's confirmation{factor}, and there is nobody to ask here; tell the user what you \
         wanted to do"
    )
}

fn times(calls: u32) -> String {
    match calls {
        1 => "once".to_owned(),
        calls => format!("{calls} times"),
    }
}

/// A span as people say it, never shorter than it is.
fn span(ms: u128) -> String {
    match ms {
        0..=999 => format!("{ms} ms"),
        1_000..=119_999 => format!("{} s", ms.div_ceil(1_000)),
        120_000..=7_199_999 => format!("{} min", ms.div_ceil(60_000)),
        _ => format!("{} h", ms.div_ceil(3_600_000)),
    }
}
