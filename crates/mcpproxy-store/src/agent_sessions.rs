//! MCP sessions of agents: the keys that seal their ids, and what changed after the handshake.
//!
//! The id of a session carries what its handshake agreed on. So a session has no row until something changes: it ends, the
//! agent sets a log level or subscribes to a resource, or a gateway opens its stream for notifications. A gateway reads the
//! row once, when it meets a session that it does not have in memory. No call reads or writes these tables.
//!
//! Every table is bounded by agent. An agent that ends more than `CHANGES_PER_AGENT` sessions within their lifetime loses its
//! oldest row, and could use that session again with its own token. That harms nobody else.

use crate::sql::columns::Columns;
use crate::sql::{Connection, Row, Statement, Value};
use crate::{Store, StoreError};

const READING: &str = "read a session of an agent";
const CHANGING: &str = "change a session of an agent";
const KEYS: &str = "share the keys of sessions";
const CHANGES_PER_AGENT: usize = 1000;
/// Subscriptions of one agent, over all sessions.
pub const SUBSCRIPTIONS_STORED_MAX: usize = 2000;

/// A key that seals session ids.
#[derive(Clone, PartialEq, Eq)]
pub struct SessionKey {
    pub number: u32,
    pub secret: [u8; 32],
    pub created_ms: i64,
}

/// Everything that changed in a session after its handshake.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SessionChanges {
    pub is_ended: bool,
    pub level: Option<String>,
    /// The gateway that has the session's stream for notifications.
    pub stream_at: Option<String>,
    /// URIs of subscribed resources, sorted.
    pub uris: Vec<String>,
}

