//! Ranks candidates: computes eight features for each, and one score from 0 to 1.
//!
//! The score is a logistic regression, `1 / (1 + exp(OFFSET - sum(weight * feature)))`. It approximates the probability
//! that a tool with these features is the right one. So scores of different queries can be compared, and one floor
//! works for all of them.
//!
//! The features:
//!
//! | feature | similarity between |
//! |---|---|
//! | `meaning` | the whole query and the tool |
//! | `sentence`, `request` | its nearest sentence or request and the tool |
//! | `parameters` | the query and the names of the tool's parameters |
//! | `words` | the words of the query and those of the tool, weighted by rarity |
//! | `name` | the words of the tool's name and those of the query |
//! | `server` | the words of the query and all tools of the server |
//! | `encoded` | the query or its nearest request and the tool, by the encoder |
//!
//! The first three compare vectors of the table of word meanings (`table`), and `encoded` those of the encoder. A tool
//! that has no vector of the encoder is ranked with weights of its own, which do without it. Both sets of weights are
//! calibrated, so a catalog may contain tools of both kinds.
//!
//! Why both words and meaning? Words are precise but literal: "open a bug report" shares none with `create_issue`.
//! Vectors know that these are close, but confuse `list_issues` with `create_issue`, which differ in one small word.
//! Each corrects the other. The weights say how much, and are learned from six sets of queries with known answers.
//!
//! A word matches with a grade, not just yes or no. The grade is 1 for the same stem. It is 0.85 for a synonym, or for
//! a word that a tool has outside of its name and first sentence. Otherwise it is the similarity of the two words. For
//! example, with the query "delete a repo", the name `remove_repository` has grades of 0.85 for both words.
//!
//! Invariant: every feature is 0 for no similarity and 1 for the best possible one, whatever the length of the
//! query and the size of the catalog. Otherwise scores of different queries could not be compared.
//!
//! This is the hot loop of a search. Candidates share many words, so [`Likeness`] compares each pair of words once.

use std::collections::HashMap;
use std::hash::BuildHasherDefault;

use crate::search::candidates::{Candidates, VisibleTools};
use crate::search::merged::{MergedIndex, SCAN_DIMENSIONS, WordMeaning};
use crate::search::query::{Query, QueryWord};
use crate::search::table::{Fnv, Probe, Vector};

/// The features of a tool for a query. Each is about 0 for no similarity and 1 for the best possible one.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Features {
    /// Similarity of meaning to the whole query.
    pub meaning: f32,
    /// Similarity of meaning to the nearest sentence of the query.
    pub sentence: f32,
    /// Similarity of meaning to the nearest request in the query.
    pub request: f32,
    /// Similarity of its parameter names to the query.
    pub parameters: f32,
    /// Share of the query's words that the tool has, weighted by rarity.
    pub words: f32,
    /// Share of the words of its name that the query has, weighted by rarity.
    pub name: f32,
    /// Share of the query's words that the tools of its server have.
    pub server: f32,
    /// Similarity by the encoder, to the whole query or to its nearest request. `None` if the tool or the query has no
    /// vector of the encoder.
    pub encoded: Option<f32>,
}

impl Features {
    pub const NAMES: [&str; 8] = ["meaning", "sentence", "request", "parameters", "words", "name", "server", "encoded"];

    /// Weights of a tool that has no vector of the encoder. `cargo run --release -p xtask -- search-eval --encoder off --fit`
    /// learns them again; see docs/search.md.
    pub const TABLE_WEIGHTS: [f32; 8] = [0.63, 1.02, 1.13, 0.32, 1.92, 0.59, 1.04, 0.0];
    pub const TABLE_OFFSET: f32 = 3.31;

    pub fn values(&self) -> [f32; 8] {
        let Self { meaning, sentence, request, parameters, words, name, server, encoded } = *self;
        [meaning, sentence, request, parameters, words, name, server, encoded.unwrap_or_default()]
    }

    /// Returns the score, 0 to 1: about the probability that a tool with these features is the right one.
    pub fn score(&self) -> f32 {
        1.0 / (1.0 + (self.model().1 - self.adds().iter().sum::<f32>()).exp())
    }

    /// Returns the weighted features, whose sum determines the score.
    pub fn adds(&self) -> [f32; 8] {
        let mut adds = self.values();
        for (value, weight) in adds.iter_mut().zip(self.model().0) {
            *value *= weight;
        }
        adds
    }

    /// Returns the features that count, each with its name, its value, and what it adds.
    pub fn parts(&self) -> impl Iterator<Item = (&'static str, f32, f32)> {
        let (weights, _) = self.model();
        let numbers = self.values().into_iter().zip(self.adds());
        let parts = Self::NAMES.into_iter().zip(numbers).zip(weights);
        parts.filter(|(_, weight)| *weight > 0.0).map(|((name, (value, adds)), _)| (name, value, adds))
    }

