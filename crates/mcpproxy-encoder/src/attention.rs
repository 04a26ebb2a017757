//! Attention within one text: each token takes a share of the values of all tokens, by how well its query fits their keys.

#![forbid(unsafe_code)]

use crate::numbers::{LANES, softmax};
use crate::{DIMENSIONS, TOKENS_MAX};

/// Heads, each of which has its own part of every vector.
const HEADS: usize = 12;
/// Numbers of a head.
const HEAD: usize = DIMENSIONS / HEADS;

/// The keys of one text by head, then by block of eight tokens, then by dimension, so that eight tokens are compared at once.
#[derive(Default)]
pub(crate) struct Keys {
    blocks: Vec<[f32; LANES]>,
    per_head: usize,
}

impl Keys {
    #[inline(always)]
    fn arrange(&mut self, keys: &[f32]) {
        let (rows, _) = keys.as_chunks::<DIMENSIONS>();
        self.per_head = rows.len().div_ceil(LANES);
        self.blocks.clear();
        self.blocks.resize(HEADS * self.per_head * HEAD, [0.0; LANES]);
        for (token, row) in rows.iter().enumerate() {
            let (block, lane) = (token / LANES, token % LANES);
            for (head, values) in row.chunks_exact(HEAD).enumerate() {
                let places = self.blocks.iter_mut().skip((head * self.per_head + block) * HEAD);
                for (place, value) in places.zip(values) {
                    if let Some(place) = place.get_mut(lane) {
                        *place = *value;
                    }
                }
            }
        }
    }
}

/// Computes attention for the tokens of one text. All slices have a row of 384 numbers per token.
#[inline(always)]
pub(crate) fn attend([queries, keys, values]: [&[f32]; 3], arranged: &mut Keys, out: &mut [f32]) {
    let factor = 1.0 / (HEAD as f32).sqrt();
    let count = (queries.len() / DIMENSIONS).min(TOKENS_MAX);
    let (values, _) = values.as_chunks::<DIMENSIONS>();
    arranged.arrange(keys);
    for (query, out) in queries.chunks_exact(DIMENSIONS).zip(out.chunks_exact_mut(DIMENSIONS)) {
        let heads = arranged.blocks.chunks_exact((arranged.per_head * HEAD).max(1));
        let parts = query.as_chunks::<HEAD>().0.iter().zip(out.as_chunks_mut::<HEAD>().0);
        for (head, ((query, out), keys)) in parts.zip(heads).enumerate() {
            let mut scores = [0.0; TOKENS_MAX];
            for (scores, keys) in scores.as_chunks_mut::<LANES>().0.iter_mut().zip(keys.as_chunks::<HEAD>().0) {
                let mut sums = [0.0; LANES];
                for (query, keys) in query.iter().zip(keys) {
                    for (sum, key) in sums.iter_mut().zip(keys) {
                        *sum += query * key;
                    }
                }
                *scores = sums.map(|sum| sum * factor);
            }
            softmax(&mut scores, count);
            let mut sums = [0.0; HEAD];
            for (share, values) in scores.iter().take(count).zip(values) {
                let Some(values) = values.as_chunks::<HEAD>().0.get(head) else { continue };
                for (sum, value) in sums.iter_mut().zip(values) {
                    *sum += share * value;
                }
            }
            *out = sums;
        }
    }
}
