//! Errors of the demo tools: a code that an agent can act on, and a sentence.

/// An error of a tool.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Failure {
    pub(crate) code: Code,
    pub(crate) message: String,
}

impl Failure {
    pub(crate) fn new(code: Code, message: impl Into<String>) -> Self {
        Self { code, message: message.into() }
    }

    pub(crate) fn not_found(kind: &str, id: &str) -> Self {
        Self::new(Code::NotFound, format!("there is no {kind} `{id}`"))
    }
}

/// All error codes. Contracts use this type, so they cannot declare an unknown code.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Code {
    AlreadySent,
    AttachmentTooLarge,
    /// Answered by a gateway, never by this server.
    ConfirmationRequired,
    CurrencyMismatch,
    /// Answered by a gateway, never by this server.
    DryRunRequired,
    EmptyDataset,
    /// Answered by a gateway, never by this server.
    IdempotencyConflict,
    InsufficientFunds,
    /// A bug in this server. No contract declares it.
    InternalError,
    InvalidAmount,
    InvalidArguments,
    InvalidEmail,
    InvalidLimit,
    InvalidQuery,
    InvalidRecipient,
    InvalidTime,
    LimitExceeded,
    NotFound,
    NothingToChange,
    PermissionDenied,
    PolicyViolation,
    RateLimitExceeded,
}

impl Code {
    /// Returns the code as it is sent.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::AlreadySent => "already_sent",
            Self::AttachmentTooLarge => "attachment_too_large",
            Self::ConfirmationRequired => "confirmation_required",
            Self::CurrencyMismatch => "currency_mismatch",
            Self::DryRunRequired => "dry_run_required",
            Self::EmptyDataset => "empty_dataset",
            Self::IdempotencyConflict => "idempotency_conflict",
            Self::InsufficientFunds => "insufficient_funds",
            Self::InternalError => "internal_error",
            Self::InvalidAmount => "invalid_amount",
            Self::InvalidArguments => "invalid_arguments",
            Self::InvalidEmail => "invalid_email",
            Self::InvalidLimit => "invalid_limit",
            Self::InvalidQuery => "invalid_query",
            Self::InvalidRecipient => "invalid_recipient",
            Self::InvalidTime => "invalid_time",
            Self::LimitExceeded => "limit_exceeded",
            Self::NotFound => "not_found",
            Self::NothingToChange => "nothing_to_change",
            Self::PermissionDenied => "permission_denied",
            Self::PolicyViolation => "policy_violation",
            Self::RateLimitExceeded => "rate_limit_exceeded",
        }
    }
}
