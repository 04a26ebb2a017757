//! Mistakes in a file that an operator wrote, each with its position.

use super::SourcePosition;

/// Maximum number of reported mistakes. A hostile file must not make the gateway write more.
const MISTAKES_MAX: usize = 100;

/// One mistake and where it is. Lines and columns count from 1, columns in characters.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line}, column {column}: {message}")]
pub struct Mistake {
    pub line: usize,
    pub column: usize,
    pub message: String,
}

/// The mistakes of one file.
#[derive(Debug, Default)]
pub(crate) struct Mistakes {
    found: Vec<Mistake>,
    are_more: bool,
}

impl Mistakes {
    pub(crate) fn add(&mut self, position: SourcePosition, message: impl Into<String>) {
        self.add_with(position, || message.into());
    }

    /// Adds a mistake whose message is expensive to make. Beyond the limit the message is not made at all.
    pub(crate) fn add_with(
        &mut self,
        SourcePosition { line, column }: SourcePosition,
        message: impl FnOnce() -> String,
    ) {
        if self.found.len() < MISTAKES_MAX {
            self.found.push(Mistake { line, column, message: message() });
        } else {
            self.are_more = true;
        }
    }

    /// Returns true when there are more mistakes than are listed, so that looking for others is a waste.
    pub(crate) fn are_enough(&self) -> bool {
        self.are_more
    }

    /// Returns the mistakes in the order of the file.
    pub(crate) fn in_order(mut self) -> Vec<Mistake> {
        self.found.sort_by_key(|mistake| (mistake.line, mistake.column));
        if let Some(&Mistake { line, column, .. }) = self.found.last()
            && self.are_more
        {
            let message = "there are more mistakes; fix these first".to_owned();
            self.found.push(Mistake { line, column, message });
        }
        self.found
    }
}
