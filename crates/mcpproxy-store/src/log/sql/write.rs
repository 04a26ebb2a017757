//! Writes records: one connection, one chain, one transaction for each batch.
//!
//! `RecordWriter` keeps the head of the chain in memory. A commit can succeed although its acknowledgement is lost. So
//! before each commit it remembers in `unsure` where the head would be. After a failure, `settle` reads the head from
//! the database. At `unsure`, the batch was committed. At `head`, it was not. Anywhere else, the database lost or
//! gained records, and the writer stops instead of hiding that.

use super::batch::Bulks;
use super::take::{Head, RECONNECT_PATIENCE, START_PATIENCE, chain_number, claim_head, take_chain};
use crate::approvals::step::{self, Conflicts};
use crate::log::operation::{Change, Operation};
use crate::sql::driver::{Connection, Dialect, Statement, Value};
use crate::sql::open_files::OpenFiles;
use crate::sql::{Database, connect, driver, session};
use crate::{Location, StoreError, Verifier};

const DOING: &str = "write to the activity log";

/// The fate of a batch whose commit was in doubt.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Settled {
    NothingOpen,
    WasCommitted,
}

/// The only connection that writes records of its chain.
pub(crate) struct RecordWriter {
    location: Location,
    verifier: Verifier,
    chain: u16,
    /// `None` after it broke. `settle` opens another.
    pub(super) connection: Option<Connection>,
    /// The files that the connection writes.
    files: OpenFiles,
    head: Head,
    /// The head if the last batch was committed after all.
    unsure: Option<Head>,
    bulks: Bulks,
}

impl Database {
    /// Opens the chain of this key, or creates it.
    pub(crate) async fn record_writer(&self, verifier: &Verifier, now_ms: i64) -> Result<RecordWriter, StoreError> {
        let mut connection = self.writing_connection().await?;
        let chain = chain_number(&mut connection, verifier, now_ms).await?;
        take_chain(&mut connection, chain, verifier, START_PATIENCE).await?;
        let head = claim_head(&mut connection, chain).await?;
        let bulks = Bulks::new(connection.dialect());
        Ok(RecordWriter {
            location: self.location().clone(),
            verifier: verifier.clone(),
            chain,
            connection: Some(connection),
            files: OpenFiles::of(self.location())?,
            head,
            unsure: None,
            bulks,
        })
    }
}

impl RecordWriter {
    pub(crate) fn chain(&self) -> u16 {
        self.chain
    }

    pub(crate) fn dialect(&self) -> Dialect {
        match self.location {
            Location::Sqlite(_) => Dialect::Sqlite,
            Location::Postgres(_) => Dialect::Postgres,
        }
    }

    pub(crate) fn head(&self) -> &Head {
        &self.head
    }

    /// Returns false after the connection broke, until `settle` opens another.
    pub(crate) fn is_connected(&self) -> bool {
        self.connection.is_some()
    }

    /// Reconnects after a failure, and finds out if the last batch was committed.
    pub(crate) async fn settle(&mut self) -> Result<Settled, StoreError> {
        if self.connection.is_some() {
            return Ok(Settled::NothingOpen);
        }
        let mut connection = connect(&self.location).await?;
        take_chain(&mut connection, self.chain, &self.verifier, RECONNECT_PATIENCE).await?;
        // The abandoned connection may still be committing the last batch. A write transaction waits for it.
        let found = claim_head(&mut connection, self.chain).await?;
        let settled = match &self.unsure {
            Some(expected) if found.is_at(expected) => Settled::WasCommitted,
            _ if found.is_at(&self.head) => Settled::NothingOpen,
            _ => return Err(self.lost(&found)),
        };
        self.unsure = None;
        self.head = Head { key: found.key.max(self.head.key), ..found };
        self.files = OpenFiles::of(&self.location)?;
        self.connection = Some(connection);
        Ok(settled)
    }

    /// The database lost records that it had acknowledged, or has records from elsewhere. Continuing would hide that.
    fn lost(&self, found: &Head) -> StoreError {
        let chain = self.verifier.chain().to_owned();
        if found.seq < self.head.seq {
            StoreError::Truncated { chain, found: found.seq, signed: self.head.seq }
        } else {
            StoreError::Rewritten { chain, seq: found.seq }
        }
    }

