//! Corrects misspelled words of a query: a word that no tool has becomes the nearest word that some tool has.
//!
//! ```text
//! "craete an isseu"      create an issue
//! "calnedar evnets"      calendar events
//! ```
//!
//! A correct word must not become another one. So a word is left alone if a visible tool has it, or if the table of word
//! meanings or a group of synonyms has it in any form. Names are left alone, too: words with a capital that do not start
//! the query.
//! A typing mistake is one letter that is missing, superfluous, wrong or swapped with the next. Words of eight letters and
//! more may have two. People hardly ever mistype the first letter, except by swapping it with the second.
//!
//! There are two lists to correct from. The stems of the index have the words of the catalog, such as `kubernetes`. The
//! table has endings, which stems lack: `notificatoins` is far from the stem `notif`.
//!
//! Invariant: only words of visible tools are used, so that hidden tools leave no trace.

use std::borrow::Cow;
use std::cmp::Reverse;
use std::ops::Range;
use std::sync::LazyLock;

use crate::search::candidates::VisibleTools;
use crate::search::merged::MergedIndex;
use crate::search::query::{self, compounds};
use crate::search::spelling::{SpellingList, distance, mistakes_max};
use crate::search::synonyms;
use crate::search::vocabulary::{self, TABLE, lowered};
use crate::search::words::{StemmedWord, is_stop_word, stemmed, words};

/// Maximum number of words that are corrected. Each costs a walk over the vocabulary.
const TYPOS_MAX: usize = 6;

/// A possible correction: the number of mistakes, whether the table lacks the word, the number of tools that have it, and
/// the word. The smallest is the best. A server can put any word into many tools, but not into the table.
type Correction = (usize, bool, Reverse<usize>, String);

/// Returns the query with its misspelled words corrected.
pub(super) fn mend<'a>(text: &'a str, index: &MergedIndex, visible: &VisibleTools) -> Cow<'a, str> {
    let text = query::shortened(text);
    let all = words(text);
    let mut mended = String::new();
    let mut done = 0;
    let is_name = |at: usize, word: &StemmedWord<'_>| at > 0 && word.as_written.starts_with(|c: char| c.is_uppercase());
    let is_suspect = |at: usize, word: &StemmedWord<'_>| !is_name(at, word) && is_suspect(word, index, visible);
    let mut suspects = all.iter().enumerate().filter(|(at, word)| is_suspect(*at, word)).peekable();
    if suspects.peek().is_none() {
        return Cow::Borrowed(text);
    }
    let compounds = compounds(&all, index);
    for (at, word) in suspects.take(TYPOS_MAX) {
        let is_compound = |places: &Range<usize>, number: u32| places.contains(&at) && visible.count(index, number) > 0;
        if compounds.iter().any(|(places, number)| is_compound(places, *number)) {
            continue;
        }
        let start = query::start(text, word.as_written);
        if let Some(right) = correction(word, index, visible) {
            mended.push_str(text.get(done..start).unwrap_or_default());
            mended.push_str(&right);
            done = start + word.as_written.len();
        }
    }
    match done {
        0 => Cow::Borrowed(text),
        _ => Cow::Owned(mended + text.get(done..).unwrap_or_default()),
    }
}

/// Returns `true` for a word that no visible tool, no group of synonyms and not the table has, in any form.
fn is_suspect(word: &StemmedWord<'_>, index: &MergedIndex, visible: &VisibleTools) -> bool {
    let lowered = lowered(word.as_written);
    mistakes_max(&lowered).is_some()
        && index.word(&word.stem).is_none_or(|number| visible.count(index, number) == 0)
        && !TABLE.has_word(&lowered)
        && !vocabulary::has_stem(&word.stem)
        && synonyms::sense(&word.stem).is_none()
        && !is_stop_word(&word.stem)
}

/// Returns the nearest word that a visible tool has.
fn correction(word: &StemmedWord<'_>, index: &MergedIndex, visible: &VisibleTools) -> Option<String> {
    let written = lowered(word.as_written);
    let mut best: Option<Correction> = None;
    let mut offer = |typed: &str, known: &str, right: &str| {
        let Some(distance) = mistakes(typed, known) else { return };
        let stem = stemmed(right);
        let Some(number) = index.word(&stem) else { return };
        let tools = visible.count(index, number);
        let correction = (distance, !vocabulary::has_stem(&stem), Reverse(tools), right.to_owned());
        if tools > 0 && best.as_ref().is_none_or(|best| correction < *best) {
            best = Some(correction);
        }
    };
    index.spelling().near(&word.stem, |number| {
        let stem = index.stem(number);
        offer(&word.stem, stem, vocabulary::form(stem));
    });
    TABLE_SPELLING.near(&written, |number| {
        let known = vocabulary::plain_word(number as u16);
        offer(&written, known, known);
    });
    best.map(|(.., right)| right)
}

