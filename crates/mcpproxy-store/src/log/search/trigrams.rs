//! Trigrams: the sequences of three bytes in the texts of a record, with ASCII letters in lower case.
//!
//! The texts are those that a search compares (`Filter::fits`). A text matches only as a part of one of them, so every
//! trigram of the text is among the trigrams of a record that matches. The opposite does not hold: the trigrams of a
//! record may come from different texts. That is why candidates are compared again.
//!
//! Bytes, not characters, because a part of a text in UTF-8 is a part of its bytes. Upper and lower case of other
//! letters stay different, as in the comparison.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

use super::postings::{self, Encoder, Malformed, OFFSETS, Offsets};
use crate::Record;

/// Trigrams are spread over this many rows of a block.
pub(crate) const BUCKETS: u32 = 64;
/// The bucket of a row that has trigrams of all buckets.
pub(crate) const WHOLE: i64 = -1;
/// Buckets that a search reads of each block. Four trigrams are selective enough, and more cost more reads.
pub(crate) const BUCKETS_READ: usize = 4;
/// With so few pairs, 64 rows would be larger than their content.
const SMALL_MAX_PAIRS: usize = 2_048;

/// The trigrams of a search, and the rows to read for them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Query {
    /// In ascending order.
    trigrams: Vec<u32>,
    pub(crate) buckets: Vec<i64>,
}

impl Query {
    /// `None` if the index cannot help. The text is in lower case.
    pub(crate) fn of(text: &str) -> Option<Self> {
        // The database replaces NUL, which it cannot store.
        if text.contains('\0') {
            return None;
        }
        let all: Vec<u32> = trigrams(text).collect();
        let last = all.len().checked_sub(1)?;
        // From all over the text, because neighbours often occur together.
        let picks = (0..BUCKETS_READ).filter_map(|pick| all.get(last * pick / (BUCKETS_READ - 1)));
        let mut buckets: Vec<i64> = picks.map(|trigram| bucket(*trigram)).collect();
        buckets.sort_unstable();
        buckets.dedup();
        // Others in the same rows cost nothing more.
        let mut trigrams: Vec<u32> = all.into_iter().filter(|trigram| buckets.contains(&bucket(*trigram))).collect();
        trigrams.sort_unstable();
        trigrams.dedup();
        Some(Self { trigrams, buckets })
    }

    /// The records of a block that can match, from its rows.
    pub(crate) fn candidates<'r>(&self, rows: impl Iterator<Item = &'r [u8]>) -> Result<Offsets, Malformed> {
        let mut found = vec![Offsets::NONE; self.trigrams.len()];
        for row in rows {
            postings::find(row, &self.trigrams, &mut found)?;
        }
        let mut found = found.iter();
        let first = found.next().copied().unwrap_or(Offsets::NONE);
        Ok(found.fold(first, Offsets::and))
    }
}

/// Collects the trigrams of the records of a block.
///
/// Records of the same tools have most trigrams in common. So each trigram is looked up in a table, which has a short list
/// for a rare one and a bitmap for a common one. Only the different trigrams are sorted, at the end. To sort all pairs of a
/// trigram and a record takes several times as long, and the index is written while calls run.
///
/// Most texts of a record, such as the names of agent and tool, are those of the record before. The places of their
/// trigrams in the table are remembered, so these texts are not cut and looked up again.
#[derive(Default)]
pub(crate) struct Collection {
    /// The place of each trigram in `sets`.
    places: HashMap<u32, u32, BuildHasherDefault<TrigramHasher>>,
    sets: Vec<OffsetSet>,
    pairs: usize,
    /// The texts of the record before, by their order in a record.
    before: Vec<RepeatedText>,
}

/// A text, and the places of its trigrams.
#[derive(Default)]
struct RepeatedText {
    text: String,
    places: Vec<u32>,
}

/// The records of one trigram.
enum OffsetSet {
    /// The first `len` offsets, in the order in which they were added.
    Few {
        len: u8,
        offsets: [u16; FEW],
    },
    Many(Box<Offsets>),
}

/// With as many offsets, a list takes as much room as the pointer to a bitmap.
const FEW: usize = 6;

impl OffsetSet {
    const NONE: Self = Self::Few { len: 0, offsets: [0; FEW] };

