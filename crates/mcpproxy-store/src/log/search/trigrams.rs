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
/// Records of the same tools have most trigrams in common. So each trigram is looked up in a table, and the offsets of its
/// records form a linked list in one vector. Only the different trigrams are sorted, at the end. To sort all pairs of a
/// trigram and a record takes several times as long, and the index is written while calls run.
#[derive(Default)]
pub(crate) struct Collection {
    lists: HashMap<u32, List, BuildHasherDefault<TrigramHasher>>,
    entries: Vec<Entry>,
}

/// The first and the last entry of a trigram.
struct List {
    first: u32,
    last: u32,
}

struct Entry {
    offset: u16,
    /// The next entry of the same trigram, or [`END`].
    next: u32,
}

const END: u32 = u32::MAX;

impl Collection {
    /// Adds a record. Of an offset that no block has, nothing is added.
    pub(crate) fn add(&mut self, offset: i64, texts: &[&str]) {
        let Some(offset) = u16::try_from(offset).ok().filter(|offset| usize::from(*offset) < OFFSETS) else { return };
        for trigram in texts.iter().flat_map(|text| trigrams(text)) {
            let place = u32::try_from(self.entries.len()).unwrap_or(END);
            let list = self.lists.entry(trigram).or_insert(List { first: place, last: place });
            if let Some(last) = self.entries.get_mut(list.last as usize) {
                if last.offset == offset {
                    continue;
                }
                last.next = place;
            }
            list.last = place;
            self.entries.push(Entry { offset, next: END });
        }
    }

    /// One row with all trigrams.
    pub(crate) fn into_row(self) -> Option<(i64, Vec<u8>)> {
        let mut trigrams: Vec<u32> = self.lists.keys().copied().collect();
        trigrams.sort_unstable();
        Some((WHOLE, self.encode(&trigrams))).filter(|_| !trigrams.is_empty())
    }

    /// A row for each bucket. A small block has one row for all.
    pub(crate) fn into_rows(self) -> Vec<(i64, Vec<u8>)> {
        if self.entries.len() <= SMALL_MAX_PAIRS {
            return self.into_row().into_iter().collect();
        }
        let mut trigrams: Vec<u32> = self.lists.keys().copied().collect();
        trigrams.sort_unstable_by_key(|trigram| (bucket(*trigram), *trigram));
        let rows = trigrams.chunk_by(|a, b| bucket(*a) == bucket(*b));
        rows.map(|row| (row.first().map_or(WHOLE, |trigram| bucket(*trigram)), self.encode(row))).collect()
    }

    /// The postings of some trigrams, which are in ascending order.
    fn encode(&self, trigrams: &[u32]) -> Vec<u8> {
        let mut encoder = Encoder::default();
        let mut offsets = Vec::new();
        for trigram in trigrams {
            offsets.clear();
            offsets.extend(self.offsets(*trigram));
            // Calls that end in a later block are added in the order of their ends.
            if !offsets.is_sorted() {
                offsets.sort_unstable();
            }
            encoder.add(*trigram, &offsets);
        }
        encoder.into_bytes()
    }

    fn offsets(&self, trigram: u32) -> impl Iterator<Item = u16> + '_ {
        let first = self.lists.get(&trigram).and_then(|list| self.entries.get(list.first as usize));
        std::iter::successors(first, |entry| self.entries.get(entry.next as usize)).map(|entry| entry.offset)
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
    let number = |bytes: &[u8]| bytes.iter().fold(0, |number, byte| number << 8 | u32::from(byte.to_ascii_lowercase()));
    text.as_bytes().windows(3).map(number)
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
