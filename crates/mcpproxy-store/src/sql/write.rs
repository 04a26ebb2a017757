//! Writing records: one connection, one chain, one transaction for each batch.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, LazyLock};
use std::time::{Duration, Instant};

use mcpproxy_core::{RiskLevel, Variant};
use tokio::time::sleep;

use super::bulk::{Bulk, Column, Form};
use super::driver::{Connection, Dialect, Statement, Value};
use super::{Database, connect, driver};
use crate::key::{CHAINS_MAX, Key};
use crate::line::{self, First, Hash, Last};
use crate::queue::{Change, End, Row, Stage};
use crate::subject::Subject;
use crate::tally::{HOUR_MS, Tally};
use crate::{Kind, Location, Payload, Status, StoreError, Verifier};

const DOING: &str = "write to the activity log";
const DOING_CHAIN: &str = "take up the chain of the activity log";
const TAKE_TIMEOUT: Duration = Duration::from_secs(3);
const TAKE_PAUSE: Duration = Duration::from_millis(50);

use Column::{Bytes, Int, Text};

const INSERT: Form = Form {
    begin: "INSERT INTO records (key, tail, chain, seq, hash, kind, status, agent, client, server, tool, intent_type, risk, \
            code, message, duration_us, metadata, args_bytes, args_digest, result_bytes, result_digest, end_metadata) \
            SELECT * FROM (VALUES ",
    columns: &[
        Int, Int, Int, Int, Bytes, Text, Text, Text, Text, Text, Text, Text, Text, Text, Text, Int, Text, Int, Bytes,
        Int, Bytes, Text,
    ],
    end: ") AS v WHERE column1 IS NOT NULL",
};

const CLOSE: Form = Form {
    begin: "UPDATE records SET end_seq = column2, end_hash = column3, status = column4, code = column5, message = column6, \
            duration_us = column7, result_bytes = column8, result_digest = column9, end_metadata = column10 FROM (VALUES ",
    columns: &[Int, Int, Bytes, Text, Text, Text, Int, Int, Bytes, Text],
    end: ") AS v WHERE records.key = column1 AND records.end_seq IS NULL",
};

const KEEP_PAYLOAD: Form = Form {
    begin: "INSERT INTO payloads (key, args, result) SELECT * FROM (VALUES ",
    columns: &[Int, Text, Text],
    end: ") AS v WHERE column1 IS NOT NULL ON CONFLICT (key) DO UPDATE SET result = excluded.result",
};

const COUNT: Form = Form {
    begin: "INSERT INTO tallies (hour, chain, kind, status, intent_type, server, tool, risk, step, count) \
            SELECT * FROM (VALUES ",
    columns: &[Int, Int, Text, Text, Text, Text, Text, Text, Int, Int],
    end: ") AS v WHERE column1 IS NOT NULL \
          ON CONFLICT (hour, chain, kind, status, intent_type, server, tool, risk, step) DO UPDATE \
          SET count = tallies.count + excluded.count",
};

const WEIGH: Form = Form {
    begin: "INSERT INTO payload_hours (hour, chain, bytes) SELECT * FROM (VALUES ",
    columns: &[Int, Int, Int],
    end: ") AS v WHERE column1 IS NOT NULL \
          ON CONFLICT (hour, chain) DO UPDATE SET bytes = payload_hours.bytes + excluded.bytes",
};

/// How far a chain has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Head {
    pub(crate) seq: i64,
    pub(crate) hash: Hash,
    pub(crate) key: Option<Key>,
}

impl Head {
    fn is_at(&self, other: &Self) -> bool {
        (self.seq, self.hash) == (other.seq, other.hash)
    }
}

/// What became of a batch of which nobody could tell whether it was committed.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Settled {
    NothingOpen,
    WasCommitted,
}

