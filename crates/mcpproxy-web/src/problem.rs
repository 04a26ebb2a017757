//! The table of REST errors: one row per error.
//!
//! A row has a status, a `code` for programs, a message and a hint. The table below is the only place that names them.
//! There is no `match` from a kind of error to its status, so that no error can fall through to a silent 500.
//!
//! Some errors know more than their row: [`Problem::message`] replaces the text, [`Problem::factors`] and
//! [`Problem::retry_after_ms`] add details.
//!
//! ```text
//! Err(Problem::SERVER_NOT_FOUND)
//! Err(Problem::BAD_BODY.message(error.to_string()))
//! ```

use axum::extract::rejection::BytesRejection;
use axum::response::{IntoResponse, Response};
use http::StatusCode;
use http::header::{HeaderValue, RETRY_AFTER, WWW_AUTHENTICATE};
use mcpproxy_store::StoreError;

use crate::wire;

/// A row of the table of errors.
#[derive(Debug)]
pub struct RestError {
    pub status: StatusCode,
    /// Stays the same in all versions.
    pub code: &'static str,
    pub message: &'static str,
    pub hint: &'static str,
    /// The `WWW-Authenticate` header of a 401.
    challenge: Option<&'static str>,
}

/// An error as a REST endpoint answers with it.
#[derive(Debug)]
pub(crate) struct Problem {
    row: &'static RestError,
    message: Option<String>,
    hint: Option<String>,
    factors: Option<Vec<&'static str>>,
    retry_after_s: Option<i64>,
}

