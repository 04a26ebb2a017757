//! Errors between the gateway and a server.

use std::time::Duration;

use mcpproxy_core::ErrorCode;

use crate::event_stream::EventError;

#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub(crate) enum UpstreamError {
    #[error("could not start `{command}`: {reason}")]
    Spawn { command: String, reason: String },
    #[error("the process ended{}", if .0.is_empty() { String::new() } else { format!(" ({})", .0) })]
    Exited(String),
    #[error("the connection was closed")]
    Closed,
    #[error("{0}")]
    Http(String),
    #[error("{0}")]
    Unreachable(String),
    #[error("the server's session is gone")]
    SessionLost,
    #[error("no answer within {}", duration(*.0))]
    Timeout(Duration),
    #[error("the answer is larger than {0} bytes")]
    TooLarge(usize),
    #[error("the server broke the protocol: {0}")]
    Protocol(String),
    #[error("it answered the handshake with an error: {0}")]
    Refused(String),
    #[error("the call was cancelled")]
    Cancelled,
    #[error("{0}")]
    Unavailable(String),
    #[error("{0} calls are open on this server already")]
    Busy(usize),
}

impl UpstreamError {
    /// Returns the error code for the agent.
    pub(crate) fn code(&self) -> &'static str {
        let code = match self {
            Self::Timeout(_) => ErrorCode::UpstreamTimeout,
            Self::TooLarge(_) => ErrorCode::ResultTooLarge,
            Self::Protocol(_) => ErrorCode::UpstreamProtocolError,
            Self::Cancelled => ErrorCode::Cancelled,
            Self::Busy(_) => ErrorCode::UpstreamBusy,
            Self::Spawn { .. }
            | Self::Exited(_)
            | Self::Closed
            | Self::Http(_)
            | Self::Unreachable(_)
            | Self::SessionLost
            | Self::Refused(_)
            | Self::Unavailable(_) => ErrorCode::UpstreamUnavailable,
        };
        code.as_str()
    }

    /// Words the error for an agent: what it can do, and nothing about how the server is run.
    pub(crate) fn for_agent(&self) -> String {
        match self {
            Self::Timeout(_) | Self::TooLarge(_) | Self::Cancelled | Self::Busy(_) => self.to_string(),
            Self::Protocol(_) => "the server broke the protocol".to_owned(),
            // No "try again" here: the server may have run the call.
            Self::Exited(_) | Self::Closed | Self::Http(_) => "the server went away before it answered".to_owned(),
            Self::Spawn { .. } | Self::Unreachable(_) | Self::SessionLost | Self::Refused(_) | Self::Unavailable(_) => {
                "the server is not available at the moment; try again later".to_owned()
            }
        }
    }

    /// Returns true if the server may have run the call although there is no answer.
    pub(crate) fn outcome_is_unknown(&self) -> bool {
        match self {
            Self::Timeout(_)
            | Self::Exited(_)
            | Self::Closed
            | Self::Http(_)
            | Self::Protocol(_)
            | Self::TooLarge(_)
            | Self::Cancelled => true,
            Self::Spawn { .. }
            | Self::Unreachable(_)
            | Self::SessionLost
            | Self::Refused(_)
            | Self::Unavailable(_)
            | Self::Busy(_) => false,
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
