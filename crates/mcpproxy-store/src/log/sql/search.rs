//! The SQL of the search index: how far each chain is indexed, blocks with their postings, and candidates.

use std::cmp::Reverse;

use super::queries::{Parameters, Search};
use super::read::record;
use crate::log::filter::{Filter, Keys, SCAN_MAX};
use crate::log::search::trigrams::{BUCKETS_READ, WHOLE};
use crate::record::id::Key;
use crate::sql::columns::Columns;
use crate::sql::{Connection, Database, Dialect, Row, Statement, Value};
use crate::{Record, StoreError};

const READING: &str = "read the search index";
const WRITING: &str = "write the search index";
/// Everything in one statement, so that it is of one moment.
const CHAINS: &str = "SELECT number, removed_seq, (SELECT max(seq) FROM records WHERE chain = number), \
     (SELECT max(end_seq) FROM records WHERE chain = number AND end_seq IS NOT NULL), \
     (SELECT max(seq) FROM stubs WHERE chain = number), \
     (SELECT key FROM records WHERE chain = number ORDER BY seq DESC LIMIT 1), \
     (SELECT last_seq FROM search_blocks WHERE chain = number ORDER BY first_seq LIMIT 1), \
     (SELECT last_seq FROM search_blocks WHERE chain = number ORDER BY first_seq DESC LIMIT 1), \
     (SELECT build FROM search_blocks WHERE chain = number ORDER BY first_seq DESC LIMIT 1) \
     FROM chains ORDER BY number";
/// Blocks from the newest on, and their postings in the buckets of a search.
const BLOCKS: &str = "SELECT b.chain, b.first_seq, b.last_key, p.postings, b.last_seq FROM \
     (SELECT chain, first_seq, last_seq, last_key FROM search_blocks WHERE last_key >= $1 AND first_key < $2 \
      AND (last_key, chain, first_seq) < ($3, $4, $5) \
      ORDER BY last_key DESC, chain DESC, first_seq DESC LIMIT $6) AS b \
     LEFT JOIN search_postings AS p ON p.chain = b.chain AND p.first_seq = b.first_seq \
     AND p.bucket IN ($7, $8, $9, $10, $11)";
/// An arbitrary number that all gateways share.
const LOCK: &str = "SELECT CASE WHEN pg_try_advisory_lock(7163470115) THEN 1::bigint ELSE 0::bigint END";
/// Positions in one statement. A list is filled up to one of these lengths, so that there are few statements to prepare.
const LENGTHS: [usize; 3] = [8, 64, 512];
/// Rows in one `INSERT`.
const ROWS_MAX: usize = 16;

/// A chain, and how far it is indexed.
#[derive(Clone, Debug)]
pub(crate) struct ChainIndex {
    pub(crate) chain: u16,
    /// Lines up to this position were removed.
    pub(crate) removed: i64,
    /// The last position of the chain.
    pub(crate) end: i64,
    /// The key of the newest record.
    pub(crate) newest: Option<Key>,
    /// The last position of the oldest block.
    pub(crate) oldest_block_end: Option<i64>,
    /// The last position of the newest block.
    pub(crate) block_end: Option<i64>,
    pub(crate) build: Option<i64>,
}

/// The place of a block in the order of a search.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct BlockPlace {
    pub(crate) last_key: i64,
    pub(crate) chain: u16,
    pub(crate) first_seq: i64,
}

/// A block, with its postings in the buckets of a search.
pub(crate) struct IndexedBlock {
    pub(crate) place: BlockPlace,
    pub(crate) last_seq: i64,
    pub(crate) rows: Vec<Vec<u8>>,
}

/// A block to write, with the rows that it adds to itself and to older blocks.
pub(crate) struct NewBlock {
    pub(crate) chain: u16,
    pub(crate) first_seq: i64,
    pub(crate) last_seq: i64,
    /// The smallest and the largest key of its records.
    pub(crate) keys: Option<(Key, Key)>,
    pub(crate) hash: Vec<u8>,
    pub(crate) build: i64,
    /// True if no block comes before it.
    pub(crate) is_first: bool,
    pub(crate) rows: Vec<PostingsRow>,
}

pub(crate) struct PostingsRow {
    /// The first position of the block that has the records.
    pub(crate) first_seq: i64,
    pub(crate) bucket: i64,
    pub(crate) postings: Vec<u8>,
}

impl ChainIndex {
    /// The last position that needs no reading by a search.
    pub(crate) fn indexed_to(&self) -> i64 {
        self.block_end.unwrap_or(0).max(self.removed)
    }

