//! Tests for the limits of failed attempts: their counts are shared by all gateways, and bounded.

#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "a test that cannot go on should stop")]

mod common;

use std::net::{IpAddr, Ipv4Addr};

use common::Place;
use common::asking::{MINUTE, T};
use mcpproxy_store::{Admission, Attempt, Pace, Store};

on_both!(
    all_gateways_count_together,
    parallel_attempts_cannot_exceed_the_limit,
    failures_of_others_lock_nobody_out,
    a_success_starts_again,
    old_counts_are_removed,
    there_are_never_too_many_counts,
);

const HERE: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);
const THERE: IpAddr = IpAddr::V4(Ipv4Addr::new(192, 0, 2, 1));
const NORMAL: Admission = Admission::Admitted(Pace::Normal);
const SLOW: Admission = Admission::Admitted(Pace::Slow);

async fn sign_in(store: &Store, name: &str, address: IpAddr, now_ms: i64) -> Admission {
    let attempt = Attempt::SignIn { name, address };
    let checked = store.check_attempt(attempt, now_ms).await.unwrap();
    let counted = store.count_attempt(attempt, now_ms).await.unwrap();
    assert_eq!(checked, counted, "{name}");
    counted
}

async fn all_gateways_count_together(place: &Place) {
    let gateways = [place.store().await, place.store().await];
    for n in 0..5 {
        assert_eq!(sign_in(&gateways[n % 2], "anna", HERE, T + n as i64).await, NORMAL, "{n}");
    }
    for store in &gateways {
        assert_eq!(sign_in(store, "anna", THERE, T + 1_000).await, Admission::TooMany { wait_ms: 59_000 });
        assert_eq!(sign_in(store, "ben", HERE, T + 1_000).await, NORMAL);
    }
    assert_eq!(sign_in(&gateways[1], "anna", HERE, T + MINUTE).await, NORMAL);
}

async fn parallel_attempts_cannot_exceed_the_limit(place: &Place) {
    let gateways = [place.store().await, place.store().await];
    let make = |n: usize| {
        let store = gateways[n % 2].clone();
        tokio::spawn(
            async move { store.count_attempt(Attempt::SignIn { name: "anna", address: HERE }, T).await.unwrap() },
        )
    };
    let mut admitted = 0;
    for task in (0..20).map(make).collect::<Vec<_>>() {
        admitted += usize::from(task.await.unwrap() == NORMAL);
    }
    assert_eq!(admitted, 5);
}

async fn failures_of_others_lock_nobody_out(place: &Place) {
    let store = place.store().await;
    for n in 0..40 {
        let expected = if n < 30 { NORMAL } else { SLOW };
        assert_eq!(sign_in(&store, &format!("invented {n}"), HERE, T).await, expected, "{n}");
    }
    assert_eq!(sign_in(&store, "anna", HERE, T).await, SLOW, "the first attempt of a name is made");
    assert_eq!(sign_in(&store, "anna", HERE, T).await, Admission::TooMany { wait_ms: MINUTE }, "the second is not");
    assert_eq!(sign_in(&store, "anna", THERE, T).await, NORMAL, "another address is not affected");
}

async fn a_success_starts_again(place: &Place) {
    let store = place.store().await;
    for n in 0..35 {
        assert_eq!(sign_in(&store, "anna", HERE, T).await, NORMAL, "{n}");
        store.forgive_attempt(Attempt::SignIn { name: "anna", address: HERE }).await.unwrap();
    }
    for n in 0..30 {
        assert_eq!(sign_in(&store, &format!("invented {n}"), HERE, T).await, NORMAL, "{n}");
    }
    assert_eq!(sign_in(&store, "anna", HERE, T).await, SLOW);
    store.forgive_attempt(Attempt::SignIn { name: "anna", address: HERE }).await.unwrap();
    assert_eq!(sign_in(&store, "anna", HERE, T).await, SLOW, "a success does not clear the address");
}

async fn old_counts_are_removed(place: &Place) {
    let store = place.store().await;
    assert_eq!(sign_in(&store, "anna", HERE, T).await, NORMAL);
    assert_eq!(sign_in(&store, "ben", THERE, T + 1_000).await, NORMAL);
    assert_eq!(place.sql("SELECT count(*) FROM attempts").await, [4]);
    assert_eq!(store.remove_expired(T + MINUTE).await.unwrap(), 2);
    assert_eq!(sign_in(&store, "carla", HERE, T + 2 * MINUTE).await, NORMAL);
    assert_eq!(place.sql("SELECT count(*) FROM attempts").await, [2], "an attempt removes what has expired");
}

async fn there_are_never_too_many_counts(place: &Place) {
    let store = place.store().await;
    let (series, blob) = if place.cluster.is_some() {
        ("generate_series(1, 10200) AS series(value)", "decode(lpad(to_hex(value), 64, '0'), 'hex')")
    } else {
        (
            "(WITH RECURSIVE series(value) AS (SELECT 1 UNION ALL SELECT value + 1 FROM series WHERE value < 10200) \
              SELECT value FROM series)",
            "CAST(printf('%032d', value) AS BLOB)",
        )
    };
    place.sql(&format!("INSERT INTO attempts SELECT {blob}, {T} - 1, 1 FROM {series}")).await;
    for n in 0..5 {
        assert_eq!(sign_in(&store, &format!("name {n}"), HERE, T).await, NORMAL);
    }
    assert_eq!(place.sql("SELECT count(*) FROM attempts").await, [10_000]);
    assert_eq!(sign_in(&store, "name 0", HERE, T).await, NORMAL);
    let counted = "SELECT failures FROM attempts WHERE since_ms = (SELECT max(since_ms) FROM attempts) ORDER BY 1";
    assert_eq!(place.sql(counted).await, [1, 1, 1, 1, 2, 6], "the oldest were removed, not the newest");
}
