//! One database: how it is opened, its connections, and the permissions of its files.

use std::fs::{self, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};
use std::str::FromStr as _;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use sqlx::ConnectOptions as _;
use sqlx::postgres::{PgConnectOptions, PgPoolOptions};
use sqlx::sqlite::{SqliteConnectOptions, SqliteJournalMode, SqlitePoolOptions, SqliteSynchronous};
use tokio::time::sleep;

use super::driver::{Connection, Dialect, Pool, Row, Statement};
use super::open_files::FileWatch;
use super::{migrate, session};
use crate::{Location, StoreError};

const BUSY_TIMEOUT: Duration = Duration::from_secs(5);
const BUSY_PAUSE: Duration = Duration::from_millis(10);
const SQLITE_READERS_MAX: u32 = 2;
const POSTGRES_READERS_MAX: u32 = 8;
/// A server on a busy machine may need seconds for a connection. A person who waits for a command should not wait longer.
pub(crate) const POSTGRES_TIMEOUT: Duration = Duration::from_secs(10);
const POSTGRES_SETTINGS: [(&str, &str); 8] = [
    // Compiling a query takes longer than any query of ours. A plan that is switched off below counts as very expensive,
    // and PostgreSQL compiles what is expensive.
    ("jit", "off"),
    // Every query has an index in its order. A bitmap scan would collect all rows first and then sort them.
    ("enable_bitmapscan", "off"),
    // A statement is planned once. With partitions, a plan takes longer than any query of ours, and PostgreSQL would make one
    // for each run, because it expects to skip partitions by that. A plan that it keeps skips them when it runs.
    ("plan_cache_mode", "force_generic_plan"),
    // An acknowledged commit is on disk, whatever the server's default.
    ("synchronous_commit", "on"),
    // A connection whose peer vanished must not hold the lock of a chain for hours.
    ("tcp_keepalives_idle", "10"),
    ("tcp_keepalives_interval", "5"),
    ("tcp_keepalives_count", "3"),
    // A gateway that hangs in a transaction must not block other gateways.
    ("idle_in_transaction_session_timeout", "10000"),
];
/// A writer changes rows that it knows by key. PostgreSQL plans its statements when the tables are still empty, and keeps
/// the plans. On an empty table any plan looks cheap, also one that reads the whole log for every batch.
const POSTGRES_WRITER_SETTINGS: [(&str, &str); 3] =
    [("enable_seqscan", "off"), ("enable_hashjoin", "off"), ("enable_mergejoin", "off")];
/// Pages in the WAL after which a commit copies them to the database. Busy pages occur in every transaction and are
/// copied once, so the more pages, the fewer copies. The file is 8 MB long then and is overwritten from its beginning.
const WAL_PAGES: &str = "2000";
/// A WAL that grew while somebody read for long is cut to this size.
const WAL_BYTES_KEPT: &str = "67108864";
/// The page cache of a connection for reading, in KiB (negative, for SQLite). A summary reads a page for each series, and
/// a list one for each record. With SQLite's own 2 MB, each of them would be read from the file again.
const READER_CACHE_KIB: &str = "-8192";
/// Prepared statements to cache: the bulk statements have a few sizes each, in combinations.
const STATEMENTS_KEPT: usize = 200;

/// One database: a pool for reading, and a new connection for each write.
pub(crate) struct Database {
    location: Location,
    readers: Pool,
    access: Access,
    /// The partitions of the records, and when they were read. `log/sql/windows.rs` uses them.
    bounds: Mutex<Option<(Bounds, Instant)>>,
}

