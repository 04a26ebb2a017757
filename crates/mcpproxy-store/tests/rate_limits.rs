//! Tests for rate limits that several gateways count together.

#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "a test that cannot go on should stop")]

mod common;

use std::time::Duration;

use common::asking::{approved, calls, consume, race, take_claim, take_steps};
use common::{Place, verified};
use mcpproxy_core::ToolName;
use mcpproxy_core::contract::RateLimit;
use mcpproxy_store::{Conditional, Ledger, Status, Step, Store};

on_both!(
    gateways_share_a_limit_that_a_restart_keeps,
    a_refused_call_uses_nothing_and_a_counted_one_is_recorded,
    a_changed_limit_counts_calls_already_made,
    room_comes_back_with_time_and_old_calls_are_removed,
);

const HOUR: Duration = Duration::from_secs(3600);

fn name(tool: &str) -> ToolName {
    ToolName::parse(tool).unwrap()
}

fn limit(calls: u32, per: Duration) -> RateLimit {
    RateLimit { calls, per }
}

fn count(calls: u32, per: Duration) -> Step {
    Step::CountCall { tool: name("mail:send"), limit: limit(calls, per) }
}

async fn wait_ms(store: &Store, calls: u32, per: Duration) -> Option<u64> {
    store.rate_wait_ms(&name("mail:send"), limit(calls, per)).await.unwrap()
}

async fn gateways_share_a_limit_that_a_restart_keeps(place: &Place) {
    let (store, first) = place.open().await;
    let second = Ledger::start(&store, place.options(2)).await.unwrap();
    let third = Ledger::start(&store, place.options(3)).await.unwrap();
    assert_eq!(wait_ms(&store, 5, HOUR).await, None);
    assert_eq!(race(&[&first, &second, &third], 20, || vec![count(5, HOUR)]).await, 5);
    assert_eq!(calls(&store).await, [Status::Success; 5], "a refused call leaves no record of a start");
    let wait = wait_ms(&store, 5, HOUR).await.unwrap();
    assert!((3_500_000..=3_600_000).contains(&wait), "{wait}");
    assert_eq!(store.approvals_version().await.unwrap(), 0, "a counted call changes no approval");
    first.finish().await.unwrap();
    second.finish().await.unwrap();
    third.finish().await.unwrap();
    store.close().await;

    let (store, again) = place.open().await;
    assert_eq!(race(&[&again], 5, || vec![count(5, HOUR)]).await, 0);
    assert_eq!(take_steps(&again, vec![count(5, HOUR)]).await.written(), None);
    let other = Step::CountCall { tool: name("mail:read"), limit: limit(5, HOUR) };
    assert!(take_steps(&again, vec![other]).await.is_written(), "each tool has its own limit");
    verified(&store).await;
}

async fn a_refused_call_uses_nothing_and_a_counted_one_is_recorded(place: &Place) {
    let (store, ledger) = place.open().await;
    approved(&ledger, 1).await;
    assert!(take_steps(&ledger, vec![take_claim("k"), count(2, HOUR)]).await.is_written());
    // The key is taken, so the call is not counted.
    assert_eq!(take_steps(&ledger, vec![take_claim("k"), count(2, HOUR)]).await, Conditional::Conflict { step: 0 });
    assert_eq!(wait_ms(&store, 2, HOUR).await, None);
    assert!(take_steps(&ledger, vec![count(2, HOUR)]).await.is_written());
    // The limit is used up, so the approval stays.
    assert_eq!(take_steps(&ledger, vec![consume(1), count(2, HOUR)]).await, Conditional::Conflict { step: 1 });
    assert!(take_steps(&ledger, vec![consume(1), count(3, HOUR)]).await.is_written());
    verified(&store).await;
}

async fn a_changed_limit_counts_calls_already_made(place: &Place) {
    let (store, ledger) = place.open().await;
    for _ in 0..5 {
        assert!(take_steps(&ledger, vec![count(5, HOUR)]).await.is_written());
    }
    assert!(wait_ms(&store, 1, HOUR).await.is_some());
    assert!(!take_steps(&ledger, vec![count(3, HOUR)]).await.is_written());
    assert!(take_steps(&ledger, vec![count(6, HOUR)]).await.is_written());
    assert!(!take_steps(&ledger, vec![count(6, HOUR)]).await.is_written());
    assert_eq!(place.sql("SELECT count(*) FROM rate_calls").await, [6]);
}

async fn room_comes_back_with_time_and_old_calls_are_removed(place: &Place) {
    let (store, ledger) = place.open().await;
    let minute = Duration::from_secs(60);
    for _ in 0..2 {
        assert!(take_steps(&ledger, vec![count(2, minute)]).await.is_written());
    }
    assert!(!take_steps(&ledger, vec![count(2, minute)]).await.is_written());
    assert_eq!(store.remove_old_rate_calls().await.unwrap(), 0);
    // As if 59 seconds passed since the first call, and then one more.
    place.sql("UPDATE rate_calls SET at_ms = at_ms - 58000, expires_ms = expires_ms - 58000 WHERE number = 1").await;
    let wait = wait_ms(&store, 2, minute).await.unwrap();
    assert!(wait <= 2000, "{wait}");
    place.sql("UPDATE rate_calls SET at_ms = at_ms - 2000, expires_ms = expires_ms - 2000 WHERE number = 1").await;
    assert_eq!(wait_ms(&store, 2, minute).await, None);
    assert_eq!(store.remove_old_rate_calls().await.unwrap(), 1);
    assert!(take_steps(&ledger, vec![count(2, minute)]).await.is_written());
    assert!(!take_steps(&ledger, vec![count(2, minute)]).await.is_written());
    // A clock that was set back by an hour does not block the tool for an hour.
    place.sql("UPDATE rate_calls SET at_ms = at_ms + 3600000").await;
    assert!(take_steps(&ledger, vec![count(2, minute)]).await.is_written());
    place.sql("UPDATE rate_calls SET expires_ms = 0").await;
    assert_eq!(store.remove_old_rate_calls().await.unwrap(), 3);
    assert!(take_steps(&ledger, vec![count(1, minute)]).await.is_written());
}
