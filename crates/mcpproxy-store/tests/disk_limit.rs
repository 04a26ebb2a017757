//! Tests for `limits.disk`: a database that reaches its limit refuses new records, and still takes the ends of open ones.

#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "a test that cannot go on should stop")]

mod common;

use common::{Place, all, call, payload, refusal, success, until, verified};
use mcpproxy_store::{Health, NewRecord, Status, StoreError, WaitFor};

const MIB: u64 = 1024 * 1024;
/// Of this, 8 MiB are the reserve.
const LIMIT: u64 = 20 * MIB;
const RECORDS_MAX: u32 = 2_000;

#[tokio::test]
async fn a_full_database_still_ends_what_was_begun() {
    let place = Place::sqlite();
    let (store, ledger) = place.open().await;
    ledger.limit_disk(LIMIT);
    let open = ledger.open(call(1), WaitFor::Disk).await.unwrap();
    let mut n = 1;
    let refused = loop {
        n += 1;
        assert!(n < RECORDS_MAX, "the limit is reached");
        let large = NewRecord { args: Some(payload(&"x".repeat(60_000))), ..refusal(n) };
        if let Err(error) = ledger.append(large, WaitFor::Disk).await {
            break error;
        }
    };
    assert!(matches!(refused, StoreError::DiskLimit), "{refused:?}");
    assert!(matches!(ledger.open(call(n), WaitFor::Disk).await, Err(StoreError::DiskLimit)));
    assert!(matches!(ledger.health(), Health::Failing { reason, .. } if reason.contains("limits.disk")));
    let id = open.id();
    ledger.close(open, success(), WaitFor::Disk).await.unwrap();
    let ended = all(&store).await.into_iter().find(|record| record.id == id).unwrap();
    assert_eq!(ended.status, Status::Success);
    assert!(ended.result.is_some(), "the size and digest of the result are kept");

    ledger.limit_disk(1024 * MIB);
    until("the log is well", async || ledger.health() == Health::Well).await;
    ledger.append(refusal(n), WaitFor::Disk).await.unwrap();
    ledger.finish().await.unwrap();
    verified(&store).await;
}

/// PostgreSQL frees space only when it is vacuumed, so its size says little.
#[tokio::test]
async fn a_shared_database_is_not_measured() {
    let place = Place::postgres();
    let (_store, ledger) = place.open().await;
    ledger.limit_disk(1);
    ledger.append(refusal(1), WaitFor::Disk).await.unwrap();
    ledger.append(refusal(2), WaitFor::Disk).await.unwrap();
    ledger.finish().await.unwrap();
}
