//! Vectors of tools for the search, so that a restart or a second gateway encodes no tool again.
//!
//! A key is the hash of the model and of the tool's text, so a vector never becomes wrong. It can only become unused.
//! The table keeps the newest [`VECTORS_MAX`] vectors. A server that changes its texts all the time fills it no further.

use crate::sql::columns::Columns;
use crate::sql::{Connection, Statement, Value};
use crate::{Store, StoreError};

/// Vectors that are kept, about 20 MB.
const VECTORS_MAX: usize = 50_000;
/// Keys in one statement. A shorter list repeats its last key, so that there is one statement to prepare.
const KEYS_MAX: usize = 32;
const READING: &str = "read the vectors of tools";
const CHANGING: &str = "store the vectors of tools";

/// A key and the bytes of its vector.
pub type StoredVector = ([u8; 32], Vec<u8>);

impl Store {
    /// Returns the vectors of these keys, as far as they are stored. The order is not that of the keys.
    pub async fn find_tool_vectors(&self, keys: &[[u8; 32]]) -> Result<Vec<StoredVector>, StoreError> {
        let mut found = Vec::new();
        for keys in keys.chunks(KEYS_MAX) {
            let places: Vec<String> = (1..=KEYS_MAX).map(|place| format!("${place}")).collect();
            let sql = format!("SELECT key, vector FROM tool_vectors WHERE key IN ({})", places.join(", "));
            let padding = keys.last().into_iter().cycle();
            let values = keys.iter().chain(padding).take(KEYS_MAX).map(|key| Value::bytes(key)).collect();
            for row in self.database().fetch(Statement::new(sql, values), READING).await? {
                let columns = Columns::of(&row, "a vector of a tool");
                let key = columns.bytes(0)?.and_then(|key| key.try_into().ok());
                found.extend(key.zip(columns.bytes(1)?));
            }
        }
        Ok(found)
    }

    /// Stores vectors, and replaces those that are there. Removes the oldest beyond the maximum.
    pub async fn store_tool_vectors(&self, vectors: &[StoredVector], now_ms: i64) -> Result<(), StoreError> {
        self.store_vectors_up_to(vectors, now_ms, VECTORS_MAX).await
    }

    async fn store_vectors_up_to(&self, vectors: &[StoredVector], now_ms: i64, max: usize) -> Result<(), StoreError> {
        let insert = |(key, vector): &StoredVector| {
            let sql = "INSERT INTO tool_vectors (key, vector, stored_ms) VALUES ($1, $2, $3) ON CONFLICT (key) \
                       DO UPDATE SET vector = excluded.vector, stored_ms = excluded.stored_ms";
            Statement::new(sql, vec![Value::bytes(key), Value::bytes(vector), Value::int(now_ms)])
        };
        let trim = "DELETE FROM tool_vectors WHERE stored_ms <= \
                    (SELECT stored_ms FROM tool_vectors ORDER BY stored_ms DESC LIMIT 1 OFFSET $1)";
        let trim = Statement::new(trim, vec![Value::limit(max)]);
        // In one order on all gateways, so that two of them never wait for each other's rows.
        let mut sorted: Vec<&StoredVector> = vectors.iter().collect();
        sorted.sort_unstable();
        let statements: Vec<Statement> = sorted.into_iter().map(insert).chain([trim]).collect();
        let write = async |connection: &mut Connection| connection.transaction(statements).await;
        self.database().write(write, CHANGING).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Location;

    fn key(number: u8) -> [u8; 32] {
        [number; 32]
    }

    #[tokio::test]
    async fn the_newest_vectors_stay() {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::open(&Location::Sqlite(folder.path().join("a.db"))).await.unwrap();
        for number in 0..6_u8 {
            let vectors = [(key(number), vec![number; 3])];
            store.store_vectors_up_to(&vectors, i64::from(number), 3).await.unwrap();
        }
        let all: Vec<[u8; 32]> = (0..6).map(key).collect();
        let mut found = store.find_tool_vectors(&all).await.unwrap();
        found.sort();
        assert_eq!(found, [3, 4, 5].map(|number| (key(number), vec![number; 3])));
        assert_eq!(store.find_tool_vectors(&[]).await.unwrap(), []);
    }
}