    /// Returns the weights and the offset. Both models are calibrated, so their scores can be compared.
    fn model(&self) -> ([f32; 8], f32) {
        match self.encoded {
            Some(_) => (ENCODED_WEIGHTS, ENCODED_OFFSET),
            None => (Self::TABLE_WEIGHTS, Self::TABLE_OFFSET),
        }
    }
}

/// Weights of a tool that has a vector of the encoder: `TABLE_WEIGHTS` with 0.6 times the similarities by the table, plus
/// 1.5 times the one by the encoder, all of them calibrated. Chosen with toucan-mcp and livemcpbench only, because the
/// model knows the queries of the other sets. With less of the table, stuffed tools come first (`tests/stuffing.rs`).
/// `search-eval --fit` compares other choices.
const ENCODED_WEIGHTS: [f32; 8] = [0.38, 0.62, 0.68, 0.32, 1.93, 0.59, 1.05, 1.51];
const ENCODED_OFFSET: f32 = 3.38;

/// The similarity by the encoder exceeds that by the table by at most this much. The encoder reads more of a description
/// than the table, which stops after the first sentence. Without a limit, a tool could win by repeating queries there.
const ENCODED_LEAD_MAX: f32 = 0.2;

/// Two words with at most this similarity are unrelated.
const UNRELATED: f32 = 0.25;
/// Grade of a synonym.
pub(super) const SAME_SENSE: f32 = 0.85;

/// Grade of a word that a tool has outside of its name, title, server and first sentence.
const SAID_ASIDE: f32 = 0.85;

pub(super) fn features(
    index: &MergedIndex,
    query: &Query<'_>,
    candidates: &Candidates,
    visible: &VisibleTools,
) -> Vec<(u32, Features)> {
    let likeness = Likeness::of(index, query, &candidates.tools, visible);
    let total = candidates.weights.iter().sum::<f32>().max(f32::MIN_POSITIVE);
    let mut grades = vec![0.0; query.words.len()];
    let mut rows = likeness.rows.as_slice();
    let mut of_tool = |tool: u32| {
        let heads;
        (heads, rows) = rows.split_at_checked(index.heads_of.list(tool).len())?;
        let entry = index.entry(tool)?;
        let nearest = |meanings: &[Vector], otherwise: f32| {
            let near = meanings.iter().filter_map(|meaning| Some(cosine(meaning, entry.meaning.as_ref()?)));
            near.reduce(f32::max).unwrap_or(otherwise)
        };
        likeness.best(heads, &mut grades);
        let covered = query.words.iter().zip(&candidates.weights).zip(&grades).map(|((word, weight), grade)| {
            let aside = if *grade < SAID_ASIDE && has(index, tool, word) { SAID_ASIDE } else { *grade };
            aside * weight
        });
        let meaning = nearest(query.meaning.as_slice(), 0.0);
        let sentence = nearest(&query.sentences, meaning);
        let request = nearest(&query.clauses, sentence);
        let encoded_max = meaning.max(sentence).max(request) + ENCODED_LEAD_MAX;
        let encoded = query.encoded.as_ref().zip(entry.encoded.get());
        Some(Features {
            meaning,
            sentence,
            request,
            parameters: query.meaning.as_ref().zip(entry.parameters.as_ref()).map_or(0.0, |(a, b)| cosine(a, b)),
            words: covered.sum::<f32>() / total,
            name: likeness.name(heads.get(..entry.name_words).unwrap_or_default()),
            server: candidates.servers.get(index.server_of(tool)).copied().unwrap_or_default(),
            encoded: encoded.map(|(query, tool)| query.nearest(tool).min(encoded_max)),
        })
    };
    candidates.tools.iter().filter_map(|tool| Some((*tool, of_tool(*tool)?))).collect()
}

fn cosine(one: &Vector, other: &Vector) -> f32 {
    one.cosine(other).max(0.0)
}

/// Returns `true` if a tool has a word of the query in any field.
fn has(index: &MergedIndex, tool: u32, word: &QueryWord<'_>) -> bool {
    let words = index.words_of.list(tool);
    word.number.iter().chain(&word.together).any(|number| words.binary_search(number).is_ok())
}

/// The similarity of each word of the query to each word of the candidates. Candidates share words, so each pair is
/// compared once.
struct Likeness {
    /// The row in `grades` of each head word, candidate after candidate.
    rows: Vec<u32>,
    words: usize,
    grades: Vec<f32>,
    /// The rarity of the word of each row, if it occurs in a name.
    rarities: Vec<f32>,
}

