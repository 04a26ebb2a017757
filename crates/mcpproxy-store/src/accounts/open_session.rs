//! Open sessions as users see them, to end one that is not theirs any more, or that they do not know.

use std::fmt;

use super::secret::digest;
use crate::sql::columns::Columns;
use crate::sql::{Statement, Value};
use crate::text::hex;
use crate::{Store, StoreError};

const READING: &str = "list the sessions";
const ENDING: &str = "end a session";
const LIST: &str = "SELECT hash, user_name, created_ms, used_ms FROM sessions WHERE used_ms > $1 AND created_ms > $2 \
     ORDER BY used_ms DESC, hash LIMIT $3";

/// Names a session without its secret, which cannot be derived from it.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SessionId(String);

impl SessionId {
    /// Returns the name of the session with this secret.
    pub fn of(secret: &str) -> Self {
        Self(hex(&digest(secret)))
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for SessionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// A session that is still valid.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OpenSession {
    pub id: SessionId,
    pub user: String,
    pub created_ms: i64,
    /// The last use, up to a minute late.
    pub used_ms: i64,
    hash: Vec<u8>,
}

impl Store {
    /// Lists at most `most` sessions, the last used first. A session is valid if it was used within `idle_ms` and opened
    /// within `max_ms`.
    pub async fn list_sessions(
        &self,
        now_ms: i64,
        idle_ms: i64,
        max_ms: i64,
        most: usize,
    ) -> Result<Vec<OpenSession>, StoreError> {
        let (idle, max) = (now_ms.saturating_sub(idle_ms), now_ms.saturating_sub(max_ms));
        let values = vec![Value::int(idle), Value::int(max), Value::limit(most)];
        let rows = self.database().fetch(Statement::new(LIST, values), READING).await?;
        let session = |row| {
            let columns = Columns::of(row, "a malformed session");
            let hash = columns.bytes(0)?.unwrap_or_default();
            Ok(OpenSession {
                id: SessionId(hex(&hash)),
                user: columns.word(1)?,
                created_ms: columns.number(2)?,
                used_ms: columns.number(3)?,
                hash,
            })
        };
        rows.iter().map(session).collect()
    }

    /// Ends a session. Returns false if it had ended already.
    pub async fn end_session(&self, session: &OpenSession) -> Result<bool, StoreError> {
        let sql = "DELETE FROM sessions WHERE hash = $1";
        let statement = Statement::new(sql, vec![Value::bytes(&session.hash)]);
        Ok(self.database().change(statement, ENDING).await? > 0)
    }
}
