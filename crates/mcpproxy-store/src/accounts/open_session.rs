//! Open sessions as users see them, to end one that is not theirs any more, or that they do not know.

use std::fmt;

use super::secret::digest;
use crate::sql::columns::Columns;
use crate::sql::{Row, Statement, Value};
use crate::text::{from_hex, hex};
use crate::{Store, StoreError};

const READING: &str = "list the sessions";
const ENDING: &str = "end a session";
const LIST: &str = "SELECT hash, user_name, created_ms, used_ms FROM sessions WHERE used_ms > $1 AND created_ms > $2 \
     ORDER BY used_ms DESC, hash LIMIT $3";
const LIST_OF_USER: &str = "SELECT hash, user_name, created_ms, used_ms FROM sessions WHERE used_ms > $1 \
     AND created_ms > $2 AND user_name = $4 ORDER BY used_ms DESC, hash LIMIT $3";
const FIND: &str = "SELECT hash, user_name, created_ms, used_ms FROM sessions WHERE used_ms > $1 AND created_ms > $2 \
     AND hash = $3";

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

/// The times within which a session is valid: it was used within `idle_ms`, and opened within `max_ms`.
#[derive(Clone, Copy, Debug)]
pub struct SessionTimes {
    pub now_ms: i64,
    pub idle_ms: i64,
    pub max_ms: i64,
}

impl SessionTimes {
    /// The values of the first two parameters of each query.
    fn values(self) -> Vec<Value> {
        let after = |limit_ms: i64| Value::int(self.now_ms.saturating_sub(limit_ms));
        vec![after(self.idle_ms), after(self.max_ms)]
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

impl OpenSession {
    fn read(row: &Row) -> Result<Self, StoreError> {
        let columns = Columns::of(row, "a malformed session");
        let hash = columns.bytes(0)?.unwrap_or_default();
        Ok(Self {
            id: SessionId(hex(&hash)),
            user: columns.word(1)?,
            created_ms: columns.number(2)?,
            used_ms: columns.number(3)?,
            hash,
        })
    }
}

impl Store {
    /// Lists at most `most` sessions, the last used first: those of one user, or all.
    pub async fn list_sessions(
        &self,
        times: SessionTimes,
        user: Option<&str>,
        most: usize,
    ) -> Result<Vec<OpenSession>, StoreError> {
        let mut values = times.values();
        values.push(Value::limit(most));
        values.extend(user.map(Value::text));
        let sql = if user.is_some() { LIST_OF_USER } else { LIST };
        let rows = self.database().fetch(Statement::new(sql, values), READING).await?;
        rows.iter().map(OpenSession::read).collect()
    }

    /// Finds a session by its name, however many there are.
    pub async fn find_open_session(&self, times: SessionTimes, id: &str) -> Result<Option<OpenSession>, StoreError> {
        let Some(hash) = from_hex(id) else { return Ok(None) };
        let mut values = times.values();
        values.push(Value::bytes(&hash));
        let rows = self.database().fetch(Statement::new(FIND, values), READING).await?;
        rows.first().map(OpenSession::read).transpose()
    }

    /// Ends a session. Returns false if it had ended already.
    pub async fn end_session(&self, session: &OpenSession) -> Result<bool, StoreError> {
        let sql = "DELETE FROM sessions WHERE hash = $1";
        let statement = Statement::new(sql, vec![Value::bytes(&session.hash)]);
        Ok(self.database().change(statement, ENDING).await? > 0)
    }
}
