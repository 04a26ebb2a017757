//! The gateways that share a database: who runs, with which version and which files.
//!
//! A gateway renews its row every few seconds and removes it when it stops. A gateway that was killed leaves its row
//! behind. The row counts as lost when it is older than [`LOST_MS`], and is removed after [`KEPT_MS`]. All times are of the
//! database's clock.
//!
//! A SQLite database belongs to one gateway, so its table stays empty and nothing is written.

use crate::sql::columns::Columns;
use crate::sql::whole::SCHEMA;
use crate::sql::{Dialect, Row, Statement, Value};
use crate::{Store, StoreError};

/// A gateway that was silent for this time is lost.
const LOST_MS: i64 = 10_000;
/// A lost gateway is listed for this time.
const KEPT_MS: i64 = 3_600_000;
/// Rows of a list. A database supports 4,096 chains, one for each gateway that ever wrote to it.
const LISTED_MAX: usize = 4096;
const READING: &str = "list the gateways of the database";
const CHANGING: &str = "announce a gateway";

/// The words with which a gateway announces itself to the others.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Announcement {
    /// The chain of its log, which identifies its data folder.
    pub id: String,
    /// The name of its machine.
    pub name: String,
    pub address: String,
    pub version: String,
    /// Digests of what is in force.
    pub settings: String,
    pub contracts: String,
    pub policies: String,
}

/// A gateway as it announced itself last.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredMember {
    pub announced: Announcement,
    pub started_ms: i64,
    pub seen_ms: i64,
    /// True if it was silent for too long.
    pub is_lost: bool,
}

impl Store {
    /// Returns true if several gateways can share the database.
    pub fn is_shared(&self) -> bool {
        match self.database().dialect() {
            Dialect::Sqlite => false,
            Dialect::Postgres => true,
        }
    }

    /// Announces a gateway that has run for `uptime_ms`, or renews its row.
    pub async fn announce_member(&self, member: &Announcement, uptime_ms: i64) -> Result<(), StoreError> {
        if !self.is_shared() {
            return Ok(());
        }
        let now = Dialect::Postgres.now_ms();
        let sql = format!(
            "INSERT INTO gateways (id, name, address, version, settings, contracts, policies, started_ms, seen_ms, \
             database_version) \
             VALUES ($1, $2, $3, $4, $5, $6, $7, {now} - $8, {now}, $9) ON CONFLICT (id) DO UPDATE SET \
             name = excluded.name, address = excluded.address, version = excluded.version, settings = excluded.settings, \
             contracts = excluded.contracts, policies = excluded.policies, started_ms = excluded.started_ms, \
             seen_ms = excluded.seen_ms, database_version = excluded.database_version RETURNING id"
        );
        let Announcement { id, name, address, version, settings, contracts, policies } = member;
        let texts = [id, name, address, version, settings, contracts, policies].map(|text| Value::text(text));
        let values = texts.into_iter().chain([uptime_ms, SCHEMA].map(Value::int)).collect();
        // A pooled connection of PostgreSQL can write too. A new connection every few seconds would cost more than this row.
        self.database().fetch(Statement::new(sql, values), CHANGING).await.map(drop)
    }

    /// Lists the gateways that run or were lost lately, by name and address. Empty on SQLite.
    pub async fn list_members(&self) -> Result<Vec<StoredMember>, StoreError> {
        if !self.is_shared() {
            return Ok(Vec::new());
        }
        let now = Dialect::Postgres.now_ms();
        let sql = format!(
            "SELECT id, name, address, version, settings, contracts, policies, started_ms, seen_ms, {now} - seen_ms \
             FROM gateways WHERE seen_ms > {now} - $1 ORDER BY name, address, id LIMIT $2"
        );
        let values = vec![Value::int(KEPT_MS), Value::limit(LISTED_MAX)];
        let rows = self.database().fetch(Statement::new(sql, values), READING).await?;
        rows.iter().map(member).collect()
    }

    /// Removes the row of a gateway that stops.
    pub async fn remove_member(&self, id: &str) -> Result<(), StoreError> {
        if !self.is_shared() {
            return Ok(());
        }
        let statement = Statement::new("DELETE FROM gateways WHERE id = $1", vec![Value::text(id)]);
        self.database().change(statement, CHANGING).await.map(drop)
    }

    /// Removes gateways that were lost long ago. Returns their number.
    pub async fn remove_lost_members(&self) -> Result<u64, StoreError> {
        if !self.is_shared() {
            return Ok(0);
        }
        let sql = format!("DELETE FROM gateways WHERE seen_ms <= {} - $1", Dialect::Postgres.now_ms());
        self.database().change(Statement::new(sql, vec![Value::int(KEPT_MS)]), CHANGING).await
    }
}

fn member(row: &Row) -> Result<StoredMember, StoreError> {
    let columns = Columns::of(row, "a malformed row of a gateway");
    let announced = Announcement {
        id: columns.word(0)?,
        name: columns.word(1)?,
        address: columns.word(2)?,
        version: columns.word(3)?,
        settings: columns.word(4)?,
        contracts: columns.word(5)?,
        policies: columns.word(6)?,
    };
    let (started_ms, seen_ms) = (columns.number(7)?, columns.number(8)?);
    Ok(StoredMember { announced, started_ms, seen_ms, is_lost: columns.number(9)? > LOST_MS })
}