/// The one connection that writes records of one chain.
pub(crate) struct RecordWriter {
    location: Location,
    verifier: Verifier,
    chain: u16,
    /// `None` after it broke; the next write makes another.
    pub(super) connection: Option<Connection>,
    head: Head,
    /// Where the head would be if the last batch was committed after all.
    unsure: Option<Head>,
    bulks: Bulks,
}

struct Bulks {
    insert: Bulk,
    close: Bulk,
    keep_payload: Bulk,
    count: Bulk,
    weigh: Bulk,
}

impl Database {
    /// Takes up the chain of this key, or begins it.
    pub(crate) async fn record_writer(&self, verifier: &Verifier, now_ms: i64) -> Result<RecordWriter, StoreError> {
        let mut connection = self.writing_connection().await?;
        let chain = chain_number(&mut connection, verifier, now_ms).await?;
        take_chain(&mut connection, chain, verifier).await?;
        let head = head(&mut connection, chain).await?;
        let dialect = connection.dialect();
        let bulk = |form: &Form| Bulk::new(form, dialect);
        Ok(RecordWriter {
            location: self.location().clone(),
            verifier: verifier.clone(),
            chain,
            connection: Some(connection),
            head,
            unsure: None,
            bulks: Bulks {
                insert: bulk(&INSERT),
                close: bulk(&CLOSE),
                keep_payload: bulk(&KEEP_PAYLOAD),
                count: bulk(&COUNT),
                weigh: bulk(&WEIGH),
            },
        })
    }
}

impl RecordWriter {
    pub(crate) fn chain(&self) -> u16 {
        self.chain
    }

    pub(crate) fn head(&self) -> &Head {
        &self.head
    }

    /// Connects again after a failure, and finds out what became of the last batch.
    pub(crate) async fn settle(&mut self) -> Result<Settled, StoreError> {
        if self.connection.is_some() {
            return Ok(Settled::NothingOpen);
        }
        let mut connection = connect(&self.location).await?;
        lock_chain(&mut connection, self.chain, &self.verifier).await?;
        let failed = StoreError::while_trying(DOING_CHAIN);
        // The last batch may still be on its way to the disk, in the hands of a connection that was given up. Who begins
        // to write waits for it.
        connection.begin().await.map_err(&failed)?;
        let found = head(&mut connection, self.chain).await?;
        connection.execute(Statement::plain("COMMIT")).await.map_err(&failed)?;
        let settled = match &self.unsure {
            Some(expected) if found.is_at(expected) => Settled::WasCommitted,
            _ if found.is_at(&self.head) => Settled::NothingOpen,
            _ => return Err(self.lost(&found)),
        };
        self.unsure = None;
        self.head = Head { key: found.key.max(self.head.key), ..found };
        self.connection = Some(connection);
        Ok(settled)
    }

    /// The database came back without something it had acknowledged, or with something that nobody here wrote: to go on
    /// would hide it.
    fn lost(&self, found: &Head) -> StoreError {
        let chain = self.verifier.chain().to_owned();
        if found.seq < self.head.seq {
            StoreError::Truncated { chain, found: found.seq, signed: self.head.seq }
        } else {
            StoreError::Rewritten { chain, seq: found.seq }
        }
    }

