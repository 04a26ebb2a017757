//! A query as the search reads it: its words, its meaning, and the requests it is made of.

use std::collections::HashSet;
use std::iter;
use std::ops::{Range, RangeInclusive};

use crate::search::merged::{MergedIndex, WordMeaning};
use crate::search::table::{self, Vector};
use crate::search::words::{StemmedWord, is_stop_word, words};

/// What is longer is read up to here: no request needs more, and a search costs as much as it reads.
const QUERY_MAX_BYTES: usize = 4_096;
/// Different words beyond these are not looked for.
const WORDS_MAX: usize = 48;
/// Requests in one query beyond these are not looked at one by one.
const REQUESTS_MAX: usize = 8;
/// Pieces of a query beyond these are not looked at: most of them say nothing.
const PIECES_MAX: usize = 64;

pub(super) struct Query<'a> {
    pub(super) words: Vec<QueryWord<'a>>,
    pub(super) meaning: Option<Vector>,
    /// The meanings of its sentences, if it has several.
    pub(super) sentences: Vec<Vector>,
    /// The same, split also where one request follows another in a sentence, if that makes a difference.
    pub(super) clauses: Vec<Vector>,
}

pub(super) struct QueryWord<'a> {
    pub(super) as_written: &'a str,
    /// Its number, if any tool has it.
    pub(super) number: Option<u32>,
    /// Numbers of what it and its neighbours are together: `tus clases` is `tusclases` to a server of that name.
    pub(super) together: Vec<u32>,
    pub(super) meaning: WordMeaning,
}

impl<'a> Query<'a> {
    pub(super) fn read(text: &'a str, index: &MergedIndex) -> Self {
        let text = text.get(..text.floor_char_boundary(QUERY_MAX_BYTES)).unwrap_or_default();
        let meaning = meaning(text);
        let parts = |parts: &[&str]| match parts {
            [] | [_] => Vec::new(),
            several => several.iter().filter_map(|part| self::meaning(part)).collect(),
        };
        let words = words(text);
        let telling = telling(text, &words);
        let (sentences, clauses) = (requests(text, &telling, sentences(text)), requests(text, &telling, clauses(text)));
        Self {
            words: query_words(&words, index),
            sentences: parts(&sentences),
            clauses: if clauses == sentences { Vec::new() } else { parts(&clauses) },
            meaning,
        }
    }
}

impl Query<'_> {
    /// The meanings of what is asked for, one by one.
    pub(super) fn requests(&self) -> &[Vector] {
        match (self.clauses.as_slice(), self.sentences.as_slice()) {
            ([], []) => self.meaning.as_slice(),
            ([], sentences) => sentences,
            (clauses, _) => clauses,
        }
    }
}

fn meaning(text: &str) -> Option<Vector> {
    table::embed(text).map(|vector| table::quantise(&vector))
}

/// Each word once. Stop words only if there is nothing else.
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

/// Shorter words are too often part of others by accident, and longer ones nobody writes.
const COMPOUND_BYTES: RangeInclusive<usize> = 6..=24;

/// What two or three neighbours are as one word, where a tool has that.
fn compounds(all: &[StemmedWord<'_>], index: &MergedIndex) -> Vec<(Range<usize>, u32)> {
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

/// Where the words begin that say something.
fn telling(text: &str, words: &[StemmedWord<'_>]) -> Vec<usize> {
    words.iter().filter(|word| !is_stop_word(&word.stem)).map(|word| start(text, word.as_written)).collect()
}

/// Where a part of a text begins.
fn start(text: &str, part: &str) -> usize {
    part.as_ptr().addr().saturating_sub(text.as_ptr().addr())
}

/// Of the pieces of a text, if there are several, the requests: those with at least two words that say something.
fn requests<'t>(text: &str, telling: &[usize], pieces: impl Iterator<Item = &'t str>) -> Vec<&'t str> {
    let is_request = |piece: &&str| {
        let start = start(text, piece);
        let first = telling.partition_point(|word| *word < start);
        telling.get(first + 1).is_some_and(|second| *second < start + piece.len())
    };
    let mut pieces = pieces.take(PIECES_MAX).peekable();
    // Most queries are one piece, and need no further look.
    if pieces.next_if(|piece| piece.len() == text.len()).is_some() {
        return Vec::new();
    }
    pieces.filter(is_request).take(REQUESTS_MAX).collect()
}

fn sentences(text: &str) -> impl Iterator<Item = &str> {
    pieces(text, sentence_end)
}

/// Sentences, split also where another request begins.
fn clauses(text: &str) -> impl Iterator<Item = &str> {
    sentences(text).flat_map(|sentence| pieces(sentence, connector))
}

/// What is between ends.
fn pieces(text: &str, end: fn(&str) -> Option<(usize, usize)>) -> impl Iterator<Item = &str> {
    let mut rest = text;
    iter::from_fn(move || {
        let (stop, next) = end(rest).unwrap_or((rest.len(), rest.len()));
        let piece = rest.get(..stop).filter(|_| !rest.is_empty())?;
        rest = rest.get(next..).unwrap_or_default();
        Some(piece)
    })
}

/// Where the first sentence stops, and where the next begins.
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

/// Where the first request of a sentence stops, and where the next begins.
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

    /// Of a query that is nothing but `and`, which has a thousand pieces, only the first are looked at.
    #[test]
    fn pieces_without_end_are_left() {
        assert_eq!(requests("and and", &[], iter::repeat("and")), Vec::<&str>::new());
        let text = format!("send mail {} read the news", "and ".repeat(1_000));
        assert_eq!(requests_of(&text, clauses(&text)), ["send mail"]);
    }
}
