//! Remembers the contract and policy files that a gateway enforced last, so that the next start notices missing ones.
//!
//! The texts are kept, not only digests: the next start says which rules are weaker than in the last run. The operator's
//! folders have a limit on their size, and each gateway has one set of files.

use crate::sql::columns::Columns;
use crate::sql::{Connection, Row, Statement, Value};
use crate::{Store, StoreError};

const READING: &str = "read the contract and policy files of the last run";
const CHANGING: &str = "remember the contract and policy files";

impl Store {
    /// Returns names and texts of the files that `owner` enforced last, sorted by name. Empty before the first run.
    pub async fn remembered_files(&self, owner: &str) -> Result<Vec<(String, String)>, StoreError> {
        let sql = "SELECT name, text FROM operator_files WHERE owner = $1 ORDER BY name";
        let rows = self.database().fetch(Statement::new(sql, vec![Value::text(owner)]), READING).await?;
        let file = |row: &Row| {
            let columns = Columns::of(row, "an operator's file");
            Ok((columns.word(0)?, columns.word(1)?))
        };
        rows.iter().map(file).collect()
    }

    /// Replaces the files that `owner` enforced last.
    pub async fn remember_files(&self, owner: &str, files: &[(String, String)]) -> Result<(), StoreError> {
        let delete = Statement::new("DELETE FROM operator_files WHERE owner = $1", vec![Value::text(owner)]);
        let insert = |(name, text): &(String, String)| {
            let values = [owner, name.as_str(), text.as_str()].map(Value::text).to_vec();
            Statement::new("INSERT INTO operator_files (owner, name, text) VALUES ($1, $2, $3)", values)
        };
        let statements: Vec<Statement> = [delete].into_iter().chain(files.iter().map(insert)).collect();
        let write = async |connection: &mut Connection| connection.transaction(statements).await;
        self.database().write(write, CHANGING).await
    }
}
