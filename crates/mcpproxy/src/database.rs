//! The database of a data folder: its location, and the error if it cannot be opened.

use std::{fs, io};

use anyhow::Context as _;
use mcpproxy_core::settings::{FilesSource, Settings, StorageSettings, StorageUrl};
use mcpproxy_store::{ConfigVersion, Location, Store, StoreError};

use crate::exit::{Exit, Failure};
use crate::home::Home;
use crate::operator_files::{published, settings_file};

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

/// Fails if the database is gone although a checkpoint says that there was one. A new one in its place would hide that.
pub(crate) fn check_not_gone(home: &Home, location: &Location) -> anyhow::Result<()> {
    let Location::Sqlite(path) = location else { return Ok(()) };
    // An empty file is no database either.
    let is_there = match fs::metadata(path) {
        Ok(metadata) => metadata.len() > 0,
        Err(error) if error.kind() == io::ErrorKind::NotFound => false,
        Err(error) => return Err(error).with_context(|| format!("could not access `{}`", path.display())),
    };
    if is_there || !home.checkpoint().exists() {
        return Ok(());
    }
    let (database, checkpoint) = (path.display(), home.checkpoint());
    let message =
        format!("The database `{database}` is gone. `{}` says that it contained records.", checkpoint.display());
    let accept = home.command("mcpproxy", "serve --accept-damage");
    Err(Failure::new(Exit::Failed, message)
        .hint(format!("restore the database from a backup; without one, start a new log with `{accept}`"))
        .into())
}

/// Returns the settings of a data folder, without resolving references: with those of the newest version, if they come from
/// the database.
pub(crate) async fn settings(home: &Home) -> anyhow::Result<Settings> {
    let path = home.settings();
    let Some((_, text)) = settings_file::read_text(&path)? else { return Ok(Settings::default()) };
    let machine = settings_file::check_shape(&path, &text)?;
    match machine.operator_files {
        FilesSource::Folder => return Ok(machine),
        FilesSource::Database => {}
    }
    let location = location(home)?;
    let store = Store::open_read_only(&location).await.map_err(|error| not_opened(home, &location, error))?;
    let found = find_newest(&store).await;
    store.close().await;
    match found? {
        Some(version) => Ok(published::join_shape(&machine, &version)?),
        None => Ok(machine),
    }
}

/// Returns the newest published version.
pub(crate) async fn find_newest(store: &Store) -> Result<Option<ConfigVersion>, StoreError> {
    match store.newest_version().await? {
        Some(newest) => store.find_version(newest.number).await,
        None => Ok(None),
    }
}

/// Opens the database for a command. Creates one only for a new data folder.
pub(crate) async fn open(home: &Home) -> anyhow::Result<Store> {
    let location = location(home)?;
    check_not_gone(home, &location)?;
    Store::open(&location).await.map_err(|error| not_opened(home, &location, error))
}

/// Builds the error for a database that cannot be opened, with a hint.
pub(crate) fn not_opened(home: &Home, location: &Location, error: StoreError) -> anyhow::Error {
    if matches!(error, StoreError::HalfCopied { .. }) {
        let hint = "set `storage.url` back to the old database, and run `mcpproxy migrate` again";
        return Failure::new(Exit::Failed, format!("The database cannot be used: {error}.")).hint(hint).into();
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_lost_database_is_not_replaced() {
        let folder = tempfile::tempdir().unwrap();
        let home = Home::resolve(Some(folder.path().to_owned())).unwrap();
        open(&home).await.unwrap().close().await;
        fs::write(home.checkpoint(), "note").unwrap();
        open(&home).await.unwrap().close().await;
        fs::remove_file(home.database()).unwrap();
        let refused = open(&home).await.err().unwrap().to_string();
        assert!(refused.contains("is gone") && !home.database().exists(), "{refused}");
        fs::write(home.database(), "").unwrap();
        assert!(open(&home).await.is_err());
        assert_eq!(fs::metadata(home.database()).unwrap().len(), 0, "it is left alone");
    }
}