/// The first key and the estimated number of rows of each partition, in order.
pub(crate) type Bounds = Arc<[(i64, i64)]>;

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
            // After the first transaction, when the WAL files exist.
            make_private(path).map_err(not_opened(path))?;
        }
        let readers = readers(&location, Access::ReadWrite)?;
        connection.close().await.map_err(StoreError::while_trying("open the database"))?;
        Ok(Self { location, readers, access: Access::ReadWrite, bounds: Mutex::default() })
    }

    pub(crate) async fn open_read_only(location: &Location) -> Result<Self, StoreError> {
        let location = absolute(location)?;
        if let Location::Sqlite(path) = &location {
            fs::metadata(path).map_err(not_opened(path))?;
        }
        let readers = readers(&location, Access::ReadOnly)?;
        let failed = StoreError::while_trying("open the database");
        let mut connection = match (&readers, &location) {
            (Pool::Sqlite(pool), _) => Connection::Sqlite(Box::new(pool.acquire().await.map_err(&failed)?.detach())),
            // The pool would retry for seconds and then hide the cause.
            (Pool::Postgres(_), _) => connect(&location).await?,
        };
        migrate::check(&mut connection, &location).await?;
        connection.close().await.map_err(&failed)?;
        Ok(Self { location, readers, access: Access::ReadOnly, bounds: Mutex::default() })
    }

    /// Opens a database into which a copy has not finished, for the process that copies.
    pub(crate) fn open_half_copied(location: &Location) -> Result<Self, StoreError> {
        let location = absolute(location)?;
        let readers = readers(&location, Access::ReadWrite)?;
        Ok(Self { location, readers, access: Access::ReadWrite, bounds: Mutex::default() })
    }

    pub(crate) async fn close(&self) {
        self.readers.close().await;
        // The last connection to a SQLite database checkpoints its WAL, but only if it may write.
        if let (Location::Sqlite(_), Access::ReadWrite) = (&self.location, self.access)
            && let Ok(last) = connect(&self.location).await
        {
            let _wal_stays = last.close().await;
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

    pub(crate) fn bounds(&self) -> Option<(Bounds, Instant)> {
        self.bounds.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(crate) fn remember_bounds(&self, bounds: Bounds, now: Instant) {
        *self.bounds.lock().unwrap_or_else(PoisonError::into_inner) = Some((bounds, now));
    }

    /// Opens a connection. Only the writer of the log keeps one open; everything else is written rarely.
    pub(crate) async fn writing_connection(&self) -> Result<Connection, StoreError> {
        match self.access {
            Access::ReadWrite => connect(&self.location).await,
            Access::ReadOnly => Err(StoreError::ReadOnly),
        }
    }

    /// Runs one statement. Returns the number of rows it changed.
    pub(crate) async fn change(&self, statement: Statement, doing: &'static str) -> Result<u64, StoreError> {
        self.write(async |connection: &mut Connection| connection.execute(statement).await, doing).await
    }

    /// Runs `work` on a connection of its own. Dropping the connection after an error rolls back an open transaction.
    pub(crate) async fn write<T>(
        &self,
        work: impl AsyncFnOnce(&mut Connection) -> Result<T, sqlx::Error>,
        doing: &'static str,
    ) -> Result<T, StoreError> {
        let failed = StoreError::while_trying(doing);
        // Boxed, like all queries: a call holds room for every query that it might make, and most make none.
        let mut connection = Box::pin(self.writing_connection()).await?;
        let outcome = Box::pin(work(&mut connection)).await.map_err(&failed)?;
        Box::pin(connection.close()).await.map_err(&failed)?;
        Ok(outcome)
    }

    pub(crate) async fn fetch(&self, statement: Statement, doing: &'static str) -> Result<Vec<Row>, StoreError> {
        Box::pin(self.readers.fetch(statement)).await.map_err(StoreError::while_trying(doing))
    }

    pub(crate) async fn fetch_first(
        &self,
        statement: Statement,
        doing: &'static str,
    ) -> Result<Option<Row>, StoreError> {
        Ok(self.fetch(statement, doing).await?.into_iter().next())
    }
}

pub(crate) async fn connect(location: &Location) -> Result<Connection, StoreError> {
    match location {
        Location::Sqlite(path) => connect_sqlite(path).await,
        Location::Postgres(url) => connect_postgres(url).await,
    }
}

/// Connects to a database that may have no file and no tables yet.
pub(super) async fn connect_new(location: &Location) -> Result<Connection, StoreError> {
    let location = absolute(location)?;
    if let Location::Sqlite(path) = &location {
        create_private(path).map_err(not_opened(path))?;
    }
    connect(&location).await
}

async fn connect_sqlite(path: &Path) -> Result<Connection, StoreError> {
    let options = sqlite_options(path)
        .create_if_missing(false)
        .journal_mode(SqliteJournalMode::Wal)
        .synchronous(SqliteSynchronous::Full)
        // Overwrites erased content instead of only marking it as free.
        .pragma("secure_delete", "ON")
        // A statement that may have to be undone needs a journal of its own. In memory, it costs no file.
        .pragma("temp_store", "MEMORY")
        .pragma("wal_autocheckpoint", WAL_PAGES)
        .pragma("journal_size_limit", WAL_BYTES_KEPT)
        .statement_cache_capacity(STATEMENTS_KEPT);
    let begin = Instant::now();
    loop {
        match options.connect().await {
            // SQLite's busy timeout does not cover the moments when another process creates or removes the WAL.
            Err(error) if is_busy(&error) && begin.elapsed() < BUSY_TIMEOUT => sleep(BUSY_PAUSE).await,
            outcome => {
                let connection = outcome.map_err(StoreError::while_trying("open the database for writing"))?;
                return Ok(Connection::Sqlite(Box::new(connection)));
            }
        }
    }
}

async fn connect_postgres(url: &str) -> Result<Connection, StoreError> {
    let options = postgres_options(url)?.options(POSTGRES_WRITER_SETTINGS);
    match tokio::time::timeout(POSTGRES_TIMEOUT, options.connect()).await {
        Ok(outcome) => {
            let connection = outcome.map_err(StoreError::while_trying("connect to PostgreSQL"))?;
            Ok(Connection::Postgres(Box::new(connection)))
        }
        Err(_) => Err(StoreError::NoAnswer),
    }
}

fn is_busy(error: &sqlx::Error) -> bool {
    // 5 is SQLITE_BUSY.
    sqlite_code(error) == Some(5)
}

/// The code of an error of SQLite. The lower byte of its extended codes is the code proper.
pub(super) fn sqlite_code(error: &sqlx::Error) -> Option<i32> {
    let code = error.as_database_error().and_then(|error| error.code());
    code.and_then(|code| code.parse::<i32>().ok()).map(|code| code & 0xff)
}

/// Opens the pool for reading. Its connections follow the path to another file, and leave a server that became a standby.
fn readers(location: &Location, access: Access) -> Result<Pool, StoreError> {
    match location {
        Location::Sqlite(path) => {
            let watch = FileWatch::new(path).map_err(not_opened(path))?;
            let options = SqlitePoolOptions::new()
                .max_connections(SQLITE_READERS_MAX)
                .test_before_acquire(false)
                .before_acquire(move |_, idle| {
                    let is_current = watch.is_current(idle.age);
                    Box::pin(async move { Ok(is_current) })
                });
            Ok(Pool::Sqlite(
                options.connect_lazy_with(sqlite_options(path).read_only(true).pragma("cache_size", READER_CACHE_KIB)),
            ))
        }
        Location::Postgres(url) => {
            let options = PgPoolOptions::new().max_connections(POSTGRES_READERS_MAX).acquire_timeout(POSTGRES_TIMEOUT);
            let options = match access {
                // Commands that only read may use a standby.
                Access::ReadOnly => options,
                // In place of the pool's own test, which takes a round trip, too.
                Access::ReadWrite => options
                    .test_before_acquire(false)
                    .before_acquire(|connection, _| Box::pin(session::may_be_used(connection))),
            };
            Ok(Pool::Postgres(options.connect_lazy_with(postgres_options(url)?)))
        }
    }
}

fn sqlite_options(path: &Path) -> SqliteConnectOptions {
    SqliteConnectOptions::new().filename(path).busy_timeout(BUSY_TIMEOUT).disable_statement_logging()
}

pub(crate) fn postgres_options(url: &str) -> Result<PgConnectOptions, StoreError> {
    let options =
        PgConnectOptions::from_str(url).map_err(StoreError::while_trying("read the address of PostgreSQL"))?;
    Ok(options.application_name("mcpproxy").options(POSTGRES_SETTINGS).disable_statement_logging())
}

fn not_opened(path: &Path) -> impl Fn(io::Error) -> StoreError {
    move |source| StoreError::Open { path: path.to_owned(), source: Arc::new(source) }
}

/// A relative path could look like a `file:` URI of SQLite. An absolute path cannot.
fn absolute(location: &Location) -> Result<Location, StoreError> {
    match location {
        Location::Sqlite(path) => {
            let absolute: PathBuf = std::path::absolute(path).map_err(not_opened(path))?;
            Ok(Location::Sqlite(absolute))
        }
        Location::Postgres(_) => Ok(location.clone()),
    }
}

/// SQLite copies the permissions of the database to its WAL files, so the database must be private from its first byte.
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
            // Another process may have just closed the database and removed the WAL files.
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
