//! Vectors of the encoder: those of tools, which are computed once and stored, and those of queries, with a cache.
//!
//! The table (`table`) gives a text the mean of its words. The encoder (`mcpproxy-encoder`) reads the text as a whole,
//! which is better and a thousand times slower. So a search never waits for the vector of a tool:
//!
//! 1. An index starts without vectors of tools. Each tool is ranked with the table.
//! 2. [`Index::pending`] lists the tools that have no vector. The gateway looks for their vectors in its store by
//!    [`VectorKey`], and computes the missing ones in the background.
//! 3. [`PendingTool::supply`] puts a vector into the index. From then on, this tool is ranked with the encoder. The next
//!    index takes over the vectors of all servers that did not change.
//!
//! The vector of a query is computed by the search, because nothing can be found by meaning without it. It takes a few
//! milliseconds, and [`QueryEncoder`] remembers the last thousand.
//!
//! Invariant: a vector depends only on the text of its own tool. So a server cannot change the vectors of others.

use std::collections::{HashMap, VecDeque};
use std::fmt;
use std::sync::{Arc, LazyLock, Mutex, PoisonError};

use mcpproxy_encoder::{DIMENSIONS, Encoder, TEXT_TOKENS_MAX, UNKNOWN};
use sha2::{Digest as _, Sha256};

use crate::catalog::Tool;
use crate::search::Index;
use crate::search::section::ServerSection;
use crate::search::table;
use crate::search::vocabulary::TABLE;
use crate::search::wordpiece;
use crate::search::words::spaced;

/// Names the model and the way in which a tool becomes a text. Change it with either, so that stored vectors of before
/// are not found.
const MODEL: &str = "tools-minilm-l3-1";
/// Characters of a tool's name and description that are read.
const DESCRIBED_MAX_CHARS: usize = 500;
/// Weight of the vector of the names, compared with the one of the description.
const NAMES_WEIGHT: f32 = 0.4;
/// Queries whose vectors are remembered.
const QUERIES_MAX: usize = 1_000;
/// Maximum number of tokens of a query and of its parts, together.
const QUERY_TOKENS_MAX: usize = 3 * TEXT_TOKENS_MAX;

static ENCODER: LazyLock<Option<Encoder>> = LazyLock::new(|| Encoder::embedded().ok());

/// A vector of length 1 from the encoder, quantised to bytes.
#[derive(Clone, Debug, PartialEq)]
pub struct ToolVector {
    values: [i8; DIMENSIONS],
    scale: f32,
}

impl ToolVector {
    /// Length of [`Self::to_bytes`].
    pub const STORED_BYTES: usize = DIMENSIONS + size_of::<f32>() + CHECKSUM_BYTES;

    fn of(vector: &[f32; DIMENSIONS]) -> Self {
        let largest = vector.iter().fold(0.0, |largest: f32, value| largest.max(value.abs()));
        if !largest.is_normal() {
            return Self { values: [0; DIMENSIONS], scale: 0.0 };
        }
        let scale = largest / f32::from(i8::MAX);
        Self { values: vector.map(|value| table::nearest(value / scale)), scale }
    }

    pub(super) fn cosine(&self, other: &Self) -> f32 {
        table::dot(&self.values, &other.values) as f32 * self.scale * other.scale
    }

    /// Returns the bytes for the store: the values, the scale, and a checksum that covers the key, too.
    pub fn to_bytes(&self, key: &VectorKey) -> Vec<u8> {
        let mut bytes: Vec<u8> = self.values.iter().map(|value| value.cast_unsigned()).collect();
        bytes.extend(self.scale.to_le_bytes());
        let checksum = checksum(key, &bytes);
        bytes.extend(checksum);
        bytes
    }

    /// Reads bytes of the store. Returns `None` if they were damaged or belong to another text.
    pub fn from_bytes(key: &VectorKey, bytes: &[u8]) -> Option<Self> {
        let (content, sum) = bytes.split_last_chunk::<CHECKSUM_BYTES>()?;
        let (values, scale) = content.split_first_chunk::<DIMENSIONS>()?;
        let scale = f32::from_le_bytes(scale.try_into().ok()?);
        let is_whole = checksum(key, content) == *sum && scale.is_finite();
        is_whole.then(|| Self { values: values.map(u8::cast_signed), scale })
    }
}

const CHECKSUM_BYTES: usize = 8;

