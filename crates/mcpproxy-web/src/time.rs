//! Times in queries and answers: RFC 3339. Queries also accept an age such as `24h`.

use jiff::tz::TimeZone;
use jiff::{Span, Timestamp};

/// Parses a time into milliseconds since 1970. Rejects a time without a zone, because client and server may be in
/// different zones.
pub(crate) fn parse(text: &str, now_ms: i64) -> Option<i64> {
    // In a query, `+` means a space. A space in a time can only be the sign of the zone.
    let time = text.parse().or_else(|_| text.replace(' ', "+").parse::<Timestamp>());
    if let Ok(time) = time {
        return Some(time.as_millisecond());
    }
    let span: Span = text.parse().ok().filter(|span: &Span| span.is_positive())?;
    // The length of a month depends on the date.
    let now = Timestamp::from_millisecond(now_ms).ok()?.to_zoned(TimeZone::UTC);
    now.checked_sub(span).ok().map(|time| time.timestamp().as_millisecond())
}

/// Formats a time as RFC 3339, in UTC with milliseconds.
pub(crate) fn format(time_ms: i64) -> String {
    let time = Timestamp::from_millisecond(time_ms).unwrap_or_default();
    format!("{time:.3}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times() {
        let now_ms = 1_000_000_000_000;
        let check = |text: &str, expected: Option<i64>| assert_eq!(parse(text, now_ms), expected, "{text}");
        check("1970-01-01T00:00:01.5Z", Some(1500));
        check("1970-01-01T02:00:00+02:00", Some(0));
        check("1970-01-01T02:00:00 02:00", Some(0));
        check("1970-01-01T00:01Z", Some(60_000));
        check("24h", Some(now_ms - 86_400_000));
        check("7d", Some(now_ms - 7 * 86_400_000));
        check("1h 30m", Some(now_ms - 5_400_000));
        for bad in ["2026-13-45", "2026-01-31", "2026-01-31T10:00:00", "-24h", "24", "0", "now", "99999999d", "٣h"] {
            check(bad, None);
        }
    }

    #[test]
    fn shown_as_it_is_read() {
        for time_ms in [0, 1, 1_700_000_000_123] {
            assert_eq!(parse(&format(time_ms), 0), Some(time_ms));
        }
        assert_eq!(format(1_700_000_000_120), "2023-11-14T22:13:20.120Z");
    }
}
