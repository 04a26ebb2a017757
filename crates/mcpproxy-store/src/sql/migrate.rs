//! Upgrades a database to the current schema version, or rejects a newer one.
//!
//! The schema is written once, in the dialect of SQLite. `for_postgres` translates the few words that differ. Each file
//! in `schema/` raises the version by one and ends with the statement that says so. To change the schema, add a file
//! and list it in `STEPS`; never change an existing one. A step that SQLite cannot follow has a second file of the same
//! name in `schema_postgres/`, in the dialect of PostgreSQL. Both must leave the same tables with the same columns.

use std::borrow::Cow;

use super::driver::{Connection, Dialect, Statement};
use crate::{Location, StoreError};

/// Step `n` upgrades to version `n + 1`.
const STEPS: &[Step] = &[
    Step::Same(include_str!("schema/0001_tokens_and_records.sql")),
    Step::Same(include_str!("schema/0002_approvals_and_users.sql")),
    Step::Same(include_str!("schema/0003_fewer_index_entries.sql")),
    Step::Same(include_str!("schema/0004_marked_counts.sql")),
    Step::Same(include_str!("schema/0005_operator_files.sql")),
    Step::Same(include_str!("schema/0006_attempts.sql")),
    Step::Same(include_str!("schema/0007_pins.sql")),
    Step::Same(include_str!("schema/0008_people.sql")),
    Step::Same(include_str!("schema/0009_server_sign_ins.sql")),
    Step::Same(include_str!("schema/0010_cluster.sql")),
    Step::Same(include_str!("schema/0011_agent_sessions.sql")),
    Step::Same(include_str!("schema/0012_exports.sql")),
    Step::Same(include_str!("schema/0013_tool_vectors.sql")),
    Step::Same(include_str!("schema/0014_series.sql")),
    Step::Same(include_str!("schema/0015_search.sql")),
    Step::Same(include_str!("schema/0016_series_index.sql")),
    Step::Differs {
        sqlite: include_str!("schema/0017_payload_partitions.sql"),
        postgres: include_str!("schema_postgres/0017_payload_partitions.sql"),
    },
    Step::Same(include_str!("schema/0018_config_versions.sql")),
    Step::Differs {
        sqlite: include_str!("schema/0019_record_partitions.sql"),
        postgres: include_str!("schema_postgres/0019_record_partitions.sql"),
    },
];
pub(super) const KNOWN: i64 = STEPS.len() as i64;
const DOING: &str = "upgrade the database schema";
/// An arbitrary number that all gateways share.
pub(super) const POSTGRES_LOCK: &str = "SELECT pg_advisory_xact_lock(7163470112)";

/// The text that raises the schema version by one.
enum Step {
    /// One text for both databases.
    Same(&'static str),
    Differs {
        sqlite: &'static str,
        postgres: &'static str,
    },
}

impl Step {
    fn text(&self, dialect: Dialect) -> Cow<'static, str> {
        match (self, dialect) {
            (Self::Same(text), Dialect::Postgres) => for_postgres(text).into(),
            (Self::Same(text) | Self::Differs { sqlite: text, .. }, Dialect::Sqlite) => (*text).into(),
            (Self::Differs { postgres: text, .. }, Dialect::Postgres) => (*text).into(),
        }
    }
}

pub(super) async fn run(connection: &mut Connection, location: &Location) -> Result<(), StoreError> {
    if version(connection).await? == KNOWN {
        return Ok(());
    }
    let failed = StoreError::while_trying(DOING);
    // If two processes upgrade at once, the second waits and finds the work done. A new index of a large table is sorted
    // in files, because it may not fit into memory.
    match connection.dialect() {
        Dialect::Sqlite => connection.run("PRAGMA temp_store = FILE; BEGIN IMMEDIATE").await.map_err(&failed)?,
        Dialect::Postgres => connection.run(&format!("BEGIN; {POSTGRES_LOCK}")).await.map_err(&failed)?,
    }
    let outcome = steps(connection, location).await;
    let end = if outcome.is_ok() { "COMMIT" } else { "ROLLBACK" };
    let ended = connection.run(end).await.map_err(&failed);
    if connection.dialect() == Dialect::Sqlite {
        connection.run("PRAGMA temp_store = MEMORY").await.map_err(&failed)?;
    }
    outcome.and(ended)
}

/// Upgrades to the current version, in a transaction that has begun.
pub(super) async fn steps(connection: &mut Connection, location: &Location) -> Result<(), StoreError> {
    let found = version(connection).await?;
    if found > KNOWN {
        return Err(StoreError::Newer { location: location.clone(), found, known: KNOWN });
    }
    if found < 0 {
        return Err(StoreError::HalfCopied { location: location.clone() });
    }
    create(connection, KNOWN).await
}

/// Upgrades to a version that this program knows, or creates it, in a transaction that has begun.
pub(super) async fn create(connection: &mut Connection, target: i64) -> Result<(), StoreError> {
    if connection.dialect() == Dialect::Postgres {
        check_encoding(connection).await?;
    }
    let found = usize::try_from(version(connection).await?).unwrap_or(0);
    for step in STEPS.iter().take(usize::try_from(target).unwrap_or(0)).skip(found) {
        let text = step.text(connection.dialect());
        connection.run(&text).await.map_err(StoreError::while_trying(DOING))?;
    }
    Ok(())
}

