//! Which tools are worth a closer look: those that share words with the query, and those that mean about the same.

use std::ops::Range;

use crate::search::merged::{Merged, SCAN_DIMENSIONS, rarity};
use crate::search::query::{Query, QueryWord};
use crate::search::synonyms::Sense;
use crate::search::table::{Probe, Vector};
use crate::{Scope, ServerName};

/// By words.
const LEXICAL_MAX: usize = 40;
/// By meaning, for each request of the query.
const SCANNED_MAX: usize = 20;
/// Requests of the query that are looked for among all tools.
const SCANS_MAX: usize = 3;
/// How fast the same word again stops adding.
const SATURATION: f32 = 1.0;
/// A word that means the same finds a tool, but less surely.
const SYNONYM_WORTH: f32 = 0.5;
/// A word that more tools have does not stand in for another.
const SYNONYM_MAX_TOOLS: usize = 400;
/// So many places of words are looked at. Rare words come first, so what is left out says least, and among a hundred
/// thousand tools a search takes no longer than it must.
const POSTINGS_MAX: usize = 30_000;

/// The tools that may be seen, and how rare words are among them.
pub(super) struct Visible {
    servers: Vec<bool>,
    pub(super) tools: usize,
    is_everything: bool,
}

pub(super) struct Candidates {
    /// Numbers of tools, each once, in order.
    pub(super) tools: Vec<u32>,
    /// For every word of the query how much it tells apart.
    pub(super) weights: Vec<f32>,
    /// For every server how much of the query its tools are about, together.
    pub(super) servers: Vec<f32>,
}

impl Visible {
    pub(super) fn of(index: &Merged, scope: &Scope, server: Option<&ServerName>) -> Self {
        let sees = |name: &ServerName| server.is_none_or(|server| server == name) && scope.sees(name);
        let servers: Vec<bool> = index.servers.iter().map(|(name, ..)| sees(name)).collect();
        let all = index.servers.iter().zip(&servers).filter(|(_, sees)| **sees);
        let tools = all.map(|((_, range, _), _)| range.len()).sum();
        Self { is_everything: servers.iter().all(|sees| *sees), servers, tools }
    }

    fn server(&self, server: usize) -> bool {
        self.servers.get(server).copied().unwrap_or_default()
    }

    /// The numbers of the tools.
    fn ranges(&self, index: &Merged) -> Vec<Range<u32>> {
        let whole = self.is_everything.then_some(0..index.tools.len() as u32);
        let some = index.servers.iter().enumerate().filter(|(server, _)| whole.is_none() && self.server(*server));
        some.map(|(_, (_, range, _))| range.clone()).chain(whole.clone()).collect()
    }

    /// How many tools have a word.
    pub(super) fn count(&self, index: &Merged, word: u32) -> usize {
        let postings = index.postings.list(word);
        if self.is_everything {
            return postings.len();
        }
        postings.iter().filter(|posting| self.server(index.server_of(posting.tool))).count()
    }

    /// How rare a word is among these tools.
    pub(super) fn rarity(&self, index: &Merged, word: Option<u32>) -> f32 {
        let Some(word) = word else { return rarity(0, self.tools) };
        match index.meanings.get(word as usize) {
            Some(meaning) if self.is_everything => meaning.rarity,
            Some(_) | None => rarity(self.count(index, word), self.tools),
        }
    }
}

impl Candidates {
    pub(super) fn find(index: &Merged, query: &Query<'_>, visible: &Visible) -> Self {
        let weights: Vec<f32> = query.words.iter().map(|word| visible.rarity(index, word.number)).collect();
        let mut walk = Walk {
            index,
            visible,
            scores: vec![0.0; index.tools.len()],
            touched: Vec::new(),
            servers: vec![0.0; index.servers.len()],
            left: POSTINGS_MAX,
        };
        let mut rarest_first: Vec<(&QueryWord<'_>, f32)> = query.words.iter().zip(weights.iter().copied()).collect();
        rarest_first.sort_by(|a, b| b.1.total_cmp(&a.1));
        for (word, weight) in rarest_first {
            walk.word(word.number.as_slice(), weight, weight);
            walk.word(&word.together, weight, weight);
            walk.synonyms(word.number, word.meaning.sense, weight);
        }
        let total = weights.iter().sum::<f32>().max(f32::MIN_POSITIVE);
        for share in &mut walk.servers {
            *share /= total;
        }
        let mut lexical = Best::of(LEXICAL_MAX);
        for tool in &walk.touched {
            lexical.offer(walk.scores.get(*tool as usize).copied().unwrap_or_default(), *tool);
        }
        let mut tools = lexical.tools();
        for meaning in query.requests().iter().take(SCANS_MAX) {
            tools.extend(scan(index, meaning, visible));
        }
        tools.sort_unstable();
        tools.dedup();
        Self { tools, weights, servers: walk.servers }
    }
}

/// The tools of one server that have a word.
#[derive(Default)]
struct Run {
    server: usize,
    /// The first tool that is another server's.
    end: u32,
    is_visible: bool,
    tools: u32,
    of_server: usize,
}

impl Run {
    fn of(index: &Merged, tool: u32, visible: &Visible) -> Self {
        let server = index.server_of(tool);
        let range = index.servers.get(server).map(|(_, range, _)| range.clone()).unwrap_or_default();
        Self { server, end: range.end, is_visible: visible.server(server), tools: 0, of_server: range.len() }
    }
}

/// Adds up what words are worth for tools.
struct Walk<'a> {
    index: &'a Merged,
    visible: &'a Visible,
    scores: Vec<f32>,
    touched: Vec<u32>,
    servers: Vec<f32>,
    /// Postings that may still be looked at.
    left: usize,
}

