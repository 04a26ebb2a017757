//! "Did you mean": the known words nearest to an unknown one.

/// A longer word is no typing mistake, and comparing it would take long.
const WORD_MAX_CHARS: usize = 256;

/// Returns the closest word of `known`, if it is close enough to be a typing mistake.
pub fn nearest<'k>(word: &str, known: impl IntoIterator<Item = &'k str>) -> Option<&'k str> {
    closest(word, known, |candidate| candidate.chars(), 1).pop()
}

/// Returns the closest few of `known`, best first. `letters` spells a candidate.
///
/// Catalogs are long and agents may ask for anything, so most candidates are ruled out without measuring a distance.
pub(crate) fn closest<K: Copy + Ord, L: Iterator<Item = char>>(
    word: &str,
    known: impl IntoIterator<Item = K>,
    letters: impl Fn(K) -> L,
    count_max: usize,
) -> Vec<K> {
    let word: Vec<char> = word.chars().map(lower).take(WORD_MAX_CHARS + 1).collect();
    if word.len() > WORD_MAX_CHARS {
        return Vec::new();
    }
    let mut limit = (word.len() / 3).clamp(1, 3);
    let word_set = set_of(&word);
    let mut found: Vec<(usize, K)> = Vec::new();
    let mut other = Vec::new();
    let mut row = Vec::new();
    for candidate in known {
        other.clear();
        other.extend(letters(candidate).map(lower).take(word.len() + limit + 1));
        let other_set = set_of(&other);
        // One edit removes at most one letter and adds at most one.
        let differ = |a: u64, b: u64| (a & !b).count_ones() as usize > limit;
        if word.len().abs_diff(other.len()) > limit || differ(word_set, other_set) || differ(other_set, word_set) {
            continue;
        }
        if let Some(distance) = distance_within(&word, &other, limit, &mut row) {
            found.push((distance, candidate));
            found.sort_unstable();
            found.truncate(count_max);
            // With enough results, further candidates must be at least as close as the last of them.
            limit = found.last().filter(|_| found.len() == count_max).map_or(limit, |(distance, _)| *distance);
        }
    }
    found.into_iter().map(|(_, candidate)| candidate).collect()
}

fn lower(letter: char) -> char {
    if letter.is_ascii() { letter.to_ascii_lowercase() } else { letter.to_lowercase().next().unwrap_or(letter) }
}

/// Returns the set of letters that occur, as bits. Several letters share a bit.
fn set_of(letters: &[char]) -> u64 {
    letters.iter().fold(0, |set, letter| set | 1 << (u32::from(*letter) % 64))
}

/// Returns the Levenshtein distance in characters, or `None` if it is above the limit.
fn distance_within(mut a: &[char], mut b: &[char], limit: usize, row: &mut Vec<usize>) -> Option<usize> {
    while let ([x, a_rest @ ..], [y, b_rest @ ..]) = (a, b)
        && x == y
    {
        (a, b) = (a_rest, b_rest);
    }
    while let ([a_rest @ .., x], [b_rest @ .., y]) = (a, b)
        && x == y
    {
        (a, b) = (a_rest, b_rest);
    }
    row.clear();
    row.extend(0..=b.len());
    for (i, from) in a.iter().enumerate() {
        // Further than the limit from the diagonal, every distance is above the limit.
        let start = (i + 1).saturating_sub(limit).max(1);
        let (before, cells) = row.get_mut(start - 1..)?.split_first_mut()?;
        let mut left = if start == 1 { i + 1 } else { limit + 1 };
        let mut diagonal = std::mem::replace(before, left);
        let mut least = left;
        for (cell, to) in cells.iter_mut().zip(b.get(start - 1..)?).take(i + 2 + limit - start) {
            left = (diagonal + usize::from(from != to)).min(*cell + 1).min(left + 1);
            diagonal = std::mem::replace(cell, left);
            least = least.min(left);
        }
        if least > limit {
            return None;
        }
    }
    row.last().copied().filter(|distance| *distance <= limit)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn finds_slips_only() {
        let known = ["intent_declaration", "mcpServers", "listen", "args"];
        let check = |word: &str, expected: Option<&str>| assert_eq!(nearest(word, known), expected, "{word}");
        check("intent_declartion", Some("intent_declaration"));
        check("mcpservers", Some("mcpServers"));
        check("lisen", Some("listen"));
        check("arg", Some("args"));
        check("approved", None);
        check("", None);
        check(&"a".repeat(1_000_000), None);
    }

    #[test]
    fn the_best_come_first_and_equals_by_name() {
        let known = ["list_c", "list_b", "lists_a", "list_ab", "list_a", "delete"];
        assert_eq!(closest("list_a", known, |known| known.chars(), 3), ["list_a", "list_ab", "list_b"]);
        assert_eq!(closest("nothing", known, |known| known.chars(), 3), Vec::<&str>::new());
    }

    /// The textbook definition, without shortcuts.
    fn distance(a: &[char], b: &[char]) -> usize {
        match (a, b) {
            ([], rest) | (rest, []) => rest.len(),
            ([x, a_rest @ ..], [y, b_rest @ ..]) => {
                let kept = distance(a_rest, b_rest) + usize::from(x != y);
                kept.min(distance(a_rest, b) + 1).min(distance(a, b_rest) + 1)
            }
        }
    }

    proptest! {
        #[test]
        fn short_cuts_change_nothing(word in "[abB]{0,7}", known in "[abcé]{0,7}") {
            let letters = |text: &str| text.chars().map(lower).collect::<Vec<char>>();
            let is_near = distance(&letters(&word), &letters(&known)) <= (word.len() / 3).clamp(1, 3);
            prop_assert_eq!(nearest(&word, [known.as_str()]).is_some(), is_near);
        }

        #[test]
        fn the_few_are_those_of_a_whole_sort(word in "[ab]{3,7}", known in proptest::collection::vec("[ab]{2,7}", 0..12)) {
            let letters = |text: &str| text.chars().collect::<Vec<char>>();
            let mut all: Vec<(usize, &str)> =
                known.iter().map(|known| (distance(&letters(&word), &letters(known)), known.as_str())).collect();
            all.retain(|(distance, _)| *distance <= word.len() / 3);
            all.sort_unstable();
            let expected: Vec<&str> = all.into_iter().take(3).map(|(_, known)| known).collect();
            prop_assert_eq!(closest(&word, known.iter().map(String::as_str), |known| known.chars(), 3), expected);
        }
    }
}
