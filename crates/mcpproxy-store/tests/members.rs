//! Tests for the list of gateways that share a database.

#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "a test that cannot go on should stop")]

mod common;

use common::Place;
use mcpproxy_store::{Announcement, Store};

on_both!(gateways_come_change_get_lost_and_leave);

fn member(id: &str, contracts: &str) -> Announcement {
    Announcement {
        id: id.to_owned(),
        name: "host".to_owned(),
        address: format!("10.0.0.1:{id}"),
        version: "1.2.3".to_owned(),
        settings: "s".to_owned(),
        contracts: contracts.to_owned(),
        policies: "p".to_owned(),
    }
}

async fn listed(store: &Store) -> Vec<(String, String, bool)> {
    let all = store.list_members().await.unwrap();
    all.into_iter().map(|one| (one.announced.id, one.announced.contracts, one.is_lost)).collect()
}

fn row(id: &str, contracts: &str, is_lost: bool) -> (String, String, bool) {
    (id.to_owned(), contracts.to_owned(), is_lost)
}

async fn gateways_come_change_get_lost_and_leave(place: &Place) {
    let store = place.store().await;
    store.announce_member(&member("1", "a"), 5000).await.unwrap();
    store.announce_member(&member("2", "a"), 5000).await.unwrap();
    if !store.is_shared() {
        assert!(listed(&store).await.is_empty(), "a SQLite database belongs to one gateway");
        assert_eq!(place.sql("SELECT count(*) FROM gateways").await, [0], "nothing is written");
        return;
    }
    assert_eq!(listed(&store).await, [row("1", "a", false), row("2", "a", false)]);
    store.announce_member(&member("2", "b"), 5000).await.unwrap();
    assert_eq!(listed(&store).await, [row("1", "a", false), row("2", "b", false)]);
    let first = store.list_members().await.unwrap().remove(0);
    assert_eq!(first.announced, member("1", "a"));
    let uptime_ms = first.seen_ms - first.started_ms;
    assert_eq!(uptime_ms, 5000);

    place.sql("UPDATE gateways SET seen_ms = seen_ms - 11000 WHERE id = '1'").await;
    assert_eq!(listed(&store).await, [row("1", "a", true), row("2", "b", false)]);
    store.announce_member(&member("1", "a"), 5000).await.unwrap();
    assert_eq!(listed(&store).await[0], row("1", "a", false), "it came back");

    store.remove_member("1").await.unwrap();
    assert_eq!(listed(&store).await, [row("2", "b", false)]);
    place.sql("UPDATE gateways SET seen_ms = seen_ms - 3600000").await;
    assert!(listed(&store).await.is_empty());
    assert_eq!(place.sql("SELECT count(*) FROM gateways").await, [1]);
    assert_eq!(store.remove_lost_members().await.unwrap(), 1);
    assert_eq!(place.sql("SELECT count(*) FROM gateways").await, [0]);
}