/// One change of a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SessionChange<'a> {
    Ended,
    Level(&'a str),
    /// This gateway has opened the stream for notifications.
    StreamAt(&'a str),
    Subscribed(&'a str),
    Unsubscribed(&'a str),
}

impl Store {
    /// Returns the keys of sessions, newest first. Adds a key made of `random` if the newest is older than `rotate_ms`, and
    /// removes keys that are older than `keep_ms`. Gateways that do this at the same time agree on one key.
    pub async fn session_keys(
        &self,
        now_ms: i64,
        random: [u8; 32],
        (rotate_ms, keep_ms): (i64, i64),
    ) -> Result<Vec<SessionKey>, StoreError> {
        let keys = self.stored_session_keys().await?;
        let newest = keys.first();
        if newest.is_some_and(|key| now_ms.saturating_sub(key.created_ms) < rotate_ms) {
            return Ok(keys);
        }
        let number = newest.map_or(1, |key| i64::from(key.number) + 1);
        let insert = "INSERT INTO session_keys (number, secret, created_ms) VALUES ($1, $2, $3) \
             ON CONFLICT (number) DO NOTHING";
        let insert = Statement::new(insert, vec![Value::int(number), Value::bytes(&random), Value::int(now_ms)]);
        let oldest_ms = now_ms.saturating_sub(keep_ms);
        let remove = "DELETE FROM session_keys WHERE created_ms < $1 AND number < $2";
        let remove = Statement::new(remove, vec![Value::int(oldest_ms), Value::int(number)]);
        let write = async |connection: &mut Connection| connection.transaction(vec![insert, remove]).await;
        self.database().write(write, KEYS).await?;
        self.stored_session_keys().await
    }

    async fn stored_session_keys(&self) -> Result<Vec<SessionKey>, StoreError> {
        let sql = "SELECT number, secret, created_ms FROM session_keys ORDER BY number DESC";
        let rows = self.database().fetch(Statement::plain(sql), KEYS).await?;
        rows.iter().map(key).collect()
    }

    /// Returns what changed in a session after its handshake.
    pub async fn session_changes(&self, session: &str) -> Result<SessionChanges, StoreError> {
        let sql = "SELECT is_ended, level, stream_at, NULL FROM session_changes WHERE session = $1 \
             UNION ALL SELECT 0, NULL, NULL, uri FROM session_subscriptions WHERE session = $1";
        let rows = self.database().fetch(Statement::new(sql, vec![Value::text(session)]), READING).await?;
        let mut changes = SessionChanges::default();
        for row in &rows {
            let columns = Columns::of(row, "a malformed change of a session");
            match columns.text(3)? {
                Some(uri) => changes.uris.push(uri),
                None => {
                    changes.is_ended = columns.number(0)? != 0;
                    changes.level = columns.text(1)?;
                    changes.stream_at = columns.text(2)?;
                }
            }
        }
        changes.uris.sort();
        Ok(changes)
    }

    /// Stores a change of a session.
    pub async fn change_session(
        &self,
        session: &str,
        agent: &str,
        change: SessionChange<'_>,
        now_ms: i64,
    ) -> Result<(), StoreError> {
        let row = |ended: i64, level: Option<&str>, stream_at: Option<&str>| {
            let texts = [Value::optional_text(level), Value::optional_text(stream_at)];
            let values = [Value::text(session), Value::text(agent), Value::int(ended)].into_iter().chain(texts);
            Statement::new(UPSERT, values.chain([Value::int(now_ms)]).collect())
        };
        let subscription = |uri: &str, sql: &str, more: Vec<Value>| {
            let values = [Value::text(session), Value::text(uri)].into_iter().chain(more);
            vec![Statement::new(sql, values.collect())]
        };
        let statements = match change {
            SessionChange::Ended => {
                let sql = "DELETE FROM session_subscriptions WHERE session = $1";
                let forget = Statement::new(sql, vec![Value::text(session)]);
                vec![row(1, None, None), forget, oldest_of(agent)]
            }
            SessionChange::Level(level) => vec![row(0, Some(level), None), oldest_of(agent)],
            SessionChange::StreamAt(gateway) => vec![row(0, None, Some(gateway)), oldest_of(agent)],
            SessionChange::Subscribed(uri) => {
                let more = vec![Value::text(agent), Value::int(now_ms), Value::limit(SUBSCRIPTIONS_STORED_MAX)];
                subscription(uri, SUBSCRIBE, more)
            }
            SessionChange::Unsubscribed(uri) => {
                subscription(uri, "DELETE FROM session_subscriptions WHERE session = $1 AND uri = $2", Vec::new())
            }
        };
        let write = async |connection: &mut Connection| connection.transaction(statements).await;
        self.database().write(write, CHANGING).await
    }

    /// Removes changes of sessions whose ids have expired, and messages between gateways that nobody took.
    pub async fn remove_old_session_changes(&self, before_ms: i64, now_ms: i64) -> Result<(), StoreError> {
        let remove = |sql: &str, time_ms: i64| Statement::new(sql, vec![Value::int(time_ms)]);
        let statements = vec![
            remove("DELETE FROM session_changes WHERE changed_ms < $1", before_ms),
            remove("DELETE FROM session_subscriptions WHERE changed_ms < $1", before_ms),
            remove("DELETE FROM replica_messages WHERE expires_ms < $1", now_ms),
        ];
        let write = async |connection: &mut Connection| connection.transaction(statements).await;
        self.database().write(write, "remove old sessions of agents").await
    }
}

/// A session that has ended stays ended. A later value of the other columns replaces an earlier one.
const UPSERT: &str = "INSERT INTO session_changes (session, agent, is_ended, level, stream_at, changed_ms) \
     VALUES ($1, $2, $3, $4, $5, $6) ON CONFLICT (session) DO UPDATE SET \
     is_ended = CASE WHEN excluded.is_ended = 1 THEN 1 ELSE session_changes.is_ended END, \
     level = COALESCE(excluded.level, session_changes.level), \
     stream_at = COALESCE(excluded.stream_at, session_changes.stream_at), changed_ms = excluded.changed_ms";

/// An agent at its limit gets no further row. Its subscription then holds only on the gateway that took it.
const SUBSCRIBE: &str = "INSERT INTO session_subscriptions (session, uri, agent, changed_ms) \
     SELECT $1, $2, $3, $4 WHERE (SELECT count(*) FROM session_subscriptions WHERE agent = $3) < $5 \
     ON CONFLICT (session, uri) DO UPDATE SET changed_ms = excluded.changed_ms";

/// Removes the oldest rows of an agent that has too many.
fn oldest_of(agent: &str) -> Statement {
    let sql = "DELETE FROM session_changes WHERE session IN (SELECT session FROM session_changes WHERE agent = $1 \
         ORDER BY changed_ms DESC, session LIMIT 1000000 OFFSET $2)";
    Statement::new(sql, vec![Value::text(agent), Value::limit(CHANGES_PER_AGENT)])
}

fn key(row: &Row) -> Result<SessionKey, StoreError> {
    let columns = Columns::of(row, "a malformed key of sessions");
    let secret = columns.bytes(1)?.and_then(|secret| secret.try_into().ok());
    Ok(SessionKey {
        number: columns.count(0)?,
        secret: secret.ok_or_else(|| columns.corrupt())?,
        created_ms: columns.number(2)?,
    })
}
