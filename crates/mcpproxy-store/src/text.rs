//! Text forms that several modules share: storable text, hexadecimal digits and timestamps.

use std::borrow::Cow;

/// Replaces NUL, because PostgreSQL rejects it. JSON escapes NUL, so JSON stays unchanged.
pub(crate) fn storable(text: String) -> String {
    if text.contains('\0') { text.replace('\0', "\u{FFFD}") } else { text }
}

/// As [`storable`], for a text that may be borrowed.
pub(crate) fn storable_cow(text: Cow<'_, str>) -> Cow<'_, str> {
    if text.contains('\0') { Cow::Owned(text.replace('\0', "\u{FFFD}")) } else { text }
}

pub(crate) fn hex(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(2 * bytes.len());
    push_hex(&mut text, bytes);
    text
}

/// Appends two lower-case digits for each byte. It runs for every record, so it avoids formatting machinery.
pub(crate) fn push_hex(text: &mut String, bytes: &[u8]) {
    let digit = |value: u8| if value < 10 { b'0' + value } else { b'a' + value - 10 };
    for part in bytes.chunks(32) {
        let mut digits = [0; 64];
        for (pair, byte) in digits.chunks_exact_mut(2).zip(part) {
            pair.copy_from_slice(&[digit(byte >> 4), digit(byte & 0xf)]);
        }
        let digits = digits.get(..2 * part.len()).and_then(|digits| str::from_utf8(digits).ok());
        text.push_str(digits.unwrap_or_default());
    }
}

pub(crate) fn from_hex(text: &str) -> Option<Vec<u8>> {
    let digits: Option<Vec<u8>> =
        text.chars().map(|digit| digit.to_digit(16).and_then(|digit| u8::try_from(digit).ok())).collect();
    let digits = digits.filter(|digits| digits.len() % 2 == 0)?;
    Some(digits.chunks_exact(2).filter_map(|pair| Some((pair.first()? << 4) | pair.get(1)?)).collect())
}

/// The time in UTC with milliseconds. Times before 1970 become 1970.
pub(crate) fn rfc3339(time_ms: i64) -> String {
    // Civil dates after Howard Hinnant's algorithm.
    let time_ms = time_ms.max(0);
    let (days, ms_of_day) = (time_ms / 86_400_000, time_ms % 86_400_000);
    let shifted = days + 719_468;
    let (era, day_of_era) = (shifted / 146_097, shifted % 146_097);
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
    let year = year_of_era + era * 400 + i64::from(month <= 2);
    let (hour, minute) = (ms_of_day / 3_600_000, ms_of_day / 60_000 % 60);
    let (second, ms) = (ms_of_day / 1000 % 60, ms_of_day % 1000);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{ms:03}Z")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hex_round_trips() {
        assert_eq!(hex(&[0, 0x1f, 0xff]), "001fff");
        assert_eq!(from_hex("001FFf"), Some(vec![0, 0x1f, 0xff]));
        for wrong in ["0", "0g", "é0", " 00"] {
            assert_eq!(from_hex(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn times() {
        let check = |time_ms: i64, expected: &str| assert_eq!(rfc3339(time_ms), expected);
        check(0, "1970-01-01T00:00:00.000Z");
        check(951_782_399_999, "2000-02-28T23:59:59.999Z");
        check(951_782_400_000, "2000-02-29T00:00:00.000Z");
        check(1_700_000_000_123, "2023-11-14T22:13:20.123Z");
        check(4_102_444_800_000, "2100-01-01T00:00:00.000Z");
    }
}