    /// Returns true if the offset is new. Of a list, only the last offset is compared, because those of one record follow
    /// each other.
    fn insert(&mut self, offset: u16) -> bool {
        match self {
            Self::Many(set) => set.insert(offset),
            Self::Few { len, offsets } => {
                let count = usize::from(*len);
                if count > 0 && offsets.get(count - 1) == Some(&offset) {
                    return false;
                }
                match offsets.get_mut(count) {
                    Some(free) => (*free, *len) = (offset, *len + 1),
                    None => {
                        let mut set = Box::new(Offsets::NONE);
                        offsets.iter().chain([&offset]).for_each(|offset| {
                            set.insert(*offset);
                        });
                        *self = Self::Many(set);
                    }
                }
                true
            }
        }
    }
}

impl Collection {
    /// Adds a record. Of an offset that no block has, nothing is added.
    pub(crate) fn add(&mut self, offset: i64, texts: &[&str]) {
        let Some(offset) = u16::try_from(offset).ok().filter(|offset| usize::from(*offset) < OFFSETS) else { return };
        self.before.resize_with(texts.len().max(self.before.len()), RepeatedText::default);
        for (text, before) in texts.iter().zip(&mut self.before) {
            if before.text != *text {
                before.text.clear();
                before.text.push_str(text);
                before.places.clear();
                before.places.extend(trigrams(text).map(|trigram| {
                    let next = u32::try_from(self.sets.len()).unwrap_or(u32::MAX);
                    let place = *self.places.entry(trigram).or_insert(next);
                    if place == next {
                        self.sets.push(OffsetSet::NONE);
                    }
                    place
                }));
            }
            for place in &before.places {
                let is_new = self.sets.get_mut(*place as usize).is_some_and(|set| set.insert(offset));
                self.pairs += usize::from(is_new);
            }
        }
    }

    /// One row with all trigrams.
    pub(crate) fn into_row(self) -> Option<(i64, Vec<u8>)> {
        let mut trigrams: Vec<u32> = self.places.keys().copied().collect();
        trigrams.sort_unstable();
        Some((WHOLE, self.encode(&trigrams))).filter(|_| !trigrams.is_empty())
    }

    /// A row for each bucket. A small block has one row for all.
    pub(crate) fn into_rows(self) -> Vec<(i64, Vec<u8>)> {
        if self.pairs <= SMALL_MAX_PAIRS {
            return self.into_row().into_iter().collect();
        }
        let mut trigrams: Vec<u32> = self.places.keys().copied().collect();
        trigrams.sort_unstable_by_key(|trigram| (bucket(*trigram), *trigram));
        let rows = trigrams.chunk_by(|a, b| bucket(*a) == bucket(*b));
        rows.map(|row| (row.first().map_or(WHOLE, |trigram| bucket(*trigram)), self.encode(row))).collect()
    }

    /// The postings of some trigrams, which are in ascending order.
    fn encode(&self, trigrams: &[u32]) -> Vec<u8> {
        let mut encoder = Encoder::default();
        for trigram in trigrams {
            match self.places.get(trigram).and_then(|place| self.sets.get(*place as usize)) {
                Some(OffsetSet::Many(set)) => encoder.add_set(*trigram, set),
                Some(OffsetSet::Few { len, offsets }) => {
                    let mut offsets = *offsets;
                    let offsets = offsets.get_mut(..usize::from(*len)).unwrap_or_default();
                    // Calls that end in a later block are added in the order of their ends.
                    offsets.sort_unstable();
                    encoder.add(*trigram, offsets);
                }
                None => {}
            }
        }
        encoder.into_bytes()
    }
}

/// Spreads trigrams over a table. Texts of agents cannot choose many that collide: there are only 2^24.
#[derive(Default)]
struct TrigramHasher(u64);

impl Hasher for TrigramHasher {
    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|byte| self.write_u32(u32::from(*byte)));
    }

    fn write_u32(&mut self, number: u32) {
        self.0 = (self.0 ^ u64::from(number)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    }

    fn finish(&self) -> u64 {
        // The table takes its place from the low bits, and a multiplication spreads upwards only.
        self.0 ^ self.0 >> 32
    }
}

