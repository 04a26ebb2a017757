//! The forward pass: tokens of several texts in, one vector per text out.

#![forbid(unsafe_code)]

use crate::attention::Keys;
use crate::matrix::{Matrix, Packed};
use crate::numbers;
use crate::simd::Processor;
use crate::tensors::{Files, ModelError, Tensors};
use crate::{DIMENSIONS, TEXT_TOKENS_MAX, UNKNOWN};

const TOKENS: usize = 30_522;
const POSITIONS: usize = 512;
const LAYERS: usize = 3;
const INNER: usize = 1_536;
/// Tokens before and after a text.
const START: u32 = 101;
const END: u32 = 102;

/// The model, ready to use. Weights stay in the program file.
pub struct Encoder {
    processor: Processor,
    words: &'static [[u8; DIMENSIONS]],
    word_scales: &'static [[u8; 4]],
    positions: &'static [[[u8; 4]; DIMENSIONS]],
    /// The same for every token, because every text is the first of a pair that has no second.
    kind: Vec<f32>,
    norm: Norm,
    layers: Vec<Layer>,
}

struct Layer {
    query: Matrix,
    key: Matrix,
    value: Matrix,
    attended: Matrix,
    attended_norm: Norm,
    inner: Matrix,
    output: Matrix,
    output_norm: Norm,
}

struct Norm {
    weight: Vec<f32>,
    bias: Vec<f32>,
}

/// Memory of one forward pass.
#[derive(Default)]
struct Scratch {
    packed: Packed,
    queries: Vec<f32>,
    keys: Vec<f32>,
    values: Vec<f32>,
    attended: Vec<f32>,
    result: Vec<f32>,
    arranged: Keys,
}

impl Encoder {
    /// Reads the model that is compiled in.
    pub fn embedded() -> Result<Self, ModelError> {
        Self::read(Files::EMBEDDED)
    }

    pub(crate) fn read(files: Files) -> Result<Self, ModelError> {
        let (words, rest) = (Tensors::read(files.words)?, Tensors::read(files.layers)?);
        let name = "embeddings.word_embeddings.weight";
        let kinds = rest.floats("embeddings.token_type_embeddings.weight", &[2, DIMENSIONS])?;
        Ok(Self {
            processor: Processor::fastest(),
            words: words.quantised(name, TOKENS, DIMENSIONS)?.as_chunks().0,
            word_scales: words.raw_floats(&format!("{name}.scale"), &[TOKENS])?,
            positions: rest
                .raw_floats("embeddings.position_embeddings.weight", &[POSITIONS, DIMENSIONS])?
                .as_chunks()
                .0,
            kind: kinds.into_iter().take(DIMENSIONS).collect(),
            norm: Norm::read(&rest, "embeddings.LayerNorm")?,
            layers: (0..LAYERS).map(|layer| Layer::read(&rest, layer)).collect::<Result<_, _>>()?,
        })
    }

    /// Computes the vectors of texts, each with length 1. A text is a list of tokens without marks around it. It is cut
    /// after [`TEXT_TOKENS_MAX`] tokens.
    ///
    /// Texts in one call share the passes over the weights, and do not influence each other.
    pub fn encode(&self, texts: &[&[u32]]) -> Vec<[f32; DIMENSIONS]> {
        let mut state = Vec::new();
        let mut lengths = Vec::with_capacity(texts.len());
        for text in texts {
            let text = text.iter().take(TEXT_TOKENS_MAX);
            let tokens = [START].iter().chain(text).chain(&[END]);
            let before = state.len();
            for (token, position) in tokens.zip(self.positions) {
                self.push(*token, position, &mut state);
            }
            lengths.push(state.len() - before);
        }
        let mut scratch = Scratch::default();
        for layer in &self.layers {
            layer.run(self.processor, &lengths, &mut state, &mut scratch);
        }
        let mut rest = state.as_slice();
        let mut mean = |length: &usize| {
            let text;
            (text, rest) = rest.split_at_checked(*length).unwrap_or_default();
            mean(text)
        };
        lengths.iter().map(&mut mean).collect()
    }

