//! Refusals of a call, and the texts that agents get for them.
//!
//! A [`Denial`] is one reason why a call is not sent. It has three faces:
//!
//! - [`Denial::code`]: a stable code from the table in `error_code.rs`. Agents match on it, so it never changes.
//! - [`Denial::message`]: a sentence for the agent, in `denial/message.rs`. It names the tool or parameter to use next,
//!   because agents correct themselves by it. [`Denial::message_in`] names the parameters of a direct call.
//! - [`Denial::details`]: the same facts as JSON, in `denial/details.rs`. `mcpproxy call` words a refusal for a person from code and details, and
//!   never shows the agent's sentence.
//!
//! The messages of the seven codes in upper case are part of the published intent declaration and stay word for word.
//!
//! Invariants:
//!
//! - A forbidden tool, or one outside the agent's scope, gives the same refusal as a tool that does not exist. So does a
//!   quarantined tool that the agent has never seen.
//! - Text from agents and servers is [`Untrusted`] and is escaped for the place it goes to.
//! - Sensitive argument values never appear: `Tool::hide_sensitive` removes them from schema problems first.
//!
//! An enum with data, instead of a code and a string, keeps message and details consistent. Every match on it is
//! exhaustive, so a new refusal does not compile until it has a code, a message and details.
//!
//! ```
//! # use mcpproxy_core::{Denial, Variant};
//! let denial = Denial::MissingIntent(Variant::Read);
//! assert_eq!(denial.code(), "MISSING_INTENT");
//! assert_eq!(denial.message(), "intent parameter is required for call_tool_read");
//! ```

mod denied_by;
mod details;
mod message;

use std::sync::Arc;

use serde_json::Value;

use crate::contract::RateLimit;
use crate::schema::Problem;
pub use denied_by::DeniedBy;

use crate::{ApprovalId, ErrorCode, NameError, RiskLevel, ToolName, Untrusted, Variant};

/// Most characters of `intent.reason`.
pub const REASON_MAX_CHARS: usize = 1000;
/// Most characters of `idempotency_key`.
pub const IDEMPOTENCY_KEY_MAX_CHARS: usize = 255;

/// One reason why a call is refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Denial {
    /// `call_tool_*` has no such parameter.
    UnknownField {
        field: Untrusted,
        hint: FieldHint,
    },
    /// A parameter of `call_tool_*` is missing or has the wrong type.
    BadField {
        field: &'static str,
        expected: &'static str,
    },
    InvalidToolName(NameError),
    /// The name has no server, and several tools that the agent may see have it.
    AmbiguousToolName {
        candidates: Vec<ToolName>,
    },
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
        /// Names of similar tools, as the agent calls them.
        suggestions: Vec<String>,
    },
    /// Agents know the tool, and no user has accepted its new definition yet. An agent that cannot know it gets
    /// `NoSuchTool`.
    Quarantined {
        name: ToolName,
    },
    ServerMismatch {
        tool: ToolName,
        mark: Mark,
        used: Variant,
        right: Variant,
    },
    /// The agent's token does not allow this kind of operation.
    NotGranted {
        agent: String,
        variant: Variant,
    },
    /// The agent may only read, and neither annotations nor contract say that this tool only reads.
    NotKnownToRead {
        agent: String,
        tool: ToolName,
    },
    /// The contract names an operation that does more than the variant.
    ContractMismatch {
        tool: ToolName,
        used: Variant,
        right: Variant,
    },
    /// The tool has no risk level, and `contracts.unclassified` is `deny`.
    Unclassified {
        tool: ToolName,
    },
    MissingPermissions {
        agent: String,
        tool: ToolName,
        missing: Vec<String>,
    },
    /// Policies forbid the call. The message quotes the first.
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
    InvalidIdempotencyKey,
    /// The idempotency key was used before with other arguments.
    IdempotencyConflict {
        tool: ToolName,
        is_natural: bool,
    },
    /// The call was sent before under the same idempotency key, and may have had an effect.
    OutcomeUnknown {
        tool: ToolName,
        record: String,
        first: FirstOutcome,
    },
    DryRunRequired {
        tool: ToolName,
        /// The dry run to make first, ready to be sent.
        next: Value,
    },
    ConfirmationRequired {
        tool: ToolName,
        risk: Option<RiskLevel>,
        needs_step_up: bool,
        /// `None` if no approval was requested yet.
        approval: Option<Box<Ticket>>,
    },
    ApprovalDenied {
        by: DeniedBy,
        comment: Option<Untrusted>,
    },
    ApprovalExpired,
    ApprovalAlreadyUsed {
        /// The record of the call it was used for, and its outcome, if known.
        record: Option<String>,
        outcome: Option<String>,
    },
    /// The approval does not exist or belongs to another agent.
    NoSuchApproval,
    ApprovalArgsMismatch,
    /// The tool, its contract or the agent's token changed after the approval was requested.
    ApprovalStale,
    /// Gateways that share a database have different contracts for this tool. The approval was requested under another
    /// one, and remains open.
    ContractsDiffer {
        tool: ToolName,
    },
    TooManyApprovals {
        most: u32,
    },
}

