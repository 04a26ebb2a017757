//! Two databases behind one way to ask: connections, values and rows of either kind.

use std::sync::Arc;

use futures::TryStreamExt as _;
use mcpproxy_core::Digest;
use sqlx::postgres::{PgArguments, PgRow};
use sqlx::sqlite::{SqliteArguments, SqliteRow};
use sqlx::{
    Arguments as _, AssertSqlSafe, Connection as _, PgConnection, PgPool, Row as _, SqliteConnection, SqlitePool,
};

use crate::text::storable;

/// Below this many values, a batch is handed to SQLite's thread as one text with all its statements: each visit there
/// costs as much as a small statement. Above it, the texts would be too many and too long to keep prepared.
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

/// A value for a place in a statement. Each knows its type also when there is none.
#[derive(Clone, Debug)]
pub(crate) enum Value {
    Int(Option<i64>),
    Text(Option<Arc<str>>),
    Bytes(Option<Vec<u8>>),
}

/// SQL with `$1`, `$2` … as places, which both databases understand, and the values for them.
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

    /// Runs a statement and returns how many rows it changed.
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

    /// Runs a text without values, which may be several statements.
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

    /// All of them or none. After an error, `rolled_back` tells whether the connection can be used again.
    pub(crate) async fn transaction(&mut self, statements: Vec<Statement>) -> Result<()> {
        self.begin().await?;
        self.finish(statements).await
    }

    /// The end of a transaction that was begun before.
    pub(crate) async fn finish(&mut self, statements: Vec<Statement>) -> Result<()> {
        for statement in statements {
            self.execute(statement).await?;
        }
        self.execute(Statement::plain("COMMIT")).await.map(drop)
    }

    /// The same for statements whose places have no numbers where that is possible.
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
            // Some errors end the transaction by themselves.
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

/// One text and one list of values. SQLite's places without numbers are counted through all statements.
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
