//! The store: one open database. Its methods are in `log/`, `approvals/` and `accounts/`.

use std::sync::Arc;

use crate::sql::Database;
use crate::{DatabaseSize, Location, StoreError};

/// The longest page that any list returns.
pub const LIMIT_MAX: usize = 500;

/// An open database. Clones share one connection pool. Several processes may open the same database.
#[derive(Clone)]
pub struct Store {
    database: Arc<Database>,
}

impl Store {
    /// Opens the database. Creates it, or upgrades its schema, if needed.
    pub async fn open(location: &Location) -> Result<Self, StoreError> {
        Ok(Self { database: Arc::new(Database::open(location).await?) })
    }

    /// Opens an existing database for reading.
    pub async fn open_read_only(location: &Location) -> Result<Self, StoreError> {
        Ok(Self { database: Arc::new(Database::open_read_only(location).await?) })
    }

    /// Opens a database into which a copy has not finished, for the process that copies.
    pub(crate) fn open_half_copied(location: &Location) -> Result<Self, StoreError> {
        Ok(Self { database: Arc::new(Database::open_half_copied(location)?) })
    }

    /// Returns what SQLite's `integrity_check` finds wrong with the database file. Reads all of it. PostgreSQL checks its
    /// files itself, so the list is empty.
    pub async fn file_damage(&self) -> Result<Vec<String>, StoreError> {
        self.database.file_damage().await
    }

    /// Measures the database, without reading its content.
    pub async fn size(&self) -> Result<DatabaseSize, StoreError> {
        self.database.size().await
    }

    /// Closes all connections.
    pub async fn close(&self) {
        self.database.close().await;
    }

    pub(crate) fn database(&self) -> &Database {
        &self.database
    }
}
