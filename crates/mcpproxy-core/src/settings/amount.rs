//! The durations and sizes of the settings, each with its range.

use std::time::Duration;

use super::people::SESSION_MAX;
use crate::file::amount::{DAY, GIB, duration, size};

const MINUTE: Duration = Duration::from_secs(60);
const HOUR: Duration = Duration::from_secs(60 * 60);
/// A hundred years. For longer, use `forever`. Dates that far back can still be computed.
const AGE_MAX: Duration = Duration::from_secs(36_500 * 24 * 60 * 60);
const SIZE_MIN_BYTES: u64 = 1024;
const SIZE_MAX_BYTES: u64 = GIB;
const MEMORY_MIN_BYTES: u64 = 64 * 1024 * 1024;
const MEMORY_MAX_BYTES: u64 = 1024 * GIB;
const PAYLOAD_MIN_BYTES: u64 = 1024 * 1024;
const PAYLOAD_MAX_BYTES: u64 = 1024 * 1024 * GIB;
/// Leaves room for the reserve that ends of calls need.
const DISK_MIN_BYTES: u64 = 64 * 1024 * 1024;
/// Switches a limit off.
const FOREVER: &str = "forever";

/// Parses a duration such as `500ms`, `60s`, `5m` or `1h`: more than zero and at most a day.
pub(super) fn parse_duration(text: &str) -> Result<Duration, String> {
    match duration(text) {
        None => Err("expected a duration such as \"500ms\", \"60s\" or \"5m\"".to_owned()),
        Some(duration) if duration.is_zero() || duration > DAY => {
            Err("expected a duration between \"1ms\" and \"24h\"".to_owned())
        }
        Some(duration) => Ok(duration),
    }
}

/// Reads how long a call waits for an approval, or a stopping gateway for calls: `45s`, or `0s` for not at all.
pub(super) fn parse_wait(text: &str) -> Result<Duration, String> {
    parse_within(text, (Duration::ZERO, "0s"), (10 * MINUTE, "10m"))
}

/// Reads how long an approval request stays open: `10m`.
pub(super) fn parse_expiry(text: &str) -> Result<Duration, String> {
    parse_within(text, (MINUTE, "1m"), (DAY, "24h"))
}

/// Reads how long an approval request of an unattended agent stays open: `24h`.
pub(super) fn parse_headless_expiry(text: &str) -> Result<Duration, String> {
    parse_within(text, (MINUTE, "1m"), (7 * DAY, "7d"))
}

/// Reads how long a session lasts without requests: `15m`.
pub(super) fn parse_session_idle(text: &str) -> Result<Duration, String> {
    parse_within(text, (MINUTE, "1m"), (SESSION_MAX, "7d"))
}

/// Reads how long a session lasts: `12h`.
pub(super) fn parse_session_max(text: &str) -> Result<Duration, String> {
    parse_within(text, (MINUTE, "1m"), (SESSION_MAX, "7d"))
}

/// Reads the time between two reads of a server's tools: `60s`, or `0s` for never.
pub(super) fn parse_refresh(text: &str) -> Result<Duration, String> {
    match duration(text) {
        None => Err("expected a duration such as \"60s\" or \"5m\", or \"0s\" to turn it off".to_owned()),
        Some(duration) if duration.is_zero() || (Duration::from_secs(1)..=DAY).contains(&duration) => Ok(duration),
        Some(_) => Err("expected \"0s\" to turn it off, or a duration between \"1s\" and \"24h\"".to_owned()),
    }
}

fn parse_within(
    text: &str,
    (min, min_text): (Duration, &str),
    (max, max_text): (Duration, &str),
) -> Result<Duration, String> {
    match duration(text) {
        None => Err("expected a duration such as \"45s\", \"10m\" or \"24h\"".to_owned()),
        Some(duration) if (min..=max).contains(&duration) => Ok(duration),
        Some(_) => Err(format!("expected a duration between \"{min_text}\" and \"{max_text}\"")),
    }
}

/// Reads how long arguments and results are kept: `90d`, or `forever` (`None`).
pub(super) fn parse_payload_age(text: &str) -> Result<Option<Duration>, String> {
    parse_age(text, HOUR, "1h")
}

/// Reads how long records are kept: `400d`, or `forever` (`None`).
pub(super) fn parse_record_age(text: &str) -> Result<Option<Duration>, String> {
    parse_age(text, DAY, "1d")
}

