//! Errors between the gateway and a server.

use std::time::Duration;

use mcpproxy_core::ErrorCode;

use super::allowance::Excess;
use crate::event_stream::EventError;
use crate::oauth::SignInRequired;

#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub(crate) enum UpstreamError {
    #[error("could not start `{command}`: {reason}")]
    Spawn { command: String, reason: String },
    #[error("the process exited{}", if .0.is_empty() { String::new() } else { format!(" ({})", .0) })]
    Exited(String),
    #[error("the connection was closed")]
    Closed,
    #[error("{0}")]
    Http(String),
    #[error("{0}")]
    Unreachable(String),
    #[error("the server ended the session")]
    SessionLost,
    #[error("the server did not respond within {}", duration(*.0))]
    Timeout(Duration),
    #[error("the response is larger than {0} bytes")]
    TooLarge(usize),
    #[error("the server violated the MCP protocol: {0}")]
    Protocol(String),
    #[error("the handshake failed: {0}")]
    Refused(String),
    #[error("the call was cancelled")]
    Cancelled,
    #[error("{0}")]
    Unavailable(String),
    /// The settings of the server have a mistake, which is named here for the operator.
    #[error("{0}")]
    Misconfigured(String),
    /// The server asks for OAuth, and the gateway has no valid sign-in. The server did not process the request.
    #[error("{0}")]
    SignIn(Box<SignInRequired>),
    #[error("the server is already running {0} calls, which is its limit")]
    Busy(usize),
    /// Answers that agents have not read used all memory until the call timed out. Nothing was sent.
    #[error("no memory was free for the answer, because earlier answers have not been read")]
    NoMemory,
    /// The connection had ended before the request was written, so the server never saw it.
    #[error("the connection was lost before the request was sent")]
    Unsent,
    /// The gateway disconnected the server, because it exceeded a limit.
    #[error("the server was disconnected: {0}")]
    Excess(Excess),
}

impl UpstreamError {
    /// Returns the error code for the agent.
    pub(crate) fn code(&self) -> &'static str {
        let code = match self {
            Self::Timeout(_) => ErrorCode::UpstreamTimeout,
            Self::TooLarge(_) | Self::Excess(Excess::Endless(_)) => ErrorCode::ResultTooLarge,
            Self::Protocol(_) => ErrorCode::UpstreamProtocolError,
            Self::Cancelled => ErrorCode::Cancelled,
            Self::Busy(_) => ErrorCode::UpstreamBusy,
            Self::SignIn(_) => ErrorCode::SignInRequired,
            Self::NoMemory => ErrorCode::AgentLimit,
            Self::Spawn { .. }
            | Self::Exited(_)
            | Self::Closed
            | Self::Http(_)
            | Self::Unreachable(_)
            | Self::SessionLost
            | Self::Unsent
            | Self::Refused(_)
            | Self::Unavailable(_)
            | Self::Misconfigured(_)
            | Self::Excess(Excess::Messages | Excess::Bytes | Excess::Requests | Excess::RequestBytes) => {
                ErrorCode::UpstreamUnavailable
            }
        };
        code.as_str()
    }

    /// Words the error for an agent: what happened and what to do, without details of how the server is run.
    pub(crate) fn for_agent(&self) -> String {
        match self {
            Self::Timeout(_) | Self::TooLarge(_) | Self::Cancelled | Self::Excess(_) => self.to_string(),
            Self::Busy(_) => format!("{self}. Try again later"),
            Self::SignIn(required) => required.for_agent(),
            Self::NoMemory => format!("{self}. Read them, then try again"),
            Self::Protocol(_) => "the server violated the MCP protocol".to_owned(),
            // No "try again" here: the server may have run the call.
            Self::Exited(_) | Self::Closed | Self::Http(_) => {
                "the connection was lost before the server responded".to_owned()
            }
            Self::Spawn { .. }
            | Self::Unreachable(_)
            | Self::SessionLost
            | Self::Unsent
            | Self::Refused(_)
            | Self::Unavailable(_) => "the server is currently unavailable. Try again later".to_owned(),
            // The agent cannot repair that, and waiting does not either.
            Self::Misconfigured(_) => "the gateway does not start the server, because its settings have a mistake. \
                                       Repeating the call does not help. Tell the user to run `mcpproxy config check`, \
                                       which shows the mistake"
                .to_owned(),
        }
    }

    /// Returns true if the server may have run the call although there is no response.
    pub(crate) fn outcome_is_unknown(&self) -> bool {
        match self {
            Self::Timeout(_)
            | Self::Exited(_)
            | Self::Closed
            | Self::Http(_)
            | Self::Protocol(_)
            | Self::TooLarge(_)
            | Self::Excess(_)
            | Self::Cancelled => true,
            Self::Spawn { .. }
            | Self::Unreachable(_)
            | Self::SessionLost
            | Self::Unsent
            | Self::Refused(_)
            | Self::Unavailable(_)
            | Self::Misconfigured(_)
            | Self::SignIn(_)
            | Self::Busy(_)
            | Self::NoMemory => false,
        }
    }
}

impl From<EventError<Self>> for UpstreamError {
    fn from(error: EventError<Self>) -> Self {
        match error {
            EventError::TooLarge(limit) => Self::TooLarge(limit),
            EventError::NotUtf8 => Self::Protocol("an event is not UTF-8".to_owned()),
            EventError::Stream(error) => error,
        }
    }
}

fn duration(duration: Duration) -> String {
    if duration.subsec_millis() == 0 {
        format!("{} s", duration.as_secs())
    } else {
        format!("{} ms", duration.as_millis())
    }
}
