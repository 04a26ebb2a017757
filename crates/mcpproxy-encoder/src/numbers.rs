//! Floating-point steps of the forward pass: layer norm, softmax, GELU, rounding to 16 bits.
//!
//! All of them run over blocks of eight numbers, which the compiler turns into vector instructions. They are inlined
//! into functions of `simd`, so that each exists for AVX2 and for any processor. Both add in the same order, and
//! neither fuses a product with a sum, so both give the same bits.

#![forbid(unsafe_code)]

/// Numbers in a block.
pub(crate) const LANES: usize = 8;

/// Adding this number moves the integer part of a small number into the lowest bits.
const ROUNDER: f32 = 12_582_912.0;

/// Rounds to the nearest integer, for numbers between -2^22 and 2^22. A cast would be one function call per number.
#[inline(always)]
fn rounded(value: f32) -> (f32, i32) {
    let moved = value + ROUNDER;
    (moved - ROUNDER, moved.to_bits().wrapping_sub(ROUNDER.to_bits()).cast_signed())
}

/// Computes `e` to the power of a number, with a relative error below 1e-6. Out of range, returns the nearest result.
#[inline(always)]
pub(crate) fn exp(value: f32) -> f32 {
    let (whole, exponent) = rounded(value.clamp(-87.0, 88.0) * std::f32::consts::LOG2_E);
    // Subtract in two steps, because one constant has too few digits.
    let rest = (value.clamp(-87.0, 88.0) - whole * 0.693_359_4) + whole * 2.121_944_4e-4;
    let mut power = 1.987_569_1e-4_f32;
    for factor in [1.398_199_9e-3, 8.333_452e-3, 4.166_579_6e-2, 1.666_666_5e-1, 0.5] {
        power = power * rest + factor;
    }
    let fraction = power * rest * rest + rest + 1.0;
    f32::from_bits(fraction.to_bits().wrapping_add((exponent << 23).cast_unsigned()))
}

/// Computes GELU with the error function, in place. The approximation of Abramowitz and Stegun (7.1.26) has an error
/// below 2e-7.
#[inline(always)]
pub(crate) fn gelu(values: &mut [f32]) {
    let (blocks, _) = values.as_chunks_mut::<LANES>();
    for block in blocks {
        // A loop over an array of fixed length becomes vector instructions. One loop over all blocks would not, and
        // neither would `map`.
        for value in block {
            *value = gelu_of(*value);
        }
    }
}

#[inline(always)]
fn gelu_of(value: f32) -> f32 {
    let size = value.abs() * std::f32::consts::FRAC_1_SQRT_2;
    let step = 1.0 / (1.0 + 0.327_591_1 * size);
    let mut series = 1.061_405_4_f32;
    for factor in [-1.453_152, 1.421_413_7, -0.284_496_74, 0.254_829_6] {
        series = series * step + factor;
    }
    let error = (1.0 - series * step * exp(-size * size)).copysign(value);
    value * (0.5 * (1.0 + error))
}

/// Adds numbers in eight sums.
#[inline(always)]
fn sum(values: &[f32], of: impl Fn(f32) -> f32) -> f32 {
    let mut sums = [0.0; LANES];
    let (blocks, _) = values.as_chunks::<LANES>();
    for block in blocks {
        for (sum, value) in sums.iter_mut().zip(block) {
            *sum += of(*value);
        }
    }
    sums.iter().sum()
}

/// Brings a vector to mean 0 and variance 1, then multiplies and adds what the model learned.
#[inline(always)]
pub(crate) fn layer_norm(row: &mut [f32], weight: &[f32], bias: &[f32]) {
    let count = row.len().max(1) as f32;
    let mean = sum(row, |value| value) / count;
    let variance = sum(row, |value| (value - mean) * (value - mean)) / count;
    let factor = 1.0 / (variance + 1e-12).sqrt();
    for ((value, weight), bias) in row.iter_mut().zip(weight).zip(bias) {
        *value = (*value - mean) * factor * weight + bias;
    }
}

/// Turns scores into shares that add up to 1, in place. Scores after the first `count` become 0.
#[inline(always)]
pub(crate) fn softmax(scores: &mut [f32], count: usize) {
    let (scores, after) = scores.split_at_mut_checked(count).unwrap_or_default();
    let largest = scores.iter().copied().fold(f32::MIN, f32::max);
    for score in scores.iter_mut() {
        *score = exp(*score - largest);
    }
    let factor = 1.0 / scores.iter().sum::<f32>();
    for score in scores {
        *score *= factor;
    }
    after.fill(0.0);
}

/// Rounds a row to 16-bit integers, and returns the scale. The largest number becomes `limit`.
#[inline(always)]
pub(crate) fn quantise(row: &[f32], limit: f32, mut put: impl FnMut(usize, [i16; 16])) -> f32 {
    let largest = row.iter().fold(0.0, |largest: f32, value| largest.max(value.abs()));
    if !largest.is_normal() {
        return 0.0;
    }
    let factor = limit / largest;
    let (blocks, _) = row.as_chunks::<16>();
    for (at, block) in blocks.iter().enumerate() {
        put(at, block.map(|value| rounded(value * factor).1 as i16));
    }
    largest / limit
}

/// Scales a vector to length 1. A zero vector stays as it is.
pub(crate) fn unit(vector: &mut [f32]) {
    let length = sum(vector, |value| value * value).sqrt();
    if length.is_normal() {
        vector.iter_mut().for_each(|value| *value /= length);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exp_is_near_the_standard_one() {
        for at in -8_000..8_000 {
            let value = at as f32 / 100.0;
            let expected = f64::from(value).exp();
            assert!((f64::from(exp(value)) / expected - 1.0).abs() < 2e-6, "{value}");
        }
        assert!(exp(-1e30) < 1e-37 && exp(f32::NEG_INFINITY) < 1e-37);
        assert!(exp(1e30).is_finite() && exp(f32::INFINITY).is_finite());
    }

    /// Values of `0.5 * x * (1 + erf(x / sqrt(2)))` from another implementation.
    #[test]
    fn gelu_is_the_exact_one() {
        let mut values = [-4.0, -1.0, -0.1, 0.0, 0.1, 1.0, 2.5, 8.0];
        gelu(&mut values);
        let expected =
            [-0.000_126_685, -0.158_655_25, -0.046_017_215, 0.0, 0.053_982_784, 0.841_344_8, 2.484_475_8, 8.0];
        for (value, expected) in values.iter().zip(expected) {
            assert!((value - expected).abs() < 1e-6, "{value} instead of {expected}");
        }
    }

    #[test]
    fn shares_add_up_to_one() {
        let mut scores = [1.0, 1000.0, -1e30, 1000.0, 7.0];
        softmax(&mut scores, 4);
        assert!(scores.iter().zip([0.0, 0.5, 0.0, 0.5, 0.0]).all(|(share, expected)| (share - expected).abs() < 1e-6));
        assert_eq!(scores[4], 0.0);
        softmax(&mut [], 0);
        softmax(&mut [1.0], 2);
    }

    #[test]
    fn rounding_keeps_the_largest() {
        let mut row = [0.25_f32; 16];
        row[3] = -2.0;
        let mut seen = Vec::new();
        let scale = quantise(&row, 1000.0, |at, block| seen.push((at, block)));
        assert_eq!(scale, 0.002);
        assert_eq!((seen[0].0, seen[0].1[3], seen[0].1[0]), (0, -1000, 125));
        assert_eq!(quantise(&[0.0; 16], 1000.0, |_, _| panic!()), 0.0);
    }
}
