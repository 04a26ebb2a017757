//! Postings: for every trigram of a block, the records that contain it, as bytes.
//!
//! Trigrams are in ascending order. Each one is written as the difference to the one before, followed by its offsets.
//! An offset is the position of a record in its block, counted from 0. There are two forms, whichever is shorter:
//!
//! ```text
//! difference  length > 0  gaps of offsets         a list: the first offset, then the difference to the one before
//! difference  0           128 bytes               a bitmap of all 1,024 offsets
//! ```
//!
//! All numbers are LEB128: seven bits a byte, the lowest first. The length allows skipping a trigram without reading its
//! list, which a search does with nearly all of them. A list has at most 127 bytes, so a trigram takes at most 133.
//!
//! The bytes come from the database, which others can write. Malformed ones are an error, never a panic, and nothing is
//! allocated for what they claim.

/// Offsets in a block.
pub(crate) const OFFSETS: usize = 1024;
const WORDS: usize = OFFSETS / 64;
const BITMAP_BYTES: usize = OFFSETS / 8;
const TRIGRAM_MAX: u32 = 0xff_ffff;

/// The bytes are not postings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Malformed;

/// A set of offsets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Offsets([u64; WORDS]);

impl Offsets {
    pub(crate) const NONE: Self = Self([0; WORDS]);

    /// Leaves out an offset that no block has. Returns true if the offset is new.
    pub(crate) fn insert(&mut self, offset: u16) -> bool {
        let Some(word) = self.0.get_mut(usize::from(offset) / 64) else { return false };
        let before = *word;
        *word |= 1 << (offset % 64);
        *word != before
    }

    pub(crate) fn and(mut self, other: &Self) -> Self {
        self.0.iter_mut().zip(other.0).for_each(|(word, other)| *word &= other);
        self
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = u16> + '_ {
        let bits = |(begin, word): (u16, u64)| {
            let rest = std::iter::successors(Some(word), |word| Some(word & word.wrapping_sub(1)));
            // Each step clears the lowest bit.
            rest.take(word.count_ones() as usize).map(move |word| begin + word.trailing_zeros() as u16)
        };
        (0..).step_by(64).zip(self.0).flat_map(bits)
    }

    fn len(&self) -> usize {
        self.0.iter().map(|word| word.count_ones() as usize).sum()
    }

    fn insert_all(&mut self, bitmap: &[u8]) {
        for (word, bytes) in self.0.iter_mut().zip(bitmap.chunks_exact(8)) {
            *word |= bytes.iter().rev().fold(0, |word, byte| word << 8 | u64::from(*byte));
        }
    }

    fn to_bytes(self) -> impl Iterator<Item = u8> {
        self.0.into_iter().flat_map(u64::to_le_bytes)
    }
}

/// Writes postings, one trigram after the other.
#[derive(Default)]
pub(crate) struct Encoder {
    bytes: Vec<u8>,
    last: u32,
    /// The list of one trigram, before its length is known.
    list: Vec<u8>,
}

impl Encoder {
    /// Adds a trigram that is greater than those before, with its offsets in ascending order.
    pub(crate) fn add(&mut self, trigram: u32, offsets: &[u16]) {
        self.begin(trigram);
        let within = || offsets.iter().copied().filter(|offset| usize::from(*offset) < OFFSETS);
        if !self.write_list(within()) {
            let mut bitmap = Offsets::NONE;
            within().for_each(|offset| {
                bitmap.insert(offset);
            });
            self.write_bitmap(bitmap);
        }
    }

    /// As [`Self::add`], with a set of offsets.
    pub(crate) fn add_set(&mut self, trigram: u32, offsets: &Offsets) {
        self.begin(trigram);
        // Each offset of a list takes a byte or two.
        if offsets.len() >= BITMAP_BYTES || !self.write_list(offsets.iter()) {
            self.write_bitmap(*offsets);
        }
    }

    fn begin(&mut self, trigram: u32) {
        write_number(&mut self.bytes, trigram.wrapping_sub(self.last));
        self.last = trigram;
    }

