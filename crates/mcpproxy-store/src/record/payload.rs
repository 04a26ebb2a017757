//! Payloads: the masked arguments and result of a call, truncated for the log.

use mcpproxy_core::Masked;

use crate::sha256::{sha256, sha256_both};
use crate::text::storable_cow;

/// Longer payloads are truncated. Their full size and digest are kept.
pub const PAYLOAD_MAX_BYTES: usize = 64 * 1024;

/// A text that is stored apart from its record, with its size and digests.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Payload {
    text: String,
    about: PayloadFacts,
}

/// Size and digests of a payload. The record keeps them when the payload is erased.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PayloadFacts {
    /// The size before masking and truncation.
    pub bytes: u64,
    pub digests: Digests,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Digests {
    /// SHA-256 of the whole masked text.
    pub whole: [u8; 32],
    /// SHA-256 of the truncated text, if it was truncated.
    pub kept: Option<[u8; 32]>,
}

impl Payload {
    /// `original_bytes` is the size before masking.
    pub fn of(masked: Masked<'_>, original_bytes: usize) -> Self {
        let text = storable_cow(masked.into_cow());
        let (text, digests) = if text.len() > PAYLOAD_MAX_BYTES {
            // Only the beginning is copied: the rest may be megabytes.
            let (beginning, rest) = text.split_at(text.floor_char_boundary(PAYLOAD_MAX_BYTES));
            let (kept, whole) = sha256_both(beginning.as_bytes(), rest.as_bytes());
            (beginning.to_owned(), Digests { whole, kept: Some(kept) })
        } else {
            let whole = sha256(text.as_bytes());
            (text.into_owned(), Digests { whole, kept: None })
        };
        Self { text, about: PayloadFacts { bytes: original_bytes as u64, digests } }
    }

    pub fn text(&self) -> &str {
        &self.text
    }

    pub fn facts(&self) -> &PayloadFacts {
        &self.about
    }

    /// The text, unless `without_text` removed it.
    pub(crate) fn stored(&self) -> Option<&str> {
        (!self.text.is_empty() || self.about.bytes == 0).then_some(self.text.as_str())
    }

    /// Removes the text. Size and digest stay.
    pub(crate) fn without_text(mut self) -> Self {
        self.text = String::new();
        self
    }
}

impl Digests {
    /// The digest of the stored text.
    pub(crate) fn of_stored(&self) -> &[u8; 32] {
        self.kept.as_ref().unwrap_or(&self.whole)
    }

    /// The bytes of the column: `whole`, then `kept`.
    pub(crate) fn to_bytes(self) -> Vec<u8> {
        self.whole.into_iter().chain(self.kept.into_iter().flatten()).collect()
    }

    pub(crate) fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let (whole, rest) = bytes.split_first_chunk::<32>()?;
        let kept = match rest.len() {
            0 => None,
            _ => Some(rest.try_into().ok()?),
        };
        Some(Self { whole: *whole, kept })
    }
}

#[cfg(test)]
mod tests {
    use mcpproxy_core::mask;
    use sha2::{Digest as _, Sha256};

    use super::*;

    #[test]
    fn long_text_is_truncated_between_characters() {
        let check = |text: &str, kept: usize| {
            let payload = Payload::of(mask(text, &[]), text.len());
            assert_eq!((payload.text().len(), payload.facts().bytes), (kept, text.len() as u64));
            let digest: [u8; 32] = Sha256::digest(payload.text().as_bytes()).into();
            assert_eq!(*payload.facts().digests.of_stored(), digest);
            let whole: [u8; 32] = Sha256::digest(text.as_bytes()).into();
            assert_eq!(payload.facts().digests.whole, whole);
            assert_eq!(payload.facts().digests.kept.is_some(), kept < text.len());
        };
        check("", 0);
        check("short", 5);
        check(&"a".repeat(PAYLOAD_MAX_BYTES), PAYLOAD_MAX_BYTES);
        check(&"a".repeat(PAYLOAD_MAX_BYTES + 1), PAYLOAD_MAX_BYTES);
        // 65,536 = 3 * 21,845 + 1: only one byte of the next character would fit.
        check(&"€".repeat(30_000), PAYLOAD_MAX_BYTES - 1);
    }

    #[test]
    fn digests_round_trip_through_a_column() {
        for kept in [None, Some([2; 32])] {
            let digests = Digests { whole: [1; 32], kept };
            assert_eq!(Digests::from_bytes(&digests.to_bytes()), Some(digests));
        }
        for wrong in [&[][..], &[1; 31], &[1; 33], &[1; 65]] {
            assert_eq!(Digests::from_bytes(wrong), None);
        }
    }
}