impl Likeness {
    fn of(index: &MergedIndex, query: &Query<'_>, tools: &[u32], visible: &VisibleTools) -> Self {
        let (rows, heads) = rows(index, tools);
        let mut likeness =
            Self { rows, words: query.words.len(), grades: Vec::new(), rarities: vec![0.0; heads.len()] };
        // Words are far apart in memory. Collecting them first lets the processor fetch several at once.
        let known = heads.iter().filter_map(|head| Some((*head, *index.meanings.get(*head as usize)?)));
        let known: Vec<(u32, WordMeaning)> = known.collect();
        let sought: Vec<WordProbe<'_, '_>> = query.words.iter().map(WordProbe::of).collect();
        likeness.grades.reserve_exact(known.len() * sought.len());
        for (head, meaning) in &known {
            likeness.grades.extend(sought.iter().map(|sought| sought.grade(*head, meaning)));
        }
        likeness.find_rarities(index, tools, visible);
        likeness
    }

    fn find_rarities(&mut self, index: &MergedIndex, tools: &[u32], visible: &VisibleTools) {
        let mut rows = self.rows.as_slice();
        for tool in tools {
            let heads = index.heads_of.list(*tool);
            let Some((of_tool, rest)) = rows.split_at_checked(heads.len()) else { return };
            rows = rest;
            let name_words = index.entry(*tool).map_or(0, |entry| entry.name_words);
            for (head, row) in heads.iter().zip(of_tool).take(name_words) {
                // No rarity is 0, so 0 means that it was not looked up yet.
                if let Some(rarity) = self.rarities.get_mut(*row as usize).filter(|rarity| **rarity == 0.0) {
                    *rarity = visible.rarity(index, Some(*head));
                }
            }
        }
    }

    fn grades(&self, row: u32) -> &[f32] {
        let row = row as usize;
        self.grades.get(row * self.words..(row + 1) * self.words).unwrap_or_default()
    }

    /// Finds the best grade among a tool's words for each word of the query.
    fn best(&self, heads: &[u32], best: &mut [f32]) {
        best.fill(0.0);
        for row in heads {
            for (best, grade) in best.iter_mut().zip(self.grades(*row)) {
                *best = best.max(*grade);
            }
        }
    }

    /// Returns the share of a name that the query has words for.
    fn name(&self, words: &[u32]) -> f32 {
        let (mut met, mut all) = (0.0, f32::MIN_POSITIVE);
        for row in words {
            let rarity = self.rarities.get(*row as usize).copied().unwrap_or_default();
            met += rarity * self.grades(*row).iter().copied().fold(0.0, f32::max);
            all += rarity;
        }
        met / all
    }
}

/// Returns the row of each head word, tool after tool, and the word of each row.
fn rows(index: &MergedIndex, tools: &[u32]) -> (Vec<u32>, Vec<u32>) {
    let all: usize = tools.iter().map(|tool| index.heads_of.list(*tool).len()).sum();
    let (mut rows, mut heads) = (Vec::with_capacity(all), Vec::with_capacity(all));
    let mut row_of: HashMap<u32, u32, BuildHasherDefault<Fnv>> =
        HashMap::with_capacity_and_hasher(all, BuildHasherDefault::default());
    for head in tools.iter().flat_map(|tool| index.heads_of.list(*tool)) {
        rows.push(*row_of.entry(*head).or_insert_with(|| {
            heads.push(*head);
            heads.len() as u32 - 1
        }));
    }
    (rows, heads)
}

/// A word of the query, prepared for many comparisons.
pub(super) struct WordProbe<'q, 'a> {
    word: &'q QueryWord<'a>,
    probe: Probe<SCAN_DIMENSIONS>,
}

impl<'q, 'a> WordProbe<'q, 'a> {
    pub(super) fn of(word: &'q QueryWord<'a>) -> Self {
        let values = word.meaning.row.map(|value| (value ^ 0x80).cast_signed());
        Self { word, probe: Probe::new(&values) }
    }

    pub(super) fn grade(&self, number: u32, meaning: &WordMeaning) -> f32 {
        if self.word.number == Some(number) || self.word.together.contains(&number) {
            return 1.0;
        }
        let is_synonym = self.word.meaning.sense.zip(meaning.sense).is_some_and(|(one, other)| one.meets(other));
        let floor = if is_synonym { SAME_SENSE } else { 0.0 };
        let near = self.probe.dot(&meaning.row) as f32 * meaning.scale * self.word.meaning.scale;
        ((near - UNRELATED) / (1.0 - UNRELATED)).max(floor)
    }
}
