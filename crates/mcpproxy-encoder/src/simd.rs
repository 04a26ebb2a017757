//! Runs the inner loops with the widest instructions that the processor has. The only unsafe code of the project.
//!
//! A function that is compiled for AVX2 may run only on a processor that has it. [`Avx2`] is the proof: only
//! [`Processor::fastest`] makes one, after asking the processor. All inner loops are written once, elsewhere, in safe
//! code. Here they are compiled a second time, for AVX2. Only the product of integers is written with instructions,
//! because the compiler does not keep its sums in registers. It takes more than half of the time, so it has a third form
//! for AVX-512, with the proof [`Vnni`].
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
    #[cfg(target_arch = "x86_64")]
    Vnni(Vnni),
}

/// Proof that the processor has AVX2.
#[cfg(target_arch = "x86_64")]
#[derive(Clone, Copy, Debug)]
pub(crate) struct Avx2(());

/// Proof that the processor has AVX-512 with products of 16-bit integers that add to a sum (VNNI), and AVX2.
#[cfg(target_arch = "x86_64")]
#[derive(Clone, Copy, Debug)]
pub(crate) struct Vnni(Avx2);

impl Processor {
    pub(crate) fn fastest() -> Self {
        #[cfg(target_arch = "x86_64")]
        if std::arch::is_x86_feature_detected!("avx2") {
            let wide = std::arch::is_x86_feature_detected!("avx512f")
                && std::arch::is_x86_feature_detected!("avx512bw")
                && std::arch::is_x86_feature_detected!("avx512vnni");
            return if wide { Self::Vnni(Vnni(Avx2(()))) } else { Self::Avx2(Avx2(())) };
        }
        Self::Portable
    }

    /// Returns all forms that this processor can run, to compare them.
    #[cfg(test)]
    pub(crate) fn all() -> Vec<Self> {
        match Self::fastest() {
            Self::Portable => vec![Self::Portable],
            #[cfg(target_arch = "x86_64")]
            Self::Avx2(avx2) => vec![Self::Portable, Self::Avx2(avx2)],
            #[cfg(target_arch = "x86_64")]
            Self::Vnni(vnni) => vec![Self::Portable, Self::Avx2(vnni.0), Self::Vnni(vnni)],
        }
    }

    /// Multiplies two rows of weights with the activations of four tokens.
    pub(crate) fn products(self, first: &[[u8; STEP]], second: &[[u8; STEP]], tokens: &[Step]) -> [[i32; TOGETHER]; 2] {
        match self {
            Self::Portable => blocks::products(first, second, tokens),
            #[cfg(target_arch = "x86_64")]
            // SAFETY: the proof says that the processor has AVX2.
            Self::Avx2(Avx2(())) => unsafe { avx2::products(first, second, tokens) },
            #[cfg(target_arch = "x86_64")]
            // SAFETY: the proof says that the processor has AVX2 and the three parts of AVX-512.
            Self::Vnni(Vnni(Avx2(()))) => unsafe { vnni::products(first, second, tokens) },
        }
    }

    /// Rounds a row of activations into its place among four, and returns its scale.
    pub(crate) fn quantise(self, row: &[f32], limit: f32, token: usize, steps: &mut [Step]) -> f32 {
        match self {
            Self::Portable => blocks::quantise_into(row, limit, token, steps),
            #[cfg(target_arch = "x86_64")]
            // SAFETY: the proof says that the processor has AVX2.
            Self::Avx2(Avx2(())) | Self::Vnni(Vnni(Avx2(()))) => unsafe { avx2::quantise(row, limit, token, steps) },
        }
    }

    pub(crate) fn gelu(self, values: &mut [f32]) {
        match self {
            Self::Portable => numbers::gelu(values),
            #[cfg(target_arch = "x86_64")]
            // SAFETY: the proof says that the processor has AVX2.
            Self::Avx2(Avx2(())) | Self::Vnni(Vnni(Avx2(()))) => unsafe { avx2::gelu(values) },
        }
    }

    pub(crate) fn layer_norm(self, row: &mut [f32], weight: &[f32], bias: &[f32]) {
        match self {
            Self::Portable => numbers::layer_norm(row, weight, bias),
            #[cfg(target_arch = "x86_64")]
            // SAFETY: the proof says that the processor has AVX2.
            Self::Avx2(Avx2(())) | Self::Vnni(Vnni(Avx2(()))) => unsafe { avx2::layer_norm(row, weight, bias) },
        }
    }

