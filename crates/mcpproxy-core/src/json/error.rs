//! What can be wrong with JSON from outside, and where.

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{kind} (line {line}, column {column})")]
pub struct ReadError {
    pub kind: ReadErrorKind,
    pub line: usize,
    pub column: usize,
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ReadErrorKind {
    #[error("empty body")]
    Empty,
    #[error("invalid UTF-8")]
    Utf8,
    #[error("byte order mark before the JSON text")]
    ByteOrderMark,
    #[error("unexpected end")]
    End,
    #[error("expected {0}")]
    Expected(&'static str),
    #[error("trailing characters")]
    Trailing,
    #[error("lone surrogate")]
    LoneSurrogate,
    #[error("number out of range")]
    NumberRange,
    #[error("duplicate key {key:?} at {}", if pointer.is_empty() { "/" } else { pointer })]
    Duplicate { key: String, pointer: String },
    #[error("nesting deeper than {0}")]
    Depth(usize),
    #[error("key {0:?} is reserved")]
    Reserved(String),
}

impl ReadError {
    /// Counts lines and columns from 1, columns in characters.
    pub(super) fn at(bytes: &[u8], at: usize, kind: ReadErrorKind) -> Self {
        let before = bytes.get(..at).unwrap_or(bytes);
        let line_start = before.iter().rposition(|b| *b == b'\n').map_or(0, |newline| newline + 1);
        let line = before.iter().filter(|b| **b == b'\n').count() + 1;
        let column = String::from_utf8_lossy(before.get(line_start..).unwrap_or_default()).chars().count() + 1;
        Self { kind, line, column }
    }
}

impl ReadErrorKind {
    /// Whether the text is JSON at all; the other faults are JSON that we refuse.
    pub fn is_syntax(&self) -> bool {
        !matches!(self, Self::Duplicate { .. } | Self::Depth(_) | Self::Reserved(_))
    }
}
