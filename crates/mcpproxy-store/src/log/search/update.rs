//! One update of the index: removes blocks whose lines were removed, and adds blocks until all chains are indexed.
//!
//! A block has up to 1,024 lines, and fewer if their texts are long, so that a block takes little memory. A chain is
//! indexed in whole blocks. What is left at its end is read by searches themselves. If nothing was written for an hour,
//! the rest becomes a short block. Without that, a database with many old chains would have many ends to read.
//!
//! Each block has the hash of the chain at its end. Before the first block is added, that hash is compared with the
//! chain. If they differ, the log is not the one that was indexed, and the chain is indexed from its beginning.
//!
//! Each block is one transaction, in which the index goes from one complete state to the next. An update can be stopped
//! at any moment, and goes on later where it was.

use std::collections::{BTreeMap, HashSet};
use std::time::Duration;

use tokio::time::sleep;

use super::postings::OFFSETS;
use super::trigrams::{Collection, end_texts_of, texts_of};
use crate::log::restore::hash_at;
use crate::log::sql::search::{ChainIndex, NewBlock, PostingsRow, forget_chain, remove_blocks, take_lock, write_block};
use crate::record::id::Key;
use crate::sql::{Connection, Database};
use crate::{Health, Ledger, Record, Store, StoreError};

const LINES_MAX: i64 = OFFSETS as i64;
/// Text of one block. It takes about 16 times as much memory, for a moment.
const TEXT_MAX_BYTES: usize = 2 * 1024 * 1024;
/// Records read at once.
const SLICE: usize = 128;
/// Blocks removed in one transaction.
const REMOVED_MAX: usize = 8;
/// A chain without a new record for so long is indexed to its end.
const IDLE_MS: i64 = 3_600_000;

/// The state of the task between two updates.
#[derive(Default)]
pub(super) struct Updater {
    /// Chains whose last block was compared with the log. At most one entry for each chain.
    checked: HashSet<u16>,
    /// The log that must work while the index is written, and the pause after each transaction.
    beside: Option<(Ledger, Duration)>,
}

/// The lines of a block, as far as they matter for the index.
struct Lines {
    last: i64,
    /// Records that begin in the block.
    begun: Vec<Record>,
    /// Records of older blocks that end in this one.
    ended: Vec<Record>,
}

impl Store {
    /// Brings the search index up to date. Returns the number of blocks that it added. It does nothing if another gateway
    /// is at it.
    pub async fn update_search_index(&self, now_ms: i64) -> Result<u64, StoreError> {
        Updater::default().run(self, now_ms).await
    }
}

impl Updater {
    pub(super) fn beside(ledger: Ledger, pause: Duration) -> Self {
        Self { checked: HashSet::new(), beside: Some((ledger, pause)) }
    }

    pub(super) async fn run(&mut self, store: &Store, now_ms: i64) -> Result<u64, StoreError> {
        let database = store.database();
        if self.chains_with_work(database, now_ms).await?.is_empty() {
            return Ok(0);
        }
        let mut connection = database.writing_connection().await?;
        let mut added = 0;
        if take_lock(&mut connection).await? {
            // Again, because another gateway may have done the work before it released the lock.
            for chain in self.chains_with_work(database, now_ms).await? {
                added += self.update(database, &mut connection, chain, now_ms).await?;
            }
        }
        connection.close().await.map_err(StoreError::while_trying("close the search index"))?;
        Ok(added)
    }

    async fn chains_with_work(&self, database: &Database, now_ms: i64) -> Result<Vec<ChainIndex>, StoreError> {
        let chains = database.chain_indexes().await?;
        Ok(chains.into_iter().filter(|chain| self.has_work(chain, now_ms)).collect())
    }

    fn has_work(&self, chain: &ChainIndex, now_ms: i64) -> bool {
        let is_unchecked = chain.block_end.is_some() && !self.checked.contains(&chain.chain);
        is_unchecked || has_removed(chain) || next(chain, now_ms).is_some()
    }

    async fn update(
        &mut self,
        database: &Database,
        connection: &mut Connection,
        mut chain: ChainIndex,
        now_ms: i64,
    ) -> Result<u64, StoreError> {
        while has_removed(&chain)
            && let Some(first_seq) = database.removed_blocks(chain.chain, chain.removed, REMOVED_MAX).await?
        {
            remove_blocks(connection, chain.chain, first_seq).await?;
            if !self.goes_on().await {
                return Ok(0);
            }
        }
        if !self.checked.contains(&chain.chain) {
            if !is_of_this_log(database, &chain).await? {
                tracing::info!(chain = chain.chain, "the search index is not of this log, so it is built again");
                forget(connection, &mut chain).await?;
            }
            self.checked.insert(chain.chain);
        }
        let mut added = 0;
        while let Some(last) = next(&chain, now_ms) {
            match add_block(database, connection, &mut chain, last, now_ms).await? {
                Added::Block => added += 1,
                Added::Nothing => {
                    tracing::warn!(chain = chain.chain, "the search index has a gap, so it is built again");
                    forget(connection, &mut chain).await?;
                }
            }
            if !self.goes_on().await {
                break;
            }
        }
        Ok(added)
    }

    /// Pauses, and tells if the log works. A log that fails, or has no space left, needs what there is.
    async fn goes_on(&self) -> bool {
        let Some((ledger, pause)) = &self.beside else { return true };
        sleep(*pause).await;
        ledger.health() == Health::Well
    }
}

