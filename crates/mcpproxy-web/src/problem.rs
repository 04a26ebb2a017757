//! Why there is no answer: every error of the interface, in one shape.

use axum::extract::rejection::BytesRejection;
use axum::response::{IntoResponse, Response};
use http::StatusCode;
use http::header::{HeaderValue, WWW_AUTHENTICATE};
use mcpproxy_store::StoreError;

use crate::wire;

#[derive(Debug)]
pub(crate) enum Problem {
    /// The request shows neither the admin key nor anything else.
    Nobody,
    /// The request shows an agent's token.
    Agent,
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

impl Problem {
    pub(crate) fn bad_query(message: impl Into<String>, hint: impl Into<String>) -> Self {
        Self::BadQuery { message: message.into(), hint: hint.into() }
    }

    /// Status, code, message and hint.
    fn facts(self) -> (StatusCode, &'static str, String, String) {
        let (status, code, message, hint) = match self {
            Self::BadQuery { message, hint } => return (StatusCode::BAD_REQUEST, "BAD_QUERY", message, hint),
            Self::AmbiguousId(message) => {
                return (
                    StatusCode::BAD_REQUEST,
                    "AMBIGUOUS_ID",
                    message,
                    "GET /api/v1/activity shows whole ids".to_owned(),
                );
            }
            Self::NotConnected(message) => {
                let hint = "`mcpproxy servers list` shows why".to_owned();
                return (StatusCode::SERVICE_UNAVAILABLE, "UPSTREAM_UNAVAILABLE", message, hint);
            }
            Self::BadBody(message) => {
                let hint = "GET /api/v1/docs shows what to send".to_owned();
                return (StatusCode::BAD_REQUEST, "BAD_BODY", message, hint);
            }
            Self::Nobody => (
                StatusCode::UNAUTHORIZED,
                "UNAUTHENTICATED",
                "the admin key is missing or wrong",
                "send the key of admin.key, in the data folder, as X-API-Key",
            ),
            Self::Agent => (
                StatusCode::FORBIDDEN,
                "AGENT_NOT_ALLOWED",
                "agents may not use the admin API",
                "agent tokens are for /mcp; send the key of admin.key as X-API-Key, and no Authorization header",
            ),
            Self::Host => (
                StatusCode::FORBIDDEN,
                "HOST_NOT_ALLOWED",
                "host not allowed",
                "use http://localhost:PORT, or add the name to `allowed_hosts` in the settings",
            ),
            Self::Origin => (
                StatusCode::FORBIDDEN,
                "ORIGIN_NOT_ALLOWED",
                "origin not allowed",
                "add the origin to `allowed_origins` in the settings if this page may talk to the gateway",
            ),
            Self::NoRoute => (StatusCode::NOT_FOUND, "NOT_FOUND", "no such path", "GET /api/v1/docs lists all"),
            Self::WrongMethod => (
                StatusCode::METHOD_NOT_ALLOWED,
                "METHOD_NOT_ALLOWED",
                "the path does not take this method",
                "`Allow` says which it takes",
            ),
            Self::NoServer => (
                StatusCode::NOT_FOUND,
                "SERVER_NOT_FOUND",
                "no such server, or it is disabled",
                "GET /api/v1/servers lists all",
            ),
            Self::NoTool => (StatusCode::NOT_FOUND, "TOOL_NOT_FOUND", "no such tool", "GET /api/v1/tools lists all"),
            Self::NoAgent => {
                (StatusCode::NOT_FOUND, "AGENT_NOT_FOUND", "no such agent", "`mcpproxy token list` shows the names")
            }
            Self::NoRecord => (
                StatusCode::NOT_FOUND,
                "RECORD_NOT_FOUND",
                "no such activity record",
                "GET /api/v1/activity lists the newest; the beginning of an id is enough",
            ),
            Self::BodyTooLarge => (
                StatusCode::PAYLOAD_TOO_LARGE,
                "BODY_TOO_LARGE",
                "the body is too large, or it ended early",
                "2 MiB are the limit",
            ),
            Self::LogUnreadable => (
                StatusCode::SERVICE_UNAVAILABLE,
                "LOG_UNREADABLE",
                "the activity log cannot be read at the moment",
                "GET /readyz tells whether it can be written; the gateway's own log has the reason",
            ),
        };
        (status, code, message.to_owned(), hint.to_owned())
    }
}

impl From<StoreError> for Problem {
    fn from(error: StoreError) -> Self {
        match error {
            StoreError::AmbiguousId { .. } => Self::AmbiguousId(error.to_string()),
            _ => {
                let error: &dyn std::error::Error = &error;
                tracing::warn!(error, "could not read the activity log");
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
        let is_nobody = matches!(self, Self::Nobody);
        let (status, code, message, hint) = self.facts();
        let mut response = wire::Error::new(code, message, hint).response(status);
        if is_nobody {
            response.headers_mut().insert(WWW_AUTHENTICATE, HeaderValue::from_static("X-API-Key"));
        }
        response
    }
}
