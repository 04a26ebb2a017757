//! Finds records that contain a text, with the index.
//!
//! ```text
//! newest ─────────────────────────────────────────────────────────────── oldest
//! │ a scan, as without │ candidates of blocks, in the order of their last   │
//! │ the index          │ keys, and matches among lines not indexed yet      │
//! ```
//!
//! 1. Reads how far each chain is indexed. If too many lines are not, the search goes without the index.
//! 2. Scans the newest records, at most [`NEWEST_SCAN`], or all that the page may scan if another condition of the
//!    filter has an index. Most searches end here.
//! 3. Finds the matches among the lines that are not indexed: records that begin there, and older ones that end there.
//! 4. Reads blocks, newest first, and the candidates that they name. Blocks of different chains overlap in time. A block
//!    comes by its last key, so what has not been read yet is older than the last key of the block read last. Everything
//!    newer is final.
//! 5. Compares the builds of the index with those of step 1. If a chain was indexed anew meanwhile, blocks may have been
//!    missing, and the search goes without the index.
//!
//! The order of the steps matters. A call that ends in a line that is indexed at step 1 is found through its block. One
//! that ends in a later line is found by step 3. One that ends after step 3 may be missed, as a record that is written
//! after a page was read.

use std::collections::HashMap;

use tokio::task::yield_now;

use crate::log::filter::{Filter, Keys, SCAN_MAX};
use crate::log::list::{Cursor, Page};
use crate::log::search::trigrams::Query;
use crate::log::sql::has_indexed_condition;
use crate::log::sql::search::{BlockPlace, ChainIndex, IndexedBlock};
use crate::record::id::Key;
use crate::sql::Database;
use crate::{Record, Store, StoreError};

/// Records that are read without the index first.
const NEWEST_SCAN: usize = 2_000;
/// Lines that are not indexed yet, of all chains. A search reads them all.
pub(super) const TAIL_MAX: i64 = SCAN_MAX as i64;
/// Chains with such lines. Each takes two queries.
pub(super) const TAILS_MAX: usize = 64;
/// Blocks of one page, if it may scan [`SCAN_MAX`] records.
const BLOCKS_MAX: usize = 4_096;
/// Blocks of one query.
const BATCH: usize = 64;
/// Blocks that are decoded before calls get the thread again.
const TURN: usize = 8;
/// Candidates after which they are read.
const GROUP: usize = 512;

impl Store {
    /// Lists the newest matches in this range of keys. `None` if the index cannot be used.
    pub(in crate::log) async fn list_with_index(
        &self,
        filter: &Filter,
        keys: &Keys,
        limit: usize,
        scan: usize,
    ) -> Result<Option<Page>, StoreError> {
        let Some(query) = filter.part().and_then(|text| Query::of(&text)) else { return Ok(None) };
        let chains = self.database().chain_indexes().await?;
        if !is_usable(&chains) {
            return Ok(None);
        }
        // Records with a rare tool are found by that, and the text may be common among others.
        let first_scan = if has_indexed_condition(filter) { scan } else { scan.min(NEWEST_SCAN) };
        let page = self.list_by_scan(filter, keys, limit, first_scan).await?;
        // A full page, or the end of the log, needs no index.
        let (Some(next), Some(_)) = (page.next, page.searched_to_ms) else { return Ok(Some(page)) };
        let mut records = page.records;
        let search = Search {
            database: self.database(),
            filter,
            keys: Keys { from: keys.from, before: next.key().0 },
            query,
            // One more than the page needs shows if there is a next page.
            wanted: limit + 1 - records.len().min(limit),
            found: Vec::new(),
            reached: HashMap::new(),
        };
        let Some(found) = search.run(&chains, scan).await? else { return Ok(None) };
        if !is_same(&chains, &self.database().chain_indexes().await?) {
            return Ok(None);
        }
        records.extend(found.records);
        if records.len() > limit {
            records.truncate(limit);
            return Ok(Some(Page { next: records.last().map(Cursor::after), records, searched_to_ms: None }));
        }
        let searched_to_ms = found.searched_to.map(Key::time_ms);
        Ok(Some(Page { records, next: found.searched_to.map(Cursor::before), searched_to_ms }))
    }
}

/// Without a block, the index says nothing. With too many lines that are not indexed, it saves nothing.
fn is_usable(chains: &[ChainIndex]) -> bool {
    let lengths = || chains.iter().map(ChainIndex::tail).filter(|tail| *tail > 0);
    let (tails, lines) = (lengths().count(), lengths().sum::<i64>());
    let is_short = tails <= TAILS_MAX && lines <= TAIL_MAX;
    if !is_short {
        tracing::debug!(chains = tails, lines, "searching without the index, because too many lines are not in it yet");
    }
    is_short && chains.iter().any(|chain| chain.block_end.is_some())
}

/// Tells if no chain was indexed anew between the two moments.
fn is_same(before: &[ChainIndex], after: &[ChainIndex]) -> bool {
    let build_after = |chain: u16| after.iter().find(|after| after.chain == chain).and_then(|after| after.build);
    before.iter().all(|chain| chain.build.is_none() || chain.build == build_after(chain.chain))
}

struct SearchResult {
    /// Newest first.
    records: Vec<Record>,
    /// Everything from this key on was searched. `None` if the log ended.
    searched_to: Option<Key>,
}

