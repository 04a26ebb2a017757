//! One block of the index: reads its lines, and writes what they add.
//!
//! A block has up to 1,024 lines, and fewer if their texts are long. That bounds its memory, and the time for which its
//! transaction holds the write lock of SQLite.

use std::collections::BTreeMap;

use super::postings::OFFSETS;
use super::trigrams::{Collection, end_texts_of, texts_of};
use crate::log::restore::hash_at;
use crate::log::sql::search::{ChainIndex, NewBlock, PostingsRow, write_block};
use crate::record::id::Key;
use crate::sql::{Connection, Database};
use crate::{Record, StoreError};

pub(super) const LINES_MAX: i64 = OFFSETS as i64;
/// Text of one block. For a moment, it takes about 20 times as much memory, and random bytes take about 70 times as
/// much. Random text takes about 5 times as much space.
const TEXT_MAX_BYTES: usize = 512 * 1024;
/// Records read at once.
const SLICE: usize = 128;

/// The lines of a block, as far as they matter for the index.
struct Lines {
    last: i64,
    /// Records that begin in the block.
    begun: Vec<Record>,
    /// Records of older blocks that end in this one.
    ended: Vec<Record>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum BlockOutcome {
    Added,
    /// A record belongs to no block, so nothing was added.
    Gap,
}

/// Adds the block that ends at this position, or before it if its texts are long.
pub(super) async fn add_block(
    database: &Database,
    connection: &mut Connection,
    chain: &mut ChainIndex,
    last: i64,
    now_ms: i64,
) -> Result<BlockOutcome, StoreError> {
    let first = chain.indexed_to() + 1;
    let lines = read_lines(database, chain.chain, first, last).await?;
    let (last, removed) = (lines.last, chain.removed);
    let mut older: BTreeMap<i64, Vec<Record>> = BTreeMap::new();
    for record in lines.ended.into_iter().filter(|record| record.seq > removed) {
        let Some((block, _)) = database.block_with(chain.chain, record.seq).await? else {
            return Ok(BlockOutcome::Gap);
        };
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
    Ok(BlockOutcome::Added)
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
