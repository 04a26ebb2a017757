//! Tests for the contract and policy files that the store remembers for the next start.

#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "a test that cannot go on should stop")]

mod common;

use common::Place;

on_both!(each_gateway_has_its_own_files, a_file_may_be_large);

fn files(names: &[&str]) -> Vec<(String, String)> {
    names.iter().map(|name| ((*name).to_owned(), format!("tool: fx:{name}\nriskLevel: forbidden\n"))).collect()
}

async fn each_gateway_has_its_own_files(place: &Place) {
    let store = place.store().await;
    assert!(store.remembered_files("a").await.unwrap().is_empty());
    let (one, two) = (files(&["contracts/a.yaml", "policies/a.cedar"]), files(&["contracts/b.yaml"]));
    store.remember_files("a", &one).await.unwrap();
    store.remember_files("b", &two).await.unwrap();
    assert_eq!(store.remembered_files("a").await.unwrap(), one);
    store.remember_files("a", &files(&["contracts/c.yaml"])).await.unwrap();
    assert_eq!(store.remembered_files("a").await.unwrap(), files(&["contracts/c.yaml"]), "they replace the others");
    store.remember_files("a", &[]).await.unwrap();
    assert!(store.remembered_files("a").await.unwrap().is_empty());
    assert_eq!(store.remembered_files("b").await.unwrap(), two);
}

async fn a_file_may_be_large(place: &Place) {
    let store = place.store().await;
    let large = vec![("contracts/a.yaml".to_owned(), "# a long comment → \n".repeat(100_000))];
    store.remember_files("a", &large).await.unwrap();
    assert_eq!(store.remembered_files("a").await.unwrap(), large);
}
