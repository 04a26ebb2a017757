//! The feed: records written after a cursor, oldest first, for watchers of a growing log.
//!
//! A cursor holds one position for each chain, because only positions of one chain are committed in order. Keys of
//! several gateways can become visible out of order, because a slow gateway commits an older key later. A reader that
//! remembers only the newest key would miss it.

use std::collections::{BTreeMap, VecDeque};
use std::fmt;

use super::filter::SCAN_MAX;
use crate::{Filter, LIMIT_MAX, Record, Store, StoreError};

/// Rows of a chain to read at a time.
const STEP_ROWS: usize = 500;

/// A position in every chain. Callers treat it as opaque. The default is before all records.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FeedCursor {
    positions: BTreeMap<u16, i64>,
}

#[derive(Clone, Debug)]
pub struct Feed {
    /// A call appears when it begins and again when it ends, or once if both happened since the cursor.
    pub records: Vec<Record>,
    /// The cursor after each of these records, for callers that stop between two of them.
    pub cursors: Vec<FeedCursor>,
    pub next: FeedCursor,
    /// `true` if there are more records, or the search stopped early. Read again at once.
    pub has_more: bool,
}

impl Store {
    /// The cursor at the current end of the log.
    pub async fn feed_end(&self) -> Result<FeedCursor, StoreError> {
        let ends = self.database().chain_ends().await?;
        Ok(FeedCursor { positions: ends.into_iter().map(|end| (end.chain, end.seq)).collect() })
    }

    /// Reads records after the cursor that match the filter, at most `limit`. Others are skipped.
    pub async fn feed(&self, after: &FeedCursor, filter: &Filter, limit: usize) -> Result<Feed, StoreError> {
        let limit = limit.clamp(1, LIMIT_MAX);
        let mut chains = Vec::new();
        // Reads up to the current ends. Everything before the end of a chain is committed.
        for end in self.database().chain_ends().await? {
            let seen = after.positions.get(&end.chain).copied().unwrap_or(0);
            chains.push(ChainReader::new(end.chain, seen, end.seq));
        }
        let (mut records, mut cursors, mut next) = (Vec::new(), Vec::new(), after.clone());
        let mut looked_at = 0;
        let has_more = loop {
            for reader in &mut chains {
                looked_at += reader.fill(self, SCAN_MAX.saturating_sub(looked_at)).await?;
            }
            // Merges several chains by time.
            let behind = chains.iter_mut().min_by_key(|reader| reader.lines.front().map_or(i64::MAX, Line::time_ms));
            let Some((line, reader)) = behind.and_then(|reader| Some((reader.lines.pop_front()?, reader))) else {
                break chains.iter().any(|reader| reader.read < reader.end);
            };
            let fits = filter.fits(&line.record);
            if fits && records.len() == limit {
                break true;
            }
            reader.seen = if reader.lines.is_empty() { reader.read } else { line.seq };
            next.positions.insert(reader.chain, reader.seen);
            if fits {
                records.push(line.record);
                cursors.push(next.clone());
            }
        };
        next.positions.extend(chains.iter().map(|reader| (reader.chain, reader.seen)));
        Ok(Feed { records, cursors, next, has_more })
    }
}

/// The state of reading one chain.
pub(super) struct ChainReader {
    chain: u16,
    /// The last position that was returned or skipped.
    seen: i64,
    /// The last position that was read.
    read: i64,
    end: i64,
    lines: VecDeque<Line>,
}

struct Line {
    seq: i64,
    record: Record,
}

impl ChainReader {
    /// Reads a chain after one position, up to another.
    pub(super) fn new(chain: u16, after: i64, end: i64) -> Self {
        Self { chain, seen: after, read: after, end, lines: VecDeque::new() }
    }

    /// Takes the next line, with its position.
    pub(super) fn next_line(&mut self) -> Option<(i64, Record)> {
        let Line { seq, record } = self.lines.pop_front()?;
        Some((seq, record))
    }

    /// Returns the last position that was read.
    pub(super) fn position(&self) -> i64 {
        self.read
    }

