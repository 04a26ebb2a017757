//! Keys and ids of records. A key is a 63-bit number that orders all records of all gateways by time.
//!
//! ```text
//! key   | 42 bits milliseconds | 12 bits chain | 9 bits count |
//! id    | 48 bits milliseconds | 12 bits chain | 9 bits count | 59 random bits |      a ULID
//! ```
//!
//! The key is the primary key, the order of lists and the cursor of pages. The id contains the key, so finding a record
//! by its id needs no index. Keys of one chain always grow, even if the clock is set back.

use std::fmt;

use ulid::Ulid;

const CHAIN_BITS: u32 = 12;
const COUNT_BITS: u32 = 9;
const LOW_BITS: u32 = CHAIN_BITS + COUNT_BITS;
/// The random bits of an id.
const TAIL_BITS: u32 = 80 - LOW_BITS;
pub(crate) const CHAINS_MAX: i64 = 1 << CHAIN_BITS;
const TIME_MAX_MS: i64 = (1 << 42) - 1;

/// The primary key of a record. A range of time is a range of keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Key(pub(crate) i64);

/// A ULID. It sorts by time, and a unique prefix is enough to find a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct RecordId(Ulid);

impl Key {
    /// The first key of a millisecond in any chain.
    pub(crate) fn at(time_ms: i64) -> Self {
        Self(time_ms.clamp(0, TIME_MAX_MS) << LOW_BITS)
    }

    /// The next key of a chain. Keys grow even if the clock stands still or is set back.
    pub(crate) fn next(last: Option<Self>, chain: u16, time_ms: i64) -> Self {
        let first = Self::at(time_ms).0 | (i64::from(chain) << COUNT_BITS);
        let Some(Self(last)) = last else { return Self(first) };
        let count_is_full = last & ((1 << COUNT_BITS) - 1) == (1 << COUNT_BITS) - 1;
        let after = if count_is_full {
            (((last >> LOW_BITS) + 1) << LOW_BITS) | (i64::from(chain) << COUNT_BITS)
        } else {
            last + 1
        };
        Self(first.max(after))
    }

    pub(crate) fn time_ms(self) -> i64 {
        self.0 >> LOW_BITS
    }

    /// The number of its chain.
    pub(crate) fn chain(self) -> i64 {
        (self.0 >> COUNT_BITS) & (CHAINS_MAX - 1)
    }
}

impl RecordId {
    /// Uses 59 bits of `random`.
    pub(crate) fn new(key: Key, random: u64) -> Self {
        let low = u128::from(key.0.unsigned_abs() & ((1 << LOW_BITS) - 1));
        let tail = u128::from(random) & ((1 << TAIL_BITS) - 1);
        Self(Ulid::from_parts(key.time_ms().unsigned_abs(), (low << TAIL_BITS) | tail))
    }

    pub fn parse(text: &str) -> Option<Self> {
        Ulid::from_string(text).ok().map(Self).filter(|id| id.0.timestamp_ms() <= TIME_MAX_MS.unsigned_abs())
    }

    pub fn time_ms(self) -> i64 {
        self.key().time_ms()
    }

    pub(crate) fn key(self) -> Key {
        let bits: u128 = self.0.0;
        Key(i64::try_from(bits >> TAIL_BITS).unwrap_or(i64::MAX))
    }

    pub(crate) fn tail(self) -> i64 {
        let bits: u128 = self.0.0;
        i64::try_from(bits & ((1 << TAIL_BITS) - 1)).unwrap_or(i64::MAX)
    }

    /// The first and last id with this prefix. `None` if no id can have it.
    pub(crate) fn beginning_with(prefix: &str) -> Option<(Self, Self)> {
        if prefix.is_empty() || prefix.len() > ulid::ULID_LEN || !prefix.bytes().all(|b| b.is_ascii_alphanumeric()) {
            return None;
        }
        let filled = |digit: char| {
            let missing = ulid::ULID_LEN - prefix.len();
            let text = prefix.to_ascii_uppercase() + &digit.to_string().repeat(missing);
            Ulid::from_string(&text).ok().map(Self)
        };
        let last = filled('Z').unwrap_or(Self(Ulid(u128::MAX)));
        Some((filled('0')?, last))
    }
}

impl fmt::Display for RecordId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0.array_to_str(&mut [0; ulid::ULID_LEN]))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_always_grow() {
        let mut last = None;
        for time_ms in [5, 5, 4, 9, 9, 0, 10].into_iter().chain(std::iter::repeat_n(10, 2_000)) {
            let next = Key::next(last, 7, time_ms);
            assert!(last.is_none_or(|last| next > last) && next.time_ms() >= time_ms);
            assert_eq!((next.0 >> COUNT_BITS) & ((1 << CHAIN_BITS) - 1), 7, "the chain stays the same");
            last = Some(next);
        }
        assert_eq!(last.unwrap().time_ms(), 13, "512 fit into a millisecond");
        assert_ne!(Key::next(None, 1, 5), Key::next(None, 2, 5));
    }

    #[test]
    fn an_id_contains_its_key_and_time() {
        let key = Key::next(Some(Key::next(None, 4095, 1_700_000_000_000)), 4095, 0);
        let id = RecordId::new(key, u64::MAX);
        assert_eq!(id.key(), key);
        assert_eq!((id.time_ms(), id.tail()), (1_700_000_000_000, (1 << TAIL_BITS) - 1));
        assert_eq!(RecordId::new(key, id.tail().unsigned_abs()), id);
        assert_eq!(RecordId::parse(&id.to_string()), Some(id));
        assert_eq!(id.to_string(), "01HF7YAT00ZZR0ZZZZZZZZZZZZ");
        assert_eq!(RecordId::parse("01HF7YAT00"), None);
        assert_eq!(RecordId::parse("7ZZZZZZZZZZZZZZZZZZZZZZZZZ"), None, "no such year");
    }

    #[test]
    fn a_prefix_is_a_range() {
        let (first, last) = RecordId::beginning_with("01hf").unwrap();
        let id = RecordId::new(Key::next(None, 0, 1_700_000_000_000), 1);
        assert!(first <= id && id <= last);
        assert_eq!(first.to_string(), "01HF0000000000000000000000");
        let (first, last) = RecordId::beginning_with(&id.to_string()).unwrap();
        assert_eq!((first, last), (id, id));
        for nothing in ["", "%", "01HF_", "é", "01HF7YAT0000000000000000011"] {
            assert!(RecordId::beginning_with(nothing).is_none(), "{nothing}");
        }
    }
}
