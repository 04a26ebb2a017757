//! Blocks of integers: how activations are packed, and the portable form of their products.

#![forbid(unsafe_code)]

use crate::numbers;

/// Numbers in a step.
pub(crate) const STEP: usize = 16;
/// Tokens that are multiplied together.
pub(crate) const TOGETHER: usize = 4;
/// A step of the activations of four tokens.
pub(crate) type Step = [[i16; STEP]; TOGETHER];

/// Returns the largest activation for a number of columns. A weight is at least -128.
pub(crate) const fn limit(columns: usize) -> i32 {
    let largest = i32::MAX / (128 * columns as i32);
    if largest > i16::MAX as i32 { i16::MAX as i32 } else { largest }
}

/// Rounds one row into its place among four.
#[inline(always)]
pub(crate) fn quantise_into(row: &[f32], limit: f32, token: usize, steps: &mut [Step]) -> f32 {
    numbers::quantise(row, limit, |at, block| {
        if let Some(place) = steps.get_mut(at).and_then(|step| step.get_mut(token)) {
            *place = block;
        }
    })
}

/// Multiplies two rows of weights with the activations of four tokens.
#[inline(always)]
pub(crate) fn products(first: &[[u8; STEP]], second: &[[u8; STEP]], tokens: &[Step]) -> [[i32; TOGETHER]; 2] {
    let mut sums = [[0_i32; TOGETHER]; 2];
    for ((first, second), step) in first.iter().zip(second).zip(tokens) {
        for (sums, weights) in sums.iter_mut().zip([first, second]) {
            let weights = weights.map(|weight| i16::from(weight.cast_signed()));
            for (sum, token) in sums.iter_mut().zip(step) {
                *sum += weights.iter().zip(token).map(|(a, b)| i32::from(*a) * i32::from(*b)).sum::<i32>();
            }
        }
    }
    sums
}
