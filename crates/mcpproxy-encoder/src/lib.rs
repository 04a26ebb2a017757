//! A sentence encoder: turns the tokens of a short text into a vector of its meaning.
//!
//! The model is a three-layer BERT with 384 dimensions, distilled from all-MiniLM-L6-v2 (`data/README.md`). Its weights
//! are bytes with a scale per row, and they are compiled into the program. They are read where they are: an encoder
//! has about a hundred kilobytes of its own.
//!
//! ```text
//! tokens ─▶ word + position vectors ─▶ 3 × (attention, two matrices with GELU) ─▶ mean ─▶ length 1
//! ```
//!
//! How it is fast without a library:
//! - A matrix product takes bytes as weights and 16-bit integers as activations (`matrix`). One AVX2 instruction
//!   multiplies 16 pairs of them and adds neighbours. With AVX-512 and VNNI, one instruction takes 32 pairs and adds
//!   them to a sum, too.
//! - 16 bits, not 8, because eight more bits of precision cost nothing: weights are widened to 16 bits either way.
//! - Everything else is plain loops over blocks of eight numbers, compiled once for AVX2 and once for any processor.
//!
//! Invariants:
//! - The same tokens give the same bits, on every processor of one architecture. Products are sums of integers, which
//!   do not depend on their order. Loops over floating-point numbers add in the order that is written.
//! - A text costs at most what [`TOKENS_MAX`] tokens cost. Longer texts are cut, and unknown tokens become `[UNK]`.
//! - Only `simd` contains unsafe code. Everything else forbids it.

mod attention;
mod blocks;
mod encoder;
mod matrix;
mod numbers;
mod simd;
mod tensors;

pub use encoder::Encoder;
pub use tensors::ModelError;

/// Numbers in a vector.
pub const DIMENSIONS: usize = 384;
/// Maximum number of tokens of a text, with the two marks around it. The model was trained with this length.
pub const TOKENS_MAX: usize = 96;
/// Maximum number of tokens of a text without the marks.
pub const TEXT_TOKENS_MAX: usize = TOKENS_MAX - 2;
/// Token for a word that the vocabulary does not have.
pub const UNKNOWN: u32 = 100;