    /// Reads more rows if none are left. Returns the number of rows read, which stops near `rows_max`.
    pub(super) async fn fill(&mut self, store: &Store, rows_max: usize) -> Result<usize, StoreError> {
        let mut rows = 0;
        while self.lines.is_empty() && self.read < self.end && rows < rows_max {
            let begins = store.database().begun_after(self.chain, self.read, self.end, STEP_ROWS).await?;
            let ends = store.database().ended_after(self.chain, self.read, self.end, STEP_ROWS).await?;
            rows += (begins.len() + ends.len()).max(1);
            // Both lists may be cut off. Only positions before both cuts are complete.
            let cut = |lines: &[Line]| lines.get(STEP_ROWS - 1).map_or(self.end, |line| line.seq);
            let begins: Vec<_> = begins.into_iter().map(|record| Line { seq: record.seq, record }).collect();
            let ends: Vec<_> =
                ends.into_iter().filter_map(|record| Some(Line { seq: record.end_seq?, record })).collect();
            self.read = cut(&begins).min(cut(&ends));
            // A call that has ended appears at its end instead.
            let is_open = |line: &Line| line.record.end_seq.is_none_or(|end_seq| end_seq > self.end);
            let lines = begins.into_iter().filter(is_open).chain(ends);
            let mut lines: Vec<_> = lines.filter(|line| line.seq <= self.read).collect();
            lines.sort_by_key(|line| line.seq);
            self.lines = lines.into();
            if self.lines.is_empty() {
                self.seen = self.read;
            }
        }
        Ok(rows)
    }
}

impl Line {
    fn time_ms(&self) -> i64 {
        let is_end = self.seq != self.record.seq;
        let took_us = self.record.duration_us.filter(|_| is_end).unwrap_or(0);
        self.record.time_ms().saturating_add(i64::try_from(took_us / 1000).unwrap_or(0))
    }
}

impl FeedCursor {
    /// Returns the number of lines from here to a later cursor.
    pub fn lines_until(&self, end: &Self) -> u64 {
        let lines = |(chain, end): (u16, i64)| (end - self.position(chain).unwrap_or(0)).max(0).unsigned_abs();
        end.chains().map(lines).sum()
    }

    /// Tells if a chain is shorter than this cursor says, or gone.
    pub fn is_beyond(&self, end: &Self) -> bool {
        self.chains().any(|(chain, seq)| end.position(chain).unwrap_or(0) < seq)
    }

    pub(super) fn chains(&self) -> impl Iterator<Item = (u16, i64)> {
        self.positions.iter().map(|(chain, seq)| (*chain, *seq))
    }

    pub(super) fn position(&self, chain: u16) -> Option<i64> {
        self.positions.get(&chain).copied()
    }

    pub(super) fn moved(&self, chain: u16, seq: i64) -> Self {
        let mut positions = self.positions.clone();
        positions.insert(chain, seq);
        Self { positions }
    }

    pub fn parse(text: &str) -> Result<Self, StoreError> {
        let pairs = text.strip_prefix('f').ok_or(StoreError::Cursor)?;
        let pair = |pair: &str| {
            let (chain, seq) = pair.split_once('-')?;
            Some((chain.parse().ok()?, seq.parse().ok()?))
        };
        let pairs = pairs.split('.').filter(|_| !pairs.is_empty());
        let positions: Option<BTreeMap<u16, i64>> = pairs.map(pair).collect();
        let cursor = Self { positions: positions.ok_or(StoreError::Cursor)? };
        // Each cursor has one spelling.
        if cursor.to_string() == text { Ok(cursor) } else { Err(StoreError::Cursor) }
    }
}

impl fmt::Display for FeedCursor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("f")?;
        for (index, (chain, seq)) in self.positions.iter().enumerate() {
            let dot = if index > 0 { "." } else { "" };
            write!(f, "{dot}{chain}-{}", seq.max(&0))?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_returned_cursors_parse() {
        for positions in [vec![], vec![(1, 0)], vec![(1, 17), (4095, i64::MAX)]] {
            let cursor = FeedCursor { positions: positions.into_iter().collect() };
            assert_eq!(FeedCursor::parse(&cursor.to_string()).unwrap(), cursor);
        }
        for text in
            ["", "1-1", "f1", "f1-", "f-1", "f1-1.", "f1-1.1-2", "f2-1.1-1", "f01-1", "f1--1", "f70000-1", "f1-1 "]
        {
            assert!(matches!(FeedCursor::parse(text), Err(StoreError::Cursor)), "{text}");
        }
    }
}
