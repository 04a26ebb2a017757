//! Reads a query: its words, its meaning, and the requests in it.

use std::collections::HashSet;
use std::iter;
use std::ops::{Range, RangeInclusive};
use std::sync::Arc;

use crate::search::encoded::{EncodedQuery, QueryEncoder};
use crate::search::merged::{MergedIndex, WordMeaning};
use crate::search::table::{self, Vector};
use crate::search::words::{StemmedWord, is_stop_word, words};

/// Maximum length of a query. The rest is ignored, because the cost of a search grows with it.
const QUERY_MAX_BYTES: usize = 4_096;
/// Maximum number of different words.
const WORDS_MAX: usize = 48;
/// Maximum number of requests.
const REQUESTS_MAX: usize = 8;
/// Maximum number of pieces that are examined for requests.
const PIECES_MAX: usize = 64;

pub(super) struct Query<'a> {
    pub(super) words: Vec<QueryWord<'a>>,
    pub(super) meaning: Option<Vector>,
    /// The vectors of its sentences, if it has several.
    pub(super) sentences: Vec<Vector>,
    /// The vectors of its clauses, split at words such as `and`, if they differ from the sentences.
    pub(super) clauses: Vec<Vector>,
    /// The vectors of the encoder, if the index uses it.
    pub(super) encoded: Option<Arc<EncodedQuery>>,
}

pub(super) struct QueryWord<'a> {
    pub(super) as_written: &'a str,
    /// Its number in the index, if any tool has it.
    pub(super) number: Option<u32>,
    /// Numbers of the compounds with its neighbours: `tus clases` matches a server named `tusclases`.
    pub(super) together: Vec<u32>,
    pub(super) meaning: WordMeaning,
}

impl<'a> Query<'a> {
    pub(super) fn read(text: &'a str, index: &MergedIndex, encoder: Option<&QueryEncoder>) -> Self {
        let text = shortened(text);
        let meaning = meaning(text);
        let parts = |parts: &[&str]| match parts {
            [] | [_] => Vec::new(),
            several => several.iter().filter_map(|part| self::meaning(part)).collect(),
        };
        let words = words(text);
        let telling = telling(text, &words);
        let (sentences, clauses) = (requests(text, &telling, sentences(text)), requests(text, &telling, clauses(text)));
        let encoded = encoder.and_then(|encoder| {
            // Clauses first: the first requests are the ones that find candidates.
            let mut several = clauses.clone();
            several.extend(sentences.iter().filter(|sentence| !clauses.contains(sentence)));
            encoder.encode(text, self::sentences(text), &several)
        });
        Self {
            words: query_words(&words, index),
            sentences: parts(&sentences),
            clauses: if clauses == sentences { Vec::new() } else { parts(&clauses) },
            meaning,
            encoded,
        }
    }
}

impl Query<'_> {
    /// Returns the vectors of the requests.
    pub(super) fn requests(&self) -> &[Vector] {
        match (self.clauses.as_slice(), self.sentences.as_slice()) {
            ([], []) => self.meaning.as_slice(),
            ([], sentences) => sentences,
            (clauses, _) => clauses,
        }
    }
}

/// Cuts a query to its maximum length.
pub(super) fn shortened(text: &str) -> &str {
    text.get(..text.floor_char_boundary(QUERY_MAX_BYTES)).unwrap_or_default()
}

fn meaning(text: &str) -> Option<Vector> {
    table::embed(text).map(|vector| table::quantise(&vector))
}

/// Returns each word once. Stop words are kept only if there are no others.
fn query_words<'a>(all: &[StemmedWord<'a>], index: &MergedIndex) -> Vec<QueryWord<'a>> {
    let has_others = all.iter().any(|word| !is_stop_word(&word.stem));
    let compounds = compounds(all, index);
    let mut seen = HashSet::new();
    let mut found = Vec::new();
    for (at, word) in all.iter().enumerate() {
        if (has_others && is_stop_word(&word.stem)) || found.len() >= WORDS_MAX || !seen.insert(&word.stem) {
            continue;
        }
        let together = compounds.iter().filter(|(places, _)| places.contains(&at)).map(|(_, number)| *number);
        found.push(QueryWord {
            as_written: word.as_written,
            number: index.word(&word.stem),
            together: together.collect(),
            meaning: WordMeaning::of(&word.stem, word.as_written),
        });
    }
    found
}

/// Lengths of compounds. Shorter ones match by accident, longer ones do not occur.
const COMPOUND_BYTES: RangeInclusive<usize> = 6..=24;