    /// All of it or nothing. Of each record there is at most one change.
    pub(crate) async fn write<'c>(&mut self, changes: impl Iterator<Item = &'c Change>) -> Result<(), StoreError> {
        let (statements, head) = self.statements(changes);
        // Set before the wait: a write that is given up in the middle may have been committed all the same.
        self.unsure = Some(head);
        let outcome = self.with_connection(async |connection| connection.batch(statements).await).await;
        match &outcome {
            Ok(()) => (self.head, self.unsure) = (head, None),
            Err(_) if self.connection.is_some() => self.unsure = None,
            Err(_) => {}
        }
        outcome
    }

    pub(crate) async fn write_checkpoint(&mut self, seq: i64, note: &str) -> Result<(), StoreError> {
        let sql = "INSERT INTO checkpoints (chain, seq, note) VALUES ($1, $2, $3) ON CONFLICT (chain, seq) DO NOTHING";
        let values = vec![Value::int(self.chain.into()), Value::int(seq), Value::text(note)];
        self.run(vec![Statement::new(sql, values)]).await
    }

    /// Writes something that says nothing, to see whether the log works again.
    pub(crate) async fn probe(&mut self, now_ms: i64) -> Result<(), StoreError> {
        let sql = "UPDATE chains SET probed_ms = $1 WHERE number = $2";
        self.run(vec![Statement::new(sql, vec![Value::int(now_ms), Value::int(self.chain.into())])]).await
    }

    /// All of them or none.
    pub(super) async fn run(&mut self, statements: Vec<Statement>) -> Result<(), StoreError> {
        self.with_connection(async |connection| connection.transaction(statements).await).await
    }

    /// One statement by itself; returns how many rows it changed.
    pub(super) async fn change(&mut self, statement: Statement) -> Result<u64, StoreError> {
        self.with_connection(async |connection| connection.execute(statement).await).await
    }

    pub(super) async fn fetch(&mut self, statement: Statement) -> Result<Vec<driver::Row>, StoreError> {
        self.with_connection(async |connection| connection.fetch(statement).await).await
    }

    /// A connection that is not put back is dropped, and whatever it had begun is rolled back.
    async fn with_connection<T>(
        &mut self,
        work: impl AsyncFnOnce(&mut Connection) -> Result<T, sqlx::Error>,
    ) -> Result<T, StoreError> {
        let mut connection = self.connection.take().ok_or(StoreError::LogUnavailable)?;
        let outcome = work(&mut connection).await;
        if outcome.is_ok() || connection.rolled_back().await {
            self.connection = Some(connection);
        }
        outcome.map_err(StoreError::while_trying(DOING))
    }

    pub(crate) async fn close(self) -> Result<(), StoreError> {
        match self.connection {
            Some(connection) => connection.close().await.map_err(StoreError::while_trying("close the activity log")),
            None => Ok(()),
        }
    }

    fn statements<'c>(&self, changes: impl Iterator<Item = &'c Change>) -> (Vec<Statement>, Head) {
        let mut batch = Batch::new(self.chain, self.head, changes.size_hint().0);
        for change in changes {
            match change {
                Change::Insert(row) => batch.insert(row),
                Change::Close(end) => batch.close(end),
            }
        }
        let mut statements = Vec::new();
        self.bulks.insert.fill(batch.rows, &mut statements);
        self.bulks.close.fill(batch.ends, &mut statements);
        self.bulks.keep_payload.fill(batch.payloads, &mut statements);
        let chain = self.chain;
        let counts = batch.counts.iter().flat_map(|(tally, count)| counted(tally, chain, *count)).collect();
        self.bulks.count.fill(counts, &mut statements);
        let hours =
            batch.hours.iter().flat_map(|(hour, bytes)| [*hour, chain.into(), *bytes].map(Value::int)).collect();
        self.bulks.weigh.fill(hours, &mut statements);
        (statements, batch.head)
    }
}

/// The values of a batch, and the chain as it goes on through it.
struct Batch<'c> {
    chain: u16,
    head: Head,
    /// The values of rows, one row after the other. So are the others.
    rows: Vec<Value>,
    ends: Vec<Value>,
    payloads: Vec<Value>,
    counts: HashMap<Tally<'c>, i64>,
    /// What is kept of the payloads of each hour, in bytes.
    hours: BTreeMap<i64, i64>,
}

impl<'c> Batch<'c> {
    fn new(chain: u16, head: Head, changes: usize) -> Self {
        let rows = Vec::with_capacity(changes * INSERT.columns.len());
        Self {
            chain,
            head,
            rows,
            ends: Vec::new(),
            payloads: Vec::new(),
            counts: HashMap::new(),
            hours: BTreeMap::new(),
        }
    }

