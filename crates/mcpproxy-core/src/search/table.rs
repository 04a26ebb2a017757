//! Word meanings: a table with a vector for every token, and the vector of a text as their mean.

use std::hash::Hasher;

use super::vocabulary::TABLE;
use super::wordpiece;

/// Dimensions of a vector. The first 128 or 64 can be used alone.
pub(crate) const DIMENSIONS: usize = 256;

static VECTORS: &[u8] = include_bytes!("../../data/search/vectors.i8");
static SCALES: &[u8] = include_bytes!("../../data/search/scales.f32");

const TOKENS: usize = SCALES.len() / size_of::<f32>();
const _: () = assert!(VECTORS.len() == TOKENS * DIMENSIONS, "a row for every scale");
const _: () = assert!(SCALES.len().is_multiple_of(size_of::<f32>()), "whole numbers only");

/// Computes the vector of a text, with length 1. Returns `None` if no token is known.
///
/// Split identifiers first, with `words::spaced`.
pub(crate) fn embed(text: &str) -> Option<[f32; DIMENSIONS]> {
    let mut sum = [0.0; DIMENSIONS];
    for token in wordpiece::tokens(&TABLE, text) {
        let Some((row, scale)) = row(token) else { continue };
        for (sum, byte) in sum.iter_mut().zip(row) {
            *sum += f32::from(byte.cast_signed()) * scale;
        }
    }
    unit(&sum)
}

/// Computes the first dimensions of a word's vector, and the scale that gives them length 1. Returns `None` for an
/// unknown word.
pub(crate) fn word_row<const N: usize>(word: &str) -> Option<([i8; N], f32)> {
    let mut sum = [0.0_f32; N];
    for token in wordpiece::tokens(&TABLE, word) {
        let Some((row, scale)) = row(token) else { continue };
        for (sum, byte) in sum.iter_mut().zip(row) {
            *sum += f32::from(byte.cast_signed()) * scale;
        }
    }
    let largest = sum.iter().fold(0.0, |largest: f32, value| largest.max(value.abs()));
    if !largest.is_normal() {
        return None;
    }
    let values = sum.map(|value| nearest(value / largest * f32::from(i8::MAX)));
    Some((values, scale_to_one(&values)))
}

/// Scales a vector to length 1. Returns `None` for a zero vector.
pub(crate) fn unit(vector: &[f32; DIMENSIONS]) -> Option<[f32; DIMENSIONS]> {
    let length = vector.iter().map(|value| value * value).sum::<f32>().sqrt();
    (length.is_normal()).then(|| vector.map(|value| value / length))
}

/// A vector of length 1, quantised to bytes.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Vector {
    pub(crate) values: [i8; DIMENSIONS],
    /// Factor from byte values to numbers.
    pub(crate) scale: f32,
}

/// Quantises a vector with a scale of its own. One scale for all vectors would clip large values or round small ones,
/// and cosines would be off by 0.01 and more.
pub(crate) fn quantise(vector: &[f32; DIMENSIONS]) -> Vector {
    let largest = vector.iter().fold(0.0, |largest: f32, value| largest.max(value.abs()));
    if !largest.is_normal() {
        return Vector { values: [0; DIMENSIONS], scale: 0.0 };
    }
    let scale = largest / f32::from(i8::MAX);
    Vector { values: vector.map(|value| nearest(value / scale)), scale }
}

/// Rounds to the nearest integer. `f32::round` would be a function call for each number.
pub(crate) fn nearest(value: f32) -> i8 {
    (value + 0.5_f32.copysign(value)) as i8
}

impl Vector {
    pub(crate) fn cosine(&self, other: &Self) -> f32 {
        dot(&self.values, &other.values) as f32 * self.scale * other.scale
    }
}

/// Returns the scale that gives values length 1, or 0 for zeros.
pub(crate) fn scale_to_one(values: &[i8]) -> f32 {
    let squares: i32 = values.iter().map(|value| i32::from(*value) * i32::from(*value)).sum();
    if squares == 0 { 0.0 } else { 1.0 / (squares as f32).sqrt() }
}

/// Computes the dot product. Multiplied by both scales, it is the cosine. Values after the last block of 32 are
/// ignored.
///
/// The compiler turns blocks of 32 into the fewest vector instructions, on x86-64 and on aarch64.
#[inline]
pub(crate) fn dot(a: &[i8], b: &[i8]) -> i32 {
    let (a, _) = a.as_chunks::<32>();
    let (b, _) = b.as_chunks::<32>();
    let block =
        |(a, b): (&[i8; 32], &[i8; 32])| -> i32 { a.iter().zip(b).map(|(a, b)| i32::from(*a) * i32::from(*b)).sum() };
    a.iter().zip(b).map(block).sum()
}

/// A vector that is compared with many rows. Half again as fast as `dot`, since unsigned bytes widen in one step.
#[derive(Clone, Debug)]
pub(crate) struct Probe<const N: usize> {
    values: [i16; N],
    /// The sum by which raised rows make the product too large.
    surplus: i32,
}

