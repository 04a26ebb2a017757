//! Products of a matrix of bytes with rows of 16-bit integers.
//!
//! Four rows of activations are packed side by side, in steps of 16 numbers. The kernel multiplies a step of two rows
//! of weights with a step of four tokens, so every load from memory serves several products:
//!
//! ```text
//! packed:  [token 0: 16 numbers][token 1][token 2][token 3] [token 0: the next 16] …
//! ```
//!
//! Sums have 32 bits. `blocks::limit` is the largest activation with which no sum can overflow, whatever the weights are.

#![forbid(unsafe_code)]

use crate::blocks::{STEP, Step, TOGETHER, limit};
use crate::simd::Processor;

/// Blocks of tokens whose activations stay in the fastest cache while all weights pass.
const TILE: usize = 2;

/// A matrix, quantised by row, and its bias.
pub(crate) struct Matrix {
    /// Row after row, in steps.
    pub(crate) weights: &'static [[u8; STEP]],
    pub(crate) scales: Vec<f32>,
    pub(crate) bias: Vec<f32>,
    pub(crate) columns: usize,
}

/// Rows of activations, quantised by row.
#[derive(Default)]
pub(crate) struct Packed {
    steps: Vec<Step>,
    scales: Vec<f32>,
    columns: usize,
}

impl Packed {
    /// Packs rows of activations.
    pub(crate) fn pack(&mut self, processor: Processor, rows: &[f32], columns: usize) {
        let count = rows.len() / columns.max(1);
        self.columns = columns;
        self.steps.clear();
        self.steps.resize(count.div_ceil(TOGETHER) * (columns / STEP), [[0; STEP]; TOGETHER]);
        self.scales.clear();
        let blocks = self.steps.chunks_exact_mut((columns / STEP).max(1));
        for (rows, steps) in rows.chunks(columns.max(1) * TOGETHER).zip(blocks) {
            for (token, row) in rows.chunks_exact(columns.max(1)).enumerate() {
                self.scales.push(processor.quantise(row, limit(columns) as f32, token, steps));
            }
        }
    }
}

impl Matrix {
    pub(crate) fn rows(&self) -> usize {
        self.bias.len()
    }

    /// Multiplies the matrix with packed rows, and adds the bias. Writes one row of results per row of activations.
    pub(crate) fn multiply(&self, processor: Processor, packed: &Packed, out: &mut Vec<f32>) {
        out.clear();
        out.resize(packed.scales.len() * self.rows(), 0.0);
        let steps = (self.columns / STEP).max(1);
        debug_assert_eq!(packed.columns, self.columns);
        let tiles = packed.steps.chunks(steps * TILE).zip(packed.scales.chunks(TOGETHER * TILE));
        for ((tile, scales), out) in tiles.zip(out.chunks_mut(self.rows().max(1) * TOGETHER * TILE)) {
            self.multiply_tile(processor, (tile, scales), out);
        }
    }

    fn multiply_tile(&self, processor: Processor, (tile, scales): (&[Step], &[f32]), out: &mut [f32]) {
        let steps = (self.columns / STEP).max(1);
        let pairs =
            self.weights.chunks_exact(steps * 2).zip(self.scales.chunks_exact(2)).zip(self.bias.chunks_exact(2));
        for (pair, ((weights, row_scales), bias)) in pairs.enumerate() {
            let (first, second) = weights.split_at(steps);
            let blocks = tile.chunks_exact(steps).zip(scales.chunks(TOGETHER));
            for ((block, scales), out) in blocks.zip(out.chunks_mut(self.rows().max(1) * TOGETHER)) {
                let sums = processor.products(first, second, block);
                let rows = out.chunks_exact_mut(self.rows().max(1));
                for (((row, scale), first), second) in rows.zip(scales).zip(sums[0]).zip(sums[1]) {
                    let places = row.iter_mut().skip(pair * 2);
                    let sums = [first, second].into_iter().zip(row_scales).zip(bias);
                    for (place, ((sum, row_scale), bias)) in places.zip(sums) {
                        *place = sum as f32 * (row_scale * scale) + bias;
                    }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::blocks::products;

    #[test]
    fn no_sum_can_overflow() {
        for columns in [16, 384, 1536] {
            let largest = limit(columns);
            assert!(largest > 8_000 && largest <= i32::from(i16::MAX));
            let weights = vec![[0x80; STEP]; columns / STEP];
            let tokens = vec![[[-(largest as i16); STEP]; TOGETHER]; columns / STEP];
            let expected = i64::from(largest) * 128 * columns as i64;
            for processor in Processor::all() {
                let sums = processor.products(&weights, &weights, &tokens);
                assert!(sums.iter().flatten().all(|sum| i64::from(*sum) == expected), "{columns}: {sums:?}");
            }
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: if cfg!(miri) { 4 } else { 128 }, ..ProptestConfig::default() })]

        #[test]
        fn every_processor_multiplies_alike(
            weights in prop::collection::vec(any::<[u8; STEP]>(), 0..48),
            tokens in prop::collection::vec(any::<[[i8; STEP]; TOGETHER]>(), 0..30),
        ) {
            let tokens: Vec<Step> = tokens.iter().map(|step| step.map(|token| token.map(|value| i16::from(value) * 80))).collect();
            let (first, second) = weights.split_at(weights.len() / 2);
            let expected = products(first, second, &tokens);
            for processor in Processor::all() {
                prop_assert_eq!(processor.products(first, second, &tokens), expected);
            }
        }

        #[test]
        fn a_product_is_near_the_exact_one(
            values in prop::collection::vec(-3.0_f32..3.0, 7 * 32),
            weights in prop::collection::vec(any::<[u8; STEP]>(), 8),
        ) {
            let weights: &'static [[u8; STEP]] = Box::leak(weights.into_boxed_slice());
            let matrix = Matrix { weights, scales: vec![0.01; 4], bias: vec![0.5; 4], columns: 32 };
            for processor in Processor::all() {
                let (mut packed, mut out) = (Packed::default(), Vec::new());
                packed.pack(processor, &values, 32);
                matrix.multiply(processor, &packed, &mut out);
                prop_assert_eq!(out.len(), 7 * 4);
                for (token, row) in values.chunks(32).enumerate() {
                    for (at, weights) in weights.as_flattened().chunks(32).enumerate() {
                        let exact: f32 = weights.iter().zip(row).map(|(a, b)| f32::from(a.cast_signed()) * 0.01 * b).sum();
                        prop_assert!((out[token * 4 + at] - exact - 0.5).abs() < 5e-3);
                    }
                }
            }
        }
    }
}