    /// The next position, and the hash after the line there.
    fn link(&mut self, line: impl FnOnce(i64) -> String) -> (i64, Hash) {
        self.head.seq += 1;
        self.head.hash = line::link(&self.head.hash, &line::digest(&line(self.head.seq)));
        (self.head.seq, self.head.hash)
    }

    fn insert(&mut self, row: &'c Row) {
        let Row { id, record, ended, stage, subject } = row;
        let first = First::of_new(*id, record);
        let last = Last::of_new(record, ended);
        let (seq, hash) = self.link(|seq| match stage {
            Stage::Begun => line::begin(seq, &first),
            Stage::Complete => line::whole(seq, &first, &last),
        });
        self.head.key = Some(id.key());
        let result = ended.result.as_ref();
        let text = |text: &Option<String>| Value::Text(text.as_deref().map(Into::into));
        let values = &mut self.rows;
        values.extend([Value::int(id.key().0), Value::int(id.tail())]);
        values.extend([Value::int(self.chain.into()), Value::int(seq), Value::bytes(&hash)]);
        values.extend([known(record.kind.as_str()), known(record.status.as_str())]);
        values.extend([&record.agent, &record.client, &record.server, &record.tool].map(text));
        values.push(record.intent_type.map_or(Value::Text(None), |variant| known(variant.operation())));
        values.push(record.risk.map_or(Value::Text(None), |risk| known(risk.as_str())));
        values.extend([&record.code, &record.message].map(text));
        values.push(microseconds(record.duration_us));
        values.push(Value::text(&record.metadata));
        values.extend(facts(record.args.as_ref()));
        values.extend(facts(result));
        values.push(text(&ended.metadata));
        self.keep(id.key(), record.args.as_ref(), result);
        match stage {
            // Counted when it ends.
            Stage::Begun => {}
            Stage::Complete => self.count(subject, record.status, record.duration_us),
        }
    }

    fn close(&mut self, end: &'c End) {
        let End { id, outcome, subject } = end;
        let (seq, hash) = self.link(|seq| line::end(seq, *id, &Last::of_outcome(outcome)));
        let text = |text: &Option<String>| Value::Text(text.as_deref().map(Into::into));
        let values = &mut self.ends;
        values.extend([Value::int(id.key().0), Value::int(seq), Value::bytes(&hash)]);
        values.extend([known(outcome.status.as_str()), text(&outcome.code), text(&outcome.message)]);
        values.push(microseconds(outcome.duration_us));
        values.extend(facts(outcome.result.as_ref()));
        values.push(text(&outcome.metadata));
        self.keep(id.key(), None, outcome.result.as_ref());
        self.count(subject, outcome.status, outcome.duration_us);
    }

    fn keep(&mut self, key: Key, args: Option<&Payload>, result: Option<&Payload>) {
        let texts = [args, result].map(|payload| payload.and_then(Payload::stored));
        if texts != [None, None] {
            self.payloads.push(Value::int(key.0));
            self.payloads.extend(texts.map(word));
            let bytes =
                texts.into_iter().flatten().map(|text| i64::try_from(text.len()).unwrap_or(i64::MAX)).sum::<i64>();
            *self.hours.entry(key.time_ms() / HOUR_MS).or_default() += bytes;
        }
    }

    fn count(&mut self, subject: &'c Subject, status: Status, duration_us: Option<u64>) {
        *self.counts.entry(subject.tally(status, duration_us)).or_default() += 1;
    }
}

fn counted(tally: &Tally<'_>, chain: u16, count: i64) -> [Value; 10] {
    [
        Value::int(tally.hour),
        Value::int(chain.into()),
        known(tally.kind.as_str()),
        known(tally.status.as_str()),
        known(tally.intent_type.map_or("", Variant::operation)),
        Value::text(tally.server),
        Value::text(tally.tool),
        known(tally.risk.map_or("", RiskLevel::as_str)),
        Value::int(tally.step),
        Value::int(count),
    ]
}