struct Search<'a> {
    database: &'a Database,
    filter: &'a Filter,
    keys: Keys,
    query: Query,
    wanted: usize,
    /// The newest matches up to now, newest first, at most `wanted`.
    found: Vec<Record>,
    /// The first position of the last block that was read, by chain.
    reached: HashMap<u16, i64>,
}

impl Search<'_> {
    /// `None` if the index cannot be read.
    async fn run(mut self, chains: &[ChainIndex], scan: usize) -> Result<Option<SearchResult>, StoreError> {
        self.find_named().await?;
        self.find_in_tails(chains).await?;
        // The tails were read, too, and a page that reads no candidate would make no progress.
        let tails = chains.iter().map(ChainIndex::tail).sum::<i64>();
        let mut candidates_left = scan.saturating_sub(usize::try_from(tails).unwrap_or(scan)).max(1);
        let mut blocks_left = (BLOCKS_MAX * scan / SCAN_MAX).max(1);
        let mut after: Option<BlockPlace> = None;
        loop {
            let limit = BATCH.min(blocks_left);
            let batch = self.database.indexed_blocks(&self.keys, after, &self.query.buckets, limit).await?;
            let is_last = batch.len() < limit;
            let mut group = Group::default();
            for (index, block) in batch.iter().enumerate() {
                if !self.is_next(block).await? || !group.add(block, &self.query) {
                    return Ok(None);
                }
                if index % TURN == TURN - 1 {
                    yield_now().await;
                }
                blocks_left -= 1;
                let is_end = index + 1 == batch.len();
                if group.count < GROUP && !is_end {
                    continue;
                }
                candidates_left = candidates_left.saturating_sub(group.count);
                self.read(std::mem::take(&mut group)).await?;
                let unread = block.place.last_key;
                let is_full = self.found.get(self.wanted - 1).is_some_and(|record| record.id.key().0 > unread);
                let is_done = is_end && is_last;
                if is_full || (!is_done && (blocks_left == 0 || candidates_left == 0)) {
                    return Ok(Some(self.up_to(unread)));
                }
            }
            if is_last {
                return Ok(Some(SearchResult { records: self.found, searched_to: None }));
            }
            after = batch.last().map(|block| block.place);
        }
    }

    /// Tells if no block is missing between this one and the block of its chain that was read before.
    async fn is_next(&mut self, block: &IndexedBlock) -> Result<bool, StoreError> {
        let BlockPlace { chain, first_seq, .. } = block.place;
        match self.reached.insert(chain, first_seq) {
            Some(newer) => self.database.is_covered(chain, block.last_seq, newer).await,
            None => Ok(true),
        }
    }

    /// The text may be the id of a record, which is not among its texts.
    async fn find_named(&mut self) -> Result<(), StoreError> {
        let Some(id) = self.filter.named() else { return Ok(()) };
        let records = self.database.records_between(id.key(), id.key(), 1).await?;
        let is_in_range = |record: &Record| (self.keys.from..self.keys.before).contains(&record.id.key().0);
        let records = records.into_iter().filter(|record| is_in_range(record) && self.filter.fits(record)).collect();
        self.keep(records);
        Ok(())
    }

    async fn find_in_tails(&mut self, chains: &[ChainIndex]) -> Result<(), StoreError> {
        for chain in chains.iter().filter(|chain| chain.tail() > 0) {
            let Self { database, filter, keys, wanted, .. } = self;
            let found = database.matches_after(filter, keys, chain.chain, chain.indexed_to(), *wanted).await?;
            self.keep(found);
        }
        Ok(())
    }

    async fn read(&mut self, group: Group) -> Result<(), StoreError> {
        for (chain, positions) in group.positions {
            let Self { database, filter, keys, wanted, .. } = self;
            let found = database.matches_at(filter, keys, chain, &positions, *wanted).await?;
            self.keep(found);
        }
        Ok(())
    }

    /// Keeps the newest. A match that is older than `wanted` others is on a later page.
    fn keep(&mut self, records: Vec<Record>) {
        self.found.extend(records);
        self.found.sort_unstable_by_key(|record| std::cmp::Reverse(record.id.key()));
        self.found.dedup_by_key(|record| record.id.key());
        self.found.truncate(self.wanted);
    }

    /// Ends the search when records with this key, and older ones, may not have been read.
    fn up_to(mut self, unread: i64) -> SearchResult {
        // A block can reach beyond the range.
        let from = unread.saturating_add(1).min(self.keys.before);
        self.found.retain(|record| record.id.key().0 >= from);
        SearchResult { records: self.found, searched_to: Some(Key(from)) }
    }
}

/// Candidates that are read together.
#[derive(Default)]
struct Group {
    /// Their positions, by chain.
    positions: Vec<(u16, Vec<i64>)>,
    count: usize,
}

impl Group {
    /// Adds the candidates of a block. False if it cannot be read.
    fn add(&mut self, block: &IndexedBlock, query: &Query) -> bool {
        let BlockPlace { chain, first_seq, .. } = block.place;
        let Ok(candidates) = query.candidates(block.rows.iter().map(Vec::as_slice)) else { return false };
        let positions: Vec<i64> = candidates.iter().map(|offset| first_seq + i64::from(offset)).collect();
        self.count += positions.len();
        match self.positions.iter_mut().find(|(number, _)| *number == chain) {
            Some((_, of_chain)) => of_chain.extend(positions),
            None => self.positions.extend(Some((chain, positions)).filter(|(_, positions)| !positions.is_empty())),
        }
        true
    }
}
