//! Finds words that are spelled almost like another: at most one or two letters differ.
//!
//! Computing the distance to every word would take milliseconds with 100,000 tools. So words are grouped by length, and
//! each has its letters as bits. One instruction per word rules out nearly all of them: a word at distance 1 differs in
//! at most two bits. Only the few that are left are compared letter by letter.

/// Longer words are no typing mistakes.
const LETTERS_MAX: usize = 24;
/// Shorter words are left alone: too many others are near.
const LETTERS_MIN: usize = 4;
/// From this length on, two mistakes are allowed.
const LONG_LETTERS: usize = 8;

/// Words by length, each with its letters.
#[derive(Debug, Default)]
pub(super) struct SpellingList {
    /// Where the words of each length end.
    ends: Vec<u32>,
    words: Vec<ListedWord>,
}

#[derive(Clone, Copy, Debug, Default)]
struct ListedWord {
    letters: u32,
    number: u32,
}

impl SpellingList {
    /// Makes a list of the words that consist of lower-case ASCII letters. The others are ignored.
    pub(super) fn of<'a>(words: impl Iterator<Item = (u32, &'a str)> + Clone) -> Self {
        let plain = words.filter(|(_, word)| is_plain(word));
        let mut starts = [0_u32; LETTERS_MAX + 2];
        for (_, word) in plain.clone() {
            starts.get_mut(word.len() + 1).into_iter().for_each(|count| *count += 1);
        }
        let mut total = 0;
        for start in &mut starts {
            total += *start;
            *start = total;
        }
        let mut list = Self { ends: Vec::new(), words: vec![ListedWord::default(); total as usize] };
        for (number, word) in plain {
            let Some(next) = starts.get_mut(word.len()) else { continue };
            if let Some(place) = list.words.get_mut(*next as usize) {
                *place = ListedWord { letters: letters(word), number };
            }
            *next += 1;
        }
        list.ends = starts.to_vec();
        list
    }

    /// Visits the words that may be near a word. Their distance is still to be computed.
    pub(super) fn near(&self, word: &str, mut visit: impl FnMut(u32)) {
        let Some(limit) = mistakes_max(word) else { return };
        let wanted = letters(word);
        // One mistake removes at most one letter and adds at most one.
        let bits_max = 2 * limit as u32;
        let end = |length: usize| self.ends.get(length).map_or(self.words.len(), |end| *end as usize);
        let (shortest, longest) = (word.len().saturating_sub(limit), word.len() + limit);
        let range = shortest.checked_sub(1).map_or(0, end)..end(longest.min(LETTERS_MAX));
        for listed in self.words.get(range).unwrap_or_default() {
            if (listed.letters ^ wanted).count_ones() <= bits_max {
                visit(listed.number);
            }
        }
    }
}

/// Returns the letters that occur in a word, as bits.
fn letters(word: &str) -> u32 {
    word.bytes().fold(0, |letters, byte| letters | 1 << (byte.wrapping_sub(b'a') & 31))
}

fn is_plain(word: &str) -> bool {
    word.len() <= LETTERS_MAX && !word.is_empty() && word.bytes().all(|byte| byte.is_ascii_lowercase())
}

/// Returns how many mistakes a word may have, or `None` if it cannot be a misspelled word.
pub(super) fn mistakes_max(word: &str) -> Option<usize> {
    match word.len() {
        _ if !is_plain(word) => None,
        LETTERS_MIN..LONG_LETTERS => Some(1),
        LONG_LETTERS..=LETTERS_MAX => Some(2),
        _ => None,
    }
}

