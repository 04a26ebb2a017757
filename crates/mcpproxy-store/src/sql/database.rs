//! The only place that speaks SQL: how a database is opened, and one module for each thing that is kept there.

use std::fs::{self, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};
use std::str::FromStr as _;
use std::sync::Arc;
use std::time::{Duration, Instant};

use sqlx::ConnectOptions as _;
use sqlx::postgres::{PgConnectOptions, PgPoolOptions};
use sqlx::sqlite::{SqliteConnectOptions, SqliteJournalMode, SqlitePoolOptions, SqliteSynchronous};
use tokio::time::sleep;

use super::driver::{Connection, Dialect, Pool, Row, Statement};
use super::migrate;
use crate::{Location, StoreError};

const BUSY_TIMEOUT: Duration = Duration::from_secs(5);
const BUSY_PAUSE: Duration = Duration::from_millis(10);
const SQLITE_READERS_MAX: u32 = 2;
const POSTGRES_READERS_MAX: u32 = 8;
/// A database that is not there must not hold anybody up for longer than the log may.
const POSTGRES_TIMEOUT: Duration = Duration::from_secs(3);
const POSTGRES_SETTINGS: [(&str, &str); 6] = [
    // Every question here has an index in its order. PostgreSQL must not collect everything first, to sort it then.
    ("enable_bitmapscan", "off"),
    // Whatever the server's default is: a commit that was acknowledged is on disk.
    ("synchronous_commit", "on"),
    // A connection whose other end has vanished without a word must not hold the chain for hours.
    ("tcp_keepalives_idle", "10"),
    ("tcp_keepalives_interval", "5"),
    ("tcp_keepalives_count", "3"),
    // A gateway that stopped in the middle of a transaction must not hold up the others.
    ("idle_in_transaction_session_timeout", "10000"),
];
/// A few sizes of each bulk statement, in combinations.
const STATEMENTS_KEPT: usize = 200;

/// One database: a pool for reading, and connections for writing made when somebody writes.
pub(crate) struct Database {
    location: Location,
    readers: Pool,
    access: Access,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Access {
    ReadWrite,
    ReadOnly,
}

impl Database {
    pub(crate) async fn open(location: &Location) -> Result<Self, StoreError> {
        let location = absolute(location)?;
        if let Location::Sqlite(path) = &location {
            create_private(path).map_err(not_opened(path))?;
        }
        let mut connection = connect(&location).await?;
        migrate::run(&mut connection, &location).await?;
        if let Location::Sqlite(path) = &location {
            // After the first transaction, so that the files beside the database exist.
            make_private(path).map_err(not_opened(path))?;
        }
        let readers = readers(&location)?;
        connection.close().await.map_err(StoreError::while_trying("open the database"))?;
        Ok(Self { location, readers, access: Access::ReadWrite })
    }

    pub(crate) async fn open_read_only(location: &Location) -> Result<Self, StoreError> {
        let location = absolute(location)?;
        if let Location::Sqlite(path) = &location {
            fs::metadata(path).map_err(not_opened(path))?;
        }
        let readers = readers(&location)?;
        let failed = StoreError::while_trying("open the database");
        let mut connection = match (&readers, &location) {
            (Pool::Sqlite(pool), _) => Connection::Sqlite(Box::new(pool.acquire().await.map_err(&failed)?.detach())),
            // Not through the pool, which tries for seconds and then does not say why it failed.
            (Pool::Postgres(_), _) => connect(&location).await?,
        };
        migrate::check(&mut connection, &location).await?;
        connection.close().await.map_err(&failed)?;
        Ok(Self { location, readers, access: Access::ReadOnly })
    }

    pub(crate) async fn close(&self) {
        self.readers.close().await;
        // The last to leave a SQLite database folds its journal back into it, but only if it may write.
        if let (Location::Sqlite(_), Access::ReadWrite) = (&self.location, self.access)
            && let Ok(last) = connect(&self.location).await
        {
            let _journal_stays = last.close().await;
        }
    }

    pub(crate) fn location(&self) -> &Location {
        &self.location
    }

    pub(crate) fn dialect(&self) -> Dialect {
        match self.location {
            Location::Sqlite(_) => Dialect::Sqlite,
            Location::Postgres(_) => Dialect::Postgres,
        }
    }

    /// What is written rarely has no connection of its own.
    pub(crate) async fn writing_connection(&self) -> Result<Connection, StoreError> {
        match self.access {
            Access::ReadWrite => connect(&self.location).await,
            Access::ReadOnly => Err(StoreError::ReadOnly),
        }
    }

