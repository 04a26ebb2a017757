//! Matches the rules about wording against one text.

use super::concept::{Concept, Concepts};
use super::fold::Folded;
use super::rules::{FOREIGN, RULES, Rule};
use super::words::{Hit, Language, Names, find};

/// A rule that matched, with its range in the folded text.
#[derive(Clone, Debug)]
pub(super) struct Match {
    pub(super) rule: &'static str,
    pub(super) weight: u16,
    pub(super) reason: &'static str,
    pub(super) start: usize,
    pub(super) end: usize,
    sentence: usize,
}

/// The strongest passage of a text.
#[derive(Debug, Default)]
pub(super) struct Passage {
    pub(super) score: u16,
    /// Heaviest first.
    pub(super) matches: Vec<Match>,
    /// Words that are written backwards or in ROT13.
    pub(super) backwards: usize,
    pub(super) rot13: usize,
    /// Different concepts in the text.
    pub(super) concepts: u32,
}

/// Sentences whose weights add up.
const WINDOW: usize = 3;
/// Comparisons of words for one text. Only a text that was written against the scanner needs more.
const EFFORT_MAX: usize = 200_000;
/// A negation this close before a verb turns it around.
const NEGATION_GAP: usize = 18;

/// Returns the strongest passage of a text.
pub(super) fn strongest(folded: &Folded, names: Names<'_>) -> Passage {
    let hits = find(&folded.text, names);
    let distinct = |wanted: Concept| {
        let mut words: Vec<&str> =
            hits.iter().filter(|hit| hit.concept == wanted).filter_map(|hit| folded.text.get(hit.start..hit.end)).collect();
        words.sort_unstable();
        words.dedup();
        words.len()
    };
    let (backwards, rot13) = (distinct(Concept::Backwards), distinct(Concept::Rot13));
    let mut concepts = Concepts::NONE;
    let mut matches = Vec::new();
    let mut effort = EFFORT_MAX;
    let mut rest = hits.as_slice();
    for (index, end) in sentence_ends(&folded.text).into_iter().enumerate() {
        let count = rest.partition_point(|hit| hit.start < end);
        let Some((sentence, after)) = rest.split_at_checked(count) else { break };
        rest = after;
        if !sentence.is_empty() {
            concepts = concepts.with(match_sentence(sentence, index, &mut effort, &mut matches));
        }
    }
    let (score, matches) = best_window(matches);
    Passage { score, matches, backwards, rot13, concepts: concepts.len() }
}

/// Returns the end of each sentence of a folded text.
fn sentence_ends(text: &str) -> Vec<usize> {
    let bytes = text.as_bytes();
    let mut ends = Vec::new();
    for at in memchr::memchr3_iter(b'.', b'\n', b'!', bytes).chain(memchr::memchr_iter(b'?', bytes)) {
        let is_end = match bytes.get(at) {
            Some(b'\n') => true,
            _ => matches!(bytes.get(at + 1), Some(b' ' | b'\n' | b'"')) && !is_abbreviation(bytes, at),
        };
        if is_end {
            ends.push(at + 1);
        }
    }
    ends.push(text.len() + 1);
    ends.sort_unstable();
    ends
}

/// `e.g.`, `i.e.`, and the number of a list item do not end a sentence.
fn is_abbreviation(bytes: &[u8], at: usize) -> bool {
    let before = |n: usize| at.checked_sub(n).and_then(|at| bytes.get(at)).copied().unwrap_or(b' ');
    let is_single = !before(2).is_ascii_alphanumeric() && before(1).is_ascii_alphanumeric();
    is_single || (before(1) == b'.' && bytes.get(at) == Some(&b'.'))
}

/// Adds the rules that match in a sentence, and returns its concepts.
fn match_sentence(hits: &[Hit], sentence: usize, effort: &mut usize, matches: &mut Vec<Match>) -> Concepts {
    let (mut concepts, mut english, mut other) = (Concepts::NONE, Concepts::NONE, Concepts::NONE);
    for hit in hits {
        let one = Concepts::one(hit.concept);
        concepts = concepts.with(one);
        match hit.language {
            Language::English => english = english.with(one),
            Language::Other => other = other.with(one),
            Language::Both => {}
        }
    }
    for rule in RULES {
        let is_possible = english.meets(rule.first)
            && rule.steps.iter().all(|step| english.meets(step.any))
            && !english.meets(rule.unless);
        if is_possible && let Some((start, end)) = match_rule(rule, hits, effort) {
            matches.push(Match { rule: rule.id, weight: rule.weight, reason: rule.reason, start, end, sentence });
        }
    }
    if other.len() > 1 {
        match_foreign(hits, concepts, other, sentence, matches);
    }
    concepts
}