fn checksum(key: &VectorKey, content: &[u8]) -> [u8; CHECKSUM_BYTES] {
    let hash: [u8; 32] = Sha256::new().chain_update(key.0).chain_update(content).finalize().into();
    hash.first_chunk().copied().unwrap_or_default()
}

/// Names a vector in the store: the hash of the model and of the text.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct VectorKey(pub [u8; 32]);

impl fmt::Debug for VectorKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

/// The two texts of a tool that are encoded. Names have a vector of their own, because a long description drowns them.
struct ToolText {
    names: String,
    described: String,
}

impl ToolText {
    fn of(tool: &Tool) -> Self {
        let (server, name) = (spaced(tool.name.server().as_str()), spaced(tool.name.tool()));
        let description = tool.offered.description.for_json();
        let described = [name.as_str(), ": ", description].into_iter().flat_map(str::chars);
        Self { described: described.take(DESCRIBED_MAX_CHARS).collect(), names: format!("{server} {name}") }
    }

    fn key(&self) -> VectorKey {
        let texts = [MODEL, &self.names, &self.described];
        let mut hash = Sha256::new();
        for text in texts {
            hash.update((text.len() as u64).to_le_bytes());
            hash.update(text);
        }
        VectorKey(hash.finalize().into())
    }

    fn encode(&self) -> Option<ToolVector> {
        let (names, described) = (tokens(&self.names), tokens(&self.described));
        let vectors = ENCODER.as_ref()?.encode(&[&names, &described]);
        let [names, described] = vectors.as_slice() else { return None };
        let mut sum = [0.0; DIMENSIONS];
        for (sum, (name, described)) in sum.iter_mut().zip(names.iter().zip(described)) {
            *sum = NAMES_WEIGHT * name + described;
        }
        let length = sum.iter().map(|value| value * value).sum::<f32>().sqrt();
        Some(ToolVector::of(&sum.map(|value| value / length.max(f32::MIN_POSITIVE))))
    }
}

/// A tool of an index that has no vector yet.
pub struct PendingTool {
    section: Arc<ServerSection>,
    /// Its place in the section.
    at: usize,
    text: ToolText,
}

impl PendingTool {
    pub fn key(&self) -> VectorKey {
        self.text.key()
    }

    /// Computes the vector, which takes about 15 ms. Returns `None` if there is no model.
    pub fn encode(&self) -> Option<ToolVector> {
        self.text.encode()
    }

    /// Puts the vector into the index, and into all later ones that have the same tool.
    pub fn supply(&self, vector: ToolVector) {
        if let Some(entry) = self.section.entries.get(self.at) {
            // If another task was faster, both computed the same.
            let _same = entry.encoded.set(Box::new(vector));
        }
    }
}

impl Index {
    /// Uses the encoder for queries, and for tools as soon as they have vectors.
    pub fn with_encoder(mut self) -> Self {
        if self.encoder.is_none() {
            self.encoder = ENCODER.as_ref().map(|_| Arc::default());
        }
        self
    }

    /// Lists tools that have no vector. The list is empty if this index uses no encoder.
    ///
    /// Servers take turns. Otherwise, one that changes its tools all the time would keep the others waiting.
    pub fn pending(&self, limit: usize) -> Vec<PendingTool> {
        if self.encoder.is_none() {
            return Vec::new();
        }
        let mut servers: Vec<_> = self
            .merged
            .servers
            .iter()
            .map(|(_, range, section)| {
                let tools = self.merged.tools.get(range.start as usize..range.end as usize).unwrap_or_default();
                let pairs = section.entries.iter().zip(tools).enumerate();
                pairs.filter(|(_, (entry, _))| entry.encoded.get().is_none()).map(|(at, (_, tool))| PendingTool {
                    section: Arc::clone(section),
                    at,
                    text: ToolText::of(tool),
                })
            })
            .collect();
        let mut pending = Vec::new();
        while pending.len() < limit && !servers.is_empty() {
            servers.retain_mut(|tools| {
                let next = if pending.len() < limit { tools.next() } else { None };
                let has_more = next.is_some();
                pending.extend(next);
                has_more
            });
        }
        pending
    }

    /// Returns true if queries are encoded, which takes milliseconds.
    pub fn has_encoder(&self) -> bool {
        self.encoder.is_some()
    }

