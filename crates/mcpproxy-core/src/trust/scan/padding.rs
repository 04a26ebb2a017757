//! Finds text behind padding: a reader of the first screen never scrolls to it, a model reads it.

use std::collections::HashMap;

/// White space in a row. The longest in 3,004 real tools is 64.
const SPACE_MAX: usize = 90;
/// Bytes that repeat with a short period, such as `....` or `=-=-`.
const PERIODIC_MAX: usize = 160;
const PERIOD_MAX: usize = 8;
/// Equal lines or sentences, and their bytes in total.
const EQUAL_MAX: usize = 14;
const EQUAL_BYTES_MAX: usize = 250;

/// Returns what pads the text, in words.
pub(super) fn find(text: &str) -> Option<String> {
    let text = text.trim_end();
    if text.len() < SPACE_MAX {
        return None;
    }
    space(text).or_else(|| periodic(text)).or_else(|| equal_lines(text))
}

fn space(text: &str) -> Option<String> {
    let mut run = 0;
    for c in text.chars() {
        if c.is_whitespace() || c == '\u{3164}' || c == '\u{2800}' {
            run += 1;
        } else if run > SPACE_MAX {
            return Some(format!("{run} blanks in a row"));
        } else {
            run = 0;
        }
    }
    None
}

fn periodic(text: &str) -> Option<String> {
    let bytes = text.as_bytes();
    for period in 1..=PERIOD_MAX {
        let mut run = 0;
        for (byte, before) in bytes.iter().skip(period).zip(bytes) {
            run = if byte == before { run + 1 } else { 0 };
            if run > PERIODIC_MAX {
                return Some(format!("the same {period} bytes more than {} times in a row", PERIODIC_MAX / period));
            }
        }
    }
    None
}

/// Lines and sentences are equal if they differ in digits only.
fn equal_lines(text: &str) -> Option<String> {
    if text.len() < EQUAL_BYTES_MAX * 2 {
        return None;
    }
    let mut counts: HashMap<u64, (usize, usize)> = HashMap::new();
    let mut line = Line::default();
    for byte in text.bytes() {
        match byte {
            b'\n' | b'.' | b'!' | b'?' if line.length > 0 => {
                let (count, bytes) = counts.entry(line.hash).or_default();
                *count += 1;
                *bytes += line.length;
                if *count > EQUAL_MAX && *bytes > EQUAL_BYTES_MAX {
                    return Some("the same line many times".to_owned());
                }
                line = Line::default();
            }
            b'0'..=b'9' | b' ' | b'\t' | b'\r' | b'\n' | b'.' => {}
            _ => line.push(byte),
        }
    }
    None
}

/// The FNV-1a hash and the length of a line.
#[derive(Default)]
struct Line {
    hash: u64,
    length: usize,
}

impl Line {
    fn push(&mut self, byte: u8) {
        self.hash = (self.hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3).wrapping_add(1);
        self.length += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn padding_is_found_and_layout_is_not() {
        let check = |text: &str, expected: Option<&str>| {
            assert_eq!(find(text).as_deref(), expected, "{}", text.chars().take(60).collect::<String>());
        };
        check(&format!("a{}b", " ".repeat(200)), Some("200 blanks in a row"));
        check(&format!("a{}b", "\n".repeat(100)), Some("100 blanks in a row"));
        check(&format!("a{}b", "\u{a0}".repeat(100)), Some("100 blanks in a row"));
        check(&format!("a{}b", ".".repeat(400)), Some("the same 1 bytes more than 160 times in a row"));
        check(&format!("a{}b", "=-".repeat(200)), Some("the same 2 bytes more than 80 times in a row"));
        check(&"| 1 | reserved by the standard |\n".repeat(40), Some("the same line many times"));
        check(&format!("a{}b", " ".repeat(60)), None);
        check(&format!("{}\nTitle\n{}", "=".repeat(80), "-".repeat(80)), None);
        check(&format!("a{}", " ".repeat(500)), None);
    }
}
