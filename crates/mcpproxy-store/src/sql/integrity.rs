//! SQLite's own check of the database file.
//!
//! The hash chain proves what the table of records contains. Filters do not read the table, though: they read indexes.
//! An index that lacks a row hides a record from `activity list --tool` while the chain is intact. `integrity_check`
//! compares every index with its table, and finds pages that a broken disk has damaged.
//!
//! PostgreSQL has no such check without an extension (`amcheck`), which only its administrator can install.

use super::database::{Database, sqlite_code};
use super::driver::{Dialect, Statement};
use crate::StoreError;

const DOING: &str = "check the database file";
/// Names enough findings to see what is wrong. A broken file has thousands.
const CHECK: &str = "PRAGMA integrity_check(20)";
/// SQLITE_CORRUPT and SQLITE_NOTADB: the check itself stumbled over the damage.
const DAMAGE_CODES: [i32; 2] = [11, 26];

impl Database {
    /// Returns what is wrong with the file. Reads all of it.
    pub(crate) async fn file_damage(&self) -> Result<Vec<String>, StoreError> {
        match self.dialect() {
            Dialect::Postgres => return Ok(Vec::new()),
            Dialect::Sqlite => {}
        }
        let rows = match self.fetch(Statement::plain(CHECK), DOING).await {
            Ok(rows) => rows,
            Err(StoreError::Database { source, .. })
                if sqlite_code(&source).is_some_and(|code| DAMAGE_CODES.contains(&code)) =>
            {
                return Ok(vec![source.to_string()]);
            }
            Err(error) => return Err(error),
        };
        let failed = StoreError::while_trying(DOING);
        let mut found = Vec::new();
        for row in rows {
            found.extend(row.text(0).map_err(&failed)?.filter(|text| text != "ok"));
        }
        Ok(found)
    }
}
