//! Finding a tool: by the words it shares with a query, and by what both mean.
//!
//! A search takes four steps, which `Index::find` shows: read the query, find candidates by words and by meaning, weigh
//! what speaks for each, and leave out what does not fit or is there already.

mod candidates;
mod diverse;
mod explain;
mod merged;
mod parts;
mod query;
mod rank;
mod section;
mod stem;
mod synonyms;
mod table;
#[cfg(test)]
mod tests;
mod texts;
mod wordpiece;
mod words;

use std::sync::Arc;

use crate::catalog::{Catalog, Tool};
use crate::{Scope, ServerName, Untrusted};

use candidates::{Candidates, VisibleTools};
use merged::MergedIndex;
use query::Query;
use section::ServerSection;

pub use rank::Features;

/// An immutable index over one catalog.
#[derive(Debug, Default)]
pub struct Index {
    merged: MergedIndex,
}

/// The answer to a search.
#[derive(Clone, Debug, Default)]
pub struct SearchResult {
    /// Best first.
    pub hits: Vec<SearchHit>,
    /// Why there are none.
    pub no_match: Option<NoMatch>,
}

#[derive(Clone, Debug)]
pub struct SearchHit {
    pub tool: Arc<Tool>,
    /// 0 to 1, and the same number means as good a fit for every query. 1 if the query is its name.
    pub score: f32,
}

/// Why a search found nothing.
#[derive(Clone, Debug, PartialEq)]
pub enum NoMatch {
    /// The query has no word that could be looked for.
    NoWords,
    /// There are no tools that could be found, whatever the query.
    NoTools,
    /// The best tool is below the floor.
    BelowFloor { best: f32, floor: f32, unknown: Vec<Untrusted> },
}

/// Why a tool has its score.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ScoreExplanation {
    /// Whether the query is the tool's name. Then that is the whole reason, and the rest would be if it were not.
    pub is_named: bool,
    /// 0 to 1: how much of the query, by the weight of its words, the tool's own words cover.
    pub lexical: f32,
    /// 0 to 1: how near the meaning of the tool is to that of the query.
    pub semantic: f32,
    /// All that speaks for the tool.
    pub features: Features,
    /// The words of the query, in their order, and where the tool has them.
    pub words: Vec<WordMatch>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct WordMatch {
    pub word: Untrusted,
    /// 0 to 1: the share of this word in the query; a rare word has more than a common one.
    pub weight: f32,
    /// Where the tool has it; nothing if it has not.
    pub places: Vec<FieldMatch>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct FieldMatch {
    pub field: Field,
    /// The tool's own word, where it is not the query's: another form, or one that means the same.
    pub instead: Option<Untrusted>,
}

/// Where a word of a tool stands.
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

/// The score of a tool that the query names: nothing could fit better.
const NAMED: f32 = 1.0;
/// If the best tool has less, it would be a guess, and nothing is given.
const FLOOR: f32 = 0.13;
/// Unless a tool has so much of what was asked for: who asks for a word and has a tool with it should see that.
const HALF_THE_WORDS: f32 = 0.5;
/// What comes after the best may have less: a query may ask for several things, and one of them is said better.
const FLOOR_OF_OTHERS: f32 = 0.05;

impl Index {
    pub fn build(catalog: &Catalog) -> Self {
        Self::default().next(catalog)
    }

    /// The index that comes after this one. Servers that did not change are not read again.
    pub fn next(&self, catalog: &Catalog) -> Self {
        let parts = catalog.by_server().map(|(server, tools)| {
            let old = self.merged.section(server).filter(|section| section.is_of(tools.iter()));
            let section = old.map_or_else(|| Arc::new(ServerSection::of(tools.iter())), Arc::clone);
            (server.clone(), section, tools.to_vec())
        });
        Self { merged: MergedIndex::of(parts.collect(), &self.merged) }
    }

    /// The best tools for a query among those the scope may see, best first.
    pub fn find(&self, query: &str, scope: &Scope, server: Option<&ServerName>, limit: usize) -> SearchResult {
        let visible = VisibleTools::of(&self.merged, scope, server);
        if visible.tools == 0 {
            return SearchResult::empty(NoMatch::NoTools);
        }
        let named = self.named(query, &visible);
        let others = match (self.fitting(query, &visible), named) {
            (Err(nothing), None) => return SearchResult::empty(nothing),
            (Err(_), Some(_)) => Vec::new(),
            (Ok(fitting), _) => fitting,
        };
        let others = others.into_iter().filter(|(tool, _)| Some(*tool) != named);
        let first = named.map(|tool| (tool, NAMED)).into_iter();
        let chosen = diverse::choose(&self.merged, first.chain(others), limit);
        let hits = chosen.into_iter().filter_map(|(tool, score)| self.hit(tool, score)).collect();
        SearchResult { hits, no_match: None }
    }

    /// The tool that a query names: `server:tool`, or what its server calls it if no other tool is called so.
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

    /// The tools that fit the words and the meaning of a query, best first.
    fn fitting(&self, query: &str, visible: &VisibleTools) -> Result<Vec<(u32, f32)>, NoMatch> {
        let index = &self.merged;
        let query = Query::read(query, index);
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
            return Err(NoMatch::BelowFloor { best, floor: FLOOR, unknown });
        }
        ranked.retain(|(_, score)| *score >= FLOOR_OF_OTHERS);
        Ok(ranked)
    }

    /// What speaks for each tool that is looked at for a query: what the weights are learned from.
    pub fn candidates(&self, query: &str, scope: &Scope) -> Vec<(Arc<Tool>, Features)> {
        let visible = VisibleTools::of(&self.merged, scope, None);
        let query = Query::read(query, &self.merged);
        let all = self.weighed(&query, &visible);
        all.into_iter().filter_map(|(tool, features)| Some((self.hit(tool, 0.0)?.tool, features))).collect()
    }

    fn weighed(&self, query: &Query<'_>, visible: &VisibleTools) -> Vec<(u32, Features)> {
        let candidates = Candidates::find(&self.merged, query, visible);
        rank::features(&self.merged, query, &candidates, visible)
    }

    fn hit(&self, tool: u32, score: f32) -> Option<SearchHit> {
        self.merged.tools.get(tool as usize).map(|tool| SearchHit { tool: Arc::clone(tool), score })
    }
}

/// By score, best first.
fn ranked(weighed: &[(u32, Features)]) -> Vec<(u32, f32)> {
    let mut ranked: Vec<(u32, f32)> = weighed.iter().map(|(tool, features)| (*tool, features.score())).collect();
    ranked.sort_unstable_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0)));
    ranked
}

impl SearchResult {
    fn empty(why: NoMatch) -> Self {
        Self { hits: Vec::new(), no_match: Some(why) }
    }
}
