//! The database of a data folder: its location, and the error if it cannot be opened.

use mcpproxy_core::settings::{StorageSettings, StorageUrl};
use mcpproxy_store::{Location, StoreError};

use crate::exit::{Exit, Failure};
use crate::home::Home;
use crate::operator_files::settings_file;

/// Returns the location of the database of this data folder, according to its settings.
pub(crate) fn location(home: &Home) -> anyhow::Result<Location> {
    Ok(location_of(home, &settings_file::read_storage(&home.settings())?))
}

pub(crate) fn location_of(home: &Home, storage: &StorageSettings) -> Location {
    match &storage.url {
        Some(StorageUrl::Sqlite(path)) => Location::Sqlite(home.folder().join(path)),
        Some(StorageUrl::Postgres(url)) => Location::Postgres(url.expose().to_owned()),
        None => Location::Sqlite(home.database()),
    }
}

/// Builds the error for a database that cannot be opened, with a hint.
pub(crate) fn not_opened(home: &Home, location: &Location, error: StoreError) -> anyhow::Error {
    let is_away = matches!(error, StoreError::Database { .. } | StoreError::NoAnswer);
    let error = anyhow::Error::from(error);
    match location {
        Location::Postgres(_) if is_away => {
            Failure::new(Exit::Failed, format!("The database {location} cannot be reached: {error:#}"))
                .hint(format!("start the database, or correct `storage.url` in {}", home.settings().display()))
                .into()
        }
        Location::Sqlite(_) if is_away => error.context(format!("could not open the database {location}")),
        Location::Postgres(_) | Location::Sqlite(_) => error,
    }
}