/// Finds two or three neighbouring words that a tool writes as one.
pub(super) fn compounds(all: &[StemmedWord<'_>], index: &MergedIndex) -> Vec<(Range<usize>, u32)> {
    let mut found = Vec::new();
    let mut joined = String::new();
    for start in 0..all.len() {
        joined.clear();
        for (end, word) in (start + 1..).zip(all.iter().skip(start).take(3)) {
            if !word.as_written.is_ascii() || joined.len() + word.as_written.len() > *COMPOUND_BYTES.end() {
                break;
            }
            joined.push_str(word.as_written);
            if end - start > 1 && joined.len() >= *COMPOUND_BYTES.start() {
                joined.make_ascii_lowercase();
                let number = index.compound(&joined).map(|number| (start..end, number));
                found.extend(number);
            }
        }
    }
    found
}

/// Returns the offsets of the words that are not stop words.
fn telling(text: &str, words: &[StemmedWord<'_>]) -> Vec<usize> {
    words.iter().filter(|word| !is_stop_word(&word.stem)).map(|word| start(text, word.as_written)).collect()
}

/// Returns the offset of a part of a text.
pub(super) fn start(text: &str, part: &str) -> usize {
    part.as_ptr().addr().saturating_sub(text.as_ptr().addr())
}

/// Returns the pieces that are requests: those with at least two words that are not stop words. A single piece is none.
fn requests<'t>(text: &str, telling: &[usize], pieces: impl Iterator<Item = &'t str>) -> Vec<&'t str> {
    let is_request = |piece: &&str| {
        let start = start(text, piece);
        let first = telling.partition_point(|word| *word < start);
        telling.get(first + 1).is_some_and(|second| *second < start + piece.len())
    };
    let mut pieces = pieces.take(PIECES_MAX).peekable();
    // Most queries are one piece.
    if pieces.next_if(|piece| piece.len() == text.len()).is_some() {
        return Vec::new();
    }
    pieces.filter(is_request).take(REQUESTS_MAX).collect()
}

fn sentences(text: &str) -> impl Iterator<Item = &str> {
    pieces(text, sentence_end)
}

/// Splits a text into sentences, and each sentence at words such as `and`.
fn clauses(text: &str) -> impl Iterator<Item = &str> {
    sentences(text).flat_map(|sentence| pieces(sentence, connector))
}

/// Splits a text at the ends that a function finds.
fn pieces(text: &str, end: fn(&str) -> Option<(usize, usize)>) -> impl Iterator<Item = &str> {
    let mut rest = text;
    iter::from_fn(move || {
        let (stop, next) = end(rest).unwrap_or((rest.len(), rest.len()));
        let piece = rest.get(..stop).filter(|_| !rest.is_empty())?;
        rest = rest.get(next..).unwrap_or_default();
        Some(piece)
    })
}

/// Returns the end of the first sentence and the start of the next.
fn sentence_end(text: &str) -> Option<(usize, usize)> {
    let mut before = ' ';
    for (at, c) in text.char_indices() {
        let is_end = (c.is_whitespace() && matches!(before, '.' | '!' | '?' | ';'))
            || c == '\n'
            || matches!(before, '。' | '！' | '？' | '；');
        if is_end && at > 0 {
            return Some((at, at));
        }
        before = c;
    }
    None
}

/// Words that begin another request.
const CONNECTORS: [&str; 7] = ["and", "then", "also", "additionally", "finally", "furthermore", "moreover"];

/// Returns the end of the first request in a sentence and the start of the next.
fn connector(text: &str) -> Option<(usize, usize)> {
    let mut at = 0;
    for word in text.split_inclusive(char::is_whitespace) {
        let start = at;
        at += word.len();
        let plain = word.trim_end().trim_end_matches(',');
        if start > 0 && CONNECTORS.iter().any(|connector| plain.eq_ignore_ascii_case(connector)) {
            return Some((start, at));
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn requests_of<'t>(text: &'t str, pieces: impl Iterator<Item = &'t str>) -> Vec<&'t str> {
        requests(text, &telling(text, &words(text)), pieces).into_iter().map(str::trim).collect()
    }

    #[test]
    fn a_query_may_be_several_requests() {
        let check = |text: &str, expected: &[&str], expected_clauses: &[&str]| {
            assert_eq!(requests_of(text, sentences(text)), expected, "{text}");
            assert_eq!(requests_of(text, clauses(text)), expected_clauses, "{text}");
        };
        check("send an email", &[], &[]);
        check("Send mail. Please! Read the news", &["Send mail.", "Read the news"], &["Send mail.", "Read the news"]);
        check("track package 1.5 and then update its status", &[], &["track package 1.5", "then update its status"]);
        check("Read mail. And then\nsend mail and", &["Read mail.", "send mail and"], &["Read mail.", "send mail"]);
        check("查询天气。发送邮件给他", &["查询天气。", "发送邮件给他"], &["查询天气。", "发送邮件给他"]);
        check("", &[], &[]);
        check(". . . ! ?", &[], &[]);
    }

    /// A query of a thousand `and`s has a thousand pieces. Only the first are examined.
    #[test]
    fn pieces_without_end_are_left() {
        assert_eq!(requests("and and", &[], iter::repeat("and")), Vec::<&str>::new());
        let text = format!("send mail {} read the news", "and ".repeat(1_000));
        assert_eq!(requests_of(&text, clauses(&text)), ["send mail"]);
    }
}