    /// The number of lines that are not indexed yet.
    pub(crate) fn tail(&self) -> i64 {
        (self.end - self.indexed_to()).max(0)
    }

    fn of(row: &Row) -> Result<Self, StoreError> {
        let columns = Columns::of(row, "a chain");
        let removed = columns.number(1)?;
        let end = Some(removed).max(columns.int(2)?).max(columns.int(3)?).max(columns.int(4)?);
        Ok(Self {
            chain: chain(columns.number(0)?)?,
            removed,
            end: end.unwrap_or(removed),
            newest: columns.int(5)?.map(Key),
            oldest_block_end: columns.int(6)?,
            block_end: columns.int(7)?,
            build: columns.int(8)?,
        })
    }
}

impl Database {
    /// All chains, and how far each is indexed.
    pub(crate) async fn chain_indexes(&self) -> Result<Vec<ChainIndex>, StoreError> {
        self.fetch(Statement::plain(CHAINS), READING).await?.iter().map(ChainIndex::of).collect()
    }

    /// The next blocks with keys in this range, in the order of their last keys, newest first.
    pub(crate) async fn indexed_blocks(
        &self,
        keys: &Keys,
        after: Option<BlockPlace>,
        buckets: &[i64],
        limit: usize,
    ) -> Result<Vec<IndexedBlock>, StoreError> {
        let after = after.unwrap_or(BlockPlace { last_key: i64::MAX, chain: u16::MAX, first_seq: i64::MAX });
        let mut values = vec![
            Value::int(keys.from),
            Value::int(keys.before),
            Value::int(after.last_key),
            Value::int(after.chain.into()),
            Value::int(after.first_seq),
            Value::limit(limit),
            Value::int(WHOLE),
        ];
        let padding = std::iter::repeat(&WHOLE);
        values.extend(buckets.iter().chain(padding).take(BUCKETS_READ).map(|bucket| Value::int(*bucket)));
        let mut rows = Vec::new();
        for row in self.fetch(Statement::new(BLOCKS, values), READING).await? {
            let columns = Columns::of(&row, "a block of the search index");
            let (chain, first_seq) = (chain(columns.number(0)?)?, columns.number(1)?);
            let place = BlockPlace { last_key: columns.number(2)?, chain, first_seq };
            rows.push((place, columns.number(4)?, columns.bytes(3)?));
        }
        rows.sort_unstable_by_key(|(place, ..)| Reverse(*place));
        let mut blocks: Vec<IndexedBlock> = Vec::new();
        for (place, last_seq, row) in rows {
            match blocks.last_mut().filter(|block| block.place == place) {
                Some(block) => block.rows.extend(row),
                None => blocks.push(IndexedBlock { place, last_seq, rows: row.into_iter().collect() }),
            }
        }
        Ok(blocks)
    }

    /// The newest matches among the records at these positions.
    pub(crate) async fn matches_at(
        &self,
        filter: &Filter,
        keys: &Keys,
        chain: u16,
        positions: &[i64],
        limit: usize,
    ) -> Result<Vec<Record>, StoreError> {
        let mut records = Vec::new();
        let longest = LENGTHS.last().copied().unwrap_or(1);
        for positions in positions.chunks(longest) {
            let length = LENGTHS.into_iter().find(|length| *length >= positions.len()).unwrap_or(longest);
            let mut parameters = Parameters::default();
            let chain = parameters.add(Value::int(chain.into()));
            let padding = positions.last().into_iter().cycle();
            let list: Vec<String> =
                positions.iter().chain(padding).take(length).map(|seq| parameters.add(Value::int(*seq))).collect();
            let first = format!("chain = {chain} AND seq IN ({})", list.join(","));
            let search = Search::among(filter, keys, first, parameters, self.dialect());
            let rows = self.fetch(search.newest(limit, length), READING).await?;
            records.extend(rows.iter().map(record).collect::<Result<Vec<_>, _>>()?);
        }
        Ok(records)
    }

    /// The newest matches among the records of a chain that begin or end after a position.
    pub(crate) async fn matches_after(
        &self,
        filter: &Filter,
        keys: &Keys,
        chain: u16,
        after: i64,
        limit: usize,
    ) -> Result<Vec<Record>, StoreError> {
        let mut records = Vec::new();
        let begun = "seq > $2 ORDER BY seq";
        // The sum leaves only the index on `end_seq`. The one on `seq` would lead through the whole chain.
        let ended = "end_seq > $2 AND end_seq IS NOT NULL AND seq + 0 <= $2 ORDER BY end_seq";
        for which in [begun, ended] {
            let parameters = Parameters { values: vec![Value::int(chain.into()), Value::int(after)] };
            let first = format!("chain = $1 AND {which}");
            let search = Search::among(filter, keys, first, parameters, self.dialect());
            // Lines beyond this number were written after the search began.
            let rows = self.fetch(search.newest(limit, 2 * SCAN_MAX), READING).await?;
            records.extend(rows.iter().map(record).collect::<Result<Vec<_>, _>>()?);
        }
        Ok(records)
    }

