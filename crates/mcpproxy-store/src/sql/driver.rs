//! SQLite and PostgreSQL behind one interface: connections, statements, values and rows.
//!
//! All SQL is written once. Both databases accept `$1`, `$2` … as placeholders and the same `INSERT … ON CONFLICT`, so
//! most statements need no dialect. Where one is needed, the code matches on [`Dialect`].
//!
//! A [`Statement`] is text with values. A [`Value`] has a type even if it is NULL, because PostgreSQL needs one. Every
//! number is a 64-bit integer in both databases, which is why `count(*)` and `sum()` results are cast to `BIGINT`.
//!
//! [`Connection::batch`] is where the two differ most. PostgreSQL gets a batch as one statement (`bulk.rs`). SQLite runs
//! on a thread of its own, and each hand-over costs as much as a small statement. So small statements are joined into
//! one text, and `BEGIN` and `COMMIT` travel with them. Large statements stay apart: preparing a text with 64 rows
//! takes longer than running it, and every combination of sizes would be another text to prepare.
//!
//! Why not `sqlx::Any`? It hides the connection types, and with them the statement cache and the settings that the log
//! needs.

use std::sync::Arc;

use futures::TryStreamExt as _;
use mcpproxy_core::Digest;
use sqlx::postgres::{PgArguments, PgRow};
use sqlx::sqlite::{SqliteArguments, SqliteRow};
use sqlx::{
    Arguments as _, AssertSqlSafe, Connection as _, PgConnection, PgPool, Row as _, SqliteConnection, SqlitePool,
};

use crate::text::storable;

/// Statements of a SQLite batch are joined up to this many values. That is about the beginnings and ends of four calls.
const TOGETHER_MAX_VALUES: usize = 160;

pub(crate) enum Connection {
    Sqlite(Box<SqliteConnection>),
    Postgres(Box<PgConnection>),
}

#[derive(Clone)]
pub(crate) enum Pool {
    Sqlite(SqlitePool),
    Postgres(PgPool),
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Dialect {
    Sqlite,
    Postgres,
}

/// A value for a placeholder. NULL has a type, too. Only PostgreSQL has arrays.
#[derive(Clone, Debug)]
pub(crate) enum Value {
    Int(Option<i64>),
    Text(Option<Arc<str>>),
    Bytes(Option<Vec<u8>>),
    Ints(Vec<Option<i64>>),
    Texts(Vec<Option<Arc<str>>>),
    Blobs(Vec<Option<Vec<u8>>>),
}

/// SQL with `$1`, `$2` … as placeholders, and their values.
pub(crate) struct Statement {
    pub(crate) sql: Arc<str>,
    pub(crate) values: Vec<Value>,
}

pub(crate) enum Row {
    Sqlite(SqliteRow),
    Postgres(PgRow),
}

type Result<T> = std::result::Result<T, sqlx::Error>;

impl Connection {
    pub(crate) fn dialect(&self) -> Dialect {
        match self {
            Self::Sqlite(_) => Dialect::Sqlite,
            Self::Postgres(_) => Dialect::Postgres,
        }
    }

    /// Runs a statement. Returns the number of rows it changed.
    pub(crate) async fn execute(&mut self, statement: Statement) -> Result<u64> {
        let Statement { sql, values } = statement;
        match self {
            Self::Sqlite(connection) => {
                let query = sqlx::query_with(AssertSqlSafe(sql), for_sqlite(values)?);
                query.execute(&mut **connection).await.map(|done| done.rows_affected())
            }
            Self::Postgres(connection) => {
                let query = sqlx::query_with(AssertSqlSafe(sql), for_postgres(values)?);
                query.execute(&mut **connection).await.map(|done| done.rows_affected())
            }
        }
    }

    /// Runs one or several statements without values.
    pub(crate) async fn run(&mut self, sql: &str) -> Result<()> {
        let sql = AssertSqlSafe(sql.to_owned());
        match self {
            Self::Sqlite(connection) => sqlx::raw_sql(sql).execute(&mut **connection).await.map(drop),
            Self::Postgres(connection) => sqlx::raw_sql(sql).execute(&mut **connection).await.map(drop),
        }
    }

