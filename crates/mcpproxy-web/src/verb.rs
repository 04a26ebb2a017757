//! The HTTP methods that routes of this crate use.

use axum::routing::MethodFilter;
#[cfg(test)]
use http::Method;

/// The method of a REST endpoint or a page. A closed list, so that every `match` on it is complete.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verb {
    Get,
    Post,
    Delete,
}

impl Verb {
    #[cfg(test)]
    pub(crate) fn method(self) -> Method {
        match self {
            Self::Get => Method::GET,
            Self::Post => Method::POST,
            Self::Delete => Method::DELETE,
        }
    }

    pub(crate) fn filter(self) -> MethodFilter {
        match self {
            Self::Get => MethodFilter::GET,
            Self::Post => MethodFilter::POST,
            Self::Delete => MethodFilter::DELETE,
        }
    }

    /// Returns true if requests with this method change nothing, so that they need no CSRF token.
    pub(crate) fn is_safe(self) -> bool {
        match self {
            Self::Get => true,
            Self::Post | Self::Delete => false,
        }
    }
}