fn has_removed(chain: &ChainIndex) -> bool {
    chain.oldest_block_end.is_some_and(|end| end <= chain.removed)
}

/// The last position of the next block. `None` if there are too few lines for one.
fn next(chain: &ChainIndex, now_ms: i64) -> Option<i64> {
    let is_idle = || chain.newest.is_none_or(|newest| now_ms.saturating_sub(newest.time_ms()) >= IDLE_MS);
    let is_due = chain.tail() >= LINES_MAX || (chain.tail() > 0 && is_idle());
    is_due.then(|| chain.end.min(chain.indexed_to() + LINES_MAX))
}

/// Compares the hash of the newest block with the chain. A position that retention removed tells nothing.
async fn is_of_this_log(database: &Database, chain: &ChainIndex) -> Result<bool, StoreError> {
    let Some((last, hash)) = database.newest_block(chain.chain).await? else { return Ok(true) };
    if last > chain.end {
        return Ok(false);
    }
    let now = hash_at(database, chain.chain, last).await?;
    Ok(hash.is_empty() || now.is_none_or(|now| now[..] == hash[..]))
}

async fn forget(connection: &mut Connection, chain: &mut ChainIndex) -> Result<(), StoreError> {
    forget_chain(connection, chain.chain).await?;
    (chain.oldest_block_end, chain.block_end, chain.build) = (None, None, None);
    Ok(())
}

enum Added {
    Block,
    /// A record belongs to no block, so nothing was added.
    Nothing,
}

/// Adds the block that ends at this position, or before it if its texts are long.
async fn add_block(
    database: &Database,
    connection: &mut Connection,
    chain: &mut ChainIndex,
    last: i64,
    now_ms: i64,
) -> Result<Added, StoreError> {
    let first = chain.indexed_to() + 1;
    let lines = read_lines(database, chain.chain, first, last).await?;
    let (last, removed) = (lines.last, chain.removed);
    let mut older: BTreeMap<i64, Vec<Record>> = BTreeMap::new();
    for record in lines.ended.into_iter().filter(|record| record.seq > removed) {
        let Some((block, _)) = database.block_with(chain.chain, record.seq).await? else { return Ok(Added::Nothing) };
        older.entry(block).or_default().push(record);
    }
    let hash = hash_at(database, chain.chain, last).await?.map(Vec::from).unwrap_or_default();
    let keys = || lines.begun.iter().map(|record| record.id.key());
    let keys: Option<(Key, Key)> = keys().min().zip(keys().max());
    // Sorting a million pairs would hold up a thread that serves calls.
    let built = tokio::task::spawn_blocking(move || build(first, &lines.begun, &older)).await;
    let rows = built.map_err(|_| StoreError::Closed)?;
    let build = chain.build.unwrap_or(now_ms);
    let is_first = chain.block_end.is_none();
    let block = NewBlock { chain: chain.chain, first_seq: first, last_seq: last, keys, hash, build, is_first, rows };
    write_block(connection, block).await?;
    (chain.block_end, chain.build) = (Some(last), Some(build));
    Ok(Added::Block)
}

/// Reads the lines of a block. Stops before `last` when their texts are long.
async fn read_lines(database: &Database, chain: u16, first: i64, last: i64) -> Result<Lines, StoreError> {
    let mut lines = Lines { last, begun: Vec::new(), ended: Vec::new() };
    let (mut bytes, mut after) = (0, first - 1);
    loop {
        let slice = database.begun_after(chain, after, lines.last, SLICE).await?;
        let Some(newest) = slice.last() else { break };
        after = newest.seq;
        bytes += slice.iter().map(text_bytes).sum::<usize>();
        lines.begun.extend(slice);
        if bytes >= TEXT_MAX_BYTES {
            lines.last = after;
        }
    }
    (bytes, after) = (0, first - 1);
    loop {
        let slice = database.ended_after(chain, after, lines.last, SLICE).await?;
        let Some(newest) = slice.last() else { break };
        after = newest.end_seq.unwrap_or(lines.last);
        let older = slice.into_iter().filter(|record| record.seq < first);
        lines.ended.extend(older.inspect(|record| bytes += text_bytes(record)));
        if bytes >= TEXT_MAX_BYTES {
            lines.last = after;
        }
    }
    let last = lines.last;
    lines.begun.retain(|record| record.seq <= last);
    Ok(lines)
}

fn text_bytes(record: &Record) -> usize {
    let mut bytes = 0;
    texts_of(record, |texts| bytes = texts.iter().map(|text| text.len()).sum());
    bytes
}

/// The rows of a block that begins here, and the rows that it adds to older blocks.
fn build(first: i64, begun: &[Record], older: &BTreeMap<i64, Vec<Record>>) -> Vec<PostingsRow> {
    let mut own = Collection::default();
    for record in begun {
        texts_of(record, |texts| own.add(record.seq - first, texts));
    }
    let row = |first_seq: i64| move |(bucket, postings)| PostingsRow { first_seq, bucket, postings };
    let mut rows: Vec<PostingsRow> = own.into_rows().into_iter().map(row(first)).collect();
    for (block, ended) in older {
        let mut added = Collection::default();
        ended.iter().for_each(|record| added.add(record.seq - block, &end_texts_of(record)));
        rows.extend(added.into_row().map(row(*block)));
    }
    rows
}
