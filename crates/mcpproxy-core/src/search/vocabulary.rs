//! The tokens of the table: finds a token by its text, and a word by its stem.
//!
//! The texts stay in the program file, where their pages are shared and can be dropped. Only two small hash tables are
//! made at first use, with the number of a token in each slot. Maps of texts would take ten times the memory.

use std::borrow::Cow;
use std::sync::LazyLock;

use super::words::stemmed;

pub(super) static VOCABULARY: &str = include_str!("../../data/search/vocab.txt");

/// Length of the longest token in bytes.
const LONGEST: usize = 18;

/// The token at the start of a word, or a later one.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Place {
    Start,
    /// Written with `##` in the vocabulary.
    Later,
}

/// The number of each token.
pub(crate) struct TokenTable {
    /// The end of each token in the text of the vocabulary.
    ends: Vec<u32>,
    tokens: Slots,
}

pub(super) static TABLE: LazyLock<TokenTable> = LazyLock::new(TokenTable::read);

impl TokenTable {
    fn read() -> Self {
        let newlines = VOCABULARY.bytes().zip(0_u32..).filter(|(byte, _)| *byte == b'\n');
        let mut table = Self { ends: newlines.map(|(_, end)| end).collect(), tokens: Slots::default() };
        let mut tokens = Slots::for_numbers(table.ends.len());
        for number in 0..table.ends.len() as u16 {
            let (place, text) = table.token(number);
            tokens.place(hashes(place, text).last().unwrap_or_default(), |_| false, |_| true, number);
        }
        table.tokens = tokens;
        table
    }

    /// Returns a token without its `##`.
    fn token(&self, number: u16) -> (Place, &'static str) {
        let number = usize::from(number);
        let end = |number: usize| self.ends.get(number).map_or(0, |end| *end as usize);
        let start = number.checked_sub(1).map_or(0, |before| end(before) + 1);
        let line = VOCABULARY.get(start..end(number)).unwrap_or_default();
        match line.strip_prefix("##").filter(|rest| !rest.is_empty()) {
            Some(rest) => (Place::Later, rest),
            None => (Place::Start, line),
        }
    }

    /// Returns the longest token with which a text starts, and its length.
    pub(crate) fn longest(&self, place: Place, text: &str) -> Option<(u32, usize)> {
        let mut prefixes = [0; LONGEST];
        let mut count = 0;
        for (prefix, hash) in prefixes.iter_mut().zip(hashes(place, text)) {
            *prefix = hash;
            count += 1;
        }
        let prefixes = prefixes.get(..count)?.iter().enumerate().rev();
        prefixes.map(|(before, hash)| (before + 1, hash)).find_map(|(length, hash)| {
            // Between the bytes of a character, there is no prefix.
            let wanted = (place, text.get(..length)?);
            Some((self.tokens.find(*hash, |number| self.token(number) == wanted)?.into(), length))
        })
    }

    /// Returns `true` if a text in lower case is a word of the table as a whole.
    pub(crate) fn has_word(&self, text: &str) -> bool {
        self.longest(Place::Start, text).is_some_and(|(_, length)| length == text.len())
    }

    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.ends.len()
    }
}

/// Returns the tokens that are words of lower-case letters.
pub(super) fn plain_words() -> impl Iterator<Item = (u16, &'static str)> + Clone {
    let lines = (0..).zip(VOCABULARY.lines());
    lines.filter(|(_, token)| !token.is_empty() && token.bytes().all(|byte| byte.is_ascii_lowercase()))
}

/// Returns a token by its number.
pub(super) fn plain_word(number: u16) -> &'static str {
    TABLE.token(number).1
}

/// Returns the shortest word of the table with a stem, or the stem itself. The catalog is not used for this, so that
/// one server's words cannot change the meaning of another's.
pub(super) fn form(stem: &str) -> &str {
    let is_form = |number: u16| stemmed(plain_word(number)) == stem;
    FORMS.find(hash(stem), is_form).map_or(stem, |number| plain_word(number))
}

/// Returns `true` if the table has a word with this stem.
pub(super) fn has_stem(stem: &str) -> bool {
    FORMS.find(hash(stem), |number| stemmed(plain_word(number)) == stem).is_some()
}

static FORMS: LazyLock<Slots> = LazyLock::new(|| {
    let mut forms = Slots::for_numbers(plain_words().count());
    for (number, word) in plain_words() {
        let stem = stemmed(word);
        let is_form = |other: u16| stemmed(plain_word(other)) == stem;
        forms.place(hash(&stem), is_form, |other| word.len() < plain_word(other).len(), number);
    }
    forms
});

