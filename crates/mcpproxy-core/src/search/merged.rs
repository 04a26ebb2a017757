//! Merges the sections of all servers into one inverted index, which a query walks once.
//!
//! Tools, servers and words are numbered in the order of the sections, and the numbers index the lists below. The tools
//! of a server have consecutive numbers, so a list of postings splits by server without a lookup per tool. That makes
//! it cheap to count only what an agent may see.

use std::collections::HashMap;
use std::hash::BuildHasher as _;
use std::iter;
use std::ops::Range;
use std::sync::Arc;

use crate::ServerName;
use crate::catalog::Tool;
use crate::search::section::{self, Entry, ServerSection};
use crate::search::spelling::SpellingList;
use crate::search::synonyms::{self, Sense};
use crate::search::table::{self, Vector, raised};
use crate::search::{vocabulary, words};

/// Dimensions for the scan of all tools and for comparing words. The table has its most telling dimensions first.
pub(super) const SCAN_DIMENSIONS: usize = 64;

/// The inverted index. The numbers of tools, servers and words are indices into its lists.
#[derive(Debug, Default)]
pub(super) struct MergedIndex {
    pub(super) tools: Vec<Arc<Tool>>,
    pub(super) servers: Vec<(ServerName, Range<u32>, Arc<ServerSection>)>,
    numbers: HashMap<ServerName, u32>,
    /// Number of tools of each server.
    pub(super) sizes: Vec<f32>,
    server_of: Vec<u32>,
    words: WordNumbers,
    /// The words by their spelling, to correct typing mistakes.
    spelling: SpellingList,
    pub(super) meanings: Vec<WordMeaning>,
    /// The tools that have each word, sorted.
    pub(super) postings: PackedLists<Posting>,
    /// The end of each server's tools in the postings of each word.
    pub(super) shares: PackedLists<ServerShare>,
    /// Hashes of tool names without their servers, sorted, each with its tool.
    names: Vec<(u32, u32)>,
    /// The words of each tool, sorted.
    pub(super) words_of: PackedLists<u32>,
    /// The head words of each tool; see `Entry::heads`.
    pub(super) heads_of: PackedLists<u32>,
    pub(super) scan: Vec<ScanRow>,
    /// The words of each group of synonyms.
    groups: Vec<Vec<u32>>,
}

/// An occurrence of a word in a tool.
#[derive(Clone, Copy, Debug)]
pub(super) struct Posting {
    pub(super) tool: u32,
    /// The weight of the word for this tool, 0 to 1.
    pub(super) worth: f32,
}

/// The tools of one server that have a word.
#[derive(Clone, Copy, Debug)]
pub(super) struct ServerShare {
    pub(super) server: u32,
    /// The index after their last posting.
    end: u32,
}

/// Saturation of word weights: the higher, the more repetitions add.
const SATURATION: f32 = 1.0;

/// The vector, synonyms and rarity of a word.
#[derive(Clone, Copy, Debug)]
pub(super) struct WordMeaning {
    pub(super) row: [u8; SCAN_DIMENSIONS],
    pub(super) scale: f32,
    pub(super) sense: Option<Sense>,
    /// Rarity among all tools.
    pub(super) rarity: f32,
}

#[derive(Clone, Debug)]
pub(super) struct ScanRow {
    pub(super) row: [u8; SCAN_DIMENSIONS],
    pub(super) scale: f32,
}

/// Many short lists in one allocation.
#[derive(Debug)]
pub(super) struct PackedLists<T> {
    ends: Vec<u32>,
    values: Vec<T>,
}

impl<T> Default for PackedLists<T> {
    fn default() -> Self {
        Self { ends: Vec::new(), values: Vec::new() }
    }
}

impl<T> PackedLists<T> {
    fn push(&mut self, values: impl IntoIterator<Item = T>) {
        self.values.extend(values);
        self.ends.push(u32::try_from(self.values.len()).unwrap_or(u32::MAX));
    }

    #[inline]
    pub(super) fn list(&self, number: u32) -> &[T] {
        let number = number as usize;
        let start = number.checked_sub(1).and_then(|before| self.ends.get(before)).copied().unwrap_or_default();
        let end = self.ends.get(number).copied().unwrap_or_default();
        self.values.get(start as usize..end as usize).unwrap_or_default()
    }
}

/// The stems of all words, and the number of each. All texts are in one allocation, and the hash table has only
/// numbers: with a map of texts, words would be the largest part of an index.
#[derive(Debug, Default)]
struct WordNumbers {
    text: String,
    /// The end of each stem in the text.
    ends: Vec<u32>,
    /// A word in each slot, or `u32::MAX`. At most half of the slots are taken.
    slots: Vec<u32>,
    /// An empty map, for its hasher. That is keyed at random, because servers choose the words.
    keyed: HashMap<(), ()>,
}

