//! Turns a batch of changes into statements, and advances the hash chain through them.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, LazyLock};

use mcpproxy_core::{RiskLevel, Variant};

use super::Head;
use crate::log::line::{self, BeginFields, EndFields, Hash};
use crate::log::operation::{Change, End, NewRow, Stage};
use crate::log::subject::Subject;
use crate::log::tally::{HOUR_MS, Tally};
use crate::record::id::Key;
use crate::sql::bulk::Column::{Bytes, Int, Text};
use crate::sql::bulk::{Bulk, Form, arrays, combined};
use crate::sql::driver::{Dialect, Statement, Value};
use crate::{CallMark, Kind, Payload, Status};

const INSERT: Form = Form {
    begin: "INSERT INTO records (key, tail, chain, seq, hash, kind, status, agent, client, server, tool, intent_type, risk, \
            code, message, duration_us, metadata, args_bytes, args_digest, result_bytes, result_digest, end_metadata) \
            SELECT * FROM ",
    columns: &[
        Int, Int, Int, Int, Bytes, Text, Text, Text, Text, Text, Text, Text, Text, Text, Text, Int, Text, Int, Bytes,
        Int, Bytes, Text,
    ],
    end: " WHERE column1 IS NOT NULL",
};

const CLOSE: Form = Form {
    begin: "UPDATE records SET end_seq = column2, end_hash = column3, status = column4, code = column5, message = column6, \
            duration_us = column7, result_bytes = column8, result_digest = column9, end_metadata = column10 FROM ",
    columns: &[Int, Int, Bytes, Text, Text, Text, Int, Int, Bytes, Text],
    end: " WHERE records.key = column1 AND records.end_seq IS NULL",
};

const KEEP_PAYLOAD: Form = Form {
    begin: "INSERT INTO payloads (key, args, result) SELECT * FROM ",
    columns: &[Int, Text, Text],
    end: " WHERE column1 IS NOT NULL ON CONFLICT (key) DO UPDATE SET result = excluded.result",
};

const COUNT: Form = Form {
    begin: "INSERT INTO tallies (hour, chain, kind, status, intent_type, server, tool, risk, mark, step, count) \
            SELECT * FROM ",
    columns: &[Int, Int, Text, Text, Text, Text, Text, Text, Text, Int, Int],
    end: " WHERE column1 IS NOT NULL \
          ON CONFLICT (hour, chain, kind, status, intent_type, server, tool, risk, mark, step) DO UPDATE \
          SET count = tallies.count + excluded.count",
};

const WEIGH: Form = Form {
    begin: "INSERT INTO payload_hours (hour, chain, bytes) SELECT * FROM ",
    columns: &[Int, Int, Int],
    end: " WHERE column1 IS NOT NULL \
          ON CONFLICT (hour, chain) DO UPDATE SET bytes = payload_hours.bytes + excluded.bytes",
};

/// Moves the head of the chain from the position before the batch to the one after it. From any other position, the number
/// violates a constraint, and nothing of the batch is written. See `take.rs`.
const MOVE_HEAD: Form = Form {
    begin: "UPDATE chain_heads SET seq = CASE WHEN seq = column2 THEN column3 ELSE -1 END FROM ",
    columns: &[Int, Int, Int],
    end: " WHERE chain_heads.chain = column1",
};

/// All forms of a batch, in the order in which they are written.
const FORMS: [&Form; 5] = [&INSERT, &CLOSE, &KEEP_PAYLOAD, &COUNT, &WEIGH];
/// With PostgreSQL, a batch also moves the head. With SQLite, the unique positions of the table are enough.
const POSTGRES_FORMS: [&Form; 6] = [&MOVE_HEAD, &INSERT, &CLOSE, &KEEP_PAYLOAD, &COUNT, &WEIGH];

/// The bulk statements of a batch.
pub(super) enum Bulks {
    Sqlite([Bulk; 5]),
    Postgres(Arc<str>),
}

impl Bulks {
    pub(super) fn new(dialect: Dialect) -> Self {
        match dialect {
            Dialect::Sqlite => Self::Sqlite(FORMS.map(Bulk::new)),
            Dialect::Postgres => Self::Postgres(combined(&POSTGRES_FORMS)),
        }
    }

    /// The statements that write these changes, and the head of the chain after them.
    pub(super) fn statements<'c>(
        &self,
        chain: u16,
        head: Head,
        changes: impl Iterator<Item = &'c Change>,
    ) -> (Vec<Statement>, Head) {
        let mut batch = Batch::new(chain, head, changes.size_hint().0);
        for change in changes {
            match change {
                Change::Insert(row) => batch.insert(row),
                Change::Close(end) => batch.close(end),
            }
        }
        let moved = batch.head;
        let rows = batch.into_rows();
        let statements = match self {
            Self::Sqlite(bulks) => {
                let mut statements = Vec::new();
                bulks.iter().zip(rows).for_each(|(bulk, rows)| bulk.fill(rows, &mut statements));
                statements
            }
            // Every operation of the batch has a conflict.
            Self::Postgres(_) if rows.iter().all(Vec::is_empty) => Vec::new(),
            Self::Postgres(sql) => {
                let mut values = Vec::with_capacity(POSTGRES_FORMS.iter().map(|form| form.columns.len()).sum());
                let heads = [chain.into(), head.seq, moved.seq].map(Value::int).to_vec();
                let rows = [heads].into_iter().chain(rows);
                POSTGRES_FORMS.iter().zip(rows).for_each(|(form, rows)| arrays(form, rows, &mut values));
                vec![Statement { sql: Arc::clone(sql), values }]
            }
        };
        (statements, moved)
    }
}

