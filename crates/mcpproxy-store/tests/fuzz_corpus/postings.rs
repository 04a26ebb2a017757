//! Invariants of the postings of the search index, for any bytes.
//!
//! The bytes are read as postings, and compared with a plain reading of all of them. They are also taken as trigrams and
//! offsets, which must be found again after they were written. Lists and sets of offsets are written alike.

use std::collections::{BTreeMap, BTreeSet};

use crate::postings_code::{Encoder, OFFSETS, Offsets, find};

type Lists = BTreeMap<u32, BTreeSet<u16>>;

pub(crate) fn check(bytes: &[u8]) {
    match plain(bytes) {
        Some(lists) => assert_eq!(found(bytes, &lists), Some(lists), "{bytes:?}"),
        // Only the lists of wanted trigrams are read, so it may be read or not.
        None => drop(found(bytes, &[(0, BTreeSet::new()), (0x61_6263, BTreeSet::new())].into())),
    }
    let mut written = Lists::new();
    for chunk in bytes.chunks_exact(4) {
        let number = chunk.iter().fold(0_u32, |number, byte| number << 8 | u32::from(*byte));
        let offset = u16::try_from(number % 1024).unwrap_or(0);
        // Few trigrams with many offsets, and many with few.
        let trigram = if number & 0x8000_0000 == 0 { number >> 10 & 0xff_ffff } else { number >> 10 & 3 };
        written.entry(trigram).or_default().insert(offset);
    }
    let (mut lists, mut sets) = (Encoder::default(), Encoder::default());
    for (trigram, offsets) in &written {
        lists.add(*trigram, &offsets.iter().copied().collect::<Vec<_>>());
        let mut set = Offsets::NONE;
        for offset in offsets {
            assert!(set.insert(*offset), "{bytes:?}");
        }
        sets.add_set(*trigram, &set);
    }
    let encoded = lists.into_bytes();
    assert_eq!(sets.into_bytes(), encoded, "{bytes:?}");
    assert_eq!(found(&encoded, &written), Some(written), "{bytes:?}");
}

/// The offsets of these trigrams.
fn found(bytes: &[u8], wanted: &Lists) -> Option<Lists> {
    let wanted: Vec<u32> = wanted.keys().copied().collect();
    let mut sets = vec![Offsets::NONE; wanted.len()];
    find(bytes, &wanted, &mut sets).ok()?;
    Some(wanted.into_iter().zip(sets.iter().map(|set| set.iter().collect())).collect())
}

/// Reads everything, one byte after the other.
fn plain(bytes: &[u8]) -> Option<Lists> {
    let mut bytes = bytes.iter().copied();
    let mut lists = Lists::new();
    let mut trigram = 0;
    while bytes.len() > 0 {
        trigram += number(&mut bytes)?;
        let length = usize::try_from(number(&mut bytes)?).ok()?;
        let taken = if length == 0 { OFFSETS / 8 } else { length };
        if trigram > 0xff_ffff || bytes.len() < taken {
            return None;
        }
        let body: Vec<u8> = bytes.by_ref().take(taken).collect();
        let list = lists.entry(trigram).or_default();
        if length == 0 {
            let is_set =
                |offset: &u16| body.get(usize::from(offset / 8)).is_some_and(|byte| byte >> (offset % 8) & 1 == 1);
            list.extend((0..1024).filter(is_set));
            continue;
        }
        let (mut body, mut offset) = (body.into_iter(), 0);
        while body.len() > 0 {
            offset += number(&mut body)?;
            list.insert(u16::try_from(offset).ok().filter(|offset| usize::from(*offset) < OFFSETS)?);
        }
    }
    Some(lists)
}

fn number(bytes: &mut impl Iterator<Item = u8>) -> Option<u32> {
    let mut number = 0;
    for place in 0..4 {
        let byte = bytes.next()?;
        number += u32::from(byte % 128) * 128_u32.pow(place);
        if byte < 128 {
            return Some(number);
        }
    }
    None
}
