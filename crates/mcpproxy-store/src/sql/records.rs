//! The table of records: written in bulk by one connection, read by others.

use std::path::PathBuf;
use std::sync::Arc;

use mcpproxy_core::{Untrusted, Variant};
use sqlx::sqlite::{SqliteArguments, SqliteRow};
use sqlx::{Arguments as _, AssertSqlSafe, Connection as _, QueryBuilder, Row as _, Sqlite, SqliteConnection};

use super::{Database, connect_for_writing};
use crate::queue::{Change, Row};
use crate::{Cut, Filter, Kind, Outcome, Record, RecordId, Status, StoreError};

const DOING_WRITE: &str = "write to the activity log";
const DOING_READ: &str = "read the activity log";

// A row that breaks a rule of the table undoes the whole batch. Undoing one statement alone, which is what SQLite does
// otherwise, would cost a second journal for every batch.
const INSERT: Bulk = Bulk {
    begin: "INSERT OR ROLLBACK INTO records (id, time_ms, kind, status, agent, client, server, tool, intent_type, code, \
            message, duration_ms, metadata, args, args_bytes, result, result_bytes) SELECT * FROM (VALUES ",
    columns: 17,
    // A commit whose success could not be told is tried again; what is there already stays.
    end: ") WHERE column1 IS NOT NULL ON CONFLICT (id) DO NOTHING",
};

const CLOSE: Bulk = Bulk {
    begin: "UPDATE OR ROLLBACK records SET status = column2, code = column3, message = column4, duration_ms = column5, \
            result = column6, result_bytes = column7, metadata = coalesce(column8, metadata) FROM (VALUES ",
    columns: 8,
    end: ") WHERE records.id = column1 AND records.status = 'started'",
};

const SELECT: &str = "SELECT seq, id, time_ms, kind, status, agent, client, server, tool, intent_type, code, message, \
     duration_ms, metadata, args, args_bytes, result, result_bytes FROM records";

/// How many rows one statement takes: a few sizes, so that each is prepared once and found again. What is missing to a
/// size is filled up with rows of nothing, which costs less than another statement: each is a visit to another thread.
const SIZES: [usize; 5] = [1, 4, 16, 64, 256];
const SIZE_MAX: usize = 256;

/// The one connection that writes records.
pub(crate) struct RecordWriter {
    path: PathBuf,
    /// `None` after it broke; the next write makes another.
    connection: Option<SqliteConnection>,
    inserts: Vec<Size>,
    closes: Vec<Size>,
}

/// A statement for many rows, without the rows.
struct Bulk {
    begin: &'static str,
    columns: usize,
    end: &'static str,
}

/// The same with so many rows.
struct Size {
    rows: usize,
    values: usize,
    sql: Arc<str>,
}

struct Statement {
    sql: Arc<str>,
    values: SqliteArguments,
}

impl RecordWriter {
    pub(super) fn new(path: PathBuf, connection: SqliteConnection) -> Self {
        Self { path, connection: Some(connection), inserts: INSERT.sizes(), closes: CLOSE.sizes() }
    }

    /// All of it or nothing.
    pub(crate) async fn write<'a>(&mut self, changes: impl Iterator<Item = &'a Change>) -> Result<(), StoreError> {
        let (mut rows, mut ends) = (Vec::new(), Vec::new());
        for change in changes {
            match change {
                Change::Insert(row) => rows.push(row),
                Change::Close(id, outcome) => ends.push((id, outcome)),
            }
        }
        // Rows first: an end in the same batch may belong to one of them.
        let mut statements = Vec::new();
        fill(&self.inserts, &rows, &mut statements, |row, values| bind_row(row, values))?;
        fill(&self.closes, &ends, &mut statements, |(id, outcome), values| bind_end(id, outcome, values))?;
        let mut connection = match self.connection.take() {
            Some(connection) => connection,
            None => connect_for_writing(&self.path).await?,
        };
        // A connection that is not put back here is dropped, and whatever it had begun is rolled back.
        let outcome = run(&mut connection, statements).await;
        if outcome.is_ok() || rolled_back(&mut connection).await {
            self.connection = Some(connection);
        }
        outcome.map_err(StoreError::while_trying(DOING_WRITE))
    }

    pub(crate) async fn close(self) -> Result<(), StoreError> {
        match self.connection {
            Some(connection) => connection.close().await.map_err(StoreError::while_trying("close the activity log")),
            None => Ok(()),
        }
    }
}

