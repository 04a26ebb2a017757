//! Converts instants to dates, hours and weekdays for policies, and parses the times of policy test cases.

/// The instant of a call, for policies that ask about the time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Clock {
    pub now_ms: i64,
    /// The offset of the gateway's machine from UTC. Policies use local hours and weekdays.
    pub utc_offset_s: i32,
}

const DAY_S: i64 = 24 * 60 * 60;
pub(crate) const WEEKDAYS: [&str; 7] = ["monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday"];

/// Formats an instant as RFC 3339: `2026-11-15T03:00:00.000Z`.
pub(crate) fn iso(ms: i64) -> String {
    Local::utc(Clock { now_ms: ms, utc_offset_s: 0 }).iso()
}

/// An instant in local time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Local {
    /// Days since 1970-01-01.
    days: i64,
    pub(crate) hour: i64,
    pub(crate) minute: i64,
    second: i64,
    ms: i64,
}

impl Local {
    pub(crate) fn of(clock: Clock) -> Self {
        let all_ms = clock.now_ms.saturating_add(i64::from(clock.utc_offset_s) * 1000);
        let all_s = all_ms.div_euclid(1000);
        let of_day = all_s.rem_euclid(DAY_S);
        Self {
            days: all_s.div_euclid(DAY_S),
            hour: of_day / 3600,
            minute: of_day / 60 % 60,
            second: of_day % 60,
            ms: all_ms.rem_euclid(1000),
        }
    }

    pub(crate) fn utc(clock: Clock) -> Self {
        Self::of(Clock { utc_offset_s: 0, ..clock })
    }

    pub(crate) fn weekday(&self) -> &'static str {
        // The first of January 1970 was a Thursday.
        let number = usize::try_from((self.days + 3).rem_euclid(7)).unwrap_or_default();
        WEEKDAYS.get(number).copied().unwrap_or_default()
    }

    pub(crate) fn is_weekend(&self) -> bool {
        matches!(self.weekday(), "saturday" | "sunday")
    }

    /// Formats the instant as Cedar's `datetime` reads it.
    pub(crate) fn iso(&self) -> String {
        let (year, month, day) = date_of(self.days);
        let Self { hour, minute, second, ms, .. } = self;
        format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{ms:03}Z")
    }
}

/// Returns year, month and day of the Gregorian calendar. The computation starts years in March, so that leap days come
/// last.
fn date_of(days: i64) -> (i64, i64, i64) {
    let days = days + 719_468;
    let (era, of_era) = (days.div_euclid(146_097), days.rem_euclid(146_097));
    let year = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year + year / 4 - year / 100);
    let month = (5 * of_year + 2) / 153;
    let day = of_year - (153 * month + 2) / 5 + 1;
    let (month, next) = if month < 10 { (month + 3, 0) } else { (month - 9, 1) };
    (era * 400 + year + next, month, day)
}

fn days_of(year: i64, month: i64, day: i64) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let (era, of_era) = (year.div_euclid(400), year.rem_euclid(400));
    let of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    era * 146_097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 719_468
}

/// Parses `2026-11-15T03:00:00+01:00` (also with `Z`, without seconds, or with fractions of them), or `03:00 sunday`.
pub(crate) fn parse(text: &str) -> Option<Clock> {
    match text.split_once(' ') {
        Some((time, weekday)) => {
            // Any week would do; this one begins with a Monday.
            let number = WEEKDAYS.iter().position(|known| *known == weekday)?;
            let days = days_of(2024, 1, 1) + i64::try_from(number).ok()?;
            let (of_day_ms, rest) = time_of_day(time)?;
            rest.is_empty().then_some(Clock { now_ms: days * DAY_S * 1000 + of_day_ms, utc_offset_s: 0 })
        }
        None => rfc_3339(text),
    }
}

fn rfc_3339(text: &str) -> Option<Clock> {
    let (date, time) = text.split_once('T')?;
    let mut parts = date.split('-');
    let (year, month, day) = (digits(parts.next()?, 4)?, digits(parts.next()?, 2)?, digits(parts.next()?, 2)?);
    let days = days_of(year, month, day);
    if parts.next().is_some() || date_of(days) != (year, month, day) {
        return None;
    }
    let (of_day_ms, zone) = time_of_day(time)?;
    let utc_offset_s = match zone.strip_prefix('+').map(|rest| (1, rest)).or(zone.strip_prefix('-').map(|r| (-1, r))) {
        Some((sign, rest)) => {
            let (offset_ms, rest) = time_of_day(rest)?;
            (rest.is_empty() && offset_ms % 60_000 == 0).then_some(sign * i32::try_from(offset_ms / 1000).ok()?)?
        }
        None if zone == "Z" => 0,
        None => return None,
    };
    let now_ms = days * DAY_S * 1000 + of_day_ms - i64::from(utc_offset_s) * 1000;
    Some(Clock { now_ms, utc_offset_s })
}

/// Returns the milliseconds since midnight, and the rest of the text.
fn time_of_day(text: &str) -> Option<(i64, &str)> {
    let (hour, rest) = (digits(text.get(..2)?, 2)?, text.get(2..)?.strip_prefix(':')?);
    let (minute, mut rest) = (digits(rest.get(..2)?, 2)?, rest.get(2..)?);
    let (mut second, mut ms) = (0, 0);
    if let Some(more) = rest.strip_prefix(':') {
        (second, rest) = (digits(more.get(..2)?, 2)?, more.get(2..)?);
        if let Some(more) = rest.strip_prefix('.') {
            let length = more.find(|letter: char| !letter.is_ascii_digit()).unwrap_or(more.len());
            let fraction = more.get(..length).filter(|fraction| !fraction.is_empty())?;
            ms = digits(format!("{fraction}00").get(..3)?, 3)?;
            rest = more.get(length..)?;
        }
    }
    (hour < 24 && minute < 60 && second < 60).then_some((((hour * 60 + minute) * 60 + second) * 1000 + ms, rest))
}

fn digits(text: &str, length: usize) -> Option<i64> {
    (text.len() == length && text.bytes().all(|byte| byte.is_ascii_digit())).then(|| text.parse().ok())?
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn instants_and_their_clocks() {
        let check = |text: &str, expected: Option<&str>| {
            let shown = parse(text).map(|clock| {
                let local = Local::of(clock);
                format!("{} = {:02}:{:02} {}", Local::utc(clock).iso(), local.hour, local.minute, local.weekday())
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
        ] {
            check(bad, None);
        }
    }

    proptest! {
        #[test]
        fn dates_and_days_are_the_same(days in -1_000_000_i64..3_000_000) {
            let (year, month, day) = date_of(days);
            prop_assert_eq!(days_of(year, month, day), days);
            prop_assert!((1..=12).contains(&month) && (1..=31).contains(&day));
        }

        #[test]
        fn no_text_and_no_clock_is_too_strange(text in "\\PC{0,30}", now_ms: i64, utc_offset_s: i32) {
            let _parsed = parse(&text);
            let local = Local::of(Clock { now_ms, utc_offset_s });
            prop_assert!((0..24).contains(&local.hour) && (0..60).contains(&local.minute));
            prop_assert!(WEEKDAYS.contains(&local.weekday()) && !local.iso().is_empty());
        }
    }
}
