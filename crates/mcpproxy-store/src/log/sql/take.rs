//! Opens a chain for writing: its number, its lock, and its head.
//!
//! # One writer for each chain
//!
//! Two gateways with copies of the same data folder have the same key. If both continued the chain, it would fork. With
//! SQLite, the lock of the data folder and the unique positions of `records` prevent that. With PostgreSQL, three things do:
//!
//! 1. A gateway holds an advisory lock on its chain for as long as its session lasts.
//! 2. Each batch moves the row of the chain in `chain_heads` from the position that the writer knows to the one after the
//!    batch. At any other position, the statement fails as a whole. This also holds without the lock, such as behind a
//!    connection pooler that gives sessions to several clients. PostgreSQL makes the second of two writers wait for the row,
//!    and then compares it with what the first one has written.
//! 3. Positions are unique within a partition of `records`. A gateway of the previous version has no other protection. It
//!    only runs during a rolling update, and for a week after the upgrade there is one partition to write to.
//!
//! A gateway that begins to write a chain sets its head to the end that it found. Rows of the table say nothing else, so a
//! copy of the database does not have them.

use std::time::{Duration, Instant};

use tokio::time::sleep;

use crate::log::line::{self, Hash};
use crate::record::id::{CHAINS_MAX, Key};
use crate::sql::driver::{Connection, Dialect, Statement, Value};
use crate::{StoreError, Verifier};

const DOING: &str = "open the chain of the activity log";
/// The patience of a gateway that starts.
pub(super) const START_PATIENCE: Duration = Duration::from_secs(3);
/// The patience of a gateway that reconnects. Its callers wait.
pub(super) const RECONNECT_PATIENCE: Duration = Duration::from_secs(1);
const TAKE_PAUSE: Duration = Duration::from_millis(50);

/// The end of a chain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Head {
    pub(crate) seq: i64,
    pub(crate) hash: Hash,
    pub(crate) key: Option<Key>,
}

impl Head {
    pub(super) fn is_at(&self, other: &Self) -> bool {
        (self.seq, self.hash) == (other.seq, other.hash)
    }
}

/// Returns the number of the chain with this key. Creates the chain if needed.
pub(super) async fn chain_number(
    connection: &mut Connection,
    verifier: &Verifier,
    now_ms: i64,
) -> Result<u16, StoreError> {
    let failed = StoreError::while_trying(DOING);
    let insert = "INSERT INTO chains (number, name, verifier, created_ms, removed_seq, removed_hash) \
                  SELECT coalesce(max(number) + 1, 0), $1, $2, $3, 0, $4 FROM chains WHERE true \
                  ON CONFLICT DO NOTHING";
    let origin = line::origin(verifier.chain());
    let values = vec![
        Value::text(verifier.chain()),
        Value::text(&verifier.to_string()),
        Value::int(now_ms),
        Value::bytes(&origin),
    ];
    let mut number = None;
    // Another gateway may take the same number at the same moment. Then try the next one.
    for _ in 0..CHAINS_MAX {
        let find = Statement::new("SELECT number FROM chains WHERE name = $1", vec![Value::text(verifier.chain())]);
        let rows = connection.fetch(find).await.map_err(&failed)?;
        number = rows.first().map(|row| row.int(0)).transpose().map_err(&failed)?.flatten();
        if number.is_some() {
            break;
        }
        connection.execute(Statement::new(insert, values.clone())).await.map_err(&failed)?;
    }
    let number = number.filter(|number| *number < CHAINS_MAX).and_then(|number| u16::try_from(number).ok());
    number.ok_or(StoreError::ChainsFull)
}

/// Retries for a while: PostgreSQL may notice late that the previous gateway is gone, and another gateway locks a chain
/// for a moment to move its counts.
pub(super) async fn take_chain(
    connection: &mut Connection,
    chain: u16,
    verifier: &Verifier,
    patience: Duration,
) -> Result<(), StoreError> {
    let begin = Instant::now();
    loop {
        match lock_chain(connection, chain, verifier).await {
            Err(StoreError::ChainTaken { .. }) if begin.elapsed() < patience => sleep(TAKE_PAUSE).await,
            outcome => return outcome,
        }
    }
}