const SLOTS_MIN: usize = 64;

impl WordNumbers {
    fn stem(&self, word: u32) -> &str {
        let end = |word: u32| self.ends.get(word as usize).map_or(0, |end| *end as usize);
        self.text.get(word.checked_sub(1).map_or(0, end)..end(word)).unwrap_or_default()
    }

    fn find(&self, stem: &str) -> Option<u32> {
        self.position(stem).and_then(|at| self.slots.get(at)).copied().filter(|word| *word != u32::MAX)
    }

    /// Returns the slot of a stem, or the free slot where it belongs.
    fn position(&self, stem: &str) -> Option<usize> {
        let first = self.keyed.hasher().hash_one(stem) as usize;
        let mask = self.slots.len().checked_sub(1)?;
        let mut at = (0..self.slots.len()).map(|step| first.wrapping_add(step) & mask);
        at.find(|at| self.slots.get(*at).is_some_and(|word| *word == u32::MAX || self.stem(*word) == stem))
    }

    /// Adds a stem that is not there yet.
    fn add(&mut self, stem: &str) -> u32 {
        let word = self.ends.len() as u32;
        self.text.push_str(stem);
        self.ends.push(self.text.len() as u32);
        if self.ends.len() * 2 > self.slots.len() {
            self.slots = vec![u32::MAX; (self.slots.len() * 2).max(SLOTS_MIN)];
            (0..=word).for_each(|word| self.place(word));
        } else {
            self.place(word);
        }
        word
    }

    fn place(&mut self, word: u32) {
        let at = self.position(self.stem(word));
        if let Some(slot) = at.and_then(|at| self.slots.get_mut(at)) {
            *slot = word;
        }
    }
}

impl ServerShare {
    /// Returns the range of postings of each server.
    pub(super) fn places(shares: &[Self]) -> impl Iterator<Item = (u32, Range<usize>)> {
        let starts = iter::once(0).chain(shares.iter().map(|share| share.end));
        shares.iter().zip(starts).map(|(share, start)| (share.server, start as usize..share.end as usize))
    }

    /// Returns the range of postings of one server.
    pub(super) fn place(shares: &[Self], server: u32) -> Option<Range<usize>> {
        let at = shares.binary_search_by_key(&server, |share| share.server).ok()?;
        let start = at.checked_sub(1).and_then(|before| shares.get(before)).map_or(0, |share| share.end);
        shares.get(at).map(|share| start as usize..share.end as usize)
    }
}

impl MergedIndex {
    /// Merges sections. Word vectors are copied from `before`, the previous index, where it has them.
    pub(super) fn of(parts: Vec<(ServerName, Arc<ServerSection>, Vec<Arc<Tool>>)>, before: &Self) -> Self {
        let mut merged = Self::default();
        let mut postings: Vec<Vec<Posting>> = Vec::new();
        for (server, section, tools) in parts {
            let numbers = merged.take_words(&section, before, &mut postings);
            let number = |word: &u32| numbers.get(*word as usize).copied().unwrap_or(u32::MAX);
            let first = merged.tools.len() as u32;
            for (entry, tool) in section.entries.iter().zip(&tools) {
                merged.take(entry, number, &mut postings);
                merged.tools.push(Arc::clone(tool));
                merged.server_of.push(merged.servers.len() as u32);
            }
            let range = first..merged.tools.len() as u32;
            merged.numbers.insert(server.clone(), merged.servers.len() as u32);
            merged.sizes.push(range.len() as f32);
            merged.servers.push((server, range, section));
        }
        let tools = merged.tools.len();
        for (list, meaning) in postings.into_iter().zip(&mut merged.meanings) {
            meaning.rarity = rarity(list.len(), tools);
            merged.shares.push(shares(&list, &merged.server_of));
            merged.postings.push(list);
        }
        merged.groups =
            synonyms::stems().iter().map(|stems| stems.iter().filter_map(|stem| merged.word(stem)).collect()).collect();
        merged.names.sort_unstable();
        merged.spelling =
            SpellingList::of((0..merged.meanings.len() as u32).map(|word| (word, merged.words.stem(word))));
        merged
    }