    pub(crate) async fn fetch(&mut self, statement: Statement) -> Result<Vec<Row>> {
        let Statement { sql, values } = statement;
        match self {
            Self::Sqlite(connection) => {
                let query = sqlx::query_with(AssertSqlSafe(sql), for_sqlite(values)?);
                query.fetch(&mut **connection).map_ok(Row::Sqlite).try_collect().await
            }
            Self::Postgres(connection) => {
                let query = sqlx::query_with(AssertSqlSafe(sql), for_postgres(values)?);
                query.fetch(&mut **connection).map_ok(Row::Postgres).try_collect().await
            }
        }
    }

    pub(crate) async fn begin(&mut self) -> Result<()> {
        self.execute(Statement::plain(self.dialect().begin())).await.map(drop)
    }

    /// Runs all statements or none. After an error, `rolled_back` tells if the connection can be used again.
    pub(crate) async fn transaction(&mut self, statements: Vec<Statement>) -> Result<()> {
        self.begin().await?;
        self.finish(statements).await
    }

    /// Runs the rest of a transaction that has begun, and commits.
    async fn finish(&mut self, statements: Vec<Statement>) -> Result<()> {
        for statement in statements {
            self.execute(statement).await?;
        }
        self.execute(Statement::plain("COMMIT")).await.map(drop)
    }

    /// Like `transaction`, for bulk statements, whose SQLite placeholders are `?`.
    pub(crate) async fn batch(&mut self, mut statements: Vec<Statement>) -> Result<()> {
        match self.dialect() {
            Dialect::Sqlite => self.run_joined(Some(Dialect::Sqlite.begin()), statements).await,
            Dialect::Postgres => match (statements.pop(), statements.is_empty()) {
                // A single statement is a transaction. It is committed when its last message has arrived, not its first.
                (Some(only), true) => self.execute(only).await.map(drop),
                (last, _) => self.transaction(statements.into_iter().chain(last).collect()).await,
            },
        }
    }

    /// Like `batch`, in a transaction that has begun.
    pub(crate) async fn finish_batch(&mut self, statements: Vec<Statement>) -> Result<()> {
        match self.dialect() {
            Dialect::Sqlite => self.run_joined(None, statements).await,
            Dialect::Postgres => self.finish(statements).await,
        }
    }

    async fn run_joined(&mut self, begin: Option<&str>, statements: Vec<Statement>) -> Result<()> {
        for statement in joined(begin, statements) {
            self.execute(statement).await?;
        }
        Ok(())
    }

    pub(crate) async fn rolled_back(&mut self) -> bool {
        match self.execute(Statement::plain("ROLLBACK")).await {
            Ok(_) => true,
            // Some errors roll back by themselves.
            Err(error) => error.as_database_error().is_some_and(|e| e.message().contains("no transaction is active")),
        }
    }

    pub(crate) async fn close(self) -> Result<()> {
        match self {
            Self::Sqlite(connection) => connection.close().await,
            Self::Postgres(connection) => connection.close().await,
        }
    }
}

/// Joins statements into as few texts as `TOGETHER_MAX_VALUES` allows. The first text begins the transaction unless
/// that has happened, and the last one commits it. SQLite counts `?` placeholders through all of a text.
fn joined(begin: Option<&str>, statements: Vec<Statement>) -> Vec<Statement> {
    let mut texts = Vec::new();
    let mut sql = begin.map(str::to_owned).unwrap_or_default();
    let mut values: Vec<Value> = Vec::new();
    for statement in statements {
        if !values.is_empty() && values.len() + statement.values.len() > TOGETHER_MAX_VALUES {
            texts.push(text(std::mem::take(&mut sql), std::mem::take(&mut values)));
        }
        if !sql.is_empty() {
            sql.push(';');
        }
        sql.push_str(&statement.sql);
        values.extend(statement.values);
    }
    sql.push_str(if sql.is_empty() { "COMMIT" } else { ";COMMIT" });
    texts.push(text(sql, values));
    texts
}

/// SQLite treats a placeholder without a value as NULL, so the rows that fill up the last statement need none.
fn text(sql: String, mut values: Vec<Value>) -> Statement {
    let needed = values.iter().rposition(|value| !value.is_null()).map_or(0, |last| last + 1);
    values.truncate(needed);
    Statement { sql: sql.into(), values }
}

impl Dialect {
    fn begin(self) -> &'static str {
        match self {
            Self::Sqlite => "BEGIN IMMEDIATE",
            Self::Postgres => "BEGIN",
        }
    }