/// The values of a batch, and the head of the chain so far.
struct Batch<'c> {
    chain: u16,
    head: Head,
    /// Values row by row. `ends` and `payloads` are alike.
    rows: Vec<Value>,
    ends: Vec<Value>,
    payloads: Vec<Value>,
    counts: HashMap<Tally<'c>, i64>,
    /// The size of the stored payloads of each hour, in bytes.
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

    /// The values for each of the `FORMS`, row by row.
    fn into_rows(self) -> [Vec<Value>; 5] {
        let Self { chain, rows, ends, payloads, counts, hours, head: _ } = self;
        let counts = counts.iter().flat_map(|(tally, count)| counted(tally, chain, *count)).collect();
        let hours = hours.iter().flat_map(|(hour, bytes)| [*hour, chain.into(), *bytes].map(Value::int)).collect();
        [rows, ends, payloads, counts, hours]
    }

    /// Moves to the next position. Returns it with the hash of its line.
    fn link(&mut self, line: impl FnOnce(i64) -> String) -> (i64, Hash) {
        self.head.seq += 1;
        self.head.hash = line::link(&self.head.hash, &line::digest(&line(self.head.seq)));
        (self.head.seq, self.head.hash)
    }

    fn insert(&mut self, row: &'c NewRow) {
        let NewRow { id, record, early_end, stage, subject } = row;
        let first = BeginFields::of_new(*id, record);
        let last = EndFields::of_new(record, early_end);
        let (seq, hash) = self.link(|seq| match stage {
            Stage::Begun => line::begin(seq, &first),
            Stage::Complete => line::whole(seq, &first, &last),
        });
        self.head.key = Some(id.key());
        let result = early_end.result.as_ref();
        let text = |text: &Option<String>| Value::optional_text(text.as_deref());
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
        values.push(text(&early_end.metadata));
        self.keep(id.key(), record.args.as_ref(), result);
        match stage {
            // A call is counted when it ends.
            Stage::Begun => {}
            Stage::Complete => self.count(subject, record.status, record.duration_us),
        }
    }

    fn close(&mut self, end: &'c End) {
        let End { id, outcome, subject } = end;
        let (seq, hash) = self.link(|seq| line::end(seq, *id, &EndFields::of_outcome(outcome)));
        let text = |text: &Option<String>| Value::optional_text(text.as_deref());
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
            self.payloads.extend(texts.map(Value::optional_text));
            let bytes =
                texts.into_iter().flatten().map(|text| i64::try_from(text.len()).unwrap_or(i64::MAX)).sum::<i64>();
            *self.hours.entry(key.time_ms() / HOUR_MS).or_default() += bytes;
        }
    }

    fn count(&mut self, subject: &'c Subject, status: Status, duration_us: Option<u64>) {
        *self.counts.entry(subject.tally(status, duration_us)).or_default() += 1;
    }
}

fn counted(tally: &Tally<'_>, chain: u16, count: i64) -> [Value; 11] {
    [
        Value::int(tally.hour),
        Value::int(chain.into()),
        known(tally.kind.as_str()),
        known(tally.status.as_str()),
        known(tally.intent_type.map_or("", Variant::operation)),
        Value::text(tally.server),
        Value::text(tally.tool),
        known(tally.risk.map_or("", RiskLevel::as_str)),
        known(tally.mark.as_str()),
        Value::int(tally.step),
        Value::int(count),
    ]
}

/// Words that appear in most rows, allocated once.
static KNOWN: LazyLock<HashMap<&'static str, Arc<str>>> = LazyLock::new(|| {
    let kinds = Kind::ALL.map(Kind::as_str);
    let statuses = Status::ALL.map(Status::as_str);
    let variants = Variant::ALL.map(Variant::operation);
    let risks = RiskLevel::ALL.map(RiskLevel::as_str);
    let marks = CallMark::ALL.map(CallMark::as_str);
    let words = kinds.into_iter().chain(statuses).chain(variants).chain(risks).chain(marks);
    words.map(|word| (word, word.into())).collect()
});

fn known(word: &'static str) -> Value {
    Value::Text(Some(KNOWN.get(word).map_or_else(|| word.into(), Arc::clone)))
}

fn microseconds(duration_us: Option<u64>) -> Value {
    Value::Int(duration_us.map(|us| i64::try_from(us).unwrap_or(i64::MAX)))
}

fn facts(payload: Option<&Payload>) -> [Value; 2] {
    let facts = payload.map(Payload::facts);
    let bytes = facts.map(|facts| i64::try_from(facts.bytes).unwrap_or(i64::MAX));
    [Value::Int(bytes), Value::Bytes(facts.map(|facts| facts.digests.to_bytes()))]
}
