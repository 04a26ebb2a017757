//! Selects the tools that are worth ranking: those that share words with the query, and those with a similar meaning.

use std::cmp::Ordering;
use std::ops::Range;

use crate::search::encoded::ToolVector;
use crate::search::merged::{MergedIndex, Posting, SCAN_DIMENSIONS, ServerShare, rarity};
use crate::search::query::{Query, QueryWord};
use crate::search::synonyms::Sense;
use crate::search::table::{Probe, Vector};
use crate::{Scope, ServerName};

/// Maximum number of candidates by words.
const LEXICAL_MAX: usize = 40;
/// Maximum number of candidates by meaning, for each request in the query.
const SCANNED_MAX: usize = 20;
/// Maximum number of requests for which all tools are scanned.
const SCANS_MAX: usize = 3;
/// Weight of a synonym, compared with the word itself.
const SYNONYM_WORTH: f32 = 0.5;
/// Synonyms that more tools have are ignored.
const SYNONYM_MAX_TOOLS: usize = 400;
/// Maximum number of postings per search, so that time stays bounded with 100,000 tools. Rare words come first, so only
/// the least telling postings are skipped.
const POSTINGS_MAX: usize = 30_000;
/// Cost of a binary search for one server, in steps of a linear walk.
const STEPS_OF_A_LOOK: usize = 16;

/// The tools that the agent may see.
pub(super) struct VisibleTools {
    /// Their servers, sorted. `None` means all servers.
    servers: Option<Vec<u32>>,
    /// `true` for each visible server. Empty if all are visible.
    is_seen: Vec<bool>,
    pub(super) tools: usize,
}

pub(super) struct Candidates {
    /// Numbers of tools, sorted and without duplicates.
    pub(super) tools: Vec<u32>,
    /// The rarity of each word of the query.
    pub(super) weights: Vec<f32>,
    /// For each server, the share of the query's words that its tools have.
    pub(super) servers: Vec<f32>,
}

impl VisibleTools {
    pub(super) fn of(index: &MergedIndex, scope: &Scope, server: Option<&ServerName>) -> Self {
        let servers = match (server, &scope.servers) {
            (None, None) => None,
            // Look each name up: comparing every server of the scope with every server of the index would be quadratic.
            (Some(server), _) => Some(index.server(server).filter(|_| scope.sees(server)).into_iter().collect()),
            (None, Some(names)) => {
                let mut servers: Vec<u32> = names.iter().filter_map(|name| index.server(name)).collect();
                servers.sort_unstable();
                servers.dedup();
                Some(servers)
            }
        };
        let servers = servers.filter(|servers: &Vec<u32>| servers.len() < index.servers.len());
        let mut visible = Self { servers, is_seen: Vec::new(), tools: index.tools.len() };
        if let Some(servers) = &visible.servers {
            visible.is_seen = vec![false; index.servers.len()];
            for server in servers {
                visible.is_seen.get_mut(*server as usize).into_iter().for_each(|seen| *seen = true);
            }
            visible.tools = visible.ranges(index).iter().map(ExactSizeIterator::len).sum();
        }
        visible
    }

    pub(super) fn sees(&self, server: u32) -> bool {
        self.servers.is_none() || self.is_seen.get(server as usize).copied().unwrap_or_default()
    }

    /// Returns the numbers of the visible tools.
    fn ranges(&self, index: &MergedIndex) -> Vec<Range<u32>> {
        let whole = self.servers.is_none().then_some(0..index.tools.len() as u32);
        let range = |server: &u32| index.servers.get(*server as usize).map(|(_, range, _)| range.clone());
        self.servers.iter().flatten().filter_map(range).chain(whole).collect()
    }

    /// Visits the postings of a word by visible server.
    fn show(&self, index: &MergedIndex, word: u32, mut see: impl FnMut(u32, Range<usize>)) {
        let shares = index.shares.list(word);
        match &self.servers {
            Some(servers) if servers.len() * STEPS_OF_A_LOOK < shares.len() => {
                for server in servers {
                    ServerShare::place(shares, *server).into_iter().for_each(|place| see(*server, place));
                }
            }
            Some(_) | None => ServerShare::places(shares)
                .filter(|(server, _)| self.sees(*server))
                .for_each(|(server, place)| see(server, place)),
        }
    }

    /// Counts the visible tools that have a word.
    pub(super) fn count(&self, index: &MergedIndex, word: u32) -> usize {
        if self.servers.is_none() {
            return index.postings.list(word).len();
        }
        let mut count = 0;
        self.show(index, word, |_, place| count += place.len());
        count
    }

    /// Returns the rarity of a word among the visible tools.
    pub(super) fn rarity(&self, index: &MergedIndex, word: Option<u32>) -> f32 {
        let Some(word) = word else { return rarity(0, self.tools) };
        match index.meanings.get(word as usize) {
            Some(meaning) if self.servers.is_none() => meaning.rarity,
            Some(_) | None => rarity(self.count(index, word), self.tools),
        }
    }
}

