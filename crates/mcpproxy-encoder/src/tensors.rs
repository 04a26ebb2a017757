//! Reads the weights out of the two safetensors files that are compiled in.
//!
//! A safetensors file is a length, a JSON object with the place of each tensor, and the bytes of the tensors. Matrices
//! of bytes stay where they are. Scales of layers, biases and norms are copied, because their places are not aligned.

#![forbid(unsafe_code)]

use serde_json::{Map, Value};

use crate::matrix::Matrix;

static WORDS: &[u8] = include_bytes!("../data/embeddings.safetensors");
static LAYERS: &[u8] = include_bytes!("../data/layers.safetensors");

/// The reason why a file is not a model.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ModelError {
    #[error("the model file has no readable header")]
    NoHeader,
    #[error("the model file has no tensor `{0}` of the expected type and shape")]
    NoTensor(String),
}

/// The two files of a model.
#[derive(Clone, Copy)]
pub(crate) struct Files {
    pub(crate) words: &'static [u8],
    pub(crate) layers: &'static [u8],
}

impl Files {
    pub(crate) const EMBEDDED: Self = Self { words: WORDS, layers: LAYERS };
}

/// One safetensors file.
pub(crate) struct Tensors {
    places: Map<String, Value>,
    bytes: &'static [u8],
}

impl Tensors {
    pub(crate) fn read(file: &'static [u8]) -> Result<Self, ModelError> {
        let (length, rest) = file.split_first_chunk::<8>().ok_or(ModelError::NoHeader)?;
        let length = usize::try_from(u64::from_le_bytes(*length)).map_err(|_| ModelError::NoHeader)?;
        let (header, bytes) = rest.split_at_checked(length).ok_or(ModelError::NoHeader)?;
        let places = serde_json::from_slice(header).map_err(|_| ModelError::NoHeader)?;
        Ok(Self { places, bytes })
    }

    /// Returns the bytes of a tensor, if it has this type and shape.
    fn bytes(&self, name: &str, kind: &str, shape: &[usize]) -> Result<&'static [u8], ModelError> {
        self.find(name, kind, shape).ok_or_else(|| ModelError::NoTensor(name.to_owned()))
    }

    fn find(&self, name: &str, kind: &str, shape: &[usize]) -> Option<&'static [u8]> {
        let place = self.places.get(name)?;
        let numbers = |key: &str| -> Option<Vec<usize>> {
            let all = place.get(key)?.as_array()?.iter();
            all.map(|number| number.as_u64().and_then(|number| usize::try_from(number).ok())).collect()
        };
        let width = if kind == "F32" { 4 } else { 1 };
        let [start, end] = *numbers("data_offsets")?.as_slice() else { return None };
        let bytes = self.bytes.get(start..end)?;
        let is_right = place.get("dtype")?.as_str()? == kind
            && numbers("shape")? == shape
            && bytes.len() == shape.iter().product::<usize>() * width;
        is_right.then_some(bytes)
    }

    /// Returns the numbers of a tensor, each as four bytes that are not aligned.
    pub(crate) fn raw_floats(&self, name: &str, shape: &[usize]) -> Result<&'static [[u8; 4]], ModelError> {
        Ok(self.bytes(name, "F32", shape)?.as_chunks().0)
    }

    /// Copies the numbers of a tensor.
    pub(crate) fn floats(&self, name: &str, shape: &[usize]) -> Result<Vec<f32>, ModelError> {
        Ok(self.raw_floats(name, shape)?.iter().map(|bytes| f32::from_le_bytes(*bytes)).collect())
    }

    /// Returns a matrix of bytes.
    pub(crate) fn quantised(&self, name: &str, rows: usize, columns: usize) -> Result<&'static [u8], ModelError> {
        self.bytes(&format!("{name}.int8"), "I8", &[rows, columns])
    }

    /// Returns a matrix with its bias.
    pub(crate) fn matrix(&self, name: &str, rows: usize, columns: usize) -> Result<Matrix, ModelError> {
        Ok(Matrix {
            weights: self.quantised(&format!("{name}.weight"), rows, columns)?.as_chunks().0,
            scales: self.floats(&format!("{name}.weight.scale"), &[rows])?,
            bias: self.floats(&format!("{name}.bias"), &[rows])?,
            columns,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Encoder;

    fn leak(bytes: Vec<u8>) -> &'static [u8] {
        Box::leak(bytes.into_boxed_slice())
    }

    fn file(header: &str, bytes: &[u8]) -> &'static [u8] {
        let length = (header.len() as u64).to_le_bytes();
        leak([length.as_slice(), header.as_bytes(), bytes].concat())
    }

    #[test]
    fn damaged_files_are_errors() {
        let read = |words, layers| Encoder::read(Files { words, layers }).err();
        for header in [leak(Vec::new()), leak(vec![0; 7]), leak(vec![255; 64]), file("[]", &[]), file("{", &[])] {
            assert_eq!(read(header, LAYERS), Some(ModelError::NoHeader));
            assert_eq!(read(WORDS, header), Some(ModelError::NoHeader));
        }
        let missing = Some(ModelError::NoTensor("embeddings.word_embeddings.weight.int8".to_owned()));
        let name = "embeddings.word_embeddings.weight.int8";
        for place in [
            "null",
            r#"{"dtype":"F32","shape":[30522,384],"data_offsets":[0,4]}"#,
            r#"{"dtype":"I8","shape":[1,4],"data_offsets":[0,4]}"#,
            r#"{"dtype":"I8","shape":[30522,384],"data_offsets":[0,4]}"#,
            r#"{"dtype":"I8","shape":[30522,384],"data_offsets":[4,0]}"#,
            r#"{"dtype":"I8","shape":[30522,384],"data_offsets":[0,18446744073709551615]}"#,
            r#"{"dtype":"I8","shape":[30522,384],"data_offsets":[-1,4]}"#,
        ] {
            assert_eq!(read(file(&format!("{{\"{name}\":{place}}}"), &[0; 4]), LAYERS), missing, "{place}");
        }
        let cut = LAYERS.get(..LAYERS.len() / 2).unwrap();
        assert!(matches!(read(WORDS, cut), Some(ModelError::NoTensor(_))));
    }
}
