//! Stems English words, so that `creating`, `creates` and `created` are the same.

/// The English stemmer of Snowball 3 ("Porter 2"). Words must be ASCII letters in lower case.
pub(super) fn stem(word: &mut Vec<u8>) {
    if let Some(stem) = exception(word) {
        word.clear();
        word.extend_from_slice(stem.as_bytes());
        return;
    }
    if word.len() < 3 {
        return;
    }
    mark_consonants(word);
    let (first, second) = regions(word);
    let mut stemmer = Stemmer { word, first, second };
    stemmer.plural();
    stemmer.past_and_progressive();
    stemmer.final_y();
    stemmer.replace(DOUBLE_SUFFIXES);
    stemmer.replace(SUFFIXES);
    stemmer.remove();
    stemmer.final_e_and_l();
    word.make_ascii_lowercase();
}

fn exception(word: &[u8]) -> Option<&'static str> {
    Some(match word {
        b"andes" => "andes",
        b"atlas" => "atlas",
        b"bias" => "bias",
        b"cosmos" => "cosmos",
        b"early" => "earli",
        b"gently" => "gentl",
        b"howe" => "howe",
        b"idly" => "idl",
        b"news" => "news",
        b"only" => "onli",
        b"singly" => "singl",
        b"skies" | b"sky" => "sky",
        b"skis" => "ski",
        b"ugly" => "ugli",
        _ => return None,
    })
}

/// Prefixes after which the first region starts, so that `universe` and `university` keep different stems.
const PREFIXES: &[&str] = &["arsen", "commun", "emerg", "gener", "inter", "later", "organ", "past", "univers"];

/// Suffixes that are replaced within the first region. Longer ones come first, because the longest match decides.
const DOUBLE_SUFFIXES: &[(&str, SuffixChange)] = &[
    ("ational", SuffixChange::Into("ate")),
    ("ization", SuffixChange::Into("ize")),
    ("iveness", SuffixChange::Into("ive")),
    ("fulness", SuffixChange::Into("ful")),
    ("ousness", SuffixChange::Into("ous")),
    ("lessli", SuffixChange::Into("less")),
    ("biliti", SuffixChange::Into("ble")),
    ("tional", SuffixChange::Into("tion")),
    ("fulli", SuffixChange::Into("ful")),
    ("ousli", SuffixChange::Into("ous")),
    ("entli", SuffixChange::Into("ent")),
    ("aliti", SuffixChange::Into("al")),
    ("iviti", SuffixChange::Into("ive")),
    ("alism", SuffixChange::Into("al")),
    ("ation", SuffixChange::Into("ate")),
    ("ogist", SuffixChange::Into("og")),
    ("anci", SuffixChange::Into("ance")),
    ("enci", SuffixChange::Into("ence")),
    ("abli", SuffixChange::Into("able")),
    ("alli", SuffixChange::Into("al")),
    ("izer", SuffixChange::Into("ize")),
    ("ator", SuffixChange::Into("ate")),
    ("ogi", SuffixChange::After(b"l", "og")),
    ("bli", SuffixChange::Into("ble")),
    ("li", SuffixChange::After(b"cdeghkmnrt", "")),
];

const SUFFIXES: &[(&str, SuffixChange)] = &[
    ("ational", SuffixChange::Into("ate")),
    ("tional", SuffixChange::Into("tion")),
    ("icate", SuffixChange::Into("ic")),
    ("ative", SuffixChange::InSecond),
    ("alize", SuffixChange::Into("al")),
    ("iciti", SuffixChange::Into("ic")),
    ("ical", SuffixChange::Into("ic")),
    ("ness", SuffixChange::Into("")),
    ("ful", SuffixChange::Into("")),
];

/// Suffixes that are removed within the second region.
const REMOVED: &[&str] = &[
    "ement", "ance", "ence", "able", "ible", "ment", "ate", "ive", "ize", "iti", "ism", "ion", "ous", "ant", "ent",
    "ic", "al", "er",
];

#[derive(Clone, Copy)]
enum SuffixChange {
    Into(&'static str),
    /// Only after one of these letters.
    After(&'static [u8], &'static str),
    /// Removed, and only in the second region.
    InSecond,
}

/// A word that is being stemmed. A `y` that is a consonant is upper case until the end.
struct Stemmer<'a> {
    word: &'a mut Vec<u8>,
    /// Start of the first region: after the first consonant that follows a vowel.
    first: usize,
    /// The same within the first region.
    second: usize,
}

