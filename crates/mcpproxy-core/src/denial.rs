//! The reasons why a call is refused, with the texts that the agent gets.

mod details;
mod message;

use std::sync::Arc;

use serde_json::Value;

use crate::contract::RateLimit;
use crate::schema::Problem;
use crate::{ApprovalId, ErrorCode, NameError, RiskLevel, ToolName, Untrusted, Variant};

/// Maximum number of characters of `intent.reason`.
pub const REASON_MAX_CHARS: usize = 1000;
/// Maximum number of characters of `idempotency_key`.
pub const IDEMPOTENCY_KEY_MAX_CHARS: usize = 255;

/// A reason why a call is refused. The texts are part of the product: agents correct themselves by them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Denial {
    /// The gateway's own tools have no such parameter.
    UnknownField {
        field: Untrusted,
        nearest: Option<&'static str>,
    },
    /// A parameter of the gateway's own tools is missing or has the wrong type.
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
    /// The agent may only read, and neither the server nor the operator declares this tool as read-only.
    NotKnownToRead {
        agent: String,
        tool: ToolName,
    },
    /// The contract declares a stronger operation than the variant.
    ContractMismatch {
        tool: ToolName,
        used: Variant,
        right: Variant,
    },
    /// The tool has no risk level from the operator, and the settings require one.
    Unclassified {
        tool: ToolName,
    },
    MissingPermissions {
        agent: String,
        tool: ToolName,
        missing: Vec<String>,
    },
    /// A policy of the operator forbids the call. The first such policy gives the message.
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
    /// The same idempotency key was used before with other arguments.
    IdempotencyConflict {
        tool: ToolName,
        is_natural: bool,
    },
    /// The same call was made before, and its outcome is unknown.
    OutcomeUnknown {
        tool: ToolName,
        record: String,
    },
    DryRunRequired {
        tool: ToolName,
        /// The dry run to make first.
        next: Value,
    },
    ConfirmationRequired {
        tool: ToolName,
        risk: Option<RiskLevel>,
        needs_step_up: bool,
        /// `None` until an approval request exists.
        approval: Option<Box<Ticket>>,
    },
    ApprovalDenied {
        comment: Option<Untrusted>,
    },
    ApprovalExpired,
    ApprovalAlreadyUsed {
        /// The record of the call that used the approval, and the outcome of that call, if known.
        record: Option<String>,
        outcome: Option<String>,
    },
    /// There is no such approval, or it belongs to another agent.
    NoSuchApproval,
    ApprovalArgsMismatch,
    /// The tool, its contract or the agent's permissions have changed since.
    ApprovalStale,
    TooManyApprovals {
        most: u32,
    },
}

/// The data that an agent needs to retry the call after the user's approval.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ticket {
    pub id: ApprovalId,
    pub url: String,
    pub expires_ms: i64,
    pub side_effects: Vec<Untrusted>,
    pub retry: Retry,
    /// True if at least one user can approve the call.
    pub has_users: bool,
}

/// The way to retry a call after the user's approval.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Retry {
    /// With the approval id, for which the three variants have a parameter.
    WithId,
    /// Unchanged: a server's own tool has no parameter for an id, so the gateway recognizes the call by its binding.
    AsItIs,
}

/// The checks of a call, in their order. The first failure is the answer.
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
            Self::Permissions => "permissions and policies",
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

/// The annotation of a server that contradicts the variant.
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
            Self::InvalidToolName(_) => ErrorCode::InvalidToolName,
            Self::InvalidArgs(_) => ErrorCode::InvalidArgs,
            Self::InvalidIntent(_) => ErrorCode::InvalidIntent,
            Self::InvalidOperationType(_) => ErrorCode::InvalidOperationType,
            Self::InvalidSensitivity(_) => ErrorCode::InvalidSensitivity,
            Self::ReasonTooLong => ErrorCode::ReasonTooLong,
            Self::MissingIntent(_) => ErrorCode::MissingIntent,
            Self::MissingOperationType => ErrorCode::MissingOperationType,
            Self::IntentMismatch { .. } => ErrorCode::IntentMismatch,
            Self::NoSuchTool { .. } => ErrorCode::ToolNotFound,
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
            Self::TooManyApprovals { .. } => ErrorCode::TooManyApprovals,
        }
    }

    /// Returns the check that failed.
    pub fn check(&self) -> Check {
        match self {
            Self::UnknownField { .. }
            | Self::BadField { .. }
            | Self::InvalidToolName(_)
            | Self::InvalidArgs(_)
            | Self::InvalidIntent(_)
            | Self::InvalidOperationType(_)
            | Self::InvalidSensitivity(_)
            | Self::ReasonTooLong
            | Self::InvalidIdempotencyKey
            // A malformed id is refused before any other check.
            | Self::NoSuchApproval => Check::Shape,
            Self::MissingIntent(_) | Self::MissingOperationType | Self::IntentMismatch { .. } => Check::TwoKeys,
            Self::NoSuchTool { .. } => Check::Exists,
            Self::ServerMismatch { .. } => Check::Annotations,
            Self::ContractMismatch { .. } | Self::Unclassified { .. } => Check::Contract,
            Self::NotGranted { .. }
            | Self::NotKnownToRead { .. }
            | Self::MissingPermissions { .. }
            | Self::PolicyViolation { .. } => Check::Permissions,
            Self::InvalidArguments { .. } | Self::IdempotencyConflict { .. } | Self::OutcomeUnknown { .. } => {
                Check::Arguments
            }
            Self::RateLimitExceeded { .. } => Check::RateLimit,
            Self::DryRunRequired { .. } => Check::DryRun,
            Self::ConfirmationRequired { .. }
            | Self::ApprovalDenied { .. }
            | Self::ApprovalExpired
            | Self::ApprovalAlreadyUsed { .. }
            | Self::ApprovalArgsMismatch
            | Self::ApprovalStale
            | Self::TooManyApprovals { .. } => Check::Confirmation,
        }
    }

    /// Returns true if the request itself is malformed, which is a protocol error. Otherwise the refusal is a tool
    /// result.
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
    /// The `@message` of the policy.
    pub message: Option<String>,
}
