//! The store: one database, opened.

use std::sync::Arc;

use crate::sql::Database;
use crate::{Location, StoreError};

/// Tokens and records. Clones share everything; several processes may have the same database open.
#[derive(Clone)]
pub struct Store {
    database: Arc<Database>,
}

impl Store {
    /// Opens the database, and makes it or brings it to the current version first where needed.
    pub async fn open(location: &Location) -> Result<Self, StoreError> {
        Ok(Self { database: Arc::new(Database::open(location).await?) })
    }

    /// Opens a database that exists, to look at it.
    pub async fn open_read_only(location: &Location) -> Result<Self, StoreError> {
        Ok(Self { database: Arc::new(Database::open_read_only(location).await?) })
    }

    /// Lets go of all connections.
    pub async fn close(&self) {
        self.database.close().await;
    }

    pub(crate) fn database(&self) -> &Database {
        &self.database
    }
}