    /// One statement by itself; returns how many rows it changed.
    pub(crate) async fn change(&self, statement: Statement, doing: &'static str) -> Result<u64, StoreError> {
        let failed = StoreError::while_trying(doing);
        let mut connection = self.writing_connection().await?;
        let changed = connection.execute(statement).await.map_err(&failed)?;
        connection.close().await.map_err(&failed)?;
        Ok(changed)
    }

    pub(crate) async fn fetch(&self, statement: Statement, doing: &'static str) -> Result<Vec<Row>, StoreError> {
        self.readers.fetch(statement).await.map_err(StoreError::while_trying(doing))
    }
}

pub(crate) async fn connect(location: &Location) -> Result<Connection, StoreError> {
    match location {
        Location::Sqlite(path) => connect_sqlite(path).await,
        Location::Postgres(url) => connect_postgres(url).await,
    }
}

async fn connect_sqlite(path: &Path) -> Result<Connection, StoreError> {
    let options = sqlite_options(path)
        .create_if_missing(false)
        .journal_mode(SqliteJournalMode::Wal)
        .synchronous(SqliteSynchronous::Full)
        // What is erased is overwritten, and not only marked as free.
        .pragma("secure_delete", "ON")
        .statement_cache_capacity(STATEMENTS_KEPT);
    let begin = Instant::now();
    loop {
        match options.connect().await {
            // SQLite's own patience does not extend to the moments when others switch the journal on or take it away.
            Err(error) if is_busy(&error) && begin.elapsed() < BUSY_TIMEOUT => sleep(BUSY_PAUSE).await,
            outcome => {
                let connection = outcome.map_err(StoreError::while_trying("open the database for writing"))?;
                return Ok(Connection::Sqlite(Box::new(connection)));
            }
        }
    }
}

async fn connect_postgres(url: &str) -> Result<Connection, StoreError> {
    let options = postgres_options(url)?;
    match tokio::time::timeout(POSTGRES_TIMEOUT, options.connect()).await {
        Ok(outcome) => {
            let connection = outcome.map_err(StoreError::while_trying("connect to PostgreSQL"))?;
            Ok(Connection::Postgres(Box::new(connection)))
        }
        Err(_) => Err(StoreError::NoAnswer),
    }
}

fn is_busy(error: &sqlx::Error) -> bool {
    // The lower byte of SQLite's extended codes is the code proper, and 5 is SQLITE_BUSY.
    let code = error.as_database_error().and_then(|error| error.code());
    code.and_then(|code| code.parse::<i32>().ok()).is_some_and(|code| code & 0xff == 5)
}

fn readers(location: &Location) -> Result<Pool, StoreError> {
    Ok(match location {
        Location::Sqlite(path) => Pool::Sqlite(
            SqlitePoolOptions::new()
                .max_connections(SQLITE_READERS_MAX)
                .test_before_acquire(false)
                .connect_lazy_with(sqlite_options(path).read_only(true)),
        ),
        Location::Postgres(url) => Pool::Postgres(
            PgPoolOptions::new()
                .max_connections(POSTGRES_READERS_MAX)
                .acquire_timeout(POSTGRES_TIMEOUT)
                .connect_lazy_with(postgres_options(url)?),
        ),
    })
}

fn sqlite_options(path: &Path) -> SqliteConnectOptions {
    SqliteConnectOptions::new().filename(path).busy_timeout(BUSY_TIMEOUT).disable_statement_logging()
}

fn postgres_options(url: &str) -> Result<PgConnectOptions, StoreError> {
    let options =
        PgConnectOptions::from_str(url).map_err(StoreError::while_trying("read the address of PostgreSQL"))?;
    Ok(options.application_name("mcpproxy").options(POSTGRES_SETTINGS).disable_statement_logging())
}

fn not_opened(path: &Path) -> impl Fn(io::Error) -> StoreError {
    move |source| StoreError::Open { path: path.to_owned(), source: Arc::new(source) }
}

/// A relative path may look like one of SQLite's `file:` addresses; an absolute one cannot.
fn absolute(location: &Location) -> Result<Location, StoreError> {
    match location {
        Location::Sqlite(path) => {
            let absolute: PathBuf = std::path::absolute(path).map_err(not_opened(path))?;
            Ok(Location::Sqlite(absolute))
        }
        Location::Postgres(_) => Ok(location.clone()),
    }
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