fn parse_age(text: &str, min: Duration, min_text: &str) -> Result<Option<Duration>, String> {
    if text == FOREVER {
        return Ok(None);
    }
    match duration(text) {
        None => Err("expected an age such as \"90d\" or \"12h\", or \"forever\"".to_owned()),
        Some(age) if (min..=AGE_MAX).contains(&age) => Ok(Some(age)),
        Some(_) => Err(format!("expected an age between \"{min_text}\" and \"36500d\", or \"forever\"")),
    }
}

/// Parses a size in bytes: `10MiB`, `512KiB`, `10MB`.
pub(super) fn parse_size(text: &str) -> Result<usize, String> {
    check_size(size(text).ok_or("expected a size such as \"10MiB\" or \"512KiB\", or a number of bytes")?)
}

pub(super) fn check_size(bytes: u64) -> Result<usize, String> {
    usize::try_from(bytes)
        .ok()
        .filter(|_| (SIZE_MIN_BYTES..=SIZE_MAX_BYTES).contains(&bytes))
        .ok_or_else(|| "expected a size between \"1KiB\" and \"1GiB\"".to_owned())
}

/// Parses the memory for requests and answers in flight: `256MiB`. A request of the largest size must fit the share of
/// one agent.
pub(super) fn parse_memory(text: &str) -> Result<usize, String> {
    check_memory(size(text).ok_or("expected a size such as \"256MiB\", or a number of bytes")?)
}

pub(super) fn check_memory(bytes: u64) -> Result<usize, String> {
    usize::try_from(bytes)
        .ok()
        .filter(|_| (MEMORY_MIN_BYTES..=MEMORY_MAX_BYTES).contains(&bytes))
        .ok_or_else(|| "expected a size between \"64MiB\" and \"1TiB\"".to_owned())
}

/// Reads how many bytes of arguments and results are kept: `10GiB`, or `forever` (`None`).
pub(super) fn parse_payload_bytes(text: &str) -> Result<Option<u64>, String> {
    if text == FOREVER {
        return Ok(None);
    }
    let bytes = size(text).ok_or("expected a size such as \"10GiB\", a number of bytes, or \"forever\"")?;
    check_payload_bytes(bytes).map(Some)
}

pub(super) fn check_payload_bytes(bytes: u64) -> Result<u64, String> {
    if (PAYLOAD_MIN_BYTES..=PAYLOAD_MAX_BYTES).contains(&bytes) {
        return Ok(bytes);
    }
    Err("expected a size between \"1MiB\" and \"1024TiB\", or \"forever\"".to_owned())
}

/// Reads how much the database may use: `64GiB`, or `forever` (`None`).
pub(super) fn parse_disk(text: &str) -> Result<Option<u64>, String> {
    if text == FOREVER {
        return Ok(None);
    }
    check_disk(size(text).ok_or("expected a size such as \"64GiB\", a number of bytes, or \"forever\"")?).map(Some)
}

pub(super) fn check_disk(bytes: u64) -> Result<u64, String> {
    if (DISK_MIN_BYTES..=PAYLOAD_MAX_BYTES).contains(&bytes) {
        return Ok(bytes);
    }
    Err("expected a size between \"64MiB\" and \"1024TiB\", or \"forever\"".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations() {
        let check = |text: &str, expected: Option<u64>| {
            let millis = parse_duration(text).ok().map(|duration| duration.as_millis());
            assert_eq!(millis, expected.map(u128::from), "{text:?}");
        };
        check("500ms", Some(500));
        check("60s", Some(60_000));
        check("60 s", Some(60_000));
        check("5m", Some(300_000));
        check("24h", Some(86_400_000));
        check("1d", Some(86_400_000));
        for bad in ["", "60", "s", "0s", "-1s", "1.5s", "25h", "2d", "18446744073709551615h", "٣s", "1s2"] {
            check(bad, None);
        }
    }

    #[test]
    fn disks() {
        assert_eq!(parse_disk("64MiB"), Ok(Some(67_108_864)));
        assert_eq!(parse_disk("forever"), Ok(None));
        for bad in ["", "1MiB", "64", "2048TiB"] {
            assert!(parse_disk(bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn sizes() {
        let check = |text: &str, expected: Option<usize>| assert_eq!(parse_size(text).ok(), expected, "{text:?}");
        check("10MiB", Some(10_485_760));
        check("10 MB", Some(10_000_000));
        check("2048B", Some(2048));
        check("1GiB", Some(1_073_741_824));
        for bad in ["", "10", "10mb", "1B", "2GiB", "-1MiB", "18446744073709551615GiB"] {
            check(bad, None);
        }
    }
}
