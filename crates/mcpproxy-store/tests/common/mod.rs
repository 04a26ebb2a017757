//! Test fixtures for the store. Every test runs on SQLite and on PostgreSQL.

#![allow(dead_code, clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "each test uses a part of this")]

pub(crate) mod asking;
pub(crate) mod facts;
pub(crate) mod filled;
pub(crate) mod pins;
pub(crate) mod postgres;
pub(crate) mod relay;
pub(crate) mod tampering;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use mcpproxy_core::settings::Retention;
use mcpproxy_core::{Variant, mask};
use mcpproxy_store::{
    Filter, Kind, Ledger, LedgerOptions, Location, NewRecord, Outcome, Payload, Record, SigningKey, Status, Store,
    VerifyOptions,
};
use postgres::Cluster;
use sqlx::sqlite::SqliteConnectOptions;
use sqlx::{AssertSqlSafe, ConnectOptions as _, Connection as _, Row as _};

/// Creates a test for each database from every named function. A function that is not named is dead code, which the
/// compiler reports.
#[macro_export]
macro_rules! on_both {
    ($($name:ident),+ $(,)?) => {
        mod sqlite {
            $(
                #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
                async fn $name() {
                    super::$name(&super::common::Place::sqlite()).await;
                }
            )+
        }
        mod postgres {
            $(
                #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
                async fn $name() {
                    super::$name(&super::common::Place::postgres()).await;
                }
            )+
        }
    };
}

/// An empty database, and a data folder beside it.
pub(crate) struct Place {
    pub(crate) location: Location,
    pub(crate) folder: tempfile::TempDir,
    pub(crate) cluster: Option<Arc<Cluster>>,
}

pub(crate) const NO_RETENTION: Retention = Retention { payloads: None, payload_bytes: None, records: None };
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);

/// Returns the location for a child process of a test.
pub(crate) fn location(address: &str) -> Location {
    if address.starts_with("postgres://") {
        Location::Postgres(address.to_owned())
    } else {
        Location::Sqlite(address.into())
    }
}

impl Place {
    pub(crate) fn sqlite() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let location = Location::Sqlite(folder.path().join("mcpproxy.db"));
        Self { location, folder, cluster: None }
    }

    pub(crate) fn postgres() -> Self {
        Self::on(Cluster::shared())
    }

    pub(crate) fn on(cluster: Arc<Cluster>) -> Self {
        let folder = tempfile::tempdir().unwrap();
        Self { location: Location::Postgres(cluster.new_database("")), folder, cluster: Some(cluster) }
    }

    pub(crate) async fn store(&self) -> Store {
        Store::open(&self.location).await.unwrap()
    }

    /// Opens the chain of the first key, with the checkpoint files of this folder.
    pub(crate) async fn ledger(&self, store: &Store) -> Ledger {
        Ledger::start(store, self.options(1)).await.unwrap()
    }

    pub(crate) async fn open(&self) -> (Store, Ledger) {
        let store = self.store().await;
        let ledger = self.ledger(&store).await;
        (store, ledger)
    }

    pub(crate) fn options(&self, seed: u8) -> LedgerOptions {
        LedgerOptions {
            key: key(seed),
            newest_checkpoint: Some(self.newest_checkpoint()),
            checkpoints_to: Some(self.all_checkpoints()),
            retention: NO_RETENTION,
            // Long enough for a machine that is busy with other tests.
            patience: Duration::from_secs(20),
            now_ms,
        }
    }

    pub(crate) fn newest_checkpoint(&self) -> PathBuf {
        self.folder.path().join("checkpoint.txt")
    }

    pub(crate) fn all_checkpoints(&self) -> PathBuf {
        self.folder.path().join("all.txt")
    }

    /// Runs statements directly on the database, and returns the numbers in the first column of the result.
    pub(crate) async fn sql(&self, sql: &str) -> Vec<i64> {
        match (&self.location, &self.cluster) {
            (Location::Sqlite(path), _) => sqlite(path, sql).await,
            (Location::Postgres(url), Some(cluster)) => {
                let name = url.rsplit('/').next().unwrap().split('?').next().unwrap();
                let printed = cluster.sql(name, sql);
                printed.lines().filter_map(|line| line.split('|').next().unwrap().parse().ok()).collect()
            }
            (Location::Postgres(_), None) => panic!("a database without its server"),
        }
    }

    /// Puts the records into one table, as they were before schema version 19.
    pub(crate) async fn undo_record_partitions(&self) {
        if self.cluster.is_some() {
            self.sql(
                "CREATE TABLE whole (LIKE records INCLUDING DEFAULTS);
                 INSERT INTO whole SELECT * FROM records;
                 DROP TABLE records;
                 ALTER TABLE whole RENAME TO records;
                 ALTER TABLE records ADD CONSTRAINT records_pkey PRIMARY KEY (key);
                 CREATE UNIQUE INDEX records_seq ON records (chain, seq);
                 CREATE UNIQUE INDEX records_end_seq ON records (chain, end_seq) WHERE end_seq IS NOT NULL;
                 CREATE INDEX records_intent_type ON records (intent_type, key) WHERE intent_type <> 'read';
                 CREATE INDEX records_server ON records (server, key) WHERE server IS NOT NULL;
                 CREATE INDEX records_tool ON records (tool, key) WHERE tool IS NOT NULL;
                 CREATE INDEX records_agent ON records (agent, key) WHERE agent IS NOT NULL;
                 CREATE INDEX records_risk ON records (risk, key) WHERE risk <> 'low';
                 CREATE INDEX records_kind ON records (kind, key) WHERE kind <> 'call';
                 CREATE INDEX records_status ON records (status, key) WHERE status <> 'success';",
            )
            .await;
        }
        self.sql("DROP TABLE chain_heads; DROP TABLE planned_removals; UPDATE schema_version SET version = 18").await;
    }

    /// Puts records and payloads into one table each, as they were before schema version 17.
    pub(crate) async fn undo_partitions(&self) {
        self.undo_record_partitions().await;
        if self.cluster.is_some() {
            self.sql(
                "CREATE TABLE whole (key BIGINT PRIMARY KEY, args TEXT, result TEXT);
                 INSERT INTO whole SELECT key, args, result FROM payloads;
                 DROP TABLE payloads;
                 ALTER TABLE whole RENAME TO payloads;",
            )
            .await;
        }
    }

    /// Makes every write fail, as a full disk does, until `mend_log`.
    pub(crate) async fn break_log(&self) {
        for table in ["records", "chains"] {
            let sql = match self.location {
                Location::Sqlite(_) => format!(
                    "CREATE TRIGGER broken_insert_{table} BEFORE INSERT ON {table} BEGIN SELECT raise(ABORT, 'full'); END;
                     CREATE TRIGGER broken_update_{table} BEFORE UPDATE ON {table} BEGIN SELECT raise(ABORT, 'full'); END;"
                ),
                Location::Postgres(_) => format!(
                    "CREATE OR REPLACE FUNCTION broken() RETURNS trigger LANGUAGE plpgsql AS \
                     $$ BEGIN RAISE EXCEPTION 'full'; END $$;
                     CREATE TRIGGER broken_{table} BEFORE INSERT OR UPDATE ON {table} EXECUTE FUNCTION broken();"
                ),
            };
            self.sql(&sql).await;
        }
    }

    pub(crate) async fn mend_log(&self) {
        for table in ["records", "chains"] {
            let sql = match self.location {
                Location::Sqlite(_) => {
                    format!("DROP TRIGGER broken_insert_{table}; DROP TRIGGER broken_update_{table}")
                }
                Location::Postgres(_) => format!("DROP TRIGGER broken_{table} ON {table}"),
            };
            self.sql(&sql).await;
        }
    }
}

