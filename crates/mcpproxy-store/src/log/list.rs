//! Reading the activity log: page by page, newest first, or one record by its id.

use std::fmt;

use mcpproxy_core::{RiskLevel, Untrusted, Variant};

use crate::record::id::Key;
use crate::{Kind, Record, RecordId, Status, Store, StoreError, WholeRecord};

/// No page is longer, whatever is asked for.
pub const LIMIT_MAX: usize = 500;
/// No page looks at more records, however few of them fit: its cost must not grow with the log.
pub const SCAN_MAX: usize = 10_000;

/// What a record must have to be listed; `None` is no condition.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Filter {
    pub intent_type: Option<Variant>,
    pub kind: Option<Kind>,
    pub status: Option<Status>,
    pub server: Option<String>,
    pub tool: Option<String>,
    pub agent: Option<String>,
    pub risk: Option<RiskLevel>,
    /// Both ends belong to the range.
    pub since_ms: Option<i64>,
    pub until_ms: Option<i64>,
    /// Part of the tool, the server, `server:tool`, the agent, the client, the code, the message or the metadata, in
    /// small or capital letters of ASCII. The whole id of a record stands for that record; other ids, of approvals and
    /// grants, are in the metadata.
    pub text: Option<String>,
}

#[derive(Clone, Debug)]
pub struct Page {
    pub records: Vec<Record>,
    /// Where the next page begins, if there is one.
    pub next: Option<Cursor>,
    /// So far back this page looked before it gave up. `None` when it is full, or when the log ended.
    pub searched_to_ms: Option<i64>,
}

/// Where a page begins, for callers to hand back unread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cursor {
    before: i64,
}

impl Store {
    /// The newest records before the cursor, at most `limit` and never more than `LIMIT_MAX` of them. A page can be
    /// short, even empty, and yet have a next one.
    pub async fn list(&self, filter: &Filter, before: Option<Cursor>, limit: usize) -> Result<Page, StoreError> {
        let limit = limit.clamp(1, LIMIT_MAX);
        if let (Some(id), None) = (filter.named(), before) {
            let found = self.database().records_between(id.key(), id.key(), 1).await?;
            let records: Vec<Record> = found.into_iter().filter(|record| filter.fits(record)).collect();
            if !records.is_empty() {
                return Ok(Page { records, next: None, searched_to_ms: None });
            }
        }
        let keys = filter.keys(before);
        // One more than asked for tells whether there is a next page.
        let mut records = self.database().records(filter, &keys, limit + 1).await?;
        if records.len() > limit {
            records.truncate(limit);
            return Ok(Page { next: records.last().map(Cursor::after), records, searched_to_ms: None });
        }
        let Some(last_seen) = self.database().last_looked_at(filter, &keys).await? else {
            return Ok(Page { records, next: None, searched_to_ms: None });
        };
        // Records that were written between the two questions must not bring back what is on this page.
        let last = records.last().map_or(last_seen, |record| last_seen.min(record.id.key()));
        Ok(Page { records, next: Some(Cursor { before: last.0 }), searched_to_ms: Some(last.time_ms()) })
    }

    /// The record with this id, or the only one whose id begins so. Upper or lower case.
    pub async fn find(&self, id_or_prefix: &str) -> Result<Option<WholeRecord>, StoreError> {
        let Some((first, last)) = RecordId::beginning_with(id_or_prefix) else { return Ok(None) };
        // Either the beginning leaves one key, or it says nothing about what comes after the key: two rows are enough.
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

    /// Arguments and result of each of these records, as far as they are kept. Records without any are left out.
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

/// From the first key to the one before the second.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Keys {
    pub(crate) from: i64,
    pub(crate) before: i64,
}

impl Filter {
    /// The record whose id the text is, if it is that of a record and not of something else.
    pub(crate) fn named(&self) -> Option<RecordId> {
        self.text.as_deref().and_then(|text| RecordId::parse(&text.trim().to_ascii_uppercase()))
    }

    /// What must be part of a record that is not named, in small letters.
    pub(crate) fn part(&self) -> Option<String> {
        let text = self.text.as_deref().filter(|text| !text.is_empty())?;
        // Nobody means the blanks around an id.
        let text = if self.named().is_some() { text.trim() } else { text };
        Some(text.to_ascii_lowercase())
    }

    pub(crate) fn keys(&self, before: Option<Cursor>) -> Keys {
        let mut keys = Keys { from: 0, before: before.map_or(i64::MAX, |cursor| cursor.before) };
        if let Some(since_ms) = self.since_ms {
            keys.from = keys.from.max(Key::at(since_ms).0);
        }
        if let Some(until_ms) = self.until_ms {
            keys.before = keys.before.min(Key::at(until_ms.saturating_add(1)).0);
        }
        keys
    }

    /// The same as in the database, for records that come from elsewhere.
    pub(crate) fn fits(&self, record: &Record) -> bool {
        fn is<T: PartialEq + ?Sized>(wanted: Option<&T>, found: Option<&T>) -> bool {
            wanted.is_none() || wanted == found
        }
        let keys = self.keys(None);
        (keys.from..keys.before).contains(&record.id.key().0)
            && is(self.intent_type.as_ref(), record.intent_type.as_ref())
            && is(self.kind.as_ref(), Some(&record.kind))
            && is(self.status.as_ref(), Some(&record.status))
            && is(self.server.as_deref(), record.server.as_ref().map(Untrusted::for_json))
            && is(self.tool.as_deref(), record.tool.as_ref().map(Untrusted::for_json))
            && is(self.agent.as_deref(), record.agent.as_deref())
            && is(self.risk.as_ref(), record.risk.as_ref())
            && self.part().is_none_or(|part| self.named() == Some(record.id) || mentions(record, &part))
    }
}

/// `part` is in small letters.
fn mentions(record: &Record, part: &str) -> bool {
    let word = |word: &Option<Untrusted>| word.as_ref().map(|word| word.for_json().to_owned());
    let (server, tool) = (word(&record.server), word(&record.tool));
    let both = server.as_ref().zip(tool.as_ref()).map(|(server, tool)| format!("{server}:{tool}"));
    let words = [server, tool, both, record.agent.clone(), word(&record.client), word(&record.code)];
    let long = [word(&record.message), Some(record.metadata.for_json().to_owned()), word(&record.end_metadata)];
    words.into_iter().chain(long).flatten().any(|text| text.to_ascii_lowercase().contains(part))
}

impl Cursor {
    /// Where the page after this record begins.
    pub fn after(record: &Record) -> Self {
        Self { before: record.id.key().0 }
    }

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

    #[test]
    fn times_are_ranges_of_keys() {
        let check = |since_ms: Option<i64>, until_ms: Option<i64>, from: i64, before: i64| {
            let filter = Filter { since_ms, until_ms, ..Filter::default() };
            assert_eq!(filter.keys(None), Keys { from, before }, "{filter:?}");
        };
        check(None, None, 0, i64::MAX);
        check(Some(-5), Some(i64::MAX), 0, Key::at(i64::MAX).0);
        check(Some(7), Some(7), Key::at(7).0, Key::at(8).0);
        check(None, Some(-1), 0, 0);
    }
}
