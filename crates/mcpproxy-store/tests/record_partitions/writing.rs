//! Two writers with the same key cannot both go on, also if their records are in different partitions.

use super::common::{NO_RETENTION, Place, now_ms, refusal, verified};
use super::{AGE, DAY_MS, at, count, start, write};
use mcpproxy_store::{Ledger, LedgerOptions, Store, WaitFor};

/// A place whose database has no advisory locks, as behind a connection pooler that shares sessions.
async fn without_locks() -> Place {
    let place = Place::postgres();
    place
        .sql(
            "CREATE FUNCTION public.pg_try_advisory_lock(integer, integer) RETURNS boolean \
             LANGUAGE sql AS 'SELECT true'; \
             DO $$ BEGIN EXECUTE format('ALTER DATABASE %I SET search_path = public, pg_catalog', current_database()); END $$",
        )
        .await;
    place
}

/// Starts with the checkpoint of no data folder, as with a copy of one.
async fn start_copy(place: &Place, store: &Store) -> Ledger {
    start(place, store, 1, AGE, now_ms).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_writers_with_the_same_key_cannot_both_go_on() {
    let place = without_locks().await;
    let store = place.store().await;
    write(&place, &store, 1, &[0]).await;
    let first = start_copy(&place, &store).await;
    let second = start_copy(&place, &store).await;
    second.append(at(DAY_MS, refusal(1)), WaitFor::Disk).await.unwrap();
    // In another partition, so no index sees that the position is taken.
    let error = first.append(at(0, refusal(2)), WaitFor::Disk).await.err().unwrap();
    assert_eq!(error.to_string(), "could not write to the activity log");
    second.append(at(DAY_MS, refusal(3)), WaitFor::Disk).await.unwrap();
    assert_eq!((count(&place, "records_first").await, count(&place, "records").await), (1, 3));
    assert!(first.finish().await.is_err());
    second.finish().await.unwrap();
    assert_eq!((count(&place, "records").await, verified(&store).await), (3, 3));
}

/// Both write as fast as they can, and each record that one of them acknowledged is in the chain.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_race_of_two_writers_forks_no_chain() {
    let place = without_locks().await;
    let store = place.store().await;
    write(&place, &store, 1, &[0]).await;
    let (first, second) = (start_copy(&place, &store).await, start_copy(&place, &store).await);
    let race = async |ledger: Ledger, ahead_ms: i64| {
        let mut written = 0;
        for n in 0..30 {
            written += i64::from(ledger.append(at(ahead_ms, refusal(n)), WaitFor::Disk).await.is_ok());
        }
        (written, ledger.finish().await.is_ok())
    };
    let (one, other) = tokio::join!(race(first, 0), race(second, DAY_MS));
    assert!(one.1 != other.1, "one of them goes on: {one:?} {other:?}");
    let records = count(&place, "records").await;
    assert_eq!(records, 1 + one.0 + other.0, "{one:?} {other:?}");
    assert_eq!(verified(&store).await, records);
    let positions = place.sql("SELECT count(DISTINCT seq) FROM records").await;
    assert_eq!(positions, [records]);
}

/// The position of the writer is not part of a copy of the database.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_chain_goes_on_from_where_it_is() {
    let place = Place::postgres();
    let store = place.store().await;
    write(&place, &store, 1, &[0, 0]).await;
    for change in ["DELETE FROM chain_heads", "UPDATE chain_heads SET seq = 77", "UPDATE chain_heads SET seq = 0"] {
        place.sql(change).await;
        let before = count(&place, "records").await;
        write(&place, &store, 1, &[0]).await;
        assert_eq!(verified(&store).await, before + 1, "{change}");
        assert_eq!(place.sql("SELECT seq FROM chain_heads").await, [before + 1]);
    }
    // Somebody else moved it while the gateway runs.
    let options = LedgerOptions { retention: NO_RETENTION, newest_checkpoint: None, ..place.options(1) };
    let ledger = Ledger::start(&store, options).await.unwrap();
    place.sql("UPDATE chain_heads SET seq = seq + 1").await;
    ledger.append(refusal(1), WaitFor::Disk).await.err().unwrap();
    assert_eq!(verified(&store).await, 5);
}
