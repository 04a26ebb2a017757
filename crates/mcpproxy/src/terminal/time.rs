//! Formats times for people, in their time zone.

use jiff::Timestamp;
use jiff::tz::TimeZone;

/// Returns the current time in milliseconds since 1970.
pub(crate) fn now_ms() -> i64 {
    Timestamp::now().as_millisecond()
}

/// Formats a time as `2026-01-31 10:00:00` in the local time zone.
pub(crate) fn local_time(time_ms: i64) -> String {
    local(time_ms, "%Y-%m-%d %H:%M:%S")
}

/// Formats a time as `10:00`, with the date in front unless it is today.
pub(crate) fn clock(time_ms: i64, now_ms: i64) -> String {
    let is_today = local(time_ms, "%F") == local(now_ms, "%F");
    local(time_ms, if is_today { "%H:%M" } else { "%F %H:%M" })
}

/// Formats a time in the local time zone. Returns a dash if it is out of range.
pub(crate) fn local(time_ms: i64, form: &str) -> String {
    match Timestamp::from_millisecond(time_ms) {
        Ok(time) => time.to_zoned(TimeZone::system()).strftime(form).to_string(),
        Err(_) => "-".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_day_is_named_unless_it_is_today() {
        let (noon_ms, day_ms) = (43_200_000, 86_400_000);
        assert_eq!(clock(noon_ms, noon_ms), local(noon_ms, "%H:%M"));
        assert_eq!(clock(noon_ms + day_ms, noon_ms), local(noon_ms + day_ms, "%F %H:%M"));
    }
}
