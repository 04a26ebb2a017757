//! The log as it grows: what was written after a place, oldest first, for those who watch.

use std::collections::{BTreeMap, VecDeque};
use std::fmt;

use crate::log::list::SCAN_MAX;
use crate::{Filter, LIMIT_MAX, Record, Store, StoreError};

/// So many rows of a chain are read at a time.
const STEP_ROWS: usize = 500;

/// How far somebody has seen each chain, for callers to hand back unread. The default is before everything.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FeedCursor {
    positions: BTreeMap<u16, i64>,
}

#[derive(Clone, Debug)]
pub struct Feed {
    /// A call is here when it began and again when it ended, or once if both happened since.
    pub records: Vec<Record>,
    /// The place right behind each of these records, for those who break off between two of them.
    pub places: Vec<FeedCursor>,
    pub next: FeedCursor,
    /// Whether there was more than fits, or than one look takes in. Ask again at once.
    pub has_more: bool,
}

/// Where a chain ended when somebody looked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ChainEnd {
    pub(crate) chain: u16,
    pub(crate) seq: i64,
}

impl Store {
    /// Where the log ends now.
    pub async fn feed_end(&self) -> Result<FeedCursor, StoreError> {
        let ends = self.database().chain_ends().await?;
        Ok(FeedCursor { positions: ends.into_iter().map(|end| (end.chain, end.seq)).collect() })
    }

    /// What was written after the cursor and fits the filter, at most `limit` records. What does not fit is passed by.
    pub async fn feed(&self, after: &FeedCursor, filter: &Filter, limit: usize) -> Result<Feed, StoreError> {
        let limit = limit.clamp(1, LIMIT_MAX);
        let mut chains = Vec::new();
        // What was committed by now is read, and nothing later: in a chain, everything before an end is there.
        for end in self.database().chain_ends().await? {
            let seen = after.positions.get(&end.chain).copied().unwrap_or(0);
            chains.push(Reading { chain: end.chain, seen, read: seen, end: end.seq, lines: VecDeque::new() });
        }
        let (mut records, mut places, mut next) = (Vec::new(), Vec::new(), after.clone());
        let mut looked_at = 0;
        let has_more = loop {
            for reading in &mut chains {
                looked_at += reading.fill(self, SCAN_MAX.saturating_sub(looked_at)).await?;
            }
            // Of several gateways, the one that is furthest behind comes first.
            let behind = chains.iter_mut().min_by_key(|reading| reading.lines.front().map_or(i64::MAX, Line::time_ms));
            let Some((line, reading)) = behind.and_then(|reading| Some((reading.lines.pop_front()?, reading))) else {
                break chains.iter().any(|reading| reading.read < reading.end);
            };
            let fits = filter.fits(&line.record);
            if fits && records.len() == limit {
                break true;
            }
            reading.seen = if reading.lines.is_empty() { reading.read } else { line.seq };
            next.positions.insert(reading.chain, reading.seen);
            if fits {
                records.push(line.record);
                places.push(next.clone());
            }
        };
        next.positions.extend(chains.iter().map(|reading| (reading.chain, reading.seen)));
        Ok(Feed { records, places, next, has_more })
    }
}

/// One chain while it is read.
struct Reading {
    chain: u16,
    /// So far it was handed on or passed by.
    seen: i64,
    /// So far it was read.
    read: i64,
    end: i64,
    lines: VecDeque<Line>,
}

struct Line {
    seq: i64,
    record: Record,
}

impl Reading {
    /// Reads on when there is nothing left to hand on, and returns how many rows it took. It stops after `rows_max`.
    async fn fill(&mut self, store: &Store, rows_max: usize) -> Result<usize, StoreError> {
        let mut rows = 0;
        while self.lines.is_empty() && self.read < self.end && rows < rows_max {
            let begins = store.database().begun_after(self.chain, self.read, self.end, STEP_ROWS).await?;
            let ends = store.database().ended_after(self.chain, self.read, self.end, STEP_ROWS).await?;
            rows += (begins.len() + ends.len()).max(1);
            // Of two lists that may be cut short, only what lies before both cuts is complete.
            let cut = |lines: &[Line]| lines.get(STEP_ROWS - 1).map_or(self.end, |line| line.seq);
            let begins: Vec<_> = begins.into_iter().map(|record| Line { seq: record.seq, record }).collect();
            let ends: Vec<_> =
                ends.into_iter().filter_map(|record| Some(Line { seq: record.end_seq?, record })).collect();
            self.read = cut(&begins).min(cut(&ends));
            // A call that has ended since appears there.
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
    pub fn parse(text: &str) -> Result<Self, StoreError> {
        let pairs = text.strip_prefix('f').ok_or(StoreError::Cursor)?;
        let pair = |pair: &str| {
            let (chain, seq) = pair.split_once('-')?;
            Some((chain.parse().ok()?, seq.parse().ok()?))
        };
        let pairs = pairs.split('.').filter(|_| !pairs.is_empty());
        let positions: Option<BTreeMap<u16, i64>> = pairs.map(pair).collect();
        let cursor = Self { positions: positions.ok_or(StoreError::Cursor)? };
        // One cursor, one spelling.
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
    fn cursors_are_what_was_handed_out_and_nothing_else() {
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
