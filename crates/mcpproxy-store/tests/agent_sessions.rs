//! Tests for the keys and changes of MCP sessions, and for messages between gateways.

#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "a test that cannot go on should stop")]

mod common;

use common::{PATIENCE, Place, until};
use mcpproxy_store::{ReplicaListener, SUBSCRIPTIONS_STORED_MAX, SessionChange, SessionChanges};

on_both!(gateways_agree_on_keys, changes_of_a_session_add_up, an_agent_cannot_fill_the_tables, old_changes_are_removed,);

const DAY_MS: i64 = 24 * 3_600_000;

async fn gateways_agree_on_keys(place: &Place) {
    let (one, two) = (place.store().await, place.store().await);
    let keep = (DAY_MS, 9 * DAY_MS);
    let (a, b) = tokio::join!(one.session_keys(0, [1; 32], keep), two.session_keys(0, [2; 32], keep));
    let (a, b) = (a.unwrap(), b.unwrap());
    assert!(a == b && a.len() == 1);
    assert!(one.session_keys(DAY_MS - 1, [3; 32], keep).await.unwrap() == a, "not due");
    let rotated = two.session_keys(DAY_MS, [4; 32], keep).await.unwrap();
    assert_eq!(
        rotated.iter().map(|key| (key.number, key.secret[0])).collect::<Vec<_>>(),
        [(2, 4), (1, a[0].secret[0])]
    );
    let last = one.session_keys(11 * DAY_MS, [5; 32], keep).await.unwrap();
    assert_eq!(last.iter().map(|key| key.number).collect::<Vec<_>>(), [3], "keys that seal no valid id are gone");
}

async fn changes_of_a_session_add_up(place: &Place) {
    let (here, there) = (place.store().await, place.store().await);
    assert_eq!(here.session_changes("s").await.unwrap(), SessionChanges::default());
    for change in [
        SessionChange::Level("debug"),
        SessionChange::Subscribed("memo://b"),
        SessionChange::StreamAt("g1"),
        SessionChange::Subscribed("memo://a"),
        SessionChange::Subscribed("memo://a"),
        SessionChange::Level("error"),
        SessionChange::Subscribed("memo://c"),
        SessionChange::Unsubscribed("memo://c"),
    ] {
        here.change_session("s", "anna", change, 1).await.unwrap();
    }
    let expected = SessionChanges {
        is_ended: false,
        level: Some("error".to_owned()),
        stream_at: Some("g1".to_owned()),
        uris: vec!["memo://a".to_owned(), "memo://b".to_owned()],
    };
    assert_eq!(there.session_changes("s").await.unwrap(), expected);
    there.change_session("s", "anna", SessionChange::Ended, 2).await.unwrap();
    here.change_session("s", "anna", SessionChange::Level("info"), 3).await.unwrap();
    let ended = here.session_changes("s").await.unwrap();
    assert!(ended.is_ended && ended.uris.is_empty(), "a session that has ended stays ended");
    assert_eq!(here.session_changes("other").await.unwrap(), SessionChanges::default());
}

async fn an_agent_cannot_fill_the_tables(place: &Place) {
    let store = place.store().await;
    store.change_session("of ben", "ben", SessionChange::Ended, 0).await.unwrap();
    // Through the database, because one change at a time would take long.
    let rows: Vec<String> = (0..1000).map(|n| format!("('s{n}', 'anna', 1, {n})")).collect();
    let sql = format!("INSERT INTO session_changes (session, agent, is_ended, changed_ms) VALUES {}", rows.join(","));
    let _none = place.sql(&sql).await;
    store.change_session("last", "anna", SessionChange::Ended, 2000).await.unwrap();
    assert!(!store.session_changes("s0").await.unwrap().is_ended, "the oldest row of the agent is gone");
    for kept in ["s1", "s999", "last", "of ben"] {
        assert!(store.session_changes(kept).await.unwrap().is_ended, "{kept}");
    }
    let rows: Vec<String> = (0..SUBSCRIPTIONS_STORED_MAX).map(|n| format!("('s1', 'u{n}', 'anna', 1)")).collect();
    let sql = format!("INSERT INTO session_subscriptions (session, uri, agent, changed_ms) VALUES {}", rows.join(","));
    let _none = place.sql(&sql).await;
    store.change_session("last", "anna", SessionChange::Subscribed("more"), 1).await.unwrap();
    store.change_session("of ben", "ben", SessionChange::Subscribed("more"), 1).await.unwrap();
    assert!(store.session_changes("last").await.unwrap().uris.is_empty());
    assert_eq!(store.session_changes("of ben").await.unwrap().uris, ["more"]);
}