/// The words that stand in most rows, each made once.
static KNOWN: LazyLock<HashMap<&'static str, Arc<str>>> = LazyLock::new(|| {
    let kinds = Kind::ALL.map(Kind::as_str);
    let statuses = Status::ALL.map(Status::as_str);
    let variants = Variant::ALL.map(Variant::operation);
    let risks = RiskLevel::ALL.map(RiskLevel::as_str);
    let words = kinds.into_iter().chain(statuses).chain(variants).chain(risks).chain([""]);
    words.map(|word| (word, word.into())).collect()
});

fn known(word: &'static str) -> Value {
    Value::Text(Some(KNOWN.get(word).map_or_else(|| word.into(), Arc::clone)))
}

fn word(word: Option<&str>) -> Value {
    Value::Text(word.map(Into::into))
}

fn microseconds(duration_us: Option<u64>) -> Value {
    Value::Int(duration_us.map(|us| i64::try_from(us).unwrap_or(i64::MAX)))
}

fn facts(payload: Option<&Payload>) -> [Value; 2] {
    let facts = payload.map(Payload::facts);
    let bytes = facts.map(|facts| i64::try_from(facts.bytes).unwrap_or(i64::MAX));
    [Value::Int(bytes), Value::Bytes(facts.map(|facts| facts.digests.to_bytes()))]
}

/// The number of the chain with this key; a new one if it has none yet.
async fn chain_number(connection: &mut Connection, verifier: &Verifier, now_ms: i64) -> Result<u16, StoreError> {
    let failed = StoreError::while_trying(DOING_CHAIN);
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
    // Another gateway may take the same number at the same moment; the next one is free, then.
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

/// A server may notice a while later that the gateway which wrote to the chain is gone.
async fn take_chain(connection: &mut Connection, chain: u16, verifier: &Verifier) -> Result<(), StoreError> {
    let begin = Instant::now();
    loop {
        match lock_chain(connection, chain, verifier).await {
            Err(StoreError::ChainTaken { .. }) if begin.elapsed() < TAKE_TIMEOUT => sleep(TAKE_PAUSE).await,
            outcome => return outcome,
        }
    }
}

/// In a shared database, two gateways with copies of one data folder must not both write. On one machine, the lock of
/// the data folder sees to that.
async fn lock_chain(connection: &mut Connection, chain: u16, verifier: &Verifier) -> Result<(), StoreError> {
    if connection.dialect() == Dialect::Sqlite {
        return Ok(());
    }
    let failed = StoreError::while_trying(DOING_CHAIN);
    let lock =
        "SELECT CASE WHEN pg_try_advisory_lock(1835233136, CAST($1 AS integer)) THEN 1::bigint ELSE 0::bigint END";
    let rows = connection.fetch(Statement::new(lock, vec![Value::int(chain.into())])).await.map_err(&failed)?;
    match rows.first().map(|row| row.int(0)).transpose().map_err(&failed)?.flatten() {
        Some(1) => Ok(()),
        _ => Err(StoreError::ChainTaken { chain: verifier.chain().to_owned() }),
    }
}

async fn head(connection: &mut Connection, chain: u16) -> Result<Head, StoreError> {
    let failed = StoreError::while_trying(DOING_CHAIN);
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
        let hash = hash.ok_or_else(|| StoreError::corrupt("a line without a hash"))?;
        let key = row.int(2).map_err(&failed)?.map(Key);
        found = Some(match found {
            Some(head) if head.seq >= seq => Head { key: head.key.max(key), ..head },
            head => Head { seq, hash, key: head.and_then(|head| head.key).max(key) },
        });
    }
    found.ok_or_else(|| StoreError::corrupt("no such chain"))
}