impl Database {
    pub(crate) async fn interrupt_started(&self, message: &str) -> Result<u64, StoreError> {
        let doing = StoreError::while_trying("mark interrupted calls in the activity log");
        let mut connection = self.writing_connection().await?;
        let done = sqlx::query("UPDATE records SET status = 'interrupted', message = ? WHERE status = 'started'")
            .bind(message.to_owned())
            .execute(&mut connection)
            .await
            .map_err(&doing)?;
        connection.close().await.map_err(&doing)?;
        Ok(done.rows_affected())
    }

    /// Newest first, those with a sequence number below `before`.
    pub(crate) async fn records(
        &self,
        filter: &Filter,
        before: Option<i64>,
        limit: usize,
    ) -> Result<Vec<Record>, StoreError> {
        let mut query = QueryBuilder::<Sqlite>::new(SELECT);
        query.push(" WHERE seq < ").push_bind(before.unwrap_or(i64::MAX));
        let words = [
            (" AND intent_type = ", filter.intent_type.map(Variant::operation)),
            (" AND kind = ", filter.kind.map(Kind::as_str)),
            (" AND status = ", filter.status.map(Status::as_str)),
            (" AND server = ", filter.server.as_deref()),
            (" AND tool = ", filter.tool.as_deref()),
            (" AND agent = ", filter.agent.as_deref()),
        ];
        for (condition, word) in words {
            if let Some(word) = word {
                query.push(condition).push_bind(word);
            }
        }
        if let Some(since_ms) = filter.since_ms {
            query.push(" AND time_ms >= ").push_bind(since_ms);
        }
        if let Some(until_ms) = filter.until_ms {
            query.push(" AND time_ms <= ").push_bind(until_ms);
        }
        query.push(" ORDER BY seq DESC LIMIT ").push_bind(i64::try_from(limit).unwrap_or(i64::MAX));
        let rows = query.build().fetch_all(&self.readers).await.map_err(StoreError::while_trying(DOING_READ))?;
        rows.iter().map(record).collect()
    }

    /// At most two: enough to see that a beginning is not unique.
    pub(crate) async fn records_beginning_with(&self, prefix: &str) -> Result<Vec<Record>, StoreError> {
        let mut query = QueryBuilder::<Sqlite>::new(SELECT);
        query.push(" WHERE id >= ").push_bind(prefix);
        // `~` sorts after everything an id consists of.
        query.push(" AND id < ").push_bind(format!("{prefix}~")).push(" ORDER BY id LIMIT 2");
        let rows = query.build().fetch_all(&self.readers).await.map_err(StoreError::while_trying(DOING_READ))?;
        rows.iter().map(record).collect()
    }
}

impl Bulk {
    fn sizes(&self) -> Vec<Size> {
        let row = format!("({})", vec!["?"; self.columns].join(","));
        let size = |rows| {
            let sql = format!("{}{}{}", self.begin, vec![row.as_str(); rows].join(","), self.end).into();
            Size { rows, values: rows * self.columns, sql }
        };
        SIZES.into_iter().map(size).collect()
    }
}

/// Makes as few statements out of the rows as possible.
fn fill<T>(
    sizes: &[Size],
    rows: &[T],
    statements: &mut Vec<Statement>,
    bind: impl Fn(&T, &mut Values),
) -> Result<(), StoreError> {
    for rows in rows.chunks(SIZE_MAX) {
        let Some(size) = sizes.iter().find(|size| size.rows >= rows.len()) else { continue };
        let mut values = Values::default();
        values.list.reserve(size.values, 0);
        rows.iter().for_each(|row| bind(row, &mut values));
        while values.list.len() < size.values && values.misfit.is_none() {
            values.text(None);
        }
        let values = values.finish().map_err(StoreError::while_trying(DOING_WRITE))?;
        statements.push(Statement { sql: Arc::clone(&size.sql), values });
    }
    Ok(())
}

async fn run(connection: &mut SqliteConnection, statements: Vec<Statement>) -> Result<(), sqlx::Error> {
    // One statement is a transaction of its own.
    let alone = statements.len() == 1;
    if !alone {
        sqlx::query("BEGIN IMMEDIATE").execute(&mut *connection).await?;
    }
    for Statement { sql, values } in statements {
        sqlx::query_with(AssertSqlSafe(sql), values).execute(&mut *connection).await?;
    }
    if !alone {
        sqlx::query("COMMIT").execute(&mut *connection).await?;
    }
    Ok(())
}

async fn rolled_back(connection: &mut SqliteConnection) -> bool {
    match sqlx::query("ROLLBACK").execute(connection).await {
        Ok(_) => true,
        // Some errors end the transaction by themselves, and one statement alone had none.
        Err(error) => error.as_database_error().is_some_and(|e| e.message().contains("no transaction is active")),
    }
}