/// Returns the number of letters to insert, remove, replace, or swap with their neighbour to get from one word to the
/// other. Returns `None` if there are more than `limit`.
pub(super) fn distance(one: &str, other: &str, limit: usize) -> Option<usize> {
    let (one, other) = (one.as_bytes(), other.as_bytes());
    if one.len().abs_diff(other.len()) > limit || other.len() > 2 * LETTERS_MAX {
        return None;
    }
    let mut rows = [[0_usize; 2 * LETTERS_MAX + 1]; 3];
    let [mut before, mut row, mut next] = rows.each_mut();
    row.iter_mut().enumerate().for_each(|(at, cell)| *cell = at);
    let mut last = 0;
    for (at, letter) in one.iter().enumerate() {
        let mut left = at + 1;
        let mut least = left;
        next[0] = left;
        let mut previous = 0;
        let columns = other.iter().zip(row.windows(2)).zip(next.iter_mut().skip(1));
        for (column, ((with, above), cell)) in columns.enumerate() {
            let [diagonal, above] = above else { continue };
            let mut best = (diagonal + usize::from(letter != with)).min(above + 1).min(left + 1);
            if at > 0 && column > 0 && *letter == previous && last == *with {
                best = best.min(before.get(column - 1).map_or(best, |swapped| swapped + 1));
            }
            *cell = best;
            left = best;
            least = least.min(best);
            previous = *with;
        }
        if least > limit {
            return None;
        }
        last = *letter;
        (before, row, next) = (row, next, before);
    }
    row.get(other.len()).copied().filter(|distance| *distance <= limit)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn slips_count_once() {
        for (one, other, expected) in [
            ("issue", "issue", Some(0)),
            ("isseu", "issue", Some(1)),
            ("isue", "issue", Some(1)),
            ("issuee", "issue", Some(1)),
            ("ossue", "issue", Some(1)),
            ("sisue", "issue", Some(1)),
            ("calnedar", "calendar", Some(1)),
            ("clandar", "calendar", Some(2)),
            ("weather", "issue", None),
            ("", "ab", Some(2)),
            ("ab", "", Some(2)),
            ("", "", Some(0)),
        ] {
            assert_eq!(distance(one, other, 2), expected, "{one} {other}");
        }
        assert_eq!(distance("clandar", "calendar", 1), None);
        assert_eq!(distance(&"a".repeat(1_000), &"a".repeat(999), 2), None);
    }

    #[test]
    fn short_long_and_odd_words_are_left_alone() {
        assert_eq!(
            ["a", "get", "isue", "calndar", "calenndar"].map(mistakes_max),
            [None, None, Some(1), Some(1), Some(2)]
        );
        assert_eq!(["s3bucket", "Issue", "größe", "搜索文件", ""].map(mistakes_max), [None; 5]);
        assert_eq!(mistakes_max(&"a".repeat(LETTERS_MAX + 1)), None);
    }

    /// The textbook definition of the restricted Damerau-Levenshtein distance.
    fn textbook(one: &[u8], other: &[u8]) -> usize {
        match (one, other) {
            ([], rest) | (rest, []) => rest.len(),
            ([a, one_rest @ ..], [b, other_rest @ ..]) => {
                let kept = textbook(one_rest, other_rest) + usize::from(a != b);
                let best = kept.min(textbook(one_rest, other) + 1).min(textbook(one, other_rest) + 1);
                match (one_rest, other_rest) {
                    ([c, one_rest @ ..], [d, other_rest @ ..]) if a == d && b == c => {
                        best.min(textbook(one_rest, other_rest) + 1)
                    }
                    _ => best,
                }
            }
        }
    }

    proptest! {
        #[test]
        fn the_distance_is_that_of_the_textbook(one in "[abc]{0,6}", other in "[abc]{0,6}") {
            let expected = Some(textbook(one.as_bytes(), other.as_bytes())).filter(|distance| *distance <= 2);
            prop_assert_eq!(distance(&one, &other, 2), expected);
        }

        #[test]
        fn no_near_word_is_ruled_out(words in prop::collection::vec("[a-e]{1,10}", 0..40), word in "[a-e]{1,10}") {
            let numbered = words.iter().zip(0..).map(|(word, number)| (number, word.as_str()));
            let list = SpellingList::of(numbered);
            let mut seen = Vec::new();
            list.near(&word, |number| seen.push(number as usize));
            for (number, other) in words.iter().enumerate() {
                let is_near = mistakes_max(&word).is_some_and(|limit| distance(&word, other, limit).is_some());
                prop_assert!(!is_near || seen.contains(&number), "{} {}", word, other);
            }
        }
    }
}