    /// Writes all changes or none. There is at most one change for each record.
    pub(crate) async fn write<'c>(&mut self, changes: impl Iterator<Item = &'c Change>) -> Result<(), StoreError> {
        let (statements, head) = self.bulks.statements(self.chain, self.head, changes);
        // Set before the write: a cancelled write may be committed after all.
        self.unsure = Some(head);
        let outcome = self.with_connection(async |connection| connection.batch(statements).await).await;
        self.conclude(head, outcome)
    }

    /// Like `write`, with the steps of the operations. Operations with a conflict are not written. `conflicts` has them
    /// even if this is cancelled: they are not part of what may have been committed.
    pub(crate) async fn write_steps(
        &mut self,
        batch: &[Operation],
        conflicts: &mut Conflicts,
    ) -> Result<(), StoreError> {
        let operations = batch.iter().map(|operation| (operation.id(), &operation.steps));
        self.with_connection(async |connection| step::take(connection, operations, conflicts).await).await?;
        let written = batch.iter().enumerate().filter(|(index, _)| !conflicts.contains_key(index));
        let changes = written.map(|(_, operation)| &operation.change);
        let (statements, head) = self.bulks.statements(self.chain, self.head, changes);
        // Not earlier: until now, nothing could have been committed.
        self.unsure = Some(head);
        let outcome = self.with_connection(async |connection| connection.finish_batch(statements).await).await;
        self.conclude(head, outcome)
    }

    fn conclude(&mut self, head: Head, outcome: Result<(), StoreError>) -> Result<(), StoreError> {
        match &outcome {
            Ok(()) => (self.head, self.unsure) = (head, None),
            Err(_) if self.connection.is_some() => self.unsure = None,
            Err(_) => {}
        }
        outcome
    }

    pub(crate) async fn write_checkpoint(&mut self, seq: i64, note: &str) -> Result<(), StoreError> {
        let sql = "INSERT INTO checkpoints (chain, seq, note) VALUES ($1, $2, $3) ON CONFLICT (chain, seq) DO NOTHING";
        let values = vec![Value::int(self.chain.into()), Value::int(seq), Value::text(note)];
        self.run(vec![Statement::new(sql, values)]).await
    }

    /// Writes a value without meaning, to test if the log works again.
    pub(crate) async fn probe(&mut self, now_ms: i64) -> Result<(), StoreError> {
        let sql = "UPDATE chains SET probed_ms = $1 WHERE number = $2";
        self.run(vec![Statement::new(sql, vec![Value::int(now_ms), Value::int(self.chain.into())])]).await
    }

    /// Runs all statements or none.
    pub(super) async fn run(&mut self, statements: Vec<Statement>) -> Result<(), StoreError> {
        self.with_connection(async |connection| connection.transaction(statements).await).await
    }

    /// Runs one statement. Returns the number of rows it changed.
    pub(super) async fn change(&mut self, statement: Statement) -> Result<u64, StoreError> {
        self.with_connection(async |connection| connection.execute(statement).await).await
    }

    pub(super) async fn fetch(&mut self, statement: Statement) -> Result<Vec<driver::Row>, StoreError> {
        self.with_connection(async |connection| connection.fetch(statement).await).await
    }

    /// The size of all pages with content. `None` for PostgreSQL, which frees space only when it is vacuumed.
    pub(crate) async fn used_bytes(&mut self) -> Result<Option<u64>, StoreError> {
        if self.connection.as_ref().map(Connection::dialect) != Some(Dialect::Sqlite) {
            return Ok(None);
        }
        let sql = "SELECT (page_count - freelist_count) * page_size \
                   FROM pragma_page_count(), pragma_freelist_count(), pragma_page_size()";
        let rows = self.fetch(Statement::plain(sql)).await?;
        let used = rows.first().map(|row| row.int(0)).transpose().map_err(StoreError::while_trying(DOING))?;
        Ok(used.flatten().map(i64::unsigned_abs))
    }

    /// Checks the connection although there is nothing to write. After an error, `settle` opens another.
    pub(crate) async fn watch(&mut self) -> Result<(), StoreError> {
        match self.connection.as_ref().map(Connection::dialect) {
            None => Ok(()),
            Some(Dialect::Sqlite) => self.files.check().inspect_err(|_| self.connection = None),
            Some(Dialect::Postgres) => {
                let rows = self.fetch(session::is_read_only()).await?;
                match rows.first().map(|row| row.int(0)).transpose().map_err(StoreError::while_trying(DOING))?.flatten()
                {
                    Some(0) => Ok(()),
                    Some(_) | None => {
                        self.connection = None;
                        Err(StoreError::ReadOnlySession)
                    }
                }
            }
        }
    }

    /// A connection that is not put back is dropped, which rolls back its transaction.
    pub(super) async fn with_connection<T>(
        &mut self,
        work: impl AsyncFnOnce(&mut Connection) -> Result<T, sqlx::Error>,
    ) -> Result<T, StoreError> {
        let mut connection = self.connection.take().ok_or(StoreError::LogUnavailable)?;
        let outcome = work(&mut connection).await;
        // After the work: what was written into a file that is gone by now must not be acknowledged.
        self.files.check()?;
        let is_usable = match &outcome {
            Ok(_) => true,
            Err(error) => !session::is_over(error) && connection.rolled_back().await,
        };
        if is_usable {
            self.connection = Some(connection);
        }
        outcome.map_err(StoreError::while_trying(DOING))
    }

    pub(crate) async fn close(self) -> Result<(), StoreError> {
        match self.connection {
            Some(connection) => connection.close().await.map_err(StoreError::while_trying("close the activity log")),
            None => Ok(()),
        }
    }
}
