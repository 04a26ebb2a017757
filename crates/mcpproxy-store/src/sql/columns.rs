//! Typed access to the columns of a row. A value that mcpproxy did not write is an error.

use mcpproxy_core::{Digest, ToolName, Untrusted};

use super::Row;
use crate::StoreError;

/// One row, and a description for error messages.
pub(crate) struct Columns<'r> {
    row: &'r Row,
    what: &'static str,
}

impl<'r> Columns<'r> {
    pub(crate) fn of(row: &'r Row, what: &'static str) -> Self {
        Self { row, what }
    }

    pub(crate) fn int(&self, column: usize) -> Result<Option<i64>, StoreError> {
        self.row.int(column).map_err(StoreError::while_trying("read the database"))
    }

    pub(crate) fn text(&self, column: usize) -> Result<Option<String>, StoreError> {
        self.row.text(column).map_err(StoreError::while_trying("read the database"))
    }

    pub(crate) fn bytes(&self, column: usize) -> Result<Option<Vec<u8>>, StoreError> {
        self.row.bytes(column).map_err(StoreError::while_trying("read the database"))
    }

    pub(crate) fn number(&self, column: usize) -> Result<i64, StoreError> {
        self.int(column)?.ok_or_else(|| self.corrupt())
    }

    pub(crate) fn count(&self, column: usize) -> Result<u32, StoreError> {
        u32::try_from(self.number(column)?).map_err(|_| self.corrupt())
    }

    pub(crate) fn word(&self, column: usize) -> Result<String, StoreError> {
        self.text(column)?.ok_or_else(|| self.corrupt())
    }

    pub(crate) fn untrusted(&self, column: usize) -> Result<Option<Untrusted>, StoreError> {
        Ok(self.text(column)?.map(Untrusted::new))
    }

    pub(crate) fn digest(&self, column: usize) -> Result<Digest, StoreError> {
        let bytes = self.bytes(column)?.and_then(|bytes| bytes.try_into().ok());
        bytes.map(Digest::from_bytes).ok_or_else(|| self.corrupt())
    }

    pub(crate) fn tool(&self, column: usize) -> Result<ToolName, StoreError> {
        ToolName::parse(&self.word(column)?).map_err(|_| self.corrupt())
    }

    /// Text that is stored as bytes, so that it keeps every byte.
    pub(crate) fn exact(&self, column: usize) -> Result<Option<String>, StoreError> {
        let text = self.bytes(column)?.map(String::from_utf8).transpose();
        text.map_err(|_| self.corrupt())
    }

    pub(crate) fn parsed<T>(&self, column: usize, parse: impl Fn(&str) -> Option<T>) -> Result<Option<T>, StoreError> {
        let Some(word) = self.text(column)? else { return Ok(None) };
        parse(&word).map(Some).ok_or_else(|| self.corrupt())
    }

    pub(crate) fn known<T>(&self, column: usize, parse: impl Fn(&str) -> Option<T>) -> Result<T, StoreError> {
        self.parsed(column, parse)?.ok_or_else(|| self.corrupt())
    }

    pub(crate) fn corrupt(&self) -> StoreError {
        StoreError::corrupt(self.what)
    }
}