/// The end of a first call whose repeat is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FirstOutcome {
    /// No result arrived.
    Lost,
    /// The server answered with an error that does not prove that nothing happened.
    Failed,
}

/// The place of the gateway's own parameters in a call, such as `intent` and `dry_run`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ParameterPlace {
    /// Among the parameters of `call_tool_*`.
    Arguments,
    /// In `_meta` of a direct call, as `mcpproxy/intent`.
    Meta,
}

/// The next step after an unknown parameter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FieldHint {
    /// A known parameter has a similar name.
    Nearest(&'static str),
    /// The call to send instead, with the tool's arguments in their place.
    Shape(Untrusted),
    /// It may be an argument of the tool.
    IntoArgs,
    Unknown,
}

/// The data that an agent needs to repeat a call after its approval.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ticket {
    pub id: ApprovalId,
    pub url: String,
    pub expires_ms: i64,
    pub side_effects: Vec<Untrusted>,
    pub retry: Retry,
    pub approvers: Approvers,
}

/// The users who could approve a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Approvers {
    /// At least one account has a second factor.
    Ready,
    /// There are accounts, but none has a second factor yet.
    NotEnrolled,
    /// No account exists yet.
    NoAccount,
}

/// The way to repeat a call after its approval.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Retry {
    /// With `approval_id`, a parameter of the three variants.
    WithId,
    /// Unchanged. A tool called directly has no parameter for an id, so the gateway recognizes the call by its binding.
    AsItIs,
}

/// The part of a tool name that does not exist.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Missing {
    Server,
    Tool,
}

/// The server's annotation that contradicts the variant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mark {
    Destructive,
    NotReadOnly,
    Unannotated,
}

