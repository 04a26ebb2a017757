//! Searches JSON text for the few bytes that matter, eight bytes at a time.
//!
//! Large messages are mostly strings, and rows of short strings and numbers. For both, a test per byte is most of the
//! work. So eight bytes are loaded into one word, and each byte is compared with the same few operations on the whole
//! word:
//!
//! ```text
//! equal(x, b):  y = x ^ bbbbbbbb     bytes equal to b become zero
//!               (y - 01…01) & !y & 80…80     the high bit of every zero byte
//! ```
//!
//! A borrow can mark bytes above a marked one too. So only the lowest mark is exact, and only that one is used.
//!
//! Why no vector instructions? Gaps between two such bytes are short in most messages, and a call to `memchr` for each
//! takes longer than the gap. Long strings still use `memchr` or whole chunks, which the compiler vectorizes.

const ONES: u64 = 0x0101_0101_0101_0101;
const HIGHS: u64 = 0x8080_8080_8080_8080;
const WORD: usize = 8;
/// The first words of a string are searched one by one. Most strings end there, before a vector search pays off.
const FIRST_WORDS: usize = 2;

/// Marks the bytes of a word that are equal to `byte`.
fn equal(word: u64, byte: u8) -> u64 {
    let zeros = word ^ (ONES * u64::from(byte));
    zeros.wrapping_sub(ONES) & !zeros & HIGHS
}

/// Marks the bytes of a word that are below 0x20.
fn control(word: u64) -> u64 {
    word.wrapping_sub(ONES * 0x20) & !word & HIGHS
}

/// Returns the position of the first byte that `mark` marks in one of the first `words` words. Otherwise returns `Err`
/// with the number of bytes that were searched.
fn first(bytes: &[u8], words: usize, mark: impl Fn(u64) -> u64) -> Result<usize, usize> {
    let (chunks, _) = bytes.as_chunks::<WORD>();
    let mut searched = 0;
    for chunk in chunks.iter().take(words) {
        let marks = mark(u64::from_le_bytes(*chunk));
        if marks != 0 {
            return Ok(searched + marks.trailing_zeros() as usize / WORD);
        }
        searched += WORD;
    }
    Err(searched)
}

/// Returns the number of bytes before the first quote or backslash, or `None` if there is none.
pub(super) fn before_quote(bytes: &[u8]) -> Option<usize> {
    match first(bytes, FIRST_WORDS, |word| equal(word, b'"') | equal(word, b'\\')) {
        Ok(at) => Some(at),
        Err(searched) => Some(searched + memchr::memchr2(b'"', b'\\', bytes.get(searched..)?)?),
    }
}

/// Returns the number of bytes before the first backslash, or `None` if there is none.
pub(super) fn before_backslash(bytes: &[u8]) -> Option<usize> {
    match first(bytes, FIRST_WORDS, |word| equal(word, b'\\')) {
        Ok(at) => Some(at),
        Err(searched) => Some(searched + memchr::memchr(b'\\', bytes.get(searched..)?)?),
    }
}

/// Returns the number of bytes before the first one that ends or changes a string: a quote, a backslash or a control
/// character. Returns the length if there is none.
pub(super) fn before_special(bytes: &[u8]) -> usize {
    const CHUNK: usize = 32;
    let mark = |word| equal(word, b'"') | equal(word, b'\\') | control(word);
    let is_special = |byte: u8| byte < 0x20 || byte == b'"' || byte == b'\\';
    let mut plain = match first(bytes, FIRST_WORDS, mark) {
        Ok(at) => return at,
        Err(searched) => searched,
    };
    // The compiler checks all bytes of a chunk at once.
    let rest = bytes.get(plain..).unwrap_or_default();
    let is_plain = |chunk: &&[u8]| !chunk.iter().fold(false, |found, byte| found | is_special(*byte));
    plain += CHUNK * rest.chunks_exact(CHUNK).take_while(is_plain).count();
    let rest = bytes.get(plain..).unwrap_or_default();
    match first(rest, CHUNK / WORD, mark) {
        Ok(at) => plain + at,
        Err(searched) => {
            let rest = rest.get(searched..).unwrap_or_default();
            plain + searched + rest.iter().position(|byte| is_special(*byte)).unwrap_or(rest.len())
        }
    }
}

/// Returns the number of bytes before the first quote or bracket, or `None` if there is none. Byte by byte, because
/// such bytes are a few bytes apart in objects and arrays.
///
/// Control character 0x02 counts as well. It occurs in no JSON text outside of its strings.
pub(super) fn before_bracket(bytes: &[u8]) -> Option<usize> {
    // One bit tells `[` from `{`, and `]` from `}`.
    bytes.iter().position(|byte| matches!(byte | 0x20, b'"' | b'{' | b'}'))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn slow_quote(bytes: &[u8]) -> Option<usize> {
        bytes.iter().position(|byte| matches!(byte, b'"' | b'\\'))
    }

    fn slow_backslash(bytes: &[u8]) -> Option<usize> {
        bytes.iter().position(|byte| *byte == b'\\')
    }

    fn slow_special(bytes: &[u8]) -> usize {
        bytes.iter().position(|byte| matches!(byte, 0..0x20 | b'"' | b'\\')).unwrap_or(bytes.len())
    }

    fn slow_bracket(bytes: &[u8]) -> Option<usize> {
        bytes.iter().position(|byte| matches!(byte, b'"' | b'{' | b'}' | b'[' | b']'))
    }

    /// Every byte value at every position of a word and of a chunk, with neighbors that could disturb it.
    #[test]
    fn every_byte_is_seen_at_every_position() {
        for filler in [b'a', 0x21, 0x23, 0x5b, 0x5d, 0x7f, 0x80, 0xff] {
            for length in [1, 7, 8, 9, 31, 32, 33, 71] {
                for at in 0..length {
                    for byte in 0..=255u8 {
                        let mut bytes = vec![filler; length];
                        bytes[at] = byte;
                        assert_eq!(before_quote(&bytes), slow_quote(&bytes), "{byte} at {at} of {length} * {filler}");
                        assert_eq!(
                            before_special(&bytes),
                            slow_special(&bytes),
                            "{byte} at {at} of {length} * {filler}"
                        );
                    }
                }
            }
        }
    }

    proptest! {
        #[test]
        fn agrees_with_a_test_per_byte(bytes in proptest::collection::vec(any::<u8>(), 0..120)) {
            prop_assert_eq!(before_quote(&bytes), slow_quote(&bytes));
            prop_assert_eq!(before_backslash(&bytes), slow_backslash(&bytes));
            prop_assert_eq!(before_special(&bytes), slow_special(&bytes));
        }

        #[test]
        fn agrees_on_long_text(text in "[a-zé]{0,300}[\"\\\\\n]?[a-z]{0,40}") {
            prop_assert_eq!(before_quote(text.as_bytes()), slow_quote(text.as_bytes()));
            prop_assert_eq!(before_backslash(text.as_bytes()), slow_backslash(text.as_bytes()));
            prop_assert_eq!(before_special(text.as_bytes()), slow_special(text.as_bytes()));
        }

        #[test]
        fn finds_brackets_in_text_without_control_characters(text in "[ -~é€\t\r\n]{0,80}[\\[\\]{}\"]?[ -~]{0,9}") {
            prop_assert_eq!(before_bracket(text.as_bytes()), slow_bracket(text.as_bytes()));
        }
    }
}
