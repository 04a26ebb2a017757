//! Formats durations, numbers and intents for people.

use mcpproxy_core::{Untrusted, Variant};

pub(super) use crate::terminal::output::grouped;

pub(super) const NONE: &str = "-";

/// Returns an icon and a word, because neither colour nor shape alone may carry the meaning.
pub(super) fn intent(variant: Variant) -> &'static str {
    match variant {
        Variant::Read => "○ read",
        Variant::Write => "✎ write",
        Variant::Destructive => "✖ destructive",
    }
}

pub(super) fn duration(duration_us: u64) -> String {
    match duration_us {
        ..10_000 => format!("{:.1}ms", milliseconds(duration_us)),
        10_000..10_000_000 => format!("{:.0}ms", milliseconds(duration_us)),
        _ => format!("{:.1}s", milliseconds(duration_us) / 1000.0),
    }
}

#[expect(clippy::cast_precision_loss, reason = "a duration of more than 142 years may lose its last microsecond")]
fn milliseconds(duration_us: u64) -> f64 {
    duration_us as f64 / 1000.0
}

/// Returns untrusted text escaped for the terminal, or a dash if there is none.
pub(super) fn word(text: &Option<Untrusted>) -> String {
    text.as_ref().map_or(NONE.to_owned(), |text| text.for_terminal().into_owned())
}

/// Formats a count with its noun: `12,345 records`.
pub(super) fn counted(number: u64, thing: &str) -> String {
    format!("{} {thing}{}", grouped(number), if number == 1 { "" } else { "s" })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations() {
        let check = |duration_us: u64, expected: &str| assert_eq!(duration(duration_us), expected);
        check(90, "0.1ms");
        check(1_234, "1.2ms");
        check(245_300, "245ms");
        check(12_340_000, "12.3s");
    }

    #[test]
    fn numbers() {
        let check = |number: u64, expected: &str| assert_eq!(grouped(number), expected);
        check(0, "0");
        check(999, "999");
        check(1_000, "1,000");
        check(1_234_567, "1,234,567");
        assert_eq!((counted(1, "record"), counted(0, "line")), ("1 record".to_owned(), "0 lines".to_owned()));
    }
}