impl Candidates {
    pub(super) fn find(index: &MergedIndex, query: &Query<'_>, visible: &VisibleTools) -> Self {
        let weights: Vec<f32> = query.words.iter().map(|word| visible.rarity(index, word.number)).collect();
        let mut walk = LexicalWalk {
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
        let mut lexical = TopTools::of(LEXICAL_MAX);
        for tool in &walk.touched {
            lexical.offer(walk.scores.get(*tool as usize).copied().unwrap_or_default(), *tool);
        }
        let mut tools = lexical.tools();
        for meaning in query.requests().iter().take(SCANS_MAX) {
            tools.extend(scan(index, meaning, visible));
        }
        let encoded = query.encoded.iter().flat_map(|query| query.requests());
        for request in encoded.take(SCANS_MAX) {
            tools.extend(scan_encoded(index, request, visible));
        }
        tools.sort_unstable();
        tools.dedup();
        Self { tools, weights, servers: walk.servers }
    }
}

/// Adds up the weights of words for each tool.
struct LexicalWalk<'a> {
    index: &'a MergedIndex,
    visible: &'a VisibleTools,
    scores: Vec<f32>,
    touched: Vec<u32>,
    servers: Vec<f32>,
    /// Remaining number of postings.
    left: usize,
}

impl LexicalWalk<'_> {
    fn word(&mut self, numbers: &[u32], weight: f32, server_weight: f32) {
        for number in numbers {
            // Count visible tools only. Otherwise hidden tools could change which words are skipped.
            let (index, visible) = (self.index, self.visible);
            let count = visible.count(index, *number);
            if count > self.left && !self.touched.is_empty() {
                continue;
            }
            self.left = self.left.saturating_sub(count);
            let postings = index.postings.list(*number);
            let is_all = count == postings.len();
            if is_all {
                self.add(postings, weight);
            }
            if is_all && server_weight == 0.0 {
                continue;
            }
            visible.show(index, *number, |server, place| {
                self.add_to_server(server, place.len(), server_weight);
                if !is_all {
                    self.add(postings.get(place).unwrap_or_default(), weight);
                }
            });
        }
    }

    fn add(&mut self, postings: &[Posting], weight: f32) {
        for posting in postings {
            let Some(score) = self.scores.get_mut(posting.tool as usize) else { continue };
            if *score == 0.0 {
                self.touched.push(posting.tool);
            }
            *score += weight * posting.worth;
        }
    }

    /// Adds the share of a server's tools that have a word.
    fn add_to_server(&mut self, server: u32, tools: usize, weight: f32) {
        let server = server as usize;
        if let (Some(share), Some(of_server)) = (self.servers.get_mut(server), self.index.sizes.get(server)) {
            // Add one to the size, so that a server with a single tool does not score for every word of it.
            *share += weight * tools as f32 / (of_server + 1.0);
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

/// Returns the nearest tools by the first dimensions of their vectors.
fn scan(index: &MergedIndex, meaning: &Vector, visible: &VisibleTools) -> Vec<u32> {
    let Some(values) = meaning.values.first_chunk::<SCAN_DIMENSIONS>() else { return Vec::new() };
    let probe = Probe::new(values);
    let mut best = TopTools::of(SCANNED_MAX);
    for range in visible.ranges(index) {
        let rows = index.scan.get(range.start as usize..range.end as usize).unwrap_or_default();
        for (tool, row) in range.zip(rows) {
            best.offer(probe.dot(&row.row) as f32 * row.scale, tool);
        }
    }
    best.tools()
}

/// Returns the nearest tools by the vectors of the encoder. Tools that have none are left out.
fn scan_encoded(index: &MergedIndex, request: &ToolVector, visible: &VisibleTools) -> Vec<u32> {
    let mut best = TopTools::of(SCANNED_MAX);
    for ((_, range, section), server) in index.servers.iter().zip(0..) {
        if visible.sees(server) {
            for (tool, entry) in range.clone().zip(&section.entries) {
                entry.encoded.get().into_iter().for_each(|vector| best.offer(request.cosine(vector), tool));
            }
        }
    }
    best.tools()
}

/// Keeps the tools with the highest scores, without sorting the others. Equal scores are ordered by tool number, so
/// that results do not depend on the order of the offers.
struct TopTools {
    kept: Vec<(f32, u32)>,
    max: usize,
    /// The worst tool that was kept when the list was last cut.
    last: (f32, u32),
}

impl TopTools {
    fn of(max: usize) -> Self {
        Self { kept: Vec::with_capacity(2 * max), max, last: (f32::MIN, u32::MAX) }
    }

    #[inline]
    fn offer(&mut self, score: f32, tool: u32) {
        if score > self.last.0 || (score == self.last.0 && tool < self.last.1) {
            self.keep(score, tool);
        }
    }

    fn keep(&mut self, score: f32, tool: u32) {
        self.kept.push((score, tool));
        if self.kept.len() == 2 * self.max {
            self.cut();
            self.last = self.kept.iter().copied().max_by(best_first).unwrap_or(self.last);
        }
    }

    fn cut(&mut self) {
        if self.kept.len() > self.max {
            self.kept.select_nth_unstable_by(self.max, best_first);
            self.kept.truncate(self.max);
        }
    }

    fn tools(mut self) -> Vec<u32> {
        self.cut();
        self.kept.into_iter().map(|(_, tool)| tool).collect()
    }
}

fn best_first(one: &(f32, u32), other: &(f32, u32)) -> Ordering {
    other.0.total_cmp(&one.0).then(one.1.cmp(&other.1))
}
