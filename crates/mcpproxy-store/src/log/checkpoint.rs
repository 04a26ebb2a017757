//! Checkpoints: signed statements of how far a chain had come, and what its hash was then.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;

use crate::log::line::Hash;
use crate::{SigningKey, StoreError, Verifier};

/// So far had the chain come.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Checkpoint {
    pub chain: String,
    pub seq: i64,
    pub(crate) hash: Hash,
    /// As it was signed: RFC 3339, in UTC.
    pub time: String,
}

impl Checkpoint {
    pub(crate) fn sign(key: &SigningKey, seq: i64, hash: &Hash, time_ms: i64) -> String {
        let chain = key.verifier().chain();
        let time = rfc3339(time_ms);
        key.sign(&format!("mcpproxy/{chain}\n{seq}\n{}\n{time}\n", BASE64.encode(hash)))
    }

    /// Reads a note that this key has signed.
    pub fn open(note: &str, verifier: &Verifier) -> Result<Self, StoreError> {
        let text = verifier.open(note).map_err(|source| StoreError::Checkpoint { source })?;
        Self::read(text)
            .filter(|found| found.chain == verifier.chain())
            .ok_or_else(|| StoreError::Checkpoint { source: crate::NoteError::Form })
    }

    /// The chain that a note claims to be about, before anything is checked.
    pub fn claimed_chain(note: &str) -> Option<&str> {
        note.lines().next()?.strip_prefix("mcpproxy/")
    }

    /// The notes in a file to which they were appended one after the other.
    pub fn notes(text: &str) -> Vec<String> {
        let mut notes = Vec::new();
        let mut note = String::new();
        for line in text.lines() {
            if note.is_empty() && line.is_empty() {
                continue;
            }
            note.push_str(line);
            note.push('\n');
            if line.starts_with("— ") {
                notes.push(std::mem::take(&mut note));
            }
        }
        if !note.is_empty() {
            notes.push(note);
        }
        notes
    }

    fn read(text: &str) -> Option<Self> {
        let mut lines = text.lines();
        let chain = lines.next()?.strip_prefix("mcpproxy/")?.to_owned();
        let seq = lines.next()?.parse().ok()?;
        let hash = BASE64.decode(lines.next()?).ok()?.try_into().ok()?;
        let time = lines.next()?.to_owned();
        lines.next().is_none().then_some(Self { chain, seq, hash, time })
    }
}

/// The time in UTC, with milliseconds. Civil dates after Howard Hinnant's algorithm, for years from 1970 on.
pub(crate) fn rfc3339(time_ms: i64) -> String {
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
    fn times() {
        let check = |time_ms: i64, expected: &str| assert_eq!(rfc3339(time_ms), expected);
        check(0, "1970-01-01T00:00:00.000Z");
        check(951_782_399_999, "2000-02-28T23:59:59.999Z");
        check(951_782_400_000, "2000-02-29T00:00:00.000Z");
        check(1_700_000_000_123, "2023-11-14T22:13:20.123Z");
        check(4_102_444_800_000, "2100-01-01T00:00:00.000Z");
    }

    #[test]
    fn what_was_signed_is_what_is_read() {
        let key = SigningKey::from_seed(&[1; 32]).unwrap();
        let note = Checkpoint::sign(&key, 1234, &[9; 32], 1_700_000_000_123);
        let read = Checkpoint::open(&note, key.verifier()).unwrap();
        let time = "2023-11-14T22:13:20.123Z".to_owned();
        assert_eq!(read, Checkpoint { chain: key.verifier().chain().into(), seq: 1234, hash: [9; 32], time });
        assert_eq!(Checkpoint::claimed_chain(&note), Some(key.verifier().chain()));
        assert!(Checkpoint::open("", key.verifier()).is_err());
        assert!(Checkpoint::open(&key.sign("mcpproxy/other\n1\nAA==\nx\n"), key.verifier()).is_err());
        assert_eq!(Checkpoint::notes(&format!("{note}{note}\n{note}")), [note.clone(), note.clone(), note]);
    }
}
