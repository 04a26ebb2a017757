//! How well a tool fits a query: what speaks for it, weighed, as one number from 0 to 1.

use std::collections::HashMap;
use std::hash::BuildHasherDefault;

use crate::search::candidates::{Candidates, VisibleTools};
use crate::search::merged::{MergedIndex, SCAN_DIMENSIONS, WordMeaning};
use crate::search::query::{Query, QueryWord};
use crate::search::table::{Fnv, Probe, Vector};

/// What speaks for a tool. Each is about 0 for nothing and 1 for all there can be, whatever the query and the catalog.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Features {
    /// How near its meaning is to that of the query.
    pub meaning: f32,
    /// To that of the nearest sentence of the query.
    pub sentence: f32,
    /// To that of the nearest request of the query.
    pub request: f32,
    /// How near its parameters are to the query.
    pub parameters: f32,
    /// How much of the query it has words for, the rare ones counting most.
    pub words: f32,
    /// How much of its name the query has words for.
    pub name: f32,
    /// How much of the query its server is about.
    pub server: f32,
}

impl Features {
    pub const NAMES: [&str; 7] = ["meaning", "sentence", "request", "parameters", "words", "name", "server"];

    pub fn values(&self) -> [f32; 7] {
        let Self { meaning, sentence, request, parameters, words, name, server } = *self;
        [meaning, sentence, request, parameters, words, name, server]
    }

    /// 0 to 1: about the share of tools with such features that are the right ones.
    pub fn score(&self) -> f32 {
        1.0 / (1.0 + (OFFSET - self.adds().iter().sum::<f32>()).exp())
    }

    /// What each adds to the sum that becomes the score.
    pub fn adds(&self) -> [f32; 7] {
        let mut adds = self.values();
        for (value, weight) in adds.iter_mut().zip(WEIGHTS) {
            *value *= weight;
        }
        adds
    }
}

/// Learned; see docs/search.md for how, and `cargo run --release -p xtask -- search-eval --fit` to do it again.
const WEIGHTS: [f32; 7] = [0.63, 1.02, 1.13, 0.32, 1.92, 0.59, 1.04];
const OFFSET: f32 = 3.31;

/// Two words that are no nearer than this have nothing to do with each other.
const UNRELATED: f32 = 0.25;
/// A word of the trade that means the same counts nearly as much as the word itself.
pub(super) const SAME_SENSE: f32 = 0.85;

/// A word that a tool has, but not among those it is about.
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
        Some(Features {
            meaning,
            sentence,
            request: nearest(&query.clauses, sentence),
            parameters: query.meaning.as_ref().zip(entry.parameters.as_ref()).map_or(0.0, |(a, b)| cosine(a, b)),
            words: covered.sum::<f32>() / total,
            name: likeness.name(heads.get(..entry.name_words).unwrap_or_default()),
            server: candidates.servers.get(index.server_of(tool)).copied().unwrap_or_default(),
        })
    };
    candidates.tools.iter().filter_map(|tool| Some((*tool, of_tool(*tool)?))).collect()
}

fn cosine(one: &Vector, other: &Vector) -> f32 {
    one.cosine(other).max(0.0)
}

/// Whether a tool has a word of the query anywhere.
fn has(index: &MergedIndex, tool: u32, word: &QueryWord<'_>) -> bool {
    let words = index.words_of.list(tool);
    word.number.iter().chain(&word.together).any(|number| words.binary_search(number).is_ok())
}

/// How like each other the words of the query and those of the candidates are. Candidates share words, so each pair is
/// compared once.
struct Likeness {
    /// For every word that a candidate is about its row in `grades`, one candidate after the other.
    rows: Vec<u32>,
    words: usize,
    grades: Vec<f32>,
    /// For every row how rare its word is, where it stands in a name.
    rarities: Vec<f32>,
}

impl Likeness {
    fn of(index: &MergedIndex, query: &Query<'_>, tools: &[u32], visible: &VisibleTools) -> Self {
        let (rows, heads) = rows(index, tools);
        let mut likeness =
            Self { rows, words: query.words.len(), grades: Vec::new(), rarities: vec![0.0; heads.len()] };
        // Words lie far apart in memory. Fetched all at once they come side by side, and grading them waits for nothing.
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
                // Nothing is as common as this: it was not looked for yet.
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

    /// For each word of the query how like it the likest of a tool's words is.
    fn best(&self, heads: &[u32], best: &mut [f32]) {
        best.fill(0.0);
        for row in heads {
            for (best, grade) in best.iter_mut().zip(self.grades(*row)) {
                *best = best.max(*grade);
            }
        }
    }

    /// How much of a name the query has words for.
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

/// For every word that a tool is about its row, one tool after the other; and the words of the rows.
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

/// A word of the query, ready to be compared with many.
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