    /// The position and hash at the end of the newest block of a chain.
    pub(crate) async fn newest_block(&self, chain: u16) -> Result<Option<(i64, Vec<u8>)>, StoreError> {
        let sql = "SELECT last_seq, hash FROM search_blocks WHERE chain = $1 ORDER BY first_seq DESC LIMIT 1";
        let row = self.fetch_first(Statement::new(sql, vec![Value::int(chain.into())]), READING).await?;
        let Some(row) = row else { return Ok(None) };
        let columns = Columns::of(&row, "a block of the search index");
        Ok(Some((columns.number(0)?, columns.bytes(1)?.unwrap_or_default())))
    }

    /// The first and last position of the block with this position.
    pub(crate) async fn block_with(&self, chain: u16, seq: i64) -> Result<Option<(i64, i64)>, StoreError> {
        let sql = "SELECT first_seq, last_seq FROM search_blocks WHERE chain = $1 AND first_seq <= $2 \
                   ORDER BY first_seq DESC LIMIT 1";
        let values = vec![Value::int(chain.into()), Value::int(seq)];
        let Some(row) = self.fetch_first(Statement::new(sql, values), READING).await? else { return Ok(None) };
        let columns = Columns::of(&row, "a block of the search index");
        Ok(Some((columns.number(0)?, columns.number(1)?)).filter(|(_, last)| *last >= seq))
    }

    /// The first position of the oldest block, if its lines were all removed.
    pub(crate) async fn removed_block(&self, chain: u16, removed: i64) -> Result<Option<i64>, StoreError> {
        let sql = "SELECT first_seq FROM search_blocks WHERE chain = $1 AND last_seq <= $2 ORDER BY first_seq LIMIT 1";
        self.position(Statement::new(sql, vec![Value::int(chain.into()), Value::int(removed)])).await
    }

    /// The first position of the oldest block with postings. The block itself may be gone.
    pub(crate) async fn oldest_postings(&self, chain: u16) -> Result<Option<i64>, StoreError> {
        let sql = "SELECT min(first_seq) FROM search_postings WHERE chain = $1";
        self.position(Statement::new(sql, vec![Value::int(chain.into())])).await
    }

    /// Tells if blocks cover all lines after `after` and before `before`. Blocks in which no record begins are not
    /// among those that a search reads.
    pub(crate) async fn is_covered(&self, chain: u16, after: i64, before: i64) -> Result<bool, StoreError> {
        if before - after == 1 {
            return Ok(true);
        }
        let sql = "SELECT CAST(sum(last_seq - first_seq + 1) AS BIGINT) FROM search_blocks \
                   WHERE chain = $1 AND first_seq > $2 AND first_seq < $3";
        let values = vec![Value::int(chain.into()), Value::int(after), Value::int(before)];
        Ok(self.position(Statement::new(sql, values)).await? == Some(before - after - 1))
    }

    async fn position(&self, statement: Statement) -> Result<Option<i64>, StoreError> {
        let row = self.fetch_first(statement, READING).await?;
        row.map(|row| Columns::of(&row, "a block of the search index").int(0)).transpose().map(Option::flatten)
    }
}

/// Takes the lock of the index, which the connection holds until it is closed. False if another gateway has it. With
/// SQLite, the lock of the data folder is enough.
pub(crate) async fn take_lock(connection: &mut Connection) -> Result<bool, StoreError> {
    match connection.dialect() {
        Dialect::Sqlite => return Ok(true),
        Dialect::Postgres => {}
    }
    let rows = connection.fetch(Statement::plain(LOCK)).await.map_err(StoreError::while_trying(WRITING))?;
    Ok(rows.first().and_then(|row| row.int(0).ok().flatten()) == Some(1))
}