impl Stemmer<'_> {
    fn plural(&mut self) {
        if self.word.ends_with(b"sses") {
            self.cut(2);
        } else if self.word.ends_with(b"ies") || self.word.ends_with(b"ied") {
            self.cut(if self.word.len() > 4 { 2 } else { 1 });
        } else if self.word.ends_with(b"s")
            && !self.word.ends_with(b"ss")
            && !self.word.ends_with(b"us")
            && has_vowel(self.before(2))
        {
            self.cut(1);
        }
    }

    fn past_and_progressive(&mut self) {
        let Some(suffix) = ["eedly", "ingly", "edly", "eed", "ing", "ed"].iter().find(|suffix| self.ends(suffix))
        else {
            return;
        };
        let base = self.before(suffix.len());
        if suffix.starts_with("ee") {
            let is_whole = [&b"succ"[..], b"proc", b"exc"].contains(&base);
            if base.len() >= self.first && !is_whole {
                self.cut(suffix.len() - 2);
            }
            return;
        }
        if *suffix == "ing" {
            if let [start, b'y'] = base
                && !is_vowel(*start)
            {
                self.cut("ying".len());
                self.word.extend_from_slice(b"ie");
                return;
            }
            if [&b"even"[..], b"cann", b"inn", b"earr", b"herr", b"out"].contains(&base) {
                return;
            }
        }
        if has_vowel(base) {
            self.cut(suffix.len());
            self.mend();
        }
    }

    /// Restores a missing `e` after `ed` and `ing`, or removes a doubled consonant.
    fn mend(&mut self) {
        match self.word.as_slice() {
            [.., b'a', b't'] | [.., b'b', b'l'] | [.., b'i', b'z'] => self.word.push(b'e'),
            [b'a' | b'e' | b'o', one, two] if is_double(*one, *two) => {}
            [.., one, two] if is_double(*one, *two) => self.cut(1),
            word if word.len() == self.first && ends_short(word) => self.word.push(b'e'),
            _ => {}
        }
    }

    fn final_y(&mut self) {
        if let [_, .., before, y @ (b'y' | b'Y')] = self.word.as_mut_slice()
            && !is_vowel(*before)
        {
            *y = b'i';
        }
    }

    fn replace(&mut self, table: &[(&str, SuffixChange)]) {
        let Some((suffix, change)) = table.iter().find(|(suffix, _)| self.ends(suffix)) else { return };
        let base = self.before(suffix.len());
        let into = match change {
            SuffixChange::Into(into) => Some(*into),
            SuffixChange::After(letters, into) => {
                base.last().is_some_and(|last| letters.contains(last)).then_some(*into)
            }
            SuffixChange::InSecond => (base.len() >= self.second).then_some(""),
        };
        if let Some(into) = into
            && base.len() >= self.first
        {
            self.cut(suffix.len());
            self.word.extend_from_slice(into.as_bytes());
        }
    }

    fn remove(&mut self) {
        let Some(suffix) = REMOVED.iter().find(|suffix| self.ends(suffix)) else { return };
        let base = self.before(suffix.len());
        if base.len() >= self.second && (*suffix != "ion" || matches!(base, [.., b's' | b't'])) {
            self.cut(suffix.len());
        }
    }

    fn final_e_and_l(&mut self) {
        let base = self.before(1);
        let is_cut = match self.word.as_slice() {
            [.., b'e'] => base.len() >= self.second || (base.len() >= self.first && !ends_short(base)),
            [.., b'l', b'l'] => base.len() >= self.second,
            _ => false,
        };
        if is_cut {
            self.cut(1);
        }
    }

    /// Compares the last letter first. It nearly always decides, and comparing slices is a function call.
    fn ends(&self, suffix: &str) -> bool {
        self.word.last() == suffix.as_bytes().last() && self.word.ends_with(suffix.as_bytes())
    }

    /// Returns all but the last letters.
    fn before(&self, letters: usize) -> &[u8] {
        self.word.get(..self.word.len().saturating_sub(letters)).unwrap_or_default()
    }

    fn cut(&mut self, letters: usize) {
        self.word.truncate(self.word.len().saturating_sub(letters));
    }
}

/// Marks each `y` at the start or after a vowel as a consonant.
fn mark_consonants(word: &mut [u8]) {
    let mut after_vowel = true;
    for letter in word {
        if *letter == b'y' && after_vowel {
            *letter = b'Y';
        }
        after_vowel = is_vowel(*letter);
    }
}

fn regions(word: &[u8]) -> (usize, usize) {
    let after = |start: usize| {
        let rest = word.get(start..).unwrap_or_default();
        let vowel = rest.iter().position(|letter| is_vowel(*letter))?;
        let consonant = rest.iter().skip(vowel).position(|letter| !is_vowel(*letter))?;
        Some(start + vowel + consonant + 1)
    };
    let starts = |prefix: &&&str| word.first() == prefix.as_bytes().first() && word.starts_with(prefix.as_bytes());
    let prefix = PREFIXES.iter().find(starts);
    let Some(first) = prefix.map(|prefix| prefix.len()).or_else(|| after(0)) else { return (word.len(), word.len()) };
    (first, after(first).unwrap_or(word.len()))
}

fn is_vowel(letter: u8) -> bool {
    matches!(letter, b'a' | b'e' | b'i' | b'o' | b'u' | b'y')
}

fn has_vowel(letters: &[u8]) -> bool {
    letters.iter().any(|letter| is_vowel(*letter))
}

fn is_double(one: u8, two: u8) -> bool {
    one == two && matches!(one, b'b' | b'd' | b'f' | b'g' | b'm' | b'n' | b'p' | b'r' | b't')
}

/// Returns true if the word ends in a short syllable, which takes an `e`.
fn ends_short(word: &[u8]) -> bool {
    match word {
        [vowel, last] => is_vowel(*vowel) && !is_vowel(*last),
        [.., before, vowel, last] => {
            (!is_vowel(*before) && is_vowel(*vowel) && !is_vowel(*last) && !matches!(last, b'w' | b'x' | b'Y'))
                || word.ends_with(b"past")
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stemmed(word: &str) -> String {
        let mut word = word.as_bytes().to_vec();
        stem(&mut word);
        String::from_utf8(word).unwrap()
    }

    /// The file has words of real tools and others, with the stems of Snowball's own implementation.
    #[test]
    fn is_the_stemmer_of_snowball() {
        let pairs = include_str!("../../tests/data/stems.txt");
        let wrong: Vec<String> = pairs
            .lines()
            .filter_map(|line| {
                let (word, expected) = line.split_once(' ').unwrap();
                let stem = stemmed(word);
                (stem != expected).then(|| format!("{word}: {stem}, not {expected}"))
            })
            .collect();
        assert!(pairs.lines().count() > 5_000);
        assert_eq!(wrong, Vec::<String>::new());
    }
}