    /// Appends the vector of a token at a position.
    fn push(&self, token: u32, position: &[[u8; 4]; DIMENSIONS], state: &mut Vec<f32>) {
        let find = |token: u32| {
            let token = token as usize;
            Some((self.words.get(token)?, f32::from_le_bytes(*self.word_scales.get(token)?)))
        };
        let Some((word, scale)) = find(token).or_else(|| find(UNKNOWN)) else { return };
        let start = state.len();
        let values = word.iter().zip(position).zip(&self.kind);
        state.extend(values.map(|((word, position), kind)| {
            f32::from(word.cast_signed()) * scale + f32::from_le_bytes(*position) + kind
        }));
        self.norm.apply(self.processor, state.get_mut(start..).unwrap_or_default());
    }
}

/// Computes the mean of the rows of a text, with length 1.
fn mean(text: &[f32]) -> [f32; DIMENSIONS] {
    let mut sum = [0.0; DIMENSIONS];
    for row in text.chunks_exact(DIMENSIONS) {
        for (sum, value) in sum.iter_mut().zip(row) {
            *sum += value;
        }
    }
    numbers::unit(&mut sum);
    sum
}

impl Norm {
    fn read(tensors: &Tensors, name: &str) -> Result<Self, ModelError> {
        let read = |part: &str| tensors.floats(&format!("{name}.{part}"), &[DIMENSIONS]);
        Ok(Self { weight: read("weight")?, bias: read("bias")? })
    }

    fn apply(&self, processor: Processor, rows: &mut [f32]) {
        for row in rows.chunks_exact_mut(DIMENSIONS) {
            processor.layer_norm(row, &self.weight, &self.bias);
        }
    }
}

impl Layer {
    fn read(tensors: &Tensors, number: usize) -> Result<Self, ModelError> {
        let name = |part: &str| format!("encoder.layer.{number}.{part}");
        let square = |part: &str| tensors.matrix(&name(part), DIMENSIONS, DIMENSIONS);
        Ok(Self {
            query: square("attention.self.query")?,
            key: square("attention.self.key")?,
            value: square("attention.self.value")?,
            attended: square("attention.output.dense")?,
            attended_norm: Norm::read(tensors, &name("attention.output.LayerNorm"))?,
            inner: tensors.matrix(&name("intermediate.dense"), INNER, DIMENSIONS)?,
            output: tensors.matrix(&name("output.dense"), DIMENSIONS, INNER)?,
            output_norm: Norm::read(tensors, &name("output.LayerNorm"))?,
        })
    }

    /// Replaces the state of all tokens by what this layer makes of it.
    fn run(&self, processor: Processor, lengths: &[usize], state: &mut [f32], scratch: &mut Scratch) {
        let Scratch { packed, queries, keys, values, attended, result, arranged } = scratch;
        packed.pack(processor, state, DIMENSIONS);
        self.query.multiply(processor, packed, queries);
        self.key.multiply(processor, packed, keys);
        self.value.multiply(processor, packed, values);
        attended.clear();
        attended.resize(state.len(), 0.0);
        let mut start = 0;
        for length in lengths {
            let text = start..start + length;
            let inputs = [&*queries, keys, values].map(|rows| rows.get(text.clone()).unwrap_or_default());
            processor.attend(inputs, arranged, attended.get_mut(text.clone()).unwrap_or_default());
            start = text.end;
        }
        packed.pack(processor, attended, DIMENSIONS);
        self.attended.multiply(processor, packed, result);
        add(state, result);
        self.attended_norm.apply(processor, state);

        packed.pack(processor, state, DIMENSIONS);
        self.inner.multiply(processor, packed, result);
        processor.gelu(result);
        packed.pack(processor, result, INNER);
        self.output.multiply(processor, packed, result);
        add(state, result);
        self.output_norm.apply(processor, state);
    }
}

fn add(state: &mut [f32], result: &[f32]) {
    for (value, more) in state.iter_mut().zip(result) {
        *value += more;
    }
}

#[cfg(test)]
mod tests {
    use std::sync::LazyLock;