    /// Computes attention for the tokens of one text: queries, keys and values.
    pub(crate) fn attend(self, inputs: [&[f32]; 3], keys: &mut Keys, out: &mut [f32]) {
        match self {
            Self::Portable => attention::attend(inputs, keys, out),
            #[cfg(target_arch = "x86_64")]
            // SAFETY: the proof says that the processor has AVX2.
            Self::Avx2(Avx2(())) | Self::Vnni(Vnni(Avx2(()))) => unsafe { avx2::attend(inputs, keys, out) },
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
    pub(super) fn added([a, b, c, d]: [__m256i; TOGETHER]) -> [i32; TOGETHER] {
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

/// The product of integers again, with registers of 512 bits. Each has two tokens, so a step takes half the instructions.
#[cfg(target_arch = "x86_64")]
mod vnni {
    use std::arch::x86_64::{
        __m512i, _mm_loadu_si128, _mm256_broadcastsi128_si256, _mm512_add_epi32, _mm512_castsi512_si256,
        _mm512_cvtepi8_epi16, _mm512_dpwssd_epi32, _mm512_extracti64x4_epi64, _mm512_loadu_si512, _mm512_setzero_si512,
    };

    use super::avx2::added;
    use super::{STEP, Step, TOGETHER};

    /// The sums of a row of weights, with two of the four tokens each.
    type Sums = [__m512i; 2];

    #[target_feature(enable = "avx2,avx512f,avx512bw,avx512vnni")]
    pub(super) fn products(first: &[[u8; STEP]], second: &[[u8; STEP]], tokens: &[Step]) -> [[i32; TOGETHER]; 2] {
        let zero = [_mm512_setzero_si512(); 2];
        let (mut sums, mut more) = (zero, zero);
        // A product waits for the one before it in its sum. Odd steps have sums of their own, so that fewer wait.
        let (mut odd_sums, mut odd_more) = (zero, zero);
        let mut steps = first.iter().zip(second).zip(tokens);
        while let Some(((first, second), step)) = steps.next() {
            add(&mut sums, &mut more, (first, second), step);
            if let Some(((first, second), step)) = steps.next() {
                add(&mut odd_sums, &mut odd_more, (first, second), step);
            }
        }
        [joined(sums, odd_sums), joined(more, odd_more)]
    }

    #[inline]
    #[target_feature(enable = "avx2,avx512f,avx512bw,avx512vnni")]
    fn add(sums: &mut Sums, more: &mut Sums, (first, second): (&[u8; STEP], &[u8; STEP]), step: &Step) {
        let (first, second) = (widened(first), widened(second));
        for ((sum, more), pair) in sums.iter_mut().zip(more).zip(step.as_chunks().0) {
            let pair = loaded(pair);
            *sum = _mm512_dpwssd_epi32(*sum, first, pair);
            *more = _mm512_dpwssd_epi32(*more, second, pair);
        }
    }

    /// Loads 16 signed bytes as 16-bit integers, twice.
    #[inline]
    #[target_feature(enable = "avx2,avx512f,avx512bw")]
    fn widened(bytes: &[u8; STEP]) -> __m512i {
        // SAFETY: the reference covers the 16 bytes that are read, and the instruction needs no alignment.
        let bytes = unsafe { _mm_loadu_si128(bytes.as_ptr().cast()) };
        _mm512_cvtepi8_epi16(_mm256_broadcastsi128_si256(bytes))
    }

    #[inline]
    #[target_feature(enable = "avx512f")]
    fn loaded(pair: &[[i16; STEP]; 2]) -> __m512i {
        // SAFETY: the reference covers the 64 bytes that are read, and the instruction needs no alignment.
        unsafe { _mm512_loadu_si512(pair.as_ptr().cast()) }
    }

    /// Adds the sums of even and odd steps, and then the eight numbers of each token.
    #[inline]
    #[target_feature(enable = "avx2,avx512f")]
    fn joined([first, second]: Sums, [odd_first, odd_second]: Sums) -> [i32; TOGETHER] {
        let (first, second) = (_mm512_add_epi32(first, odd_first), _mm512_add_epi32(second, odd_second));
        added([
            _mm512_castsi512_si256(first),
            _mm512_extracti64x4_epi64::<1>(first),
            _mm512_castsi512_si256(second),
            _mm512_extracti64x4_epi64::<1>(second),
        ])
    }
}
