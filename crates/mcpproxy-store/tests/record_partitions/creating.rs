//! Partitions exist before records need them, and no record is without one.

use std::time::Duration;

use super::common::{NO_RETENTION, Place, all, now_ms, refusal, verified};
use super::{AGE, DAY_MS, HOUR_MS, ahead, at, bounds, count, start, write};
use mcpproxy_core::settings::Retention;
use mcpproxy_store::WaitFor;

const YEARS_20: i64 = 20 * 365 * 24;

/// Checks that there is a place for every key, once.
fn check_no_gap(bounds: &[(Option<i64>, Option<i64>)]) {
    assert_eq!((bounds[0].0, bounds[bounds.len() - 1].1), (None, None), "{bounds:?}");
    for pair in bounds.windows(2) {
        assert!(pair[0].1.is_some() && pair[0].1 == pair[1].0, "{bounds:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn partitions_are_created_ahead() {
    let place = Place::postgres();
    let store = place.store().await;
    start(&place, &store, 1, AGE, now_ms).await.finish().await.unwrap();
    let before = bounds(&place).await;
    check_no_gap(&before);
    assert_eq!(before.len(), 3, "the first, the next, and the last: {before:?}");
    assert!(before[2].0.unwrap() >= 240, "{before:?}");

    start(&place, &store, 1, AGE, ahead::<{ 9 * 24 }>).await.finish().await.unwrap();
    let after = bounds(&place).await;
    check_no_gap(&after);
    assert_eq!((after.len(), &after[..2]), (4, &before[..2]), "{after:?}");
    assert!(after[3].0.unwrap() >= (9 + 10) * 24, "{after:?}");
    // No gateway ran for a year, and another one keeps records for hours.
    let short = Retention { records: Some(Duration::from_secs(12 * 3600)), ..NO_RETENTION };
    start(&place, &store, 2, short, ahead::<{ 365 * 24 }>).await.finish().await.unwrap();
    let later = bounds(&place).await;
    check_no_gap(&later);
    let new: Vec<_> = later[3..later.len() - 1].iter().map(|(from, to)| to.unwrap() - from.unwrap()).collect();
    assert!(new.len() == 2 && new[0] > 300 * 24 && new[1] == 1, "{new:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_clock_that_jumps_loses_no_record() {
    let place = Place::postgres();
    let store = place.store().await;
    write(&place, &store, 1, &[0, YEARS_20 * HOUR_MS]).await;
    assert_eq!((count(&place, "records").await, count(&place, "records_last").await), (2, 1));
    let before = all(&store).await;
    // Other gateways go on in the present, and get partitions.
    start(&place, &store, 2, AGE, ahead::<{ 9 * 24 }>).await.finish().await.unwrap();
    check_no_gap(&bounds(&place).await);
    assert_eq!((bounds(&place).await.len(), count(&place, "records_last").await), (4, 1));
    // Its hour comes.
    start(&place, &store, 2, AGE, ahead::<{ YEARS_20 + 1 }>).await.finish().await.unwrap();
    check_no_gap(&bounds(&place).await);
    assert_eq!((count(&place, "records").await, count(&place, "records_last").await), (2, 0));
    assert_eq!(all(&store).await, before);
    verified(&store).await;
}

/// A long transaction may keep partitions from being created for as long as one of them is.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_records_without_a_partition_keep_their_table() {
    const LATE: u32 = 10_001;
    let place = Place::postgres();
    let store = place.store().await;
    let ledger = start(&place, &store, 1, AGE, now_ms).await;
    ledger.append(at(0, refusal(1)), WaitFor::Disk).await.unwrap();
    for _ in 0..LATE {
        while ledger.append(at(11 * DAY_MS, refusal(1)), WaitFor::Queue).await.is_err() {}
    }
    ledger.finish().await.unwrap();
    assert_eq!(count(&place, "records_last").await, i64::from(LATE));
    let table = "SELECT CAST(relfilenode AS bigint) FROM pg_class WHERE oid = \
                 (SELECT tableoid FROM records ORDER BY key DESC LIMIT 1)";
    let before = place.sql(table).await;
    start(&place, &store, 1, AGE, ahead::<{ 12 * 24 }>).await.finish().await.unwrap();
    check_no_gap(&bounds(&place).await);
    assert_eq!(count(&place, "records_last").await, 0);
    assert_eq!(place.sql(table).await, before, "no row was copied");
    verified(&store).await;
}
