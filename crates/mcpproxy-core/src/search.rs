//! Finds the tools that fit an agent's query, by shared words and by meaning.
//!
//! An agent behind the gateway may have thousands of tools. It sees four, and searches for the rest. The search must be
//! right with one query, fast, and hard to game: the authors of tool descriptions compete for the top place.
//!
//! `Index::find` has five steps:
//! 1. If the query is the name of a tool, that tool comes first (`Index::named`).
//! 2. `typos` corrects misspelled words, and `query` splits the query into stemmed words, sentences and requests, and computes their vectors.
//! 3. `candidates` picks up to 40 tools by words (an inverted index) and 20 per request by meaning (a vector scan), and
//!    another 20 by the encoder.
//! 4. `rank` computes eight features of each candidate, and one score from them.
//! 5. `diverse` moves copies of one tool on several servers to the end. If even the best tool is below the floor, a few
//!    are returned as guesses, because an agent calls what it gets. Without any relation to the query, there are none.
//!
//! ```text
//! "open a bug report"    github:create_issue, jira:new_ticket, …
//! "asdfgh"               no hits: no tool is related, and `asdfgh` is unknown
//! ```
//!
//! Vectors come from a table of word meanings (`table`), in which a text is the mean of the vectors of its tokens, and from
//! a small encoder (`encoded`), which reads a text as a whole. Both are compiled in, so there is no network. See
//! docs/search.md for how good they are, and at which cost.
//!
//! Invariants:
//! - An agent's results depend only on tools that it may see. Even the rarity of a word is counted among those.
//! - A server cannot change the score of another server's tool, except through the rarity of words and by having a word
//!   that otherwise counts as misspelled.
//! - Repeating words does not help: every field has a fixed length and a limit on repeats (`texts`).
//! - The same catalog and query give the same results, in the same order, once the tools are encoded.

mod candidates;
mod diverse;
mod encoded;
mod explain;
mod merged;
mod parts;
mod query;
mod rank;
mod section;
mod spelling;
mod stem;
mod synonyms;
mod table;
#[cfg(test)]
mod tests;
mod texts;
mod typos;
mod vocabulary;
mod wordpiece;
mod words;

use std::sync::Arc;

use crate::catalog::{Catalog, Tool};
use crate::{Scope, ServerName, Untrusted};

use candidates::{Candidates, VisibleTools};
use merged::MergedIndex;
use query::Query;
use section::ServerSection;

use encoded::QueryEncoder;
pub use encoded::{PendingTool, ToolVector, VectorKey};
pub use rank::Features;

/// An immutable search index over one catalog.
#[derive(Debug, Default)]
pub struct Index {
    merged: MergedIndex,
    /// Encodes queries. `None` if the encoder is off.
    encoder: Option<Arc<QueryEncoder>>,
}

/// The result of a search.
#[derive(Clone, Debug, Default)]
pub struct SearchResult {
    /// Best first.
    pub hits: Vec<SearchHit>,
    /// Set if even the best hit is a guess.
    pub doubt: Option<Doubt>,
    /// The reason why there are no hits.
    pub no_match: Option<NoMatch>,
}

/// The reason why all hits are guesses: the score of the best one is below the floor.
#[derive(Clone, Debug, PartialEq)]
pub struct Doubt {
    pub best: f32,
    pub floor: f32,
    /// Words of the query that no tool has.
    pub unknown: Vec<Untrusted>,
}

/// A tool that fits a query.
#[derive(Clone, Debug)]
pub struct SearchHit {
    pub tool: Arc<Tool>,
    /// 0 to 1, comparable between queries. 1 if the query is the name of the tool.
    pub score: f32,
    pub confidence: Confidence,
}

/// How sure it is that a hit answers the query.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Confidence {
    Usual,
    /// The hit is a guess, and so are all others of this search.
    Low,
}

/// The reason why a search has no hits.
#[derive(Clone, Debug, PartialEq)]
pub enum NoMatch {
    /// The query has no words.
    NoWords,
    /// The agent can see no tools.
    NoTools,
    /// No tool is related to the query. Contains the words that no tool has.
    Unrelated { unknown: Vec<Untrusted> },
}

