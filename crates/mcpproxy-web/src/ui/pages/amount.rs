//! Numbers, sizes, durations and parts of addresses as pages write them.

/// Says what counts as a call, wherever a page counts calls.
pub(crate) const CALLS_COUNTED: &str = "A call counts when it was sent to its server and has ended. Refused calls, dry runs and \
     repeated answers do not count.";

/// Writes a number with separators: `1,234,567`.
pub(crate) fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut out = String::with_capacity(digits.len() + digits.len() / 3);
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

/// Writes a number with its unit: `1 call`, `2 calls`.
pub(crate) fn counted(number: u64, unit: &str) -> String {
    format!("{} {unit}{}", grouped(number), if number == 1 { "" } else { "s" })
}

/// Converts the length of a list.
pub(crate) fn items(length: usize) -> u64 {
    u64::try_from(length).unwrap_or(u64::MAX)
}

/// Writes a size with one decimal: `1.5 MiB`.
pub(crate) fn size(bytes: u64) -> String {
    let units = [(1_u64 << 40, "TiB"), (1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")];
    match units.into_iter().find(|(unit, _)| bytes >= *unit) {
        Some((unit, name)) => {
            let tenths = u128::from(bytes) * 10 / u128::from(unit);
            format!("{}.{} {name}", tenths / 10, tenths % 10)
        }
        None => format!("{bytes} B"),
    }
}

/// Writes a duration in the unit that people would use: `850 µs`, `1.5 ms`, `2.0 s`, `3 min`.
pub(crate) fn duration(us: u64) -> String {
    match us {
        0..1_000 => format!("{us} µs"),
        1_000..10_000 => format!("{}.{} ms", us / 1_000, us / 100 % 10),
        10_000..1_000_000 => format!("{} ms", us / 1_000),
        1_000_000..60_000_000 => format!("{}.{} s", us / 1_000_000, us / 100_000 % 10),
        _ => format!("{} min", us / 60_000_000),
    }
}

/// Encodes untrusted text as a part of a path or as a value of a query.
pub(crate) fn encoded(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for byte in text.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b'~' => out.push(char::from(byte)),
            _ => out.push_str(&format!("%{byte:02X}")),
        }
    }
    out
}

/// Shortens text to one line of at most `max` characters.
pub(crate) fn one_line(text: &str, max: usize) -> String {
    let line: String = text.chars().take(max).map(|c| if matches!(c, '\n' | '\r' | '\t') { ' ' } else { c }).collect();
    if text.chars().nth(max).is_some() { format!("{}…", line.trim_end()) } else { line }
}

/// Returns a short hash of what a part of a page shows. A live page replaces a part when its key changes.
pub(crate) fn part_key(content: &impl std::fmt::Debug) -> String {
    let digest = mcpproxy_core::Digest::of(format!("{content:?}").as_bytes()).to_string();
    digest.chars().take(16).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_sizes_and_durations() {
        assert_eq!([0, 999, 1_000, 1_234_567].map(grouped), ["0", "999", "1,000", "1,234,567"]);
        assert_eq!([0, 1, 2_000].map(|number| counted(number, "call")), ["0 calls", "1 call", "2,000 calls"]);
        assert_eq!([1, 1536, 1 << 30, u64::MAX].map(size), ["1 B", "1.5 KiB", "1.0 GiB", "16777215.9 TiB"]);
        let durations = [0, 850, 1_540, 45_000, 2_060_000, 3 * 60_000_000].map(duration);
        assert_eq!(durations, ["0 µs", "850 µs", "1.5 ms", "45 ms", "2.0 s", "3 min"]);
    }

    #[test]
    fn texts() {
        assert_eq!(encoded("a/b?c=d&é"), "a%2Fb%3Fc%3Dd%26%C3%A9");
        assert_eq!(one_line("a\nb", 3), "a b");
        assert_eq!(one_line("abcdef", 3), "abc…");
    }
}
