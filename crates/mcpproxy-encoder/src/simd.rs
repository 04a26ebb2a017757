//! Runs the inner loops with the widest instructions that the processor has. The only unsafe code of the project.
//!
//! A function that is compiled for AVX2 may run only on a processor that has it. [`Avx2`] is the proof: only
//! [`Processor::fastest`] makes one, after asking the processor. All inner loops are written once, elsewhere, in safe
//! code. Here they are compiled a second time, for AVX2. Only the product of integers is written with instructions,
//! because the compiler does not keep its sums in registers.
//!
//! On other architectures, and on old processors, the portable form runs. On aarch64, NEON belongs to that, since every
//! processor has it.

use crate::attention::{self, Keys};
use crate::blocks::{self, STEP, Step, TOGETHER};
use crate::numbers;

/// The instructions to use.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Processor {
    Portable,
    #[cfg(target_arch = "x86_64")]
    Avx2(Avx2),
}

/// Proof that the processor has AVX2.
#[cfg(target_arch = "x86_64")]
#[derive(Clone, Copy, Debug)]
pub(crate) struct Avx2(());

impl Processor {
    pub(crate) fn fastest() -> Self {
        #[cfg(target_arch = "x86_64")]
        if std::arch::is_x86_feature_detected!("avx2") {
            return Self::Avx2(Avx2(()));
        }
        Self::Portable
    }

    /// Returns the portable form and the fastest one, to compare them.
    #[cfg(test)]
    pub(crate) fn all() -> [Self; 2] {
        [Self::Portable, Self::fastest()]
    }

    /// Multiplies two rows of weights with the activations of four tokens.
    pub(crate) fn products(self, first: &[[u8; STEP]], second: &[[u8; STEP]], tokens: &[Step]) -> [[i32; TOGETHER]; 2] {
        match self {
            Self::Portable => blocks::products(first, second, tokens),
            #[cfg(target_arch = "x86_64")]
            // SAFETY: the proof says that the processor has AVX2.
            Self::Avx2(Avx2(())) => unsafe { avx2::products(first, second, tokens) },
        }
    }

    /// Rounds a row of activations into its place among four, and returns its scale.
    pub(crate) fn quantise(self, row: &[f32], limit: f32, token: usize, steps: &mut [Step]) -> f32 {
        match self {
            Self::Portable => blocks::quantise_into(row, limit, token, steps),
            #[cfg(target_arch = "x86_64")]
            // SAFETY: the proof says that the processor has AVX2.
            Self::Avx2(Avx2(())) => unsafe { avx2::quantise(row, limit, token, steps) },
        }
    }

    pub(crate) fn gelu(self, values: &mut [f32]) {
        match self {
            Self::Portable => numbers::gelu(values),
            #[cfg(target_arch = "x86_64")]
            // SAFETY: the proof says that the processor has AVX2.
            Self::Avx2(Avx2(())) => unsafe { avx2::gelu(values) },
        }
    }

    pub(crate) fn layer_norm(self, row: &mut [f32], weight: &[f32], bias: &[f32]) {
        match self {
            Self::Portable => numbers::layer_norm(row, weight, bias),
            #[cfg(target_arch = "x86_64")]
            // SAFETY: the proof says that the processor has AVX2.
            Self::Avx2(Avx2(())) => unsafe { avx2::layer_norm(row, weight, bias) },
        }
    }

    /// Computes attention for the tokens of one text: queries, keys and values.
    pub(crate) fn attend(self, inputs: [&[f32]; 3], keys: &mut Keys, out: &mut [f32]) {
        match self {
            Self::Portable => attention::attend(inputs, keys, out),
            #[cfg(target_arch = "x86_64")]
            // SAFETY: the proof says that the processor has AVX2.
            Self::Avx2(Avx2(())) => unsafe { avx2::attend(inputs, keys, out) },
        }
    }
}

#[cfg(target_arch = "x86_64")]
mod avx2 {
    use std::arch::x86_64::{
        __m256i, _mm_add_epi32, _mm_loadu_si128, _mm_storeu_si128, _mm256_add_epi32, _mm256_castsi256_si128,
        _mm256_cvtepi8_epi16, _mm256_extracti128_si256, _mm256_hadd_epi32, _mm256_loadu_si256, _mm256_madd_epi16,
        _mm256_setzero_si256,
    };

    use super::{Keys, STEP, Step, TOGETHER, attention, blocks, numbers};

    #[target_feature(enable = "avx2")]
    pub(super) fn products(first: &[[u8; STEP]], second: &[[u8; STEP]], tokens: &[Step]) -> [[i32; TOGETHER]; 2] {
        let (mut sums, mut more) = ([_mm256_setzero_si256(); TOGETHER], [_mm256_setzero_si256(); TOGETHER]);
        for ((first, second), step) in first.iter().zip(second).zip(tokens) {
            let (first, second) = (widened(first), widened(second));
            for ((sum, more), token) in sums.iter_mut().zip(&mut more).zip(step) {
                let token = loaded(token);
                *sum = _mm256_add_epi32(*sum, _mm256_madd_epi16(first, token));
                *more = _mm256_add_epi32(*more, _mm256_madd_epi16(second, token));
            }
        }
        [added(sums), added(more)]
    }

    /// Loads 16 signed bytes as 16-bit integers.
    #[target_feature(enable = "avx2")]
    fn widened(bytes: &[u8; STEP]) -> __m256i {
        // SAFETY: the reference covers the 16 bytes that are read, and the instruction needs no alignment.
        _mm256_cvtepi8_epi16(unsafe { _mm_loadu_si128(bytes.as_ptr().cast()) })
    }

    #[target_feature(enable = "avx2")]
    fn loaded(values: &[i16; STEP]) -> __m256i {
        // SAFETY: the reference covers the 32 bytes that are read, and the instruction needs no alignment.
        unsafe { _mm256_loadu_si256(values.as_ptr().cast()) }
    }

    /// Adds the eight numbers of each of four sums.
    #[target_feature(enable = "avx2")]
    fn added([a, b, c, d]: [__m256i; TOGETHER]) -> [i32; TOGETHER] {
        let all = _mm256_hadd_epi32(_mm256_hadd_epi32(a, b), _mm256_hadd_epi32(c, d));
        let all = _mm_add_epi32(_mm256_castsi256_si128(all), _mm256_extracti128_si256::<1>(all));
        let mut sums = [0; TOGETHER];
        // SAFETY: the array has the 16 bytes that are written, and the instruction needs no alignment.
        unsafe { _mm_storeu_si128(sums.as_mut_ptr().cast(), all) };
        sums
    }

    #[target_feature(enable = "avx2")]
    pub(super) fn quantise(row: &[f32], limit: f32, token: usize, steps: &mut [Step]) -> f32 {
        blocks::quantise_into(row, limit, token, steps)
    }

    #[target_feature(enable = "avx2")]
    pub(super) fn gelu(values: &mut [f32]) {
        numbers::gelu(values);
    }

    #[target_feature(enable = "avx2")]
    pub(super) fn layer_norm(row: &mut [f32], weight: &[f32], bias: &[f32]) {
        numbers::layer_norm(row, weight, bias);
    }

    #[target_feature(enable = "avx2")]
    pub(super) fn attend(inputs: [&[f32]; 3], keys: &mut Keys, out: &mut [f32]) {
        attention::attend(inputs, keys, out);
    }
}