    use proptest::prelude::*;
    use serde_json::Value;

    use super::*;

    static ENCODER: LazyLock<Encoder> = LazyLock::new(|| Encoder::embedded().unwrap());

    fn cosine(a: &[f32; DIMENSIONS], b: &[f32; DIMENSIONS]) -> f32 {
        a.iter().zip(b).map(|(a, b)| a * b).sum()
    }

    fn bits(vectors: &[[f32; DIMENSIONS]]) -> Vec<u32> {
        vectors.iter().flatten().map(|value| value.to_bits()).collect()
    }

    fn numbers(value: &Value) -> Vec<f64> {
        value.as_array().unwrap().iter().map(|number| number.as_f64().unwrap()).collect()
    }

    #[test]
    fn reproduces_the_check_values_of_the_model() {
        let check: Value = serde_json::from_str(include_str!("../data/check.json")).unwrap();
        let ids: Vec<Vec<u32>> = check["ids"]
            .as_array()
            .unwrap()
            .iter()
            .map(|ids| numbers(ids).iter().map(|id| *id as u32).collect())
            .collect();
        let texts: Vec<&[u32]> = ids.iter().map(|ids| &ids[1..ids.len() - 1]).collect();
        for processor in Processor::all() {
            let encoder = Encoder { processor, ..Encoder::embedded().unwrap() };
            let vectors = encoder.encode(&texts);
            let mut worst = 0.0_f64;
            for (vector, expected) in vectors.iter().zip(check["first8"].as_array().unwrap()) {
                for (value, expected) in vector.iter().zip(numbers(expected)) {
                    worst = worst.max((f64::from(*value) - expected).abs());
                }
            }
            for (vector, expected) in vectors.iter().zip(check["cosines"].as_array().unwrap()) {
                for (other, expected) in vectors.iter().zip(numbers(expected)) {
                    worst = worst.max((f64::from(cosine(vector, other)) - expected).abs());
                }
            }
            assert_eq!(vectors.len(), 5);
            assert!(worst <= 0.001, "{processor:?}: off by {worst}");
        }
    }

    /// Processors without AVX2 get the same bits, and so does every other mix of texts in a call.
    #[test]
    fn vectors_do_not_depend_on_processor_or_neighbours() {
        let texts: [&[u32]; 4] = [&[2862, 4139, 11186], &[], &[1037; 200], &[4826, 9999, 30_521]];
        let portable = Encoder { processor: Processor::Portable, ..Encoder::embedded().unwrap() };
        let together = ENCODER.encode(&texts);
        assert_eq!(bits(&together), bits(&portable.encode(&texts)));
        let alone: Vec<[f32; DIMENSIONS]> = texts.iter().flat_map(|text| ENCODER.encode(&[text])).collect();
        assert_eq!(bits(&together), bits(&alone));
        assert_eq!(bits(&together), bits(&ENCODER.encode(&texts)));
    }

    #[test]
    fn texts_are_cut_and_unknown_tokens_are_one() {
        let long: Vec<u32> = (1_000..1_000_000).collect();
        assert_eq!(ENCODER.encode(&[&long]), ENCODER.encode(&[&long[..TEXT_TOKENS_MAX]]));
        assert_eq!(ENCODER.encode(&[&[u32::MAX, 30_522]]), ENCODER.encode(&[&[UNKNOWN, UNKNOWN]]));
        assert_eq!(ENCODER.encode(&[]), Vec::<[f32; DIMENSIONS]>::new());
        assert!((cosine(&ENCODER.encode(&[&[]])[0], &ENCODER.encode(&[&[]])[0]) - 1.0).abs() < 1e-5);
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

        #[test]
        fn every_text_has_a_vector_of_length_one(text in prop::collection::vec(any::<u32>(), 0..120)) {
            let small: Vec<u32> = text.iter().map(|token| token % 30_522).collect();
            for vector in ENCODER.encode(&[&text, &small]) {
                prop_assert!((cosine(&vector, &vector) - 1.0).abs() < 1e-4);
            }
        }
    }
}
