//! The tables of a schema version: their columns and primary keys, for copies of the whole database.
//!
//! The list is not written by hand. The schema is created in a SQLite database in memory and read back, so a new table
//! or column is part of every backup and every migration as soon as it is in `schema/`. The names and the three column
//! types are the same in PostgreSQL, because both databases are created from one text.

use sqlx::{Connection as _, SqliteConnection};

use super::bulk::Column;
use super::driver::{Connection, Statement};
use super::migrate;
use crate::StoreError;

const DOING: &str = "list the tables of the schema";
/// `schema_version` is written by the schema itself.
const COLUMNS: &str = "SELECT t.name, c.name, c.type, c.pk FROM sqlite_master AS t JOIN pragma_table_info(t.name) AS c \
     WHERE t.type = 'table' AND t.name NOT LIKE 'sqlite_%' AND t.name <> 'schema_version' ORDER BY t.name, c.cid";

/// A table, with its columns in order.
#[derive(Clone)]
pub(crate) struct Table {
    pub(crate) name: String,
    pub(crate) columns: Vec<TableColumn>,
    /// The columns of the primary key, in its order. Empty for a table with a single row, such as `tokens_version`.
    pub(crate) key: Vec<usize>,
}

#[derive(Clone)]
pub(crate) struct TableColumn {
    pub(crate) name: String,
    pub(crate) kind: Column,
}

impl Table {
    /// The names of all columns, quoted for SQL.
    pub(crate) fn column_list(&self) -> String {
        let names: Vec<String> = self.columns.iter().map(|column| format!("\"{}\"", column.name)).collect();
        names.join(", ")
    }

    /// The names of the columns of the primary key, quoted for SQL.
    pub(crate) fn key_list(&self) -> String {
        let names = self.key.iter().filter_map(|index| self.columns.get(*index));
        names.map(|column| format!("\"{}\"", column.name)).collect::<Vec<_>>().join(", ")
    }
}

/// Returns the tables of a schema version, ordered by name.
pub(crate) async fn of_version(version: i64) -> Result<Vec<Table>, StoreError> {
    let failed = StoreError::while_trying(DOING);
    let connection = SqliteConnection::connect("sqlite::memory:").await.map_err(&failed)?;
    let mut connection = Connection::Sqlite(Box::new(connection));
    migrate::create(&mut connection, version).await?;
    let rows = connection.fetch(Statement::plain(COLUMNS)).await.map_err(&failed)?;
    connection.close().await.map_err(&failed)?;
    let mut tables: Vec<Table> = Vec::new();
    let mut key_places: Vec<Vec<(i64, usize)>> = Vec::new();
    for row in rows {
        let word = |column| Ok::<_, StoreError>(row.text(column).map_err(&failed)?.unwrap_or_default());
        let (table, name, place) = (word(0)?, word(1)?, row.int(3).map_err(&failed)?.unwrap_or(0));
        let kind = match word(2)?.as_str() {
            "INTEGER" => Column::Int,
            "TEXT" => Column::Text,
            "BLOB" => Column::Bytes,
            other => return Err(StoreError::corrupt(format!("a column of type {other}"))),
        };
        if tables.last().is_none_or(|last| last.name != table) {
            tables.push(Table { name: table, columns: Vec::new(), key: Vec::new() });
            key_places.push(Vec::new());
        }
        if let (Some(table), Some(places)) = (tables.last_mut(), key_places.last_mut()) {
            if place > 0 {
                places.push((place, table.columns.len()));
            }
            table.columns.push(TableColumn { name, kind });
        }
    }
    for (table, mut places) in tables.iter_mut().zip(key_places) {
        places.sort_unstable();
        table.key = places.into_iter().map(|(_, index)| index).collect();
    }
    Ok(tables)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A copy reads a table in the order of its primary key. Without one, it must have a single row.
    #[tokio::test]
    async fn every_table_has_a_key_or_a_single_row() {
        let tables = of_version(migrate::KNOWN).await.unwrap();
        let keyless: Vec<&str> = tables.iter().filter(|table| table.key.is_empty()).map(|t| t.name.as_str()).collect();
        assert!(keyless.iter().all(|name| name.ends_with("_version")), "{keyless:?}");
        let names: Vec<&str> = tables.iter().map(|table| table.name.as_str()).collect();
        for name in ["records", "payloads", "chains", "checkpoints", "tokens", "users", "approvals", "shared_secrets"] {
            assert!(names.contains(&name), "{name} is missing in {names:?}");
        }
        let tallies = tables.iter().find(|table| table.name == "tallies").unwrap();
        assert!(tallies.key_list().starts_with("\"hour\", \"chain\", \"kind\""), "{}", tallies.key_list());
    }
}
