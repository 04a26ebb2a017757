//! Messages between gateways that share a PostgreSQL database, with `NOTIFY`.
//!
//! ```text
//! TO \n {"cancel":…}      a short message is the payload itself
//! TO \n @ID               a long one is in a row, which its receiver takes
//! ```
//!
//! `TO` is the name of a gateway, or `*` for all. A gateway that is not meant ignores a message without looking at the
//! database. While a gateway listens, its session at the server carries its name, so others can tell that it lives: the
//! server ends that session when the process is gone.
//!
//! With SQLite there is one gateway, so there is nothing to listen to and nothing is ever sent.

use std::time::Duration;

use sqlx::postgres::{PgListener, PgPoolOptions};

use crate::sql::columns::Columns;
use crate::sql::{Statement, Value, postgres_options};
use crate::{Location, Store, StoreError};

const SENDING: &str = "send a message to another gateway";
const LISTENING: &str = "listen for messages of other gateways";
const CHANNEL: &str = "mcpproxy_replicas";
/// PostgreSQL allows 7,999 bytes in a payload.
const PAYLOAD_MAX_BYTES: usize = 7_500;
/// Time for the receiver to take a row.
const ROW_MS: i64 = 120_000;
const EVERYBODY: &str = "*";
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// Receives the messages for one gateway.
pub struct ReplicaListener {
    store: Store,
    listener: PgListener,
    name: String,
}

impl Store {
    /// Starts to receive messages for the gateway of this name. Returns `None` with SQLite.
    pub async fn listen(&self, name: &str) -> Result<Option<ReplicaListener>, StoreError> {
        let Location::Postgres(url) = self.database().location() else { return Ok(None) };
        let failed = StoreError::while_trying(LISTENING);
        let options = postgres_options(url)?.application_name(&listener_name(name));
        let pool = PgPoolOptions::new().max_connections(1).acquire_timeout(CONNECT_TIMEOUT).connect_lazy_with(options);
        let mut listener = PgListener::connect_with(&pool).await.map_err(&failed)?;
        listener.listen(CHANNEL).await.map_err(&failed)?;
        Ok(Some(ReplicaListener { store: self.clone(), listener, name: name.to_owned() }))
    }

    /// Sends a message to the gateway of this name, or to all others. A message to all must be short.
    ///
    /// It uses a connection of the pool for reading. A new connection for each message would take longer than the message.
    pub async fn send_to_replica(&self, to: Option<&str>, id: &str, text: &str, now_ms: i64) -> Result<(), StoreError> {
        if !self.is_shared() {
            return Ok(());
        }
        let to_word = to.unwrap_or(EVERYBODY);
        let statement = if to.is_none() || text.len() <= PAYLOAD_MAX_BYTES {
            let payload = format!("{to_word}\n{text}");
            Statement::new("SELECT pg_notify($1, $2)", vec![Value::text(CHANNEL), Value::text(&payload)])
        } else {
            let sql = "WITH stored AS (INSERT INTO replica_messages (id, content, expires_ms) VALUES ($3, $4, $5)) \
                 SELECT pg_notify($1, $2)";
            let payload = format!("{to_word}\n@{id}");
            let expires_ms = now_ms.saturating_add(ROW_MS);
            let values = [CHANNEL, payload.as_str(), id].map(Value::text).into_iter();
            Statement::new(sql, values.chain([Value::bytes(text.as_bytes()), Value::int(expires_ms)]).collect())
        };
        self.database().fetch(statement, SENDING).await.map(drop)
    }

    /// Returns true if the gateway of this name listens now.
    pub async fn is_replica_listening(&self, name: &str) -> Result<bool, StoreError> {
        if !self.is_shared() {
            return Ok(false);
        }
        let sql = "SELECT 1::bigint FROM pg_stat_activity \
             WHERE application_name = $1 AND datname = current_database() LIMIT 1";
        let statement = Statement::new(sql, vec![Value::text(&listener_name(name))]);
        Ok(self.database().fetch_first(statement, "look for another gateway").await?.is_some())
    }

    async fn take_replica_message(&self, id: &str) -> Result<Option<String>, StoreError> {
        let sql = "DELETE FROM replica_messages WHERE id = $1 RETURNING content";
        let row = self.database().fetch_first(Statement::new(sql, vec![Value::text(id)]), LISTENING).await?;
        row.map(|row| Columns::of(&row, "a malformed message of a gateway").exact(0)).transpose().map(Option::flatten)
    }
}

impl ReplicaListener {
    /// Waits for the next message. Returns `None` after the connection was lost: messages may be missing.
    pub async fn next(&mut self) -> Result<Option<String>, StoreError> {
        loop {
            let received = self.listener.try_recv().await.map_err(StoreError::while_trying(LISTENING))?;
            let Some(notification) = received else { return Ok(None) };
            let Some((to, text)) = notification.payload().split_once('\n') else { continue };
            if to != EVERYBODY && to != self.name {
                continue;
            }
            match text.strip_prefix('@') {
                None => return Ok(Some(text.to_owned())),
                Some(id) => {
                    if let Some(text) = self.store.take_replica_message(id).await? {
                        return Ok(Some(text));
                    }
                }
            }
        }
    }
}

/// The name of a session at the server. PostgreSQL cuts names after 63 bytes.
fn listener_name(gateway: &str) -> String {
    format!("mcpproxy listener {gateway}")
}