    /// Counts the tools that have a vector. Returns `None` if this index uses no encoder.
    pub fn encoded(&self) -> Option<usize> {
        self.encoder.as_ref()?;
        let entries = self.merged.servers.iter().flat_map(|(_, _, section)| &section.entries);
        Some(entries.filter(|entry| entry.encoded.get().is_some()).count())
    }
}

/// Computes the vectors of queries, and remembers the last ones.
#[derive(Default)]
pub(super) struct QueryEncoder {
    cache: Mutex<Cache>,
}

#[derive(Default)]
struct Cache {
    /// By the hash of the text, so that a long query takes no more memory than a short one.
    vectors: HashMap<[u8; 32], Arc<EncodedQuery>>,
    /// In the order in which they came. At most `QUERIES_MAX`.
    order: VecDeque<[u8; 32]>,
}

/// The vectors of a query.
#[derive(Debug, PartialEq)]
pub(super) struct EncodedQuery {
    pub(super) whole: ToolVector,
    /// Its requests, if it has several.
    pub(super) requests: Vec<ToolVector>,
}

impl EncodedQuery {
    /// Returns the similarity of a tool to the whole query, or to the nearest request if that is larger.
    pub(super) fn nearest(&self, tool: &ToolVector) -> f32 {
        let all = [&self.whole].into_iter().chain(&self.requests);
        all.map(|part| part.cosine(tool)).fold(0.0, f32::max)
    }

    /// Returns the vectors of the requests, or the one of the whole query.
    pub(super) fn requests(&self) -> &[ToolVector] {
        match self.requests.as_slice() {
            [] => std::slice::from_ref(&self.whole),
            requests => requests,
        }
    }
}

impl fmt::Debug for QueryEncoder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("QueryEncoder").finish_non_exhaustive()
    }
}