/// The explanation of a tool's score.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ScoreExplanation {
    /// Set if the query is the name of the tool. Then the score is 1, and the other fields show the score without that.
    pub is_named: bool,
    /// 0 to 1: the weighted share of the query's words that the tool has.
    pub lexical: f32,
    /// 0 to 1: the similarity of meaning between tool and query.
    pub semantic: f32,
    pub meaning_by: MeaningSource,
    /// The features from which the score is computed.
    pub features: Features,
    /// The words of the query, in their order, and the fields of the tool that have them.
    pub words: Vec<WordMatch>,
}

/// The source of the vectors with which a tool was ranked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum MeaningSource {
    /// The table of word meanings, because the encoder is off or has not encoded the tool yet.
    #[default]
    Table,
    Encoder,
}

impl MeaningSource {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Table => "table",
            Self::Encoder => "encoder",
        }
    }
}

/// A word of the query, and where a tool has it.
#[derive(Clone, Debug, PartialEq)]
pub struct WordMatch {
    pub word: Untrusted,
    /// 0 to 1: the weight of this word in the query. A rare word weighs more than a common one.
    pub weight: f32,
    /// The fields that have the word. Empty if the tool does not have it.
    pub places: Vec<FieldMatch>,
}

/// A field of a tool that has a word of the query.
#[derive(Clone, Debug, PartialEq)]
pub struct FieldMatch {
    pub field: Field,
    /// The tool's word, if it differs from the query's: another form of it, or a synonym.
    pub instead: Option<Untrusted>,
}

/// A field of a tool that the search reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Field {
    Name,
    Title,
    Server,
    Description,
    Parameter,
    ParameterDescription,
    /// Category and side effects.
    Contract,
}

impl Field {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Name => "name",
            Self::Title => "title",
            Self::Server => "server",
            Self::Description => "description",
            Self::Parameter => "parameter",
            Self::ParameterDescription => "parameter description",
            Self::Contract => "contract",
        }
    }
}

/// Tools by number, with their scores, best first.
type Ranked = Vec<(u32, f32)>;

/// The score of a tool that the query names.
const NAMED: f32 = 1.0;
/// Minimum score of the best tool. A lower one is a guess, and marked as such.
const FLOOR: f32 = 0.13;
/// Minimum score of a guess that has no word of the query.
const RELATED: f32 = 0.05;
/// An agent reads each guess, and none of them is likely to be right.
const GUESSES_MAX: usize = 3;
/// A tool with this share of the query's words is no guess, even below the floor.
const HALF_THE_WORDS: f32 = 0.5;
/// Minimum score of the other tools. A query can contain several requests, and its best tool answers one of them.
const FLOOR_OF_OTHERS: f32 = 0.05;

impl Index {
    pub fn build(catalog: &Catalog) -> Self {
        Self::default().next(catalog)
    }

    /// Builds the index of the next catalog. Servers that did not change are not read again.
    pub fn next(&self, catalog: &Catalog) -> Self {
        let parts = catalog.by_server().map(|(server, tools)| {
            let old = self.merged.section(server).filter(|section| section.is_of(tools.iter()));
            let section = old.map_or_else(|| Arc::new(ServerSection::of(tools.iter())), Arc::clone);
            (server.clone(), section, tools.to_vec())
        });
        Self { merged: MergedIndex::of(parts.collect(), &self.merged), encoder: self.encoder.clone() }
    }

    /// Returns the best tools for a query among those that the scope may see, best first.
    pub fn find(&self, query: &str, scope: &Scope, server: Option<&ServerName>, limit: usize) -> SearchResult {
        let visible = VisibleTools::of(&self.merged, scope, server);
        if visible.tools == 0 {
            return SearchResult::empty(NoMatch::NoTools);
        }
        let named = self.named(query, &visible);
        let (others, doubt) = match (self.fitting(query, &visible), named) {
            (Err(nothing), None) => return SearchResult::empty(nothing),
            // Beside the tool that was named, a guess is noise.
            (Err(_) | Ok((_, Some(_))), Some(_)) => (Vec::new(), None),
            (Ok((fitting, doubt)), _) => (fitting, doubt),
        };
        let others = others.into_iter().filter(|(tool, _)| Some(*tool) != named);
        let first = named.map(|tool| (tool, NAMED)).into_iter();
        let chosen = diverse::choose(&self.merged, first.chain(others), limit);
        let confidence = if doubt.is_some() { Confidence::Low } else { Confidence::Usual };
        let hits = chosen.into_iter().filter_map(|(tool, score)| self.hit(tool, score, confidence)).collect();
        SearchResult { hits, doubt, no_match: None }
    }

