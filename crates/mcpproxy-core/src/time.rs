//! Instants on the gateway's wall clock, for policies and their test cases. Time is handed in; nothing here reads a clock.

use jiff::civil::{DateTime, Time, Weekday, date};
use jiff::fmt::temporal::Pieces;
use jiff::tz::Offset;
use jiff::{Error, Timestamp};

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