    /// Writes offsets in ascending order as a list. Returns false, and writes nothing, if a bitmap is shorter.
    fn write_list(&mut self, offsets: impl Iterator<Item = u16>) -> bool {
        self.list.clear();
        let mut before = None;
        for offset in offsets {
            match before {
                Some(before) if before == offset => continue,
                Some(before) => write_number(&mut self.list, u32::from(offset.wrapping_sub(before))),
                None => write_number(&mut self.list, u32::from(offset)),
            }
            before = Some(offset);
        }
        let is_shorter = !self.list.is_empty() && self.list.len() < BITMAP_BYTES;
        if is_shorter {
            write_number(&mut self.bytes, u32::try_from(self.list.len()).unwrap_or(0));
            self.bytes.append(&mut self.list);
        }
        is_shorter
    }

    fn write_bitmap(&mut self, bitmap: Offsets) {
        self.bytes.push(0);
        self.bytes.extend(bitmap.to_bytes());
    }

    pub(crate) fn into_bytes(self) -> Vec<u8> {
        self.bytes
    }
}

/// Adds the offsets of each wanted trigram to its set. `wanted` is in ascending order, and `found` has as many sets.
pub(crate) fn find(mut bytes: &[u8], wanted: &[u32], found: &mut [Offsets]) -> Result<(), Malformed> {
    let mut wanted = wanted.iter().zip(found).peekable();
    let mut trigram = 0_u32;
    while !bytes.is_empty() {
        let difference = read_number(&mut bytes)?;
        trigram = trigram.checked_add(difference).filter(|trigram| *trigram <= TRIGRAM_MAX).ok_or(Malformed)?;
        let length = usize::try_from(read_number(&mut bytes)?).map_err(|_| Malformed)?;
        let (is_bitmap, length) = if length == 0 { (true, BITMAP_BYTES) } else { (false, length) };
        let (body, rest) = bytes.split_at_checked(length).ok_or(Malformed)?;
        bytes = rest;
        while wanted.next_if(|(wanted, _)| **wanted < trigram).is_some() {}
        match wanted.peek_mut() {
            None => return Ok(()),
            Some((wanted, offsets)) if **wanted == trigram => {
                if is_bitmap {
                    offsets.insert_all(body)
                } else {
                    insert_list(offsets, body)?
                }
            }
            Some(_) => {}
        }
    }
    Ok(())
}

fn insert_list(offsets: &mut Offsets, mut list: &[u8]) -> Result<(), Malformed> {
    let mut offset = 0_u32;
    while !list.is_empty() {
        offset = offset.checked_add(read_number(&mut list)?).ok_or(Malformed)?;
        let within = u16::try_from(offset).ok().filter(|offset| usize::from(*offset) < OFFSETS);
        let _repeated = offsets.insert(within.ok_or(Malformed)?);
    }
    Ok(())
}

fn write_number(bytes: &mut Vec<u8>, mut number: u32) {
    while number >= 0x80 {
        bytes.push((number & 0x7f) as u8 | 0x80);
        number >>= 7;
    }
    bytes.push(number as u8);
}

