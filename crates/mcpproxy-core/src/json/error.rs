//! Errors of the strict reader, with line and column.

/// An error in JSON text from outside. Lines and columns count from 1, columns in characters.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{kind} (line {line}, column {column})")]
pub struct ReadError {
    pub kind: ReadErrorKind,
    pub line: usize,
    pub column: usize,
}

/// The reason why the strict reader refuses a text.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ReadErrorKind {
    #[error("the text is empty")]
    Empty,
    #[error("invalid UTF-8")]
    Utf8,
    #[error("byte order mark before the JSON text")]
    ByteOrderMark,
    #[error("unexpected end of text")]
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
    /// Converts a byte offset into a line and a column.
    pub(super) fn at(bytes: &[u8], at: usize, kind: ReadErrorKind) -> Self {
        let before = bytes.get(..at).unwrap_or(bytes);
        let line_start = before.iter().rposition(|b| *b == b'\n').map_or(0, |newline| newline + 1);
        let line = before.iter().filter(|b| **b == b'\n').count() + 1;
        let column = String::from_utf8_lossy(before.get(line_start..).unwrap_or_default()).chars().count() + 1;
        Self { kind, line, column }
    }
}

impl ReadErrorKind {
    /// Returns `true` if the text is not JSON, `false` if it is JSON that the reader refuses.
    pub fn is_syntax(&self) -> bool {
        match self {
            Self::Duplicate { .. } | Self::Depth(_) | Self::Reserved(_) => false,
            Self::Empty
            | Self::Utf8
            | Self::ByteOrderMark
            | Self::End
            | Self::Expected(_)
            | Self::Trailing
            | Self::LoneSurrogate
            | Self::NumberRange => true,
        }
    }
}