impl Denial {
    /// Returns the code that agents get.
    pub fn code(&self) -> &'static str {
        self.error_code().as_str()
    }

    fn error_code(&self) -> ErrorCode {
        match self {
            Self::UnknownField { .. } => ErrorCode::UnknownField,
            Self::BadField { .. } => ErrorCode::InvalidField,
            Self::InvalidToolName(_) | Self::AmbiguousToolName { .. } => ErrorCode::InvalidToolName,
            Self::InvalidArgs(_) => ErrorCode::InvalidArgs,
            Self::InvalidIntent(_) => ErrorCode::InvalidIntent,
            Self::InvalidOperationType(_) => ErrorCode::InvalidOperationType,
            Self::InvalidSensitivity(_) => ErrorCode::InvalidSensitivity,
            Self::ReasonTooLong => ErrorCode::ReasonTooLong,
            Self::MissingIntent(_) => ErrorCode::MissingIntent,
            Self::MissingOperationType => ErrorCode::MissingOperationType,
            Self::IntentMismatch { .. } => ErrorCode::IntentMismatch,
            Self::NoSuchTool { .. } => ErrorCode::ToolNotFound,
            Self::Quarantined { .. } => ErrorCode::ToolQuarantined,
            Self::ServerMismatch { .. } => ErrorCode::ServerMismatch,
            Self::NotGranted { .. } | Self::NotKnownToRead { .. } | Self::MissingPermissions { .. } => {
                ErrorCode::PermissionDenied
            }
            Self::ContractMismatch { .. } => ErrorCode::ContractMismatch,
            Self::Unclassified { .. } => ErrorCode::ContractRequired,
            Self::PolicyViolation { .. } => ErrorCode::PolicyViolation,
            Self::InvalidArguments { .. } => ErrorCode::InvalidArguments,
            Self::RateLimitExceeded { .. } => ErrorCode::RateLimitExceeded,
            Self::DryRunRequired { .. } => ErrorCode::DryRunRequired,
            Self::InvalidIdempotencyKey => ErrorCode::InvalidIdempotencyKey,
            Self::IdempotencyConflict { .. } => ErrorCode::IdempotencyConflict,
            Self::OutcomeUnknown { .. } => ErrorCode::OutcomeUnknown,
            Self::ConfirmationRequired { .. } => ErrorCode::ConfirmationRequired,
            Self::ApprovalDenied { .. } => ErrorCode::ApprovalDenied,
            Self::ApprovalExpired => ErrorCode::ApprovalExpired,
            Self::ApprovalAlreadyUsed { .. } => ErrorCode::ApprovalAlreadyUsed,
            Self::NoSuchApproval => ErrorCode::ApprovalNotFound,
            Self::ApprovalArgsMismatch => ErrorCode::ApprovalArgsMismatch,
            Self::ApprovalStale => ErrorCode::ApprovalStale,
            Self::ContractsDiffer { .. } => ErrorCode::ContractsDiffer,
            Self::TooManyApprovals { .. } => ErrorCode::TooManyApprovals,
        }
    }

    /// Returns true if the same call may pass later: the server may come back, the rate limit has room again, all gateways
    /// have the same contracts again, or a user accepts the tool. An approval is bound to the tool's pin, so none outlives a
    /// change of the definition.
    ///
    /// A temporary refusal keeps a pending approval. Any other ends it.
    pub fn is_temporary(&self) -> bool {
        match self {
            Self::RateLimitExceeded { .. }
            | Self::NoSuchTool { .. }
            | Self::Quarantined { .. }
            | Self::ContractsDiffer { .. } => true,
            Self::UnknownField { .. }
            | Self::BadField { .. }
            | Self::InvalidToolName(_)
            | Self::AmbiguousToolName { .. }
            | Self::InvalidArgs(_)
            | Self::InvalidIntent(_)
            | Self::InvalidOperationType(_)
            | Self::InvalidSensitivity(_)
            | Self::ReasonTooLong
            | Self::InvalidIdempotencyKey
            | Self::NoSuchApproval
            | Self::MissingIntent(_)
            | Self::MissingOperationType
            | Self::IntentMismatch { .. }
            | Self::ServerMismatch { .. }
            | Self::ContractMismatch { .. }
            | Self::Unclassified { .. }
            | Self::NotGranted { .. }
            | Self::NotKnownToRead { .. }
            | Self::MissingPermissions { .. }
            | Self::PolicyViolation { .. }
            | Self::InvalidArguments { .. }
            | Self::IdempotencyConflict { .. }
            | Self::OutcomeUnknown { .. }
            | Self::DryRunRequired { .. }
            | Self::ConfirmationRequired { .. }
            | Self::ApprovalDenied { .. }
            | Self::ApprovalExpired
            | Self::ApprovalAlreadyUsed { .. }
            | Self::ApprovalArgsMismatch
            | Self::ApprovalStale
            | Self::TooManyApprovals { .. } => false,
        }
    }

    /// Returns true for a malformed request, which is a protocol error. All other refusals are tool results.
    pub fn is_malformed(&self) -> bool {
        matches!(self, Self::UnknownField { .. } | Self::BadField { .. })
    }
}

/// A policy that forbids a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// The policy's `@id`, or its file and line.
    pub policy: String,
    pub file: Arc<str>,
    pub line: usize,
    /// Its `@message`.
    pub message: Option<String>,
}
