//! SQLite and PostgreSQL behind one interface: connections, statements, values and rows.
//!
//! All SQL is written once. Both databases accept `$1`, `$2` … as placeholders and the same `INSERT … ON CONFLICT`, so
//! most statements need no dialect. Where one is needed, the code matches on [`Dialect`].
//!
//! A [`Statement`] is text with values. A [`Value`] has a type even if it is NULL, because PostgreSQL needs one. Every
//! number is a 64-bit integer in both databases, which is why `count(*)` and `sum()` results are cast to `BIGINT`.
//!
//! [`Connection::batch`] is where the two differ most. PostgreSQL gets one statement after the other. SQLite runs on a
//! thread of its own, and each hand-over costs as much as a small statement. So a small batch goes there as a single
//! text.
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

/// Below this many values, a SQLite batch is one text. Longer texts would be too many to keep prepared.
const TOGETHER_MAX_VALUES: usize = 2_000;

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

/// A value for a placeholder. NULL has a type, too.
#[derive(Clone, Debug)]
pub(crate) enum Value {
    Int(Option<i64>),
    Text(Option<Arc<str>>),
    Bytes(Option<Vec<u8>>),
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
    pub(crate) async fn finish(&mut self, statements: Vec<Statement>) -> Result<()> {
        for statement in statements {
            self.execute(statement).await?;
        }
        self.execute(Statement::plain("COMMIT")).await.map(drop)
    }

    /// Like `transaction`, for bulk statements, whose SQLite placeholders are `?`.
    pub(crate) async fn batch(&mut self, statements: Vec<Statement>) -> Result<()> {
        let is_small = statements.iter().map(|statement| statement.values.len()).sum::<usize>() < TOGETHER_MAX_VALUES;
        match self.dialect() {
            Dialect::Sqlite if is_small => self.execute(together(statements)).await.map(drop),
            Dialect::Sqlite | Dialect::Postgres => self.transaction(statements).await,
        }
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

/// Joins statements into one text. SQLite counts `?` placeholders through all of it.
fn together(statements: Vec<Statement>) -> Statement {
    let mut sql = String::from(Dialect::Sqlite.begin());
    let mut values = Vec::new();
    for statement in statements {
        sql.push(';');
        sql.push_str(&statement.sql);
        values.extend(statement.values);
    }
    sql.push_str(";COMMIT");
    Statement { sql: sql.into(), values }
}

impl Dialect {
    fn begin(self) -> &'static str {
        match self {
            Self::Sqlite => "BEGIN IMMEDIATE",
            Self::Postgres => "BEGIN",
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
        };
        added.map_err(sqlx::Error::Encode)?;
    }
    Ok(arguments)
}
