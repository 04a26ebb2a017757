//! Drops partitions of the records that have expired. `log/partitions.rs` explains them.
//!
//! A gap in a chain needs a removal that the owner of the chain has signed. So a partition with lines of several chains goes
//! in two steps. In each round of retention:
//!
//! 1. A gateway signs a removal of its own lines in the oldest expired partition, and writes it to `planned_removals`. Nothing
//!    else changes. It does so only if all those lines can go: none belongs to a running call, and none is the end of the
//!    chain.
//! 2. A gateway that finds a planned removal for every chain in the partition drops it. In the same transaction, it writes
//!    all removals and their stubs. The table of records is locked, so no line can be added in between.
//!
//! A plan covers exactly the newest line of its chain in the partition. If a gateway with a late clock adds another line, its
//! plan covers it no more, and the gateway plans again. Plans are checked against the key of their chain before they are used.
//!
//! # Gateways that are gone
//!
//! If nobody writes a chain, nobody signs for it. Its lines stay, and the partition with them. The other gateways then remove
//! their own lines row by row, as with SQLite, and go on with the next partition. When the gateway comes back, it signs, and
//! the rest of the partition goes at once.
//!
//! # No gap
//!
//! Every key needs a place, also before the oldest record, for a gateway whose clock is late. So the partition before a
//! dropped one takes its range, if it is empty: PostgreSQL checks the rows of a partition that gets another range. If it has
//! rows of a gateway that is gone, the expired partition is emptied instead.

use super::RecordWriter;
use super::partitions::{BEGIN, Partition, partitions, unless_in_use};
use super::read::{COLUMNS, record};
use super::record_partitions::{LOCK, attached};
use super::retention::{More, Signed};
use crate::log::line::{self, Hash};
use crate::log::partitions::Hours;
use crate::log::removal::{Removal, Stub, stubs_from_text, stubs_to_text};
use crate::record::id::Key;
use crate::sql::driver::{Connection, Dialect, Row, Statement, Value};
use crate::{SigningKey, StoreError, Verifier};

/// The orders leave PostgreSQL only the index that leads to the row at once.
const LAST: &str = "SELECT seq, hash FROM records WHERE chain = $1 AND key < $2 ORDER BY seq DESC LIMIT 1";
const NEXT: &str = "SELECT seq FROM records WHERE chain = $1 AND key >= $2 ORDER BY seq LIMIT 1";
const RUNNING: &str = "SELECT key FROM records WHERE status = 'started' AND status <> 'success' AND chain = $1 AND key < $2 \
     ORDER BY status, key LIMIT 1";
const END: &str = "SELECT key FROM records WHERE chain = $1 AND end_seq = $3 AND end_seq IS NOT NULL AND key < $2";
const CHAIN: &str = "SELECT chain FROM records WHERE chain > $1 AND key >= $2 AND key < $3 ORDER BY chain LIMIT 1";
/// The first line of a chain that is in an older partition.
const OLDER: &str = "SELECT seq FROM records WHERE chain = $1 AND key < $2 ORDER BY seq LIMIT 1";
/// The sessions that hold the lock of a chain. `take.rs` takes it.
const WRITERS: &str = "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND classid = 1835233136 \
     AND objid = CAST(CAST($1 AS bigint) AS oid) AND database = (SELECT oid FROM pg_database WHERE datname = current_database())";
const PLAN: &str = "INSERT INTO planned_removals (chain, seq, hash, note, stubs) VALUES ($1, $2, $3, $4, $5) \
     ON CONFLICT (chain) DO UPDATE SET seq = excluded.seq, hash = excluded.hash, note = excluded.note, stubs = excluded.stubs";
const PLANNED: &str = "SELECT p.seq, p.hash, p.note, p.stubs, c.verifier, c.removed_seq \
     FROM planned_removals AS p JOIN chains AS c ON c.number = p.chain WHERE p.chain = $1";

type Result<T> = std::result::Result<T, sqlx::Error>;

/// A partition whose keys have all expired.
#[derive(Clone, PartialEq, Eq)]
struct Expired {
    name: String,
    hours: Hours,
    /// The partition before it, if it is empty.
    before: Option<(String, Hours)>,
}

/// A removal that its chain has signed.
struct Planned {
    chain: i64,
    removal: Removal,
    note: String,
    stubs: Vec<Stub>,
    removed_before: i64,
}

/// Tells if a partition can be dropped.
enum Cover {
    Full(Vec<Planned>),
    /// A gateway has not signed yet.
    Waiting,
    /// A chain that nobody writes has lines in it.
    Gone,
}