async fn sqlite(path: &Path, sql: &str) -> Vec<i64> {
    let options = SqliteConnectOptions::new().filename(path).busy_timeout(Duration::from_secs(10));
    let mut connection = options.connect().await.unwrap();
    let rows = sqlx::raw_sql(AssertSqlSafe(sql.to_owned())).fetch_all(&mut connection).await.unwrap();
    connection.close().await.unwrap();
    rows.iter().filter_map(|row| row.try_get::<i64, _>(0).ok()).collect()
}

pub(crate) fn key(seed: u8) -> SigningKey {
    SigningKey::from_seed(&[seed; 32]).unwrap()
}

pub(crate) fn now_ms() -> i64 {
    i64::try_from(SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_millis()).unwrap()
}

pub(crate) fn payload(text: &str) -> Payload {
    Payload::of(mask(text, &[]), text.len())
}

/// Returns a call in second `n`.
pub(crate) fn call(n: u32) -> NewRecord {
    NewRecord {
        time_ms: 1_700_000_000_000 + i64::from(n) * 1_000,
        random: n.into(),
        kind: Kind::Call,
        status: Status::Started,
        agent: Some("local".into()),
        client: Some("cursor 1.2".into()),
        server: Some("mail".into()),
        tool: Some("send".into()),
        is_known_tool: true,
        intent_type: Some(Variant::Write),
        risk: None,
        code: None,
        message: None,
        duration_us: None,
        metadata: r#"{"tool_variant":"call_tool_write"}"#.into(),
        args: Some(payload(r#"{"to":"you"}"#)),
    }
}

pub(crate) fn refusal(n: u32) -> NewRecord {
    NewRecord { kind: Kind::Refusal, status: Status::Refused, code: Some("intent_mismatch".into()), ..call(n) }
}

pub(crate) fn success() -> Outcome {
    Outcome { duration_us: Some(1_234_567), result: Some(payload("sent")), ..Outcome::bare(Status::Success) }
}

/// Returns all records, oldest first.
pub(crate) async fn all(store: &Store) -> Vec<Record> {
    let mut records = Vec::new();
    let mut before = None;
    loop {
        let page = store.list(&Filter::default(), before, 500).await.unwrap();
        records.extend(page.records);
        before = page.next;
        if before.is_none() {
            records.reverse();
            return records;
        }
    }
}

pub(crate) async fn statuses(store: &Store) -> Vec<Status> {
    all(store).await.iter().map(|record| record.status).collect()
}

/// Waits until a condition holds, up to a time limit.
pub(crate) async fn until(what: &str, is_so: impl AsyncFn() -> bool) {
    let asked = async {
        while !is_so().await {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    assert!(tokio::time::timeout(PATIENCE, asked).await.is_ok(), "it never came to pass: {what}");
}

/// Checks that all chains are intact, and returns the number of lines checked.
pub(crate) async fn verified(store: &Store) -> i64 {
    let verdicts = store.verify(VerifyOptions::default(), &mut |_| {}).await.unwrap();
    for verdict in &verdicts {
        assert_eq!(verdict.damage, None, "{verdict:?}");
    }
    verdicts.iter().map(|verdict| verdict.lines).sum()
}
