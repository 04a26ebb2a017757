//! Checks the head of a request from an agent: what it carries, what it takes, and how long it says its body is.

use http::{HeaderMap, HeaderName, header};

/// A reason to refuse a request before its body is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum HeadError {
    NotJson,
    NotAcceptable,
    TooLarge,
}

/// Checks the headers that every request must have. A body that announces no length may still become too large.
pub(super) fn check(headers: &HeaderMap, body_max_bytes: usize) -> Result<(), HeadError> {
    let content_type = text(headers, &header::CONTENT_TYPE).split(';').next().unwrap_or_default().trim();
    if !content_type.eq_ignore_ascii_case("application/json") {
        return Err(HeadError::NotJson);
    }
    let accept = text(headers, &header::ACCEPT);
    let takes = |kind: &str| {
        accept.split(',').any(|part| part.split(';').next().is_some_and(|name| name.trim().eq_ignore_ascii_case(kind)))
    };
    if !(takes("*/*") || takes("application/json") && takes("text/event-stream")) {
        return Err(HeadError::NotAcceptable);
    }
    let announced = text(headers, &header::CONTENT_LENGTH).parse::<usize>().unwrap_or(0);
    if announced > body_max_bytes { Err(HeadError::TooLarge) } else { Ok(()) }
}

/// Returns a header as text. It is empty if there is none, or if it has other than visible characters.
fn text<'h>(headers: &'h HeaderMap, name: &HeaderName) -> &'h str {
    headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default()
}