/// Values for a statement; the first that does not fit is kept for the end.
#[derive(Default)]
struct Values {
    list: SqliteArguments,
    misfit: Option<sqlx::error::BoxDynError>,
}

impl Values {
    fn add<'t>(&mut self, value: impl sqlx::Encode<'t, Sqlite> + sqlx::Type<Sqlite>) {
        if let Err(error) = self.list.add(value) {
            self.misfit = Some(error);
        }
    }

    fn text(&mut self, text: Option<&str>) {
        self.add(text.map(Arc::<str>::from));
    }

    fn cut(&mut self, cut: Option<&Cut>) {
        self.text(cut.map(Cut::text));
        self.add(cut.map(|cut| i64::try_from(cut.bytes()).unwrap_or(i64::MAX)));
    }

    fn finish(self) -> Result<SqliteArguments, sqlx::Error> {
        self.misfit.map_or(Ok(self.list), |error| Err(sqlx::Error::Encode(error)))
    }
}

fn bind_row(Row { record, result, .. }: &Row, values: &mut Values) {
    values.text(Some(&record.id.to_string()));
    values.add(record.time_ms);
    values.text(Some(record.kind.as_str()));
    values.text(Some(record.status.as_str()));
    for word in [&record.agent, &record.client, &record.server, &record.tool] {
        values.text(word.as_deref());
    }
    values.text(record.intent_type.map(Variant::operation));
    values.text(record.code.as_deref());
    values.text(record.message.as_deref());
    values.add(record.duration_us.map(to_ms));
    values.text(Some(&record.metadata));
    values.cut(record.args.as_ref());
    values.cut(result.as_ref());
}

fn bind_end(id: &RecordId, outcome: &Outcome, values: &mut Values) {
    values.text(Some(&id.to_string()));
    values.text(Some(outcome.status.as_str()));
    values.text(outcome.code.as_deref());
    values.text(outcome.message.as_deref());
    values.add(outcome.duration_us.map(to_ms));
    values.cut(outcome.result.as_ref());
    values.text(outcome.metadata.as_deref());
}

fn record(row: &SqliteRow) -> Result<Record, StoreError> {
    let kind = text(row, "kind")?.and_then(|word| Kind::parse(&word));
    let status = text(row, "status")?.and_then(|word| Status::parse(&word));
    let id = text(row, "id")?.and_then(|word| RecordId::parse(&word));
    let missing = |what: &str| StoreError::corrupt(format!("a record without a {what}"));
    let duration_ms: Option<f64> = row.try_get("duration_ms").map_err(StoreError::while_trying(DOING_READ))?;
    Ok(Record {
        seq: number(row, "seq")?.unwrap_or(0),
        id: id.ok_or_else(|| missing("usable id"))?,
        time_ms: number(row, "time_ms")?.unwrap_or(0),
        kind: kind.ok_or_else(|| missing("known kind"))?,
        status: status.ok_or_else(|| missing("known status"))?,
        agent: text(row, "agent")?,
        client: untrusted(row, "client")?,
        server: untrusted(row, "server")?,
        tool: untrusted(row, "tool")?,
        intent_type: text(row, "intent_type")?.and_then(|word| Variant::from_operation(&word)),
        code: untrusted(row, "code")?,
        message: untrusted(row, "message")?,
        duration_us: duration_ms.map(to_us),
        metadata: untrusted(row, "metadata")?.ok_or_else(|| missing("metadata"))?,
        args: untrusted(row, "args")?,
        args_bytes: size(row, "args_bytes")?,
        result: untrusted(row, "result")?,
        result_bytes: size(row, "result_bytes")?,
    })
}

fn text(row: &SqliteRow, column: &str) -> Result<Option<String>, StoreError> {
    row.try_get(column).map_err(StoreError::while_trying(DOING_READ))
}

fn untrusted(row: &SqliteRow, column: &str) -> Result<Option<Untrusted>, StoreError> {
    Ok(text(row, column)?.map(Untrusted::new))
}

fn number(row: &SqliteRow, column: &str) -> Result<Option<i64>, StoreError> {
    row.try_get(column).map_err(StoreError::while_trying(DOING_READ))
}

fn size(row: &SqliteRow, column: &str) -> Result<Option<u64>, StoreError> {
    Ok(number(row, column)?.and_then(|bytes| u64::try_from(bytes).ok()))
}

fn to_ms(us: u64) -> f64 {
    us as f64 / 1000.0
}

fn to_us(ms: f64) -> u64 {
    (ms * 1000.0).round() as u64
}
