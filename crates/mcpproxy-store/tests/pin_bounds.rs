//! Tests for the bounds of what is stored about the definitions of a server.

#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "a test that cannot go on should stop")]

mod common;

use common::Place;
use common::asking::T;
use common::pins::Said::{Admit, Hold};
use common::pins::{ID, anna, changed, decide, decision, large, list, seen_first, version, waiting};
use mcpproxy_core::trust::{Admitted, Held};
use mcpproxy_store::{Choice, Decided, PastState};

on_both!(
    twenty_versions_of_each_kind_are_kept,
    texts_of_past_versions_are_bounded_and_hashes_stay,
    texts_that_wait_are_bounded,
    definitions_that_left_are_forgotten_in_the_end,
);

const MIB: usize = 1024 * 1024;

async fn twenty_versions_of_each_kind_are_kept(place: &Place) {
    let store = place.store().await;
    let user = anna(&store).await;
    let key = version("send", 0).key;
    list(&store, T, &[seen_first(&version("send", 0)), seen_first(&version("read", 0))]).await;
    list(&store, T, &[Admit(version("read", 1), Admitted::Stricter)]).await;
    for n in 1..=50 {
        let choice = if n % 2 == 0 { Choice::Accept } else { Choice::Reject };
        list(&store, T, &[changed(&version("send", n))]).await;
        // Every decision has the same time: the order is that of the decisions.
        assert_eq!(decide(&store, &user, &version("send", n), choice).await, Decided::Done);
    }
    let history = store.pin_history(ID, &key).await.unwrap();
    let of = |state: PastState| -> Vec<_> {
        history.iter().filter(|past| past.state == state).map(|past| past.pin).collect()
    };
    let newest = |versions: [u32; 20]| versions.map(|n| version("send", n).pin()).to_vec();
    assert_eq!(of(PastState::Former), newest(std::array::from_fn(|n| 48 - 2 * n as u32)));
    assert_eq!(of(PastState::Rejected), newest(std::array::from_fn(|n| 49 - 2 * n as u32)));
    assert_eq!(store.known_pins(ID).await.unwrap().definitions[&key].rejected.len(), 20);
    assert_eq!(store.pin_history(ID, &version("read", 0).key).await.unwrap().len(), 1, "another definition");
}

async fn texts_of_past_versions_are_bounded_and_hashes_stay(place: &Place) {
    let store = place.store().await;
    let user = anna(&store).await;
    let sent = |n| large("send", n, MIB);
    list(&store, T, &[seen_first(&sent(0))]).await;
    for n in 1..=4 {
        list(&store, T, &[Admit(sent(n), Admitted::Warned)]).await;
    }
    let texts = async || {
        let history = store.pin_history(ID, &sent(0).key).await.unwrap();
        let kept = history.iter().map(|past| (past.state, past.json.is_some()));
        kept.collect::<Vec<_>>()
    };
    assert_eq!(texts().await, [(PastState::Former, true); 4]);
    for n in 5..=14 {
        list(&store, T, &[changed(&sent(n))]).await;
        assert_eq!(decide(&store, &user, &sent(n), Choice::Reject).await, Decided::Done);
    }
    let (rejected, former) = (PastState::Rejected, PastState::Former);
    let expected = [[(rejected, true); 7].as_slice(), &[(rejected, false); 3], &[(former, false); 4]].concat();
    assert_eq!(texts().await, expected, "8 MiB are seven such texts");
    let known = store.known_pins(ID).await.unwrap();
    let mut pins = known.definitions[&sent(0).key].rejected.clone();
    let mut expected: Vec<_> = (5..=14).map(|n| sent(n).pin()).collect();
    pins.sort();
    expected.sort();
    assert_eq!(pins, expected, "all hashes are there");
    list(&store, T, &[changed(&sent(5))]).await;
    assert_eq!(waiting(&store, &sent(5).key).await, None, "it stays rejected");
}

async fn texts_that_wait_are_bounded(place: &Place) {
    let store = place.store().await;
    let user = anna(&store).await;
    let all: Vec<_> = (0..40).map(|n| large(&format!("tool{n}"), 1, MIB)).collect();
    let mut said: Vec<_> = all.iter().map(|one| Hold(one.clone(), Held::New)).collect();
    said.push(Hold(version("small", 1), Held::New));
    list(&store, T, &said).await;
    let waiting = store.waiting_pins(ID).await.unwrap();
    assert_eq!(waiting.len(), 32, "32 MiB are 31 such texts, and a small one");
    assert!(waiting.iter().any(|one| *one.key.name == *"small"));
    // Definitions without room are quarantined all the same, and their turn comes when others are decided.
    let decisions: Vec<_> = all.iter().map(|one| decision(one, Choice::Reject)).collect();
    let decided = store.decide_pins(ID, &decisions, &user, T).await.unwrap();
    assert_eq!(decided.iter().filter(|decided| **decided == Decided::Done).count(), 31);
    list(&store, T, &said).await;
    assert_eq!(store.waiting_counts().await.unwrap(), [(ID.to_owned(), 10)]);
}

/// `trust.changes` is `accept`, and the server lists other tools each time.
async fn definitions_that_left_are_forgotten_in_the_end(place: &Place) {
    let store = place.store().await;
    let admit = |name: String| Admit(version(&name, 1), Admitted::Unasked);
    for round in 0..3 {
        let said: Vec<_> = (0..6_000).map(|n| admit(format!("tool_{round}_{n}"))).collect();
        list(&store, T + round, &said).await;
    }
    list(&store, T + 3, &[admit("last".into())]).await;
    assert_eq!(place.sql("SELECT count(*) FROM accepted_pins").await, [10_001]);
    let known = store.known_pins(ID).await.unwrap();
    let count = |round: &str| known.definitions.keys().filter(|key| key.name.starts_with(round)).count();
    assert_eq!(["tool_0", "tool_1", "tool_2", "last"].map(count), [0, 4_000, 6_000, 1], "the longest gone went first");
    let large_said: Vec<_> = (0..40).map(|n| Admit(large(&format!("large{n}"), 1, MIB), Admitted::Unasked)).collect();
    list(&store, T + 4, &large_said).await;
    list(&store, T + 5, &[admit("last".into())]).await;
    let large = store.known_pins(ID).await.unwrap();
    let large = large.definitions.keys().filter(|key| key.name.starts_with("large")).count();
    assert_eq!(large, 31, "32 MiB are 31 such texts");
}