impl Walk<'_> {
    fn word(&mut self, numbers: &[u32], weight: f32, server_weight: f32) {
        for number in numbers {
            let postings = self.index.postings.list(*number);
            if postings.len() > self.left && !self.touched.is_empty() {
                continue;
            }
            self.left = self.left.saturating_sub(postings.len());
            // Tools of a server follow each other, so its share of the word can be counted on the way.
            let mut run = Run::default();
            for posting in postings {
                if posting.tool >= run.end {
                    self.finish(&run, server_weight);
                    run = Run::of(self.index, posting.tool, self.visible);
                }
                if !run.is_visible {
                    continue;
                }
                run.tools += 1;
                let Some(score) = self.scores.get_mut(posting.tool as usize) else { continue };
                if *score == 0.0 {
                    self.touched.push(posting.tool);
                }
                *score += weight * posting.worth / (posting.worth + SATURATION);
            }
            self.finish(&run, server_weight);
        }
    }

    /// Adds a word to what a server's tools are about: the share of them that have it.
    fn finish(&mut self, run: &Run, weight: f32) {
        if let Some(share) = self.servers.get_mut(run.server).filter(|_| run.tools > 0) {
            // One more than there are: a server with a single tool is not about all that this tool says.
            *share += weight * run.tools as f32 / (run.of_server + 1) as f32;
        }
    }

    fn synonyms(&mut self, number: Option<u32>, sense: Option<Sense>, weight: f32) {
        let Some(sense) = sense else { return };
        let (index, visible) = (self.index, self.visible);
        for other in sense.groups().flat_map(|group| index.group(group)).copied() {
            if Some(other) != number && visible.count(index, other) <= SYNONYM_MAX_TOOLS {
                self.word(&[other], weight * SYNONYM_WORTH, 0.0);
            }
        }
    }
}

/// The nearest tools by the beginning of their vectors.
fn scan(index: &Merged, meaning: &Vector, visible: &Visible) -> Vec<u32> {
    let Some(values) = meaning.values.first_chunk::<SCAN_DIMENSIONS>() else { return Vec::new() };
    let probe = Probe::new(values);
    let mut best = Best::of(SCANNED_MAX);
    for range in visible.ranges(index) {
        let rows = index.scan.get(range.start as usize..range.end as usize).unwrap_or_default();
        for (tool, row) in range.zip(rows) {
            best.offer(probe.dot(&row.row) as f32 * row.scale, tool);
        }
    }
    best.tools()
}

/// Keeps the tools with the highest scores, without sorting the others.
struct Best {
    kept: Vec<(f32, u32)>,
    max: usize,
    floor: f32,
}

impl Best {
    fn of(max: usize) -> Self {
        Self { kept: Vec::with_capacity(2 * max), max, floor: f32::MIN }
    }

    #[inline]
    fn offer(&mut self, score: f32, tool: u32) {
        if score > self.floor {
            self.keep(score, tool);
        }
    }

    fn keep(&mut self, score: f32, tool: u32) {
        self.kept.push((score, tool));
        if self.kept.len() == 2 * self.max {
            self.cut();
            self.floor = self.kept.iter().map(|(score, _)| *score).fold(f32::MAX, f32::min);
        }
    }

    fn cut(&mut self) {
        if self.kept.len() > self.max {
            self.kept.select_nth_unstable_by(self.max, |a, b| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1)));
            self.kept.truncate(self.max);
        }
    }

    fn tools(mut self) -> Vec<u32> {
        self.cut();
        self.kept.into_iter().map(|(_, tool)| tool).collect()
    }
}
