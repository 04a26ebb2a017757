//! Tests for partitions of records, which only PostgreSQL has.

#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "a test that cannot go on should stop")]

#[path = "../common/mod.rs"]
mod common;
mod copying;
mod creating;
mod dropping;
mod reading;
mod upgrading;
mod writing;

use std::sync::LazyLock;
use std::time::Duration;

use common::{NO_RETENTION, Place, now_ms, refusal};
use mcpproxy_core::settings::Retention;
use mcpproxy_store::{Ledger, LedgerOptions, Location, NewRecord, Store, WaitFor};
use sqlx::{Connection as _, PgConnection};

const HOUR_MS: i64 = 3_600_000;
const DAY_MS: i64 = 24 * HOUR_MS;
const NONE: i64 = 1 << 50;
/// One hour for a whole test, also at the end of an hour.
static NOW_HOUR: LazyLock<i64> = LazyLock::new(|| now_ms() / HOUR_MS);
/// A partition is ten days long.
const AGE: Retention = Retention { records: Some(Duration::from_secs(120 * 24 * 3600)), ..NO_RETENTION };
/// The first partition ends within two hours, and the next one ten days later. Now both have expired. No record is a tenth
/// older than `AGE`.
const EXPIRED: i64 = 130 * 24 + 3;

/// The clock of a gateway, in hours from now.
fn ahead<const HOURS: i64>() -> i64 {
    now_ms() + HOURS * HOUR_MS
}

fn at(ahead_ms: i64, record: NewRecord) -> NewRecord {
    NewRecord { time_ms: now_ms() + ahead_ms, ..record }
}

async fn start(place: &Place, store: &Store, seed: u8, retention: Retention, now_ms: fn() -> i64) -> Ledger {
    let options = place.options(seed);
    let (newest_checkpoint, checkpoints_to) = (None, None);
    Ledger::start(store, LedgerOptions { newest_checkpoint, checkpoints_to, retention, now_ms, ..options })
        .await
        .unwrap()
}

/// Writes a record with a payload at each of these times.
async fn write(place: &Place, store: &Store, seed: u8, ahead_ms: &[i64]) {
    let ledger = start(place, store, seed, AGE, now_ms).await;
    for ms in ahead_ms {
        ledger.append(at(*ms, refusal(1)), WaitFor::Disk).await.unwrap();
    }
    ledger.finish().await.unwrap();
}

async fn count(place: &Place, table: &str) -> i64 {
    place.sql(&format!("SELECT count(*) FROM {table}")).await[0]
}

/// The bounds of all partitions in hours from now, in order. The first begins at no hour, and the last has no end.
async fn bounds(place: &Place) -> Vec<(Option<i64>, Option<i64>)> {
    let bound = |side: &str, none: i64| {
        format!(
            "SELECT coalesce((CAST((regexp_match(b, $${side} \\('(\\d+)'\\)$$))[1] AS bigint) >> 21) / 3600000, {none}) FROM \
             (SELECT pg_get_expr(c.relpartbound, c.oid) AS b FROM pg_inherits JOIN pg_class AS c ON c.oid = inhrelid \
             WHERE inhparent = CAST('records' AS regclass)) AS bounds ORDER BY 1"
        )
    };
    let relative = |hour: i64| (hour.abs() < NONE).then_some(hour - *NOW_HOUR);
    let (from, to) = (place.sql(&bound("FROM", -NONE)).await, place.sql(&bound("TO", NONE)).await);
    from.into_iter().map(relative).zip(to.into_iter().map(relative)).collect()
}

async fn connect(place: &Place) -> PgConnection {
    let Location::Postgres(url) = &place.location else { panic!("PostgreSQL") };
    PgConnection::connect(url).await.unwrap()
}