    /// Returns the tool that a query names, as `server:tool` or as `tool` if only one server has it.
    fn named(&self, query: &str, visible: &VisibleTools) -> Option<u32> {
        let query = query.trim();
        let (server, tool) = query.split_once(':').map_or((None, query), |(server, tool)| (Some(server), tool));
        let index = &self.merged;
        let is_asked = |number: &u32| {
            let name = index.servers.get(index.server_of(*number)).map(|(name, ..)| name.as_str());
            visible.sees(index.server_of(*number) as u32) && server.is_none_or(|server| name == Some(server))
        };
        let mut named = index.named(tool).filter(is_asked);
        named.next().filter(|_| named.next().is_none())
    }

    /// Returns the tools that fit a query by words and meaning, best first. If none does, returns a few guesses.
    fn fitting(&self, query: &str, visible: &VisibleTools) -> Result<(Ranked, Option<Doubt>), NoMatch> {
        let index = &self.merged;
        let mended = typos::mend(query, index, visible);
        let query = Query::read(&mended, index, self.encoder.as_deref());
        if query.words.is_empty() {
            return Err(NoMatch::NoWords);
        }
        let weighed = self.weighed(&query, visible);
        let has_words = weighed.iter().any(|(_, features)| features.words >= HALF_THE_WORDS);
        let mut ranked = ranked(&weighed);
        let best = ranked.first().map_or(0.0, |(_, score)| *score);
        if best < FLOOR && !has_words {
            let is_known = |number: u32| visible.count(index, number) > 0;
            let unknown = query.words.iter().filter(|word| !word.number.is_some_and(is_known));
            let unknown = unknown.map(|word| Untrusted::new(word.as_written)).collect();
            let has_word = |tool: u32| weighed.iter().any(|(other, features)| *other == tool && features.words > 0.0);
            ranked.retain(|(tool, score)| *score >= RELATED || has_word(*tool));
            ranked.truncate(GUESSES_MAX);
            return match ranked.is_empty() {
                true => Err(NoMatch::Unrelated { unknown }),
                false => Ok((ranked, Some(Doubt { best, floor: FLOOR, unknown }))),
            };
        }
        ranked.retain(|(_, score)| *score >= FLOOR_OF_OTHERS);
        Ok((ranked, None))
    }

    /// Returns the candidates for a query with their features. The weights are learned from these.
    pub fn candidates(&self, query: &str, scope: &Scope) -> Vec<(Arc<Tool>, Features)> {
        let visible = VisibleTools::of(&self.merged, scope, None);
        let mended = typos::mend(query, &self.merged, &visible);
        let query = Query::read(&mended, &self.merged, self.encoder.as_deref());
        let all = self.weighed(&query, &visible);
        all.into_iter()
            .filter_map(|(tool, features)| Some((Arc::clone(self.merged.tools.get(tool as usize)?), features)))
            .collect()
    }

    fn weighed(&self, query: &Query<'_>, visible: &VisibleTools) -> Vec<(u32, Features)> {
        let candidates = Candidates::find(&self.merged, query, visible);
        rank::features(&self.merged, query, &candidates, visible)
    }

    fn hit(&self, tool: u32, score: f32, confidence: Confidence) -> Option<SearchHit> {
        self.merged.tools.get(tool as usize).map(|tool| SearchHit { tool: Arc::clone(tool), score, confidence })
    }
}

/// Sorts tools by score, best first.
fn ranked(weighed: &[(u32, Features)]) -> Ranked {
    let mut ranked: Ranked = weighed.iter().map(|(tool, features)| (*tool, features.score())).collect();
    ranked.sort_unstable_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0)));
    ranked
}

impl SearchResult {
    fn empty(why: NoMatch) -> Self {
        Self { hits: Vec::new(), doubt: None, no_match: Some(why) }
    }
}
