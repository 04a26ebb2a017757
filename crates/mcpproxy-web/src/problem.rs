//! Why there is no answer: every error of the interface, in one shape.

use axum::extract::rejection::BytesRejection;
use axum::response::{IntoResponse, Response};
use http::StatusCode;
use http::header::{HeaderValue, RETRY_AFTER, WWW_AUTHENTICATE};
use mcpproxy_core::ApprovalState;
use mcpproxy_store::StoreError;

use crate::wire;

#[derive(Debug)]
pub(crate) enum Problem {
    /// The request shows neither the admin key nor anything else.
    Nobody,
    /// The request shows an agent's token.
    Agent,
    /// An agent tried to decide.
    AgentDecides,
    /// The admin key tried to say yes.
    KeyDecides,
    /// Only people sign in.
    Key,
    NotSignedIn,
    /// A person without a second factor.
    NotEnrolled,
    /// The token against forged requests is missing or wrong.
    Forged,
    WrongLogin,
    /// A yes with a session's cookie and nothing else.
    NotPresent,
    TooManyTries {
        wait_ms: i64,
    },
    /// The factors this person could use.
    StepUpRequired(Vec<&'static str>),
    WrongCode,
    NoApproval,
    NoGrant,
    /// Somebody else was first, or it was too late.
    Over(ApprovalState),
    NotGranted(String),
    LogUnwritable,
    Host,
    Origin,
    NoRoute,
    WrongMethod,
    NoServer,
    NoTool,
    NoAgent,
    NoRecord,
    AmbiguousId(String),
    NotConnected(String),
    BadQuery {
        message: String,
        hint: String,
    },
    BadBody(String),
    BodyTooLarge,
    LogUnreadable,
}

/// Status, code, message and hint of a problem that is always the same.
type Words = (StatusCode, &'static str, &'static str, &'static str);

const UNKNOWN: Words = (
    StatusCode::INTERNAL_SERVER_ERROR,
    "internal",
    "something is wrong here",
    "the gateway's own log may have the reason",
);

const NOT_PRESENT: Words = (
    StatusCode::FORBIDDEN,
    "page_key_required",
    "a session's cookie alone does not approve",
    "send `page_key` of the answer to POST /api/v1/login, or a fresh code as `totp`",
);

fn owned((status, code, message, hint): Words) -> (StatusCode, &'static str, String, String) {
    (status, code, message.to_owned(), hint.to_owned())
}

impl Problem {
    pub(crate) fn bad_query(message: impl Into<String>, hint: impl Into<String>) -> Self {
        Self::BadQuery { message: message.into(), hint: hint.into() }
    }

    /// Status, code, message and hint.
    fn facts(self) -> (StatusCode, &'static str, String, String) {
        match self {
            Self::BadQuery { message, hint } => (StatusCode::BAD_REQUEST, "bad_query", message, hint),
            Self::AmbiguousId(message) => {
                (StatusCode::BAD_REQUEST, "ambiguous_id", message, "GET /api/v1/activity shows whole ids".to_owned())
            }
            Self::NotConnected(message) => {
                let hint = "`mcpproxy servers list` shows why".to_owned();
                (StatusCode::SERVICE_UNAVAILABLE, "upstream_unavailable", message, hint)
            }
            Self::BadBody(message) => {
                let hint = "GET /api/v1/docs shows what to send".to_owned();
                (StatusCode::BAD_REQUEST, "bad_body", message, hint)
            }
            Self::Over(state) => {
                let message = format!("it is {} already", state.as_str());
                (StatusCode::CONFLICT, "approval_over", message, "nothing was changed".to_owned())
            }
            Self::NotGranted(message) => {
                let hint = "see GET /api/v1/docs for what a grant can be".to_owned();
                (StatusCode::BAD_REQUEST, "grant_refused", message, hint)
            }
            Self::TooManyTries { wait_ms } => {
                let message = format!("too many tries; wait {} seconds", wait_ms / 1000 + 1);
                (StatusCode::TOO_MANY_REQUESTS, "too_many_tries", message, "then try again".to_owned())
            }
            Self::AgentDecides
            | Self::KeyDecides
            | Self::Key
            | Self::NotSignedIn
            | Self::NotEnrolled
            | Self::Forged
            | Self::WrongLogin
            | Self::NotPresent
            | Self::StepUpRequired(_)
            | Self::WrongCode
            | Self::Nobody
            | Self::Agent
            | Self::Origin => owned(self.who()),
            Self::NoApproval
            | Self::NoGrant
            | Self::Host
            | Self::LogUnwritable
            | Self::NoRoute
            | Self::WrongMethod
            | Self::NoServer
            | Self::NoTool
            | Self::NoAgent
            | Self::NoRecord
            | Self::BodyTooLarge
            | Self::LogUnreadable => owned(self.what()),
        }
    }

    /// What is wrong with who asks.
    fn who(&self) -> Words {
        match self {
            Self::AgentDecides => (
                StatusCode::FORBIDDEN,
                "permission_denied",
                "agents cannot decide approvals",
                "ask the user to open the page of the approval and decide there",
            ),
            Self::KeyDecides => (
                StatusCode::FORBIDDEN,
                "permission_denied",
                "the admin key can deny, but never approve",
                "sign in as a person: open the page of the approval, or `mcpproxy approvals approve ID` in a terminal",
            ),
            Self::Key => (
                StatusCode::FORBIDDEN,
                "key_not_allowed",
                "this is for people who are signed in, not for the admin key",
                "leave X-API-Key out, and sign in with POST /api/v1/login",
            ),
            Self::NotSignedIn => (
                StatusCode::UNAUTHORIZED,
                "unauthenticated",
                "nobody is signed in",
                "sign in with POST /api/v1/login, or on the page /ui/login",
            ),
            Self::NotEnrolled => (
                StatusCode::FORBIDDEN,
                "not_enrolled",
                "this person has no second factor yet",
                "open /ui/account and add an authenticator app or a passkey",
            ),
            Self::Forged => (
                StatusCode::FORBIDDEN,
                "csrf_token_wrong",
                "the token against forged requests is missing or wrong",
                "send `csrf` of the answer to POST /api/v1/login as X-CSRF-Token",
            ),
            Self::WrongLogin => (
                StatusCode::UNAUTHORIZED,
                "wrong_login",
                "name or password is wrong",
                "try again; after five failures in a minute it takes a break",
            ),
            Self::NotPresent => NOT_PRESENT,
            Self::StepUpRequired(_) => (
                StatusCode::FORBIDDEN,
                "step_up_required",
                "this takes a fresh factor",
                "send a code of your authenticator app as `totp`, or use a passkey on the page",
            ),
            Self::WrongCode => (
                StatusCode::FORBIDDEN,
                "wrong_code",
                "the code is wrong, or was used before",
                "wait for the next code; each counts once",
            ),
            Self::Nobody => (
                StatusCode::UNAUTHORIZED,
                "unauthenticated",
                "the admin key is missing or wrong",
                "send the key of admin.key, in the data folder, as X-API-Key",
            ),
            Self::Agent => (
                StatusCode::FORBIDDEN,
                "agent_not_allowed",
                "agents may not use the admin API",
                "agent tokens are for /mcp; send the key of admin.key as X-API-Key, and no Authorization header",
            ),
            Self::Origin => (
                StatusCode::FORBIDDEN,
                "origin_not_allowed",
                "origin not allowed",
                "add the origin to `allowed_origins` in the settings if this page may talk to the gateway",
            ),
            _ => UNKNOWN,
        }
    }

    /// What is wrong with what is asked for.
    fn what(&self) -> Words {
        match self {
            Self::NoApproval => {
                (StatusCode::NOT_FOUND, "approval_not_found", "no such approval", "GET /api/v1/approvals lists all")
            }
            Self::NoGrant => {
                (StatusCode::NOT_FOUND, "grant_not_found", "no such grant in force", "GET /api/v1/grants lists them")
            }
            Self::LogUnwritable => (
                StatusCode::SERVICE_UNAVAILABLE,
                "log_unavailable",
                "the activity log cannot be written, so nothing was decided",
                "GET /readyz tells when it can; the gateway's own log has the reason",
            ),
            Self::Host => (
                StatusCode::FORBIDDEN,
                "host_not_allowed",
                "host not allowed",
                "use http://localhost:PORT, or add the name to `allowed_hosts` in the settings",
            ),
            Self::NoRoute => (StatusCode::NOT_FOUND, "not_found", "no such path", "GET /api/v1/docs lists all"),
            Self::WrongMethod => (
                StatusCode::METHOD_NOT_ALLOWED,
                "method_not_allowed",
                "the path does not take this method",
                "`Allow` says which it takes",
            ),
            Self::NoServer => (
                StatusCode::NOT_FOUND,
                "server_not_found",
                "no such server, or it is disabled",
                "GET /api/v1/servers lists all",
            ),
            Self::NoTool => (StatusCode::NOT_FOUND, "tool_not_found", "no such tool", "GET /api/v1/tools lists all"),
            Self::NoAgent => {
                (StatusCode::NOT_FOUND, "agent_not_found", "no such agent", "`mcpproxy token list` shows the names")
            }
            Self::NoRecord => (
                StatusCode::NOT_FOUND,
                "record_not_found",
                "no such activity record",
                "GET /api/v1/activity lists the newest; the beginning of an id is enough",
            ),
            Self::BodyTooLarge => (
                StatusCode::PAYLOAD_TOO_LARGE,
                "body_too_large",
                "the body is too large, or it ended early",
                "2 MiB are the limit",
            ),
            Self::LogUnreadable => (
                StatusCode::SERVICE_UNAVAILABLE,
                "log_unreadable",
                "the activity log cannot be read at the moment",
                "GET /readyz tells whether it can be written; the gateway's own log has the reason",
            ),

            _ => UNKNOWN,
        }
    }
}

impl From<StoreError> for Problem {
    fn from(error: StoreError) -> Self {
        match error {
            StoreError::AmbiguousId { .. } => Self::AmbiguousId(error.to_string()),
            _ => {
                let error: &dyn std::error::Error = &error;
                tracing::warn!(error, "could not read or write the store");
                Self::LogUnreadable
            }
        }
    }
}

impl From<BytesRejection> for Problem {
    fn from(_: BytesRejection) -> Self {
        Self::BodyTooLarge
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let header = match &self {
            Self::Nobody => Some((WWW_AUTHENTICATE, HeaderValue::from_static("X-API-Key"))),
            Self::NotSignedIn | Self::WrongLogin => Some((WWW_AUTHENTICATE, HeaderValue::from_static("Session"))),
            Self::TooManyTries { wait_ms } => Some((RETRY_AFTER, HeaderValue::from(wait_ms / 1000 + 1))),
            _ => None,
        };
        let details = match &self {
            Self::StepUpRequired(factors) => Some(serde_json::json!({"factors": factors})),
            _ => None,
        };
        let (status, code, message, hint) = self.facts();
        let mut response = wire::Error::new(code, message, hint).with_details(details).response(status);
        response.headers_mut().extend(header);
        response
    }
}