/// Reads at most four bytes, which is enough for a trigram.
fn read_number(bytes: &mut &[u8]) -> Result<u32, Malformed> {
    let mut number = 0;
    for shift in [0, 7, 14, 21] {
        let (byte, rest) = bytes.split_first().ok_or(Malformed)?;
        *bytes = rest;
        number |= u32::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return Ok(number);
        }
    }
    Err(Malformed)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    /// Numbers that look random, from a seed.
    fn random(seed: &mut u64) -> u64 {
        *seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        *seed >> 33
    }

    fn encode(pairs: &[(u32, u16)]) -> Vec<u8> {
        let mut encoder = Encoder::default();
        for pairs in pairs.chunk_by(|a, b| a.0 == b.0) {
            encoder.add(pairs[0].0, &pairs.iter().map(|(_, offset)| *offset).collect::<Vec<_>>());
        }
        encoder.into_bytes()
    }

    fn found(bytes: &[u8], wanted: &[u32]) -> Result<Vec<Vec<u16>>, Malformed> {
        let mut sets = vec![Offsets::NONE; wanted.len()];
        find(bytes, wanted, &mut sets)?;
        Ok(sets.iter().map(|set| set.iter().collect()).collect())
    }

    #[test]
    fn everything_that_was_written_is_found_and_nothing_else() {
        let mut seed = 1;
        for round in 0..200 {
            let mut expected: BTreeMap<u32, Vec<u16>> = BTreeMap::new();
            for _ in 0..random(&mut seed) % 40 {
                let trigram = if round % 2 == 0 { random(&mut seed) % 50 } else { random(&mut seed) & 0xff_ffff };
                let count = random(&mut seed) % if random(&mut seed).is_multiple_of(4) { 1024 } else { 9 };
                let offsets = (0..=count).map(|_| u16::try_from(random(&mut seed) % 1024).unwrap());
                expected.entry(u32::try_from(trigram).unwrap()).or_default().extend(offsets);
            }
            expected.values_mut().for_each(|offsets| offsets.sort_unstable());
            let pairs: Vec<(u32, u16)> = expected
                .iter()
                .flat_map(|(trigram, offsets)| offsets.iter().map(|offset| (*trigram, *offset)))
                .collect();
            let bytes = encode(&pairs);
            let mut by_sets = Encoder::default();
            for (trigram, offsets) in &expected {
                let mut set = Offsets::NONE;
                for offset in offsets {
                    set.insert(*offset);
                }
                assert!(set.iter().is_sorted() && set.iter().count() == set.len());
                by_sets.add_set(*trigram, &set);
            }
            assert_eq!(by_sets.into_bytes(), bytes);
            expected.values_mut().for_each(Vec::dedup);
            let all: Vec<u32> = expected.keys().copied().collect();
            assert_eq!(found(&bytes, &all).unwrap(), expected.values().cloned().collect::<Vec<_>>());
            let mut some: Vec<u32> = (0..8).map(|_| u32::try_from(random(&mut seed) % 60).unwrap()).collect();
            some.sort_unstable();
            some.dedup();
            let wanted: Vec<Vec<u16>> =
                some.iter().map(|trigram| expected.get(trigram).cloned().unwrap_or_default()).collect();
            assert_eq!(found(&bytes, &some).unwrap(), wanted);
        }
    }

    #[test]
    fn the_shorter_form_is_written() {
        let pairs = |offsets: std::ops::Range<u16>| offsets.map(|offset| (7, offset)).collect::<Vec<_>>();
        assert_eq!(encode(&pairs(0..0)), [0_u8; 0]);
        assert_eq!(encode(&pairs(3..5)), [7, 2, 3, 1]);
        assert_eq!(encode(&pairs(0..127)).len(), 2 + 127);
        assert_eq!(encode(&pairs(0..1024)).len(), 2 + 128);
        assert_eq!(encode(&[(0xff_ffff, 1023)]), [0xff, 0xff, 0xff, 0x07, 2, 0xff, 0x07]);
    }

    #[test]
    fn malformed_bytes_are_refused() {
        for bytes in [
            &[7][..],
            &[7, 3, 1],
            &[7, 0, 1],
            &[0xff, 0xff, 0xff, 0xff, 0x01],
            &[0xff, 0xff, 0xff, 0x0f, 1, 1],
            &[7, 2, 0xff, 0x08],
            &[7, 3, 0xff, 0x07, 1],
        ] {
            assert_eq!(found(bytes, &[7]), Err(Malformed), "{bytes:?}");
        }
    }

    #[test]
    fn random_bytes_are_read_or_refused() {
        let mut seed = 7;
        for _ in 0..20_000 {
            let length = random(&mut seed) % 64;
            let bytes: Vec<u8> = (0..length).map(|_| u8::try_from(random(&mut seed) % 256).unwrap()).collect();
            let read = found(&bytes, &[0, 1, 7, 200, 70_000]);
            assert!(read.is_err() || read.unwrap().iter().flatten().all(|offset| *offset < 1024));
        }
    }
}