    /// The clock of the database in milliseconds, as SQL. It stands still during a statement.
    pub(crate) fn now_ms(self) -> &'static str {
        match self {
            Self::Sqlite => "CAST(unixepoch('now', 'subsec') * 1000 AS BIGINT)",
            Self::Postgres => "CAST(extract(epoch FROM statement_timestamp()) * 1000 AS BIGINT)",
        }
    }
}

impl Pool {
    pub(crate) async fn fetch(&self, statement: Statement) -> Result<Vec<Row>> {
        let Statement { sql, values } = statement;
        match self {
            Self::Sqlite(pool) => {
                let query = sqlx::query_with(AssertSqlSafe(sql), for_sqlite(values)?);
                query.fetch(pool).map_ok(Row::Sqlite).try_collect().await
            }
            Self::Postgres(pool) => {
                let query = sqlx::query_with(AssertSqlSafe(sql), for_postgres(values)?);
                query.fetch(pool).map_ok(Row::Postgres).try_collect().await
            }
        }
    }

    pub(crate) async fn close(&self) {
        match self {
            Self::Sqlite(pool) => pool.close().await,
            Self::Postgres(pool) => pool.close().await,
        }
    }
}

impl Statement {
    pub(crate) fn new(sql: impl Into<Arc<str>>, values: Vec<Value>) -> Self {
        Self { sql: sql.into(), values }
    }

    pub(crate) fn plain(sql: &str) -> Self {
        Self::new(sql, Vec::new())
    }
}

impl Value {
    /// Replaces NUL, which PostgreSQL rejects. One rejected statement would fail a whole batch of records.
    pub(crate) fn text(text: &str) -> Self {
        let text = if text.contains('\0') { storable(text.to_owned()).into() } else { text.into() };
        Self::Text(Some(text))
    }

    pub(crate) fn optional_text(text: Option<&str>) -> Self {
        text.map_or(Self::Text(None), Self::text)
    }

    pub(crate) fn digest(digest: &Digest) -> Self {
        Self::bytes(digest.as_bytes())
    }

    pub(crate) fn limit(rows: usize) -> Self {
        Self::int(i64::try_from(rows).unwrap_or(i64::MAX))
    }

    pub(crate) fn int(number: i64) -> Self {
        Self::Int(Some(number))
    }

    pub(crate) fn bytes(bytes: &[u8]) -> Self {
        Self::Bytes(Some(bytes.to_vec()))
    }

    fn is_null(&self) -> bool {
        matches!(self, Self::Int(None) | Self::Text(None) | Self::Bytes(None))
    }

    /// Returns the number, or `None` for NULL and for a value of another type.
    pub(crate) fn to_int(&self) -> Option<i64> {
        match self {
            Self::Int(number) => *number,
            Self::Text(_) | Self::Bytes(_) | Self::Ints(_) | Self::Texts(_) | Self::Blobs(_) => None,
        }
    }

    /// Takes the text, or returns `None` for NULL and for a value of another type.
    pub(crate) fn take_text(&mut self) -> Option<Arc<str>> {
        match self {
            Self::Text(text) => text.take(),
            Self::Int(_) | Self::Bytes(_) | Self::Ints(_) | Self::Texts(_) | Self::Blobs(_) => None,
        }
    }

