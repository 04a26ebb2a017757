//! One mistake in a file that an operator wrote, and where it is.

/// Lines and columns count from 1, columns in characters.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line}, column {column}: {message}")]
pub struct Mistake {
    pub line: usize,
    pub column: usize,
    pub message: String,
}
