//! The kind and the size of the database, for operators.

use super::database::Database;
use super::driver::{Dialect, Statement};
use crate::StoreError;

const DOING: &str = "measure the database";
const SQLITE: &str = "SELECT page_count * page_size, (page_count - freelist_count) * page_size \
     FROM pragma_page_count(), pragma_freelist_count(), pragma_page_size()";
const POSTGRES: &str = "SELECT CAST(pg_database_size(current_database()) AS BIGINT), CAST(NULL AS BIGINT)";

/// The size of the database.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DatabaseSize {
    /// `SQLite` or `PostgreSQL`.
    pub kind: &'static str,
    pub bytes: Option<u64>,
    /// The part of it that has content, which `limits.disk` limits. `None` for PostgreSQL.
    pub used_bytes: Option<u64>,
}

impl Database {
    pub(crate) async fn size(&self) -> Result<DatabaseSize, StoreError> {
        let (kind, sql) = match self.dialect() {
            Dialect::Sqlite => ("SQLite", SQLITE),
            Dialect::Postgres => ("PostgreSQL", POSTGRES),
        };
        let rows = self.fetch(Statement::plain(sql), DOING).await?;
        let of = |column| {
            let found = rows.first().map(|row| row.int(column)).transpose();
            found.map(|bytes| bytes.flatten().map(i64::unsigned_abs)).map_err(StoreError::while_trying(DOING))
        };
        Ok(DatabaseSize { kind, bytes: of(0)?, used_bytes: of(1)? })
    }
}
