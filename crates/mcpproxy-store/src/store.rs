//! The store: one database file, opened.

use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::task::JoinHandle;

use crate::queue::{Intake, Limits, Queue};
use crate::sql::Database;
use crate::{Ledger, StoreError, writer};

const INTERRUPTED: &str = "the gateway stopped before the call was finished";

/// Tokens and records. Clones share everything; several processes may have the same file open.
#[derive(Clone)]
pub struct Store {
    shared: Arc<Shared>,
}

struct Shared {
    database: Database,
    queue: Arc<Queue>,
    /// `None` when it was awaited, or when the store only reads.
    writer: Mutex<Option<JoinHandle<Result<(), StoreError>>>>,
}

impl Store {
    /// Opens the database, and makes it or brings it to the current version first where needed.
    pub async fn open(path: &Path) -> Result<Self, StoreError> {
        Self::open_with(path, Limits::DEFAULT).await
    }

    pub(crate) async fn open_with(path: &Path, limits: Limits) -> Result<Self, StoreError> {
        let (database, records) = Database::open(path).await?;
        let queue = Arc::new(Queue::new(limits, Intake::Open));
        let writer = tokio::spawn(writer::run(Arc::clone(&queue), records));
        Ok(Self { shared: Arc::new(Shared { database, queue, writer: Mutex::new(Some(writer)) }) })
    }

    /// Opens a database that exists, to look at it.
    pub async fn open_read_only(path: &Path) -> Result<Self, StoreError> {
        let database = Database::open_read_only(path).await?;
        let queue = Arc::new(Queue::new(Limits::DEFAULT, Intake::Closed));
        Ok(Self { shared: Arc::new(Shared { database, queue, writer: Mutex::new(None) }) })
    }

    pub fn ledger(&self) -> Ledger {
        Ledger::new(Arc::clone(&self.shared.queue))
    }

    /// Marks the calls an earlier run left open, and returns how many there were. Only for the process that holds the
    /// gateway's lock, before it takes calls: to anybody else, an open record is a call that is under way.
    pub async fn recover_interrupted(&self) -> Result<u64, StoreError> {
        self.shared.database.interrupt_started(INTERRUPTED).await
    }

    /// Writes what was accepted, and takes nothing more. An error means that some of it could not be written.
    pub async fn close(&self) -> Result<(), StoreError> {
        self.shared.queue.close();
        let writer = self.shared.writer.lock().unwrap_or_else(PoisonError::into_inner).take();
        let outcome = match writer {
            Some(writer) => writer.await.unwrap_or(Err(StoreError::LogUnavailable)),
            None => Ok(()),
        };
        self.shared.database.close().await;
        outcome
    }

    pub(crate) fn database(&self) -> &Database {
        &self.shared.database
    }
}

impl Drop for Shared {
    /// Lets the writer finish by itself. Who needs to know that it did, calls `close`.
    fn drop(&mut self) {
        self.queue.close();
    }
}
