//! Finds about 90 trigger words in one pass over a text, ignoring case.
//!
//! Each word is represented by an anchor, its rarest three bytes in a row. Three tables hold, for every byte value, the
//! set of anchors that have it as their first, second or third byte. Three lookups and two `and` rule out nearly every
//! position. Only the rest is compared in full.
//!
//! Why not an Aho-Corasick automaton? In an automaton each step waits for the state before it. Here positions do not
//! depend on each other, so a processor works on several at once. Measured with `aho-corasick` 1.1 (DFA, overlapping
//! matches, same results), both inputs take twice the time. Arguments of 200 bytes take 4,149 instead of 2,117
//! instructions, and prose of 64 KiB 1.25 million instead of 0.43 million. The automaton wins only where every second
//! word is a trigger.

/// Trigger words, sorted into sets by their anchors.
pub(super) struct TriggerSearch<K> {
    /// For each of the three anchor bytes and each byte value: the sets that it can belong to, as bits.
    tables: [[u64; 256]; 3],
    sets: Vec<Vec<TriggerWord<K>>>,
}

struct TriggerWord<K> {
    word: &'static str,
    /// Offset of the anchor in the word.
    anchor: usize,
    kind: K,
}

/// An occurrence of a trigger word.
pub(super) struct TriggerMatch<K> {
    pub(super) start: usize,
    pub(super) end: usize,
    pub(super) kind: K,
}

/// The space and the letters, from the most common to the rarest. All other bytes count as rare.
const COMMON: &[u8] = b" etaoinsrhldcumfpgwybvkxjqz";

const SETS_MAX: usize = 64;

impl<K: Copy> TriggerSearch<K> {
    /// Builds the tables. Every word must have at least three bytes.
    pub(super) fn new(words: impl IntoIterator<Item = (&'static str, K)>) -> Self {
        let mut tables = [[0; 256]; 3];
        let mut anchors: Vec<String> = Vec::new();
        let mut sets: Vec<Vec<TriggerWord<K>>> = Vec::new();
        for (word, kind) in words {
            let (anchor, bytes) = rarest(word);
            let found = anchors.iter().position(|known| *known == bytes);
            let number = found.unwrap_or_else(|| {
                anchors.push(bytes.clone());
                anchors.len() - 1
            }) % SETS_MAX;
            if number == sets.len() {
                sets.push(Vec::new());
            }
            for (table, byte) in tables.iter_mut().zip(bytes.bytes()) {
                for byte in [byte, byte.to_ascii_uppercase()] {
                    if let Some(bits) = table.get_mut(usize::from(byte)) {
                        *bits |= 1 << number;
                    }
                }
            }
            if let Some(set) = sets.get_mut(number) {
                set.push(TriggerWord { word, anchor, kind });
            }
        }
        Self { tables, sets }
    }

    /// Calls `found` for every occurrence, in the order of the anchors.
    pub(super) fn each(&self, text: &str, mut found: impl FnMut(TriggerMatch<K>)) {
        let bytes = text.as_bytes();
        let mut at = 0;
        // Eight positions at a time, with one branch for all of them.
        while let Some([a, b, c, d, e, f, g, h, i, j]) = bytes.get(at..).and_then(|rest| rest.first_chunk()) {
            let places = [
                self.sets_at(*a, *b, *c),
                self.sets_at(*b, *c, *d),
                self.sets_at(*c, *d, *e),
                self.sets_at(*d, *e, *f),
                self.sets_at(*e, *f, *g),
                self.sets_at(*f, *g, *h),
                self.sets_at(*g, *h, *i),
                self.sets_at(*h, *i, *j),
            ];
            if places.iter().fold(0, |all, sets| all | sets) != 0 {
                for (place, sets) in places.into_iter().enumerate() {
                    self.compare(bytes, at + place, sets, &mut found);
                }
            }
            at += 8;
        }
        for (place, window) in bytes.get(at..).unwrap_or_default().windows(3).enumerate() {
            if let [a, b, c] = window {
                self.compare(bytes, at + place, self.sets_at(*a, *b, *c), &mut found);
            }
        }
    }

    /// Returns the sets whose words may have these three bytes as their anchor.
    fn sets_at(&self, a: u8, b: u8, c: u8) -> u64 {
        let [first, second, third] = &self.tables;
        let sets = |table: &[u64; 256], byte: u8| table.get(usize::from(byte)).copied().unwrap_or(0);
        sets(first, a) & sets(second, b) & sets(third, c)
    }

    /// Compares the words of some sets with the text around `at`.
    fn compare(&self, bytes: &[u8], at: usize, mut sets: u64, found: &mut impl FnMut(TriggerMatch<K>)) {
        while sets != 0 {
            let set = self.sets.get(sets.trailing_zeros() as usize);
            sets &= sets - 1;
            for word in set.into_iter().flatten() {
                if let Some(start) = at.checked_sub(word.anchor)
                    && let Some(there) = bytes.get(start..start + word.word.len())
                    && there.eq_ignore_ascii_case(word.word.as_bytes())
                {
                    found(TriggerMatch { start, end: start + word.word.len(), kind: word.kind });
                }
            }
        }
    }
}

/// Returns the anchor of a word, in lower case, and its offset.
fn rarest(word: &str) -> (usize, String) {
    let word = word.to_ascii_lowercase();
    let weight = |byte: &u8| match COMMON.iter().position(|common| common == byte) {
        // Roughly Zipf's law: the space makes up a fifth of a text, `z` a thousandth.
        Some(rank) => 200 / (rank + 3),
        None => 6,
    };
    let windows = word.as_bytes().windows(3).enumerate();
    let best = windows.min_by_key(|(_, bytes)| bytes.iter().map(weight).product::<usize>());
    best.map_or((0, word.clone()), |(at, bytes)| (at, String::from_utf8_lossy(bytes).into_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hits(words: &[&'static str], text: &str) -> Vec<(usize, usize)> {
        let search = TriggerSearch::new(words.iter().map(|word| (*word, ())));
        let mut found = Vec::new();
        search.each(text, |hit| found.push((hit.start, hit.end)));
        found
    }

    #[test]
    fn finds_words_in_any_case_where_they_overlap_and_at_both_ends() {
        assert_eq!(hits(&["token"], "Token tokens TOKEN toke"), [(0, 5), (6, 11), (13, 18)]);
        assert_eq!(hits(&["abcd", "bcde"], "abcde"), [(0, 4), (1, 5)]);
        assert_eq!(hits(&["://"], "a://b"), [(1, 4)]);
        assert_eq!(hits(&["://"], "://"), [(0, 3)]);
        assert_eq!(hits(&["token"], "to"), []);
    }

    #[test]
    fn more_words_than_sets_are_all_found() {
        let words: Vec<&'static str> =
            (0..100).map(|number| &*Box::leak(format!("{number:03}{number:03}").into_boxed_str())).collect();
        for word in &words {
            assert!(hits(&words, &format!("x{word}")).contains(&(1, 7)), "{word}");
        }
    }
}