impl RecordWriter {
    /// Signs the removal of this chain from the oldest partition if all its keys are before this one, and drops the partition
    /// if all chains have done so.
    pub(crate) async fn drop_record_partition(
        &mut self,
        before: Key,
        key: &SigningKey,
        now_ms: i64,
    ) -> std::result::Result<More, StoreError> {
        match self.dialect() {
            Dialect::Sqlite => return Ok(More::No),
            Dialect::Postgres => {}
        }
        for found in self.with_connection(async |connection| expired(connection, before).await).await? {
            let end = found.end();
            self.plan_removal(end, key, now_ms).await?;
            let look = async |connection: &mut Connection| cover(connection, &found).await;
            let more = match self.with_connection(look).await? {
                Cover::Waiting => return Ok(More::No),
                Cover::Gone => self.remove_records(end, key, now_ms).await?,
                // Payloads may have other partitions. Their rows go in steps, before nothing names them any more.
                Cover::Full(_) if self.remove_payloads(end).await? == More::Yes => More::Yes,
                Cover::Full(_) => {
                    let drop = async |connection: &mut Connection| drop_one(connection, before, &found).await;
                    return unless_in_use(self.with_connection(drop).await).map(|more| more.unwrap_or(More::No));
                }
            };
            if more == More::Yes {
                return Ok(More::Yes);
            }
        }
        Ok(More::No)
    }

    /// Signs the removal of all lines of this chain before a key, if they can all go.
    async fn plan_removal(&mut self, end: Key, key: &SigningKey, now_ms: i64) -> std::result::Result<(), StoreError> {
        let chain = i64::from(self.chain());
        let head_seq = self.head().seq;
        let find = async |connection: &mut Connection| removable(connection, chain, head_seq, end).await;
        let Some((seq, hash)) = self.with_connection(find).await? else { return Ok(()) };
        if self.removed_seq().await? >= seq {
            return Ok(());
        }
        // Row values leave PostgreSQL only the index on ends, which has few of them after this position.
        let sql = format!(
            "SELECT {COLUMNS} FROM records WHERE (chain, end_seq) > ($1, $3) AND (chain, end_seq) < ($1 + 1, 0) \
             AND end_seq IS NOT NULL AND key < $2"
        );
        let values = vec![Value::int(chain), Value::int(end.0), Value::int(seq)];
        let mut ends = Vec::new();
        for row in self.fetch(Statement::new(sql, values)).await? {
            if let (_, Some((seq, end))) = line::of_record(&record(&row)?) {
                ends.push((seq, line::digest(&end)));
            }
        }
        let stubs = self.stubs_after(chain, seq, ends).await?;
        let removal = Removal::new(seq, hash, &stubs);
        let note = removal.sign(key, now_ms);
        let values = vec![
            Value::int(chain),
            Value::int(seq),
            Value::bytes(&hash),
            Value::text(&note),
            Value::text(&stubs_to_text(&stubs)),
        ];
        self.change(Statement::new(PLAN, values)).await.map(|_| ())
    }
}

impl Expired {
    /// The first key after it.
    fn end(&self) -> Key {
        self.hours.keys().1
    }
}

/// The expired partitions that have rows or can be joined with the one before, oldest first.
async fn expired(connection: &mut Connection, before: Key) -> Result<Vec<Expired>> {
    let mut found = Vec::new();
    let mut empty: Option<(String, Hours)> = None;
    for Partition { name, hours } in partitions(connection, "records").await? {
        if hours.keys().1 > before {
            break;
        }
        let any = format!("SELECT key FROM {name} LIMIT 1");
        let is_empty = connection.fetch(Statement::plain(&any)).await?.is_empty();
        if !is_empty || empty.is_some() {
            found.push(Expired { name: name.clone(), hours, before: empty.take() });
        }
        empty = is_empty.then_some((name, hours));
    }
    Ok(found)
}

/// The last line of a chain before a key, with its hash, if it and all lines before it can go.
async fn removable(connection: &mut Connection, chain: i64, head_seq: i64, end: Key) -> Result<Option<(i64, Hash)>> {
    let chain_and_end = || vec![Value::int(chain), Value::int(end.0)];
    let rows = connection.fetch(Statement::new(LAST, chain_and_end())).await?;
    let Some((seq, hash)) = rows.first().map(line_of).transpose()?.flatten() else { return Ok(None) };
    if seq == head_seq {
        return Ok(None);
    }
    let running = Statement::new(RUNNING, chain_and_end());
    let with_head = Statement::new(END, chain_and_end().into_iter().chain([Value::int(head_seq)]).collect());
    for blocking in [running, with_head] {
        if first_int(connection, blocking).await?.is_some() {
            return Ok(None);
        }
    }
    // Keys grow with positions, unless rows were changed. Then nothing may be signed.
    let next = first_int(connection, Statement::new(NEXT, chain_and_end())).await?;
    Ok(next.is_none_or(|next| next > seq).then_some((seq, hash)))
}

