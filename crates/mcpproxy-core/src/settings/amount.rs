//! Durations and sizes as people write them.

use std::time::Duration;

const DAY: Duration = Duration::from_secs(24 * 60 * 60);
const SIZE_MIN_BYTES: u64 = 1024;
const SIZE_MAX_BYTES: u64 = 1024 * 1024 * 1024;

/// `500ms`, `60s`, `5m` or `1h`: more than nothing and at most a day.
pub(super) fn parse_duration(text: &str) -> Result<Duration, String> {
    let duration = split_unit(text).and_then(|(number, unit)| match unit {
        "ms" => Some(Duration::from_millis(number)),
        "s" => Some(Duration::from_secs(number)),
        "m" => number.checked_mul(60).map(Duration::from_secs),
        "h" => number.checked_mul(60 * 60).map(Duration::from_secs),
        _ => None,
    });
    match duration {
        None => Err("expected a duration such as \"500ms\", \"60s\" or \"5m\"".to_owned()),
        Some(duration) if duration.is_zero() || duration > DAY => {
            Err("expected a duration between \"1ms\" and \"24h\"".to_owned())
        }
        Some(duration) => Ok(duration),
    }
}

/// `10MiB`, `512KiB`, `10MB`: a size in bytes.
pub(super) fn parse_size(text: &str) -> Result<usize, String> {
    let bytes = split_unit(text).and_then(|(number, unit)| {
        let unit = match unit {
            "B" => 1,
            "KiB" => 1024,
            "MiB" => 1024 * 1024,
            "GiB" => 1024 * 1024 * 1024,
            "kB" | "KB" => 1000,
            "MB" => 1000 * 1000,
            "GB" => 1000 * 1000 * 1000,
            _ => return None,
        };
        number.checked_mul(unit)
    });
    check_size(bytes.ok_or("expected a size such as \"10MiB\" or \"512KiB\", or a number of bytes")?)
}

pub(super) fn check_size(bytes: u64) -> Result<usize, String> {
    usize::try_from(bytes)
        .ok()
        .filter(|_| (SIZE_MIN_BYTES..=SIZE_MAX_BYTES).contains(&bytes))
        .ok_or_else(|| "expected a size between \"1KiB\" and \"1GiB\"".to_owned())
}

fn split_unit(text: &str) -> Option<(u64, &str)> {
    let unit = text.trim_start_matches(|c: char| c.is_ascii_digit());
    let number = text.strip_suffix(unit)?.parse().ok()?;
    Some((number, unit.trim_start()))
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
        for bad in ["", "60", "s", "0s", "-1s", "1.5s", "25h", "1d", "18446744073709551615h", "٣s", "1s2"] {
            check(bad, None);
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