impl QueryEncoder {
    /// Returns the vectors of a query that consists of these sentences, and of its requests. All of them are computed
    /// in one batch. Sentences beyond the longest text of the model are ignored, and so are requests beyond the budget.
    pub(super) fn encode<'t>(
        &self,
        text: &str,
        sentences: impl Iterator<Item = &'t str>,
        requests: &[&str],
    ) -> Option<Arc<EncodedQuery>> {
        let key: [u8; 32] = Sha256::digest(text).into();
        if let Some(known) = self.lock().vectors.get(&key) {
            return Some(Arc::clone(known));
        }
        let mut texts = vec![cut(sentences)];
        let mut left = QUERY_TOKENS_MAX.saturating_sub(texts.first().map_or(0, Vec::len));
        for request in requests {
            let mut request = tokens(request);
            request.truncate(TEXT_TOKENS_MAX);
            let Some(rest) = left.checked_sub(request.len()) else { break };
            left = rest;
            texts.push(request);
        }
        let texts: Vec<&[u32]> = texts.iter().map(Vec::as_slice).collect();
        let mut vectors = ENCODER.as_ref()?.encode(&texts).into_iter().map(|vector| ToolVector::of(&vector));
        let encoded = Arc::new(EncodedQuery { whole: vectors.next()?, requests: vectors.collect() });
        self.lock().put(key, &encoded);
        Some(encoded)
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Cache> {
        self.cache.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Cache {
    fn put(&mut self, key: [u8; 32], encoded: &Arc<EncodedQuery>) {
        if self.vectors.insert(key, Arc::clone(encoded)).is_none() {
            self.order.push_back(key);
        }
        while self.order.len() > QUERIES_MAX {
            if let Some(oldest) = self.order.pop_front() {
                self.vectors.remove(&oldest);
            }
        }
    }
}

/// Returns the tokens of the first sentences that fit, or the start of the first one.
fn cut<'t>(sentences: impl Iterator<Item = &'t str>) -> Vec<u32> {
    let mut all = Vec::new();
    for sentence in sentences {
        let more = tokens(sentence);
        if !all.is_empty() && all.len() + more.len() > TEXT_TOKENS_MAX {
            break;
        }
        all.extend(more);
        if all.len() >= TEXT_TOKENS_MAX {
            break;
        }
    }
    all.truncate(TEXT_TOKENS_MAX);
    all
}

/// Returns the tokens of a text, as the encoder numbers them. The table leaves out `[unused]` tokens and marks, and is
/// otherwise in the same order.
fn tokens(text: &str) -> Vec<u32> {
    const PAD: u32 = 0;
    const UNKNOWN_IN_TABLE: u32 = 1;
    const LEFT_OUT: u32 = 997;
    wordpiece::tokens_with_unknown(&TABLE, text, UNKNOWN_IN_TABLE)
        .map(|token| match token {
            PAD => PAD,
            UNKNOWN_IN_TABLE => UNKNOWN,
            other => other + LEFT_OUT,
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;

    #[test]
    fn tokens_are_those_of_the_model() {
        let check: Value = serde_json::from_str(include_str!("../../../mcpproxy-encoder/data/check.json")).unwrap();
        let texts = check["texts"].as_array().unwrap();
        assert_eq!(texts.len(), 5);
        for (text, expected) in texts.iter().zip(check["ids"].as_array().unwrap()) {
            let expected: Vec<u64> = expected.as_array().unwrap().iter().filter_map(Value::as_u64).collect();
            let ids: Vec<u64> = tokens(text.as_str().unwrap()).into_iter().map(u64::from).collect();
            assert_eq!(ids, expected[1..expected.len() - 1], "{text}");
        }
        assert_eq!(tokens("[PAD] 𐍈 weather"), [1031, 11687, 1033, UNKNOWN, 4633]);
    }

    #[test]
    fn a_damaged_vector_is_not_read() {
        let text = ToolText { names: "a b".to_owned(), described: "b: c".to_owned() };
        let (key, vector) = (text.key(), text.encode().unwrap());
        let bytes = vector.to_bytes(&key);
        assert_eq!(ToolVector::from_bytes(&key, &bytes), Some(vector));
        for at in 0..bytes.len() {
            let mut damaged = bytes.clone();
            damaged[at] ^= 1;
            assert_eq!(ToolVector::from_bytes(&key, &damaged), None, "{at}");
            assert_eq!(ToolVector::from_bytes(&key, &bytes[..at]), None, "{at}");
        }
        let other = ToolText { names: "a".to_owned(), described: "b b: c".to_owned() }.key();
        assert_eq!(ToolVector::from_bytes(&other, &bytes), None);
    }

    #[test]
    fn long_queries_end_with_a_sentence() {
        let sentence = "one two three four five six seven eight nine ten.";
        let many = vec![sentence; 50];
        let one = tokens(sentence).len();
        assert_eq!(cut(many.iter().copied()).len(), TEXT_TOKENS_MAX / one * one);
        let endless = "weather ".repeat(100_000);
        assert_eq!(cut([endless.as_str()].into_iter()).len(), TEXT_TOKENS_MAX);
        assert_eq!(cut(["", "weather", ""].into_iter()).len(), 1);
        assert!(cut([].into_iter()).is_empty());
    }

    #[test]
    fn the_last_queries_are_remembered() {
        let encoder = QueryEncoder::default();
        let encoded = encoder.encode("send mail", ["send mail"].into_iter(), &[]).unwrap();
        assert!(Arc::ptr_eq(&encoded, &encoder.encode("send mail", [].into_iter(), &[]).unwrap()));
        for number in 0..QUERIES_MAX as u32 {
            let mut key = [0; 32];
            key[..4].copy_from_slice(&number.to_le_bytes());
            encoder.lock().put(key, &encoded);
            encoder.lock().put(key, &encoded);
        }
        let cache = encoder.lock();
        assert_eq!((cache.vectors.len(), cache.order.len()), (QUERIES_MAX, QUERIES_MAX));
        assert!(!cache.vectors.contains_key(<[u8; 32]>::from(Sha256::digest("send mail")).as_slice()));
    }

    /// Requests beyond the budget are left out, however many there are.
    #[test]
    fn many_requests_cost_no_more_than_a_few() {
        let long = "weather ".repeat(1_000);
        let requests = vec![long.as_str(); 8];
        let encoded = QueryEncoder::default().encode(&long, [long.as_str()].into_iter(), &requests).unwrap();
        assert_eq!(encoded.requests.len(), 2);
        assert_eq!(encoded.requests.first(), Some(&encoded.whole));
    }

    #[test]
    fn all_scripts_have_a_vector() {
        for text in
            ["", "\u{0}", "查询天气", "погода", "🦀🦀", "طقس", "\u{fffd}\u{d7ff}", "ŧ\u{301}\u{301}", "\u{202e}abc"]
        {
            let text = ToolText { names: text.to_owned(), described: text.repeat(1_000) };
            let vector = text.encode().unwrap();
            assert!((vector.cosine(&vector) - 1.0).abs() < 0.02, "{:?}", text.names);
        }
    }
}