/// Writes a block and everything that it adds, in one transaction. Fails if the block is there already.
pub(crate) async fn write_block(connection: &mut Connection, block: NewBlock) -> Result<(), StoreError> {
    let NewBlock { first_seq, last_seq, build, .. } = block;
    let chain = i64::from(block.chain);
    let (first_key, last_key) = block.keys.map_or((-1, -1), |(first, last)| (first.0, last.0));
    // A former build may have left rows. Blocks find theirs by position.
    let from = if block.is_first { 0 } else { first_seq };
    let mut statements = vec![
        Statement::new(
            "DELETE FROM search_postings WHERE chain = $1 AND first_seq >= $2 AND first_seq <= $3",
            vec![Value::int(chain), Value::int(from), Value::int(last_seq)],
        ),
        Statement::new(
            "INSERT INTO search_blocks (chain, first_seq, last_seq, first_key, last_key, hash, build) \
             VALUES ($1, $2, $3, $4, $5, $6, $7)",
            vec![
                Value::int(chain),
                Value::int(first_seq),
                Value::int(last_seq),
                Value::int(first_key),
                Value::int(last_key),
                Value::bytes(&block.hash),
                Value::int(build),
            ],
        ),
    ];
    let mut rows = block.rows.into_iter().peekable();
    while rows.peek().is_some() {
        let mut parameters = Parameters::default();
        let mut places = Vec::new();
        for row in rows.by_ref().take(ROWS_MAX) {
            let values = [chain, row.first_seq, row.bucket, first_seq].map(Value::int);
            let values = values.into_iter().chain([Value::Bytes(Some(row.postings))]);
            places.push(format!("({})", values.map(|value| parameters.add(value)).collect::<Vec<_>>().join(", ")));
        }
        let sql = format!(
            "INSERT INTO search_postings (chain, first_seq, bucket, part, postings) VALUES {}",
            places.join(", ")
        );
        statements.push(Statement::new(sql, parameters.values));
    }
    connection.transaction(statements).await.map_err(StoreError::while_trying(WRITING))
}

/// Removes the block of a chain that begins here, with its postings and those of older blocks that are gone.
pub(crate) async fn remove_block(connection: &mut Connection, chain: u16, first_seq: i64) -> Result<(), StoreError> {
    let up_to = |table: &str| {
        let sql = format!("DELETE FROM {table} WHERE chain = $1 AND first_seq <= $2");
        Statement::new(sql, vec![Value::int(chain.into()), Value::int(first_seq)])
    };
    let statements = ["search_postings", "search_blocks"].map(up_to).into_iter().collect();
    connection.transaction(statements).await.map_err(StoreError::while_trying(WRITING))
}

/// Removes the postings of a block that was forgotten.
pub(crate) async fn remove_postings(connection: &mut Connection, chain: u16, first_seq: i64) -> Result<(), StoreError> {
    let sql = "DELETE FROM search_postings WHERE chain = $1 AND first_seq = $2";
    let remove = connection.execute(Statement::new(sql, vec![Value::int(chain.into()), Value::int(first_seq)]));
    remove.await.map(drop).map_err(StoreError::while_trying(WRITING))
}

/// Removes all blocks of a chain. Their postings are found no more, and go when new blocks take their places.
pub(crate) async fn forget_chain(connection: &mut Connection, chain: u16) -> Result<(), StoreError> {
    let sql = "DELETE FROM search_blocks WHERE chain = $1";
    let forget = connection.execute(Statement::new(sql, vec![Value::int(chain.into())]));
    forget.await.map(drop).map_err(StoreError::while_trying(WRITING))
}

fn chain(number: i64) -> Result<u16, StoreError> {
    u16::try_from(number).map_err(|_| StoreError::corrupt("a chain without a usable number"))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A look at all chains, and a page of blocks, find every row by a key.
    #[tokio::test]
    async fn no_query_reads_a_whole_table() {
        let folder = tempfile::tempdir().unwrap();
        let database = Database::open(&crate::Location::Sqlite(folder.path().join("mcpproxy.db"))).await.unwrap();
        let blocks = Statement::new(BLOCKS, (1..=11).map(Value::int).collect());
        for Statement { sql, values } in [Statement::plain(CHAINS), blocks] {
            let explained = Statement::new(format!("EXPLAIN QUERY PLAN {sql}"), values);
            let rows = database.fetch(explained, READING).await.unwrap();
            let plan: Vec<String> = rows.iter().map(|row| row.text(3).unwrap().unwrap()).collect();
            let is_whole = |step: &&String| {
                let tables = ["records", "stubs", "search_blocks", "search_postings", "p"];
                let scanned = step.strip_prefix("SCAN ").and_then(|rest| rest.split(' ').next());
                scanned.is_some_and(|scanned| tables.contains(&scanned))
            };
            assert_eq!(plan.iter().find(is_whole), None, "{plan:#?}");
        }
    }
}