macro_rules! problems {
    ($($(#[$doc:meta])* $name:ident = $status:ident $code:literal $(challenge $challenge:literal)? $message:literal hint $hint:literal;)*) => {
        mod rows {
            use super::{RestError, StatusCode};

            $(pub(super) const $name: &RestError = &RestError {
                status: StatusCode::$status,
                code: $code,
                message: $message,
                hint: $hint,
                challenge: optional!($($challenge)?),
            };)*
        }

        impl Problem {
            $($(#[$doc])* pub(crate) const $name: Self = Self::of(rows::$name);)*
        }

        /// Every error of the REST interface, in the order of the table.
        pub const REST_ERRORS: &[&RestError] = &[$(rows::$name),*];
    };
}

macro_rules! optional {
    () => {
        None
    };
    ($value:literal) => {
        Some($value)
    };
}

problems! {
    // The sender of the request.
    UNAUTHENTICATED = UNAUTHORIZED "unauthenticated" challenge "X-API-Key"
        "the admin key is missing or wrong"
        hint "send the key from `admin.key` in the data folder as the `X-API-Key` header";
    NOT_SIGNED_IN = UNAUTHORIZED "unauthenticated" challenge "Session"
        "you are not signed in"
        hint "sign in with POST /api/v1/login, or on the page /ui/login";
    WRONG_LOGIN = UNAUTHORIZED "wrong_login" challenge "Session"
        "the name or the password is wrong"
        hint "try again; five failures within a minute block further attempts for up to a minute";
    PASSWORD_OFF = FORBIDDEN "password_off"
        "this gateway does not accept passwords (`people.password`)"
        hint "sign in with the identity provider on the page /ui/login";
    AGENT_NOT_ALLOWED = FORBIDDEN "agent_not_allowed"
        "agent tokens cannot use the admin API"
        hint "agent tokens work on /mcp; here, send the key from `admin.key` as `X-API-Key` and no `Authorization` header";
    AGENT_CANNOT_DECIDE = FORBIDDEN "permission_denied"
        "agents cannot approve or deny calls"
        hint "ask the user to open the approval page and decide there";
    KEY_NOT_ALLOWED = FORBIDDEN "key_not_allowed"
        "this endpoint is for signed-in users, not for the admin key"
        hint "remove the `X-API-Key` header and sign in with POST /api/v1/login";
    KEY_CANNOT_APPROVE = FORBIDDEN "permission_denied"
        "the admin key alone cannot approve calls or accept the tools of a server"
        hint "sign in as a user: open the page in a browser, or run `mcpproxy approvals approve ID` or `mcpproxy servers review NAME`";
    KEY_CANNOT_ANNOUNCE = FORBIDDEN "permission_denied"
        "the admin key alone cannot accept the tools of a server"
        hint "sign in as a user, or add the server and review it with `mcpproxy servers review NAME`";
    NOT_ENROLLED = FORBIDDEN "not_enrolled"
        "this user has no second factor yet"
        hint "open /ui/account and add an authenticator app or a passkey";
    CSRF_TOKEN_WRONG = FORBIDDEN "csrf_token_wrong"
        "the CSRF token is missing or wrong"
        hint "send `csrf` from the answer to POST /api/v1/login as the `X-CSRF-Token` header";
    HOST_NOT_ALLOWED = FORBIDDEN "host_not_allowed"
        "host not allowed"
        hint "use http://localhost:PORT, or https:// if the settings have `tls`, or add the name to `allowed_hosts` in the settings";
    ORIGIN_NOT_ALLOWED = FORBIDDEN "origin_not_allowed"
        "origin not allowed"
        hint "if this page may call the gateway, add its origin to `allowed_origins` in the settings";

    // Proof that the user is present.
    /// The request has a session cookie and nothing else. See `auth/presence.rs`.
    PAGE_KEY_REQUIRED = FORBIDDEN "page_key_required"
        "a session cookie alone cannot approve a call"
        hint "send `page_key` from the answer to POST /api/v1/login, or a fresh code as `totp`";
    STEP_UP_REQUIRED = FORBIDDEN "step_up_required"
        "this approval needs a second factor"
        hint "send a fresh code from your authenticator app as `totp`, or use a passkey on the approval page";
    WRONG_CODE = FORBIDDEN "wrong_code"
        "the code is wrong or was already used"
        hint "wait for the next code; each code works once";
    TOO_MANY_TRIES = TOO_MANY_REQUESTS "too_many_tries"
        "too many failed attempts"
        hint "`Retry-After` says how many seconds to wait";
    TOO_MANY_SIGN_INS = TOO_MANY_REQUESTS "too_many_sign_ins"
        "too many sign-ins are under way"
        hint "`Retry-After` says how many seconds to wait";

    // The thing the request is about.
    NOT_FOUND = NOT_FOUND "not_found"
        "no such path"
        hint "GET /api/v1/docs lists all paths";
    METHOD_NOT_ALLOWED = METHOD_NOT_ALLOWED "method_not_allowed"
        "this path does not support this method"
        hint "the `Allow` header lists the supported methods";
    METRICS_OFF = NOT_FOUND "metrics_off"
        "metrics are off"
        hint "set `metrics.enabled` to true in the settings";
    METRICS_ELSEWHERE = NOT_FOUND "metrics_elsewhere"
        "metrics have an address of their own"
        hint "read them there, or remove `metrics.listen` from the settings and restart";
    SERVER_NOT_FOUND = NOT_FOUND "server_not_found"
        "no such server"
        hint "GET /api/v1/servers lists all servers";
    SERVER_DISABLED = CONFLICT "server_disabled"
        "the server is disabled"
        hint "enable it with `mcpproxy servers enable NAME`";
    SERVER_MISCONFIGURED = CONFLICT "server_misconfigured"
        "the server cannot start, because its settings have a mistake"
        hint "correct the mistake that `mcpproxy config check` shows; the gateway then starts the server by itself";
    SIGN_IN_NOT_FOUND = NOT_FOUND "sign_in_not_found"
        "no sign-in has begun at this server"
        hint "begin one with POST /api/v1/servers/NAME/login, or with `mcpproxy servers login NAME`";
    SIGN_IN_NOT_POSSIBLE = CONFLICT "sign_in_not_possible"
        "this server asks for no sign-in"
        hint "`mcpproxy servers list` shows the servers that need one";
    SIGN_IN_FAILED = CONFLICT "sign_in_failed"
        "the sign-in could not begin"
        hint "check the address of the server, and whether its identity provider can be reached from here";
    REVIEW_REQUIRED = CONFLICT "review_required"
        "no tool of the server is accepted yet"
        hint "review them with `mcpproxy servers review NAME`";
    NO_TOOLS = CONFLICT "no_tools"
        "the server has no tools"
        hint "GET /api/v1/servers shows the state of the server";
    TOOL_NOT_FOUND = NOT_FOUND "tool_not_found"
        "no such tool"
        hint "GET /api/v1/tools lists all tools";
    AGENT_NOT_FOUND = NOT_FOUND "agent_not_found"
        "no such agent"
        hint "`mcpproxy token list` shows the names";
    RECORD_NOT_FOUND = NOT_FOUND "record_not_found"
        "no such activity record"
        hint "GET /api/v1/activity lists the newest records; the beginning of an id is enough";
    AMBIGUOUS_ID = BAD_REQUEST "ambiguous_id"
        "more than one record id begins like this"
        hint "GET /api/v1/activity shows full ids";
    APPROVAL_NOT_FOUND = NOT_FOUND "approval_not_found"
        "no such approval request"
        hint "GET /api/v1/approvals lists all approval requests";
    APPROVAL_OVER = CONFLICT "approval_over"
        "this approval request is closed"
        hint "nothing was changed";
    CONTRACTS_DIFFER = CONFLICT "contracts_differ"
        "this gateway has another contract for the tool than the gateway that made the approval request"
        hint "the request stays pending: deploy the same contracts to all gateways and decide again, or decide at a gateway that has the contract of the request; GET /api/v1/cluster shows which gateways differ";
    GRANT_NOT_FOUND = NOT_FOUND "grant_not_found"
        "no active standing approval has this id"
        hint "GET /api/v1/grants lists the active standing approvals";
    GRANT_REFUSED = BAD_REQUEST "grant_refused"
        "this standing approval is not allowed"
        hint "GET /api/v1/docs describes the limits of standing approvals";

    // The content of the request.
    BAD_QUERY = BAD_REQUEST "bad_query"
        "a query parameter is invalid"
        hint "GET /api/v1/docs lists the parameters of each path";
    BAD_BODY = BAD_REQUEST "bad_body"
        "the request body is invalid"
        hint "GET /api/v1/docs describes the body";
    AMBIGUOUS_LENGTH = BAD_REQUEST "ambiguous_length"
        "the request has both `Content-Length` and `Transfer-Encoding`"
        hint "send one of them; if you send one, check the proxy in front of the gateway";
    BODY_TOO_SLOW = REQUEST_TIMEOUT "body_too_slow"
        "the request body did not arrive in time"
        hint "send the whole body within 10 seconds, or at least 16 KiB per second";
    BODY_TOO_LARGE = PAYLOAD_TOO_LARGE "body_too_large"
        "the request body is too large or incomplete"
        hint "the limit is 2 MiB";

    // The state of the gateway.
    SETTINGS_INVALID = CONFLICT "settings_invalid"
        "the settings, contracts or policies are invalid"
        hint "fix the file; the previous settings, contracts and policies remain active until then";
    NOTHING_HELD = CONFLICT "nothing_held"
        "no change waits for a user"
        hint "GET /api/v1/status shows the files in force";
    HELD_CHANGED = CONFLICT "held_changed"
        "the files changed after you read the changes"
        hint "read the changes again: `held` in GET /api/v1/status, or `mcpproxy config apply`";
    VERSION_NOT_FOUND = NOT_FOUND "version_not_found"
        "there is no such version"
        hint "GET /api/v1/config/versions lists the newest 100";
    VERSION_OUTDATED = CONFLICT "version_outdated"
        "another version was published after you read the changes, or the files are not those that you checked"
        hint "check the files again with POST /api/v1/config/check, and read the changes";
    NO_VERSIONS = CONFLICT "no_versions"
        "this gateway uses SQLite, which serves one gateway, so nothing is published"
        hint "edit the files in the data folder; several gateways need PostgreSQL in `storage.url`";
    DEFINITIONS_UNREADABLE = CONFLICT "definitions_unreadable"
        "a stored definition of this server cannot be read"
        hint "accept it again with `mcpproxy servers review NAME`, which replaces it; if that fails too, add the server under another name";
    DEFINITIONS_LOCKED = CONFLICT "definitions_locked"
        "the gateway runs with a lock file, so a review cannot accept or reject anything"
        hint "write the lock file again with `mcpproxy lock`, and restart the gateway";
    REPLAY_RUNNING = CONFLICT "replay_running"
        "another replay is running"
        hint "wait until it has finished, then try again; a shorter period takes less time";
    STOPPING = SERVICE_UNAVAILABLE "stopping"
        "the gateway is stopping"
        hint "start it again with `mcpproxy serve`";
    UPSTREAM_UNAVAILABLE = SERVICE_UNAVAILABLE "upstream_unavailable"
        "the server is not connected"
        hint "`mcpproxy servers list` shows why";
    LOG_UNAVAILABLE = SERVICE_UNAVAILABLE "log_unavailable"
        "the activity log cannot be written, so nothing was decided"
        hint "GET /readyz shows when it works again; the gateway's own log has the reason";
    LOG_UNREADABLE = SERVICE_UNAVAILABLE "log_unreadable"
        "the activity log cannot be read right now"
        hint "GET /readyz shows whether it can be written; the gateway's own log has the reason";
}

impl Problem {
    const fn of(row: &'static RestError) -> Self {
        Self { row, message: None, hint: None, factors: None, retry_after_s: None }
    }

    pub(crate) fn bad_query(message: impl Into<String>, hint: impl Into<String>) -> Self {
        Self::BAD_QUERY.message(message).hint(hint)
    }

    pub(crate) fn message(self, message: impl Into<String>) -> Self {
        Self { message: Some(message.into()), ..self }
    }

    pub(crate) fn hint(self, hint: impl Into<String>) -> Self {
        Self { hint: Some(hint.into()), ..self }
    }

    /// Returns the message and the hint as two sentences, for a page.
    pub(crate) fn sentences(&self) -> String {
        let texts =
            [self.message.as_deref().unwrap_or(self.row.message), self.hint.as_deref().unwrap_or(self.row.hint)];
        let sentence = |text: &str| {
            let mut chars = text.chars();
            let first = chars.next().map(|c| c.to_uppercase().collect::<String>()).unwrap_or_default();
            let end = if text.ends_with(['.', '?']) { "" } else { "." };
            format!("{first}{}{end}", chars.as_str())
        };
        texts.map(sentence).join(" ")
    }

    /// Lists the factors that the user could use.
    pub(crate) fn factors(self, factors: Vec<&'static str>) -> Self {
        Self { factors: Some(factors), ..self }
    }

    pub(crate) fn retry_after_ms(self, wait_ms: i64) -> Self {
        let seconds = wait_ms / 1000 + 1;
        let message = format!("{}; wait {seconds} seconds", self.row.message);
        Self { retry_after_s: Some(seconds), ..self.message(message) }
    }
}

impl From<StoreError> for Problem {
    fn from(error: StoreError) -> Self {
        if let StoreError::AmbiguousId { .. } = error {
            return Self::AMBIGUOUS_ID.message(error.to_string());
        }
        let error: &dyn std::error::Error = &error;
        tracing::warn!(error, "could not read or write the store");
        Self::LOG_UNREADABLE
    }
}

impl From<BytesRejection> for Problem {
    fn from(_: BytesRejection) -> Self {
        Self::BODY_TOO_LARGE
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let RestError { status, code, message, hint, challenge } = self.row;
        let message = self.message.unwrap_or_else(|| (*message).to_owned());
        let hint = self.hint.unwrap_or_else(|| (*hint).to_owned());
        let details = self.factors.map(|factors| serde_json::json!({"factors": factors}));
        let mut response = wire::Error::new(code, message, hint).with_details(details).response(*status);
        let challenge = challenge.map(|challenge| (WWW_AUTHENTICATE, HeaderValue::from_static(challenge)));
        let retry_after = self.retry_after_s.map(|seconds| (RETRY_AFTER, HeaderValue::from(seconds)));
        response.headers_mut().extend(challenge.into_iter().chain(retry_after));
        response
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_row_is_complete() {
        for row in REST_ERRORS {
            assert!(row.status.is_client_error() || row.status == StatusCode::SERVICE_UNAVAILABLE, "{row:?}");
            assert!(!row.message.is_empty() && !row.hint.is_empty(), "{row:?}");
            assert!(row.code.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_'), "{row:?}");
            assert_eq!(row.challenge.is_some(), row.status == StatusCode::UNAUTHORIZED, "{row:?}");
        }
    }
}