/// Other encodings cannot store every text that an agent may send.
async fn check_encoding(connection: &mut Connection) -> Result<(), StoreError> {
    let failed = StoreError::while_trying("use the database");
    let rows = connection.fetch(Statement::plain("SHOW server_encoding")).await.map_err(&failed)?;
    let encoding = rows.first().map(|row| row.text(0)).transpose().map_err(&failed)?.flatten().unwrap_or_default();
    if encoding == "UTF8" {
        return Ok(());
    }
    let reason = format!("the encoding of the database is {encoding}, but must be UTF8");
    Err(failed(sqlx::Error::Configuration(reason.into())))
}

/// Checks the version for a read-only connection, which cannot upgrade.
pub(super) async fn check(connection: &mut Connection, location: &Location) -> Result<(), StoreError> {
    match version(connection).await? {
        found if found > KNOWN => Err(StoreError::Newer { location: location.clone(), found, known: KNOWN }),
        0 => Err(StoreError::NotReady { location: location.clone() }),
        ..0 => Err(StoreError::HalfCopied { location: location.clone() }),
        found if found < KNOWN => Err(StoreError::Older { location: location.clone(), found, known: KNOWN }),
        _ => Ok(()),
    }
}

/// Reads the schema version. It is 0 without tables, and negative while a copy into the database has not finished.
pub(super) async fn version(connection: &mut Connection) -> Result<i64, StoreError> {
    let failed = StoreError::while_trying("read the schema version of the database");
    let exists = match connection.dialect() {
        Dialect::Sqlite => "SELECT count(*) FROM sqlite_master WHERE name = 'schema_version'",
        Dialect::Postgres => {
            "SELECT count(*) FROM pg_tables WHERE tablename = 'schema_version' AND schemaname = ANY(current_schemas(false))"
        }
    };
    let rows = connection.fetch(Statement::plain(exists)).await.map_err(&failed)?;
    if rows.first().map(|row| row.int(0)).transpose().map_err(&failed)?.flatten() != Some(1) {
        return Ok(0);
    }
    let rows = connection.fetch(Statement::plain("SELECT version FROM schema_version")).await.map_err(&failed)?;
    Ok(rows.first().map(|row| row.int(0)).transpose().map_err(&failed)?.flatten().unwrap_or(0))
}

fn for_postgres(step: &str) -> String {
    let words = [
        (") STRICT, WITHOUT ROWID;", ");"),
        (") STRICT;", ");"),
        (" INTEGER", " BIGINT"),
        (" BLOB", " BYTEA"),
        // Compares bytes, whatever the locale of the database.
        (" COLLATE BINARY", " COLLATE \"C\""),
    ];
    words.into_iter().fold(step.to_owned(), |text, (ours, theirs)| text.replace(ours, theirs))
}

#[cfg(test)]
mod tests {
    use sqlx::{Connection as _, SqliteConnection};

    use super::*;

    /// The schema version before the newest steps. Raise it to the version of each release.
    const PREVIOUS: usize = 13;

    #[tokio::test]
    async fn each_step_sets_its_version() {
        let connection = SqliteConnection::connect("sqlite::memory:").await.unwrap();
        let mut connection = Connection::Sqlite(Box::new(connection));
        for (index, step) in STEPS.iter().enumerate() {
            connection.run(&step.text(Dialect::Sqlite)).await.unwrap();
            assert_eq!(version(&mut connection).await.unwrap(), index as i64 + 1);
        }
    }

    /// The writer's small journals stay in memory after an upgrade.
    #[tokio::test]
    async fn an_upgrade_leaves_temporary_tables_in_memory() {
        let connection = SqliteConnection::connect("sqlite::memory:").await.unwrap();
        let mut connection = Connection::Sqlite(Box::new(connection));
        run(&mut connection, &Location::Sqlite("memory".into())).await.unwrap();
        let rows = connection.fetch(Statement::plain("PRAGMA temp_store")).await.unwrap();
        assert_eq!(rows[0].int(0).unwrap(), Some(2), "2 is MEMORY");
    }

    /// During a rolling update, gateways of the previous version go on after the first gateway of this version has
    /// upgraded the database. So the newest steps may only add: tables, indexes for speed, and columns that may be empty.
    /// The effect of a step with PostgreSQL alone needs a test of its own, such as `tests/partitions.rs`.
    #[test]
    fn the_newest_steps_leave_the_previous_version_working() {
        let newest = STEPS.get(PREVIOUS..).unwrap();
        assert!(!newest.is_empty());
        let texts: Vec<_> = newest.iter().map(|step| step.text(Dialect::Sqlite)).collect();
        let lines = texts.iter().flat_map(|text| text.lines());
        let text = lines.map(|line| line.split("--").next().unwrap()).collect::<Vec<_>>().join("\n");
        for statement in text.split(';').map(str::trim).filter(|statement| !statement.is_empty()) {
            let begins = |words: &str| statement.starts_with(words);
            let adds_column =
                begins("ALTER TABLE") && statement.contains(" ADD COLUMN ") && !statement.contains("NOT NULL");
            let is_safe = begins("CREATE TABLE") || begins("CREATE INDEX") || begins("UPDATE schema_version");
            assert!(is_safe || adds_column, "{statement}");
        }
    }
}
