//! Tests for the counts of charts, of users and of the database itself.

#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "a test that cannot go on should stop")]

mod common;

use common::{Place, call, refusal, success};
use mcpproxy_core::{Untrusted, Variant};
use mcpproxy_store::{
    HourlyCount, NewRecord, Outcome, REFUSALS_MAX, RefusalCount, RefusalCounts, SessionId, SessionTimes, Status,
    WaitFor,
};

const HOUR_MS: i64 = 3_600_000;
/// The first millisecond of an hour.
const BEGIN_MS: i64 = 472_222 * HOUR_MS;

on_both!(
    calls_are_counted_by_hour_and_intent,
    refusals_are_counted_by_reason,
    only_the_newest_refusals_are_read,
    the_database_is_measured,
    users_are_listed_with_their_sessions,
    sessions_are_listed_and_ended,
);

async fn calls_are_counted_by_hour_and_intent(place: &Place) {
    let (store, ledger) = place.open().await;
    let hours =
        [(0, Variant::Read), (0, Variant::Read), (0, Variant::Destructive), (2, Variant::Write), (25, Variant::Read)];
    for (n, (hour, intent)) in (0..).zip(hours) {
        let record = NewRecord { time_ms: BEGIN_MS + hour * HOUR_MS + 7, intent_type: Some(intent), ..call(n) };
        let open = ledger.open(record, WaitFor::Disk).await.unwrap();
        let status = if intent == Variant::Write { Status::Error } else { Status::Success };
        ledger
            .close(open, Outcome { duration_us: Some(n.into()), ..Outcome::bare(status) }, WaitFor::Disk)
            .await
            .unwrap();
    }
    ledger.append(NewRecord { time_ms: BEGIN_MS, ..refusal(9) }, WaitFor::Disk).await.unwrap();
    let count = |hour: i64, intent, calls| HourlyCount {
        from_ms: BEGIN_MS + hour * HOUR_MS,
        intent,
        calls,
        failed: u64::from(intent == Variant::Write),
    };
    let found = store.hourly_calls(BEGIN_MS, BEGIN_MS + 24 * HOUR_MS).await.unwrap();
    let expected = [count(0, Variant::Destructive, 1), count(0, Variant::Read, 2), count(2, Variant::Write, 1)];
    assert_eq!(found, expected, "a refusal is no call, and hour 25 is later");
    let found = store.hourly_calls(BEGIN_MS + HOUR_MS - 1, BEGIN_MS + HOUR_MS).await.unwrap();
    assert_eq!(found.len(), 2, "hours are whole");
    // Reversed and extreme times are no errors.
    assert_eq!(store.hourly_calls(BEGIN_MS + HOUR_MS, BEGIN_MS).await.unwrap(), []);
    assert_eq!(store.hourly_calls(i64::MIN, i64::MAX).await.unwrap(), [], "only the last 31 days");
}

async fn refusals_are_counted_by_reason(place: &Place) {
    let (store, ledger) = place.open().await;
    assert_eq!(store.refusal_reasons(0).await.unwrap(), RefusalCounts::default());
    for (n, (hour, code)) in (0..).zip([(0, "a"), (1, "a"), (1, "b"), (2, "b"), (2, "b"), (2, "")]) {
        let code = (!code.is_empty()).then(|| code.to_owned());
        let record = NewRecord { time_ms: BEGIN_MS + hour * HOUR_MS, code, ..refusal(n) };
        ledger.append(record, WaitFor::Disk).await.unwrap();
    }
    let open = ledger.open(NewRecord { time_ms: BEGIN_MS + 2 * HOUR_MS, ..call(9) }, WaitFor::Disk).await.unwrap();
    ledger.close(open, success(), WaitFor::Disk).await.unwrap();
    let reason = |code: &str, count| RefusalCount { code: Untrusted::new(code), count };
    let found = store.refusal_reasons(BEGIN_MS + HOUR_MS).await.unwrap();
    let reasons = vec![reason("b", 3), reason("", 1), reason("a", 1)];
    assert_eq!(found, RefusalCounts { reasons, read: 5, is_cut: false });
    assert_eq!(store.refusal_reasons(i64::MIN).await.unwrap().read, 6);
    assert_eq!(store.refusal_reasons(i64::MAX).await.unwrap().read, 0);
}

async fn only_the_newest_refusals_are_read(place: &Place) {
    let (store, ledger) = place.open().await;
    let most = u32::try_from(REFUSALS_MAX).unwrap();
    for n in 0..=most {
        let record = NewRecord { time_ms: BEGIN_MS + i64::from(n), ..refusal(n) };
        ledger.append(record, if n == most { WaitFor::Disk } else { WaitFor::Queue }).await.unwrap();
    }
    let found = store.refusal_reasons(BEGIN_MS + 1).await.unwrap();
    assert_eq!((found.read, found.is_cut), (most.into(), false));
    let found = store.refusal_reasons(BEGIN_MS).await.unwrap();
    assert_eq!((found.read, found.is_cut), (u64::from(most) + 1, true));
}