/// Counts the mistakes of a typed word. Returns `None` if the other word can hardly be meant.
fn mistakes(typed: &str, meant: &str) -> Option<usize> {
    let distance = distance(typed, meant, mistakes_max(typed)?)?;
    let starts_alike = match (typed.as_bytes(), meant.as_bytes()) {
        ([one, second, ..], [other, next, ..]) => one == other || (distance == 1 && one == next && second == other),
        _ => false,
    };
    // Most words of four letters have neighbours with another letter, and most of these are other words.
    let is_slip = typed.len() > SHORT_LETTERS || typed.len() < meant.len() || has_same_letters(typed, meant);
    (starts_alike && is_slip).then_some(distance)
}

/// In words up to this length, a letter can be missing or swapped, but not wrong.
const SHORT_LETTERS: usize = 4;

fn has_same_letters(one: &str, other: &str) -> bool {
    let sorted = |word: &str| {
        let mut letters = word.as_bytes().to_vec();
        letters.sort_unstable();
        letters
    };
    sorted(one) == sorted(other)
}

/// The words of the table, made when the first misspelled word comes.
static TABLE_SPELLING: LazyLock<SpellingList> =
    LazyLock::new(|| SpellingList::of(vocabulary::plain_words().map(|(number, word)| (number.into(), word))));

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Scope;
    use crate::search::Index;
    use crate::search::tests::guards::office;
    use crate::search::tests::{catalog, exact, find, names, only, tool};

    fn mended(index: &Index, query: &str) -> String {
        let visible = VisibleTools::of(&index.merged, &Scope::everything(), None);
        mend(query, &index.merged, &visible).into_owned()
    }

    #[test]
    fn misspelled_words_are_corrected_and_others_kept() {
        let mut tools = office();
        tools.push(("desk", tool("close_ticket", "Closes a ticket.")));
        tools.push(("kube", tool("list_pods", "Lists pods and notifications of a kubernetes cluster.")));
        let index = Index::build(&catalog(&tools));
        for (query, expected) in [
            ("craete an isseu", "create an issue"),
            ("Craete an isseu, now!", "create an issue, now!"),
            ("delte the emial", "deleted the email"),
            ("creatign events in my calnedar", "creating events in my calendar"),
            // The table has no form of this stem.
            ("kuberntes cluser", "kubernet cluster"),
            ("notificatoins", "notification"),
            ("wheather forcast", "weather forecast"),
            // The table lacks this word, but a group of synonyms has it.
            ("stock ticker price", "stock ticker price"),
            // Words that are spelled correctly, too short, or nothing like any other.
            ("create an issue", "create an issue"),
            ("whether the house is a mouse", "whether the house is a mouse"),
            ("snd a msg", "snd a msg"),
            ("captivating reputable profits of readers", "captivating reputable profits of readers"),
            ("tell Isseu and Calnedar", "tell Isseu and Calnedar"),
            ("wmail wead bmerge", "wmail wead bmerge"),
            ("asdfgh qwertzuiop", "asdfgh qwertzuiop"),
            ("s3buckt 查询天气 größe", "s3buckt 查询天气 größe"),
            ("", ""),
        ] {
            assert_eq!(mended(&index, query), expected, "{query}");
        }
    }

    #[test]
    fn a_misspelled_query_finds_what_the_right_one_finds() {
        let index = Index::build(&catalog(&office()));
        for (wrong, right) in [
            ("sedn an emial", "send an email"),
            ("transfr mony to an acount", "transfer money to an account"),
            ("merge a pull reqeust", "merge a pull request"),
            ("translte this text", "translate this text"),
        ] {
            let (wrong, right) = (find(&index, wrong, 3), find(&index, right, 3));
            assert_eq!(names(&wrong).first(), names(&right).first(), "{wrong:?}");
        }
    }

    /// The words of hidden tools correct nothing, and do not keep a word from being corrected.
    #[test]
    fn hidden_tools_leave_no_trace() {
        let without = Index::build(&catalog(&office()));
        let seen: Vec<&str> = office().into_iter().map(|(server, _)| server).collect();
        let mut tools = office();
        tools.push(("aaa", tool("isseu_kubernetes", "Has the words isseu, calnedar, kubernetes and isseuboard.")));
        let with = Index::build(&catalog(&tools));
        for query in ["create an isseu", "the isseu board", "my calnedar events", "kuberntes", "wheather"] {
            let (seen, whole) = (with.find(query, &only(&seen), None, 50), find(&without, query, 50));
            assert_eq!(exact(&seen), exact(&whole), "{query}");
            assert_eq!(seen.no_match, whole.no_match, "{query}");
        }
        assert_eq!(mended(&with, "create an isseu"), "create an isseu");
        assert_eq!(mended(&without, "create an isseu"), "create an issue");
    }

    #[test]
    fn a_word_in_many_tools_does_not_attract_corrections() {
        let mut tools = office();
        let greedy: Vec<String> = (0..50).map(|number| format!("get_{number}")).collect();
        tools.extend(greedy.iter().map(|name| ("greedy", tool(name, "Has the word emiap."))));
        let index = Index::build(&catalog(&tools));
        assert_eq!(mended(&index, "send an emial"), "send an email");
    }

    #[test]
    fn many_misspelled_words_take_bounded_time() {
        let index = Index::build(&catalog(&office()));
        let query = "isseu calnedar emial wheather delte craete reqeust acount ".repeat(60);
        assert_eq!(mended(&index, &query).matches("issue").count(), 1, "only the first are corrected");
    }
}