    /// Takes the bytes, or returns `None` for NULL and for a value of another type.
    pub(crate) fn take_bytes(&mut self) -> Option<Vec<u8>> {
        match self {
            Self::Bytes(bytes) => bytes.take(),
            Self::Int(_) | Self::Text(_) | Self::Ints(_) | Self::Texts(_) | Self::Blobs(_) => None,
        }
    }
}

impl Row {
    pub(crate) fn int(&self, column: usize) -> Result<Option<i64>> {
        match self {
            Self::Sqlite(row) => row.try_get(column),
            Self::Postgres(row) => row.try_get(column),
        }
    }

    pub(crate) fn text(&self, column: usize) -> Result<Option<String>> {
        match self {
            Self::Sqlite(row) => row.try_get(column),
            Self::Postgres(row) => row.try_get(column),
        }
    }

    pub(crate) fn bytes(&self, column: usize) -> Result<Option<Vec<u8>>> {
        match self {
            Self::Sqlite(row) => row.try_get(column),
            Self::Postgres(row) => row.try_get(column),
        }
    }
}

fn for_sqlite(values: Vec<Value>) -> Result<SqliteArguments> {
    let mut arguments = SqliteArguments::default();
    arguments.reserve(values.len(), 0);
    for value in values {
        let added = match value {
            Value::Int(value) => arguments.add(value),
            Value::Text(value) => arguments.add(value),
            Value::Bytes(value) => arguments.add(value),
            Value::Ints(_) | Value::Texts(_) | Value::Blobs(_) => Err("SQLite has no arrays".into()),
        };
        added.map_err(sqlx::Error::Encode)?;
    }
    Ok(arguments)
}

fn for_postgres(values: Vec<Value>) -> Result<PgArguments> {
    let mut arguments = PgArguments::default();
    arguments.reserve(values.len(), 0);
    for value in values {
        let added = match value {
            Value::Int(value) => arguments.add(value),
            Value::Text(value) => arguments.add(value.as_deref()),
            Value::Bytes(value) => arguments.add(value),
            Value::Ints(values) => arguments.add(values),
            Value::Texts(values) => arguments.add(values.iter().map(Option::as_deref).collect::<Vec<_>>()),
            Value::Blobs(values) => arguments.add(values),
        };
        added.map_err(sqlx::Error::Encode)?;
    }
    Ok(arguments)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn statement(name: &str, rows: usize, empty_rows: usize) -> Statement {
        let values = (0..rows).map(|row| Value::int(row as i64)).chain((0..empty_rows).map(|_| Value::Int(None)));
        Statement::new(name, values.collect())
    }

    fn shapes(begin: Option<&str>, statements: Vec<Statement>) -> Vec<(String, usize)> {
        joined(begin, statements).into_iter().map(|text| (text.sql.to_string(), text.values.len())).collect()
    }

    #[test]
    fn small_statements_are_joined_and_large_ones_are_not() {
        let shape = |sql: &str, values| (sql.to_owned(), values);
        let small = || vec![statement("a", 3, 0), statement("b", 2, 1), statement("c", 1, 3)];
        assert_eq!(
            shapes(Some("BEGIN"), small()),
            [shape("BEGIN;a;b;c;COMMIT", 7)],
            "only the last NULLs are left out"
        );
        assert_eq!(shapes(None, small()), [shape("a;b;c;COMMIT", 7)]);
        let large = vec![statement("a", 300, 84), statement("b", 150, 10), statement("c", 9, 0), statement("d", 1, 0)];
        let expected = [shape("BEGIN;a", 300), shape("b", 150), shape("c;d;COMMIT", 10)];
        assert_eq!(shapes(Some("BEGIN"), large), expected);
        assert_eq!(shapes(Some("BEGIN"), vec![]), [shape("BEGIN;COMMIT", 0)]);
        assert_eq!(shapes(None, vec![]), [shape("COMMIT", 0)]);
    }
}