/// A hash table of numbers. What they stand for is stored elsewhere. A slot holds 16 bits of the hash before the
/// number, so that nearly every other entry is skipped without looking.
#[derive(Default)]
struct Slots(Vec<u32>);

/// A slot without a number. No vocabulary has this many tokens.
const EMPTY: u32 = u32::MAX;

impl Slots {
    fn for_numbers(count: usize) -> Self {
        Self(vec![EMPTY; (count * 2).next_power_of_two()])
    }

    fn slot(hash: u64, number: u16) -> u32 {
        let tag = (hash >> 48) as u32;
        tag << 16 | u32::from(number)
    }

    /// Returns the position of the wanted number, or of the free slot where it belongs.
    fn position(&self, hash: u64, is_wanted: impl Fn(u16) -> bool) -> Option<(usize, Option<u16>)> {
        let mask = self.0.len().wrapping_sub(1);
        let first = (hash ^ hash >> 32) as usize;
        let positions = (0..self.0.len()).map(|step| first.wrapping_add(step) & mask);
        positions.filter_map(|at| Some((at, *self.0.get(at)?))).find_map(|(at, slot)| {
            let number = slot as u16;
            match slot {
                EMPTY => Some((at, None)),
                _ if slot == Self::slot(hash, number) && is_wanted(number) => Some((at, Some(number))),
                _ => None,
            }
        })
    }

    fn find(&self, hash: u64, is_wanted: impl Fn(u16) -> bool) -> Option<u16> {
        self.position(hash, is_wanted)?.1
    }

    /// Inserts a number, or replaces the one that is there if the new one is better.
    fn place(&mut self, hash: u64, is_same: impl Fn(u16) -> bool, is_better: impl Fn(u16) -> bool, number: u16) {
        let Some((at, known)) = self.position(hash, is_same) else { return };
        if let Some(slot) = self.0.get_mut(at).filter(|_| known.is_none_or(is_better)) {
            *slot = Self::slot(hash, number);
        }
    }
}

/// Computes the FNV-1a hash of every prefix of a text. Collisions are no risk, because all entries are our own.
fn hashes(place: Place, text: &str) -> impl Iterator<Item = u64> {
    let start = match place {
        Place::Start => 0xcbf2_9ce4_8422_2325,
        Place::Later => 0x8422_2325_cbf2_9ce4,
    };
    text.bytes().scan(start, |hash: &mut u64, byte| {
        *hash = (*hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        Some(*hash)
    })
}

fn hash(text: &str) -> u64 {
    hashes(Place::Start, text).last().unwrap_or_default()
}

/// Returns the lower-case form of an ASCII word.
pub(super) fn lowered(word: &str) -> Cow<'_, str> {
    match word.bytes().any(|byte| byte.is_ascii_uppercase()) {
        true => word.to_ascii_lowercase().into(),
        false => word.into(),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use super::*;

    #[test]
    fn every_token_is_found_and_nothing_else() {
        let lines: Vec<&str> = VOCABULARY.lines().collect();
        assert_eq!(lines.len(), TABLE.len());
        assert!(lines.len() < usize::from(u16::MAX), "numbers have 16 bits");
        let bare = |line: &&&str| line.strip_prefix("##").unwrap_or(line).len();
        assert_eq!(lines.iter().max_by_key(bare).map(|line| bare(&line)), Some(LONGEST));
        for (number, line) in (0..).zip(lines) {
            let (place, text) = match line.strip_prefix("##") {
                Some(rest) if !rest.is_empty() => (Place::Later, rest),
                _ => (Place::Start, line),
            };
            assert_eq!(TABLE.longest(place, text), Some((number, text.len())), "{line}");
        }
        assert_eq!(TABLE.longest(Place::Start, "weatherqq"), TABLE.longest(Place::Start, "weather"));
        assert_eq!(TABLE.longest(Place::Start, "\u{1}"), None);
        assert_eq!(TABLE.longest(Place::Start, ""), None);
        assert!(TABLE.has_word("weather") && !TABLE.has_word("wether2") && !TABLE.has_word(""));
    }

    /// The textbook form: a map of stems.
    #[test]
    fn forms_are_the_shortest_words() {
        let mut forms: HashMap<String, &str> = HashMap::new();
        for (_, word) in plain_words() {
            let form = forms.entry(stemmed(word).into_owned()).or_insert(word);
            if word.len() < form.len() {
                *form = word;
            }
        }
        assert!(forms.len() > 10_000);
        for (stem, expected) in forms {
            assert_eq!(form(&stem), expected);
        }
        assert_eq!(form("kubernet"), "kubernet");
    }
}