    /// Numbers the words of a section in this index.
    fn take_words(&mut self, section: &ServerSection, before: &Self, postings: &mut Vec<Vec<Posting>>) -> Vec<u32> {
        let mut numbers = Vec::with_capacity(section.stems.len());
        for stem in &section.stems {
            let known = self.words.find(stem);
            numbers.push(known.unwrap_or_else(|| {
                let number = self.words.add(stem);
                let meaning = before.word(stem).and_then(|word| before.meanings.get(word as usize)).copied();
                self.meanings.push(meaning.unwrap_or_else(|| WordMeaning::of(stem, vocabulary::form(stem))));
                postings.push(Vec::new());
                number
            }));
        }
        numbers
    }

    fn take(&mut self, entry: &Entry, number: impl Fn(&u32) -> u32, postings: &mut [Vec<Posting>]) {
        let tool = self.tools.len() as u32;
        let mut words: Vec<u32> = Vec::with_capacity(entry.words.len());
        for (word, worth) in &entry.words {
            let word = number(word);
            words.push(word);
            if let Some(list) = postings.get_mut(word as usize) {
                list.push(Posting { tool, worth: worth / (worth + SATURATION) });
            }
        }
        words.sort_unstable();
        self.words_of.push(words);
        self.heads_of.push(entry.heads.iter().map(number));
        self.scan.push(ScanRow::of(entry.meaning.as_ref()));
        self.names.push((entry.name_hash, tool));
    }

    /// Returns the tools with this name, on any server.
    pub(super) fn named<'a>(&'a self, name: &'a str) -> impl Iterator<Item = u32> + 'a {
        let hash = section::name_hash(name);
        let first = self.names.partition_point(|(other, _)| *other < hash);
        let same = self.names.iter().skip(first).take_while(move |(other, _)| *other == hash);
        let is_named = move |tool: &u32| self.tools.get(*tool as usize).is_some_and(|tool| tool.name.tool() == name);
        same.map(|(_, tool)| *tool).filter(is_named)
    }

    /// Returns the number of a compound such as `coingecko`.
    pub(super) fn compound(&self, joined: &str) -> Option<u32> {
        self.word(&words::stemmed(joined))
    }

    pub(super) fn word(&self, stem: &str) -> Option<u32> {
        self.words.find(stem)
    }

    pub(super) fn stem(&self, word: u32) -> &str {
        self.words.stem(word)
    }

    pub(super) fn spelling(&self) -> &SpellingList {
        &self.spelling
    }

    /// Returns the words of a group of synonyms.
    pub(super) fn group(&self, group: usize) -> &[u32] {
        self.groups.get(group).map(Vec::as_slice).unwrap_or_default()
    }

    pub(super) fn server(&self, server: &ServerName) -> Option<u32> {
        self.numbers.get(server).copied()
    }

    pub(super) fn section(&self, server: &ServerName) -> Option<&Arc<ServerSection>> {
        self.servers.get(self.server(server)? as usize).map(|(_, _, section)| section)
    }

    #[inline]
    pub(super) fn server_of(&self, tool: u32) -> usize {
        self.server_of.get(tool as usize).map_or(usize::MAX, |server| *server as usize)
    }

    pub(super) fn entry(&self, tool: u32) -> Option<&Entry> {
        let (_, range, section) = self.servers.get(self.server_of(tool))?;
        section.entries.get((tool - range.start) as usize)
    }
}

fn shares(postings: &[Posting], server_of: &[u32]) -> Vec<ServerShare> {
    let server = |posting: &Posting| server_of.get(posting.tool as usize).copied().unwrap_or(u32::MAX);
    let mut shares: Vec<ServerShare> = Vec::new();
    for (posting, end) in postings.iter().zip(1..) {
        let server = server(posting);
        match shares.last_mut() {
            Some(last) if last.server == server => last.end = end,
            Some(_) | None => shares.push(ServerShare { server, end }),
        }
    }
    shares
}

/// Computes the inverse document frequency of a word. A word that no tool has counts as if one tool had it.
pub(super) fn rarity(found_in: usize, tools: usize) -> f32 {
    let found_in = found_in.max(1);
    (1.0 + (tools.saturating_sub(found_in) as f32 + 0.5) / (found_in as f32 + 0.5)).ln()
}

impl WordMeaning {
    pub(super) fn of(stem: &str, form: &str) -> Self {
        let (row, scale) = table::word_row(form).unwrap_or(([0; SCAN_DIMENSIONS], 0.0));
        Self { row: row.map(raised), scale, sense: synonyms::sense(stem), rarity: 0.0 }
    }
}

impl ScanRow {
    fn of(meaning: Option<&Vector>) -> Self {
        let values = meaning.and_then(|vector| vector.values.first_chunk()).copied().unwrap_or([0; SCAN_DIMENSIONS]);
        Self { row: values.map(raised), scale: table::scale_to_one(&values) }
    }
}
