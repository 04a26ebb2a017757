//! A query as the search reads it: its words, its meaning, and the requests it is made of.

use std::collections::HashSet;
use std::ops::{Range, RangeInclusive};

use crate::search::merged::{Merged, WordMeaning};
use crate::search::table::{self, Vector};
use crate::search::words::{Word, is_stop_word, words};

/// What is longer is read up to here: no request needs more, and a search costs as much as it reads.
const QUERY_MAX_BYTES: usize = 4_096;
/// Different words beyond these are not looked for.
const WORDS_MAX: usize = 48;
/// Requests in one query beyond these are not looked at one by one.
const REQUESTS_MAX: usize = 8;

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
    pub(super) fn read(text: &'a str, index: &Merged) -> Self {
        let text = text.get(..text.floor_char_boundary(QUERY_MAX_BYTES)).unwrap_or_default();
        let meaning = meaning(text);
        let parts = |parts: &[&str]| match parts {
            [] | [_] => Vec::new(),
            several => several.iter().filter_map(|part| self::meaning(part)).collect(),
        };
        let (sentences, clauses) = (requests(text, sentence_end), requests(text, clause_end));
        Self {
            words: query_words(text, index),
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
fn query_words<'a>(text: &'a str, index: &Merged) -> Vec<QueryWord<'a>> {
    let all = words(text);
    let has_others = all.iter().any(|word| !is_stop_word(&word.stem));
    let compounds = compounds(&all, index);
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
fn compounds(all: &[Word<'_>], index: &Merged) -> Vec<(Range<usize>, u32)> {
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

/// The requests of a text that has several: what is between ends, with at least two words that say something.
fn requests(text: &str, end: fn(&str) -> Option<(usize, usize)>) -> Vec<&str> {
    let mut requests = Vec::new();
    let mut rest = text;
    // Most queries are one request, and need no further look.
    if end(text).is_none() {
        return Vec::new();
    }
    while !rest.is_empty() && requests.len() < REQUESTS_MAX {
        let (stop, next) = end(rest).unwrap_or((rest.len(), rest.len()));
        let request = rest.get(..stop).unwrap_or_default();
        if words(request).iter().filter(|word| !is_stop_word(&word.stem)).count() >= 2 {
            requests.push(request);
        }
        rest = rest.get(next..).unwrap_or_default();
    }
    requests
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

fn clause_end(text: &str) -> Option<(usize, usize)> {
    let sentence = sentence_end(text);
    let within = sentence.map_or(text, |(stop, _)| text.get(..stop).unwrap_or_default());
    connector(within).or(sentence)
}

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

    #[test]
    fn a_query_may_be_several_requests() {
        let check = |text: &str, sentences: &[&str], clauses: &[&str]| {
            let trimmed = |parts: Vec<&str>| parts.into_iter().map(|part| part.trim().to_owned()).collect::<Vec<_>>();
            assert_eq!(trimmed(requests(text, sentence_end)), sentences, "{text}");
            assert_eq!(trimmed(requests(text, clause_end)), clauses, "{text}");
        };
        check("send an email", &[], &[]);
        check("Send mail. Please! Read the news", &["Send mail.", "Read the news"], &["Send mail.", "Read the news"]);
        check("track package 1.5 and then update its status", &[], &["track package 1.5", "then update its status"]);
        check("查询天气。发送邮件给他", &["查询天气。", "发送邮件给他"], &["查询天气。", "发送邮件给他"]);
        check("", &[], &[]);
        check(". . . ! ?", &[], &[]);
    }
}
