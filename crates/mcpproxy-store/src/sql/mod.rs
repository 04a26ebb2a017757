//! The only place that speaks SQL: how the file is opened, and one module for each table.

mod migrate;
mod records;
mod tokens;

use std::fs::{self, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use sqlx::sqlite::{SqliteConnectOptions, SqliteJournalMode, SqlitePoolOptions, SqliteSynchronous};
use sqlx::{ConnectOptions, SqliteConnection, SqlitePool};
use tokio::time::sleep;

use crate::StoreError;

pub(crate) use records::RecordWriter;

const BUSY_TIMEOUT: Duration = Duration::from_secs(5);
const BUSY_PAUSE: Duration = Duration::from_millis(10);
const READERS_MAX: u32 = 2;

/// One database file: a pool for reading, and connections for writing made when somebody writes.
pub(crate) struct Database {
    path: PathBuf,
    readers: SqlitePool,
    access: Access,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Access {
    ReadWrite,
    ReadOnly,
}

impl Database {
    pub(crate) async fn open(path: &Path) -> Result<(Self, RecordWriter), StoreError> {
        let path = absolute(path)?;
        create_private(&path).map_err(|source| StoreError::Open { path: path.clone(), source: Arc::new(source) })?;
        let mut connection = connect_for_writing(&path).await?;
        migrate::run(&mut connection, &path).await?;
        // After the first transaction, so that the files beside the database exist.
        make_private(&path).map_err(|source| StoreError::Open { path: path.clone(), source: Arc::new(source) })?;
        let readers = readers(&path);
        let writer = RecordWriter::new(path.clone(), connection);
        Ok((Self { path, readers, access: Access::ReadWrite }, writer))
    }

    pub(crate) async fn open_read_only(path: &Path) -> Result<Self, StoreError> {
        let path = absolute(path)?;
        fs::metadata(&path).map_err(|source| StoreError::Open { path: path.clone(), source: Arc::new(source) })?;
        let readers = readers(&path);
        let mut connection = readers.acquire().await.map_err(StoreError::while_trying("open the database"))?;
        migrate::check(&mut connection, &path).await?;
        drop(connection);
        Ok(Self { path, readers, access: Access::ReadOnly })
    }

    pub(crate) async fn close(&self) {
        self.readers.close().await;
    }

    /// Tokens change rarely, so that no connection is kept for it.
    async fn writing_connection(&self) -> Result<SqliteConnection, StoreError> {
        match self.access {
            Access::ReadWrite => connect_for_writing(&self.path).await,
            Access::ReadOnly => Err(StoreError::ReadOnly),
        }
    }
}

async fn connect_for_writing(path: &Path) -> Result<SqliteConnection, StoreError> {
    let options = options(path)
        .create_if_missing(false)
        .journal_mode(SqliteJournalMode::Wal)
        .synchronous(SqliteSynchronous::Full)
        .foreign_keys(true);
    let begin = Instant::now();
    loop {
        match options.connect().await {
            // SQLite's own patience does not extend to the moments when others switch the journal on or take it away.
            Err(error) if is_busy(&error) && begin.elapsed() < BUSY_TIMEOUT => sleep(BUSY_PAUSE).await,
            outcome => return outcome.map_err(StoreError::while_trying("open the database for writing")),
        }
    }
}

fn is_busy(error: &sqlx::Error) -> bool {
    // The lower byte of SQLite's extended codes is the code proper, and 5 is SQLITE_BUSY.
    let code = error.as_database_error().and_then(|error| error.code());
    code.and_then(|code| code.parse::<i32>().ok()).is_some_and(|code| code & 0xff == 5)
}

fn readers(path: &Path) -> SqlitePool {
    SqlitePoolOptions::new()
        .max_connections(READERS_MAX)
        .test_before_acquire(false)
        .connect_lazy_with(options(path).read_only(true))
}

fn options(path: &Path) -> SqliteConnectOptions {
    SqliteConnectOptions::new().filename(path).busy_timeout(BUSY_TIMEOUT).disable_statement_logging()
}

/// A relative path may look like one of SQLite's `file:` addresses; an absolute one cannot.
fn absolute(path: &Path) -> Result<PathBuf, StoreError> {
    std::path::absolute(path).map_err(|source| StoreError::Open { path: path.to_owned(), source: Arc::new(source) })
}

/// SQLite gives the files beside the database the permissions of the database, so it must be private from its first byte.
fn create_private(path: &Path) -> io::Result<()> {
    let mut options = OpenOptions::new();
    options.create(true).append(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.open(path)?;
    make_private(path)
}

fn make_private(path: &Path) -> io::Result<()> {
    for suffix in ["", "-wal", "-shm"] {
        let mut file = path.as_os_str().to_owned();
        file.push(suffix);
        match restrict(Path::new(&file)) {
            // Another process that closed the database a moment ago took them with it.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            outcome => outcome?,
        }
    }
    Ok(())
}

#[cfg(unix)]
fn restrict(path: &Path) -> io::Result<()> {
    use std::os::unix::fs::PermissionsExt as _;
    fs::set_permissions(path, fs::Permissions::from_mode(0o600))
}

#[cfg(not(unix))]
fn restrict(_path: &Path) -> io::Result<()> {
    Ok(())
}