async fn old_changes_are_removed(place: &Place) {
    let store = place.store().await;
    for (session, time_ms) in [("old", 10), ("new", 20)] {
        store.change_session(session, "anna", SessionChange::Level("info"), time_ms).await.unwrap();
        store.change_session(session, "anna", SessionChange::Subscribed("u"), time_ms).await.unwrap();
    }
    store.remove_old_session_changes(20, 20).await.unwrap();
    assert_eq!(store.session_changes("old").await.unwrap(), SessionChanges::default());
    assert_eq!(store.session_changes("new").await.unwrap().uris, ["u"]);
}

async fn next(listener: &mut ReplicaListener) -> Option<String> {
    tokio::time::timeout(PATIENCE, listener.next()).await.unwrap().unwrap()
}

#[tokio::test]
async fn messages_reach_the_gateway_that_is_meant() {
    let place = Place::postgres();
    let (one, two) = (place.store().await, place.store().await);
    let mut first = one.listen("one").await.unwrap().unwrap();
    let mut second = two.listen("two").await.unwrap().unwrap();
    let long = format!("{{\"text\":\"{}\"}}", "é\\n".repeat(100_000));
    one.send_to_replica(Some("two"), "id1", "{\"a\":1}", 0).await.unwrap();
    one.send_to_replica(Some("two"), "id2", &long, 0).await.unwrap();
    one.send_to_replica(None, "id3", "{\"b\":1}", 0).await.unwrap();
    assert_eq!(next(&mut first).await.as_deref(), Some("{\"b\":1}"));
    assert_eq!(next(&mut second).await.as_deref(), Some("{\"a\":1}"));
    assert!(next(&mut second).await.as_deref() == Some(&long));
    assert_eq!(next(&mut second).await.as_deref(), Some("{\"b\":1}"));
    assert_eq!(place.sql("SELECT count(*) FROM replica_messages").await, [0], "a message is taken once");

    // A message that nobody takes expires.
    one.send_to_replica(Some("nobody"), "id4", &long, 0).await.unwrap();
    assert_eq!(place.sql("SELECT count(*) FROM replica_messages").await, [1]);
    one.remove_old_session_changes(0, 3_600_000).await.unwrap();
    assert_eq!(place.sql("SELECT count(*) FROM replica_messages").await, [0]);
}

#[tokio::test]
async fn a_gateway_that_ends_is_no_longer_there() {
    let place = Place::postgres();
    let store = place.store().await;
    assert!(!store.is_replica_listening("one").await.unwrap());
    let listener = store.listen("one").await.unwrap().unwrap();
    assert!(store.is_replica_listening("one").await.unwrap());
    assert!(!store.is_replica_listening("on").await.unwrap());
    drop(listener);
    until("the gateway is gone", async || !store.is_replica_listening("one").await.unwrap()).await;
}

#[tokio::test]
async fn with_sqlite_nobody_listens() {
    let store = Place::sqlite().store().await;
    assert!(!store.is_shared());
    assert!(store.listen("one").await.unwrap().is_none());
    store.send_to_replica(None, "id", "{}", 0).await.unwrap();
    assert!(!store.is_replica_listening("one").await.unwrap());
}
