//! Creates a database from the rows of another one.
//!
//! In PostgreSQL, everything happens in one transaction: after an error or a crash, the database is as it was. A SQLite
//! database is loaded into a new file that nobody uses yet, so it is committed after every batch. One large transaction
//! would need the disk space twice.

use super::rows;
use crate::sql::bulk::Column;
use crate::sql::tables::{self, Table};
use crate::sql::{Connection, Database, Dialect, Statement, Value, connect, whole};
use crate::{Location, StoreError};

const DOING: &str = "write the rows of a table";
/// Values of one statement for SQLite.
const SQLITE_VALUES_MAX: usize = 512;

/// Handling of rows that a database has already.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Existing {
    /// The database must be empty.
    Refuse,
    /// They are removed in the same transaction.
    Replace,
}

/// Writes a new database.
pub struct Loader {
    location: Location,
    connection: Connection,
    tables: Vec<Table>,
}

impl Loader {
    /// Begins a database with a schema version that an archive names.
    pub async fn begin(location: &Location, schema: i64, existing: Existing) -> Result<Self, StoreError> {
        if !(1..=whole::SCHEMA).contains(&schema) {
            return Err(StoreError::Newer { location: location.clone(), found: schema, known: whole::SCHEMA });
        }
        if let Location::Sqlite(_) = location {
            // Creates a private file.
            Database::open(location).await?.close().await;
        }
        let mut connection = connect(location).await?;
        whole::check_unused(&mut connection, location).await?;
        if existing == Existing::Refuse && !whole::is_empty(&mut connection).await? {
            return Err(StoreError::NotEmpty { location: location.clone() });
        }
        whole::begin_replacing(&mut connection, location, schema).await?;
        let tables = tables::of_version(schema).await?;
        // Rows that the schema itself writes, such as a version of 0.
        for table in tables.iter().filter(|table| table.key.is_empty()) {
            let sql = format!("DELETE FROM \"{}\"", table.name);
            connection.run(&sql).await.map_err(StoreError::while_trying(DOING))?;
        }
        Ok(Self { location: location.clone(), connection, tables })
    }

    /// Writes rows that a snapshot returned. Returns their number.
    pub async fn add(&mut self, table: &str, text: &str) -> Result<u64, StoreError> {
        let known = self.tables.iter().find(|known| known.name == table);
        let table = known.ok_or_else(|| StoreError::corrupt(format!("rows of an unknown table `{table}`")))?;
        let count = insert(&mut self.connection, table, text).await?;
        if self.connection.dialect() == Dialect::Sqlite {
            self.connection.run("COMMIT; BEGIN IMMEDIATE").await.map_err(StoreError::while_trying(DOING))?;
        }
        Ok(count)
    }

    /// Accepts rows that break a condition of the schema, for a test with a row in every table.
    #[cfg(test)]
    pub(super) async fn ignore_checks(&mut self) {
        self.connection.run("COMMIT; PRAGMA ignore_check_constraints = ON; BEGIN IMMEDIATE").await.unwrap();
    }

    /// Upgrades the rows to the current schema, and commits.
    pub async fn finish(mut self) -> Result<(), StoreError> {
        whole::commit_replaced(&mut self.connection, &self.location).await?;
        self.connection.close().await.map_err(StoreError::while_trying(DOING))
    }
}

/// Inserts rows in a transaction that has begun.
pub(super) async fn insert(connection: &mut Connection, table: &Table, text: &str) -> Result<u64, StoreError> {
    let failed = StoreError::while_trying(DOING);
    let kinds: Vec<Column> = table.columns.iter().map(|column| column.kind).collect();
    let parsed: Option<Vec<Vec<Value>>> = text.lines().map(|line| rows::parse_line(line, &kinds)).collect();
    let parsed = parsed.ok_or_else(|| StoreError::corrupt(format!("a row of the table `{}`", table.name)))?;
    let count = parsed.len() as u64;
    let statements = match connection.dialect() {
        Dialect::Sqlite => for_sqlite(table, parsed),
        Dialect::Postgres => vec![for_postgres(table, parsed)],
    };
    for statement in statements {
        connection.execute(statement).await.map_err(&failed)?;
    }
    Ok(count)
}

fn for_sqlite(table: &Table, mut rows: Vec<Vec<Value>>) -> Vec<Statement> {
    let width = table.columns.len().max(1);
    let per_statement = (SQLITE_VALUES_MAX / width).max(1);
    let row = format!("({})", vec!["?"; width].join(","));
    let mut statements = Vec::new();
    while !rows.is_empty() {
        let rest = rows.split_off(rows.len().min(per_statement));
        let places = vec![row.as_str(); rows.len()].join(",");
        let sql = format!("INSERT INTO \"{}\" ({}) VALUES {places}", table.name, table.column_list());
        statements.push(Statement::new(sql, rows.into_iter().flatten().collect()));
        rows = rest;
    }
    statements
}

fn for_postgres(table: &Table, mut rows: Vec<Vec<Value>>) -> Statement {
    let mut values = Vec::with_capacity(table.columns.len());
    let mut places = Vec::with_capacity(table.columns.len());
    for (index, column) in table.columns.iter().enumerate() {
        places.push(format!("${}::{}", index + 1, column.kind.array()));
        let cells = rows.iter_mut().filter_map(|row| row.get_mut(index));
        values.push(match column.kind {
            Column::Int => Value::Ints(cells.map(|cell| cell.to_int()).collect()),
            Column::Text => Value::Texts(cells.map(Value::take_text).collect()),
            Column::Bytes => Value::Blobs(cells.map(Value::take_bytes).collect()),
        });
    }
    let (name, columns, places) = (&table.name, table.column_list(), places.join(", "));
    Statement::new(format!("INSERT INTO \"{name}\" ({columns}) SELECT * FROM unnest({places})"), values)
}
