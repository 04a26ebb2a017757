//! Durations and sizes as operators write them, such as `30s` or `10MiB`.

use std::time::Duration;

pub(crate) const DAY: Duration = Duration::from_secs(24 * 60 * 60);
pub(crate) const GIB: u64 = 1024 * 1024 * 1024;

/// Reads a number and its unit: `500ms`, `60s`, `5m`, `24h` or `30d`.
pub(crate) fn duration(text: &str) -> Option<Duration> {
    let (number, unit) = split_unit(text)?;
    match unit {
        "ms" => Some(Duration::from_millis(number)),
        "s" => Some(Duration::from_secs(number)),
        "m" => number.checked_mul(60).map(Duration::from_secs),
        "h" => number.checked_mul(60 * 60).map(Duration::from_secs),
        "d" => number.checked_mul(24 * 60 * 60).map(Duration::from_secs),
        _ => None,
    }
}

/// Writes a duration in the largest unit that divides it, so that [`duration`] reads it again.
pub(crate) fn duration_text(duration: Duration) -> String {
    let ms = duration.as_millis();
    let units = [(86_400_000, "d"), (3_600_000, "h"), (60_000, "m"), (1_000, "s")];
    match units.into_iter().find(|(unit, _)| ms > 0 && ms.is_multiple_of(*unit)) {
        // One day is written as 24 hours, as in all limits and settings.
        Some((unit, "d")) if ms == unit => "24h".to_owned(),
        Some((unit, name)) => format!("{}{name}", ms / unit),
        None => format!("{ms}ms"),
    }
}

/// Reads a size in bytes: `512KiB`, `10MiB` or `10MB`.
pub(crate) fn size(text: &str) -> Option<u64> {
    let (number, unit) = split_unit(text)?;
    let unit = match unit {
        "B" => 1,
        "KiB" => 1024,
        "MiB" => 1024 * 1024,
        "GiB" => GIB,
        "TiB" => 1024 * GIB,
        "kB" | "KB" => 1000,
        "MB" => 1000 * 1000,
        "GB" => 1000 * 1000 * 1000,
        "TB" => 1000 * 1000 * 1000 * 1000,
        _ => return None,
    };
    number.checked_mul(unit)
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
    fn durations_as_people_write_them() {
        let check = |ms: u64, expected: &str| {
            let span = Duration::from_millis(ms);
            assert_eq!(duration_text(span), expected);
            assert_eq!(duration(expected), Some(span));
        };
        check(500, "500ms");
        check(1_500, "1500ms");
        check(90_000, "90s");
        check(60_000, "1m");
        check(86_400_000, "24h");
        check(172_800_000, "2d");
        check(0, "0ms");
    }
}
