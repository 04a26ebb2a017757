//! Lists records in pages, newest first, and finds one record by its id.

use std::fmt;

use mcpproxy_core::Untrusted;

use super::filter::{Filter, Keys, SCAN_MAX};
use crate::error::with_causes;
use crate::record::id::{Key, RecordId};
use crate::store::LIMIT_MAX;
use crate::{Record, Status, Store, StoreError, WholeRecord};

#[derive(Clone, Debug)]
pub struct Page {
    pub records: Vec<Record>,
    /// The cursor of the next page, if there is one.
    pub next: Option<Cursor>,
    /// The time up to which this page searched before it stopped. `None` if the page is full or the log ended.
    pub searched_to_ms: Option<i64>,
}

/// The start of a page. Callers treat it as opaque.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cursor {
    before: i64,
}

impl Store {
    /// Lists the newest records before the cursor: at most `limit`, and never more than `LIMIT_MAX`. A page can be
    /// short or empty and still have a next page.
    pub async fn list(&self, filter: &Filter, before: Option<Cursor>, limit: usize) -> Result<Page, StoreError> {
        self.list_scanning(filter, before, limit, SCAN_MAX).await
    }

    /// Like `list`, but searches at most `scan` records, and never more than [`SCAN_MAX`](crate::SCAN_MAX). A smaller
    /// number answers faster, and the answer says how far it searched. A text is searched further back with the index
    /// (`search.rs`). Then the number limits the candidates.
    pub async fn list_scanning(
        &self,
        filter: &Filter,
        before: Option<Cursor>,
        limit: usize,
        scan: usize,
    ) -> Result<Page, StoreError> {
        let scan = scan.clamp(1, SCAN_MAX);
        let limit = limit.clamp(1, LIMIT_MAX);
        if let (Some(id), None) = (filter.named(), before) {
            let found = self.database().records_between(id.key(), id.key(), 1).await?;
            let records: Vec<Record> = found.into_iter().filter(|record| filter.fits(record)).collect();
            if !records.is_empty() {
                return Ok(Page { records, next: None, searched_to_ms: None });
            }
        }
        let keys = filter.keys(before.map(|cursor| Key(cursor.before)));
        match self.list_with_index(filter, &keys, limit, scan).await {
            Ok(Some(page)) => return Ok(page),
            Ok(None) => {}
            // A role for auditors may lack access to the index.
            Err(error) => tracing::debug!(error = with_causes(&error), "searching without the index"),
        }
        self.list_by_scan(filter, &keys, limit, scan).await
    }

    /// Like `list`, but never uses the index of the text search. An export for an audit must not rely on tables that the
    /// log does not protect.
    pub async fn list_without_index(
        &self,
        filter: &Filter,
        before: Option<Cursor>,
        limit: usize,
    ) -> Result<Page, StoreError> {
        let keys = filter.keys(before.map(Cursor::key));
        self.list_by_scan(filter, &keys, limit.clamp(1, LIMIT_MAX), SCAN_MAX).await
    }

    /// Lists the newest matches in this range of keys. Searches at most `scan` records.
    pub(super) async fn list_by_scan(
        &self,
        filter: &Filter,
        keys: &Keys,
        limit: usize,
        scan: usize,
    ) -> Result<Page, StoreError> {
        // One more than `limit` shows if there is a next page.
        let mut records = self.database().records(filter, keys, limit + 1, scan).await?;
        if records.len() > limit {
            records.truncate(limit);
            return Ok(Page { next: records.last().map(Cursor::after), records, searched_to_ms: None });
        }
        let Some(last_seen) = self.database().last_searched(filter, keys, scan).await? else {
            return Ok(Page { records, next: None, searched_to_ms: None });
        };
        // Records written between the two queries must not repeat this page on the next one.
        let last = records.last().map_or(last_seen, |record| last_seen.min(record.id.key()));
        Ok(Page { records, next: Some(Cursor { before: last.0 }), searched_to_ms: Some(last.time_ms()) })
    }

    /// Lists the records next after the cursor, newest first: at most `limit`, and never more than `LIMIT_MAX`. Fewer
    /// records mean that the newest one was reached, or that the search stopped after [`SCAN_MAX`](crate::SCAN_MAX)
    /// records.
    pub async fn list_newer(&self, filter: &Filter, after: Cursor, limit: usize) -> Result<Vec<Record>, StoreError> {
        let mut keys = filter.keys(None);
        keys.from = keys.from.max(after.before.saturating_add(1));
        let mut records = self.database().oldest_records(filter, &keys, limit.clamp(1, LIMIT_MAX)).await?;
        records.reverse();
        Ok(records)
    }

    /// Finds the record with this id, or the only one whose id starts with this prefix. Case does not matter.
    pub async fn find(&self, id_or_prefix: &str) -> Result<Option<WholeRecord>, StoreError> {
        let Some((first, last)) = RecordId::beginning_with(id_or_prefix) else { return Ok(None) };
        // A prefix either fixes the key, or ends before the random part of the id. So two rows show an ambiguity.
        let found = self.database().records_between(first.key(), last.key(), 2).await?;
        let mut found = found.into_iter().filter(|record| first <= record.id && record.id <= last);
        let record = match (found.next(), found.next()) {
            (Some(_), Some(_)) => {
                return Err(StoreError::AmbiguousId { prefix: id_or_prefix.to_ascii_uppercase() });
            }
            (None, _) => return Ok(None),
            (Some(record), None) => record,
        };
        let (_, args, result) = self.database().payloads(&[record.id]).await?.pop().unwrap_or((record.id, None, None));
        Ok(Some(WholeRecord { record, args, result }))
    }

    /// Returns the status of these records. Records that do not exist are left out.
    pub async fn statuses(&self, ids: &[RecordId]) -> Result<Vec<(RecordId, Status)>, StoreError> {
        let mut statuses = Vec::with_capacity(ids.len());
        for ids in ids.chunks(LIMIT_MAX) {
            statuses.extend(self.database().statuses(ids).await?);
        }
        Ok(statuses)
    }

    /// Returns the stored arguments and results of these records. Records without either are left out.
    pub async fn payloads(
        &self,
        ids: &[RecordId],
    ) -> Result<Vec<(RecordId, Option<Untrusted>, Option<Untrusted>)>, StoreError> {
        let mut payloads = Vec::with_capacity(ids.len());
        for ids in ids.chunks(LIMIT_MAX) {
            payloads.extend(self.database().payloads(ids).await?);
        }
        Ok(payloads)
    }
}

impl Cursor {
    /// The cursor of the page after this record.
    pub fn after(record: &Record) -> Self {
        Self { before: record.id.key().0 }
    }

    /// The cursor of the page of older records than this key.
    pub(super) fn before(key: Key) -> Self {
        Self { before: key.0 }
    }

    pub(super) fn key(self) -> Key {
        Key(self.before)
    }

    pub fn parse(text: &str) -> Result<Self, StoreError> {
        let digits = text.strip_prefix('c').ok_or(StoreError::Cursor)?;
        let before = i64::from_str_radix(digits, 16).map_err(|_| StoreError::Cursor)?;
        let cursor = Self { before };
        // Each cursor has one spelling: no signs, leading zeros or capitals.
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
    fn only_returned_cursors_parse() {
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
