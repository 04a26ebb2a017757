//! Instants on the gateway's wall clock, for policies and their test cases. Time is handed in; nothing here reads a clock.

use jiff::civil::{DateTime, Time, Weekday, date};
use jiff::fmt::temporal::Pieces;
use jiff::tz::Offset;
use jiff::{Error, Timestamp};
use serde_json::Value;

/// The instant of a call, for policies that ask about the time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Clock {
    pub now_ms: i64,
    /// The offset of the gateway's machine: policies use its hours and weekdays.
    pub utc_offset_s: i32,
}

pub(crate) const WEEKDAYS: [&str; 7] = ["monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday"];

/// Formats an instant as RFC 3339: `2026-11-15T03:00:00.000Z`. An instant outside the calendar stays a number.
pub(crate) fn iso(ms: i64) -> String {
    Timestamp::from_millisecond(ms).map_or_else(|_| ms.to_string(), |instant| format!("{instant:.3}"))
}

/// Numbers from here on are milliseconds since 1970, smaller ones seconds. As seconds, this is the year 5138.
const MILLISECONDS_FROM: f64 = 1e11;

/// Reads an instant of a tool: an RFC 3339 time with its offset, or a number of seconds or milliseconds since 1970,
/// which may be written as text. `None` if the instant is not certain, such as a date without a time of day.
pub(crate) fn instant_ms(value: &Value) -> Option<i64> {
    match value {
        Value::String(text) => {
            let text = text.trim();
            let written = text.parse::<Timestamp>().ok().map(|instant| instant.as_millisecond());
            written.or_else(|| numbered_ms(text.parse().ok()?))
        }
        Value::Number(number) => numbered_ms(number.as_f64()?),
        Value::Null | Value::Bool(_) | Value::Array(_) | Value::Object(_) => None,
    }
}

/// Reads seconds or milliseconds since 1970. A float holds every millisecond of the calendar exactly.
fn numbered_ms(number: f64) -> Option<i64> {
    let ms = if number.abs() < MILLISECONDS_FROM { number * 1_000.0 } else { number };
    ms.is_finite().then(|| ms.round() as i64)
}

/// Date and time of day at the gateway.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Local(DateTime);

impl Local {
    /// Fails for an instant outside the years -9999 to 9999.
    pub(crate) fn of(clock: Clock) -> Result<Self, Error> {
        let instant = Timestamp::from_millisecond(clock.now_ms)?;
        Ok(Self(Offset::from_seconds(clock.utc_offset_s)?.to_datetime(instant)))
    }

    pub(crate) fn hour(self) -> i64 {
        self.0.hour().into()
    }

    pub(crate) fn minute(self) -> i64 {
        self.0.minute().into()
    }

    pub(crate) fn weekday(self) -> &'static str {
        let index = usize::try_from(self.0.weekday().to_monday_zero_offset()).unwrap_or_default();
        WEEKDAYS.get(index).copied().unwrap_or_default()
    }

    pub(crate) fn is_weekend(self) -> bool {
        matches!(self.0.weekday(), Weekday::Saturday | Weekday::Sunday)
    }
}