fn match_foreign(hits: &[Hit], concepts: Concepts, other: Concepts, sentence: usize, matches: &mut Vec<Match>) {
    for (rule, weight, needed, reason) in FOREIGN {
        // One word may be the same in English, such as `ignore` in French. Two are no accident.
        if concepts.with(*needed) != concepts || other.and(*needed).len() < 2 {
            continue;
        }
        let used = || hits.iter().filter(|hit| needed.has(hit.concept));
        let start = used().map(|hit| hit.start).min().unwrap_or_default();
        let end = used().map(|hit| hit.end).max().unwrap_or_default();
        matches.push(Match { rule, weight: *weight, reason, start, end, sentence });
    }
}

/// Returns the range of the first place where the rule matches.
fn match_rule(rule: &Rule, hits: &[Hit], effort: &mut usize) -> Option<(usize, usize)> {
    let firsts = hits.iter().enumerate().filter(|(_, hit)| is_english(hit) && rule.first.has(hit.concept));
    for (index, first) in firsts {
        if rule.is_positive && is_negated(hits, index) {
            continue;
        }
        let mut span = (first.start, first.end);
        let mut previous = first;
        let mut matched = true;
        for step in rule.steps {
            let next = hits.iter().find(|hit| {
                *effort = effort.saturating_sub(1);
                let from = if step.is_around { first } else { previous };
                let after = hit.start >= from.end && hit.start - from.end <= step.gap;
                let before = step.is_around && hit.end <= from.start && from.start - hit.end <= step.gap;
                is_english(hit) && step.any.has(hit.concept) && (after || before)
            });
            let Some(next) = next.filter(|_| *effort > 0) else {
                matched = false;
                break;
            };
            span = (span.0.min(next.start), span.1.max(next.end));
            previous = next;
        }
        if matched {
            return Some(span);
        }
    }
    None
}

fn is_english(hit: &Hit) -> bool {
    hit.language == Language::English
}

/// Returns whether a negation stands right before the word.
fn is_negated(hits: &[Hit], index: usize) -> bool {
    let Some((before, [word, ..])) = hits.split_at_checked(index) else { return false };
    before
        .iter()
        .rev()
        .take_while(|hit| word.start.saturating_sub(hit.start) < 2 * NEGATION_GAP)
        .any(|hit| is_english(hit) && hit.concept == Concept::Negation && hit.end <= word.start && word.start - hit.end <= NEGATION_GAP)
}

/// Adds up the weights of neighbouring sentences, each rule once, and returns the strongest window.
fn best_window(mut matches: Vec<Match>) -> (u16, Vec<Match>) {
    matches.sort_by_key(|found| (found.sentence, std::cmp::Reverse(found.weight)));
    let mut best = (0, Vec::new());
    for (index, first) in matches.iter().enumerate() {
        let starts = index.checked_sub(1).and_then(|i| matches.get(i)).is_none_or(|p| p.sentence != first.sentence);
        if !starts {
            continue;
        }
        let mut window: Vec<&Match> = Vec::new();
        for found in matches.iter().skip(index).take_while(|found| found.sentence < first.sentence + WINDOW) {
            match window.iter_mut().find(|other| other.rule == found.rule) {
                Some(other) if other.weight < found.weight => *other = found,
                Some(_) => {}
                None => window.push(found),
            }
        }
        let score = window.iter().map(|found| found.weight).sum();
        if score > best.0 {
            best = (score, window.into_iter().cloned().collect::<Vec<_>>());
        }
    }
    best.1.sort_by_key(|found| std::cmp::Reverse(found.weight));
    best
}

#[cfg(feature = "pairs")]
pub fn pairs(text: &str) -> Vec<(Concept, Concept)> {
    let own = std::collections::HashSet::new();
    let n = super::neighbours::Neighbours::default();
    let folded = Folded::of(text);
    let hits = find(&folded.text, Names { own: &own, neighbours: &n });
    let mut out = Vec::new();
    let mut rest = hits.as_slice();
    for end in sentence_ends(&folded.text) {
        let c = rest.partition_point(|h| h.start < end);
        let (s, a) = rest.split_at(c);
        rest = a;
        for x in s { for y in s {
            if is_english(x) && is_english(y) && x.concept != y.concept && y.start >= x.end && y.start - x.end <= 60 { out.push((x.concept, y.concept)); }
        } }
    }
    out
}