/// Raises a value by 128, for the rows of `Probe::dot`.
pub(crate) fn raised(value: i8) -> u8 {
    value.cast_unsigned() ^ 0x80
}

impl<const N: usize> Probe<N> {
    pub(crate) fn new(values: &[i8; N]) -> Self {
        const { assert!(N.is_multiple_of(8), "whole blocks only") };
        let sum: i32 = values.iter().copied().map(i32::from).sum();
        Self { values: values.map(i16::from), surplus: sum * 0x80 }
    }

    /// Computes `dot` for a row of raised values. Eight sums in parallel compile to the fewest instructions. Inlining
    /// is off, because the compiler would otherwise vectorise the loop around it, which is up to ten times slower.
    #[inline(never)]
    pub(crate) fn dot(&self, row: &[u8; N]) -> i32 {
        let mut sums = [0_i32; 8];
        let (values, _) = self.values.as_chunks::<8>();
        let (row, _) = row.as_chunks::<8>();
        for (values, row) in values.iter().zip(row) {
            for ((sum, value), byte) in sums.iter_mut().zip(values).zip(row) {
                *sum += i32::from(*value) * i32::from(*byte);
            }
        }
        sums.iter().sum::<i32>() - self.surplus
    }
}

fn row(token: u32) -> Option<(&'static [u8; DIMENSIONS], f32)> {
    let token = usize::try_from(token).ok()?;
    let (rows, _) = VECTORS.as_chunks::<DIMENSIONS>();
    let (scales, _) = SCALES.as_chunks::<{ size_of::<f32>() }>();
    Some((rows.get(token)?, f32::from_le_bytes(*scales.get(token)?)))
}

/// The FNV-1a hash, which is fast for short keys. Collisions are no risk, because all keys are our own.
pub(crate) struct Fnv(u64);

impl Default for Fnv {
    fn default() -> Self {
        Self(0xcbf2_9ce4_8422_2325)
    }
}

impl Hasher for Fnv {
    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = (self.0 ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
        }
    }

    fn finish(&self) -> u64 {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn cosine(a: &[f32; DIMENSIONS], b: &[f32; DIMENSIONS]) -> f32 {
        a.iter().zip(b).map(|(a, b)| a * b).sum()
    }

    #[test]
    fn a_row_for_every_token() {
        assert_eq!(TABLE.len(), TOKENS);
    }

    #[test]
    fn reproduces_the_check_values_of_the_table() {
        let checks: Vec<serde_json::Value> =
            serde_json::from_str(include_str!("../../data/search/check.json")).unwrap();
        assert!(checks.len() >= 4);
        for check in &checks {
            let (a, b) = (check["a"].as_str().unwrap(), check["b"].as_str().unwrap());
            let ids: Vec<u64> = wordpiece::tokens(&TABLE, a).map(u64::from).collect();
            let expected: Vec<u64> = check["ids_a"].as_array().unwrap().iter().filter_map(|id| id.as_u64()).collect();
            assert_eq!(ids, expected, "{a}");
            let (a, b) = (embed(a).unwrap(), embed(b).unwrap());
            let expected = check["cosine"].as_f64().unwrap() as f32;
            assert!((cosine(&a, &b) - expected).abs() < 0.002, "{check}: {}", cosine(&a, &b));
            assert!((quantise(&a).cosine(&quantise(&b)) - expected).abs() < 0.005, "{check}");
        }
    }

    #[test]
    fn nothing_known_has_no_vector() {
        for text in ["", " \n", "\u{0}\u{fffd}"] {
            assert_eq!(embed(text), None, "{text:?}");
        }
        assert_eq!(word_row::<64>(""), None);
        assert_eq!(quantise(&[0.0; DIMENSIONS]).cosine(&quantise(&[0.0; DIMENSIONS])), 0.0);
    }

    proptest! {
        #[test]
        fn quantised_vectors_keep_their_cosine(a in "([a-z]{1,9} ){1,12}", b in "([a-z]{1,9} ){1,12}") {
            if let (Some(a), Some(b)) = (embed(&a), embed(&b)) {
                prop_assert!((cosine(&a, &a) - 1.0).abs() < 1e-4);
                prop_assert!((quantise(&a).cosine(&quantise(&b)) - cosine(&a, &b)).abs() < 0.005);
            }
        }

        #[test]
        fn a_dot_is_the_sum_of_products(pairs in prop::collection::vec((any::<i8>(), any::<i8>()), 256)) {
            let (a, b): (Vec<i8>, Vec<i8>) = pairs.into_iter().unzip();
            for length in [0, 64, 128, 256] {
                let expected: i32 = a.iter().zip(&b).take(length).map(|(a, b)| i32::from(*a) * i32::from(*b)).sum();
                prop_assert_eq!(dot(&a[..length], &b[..length]), expected);
            }
            let (a, b) = (a.first_chunk::<64>().unwrap(), b.first_chunk::<64>().unwrap());
            prop_assert_eq!(Probe::new(a).dot(&b.map(raised)), dot(a, b));
        }
    }
}