/// Parses `2026-11-15T03:00:00+01:00` (also with `Z`, without seconds, or with fractions), or `03:00 sunday`.
pub(crate) fn parse(text: &str) -> Option<Clock> {
    let (civil, offset) = match text.split_once(' ') {
        Some((time, weekday)) => {
            let is_time = time.bytes().all(|byte| byte.is_ascii_digit() || byte == b':' || byte == b'.');
            let time: Time = time.parse().ok().filter(|_| is_time)?;
            // Any week will do. This one begins on a Monday.
            let number = WEEKDAYS.iter().position(|known| *known == weekday)?;
            (date(2024, 1, 1 + i8::try_from(number).ok()?).to_datetime(time), Offset::UTC)
        }
        None => {
            let pieces = Pieces::parse(text).ok().filter(|pieces| pieces.time_zone_annotation().is_none())?;
            (pieces.date().to_datetime(pieces.time()?), pieces.to_numeric_offset()?)
        }
    };
    let instant = offset.to_timestamp(civil).ok()?;
    Some(Clock { now_ms: instant.as_millisecond(), utc_offset_s: offset.seconds() })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn instants_and_their_clocks() {
        let check = |text: &str, expected: Option<&str>| {
            let shown = parse(text).map(|clock| {
                let local = Local::of(clock).unwrap();
                let (hour, minute) = (local.hour(), local.minute());
                format!("{} = {hour:02}:{minute:02} {}", iso(clock.now_ms), local.weekday())
            });
            assert_eq!(shown.as_deref(), expected, "{text}");
        };
        check("1970-01-01T00:00:00Z", Some("1970-01-01T00:00:00.000Z = 00:00 thursday"));
        check("2026-11-15T03:00:00+01:00", Some("2026-11-15T02:00:00.000Z = 03:00 sunday"));
        check("2026-11-15T00:30+01:00", Some("2026-11-14T23:30:00.000Z = 00:30 sunday"));
        check("2024-02-29T23:59:59.9876-05:30", Some("2024-03-01T05:29:59.987Z = 23:59 thursday"));
        check("1969-12-31T23:59:59Z", Some("1969-12-31T23:59:59.000Z = 23:59 wednesday"));
        check("03:00 sunday", Some("2024-01-07T03:00:00.000Z = 03:00 sunday"));
        check("23:59 monday", Some("2024-01-01T23:59:00.000Z = 23:59 monday"));
        for bad in [
            "",
            "now",
            "2026-11-15",
            "2026-11-15T03:00:00",
            "2023-02-29T00:00Z",
            "2026-13-01T00:00Z",
            "24:00 sunday",
            "03:00 someday",
            "3:00 sunday",
            "2026-11-15T03:00:00+1:00",
            "2026-11-15T03:00:00.Z",
            "2026-11-15T03:60Z",
            "2026-11-15-01T03:00Z",
            "2026-1é-15T03:00Z",
            "é3:00 sunday",
            "2026-11-15T03:00:00+01:00[Europe/Berlin]",
        ] {
            check(bad, None);
        }
    }

    #[test]
    fn instants_of_tools() {
        let check = |json: &str, expected: Option<i64>| {
            assert_eq!(instant_ms(&serde_json::from_str(json).unwrap()), expected, "{json}");
        };
        check(r#""1970-01-01T00:00:05Z""#, Some(5_000));
        check(r#"" 1970-01-01T01:00:05.25+01:00 ""#, Some(5_250));
        check("5", Some(5_000));
        check("5.25", Some(5_250));
        check("-5", Some(-5_000));
        check("1700000000", Some(1_700_000_000_000));
        check("1700000000.5", Some(1_700_000_000_500));
        check("1700000000123", Some(1_700_000_000_123));
        check("1700000000123.0", Some(1_700_000_000_123));
        check("99999999999", Some(99_999_999_999_000));
        check("100000000000", Some(100_000_000_000));
        check("-99999999999", Some(-99_999_999_999_000));
        check("-100000000000", Some(-100_000_000_000));
        check("1e300", Some(i64::MAX));
        check(r#""1700000000""#, Some(1_700_000_000_000));
        check(r#""1700000000.5""#, Some(1_700_000_000_500));
        for unclear in [
            r#""1970-01-01T00:00:05""#,
            r#""1970-01-01""#,
            r#""tomorrow""#,
            r#""""#,
            r#""inf""#,
            r#""nan""#,
            "null",
            "true",
            "[5]",
            "{}",
        ] {
            check(unclear, None);
        }
    }

    proptest! {
        #[test]
        fn no_text_and_no_clock_is_too_strange(text in "\\PC{0,30}", now_ms: i64, utc_offset_s: i32) {
            let _parsed = parse(&text);
            prop_assert!(!iso(now_ms).is_empty());
            if let Ok(local) = Local::of(Clock { now_ms, utc_offset_s }) {
                prop_assert!((0..24).contains(&local.hour()) && (0..60).contains(&local.minute()));
                prop_assert!(WEEKDAYS.contains(&local.weekday()));
            }
        }
    }
}