/// Locks the chain against another gateway with a copy of the same data folder. With SQLite, the lock of the data
/// folder is enough.
async fn lock_chain(connection: &mut Connection, chain: u16, verifier: &Verifier) -> Result<(), StoreError> {
    if connection.dialect() == Dialect::Sqlite {
        return Ok(());
    }
    match try_lock(connection, "pg_try_advisory_lock", chain).await.map_err(StoreError::while_trying(DOING))? {
        true => Ok(()),
        false => Err(StoreError::ChainTaken { chain: verifier.chain().to_owned() }),
    }
}

/// Locks a chain of another data folder until the end of this transaction. Returns false if its gateway runs. With
/// SQLite, no other gateway runs.
pub(super) async fn hold_chain(connection: &mut Connection, chain: u16) -> Result<bool, sqlx::Error> {
    match connection.dialect() {
        Dialect::Sqlite => Ok(true),
        Dialect::Postgres => try_lock(connection, "pg_try_advisory_xact_lock", chain).await,
    }
}

async fn try_lock(connection: &mut Connection, function: &str, chain: u16) -> Result<bool, sqlx::Error> {
    let sql = format!("SELECT CASE WHEN {function}(1835233136, CAST($1 AS integer)) THEN 1::bigint ELSE 0::bigint END");
    let rows = connection.fetch(Statement::new(sql, vec![Value::int(chain.into())])).await?;
    Ok(rows.first().map(|row| row.int(0)).transpose()?.flatten() == Some(1))
}

/// Reads the head of a chain, and begins to write from there: from now on, no writer that knows another position can go on.
pub(super) async fn claim_head(connection: &mut Connection, chain: u16) -> Result<Head, StoreError> {
    let failed = StoreError::while_trying(DOING);
    connection.begin().await.map_err(&failed)?;
    if connection.dialect() == Dialect::Postgres {
        // Waits for a batch that is being written, and lets no other begin.
        let sql = "INSERT INTO chain_heads (chain, seq) VALUES ($1, 0) ON CONFLICT (chain) DO UPDATE SET seq = chain_heads.seq";
        connection.execute(Statement::new(sql, vec![Value::int(chain.into())])).await.map_err(&failed)?;
    }
    let head = head(connection, chain).await?;
    if connection.dialect() == Dialect::Postgres {
        let sql = "UPDATE chain_heads SET seq = $2 WHERE chain = $1";
        let values = vec![Value::int(chain.into()), Value::int(head.seq)];
        connection.execute(Statement::new(sql, values)).await.map_err(&failed)?;
    }
    connection.execute(Statement::plain("COMMIT")).await.map_err(&failed)?;
    Ok(head)
}

pub(crate) async fn head(connection: &mut Connection, chain: u16) -> Result<Head, StoreError> {
    let failed = StoreError::while_trying(DOING);
    let newest = [
        ("SELECT seq, hash, key FROM records WHERE chain = $1 ORDER BY seq DESC LIMIT 1"),
        ("SELECT end_seq, end_hash, key FROM records WHERE chain = $1 AND end_seq IS NOT NULL ORDER BY end_seq DESC LIMIT 1"),
        ("SELECT removed_seq, removed_hash, NULL::bigint FROM chains WHERE number = $1"),
    ];
    let mut found: Option<Head> = None;
    for sql in newest {
        let sql = if connection.dialect() == Dialect::Sqlite { sql.replace("::bigint", "") } else { sql.to_owned() };
        let rows = connection.fetch(Statement::new(sql, vec![Value::int(chain.into())])).await.map_err(&failed)?;
        let Some(row) = rows.first() else { continue };
        let seq = row.int(0).map_err(&failed)?.unwrap_or(0);
        let hash = row.bytes(1).map_err(&failed)?.and_then(|hash| hash.try_into().ok());
        let hash = hash.ok_or_else(|| StoreError::corrupt("a record without a hash"))?;
        let key = row.int(2).map_err(&failed)?.map(Key);
        found = Some(match found {
            Some(head) if head.seq >= seq => Head { key: head.key.max(key), ..head },
            head => Head { seq, hash, key: head.and_then(|head| head.key).max(key) },
        });
    }
    found.ok_or_else(|| StoreError::corrupt("a chain that is missing"))
}
