//! Tests of published versions of settings, contracts and policies, on both databases.

#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "a test that cannot go on should stop")]

mod common;

use common::Place;
use common::pins::anna;
use mcpproxy_store::{ConfigFiles, NewVersion, PresenceProof, Store, StoreError};

on_both!(versions_follow_each_other, of_two_users_one_is_first, old_versions_are_removed, a_changed_version_is_refused);

fn files(text: &str) -> ConfigFiles {
    vec![("contracts/a.yaml".to_owned(), text.to_owned()), ("mcp_config.json".to_owned(), "{\u{0}}".to_owned())]
}

async fn publish(store: &Store, by: &PresenceProof, after: i64, text: &str) -> Option<i64> {
    let files = files(text);
    let new = NewVersion { after, summary: "a few words", files: &files };
    store.publish_version(&new, by, 7).await.unwrap()
}

async fn versions_follow_each_other(place: &Place) {
    let store = place.store().await;
    let anna = anna(&store).await;
    assert_eq!(store.newest_version().await.unwrap(), None);
    assert_eq!(publish(&store, &anna, 0, "one").await, Some(1));
    assert_eq!(publish(&store, &anna, 1, "two").await, Some(2));
    assert_eq!(publish(&store, &anna, 1, "late").await, None, "another version came first");
    assert_eq!(publish(&store, &anna, 7, "early").await, None);
    let listed = store.list_versions().await.unwrap();
    assert_eq!(listed.iter().map(|head| head.number).collect::<Vec<_>>(), [2, 1]);
    let newest = store.newest_version().await.unwrap().unwrap();
    assert_eq!(newest, listed[0]);
    assert_eq!((newest.published_by.as_str(), newest.published_ms), ("anna", 7));
    let found = store.find_version(1).await.unwrap().unwrap();
    assert_eq!((found.files, found.head), (files("one"), listed[1].clone()));
    assert_eq!(store.find_version(3).await.unwrap(), None);
}

async fn of_two_users_one_is_first(place: &Place) {
    let store = place.store().await;
    let anna = anna(&store).await;
    let (one, other) = tokio::join!(publish(&store, &anna, 0, "one"), publish(&store, &anna, 0, "other"));
    assert_eq!([one, other].iter().flatten().collect::<Vec<_>>(), [&1]);
    assert_eq!(store.list_versions().await.unwrap().len(), 1);
}

async fn old_versions_are_removed(place: &Place) {
    let store = place.store().await;
    let anna = anna(&store).await;
    for after in 0..102 {
        assert!(publish(&store, &anna, after, "text").await.is_some());
    }
    let numbers: Vec<i64> = store.list_versions().await.unwrap().iter().map(|head| head.number).collect();
    assert_eq!(numbers, (3..=102).rev().collect::<Vec<_>>());
    assert_eq!(place.sql("SELECT count(*) FROM config_versions").await, [100]);
}

async fn a_changed_version_is_refused(place: &Place) {
    let store = place.store().await;
    let anna = anna(&store).await;
    publish(&store, &anna, 0, "riskLevel: forbidden").await;
    place.sql("UPDATE config_versions SET files = replace(files, 'forbidden', 'low')").await;
    let refused = store.find_version(1).await.unwrap_err();
    assert!(matches!(&refused, StoreError::Corrupt { .. }), "{refused}");
}
