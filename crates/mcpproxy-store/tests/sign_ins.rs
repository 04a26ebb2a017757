//! Tests for sign-ins of the gateway at servers.

#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "a test that cannot go on should stop")]

mod common;

use common::Place;
use mcpproxy_store::NewServerSignIn;

on_both!(a_sign_in_is_replaced_renewed_and_removed, only_one_gateway_renews);

fn new<'a>(sealed: &'a [u8], by: Option<&'a str>) -> NewServerSignIn<'a> {
    NewServerSignIn { identity: "id", server: "notes", key_id: "k", sealed, signed_in_by: by }
}

async fn a_sign_in_is_replaced_renewed_and_removed(place: &Place) {
    let store = place.store().await;
    assert_eq!(store.server_sign_in("id").await.unwrap(), None);
    store.save_server_sign_in(&new(b"one", Some("ada")), 1000).await.unwrap();
    let one = store.server_sign_in("id").await.unwrap().unwrap();
    assert_eq!((one.version, one.sealed.as_slice(), one.signed_in_by.as_deref()), (1000, &b"one"[..], Some("ada")));
    assert_eq!(store.server_sign_in("other").await.unwrap(), None);

    // A clock that goes back does not repeat a version.
    store.save_server_sign_in(&new(b"two", None), 900).await.unwrap();
    assert_eq!(store.server_sign_in_version("id").await.unwrap(), Some(1001));

    assert!(!store.renew_server_sign_in("id", 1000, ("k", b"late"), 2000).await.unwrap(), "an old version");
    assert!(store.renew_server_sign_in("id", 1001, ("k", b"three"), 2000).await.unwrap());
    let three = store.server_sign_in("id").await.unwrap().unwrap();
    assert_eq!((three.version, three.sealed.as_slice()), (2000, &b"three"[..]));

    assert!(!store.remove_server_sign_in_version("id", 1001).await.unwrap(), "an old version");
    assert!(store.remove_server_sign_in("id").await.unwrap());
    assert!(!store.remove_server_sign_in("id").await.unwrap());
    assert!(!store.renew_server_sign_in("id", 2000, ("k", b"late"), 3000).await.unwrap(), "signed out");
    assert_eq!(store.server_sign_in_version("id").await.unwrap(), None);
}

async fn only_one_gateway_renews(place: &Place) {
    let store = place.store().await;
    assert!(!store.lease_server_sign_in("id", "a", 0, 10).await.unwrap(), "no sign-in");
    store.save_server_sign_in(&new(b"one", None), 1).await.unwrap();
    assert!(store.lease_server_sign_in("id", "a", 0, 10).await.unwrap());
    assert!(store.lease_server_sign_in("id", "a", 1, 11).await.unwrap(), "its holder may extend it");
    assert!(!store.lease_server_sign_in("id", "b", 5, 15).await.unwrap());
    store.release_server_sign_in("id", "b").await.unwrap();
    assert!(!store.lease_server_sign_in("id", "b", 5, 15).await.unwrap(), "only the holder gives it back");
    assert!(store.lease_server_sign_in("id", "b", 11, 21).await.unwrap(), "it ends by itself");
    store.release_server_sign_in("id", "b").await.unwrap();
    assert!(store.lease_server_sign_in("id", "a", 12, 22).await.unwrap());
    // Renewing keeps the lease.
    assert!(store.renew_server_sign_in("id", 1, ("k", b"two"), 12).await.unwrap());
    assert!(!store.lease_server_sign_in("id", "b", 13, 23).await.unwrap());
}