async fn the_database_is_measured(place: &Place) {
    let (store, _ledger) = place.open().await;
    let size = store.size().await.unwrap();
    let is_sqlite = place.cluster.is_none();
    assert_eq!((size.kind, size.used_bytes.is_some()), (if is_sqlite { "SQLite" } else { "PostgreSQL" }, is_sqlite));
    assert!(size.bytes.unwrap() >= size.used_bytes.unwrap_or(1), "{size:?}");
}

async fn users_are_listed_with_their_sessions(place: &Place) {
    let (store, _ledger) = place.open().await;
    assert_eq!(store.list_accounts(0, 1, 1).await.unwrap(), []);
    let invitation = store.invite([1; 32], None, 5, 1_000).await.unwrap();
    assert!(store.create_user(&invitation, "anna", "hash", 10).await.unwrap());
    let check = async |now_ms: i64, is_enrolled: bool, seen_ms: Option<i64>, sessions: u64| {
        let found = store.list_accounts(now_ms, 100, 200).await.unwrap();
        let anna = &found[0];
        assert_eq!((found.len(), anna.name.as_str(), anna.created_ms), (1, "anna", 10));
        assert_eq!((anna.is_enrolled, anna.seen_ms, anna.sessions), (is_enrolled, seen_ms, sessions), "{now_ms}");
    };
    check(20, false, None, 0).await;
    let new = store.open_session("anna", [[2; 32], [3; 32]], 20).await.unwrap();
    store.open_session("anna", [[4; 32], [5; 32]], 25).await.unwrap();
    let user = store.find_session(&new.secret, 25, 100, 200).await.unwrap().unwrap().user;
    store.set_totp(&user, b"12345678901234567890", 0).await.unwrap();
    check(30, true, Some(25), 2).await;
    check(122, true, Some(25), 1).await;
    check(500, true, Some(25), 0).await;
}

async fn sessions_are_listed_and_ended(place: &Place) {
    let (store, _ledger) = place.open().await;
    let invitation = store.invite([1; 32], None, 5, 1_000).await.unwrap();
    assert!(store.create_user(&invitation, "anna", "hash", 10).await.unwrap());
    let first = store.open_session("anna", [[2; 32], [3; 32]], 20).await.unwrap();
    let second = store.open_session("anna", [[4; 32], [5; 32]], 25).await.unwrap();
    let times = |now_ms: i64| SessionTimes { now_ms, idle_ms: 100, max_ms: 200 };
    let list = async |now_ms: i64, most: usize| store.list_sessions(times(now_ms), None, most).await.unwrap();
    let all = list(30, 10).await;
    let found: Vec<_> = all.iter().map(|one| (one.user.as_str(), one.created_ms, one.used_ms)).collect();
    assert_eq!(found, [("anna", 25, 25), ("anna", 20, 20)]);
    assert_eq!([&all[0].id, &all[1].id], [&SessionId::of(&second.secret), &SessionId::of(&first.secret)]);
    assert_eq!((list(30, 1).await.len(), list(122, 10).await.len(), list(500, 10).await.len()), (1, 1, 0));
    // The sessions of another user push none off the list of one's own.
    let anna = store.find_session(&second.secret, 30, 100, 200).await.unwrap().unwrap().user;
    let invitation = store.invite([6; 32], Some(&anna), 5, 1_000).await.unwrap();
    assert!(store.create_user(&invitation, "ben", "hash", 10).await.unwrap());
    for seed in 10..15 {
        store.open_session("ben", [[seed; 32], [seed + 100; 32]], 28).await.unwrap();
    }
    assert!(list(30, 5).await.iter().all(|one| one.user == "ben"));
    assert_eq!(store.list_sessions(times(30), Some("anna"), 5).await.unwrap(), all);
    let find = async |now_ms: i64, id: &str| store.find_open_session(times(now_ms), id).await.unwrap();
    assert_eq!(find(30, all[1].id.as_str()).await.as_ref(), Some(&all[1]));
    assert_eq!((find(500, all[1].id.as_str()).await, find(30, "00").await, find(30, "x").await), (None, None, None));
    assert!(store.end_session(&all[1]).await.unwrap());
    assert!(!store.end_session(&all[1]).await.unwrap(), "it has ended already");
    assert_eq!(store.find_session(&first.secret, 30, 100, 200).await.unwrap(), None);
    assert!(store.find_session(&second.secret, 30, 100, 200).await.unwrap().is_some());
}
