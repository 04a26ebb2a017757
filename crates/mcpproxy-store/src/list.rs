//! Reading the activity log: page by page, newest first, or one record by its id.

use std::fmt;

use mcpproxy_core::Variant;

use crate::{Kind, Record, Status, Store, StoreError};

/// No page is longer, whatever is asked for: a record can hold 128 KiB of text.
pub const LIMIT_MAX: usize = 500;

/// What a record must have to be listed; `None` is no condition.
#[derive(Clone, Debug, Default)]
pub struct Filter {
    pub intent_type: Option<Variant>,
    pub kind: Option<Kind>,
    pub status: Option<Status>,
    pub server: Option<String>,
    pub tool: Option<String>,
    pub agent: Option<String>,
    /// Both ends belong to the range.
    pub since_ms: Option<i64>,
    pub until_ms: Option<i64>,
}

#[derive(Clone, Debug)]
pub struct Page {
    pub records: Vec<Record>,
    /// Where the next page begins, if there is one.
    pub next: Option<Cursor>,
}

/// Where a page begins, for callers to hand back unread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cursor {
    before: i64,
}

impl Store {
    /// The newest records before the cursor, at least one and at most `LIMIT_MAX` of them.
    pub async fn list(&self, filter: &Filter, before: Option<Cursor>, limit: usize) -> Result<Page, StoreError> {
        let limit = limit.clamp(1, LIMIT_MAX);
        let before = before.map(|cursor| cursor.before);
        // One more than asked for tells whether there is a next page.
        let mut records = self.database().records(filter, before, limit + 1).await?;
        let more = records.len() > limit;
        records.truncate(limit);
        let next = records.last().filter(|_| more).map(|record| Cursor { before: record.seq });
        Ok(Page { records, next })
    }

    /// The record with this id, or the only one whose id begins so. Upper or lower case.
    pub async fn find(&self, id_or_prefix: &str) -> Result<Option<Record>, StoreError> {
        let prefix = id_or_prefix.to_ascii_uppercase();
        if prefix.is_empty() || prefix.len() > ulid::ULID_LEN || !prefix.bytes().all(|b| b.is_ascii_alphanumeric()) {
            return Ok(None);
        }
        let mut records = self.database().records_beginning_with(&prefix).await?.into_iter();
        match (records.next(), records.next()) {
            (Some(_), Some(_)) => Err(StoreError::AmbiguousId { prefix }),
            (first, _) => Ok(first),
        }
    }
}

impl Cursor {
    pub fn parse(text: &str) -> Result<Self, StoreError> {
        let digits = text.strip_prefix('c').ok_or(StoreError::Cursor)?;
        let before = i64::from_str_radix(digits, 16).map_err(|_| StoreError::Cursor)?;
        let cursor = Self { before };
        // One cursor, one spelling: no signs, leading zeros or capitals.
        if before > 0 && cursor.to_string() == text { Ok(cursor) } else { Err(StoreError::Cursor) }
    }
}

impl fmt::Display for Cursor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "c{:x}", self.before)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cursors_are_what_was_handed_out_and_nothing_else() {
        for before in [1, 255, i64::MAX] {
            let cursor = Cursor { before };
            assert_eq!(Cursor::parse(&cursor.to_string()).unwrap(), cursor);
        }
        for text in ["", "c", "c0", "1f", "c-1", "c+1", "c01", "cFF", "cff ", "c8000000000000000", "x", "cé", "c' OR 1"]
        {
            assert!(matches!(Cursor::parse(text), Err(StoreError::Cursor)), "{text}");
        }
    }
}
