//! Reads the head of a server's response: the kind and length of its body, and how long its connection may be reused.

use std::time::Duration;

use http::{HeaderMap, header};

/// Time for which an idle connection is kept. Servers close idle connections, often after a minute.
pub(super) const IDLE_TIME: Duration = Duration::from_secs(30);
/// A connection is given up this long before its server closes it.
const IDLE_MARGIN: Duration = Duration::from_secs(1);

/// Returns the content type without its parameters.
pub(super) fn content_type(headers: &HeaderMap) -> Option<&str> {
    let value = headers.get(header::CONTENT_TYPE)?.to_str().ok()?;
    Some(value.split(';').next().unwrap_or(value).trim())
}

/// Returns the length that the server announced. It is a claim: the caller bounds it.
pub(super) fn announced_length(headers: &HeaderMap) -> Option<usize> {
    headers.get(header::CONTENT_LENGTH)?.to_str().ok()?.parse().ok()
}

/// Returns the time for which a connection may be reused after this response.
pub(super) fn idle_time(headers: &HeaderMap) -> Duration {
    let announced = headers.get("keep-alive").and_then(|value| value.to_str().ok()).and_then(|value| {
        let seconds = value.split(',').find_map(|part| part.trim().strip_prefix("timeout="))?;
        seconds.trim().parse().ok().map(Duration::from_secs)
    });
    announced.map_or(IDLE_TIME, |announced| announced.saturating_sub(IDLE_MARGIN).min(IDLE_TIME))
}

#[cfg(test)]
mod tests {
    use http::{HeaderName, HeaderValue};

    use super::*;

    #[test]
    fn a_connection_is_given_up_before_its_server_closes_it() {
        let check = |header: Option<&'static str>, seconds: u64| {
            let mut headers = HeaderMap::new();
            headers
                .extend(header.map(|value| (HeaderName::from_static("keep-alive"), HeaderValue::from_static(value))));
            assert_eq!(idle_time(&headers), Duration::from_secs(seconds), "{header:?}");
        };
        check(None, 30);
        check(Some("timeout=5"), 4);
        check(Some("max=1000, timeout=15"), 14);
        check(Some("timeout=75"), 30);
        check(Some("timeout=1"), 0);
        check(Some("timeout=0"), 0);
        check(Some("timeout=soon"), 30);
    }
}
