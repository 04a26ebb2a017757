//! Decimal numbers of any length, compared by their worth.

use std::cmp::Ordering;

/// Maximum of an exponent, so that sums of two never overflow. The strict reader allows 9 digits.
const POWER_MAX: i64 = 1 << 60;

/// A decimal number in its only form: no zero at either end of its digits. So two are equal exactly if their numbers
/// are. Zero has no digits and no sign.
///
/// ```text
/// -12.50 == -125 × 10^-1      1e3 == 1 × 10^3 == 1000.0
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Decimal {
    is_negative: bool,
    digits: Box<str>,
    power: i64,
}

impl Decimal {
    /// Reads a JSON number. Returns `None` for other text, and for an exponent beyond all reason.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let unsigned = text.strip_prefix('-').unwrap_or(text);
        let (mantissa, power) = match unsigned.split_once(['e', 'E']) {
            Some((mantissa, power)) => (mantissa, power.parse::<i64>().ok()?),
            None => (unsigned, 0),
        };
        let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
        let all = [whole, fraction].concat();
        if all.is_empty() || !all.bytes().all(|byte| byte.is_ascii_digit()) {
            return None;
        }
        let without_start = all.trim_start_matches('0');
        let digits = without_start.trim_end_matches('0');
        if digits.is_empty() {
            return Some(Self { is_negative: false, digits: "".into(), power: 0 });
        }
        let dropped = i64::try_from(without_start.len() - digits.len()).ok()?;
        let power = power.checked_sub(i64::try_from(fraction.len()).ok()?)?.checked_add(dropped)?;
        let is_negative = unsigned.len() < text.len();
        (power.abs() < POWER_MAX).then(|| Self { is_negative, digits: digits.into(), power })
    }

    pub(crate) fn is_integer(&self) -> bool {
        self.power >= 0
    }

    /// Returns `true` if `is_multiple_of` can divide by this number.
    pub(crate) fn is_divisor(&self) -> bool {
        !self.is_negative && self.digits.parse::<u64>().is_ok_and(|digits| digits > 0)
    }

    /// Returns `true` if the number is a multiple of another: 4.02 is 402 times 0.01. Dividing by more digits than fit
    /// into 64 bits gives `false`; see `is_divisor`.
    pub(crate) fn is_multiple_of(&self, divisor: &Self) -> bool {
        let Some(by) = divisor.digits.parse::<u64>().ok().filter(|by| *by > 0).map(u128::from) else { return false };
        if self.digits.is_empty() {
            return true;
        }
        // The last digit is not 0. So the digits alone are no multiple of a power of ten.
        let Ok(mut shift) = u64::try_from(self.power - divisor.power) else { return false };
        // Remainders stay below 64 bits, so their products fit into 128.
        let mut rest = self.digits.bytes().fold(0, |rest, digit| (rest * 10 + u128::from(digit - b'0')) % by);
        let mut ten = 10 % by;
        while shift > 0 {
            if shift % 2 == 1 {
                rest = rest * ten % by;
            }
            ten = ten * ten % by;
            shift /= 2;
        }
        rest == 0
    }

    /// Compares without the sign.
    fn compare_size(&self, other: &Self) -> Ordering {
        // The power of ten above the first digit. A text has far fewer digits than an `i64` can count.
        let above = |number: &Self| number.power.saturating_add_unsigned(number.digits.len() as u64);
        match (self.digits.is_empty(), other.digits.is_empty()) {
            (true, true) => Ordering::Equal,
            (true, false) => Ordering::Less,
            (false, true) => Ordering::Greater,
            (false, false) => above(self).cmp(&above(other)).then_with(|| self.digits.cmp(&other.digits)),
        }
    }
}

impl Ord for Decimal {
    fn cmp(&self, other: &Self) -> Ordering {
        match (self.is_negative, other.is_negative) {
            (false, true) => Ordering::Greater,
            (true, false) => Ordering::Less,
            (false, false) => self.compare_size(other),
            (true, true) => other.compare_size(self),
        }
    }
}

impl PartialOrd for Decimal {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// Writes equal numbers alike, whichever way they were written.
impl std::fmt::Display for Decimal {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let sign = if self.is_negative { "-" } else { "" };
        write!(f, "{sign}{}e{}", self.digits, self.power)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn read(text: &str) -> Decimal {
        Decimal::parse(text).unwrap()
    }

    #[test]
    fn order() {
        let check = |a: &str, b: &str, expected: Ordering| {
            assert_eq!(read(a).cmp(&read(b)), expected, "{a} {b}");
            assert_eq!(read(b).cmp(&read(a)), expected.reverse(), "{b} {a}");
            assert_eq!(read(a).to_string() == read(b).to_string(), expected == Ordering::Equal, "{a} {b}");
        };
        check("0", "-0.0e7", Ordering::Equal);
        check("1000", "1e3", Ordering::Equal);
        check("-12.50", "-125E-1", Ordering::Equal);
        check("12", "123", Ordering::Less);
        check("0.12", "0.123", Ordering::Less);
        check("-12", "-123", Ordering::Greater);
        check("-1", "0", Ordering::Less);
        check("0", "1e-300", Ordering::Less);
        check("18446744073709551616", "18446744073709551617", Ordering::Less);
        check("18446744073709551616", "1.8446744073709551616e19", Ordering::Equal);
        check("0.10000000000000000000000000001", "0.1", Ordering::Greater);
        check("1e-999999999", "1e-999999998", Ordering::Less);
    }

    #[test]
    fn odd_text_is_no_number() {
        for text in ["", "-", ".", "e5", "1e", "--1", "0x1", "1e99999999999999999999", "1e9223372036854775807", "٣"] {
            assert_eq!(Decimal::parse(text), None, "{text}");
        }
    }

    #[test]
    fn multiples_are_those_of_the_digits() {
        let check = |number: &str, divisor: &str, expected: bool| {
            assert_eq!(read(number).is_multiple_of(&read(divisor)), expected, "{number} {divisor}");
        };
        check("4.02", "0.01", true);
        check("0.075", "0.01", false);
        check("-7.5", "2.5", true);
        check("0", "1e308", true);
        check("1", "1e308", false);
        check("1e308", "1e-308", true);
        check("1e300", "7", false);
        check("1e-300", "1", false);
        check("18446744073709551615", "5", true);
        check("18446744073709551615", "18446744073709551614", false);
        check("36893488147419103230", "18446744073709551615", true);
        check("36893488147419103231", "18446744073709551615", false);
        check("1e20", "18446744073709551615", false);
        check("100000000000000000000000001", "2", false);
        check("3.0", "1.5", true);
        check("1", "0", false);
        assert!(read("18446744073709551615").is_divisor() && read("1e300").is_divisor());
        assert!(!read("18446744073709551617").is_divisor() && !read("0").is_divisor() && !read("-2").is_divisor());
    }

    proptest! {
        #[test]
        fn integers_keep_their_order(a in any::<i128>(), b in any::<i128>()) {
            prop_assert_eq!(read(&a.to_string()).cmp(&read(&b.to_string())), a.cmp(&b));
        }
    }
}