/// The texts of a record that a search compares. `server:tool` contains both names.
pub(crate) fn texts_of(record: &Record, with: impl FnOnce(&[&str])) {
    let [server, tool] = [&record.server, &record.tool].map(|name| name.as_ref().map(|name| name.for_json()));
    let names = match (server, tool) {
        (Some(server), Some(tool)) => format!("{server}:{tool}"),
        (name, other) => name.or(other).unwrap_or_default().to_owned(),
    };
    let agent = record.agent.as_deref().unwrap_or_default();
    let client = record.client.as_ref().map_or("", |client| client.for_json());
    let [code, message, end_metadata] = end_texts_of(record);
    with(&[&names, agent, client, record.metadata.for_json(), code, message, end_metadata]);
}

/// The texts that the end of a call may bring.
pub(crate) fn end_texts_of(record: &Record) -> [&str; 3] {
    [&record.code, &record.message, &record.end_metadata]
        .map(|text| text.as_ref().map(|text| text.for_json()).unwrap_or_default())
}

fn trigrams(text: &str) -> impl Iterator<Item = u32> + '_ {
    let mut window = 0;
    let windows = text.bytes().map(move |byte| {
        window = (window << 8 | u32::from(byte.to_ascii_lowercase())) & 0xff_ffff;
        window
    });
    // The first two windows are not full.
    windows.skip(2)
}

/// Multiplication spreads trigrams of letters, which are close to each other.
fn bucket(trigram: u32) -> i64 {
    i64::from(trigram.wrapping_mul(0x9e37_79b1) / (u32::MAX / BUCKETS + 1))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(texts: &[&str], query: &str) -> Vec<u16> {
        let mut collection = Collection::default();
        texts.iter().zip(0..).for_each(|(text, offset)| collection.add(offset, &[text]));
        let query = Query::of(&query.to_ascii_lowercase()).unwrap();
        let rows = collection.into_rows();
        let read = rows.iter().filter(|(bucket, _)| *bucket == WHOLE || query.buckets.contains(bucket));
        query.candidates(read.map(|(_, bytes)| &bytes[..])).unwrap().iter().collect()
    }

    #[test]
    fn a_text_is_found_by_every_part_of_it() {
        let texts = ["Nightly backup", "100% of_it", "Umlaut Ä", "\u{202e}txt", ""];
        for (text, offset) in texts.iter().zip(0..) {
            for (begin, _) in text.char_indices() {
                for end in (begin + 3..=text.len()).filter(|end| text.is_char_boundary(*end)) {
                    let part = text.get(begin..end).unwrap();
                    assert!(found(&texts, part).contains(&offset), "{part:?}");
                    assert!(found(&texts, &part.to_ascii_uppercase()).contains(&offset), "{part:?}");
                }
            }
        }
        assert_eq!(found(&texts, "nightly"), [0]);
        assert_eq!(found(&texts, "umlaut ä"), [0_u16; 0]);
        assert_eq!(found(&texts, "%%%"), [0_u16; 0]);
    }

    /// Many pairs are spread over buckets, and few are in one row. Both give the same answer.
    #[test]
    fn small_and_large_blocks_answer_alike() {
        let texts: Vec<String> = (0..600).map(|n| format!("record number {n} of agent{}", n % 7)).collect();
        let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
        for query in ["number 77", "agent3", "record number 5", "nowhere", "of agent6"] {
            let expected: Vec<u16> =
                (0..).zip(&texts).filter(|(_, text)| text.contains(query)).map(|(offset, _)| offset).collect();
            let found = found(&texts, query);
            assert!(expected.iter().all(|offset| found.contains(offset)), "{query}");
            assert!(found.len() <= expected.len() + 100, "{query}: {} of {}", found.len(), expected.len());
        }
    }

    #[test]
    fn short_texts_and_nul_are_not_for_the_index() {
        for text in ["", "a", "ab", "ä", "abc\0"] {
            assert_eq!(Query::of(text), None, "{text:?}");
        }
        assert!(Query::of("abc").is_some_and(|query| query.buckets.len() == 1));
        let long = Query::of(&"the quick brown fox jumps over the lazy dog".repeat(100)).unwrap();
        assert!(long.buckets.len() <= BUCKETS_READ && long.buckets.iter().all(|bucket| (0..64).contains(bucket)));
    }
}