fn line_of(row: &Row) -> Result<Option<(i64, Hash)>> {
    let hash = row.bytes(1)?.and_then(|hash| hash.try_into().ok());
    Ok(row.int(0)?.zip(hash))
}

/// Looks for a planned removal of every chain with rows in a partition.
async fn cover(connection: &mut Connection, found: &Expired) -> Result<Cover> {
    let mut plans = Vec::new();
    let mut chain = i64::MIN;
    let (from, end) = found.hours.keys();
    loop {
        let next = Statement::new(CHAIN, vec![Value::int(chain), Value::int(from.0), Value::int(end.0)]);
        let Some(number) = first_int(connection, next).await? else { return Ok(Cover::Full(plans)) };
        chain = number;
        let older = Statement::new(OLDER, vec![Value::int(chain), Value::int(from.0)]);
        let last = Statement::new(LAST, vec![Value::int(chain), Value::int(end.0)]);
        let last = first_int(connection, last).await?;
        let rows = connection.fetch(Statement::new(PLANNED, vec![Value::int(chain)])).await?;
        let plan = rows.first().map(|row| read_plan(chain, row)).transpose()?.flatten();
        match plan.filter(|plan| Some(plan.removal.seq) == last) {
            Some(plan) if first_int(connection, older).await?.is_none() => plans.push(plan),
            Some(_) | None => {
                let writers = first_int(connection, Statement::new(WRITERS, vec![Value::int(chain)])).await?;
                return Ok(if writers == Some(0) { Cover::Gone } else { Cover::Waiting });
            }
        }
    }
}

/// Returns `None` if the plan is not what its chain has signed.
fn read_plan(chain: i64, row: &Row) -> Result<Option<Planned>> {
    let hash: Option<Hash> = row.bytes(1)?.and_then(|hash| hash.try_into().ok());
    let (note, stubs, verifier) = (row.text(2)?, row.text(3)?, row.text(4)?);
    let (seq, removed_before) = (row.int(0)?, row.int(5)?);
    let plan = (|| {
        let (note, stubs) = (note?, stubs_from_text(&stubs?)?);
        let removal = Removal::new(seq?, hash?, &stubs);
        let signed = Removal::open(&note, &Verifier::parse(&verifier?)?).ok()?;
        (signed == removal).then_some(Planned { chain, removal, note, stubs, removed_before: removed_before? })
    })();
    if plan.is_none() {
        tracing::warn!(chain, "a planned removal of records is not what the gateway of that chain signed");
    }
    // An outdated plan has taken effect, or the rows have gone one by one.
    Ok(plan.filter(|plan| plan.removed_before < plan.removal.seq))
}

/// Drops a partition, and writes the removals of all chains, in one transaction.
async fn drop_one(connection: &mut Connection, before: Key, found: &Expired) -> Result<More> {
    connection.run(&format!("{BEGIN}; {LOCK}")).await?;
    // Another gateway may have dropped it, or added a line, before the lock was taken.
    let is_same = expired(connection, before).await?.contains(found);
    let cover = if is_same { cover(connection, found).await? } else { Cover::Waiting };
    let Cover::Full(plans) = cover else {
        connection.run("ROLLBACK").await?;
        return Ok(More::No);
    };
    for plan in &plans {
        let signed = Signed { removal: &plan.removal, note: &plan.note, stubs: &plan.stubs };
        if connection.execute(signed.moved(plan.chain, plan.removed_before)).await? == 0 {
            connection.run("ROLLBACK").await?;
            return Ok(More::No);
        }
        for statement in signed.stub_statements(plan.chain) {
            connection.execute(statement).await?;
        }
        let done = "DELETE FROM planned_removals WHERE chain = $1";
        connection.execute(Statement::new(done, vec![Value::int(plan.chain)])).await?;
    }
    let Expired { name, hours, before } = found;
    let sql = match before {
        Some((empty, range)) => format!(
            "DROP TABLE {name}; ALTER TABLE records DETACH PARTITION {empty}; {}",
            attached(empty, Hours { to: hours.to, ..*range })
        ),
        None => format!("TRUNCATE {name}"),
    };
    connection.run(&format!("{sql}; COMMIT")).await?;
    tracing::info!(partition = %name, chains = plans.len(), "dropped a partition of records that have expired");
    Ok(More::Yes)
}

async fn first_int(connection: &mut Connection, statement: Statement) -> Result<Option<i64>> {
    let rows = connection.fetch(statement).await?;
    Ok(rows.first().map(|row| row.int(0)).transpose()?.flatten())
}
