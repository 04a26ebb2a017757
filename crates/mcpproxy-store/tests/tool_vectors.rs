//! Tests of the vectors of tools, on both databases.

#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "a test that cannot go on should stop")]

mod common;

use common::Place;

on_both!(vectors_are_found_by_key, a_stored_vector_is_replaced);

fn key(number: u8) -> [u8; 32] {
    [number; 32]
}

async fn vectors_are_found_by_key(place: &Place) {
    let store = place.store().await;
    let vectors: Vec<([u8; 32], Vec<u8>)> = (0..100).map(|number| (key(number), vec![number; 396])).collect();
    store.store_tool_vectors(&vectors, 1).await.unwrap();
    let wanted: Vec<[u8; 32]> = (50..150).map(key).collect();
    let mut found = store.find_tool_vectors(&wanted).await.unwrap();
    found.sort();
    assert_eq!(found, vectors[50..]);
}

/// A damaged vector is computed again, and then takes the place of the damaged one.
async fn a_stored_vector_is_replaced(place: &Place) {
    let store = place.store().await;
    store.store_tool_vectors(&[(key(1), b"damaged".to_vec())], 1).await.unwrap();
    store.store_tool_vectors(&[(key(1), b"whole".to_vec())], 2).await.unwrap();
    assert_eq!(store.find_tool_vectors(&[key(1)]).await.unwrap(), [(key(1), b"whole".to_vec())]);
}
