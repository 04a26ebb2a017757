//! Tests for decisions about definitions: only what was shown is accepted, once, and no list undoes it.

#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "a test that cannot go on should stop")]

mod common;

use common::Place;
use common::asking::T;
use common::pins::Said::{Admit, Hold, Same};
use common::pins::{ID, accepted, anna, blob, changed, decide, decision, list, seen_first, version, waiting};
use mcpproxy_core::trust::{Admitted, Held};
use mcpproxy_store::{Choice, Decided, PastState};

on_both!(
    an_accepted_version_replaces_the_other,
    a_rejected_version_is_remembered,
    only_the_version_that_was_shown_is_decided,
    a_decision_is_taken_once,
    decisions_are_answered_one_by_one,
    of_two_users_one_decides,
    a_list_does_not_undo_a_decision,
    lists_and_decisions_at_once_agree,
    the_lock_file_outranks_a_rejection,
    a_rejection_is_taken_back,
    a_rejection_is_taken_back_on_purpose_only,
);

async fn an_accepted_version_replaces_the_other(place: &Place) {
    let store = place.store().await;
    let user = anna(&store).await;
    let (one, two) = (version("send", 1), version("send", 2));
    list(&store, T, &[seen_first(&one)]).await;
    list(&store, T + 10, &[changed(&two)]).await;
    assert_eq!(decide(&store, &user, &two, Choice::Accept).await, Decided::Done);
    assert_eq!(store.pins_version().await.unwrap(), 1);
    let found = &store.accepted_pins(ID).await.unwrap()[0];
    assert_eq!((found.pin, &found.json), (two.pin(), &two.json));
    assert_eq!((found.accepted_by.as_str(), found.is_by_user, found.accepted_ms), ("anna", true, T + 500));
    assert_eq!((found.first_seen_ms, found.last_seen_ms), (T + 10, T + 10));
    assert!(store.waiting_pins(ID).await.unwrap().is_empty());
    let [past] = &store.pin_history(ID, &one.key).await.unwrap()[..] else { panic!("one former version") };
    assert_eq!((past.pin, past.state, past.ended_ms), (one.pin(), PastState::Former, T + 500));
    assert_eq!((past.decided_by.as_str(), past.is_by_user), ("first_sight", false));
    // A version that a user accepted becomes a former one with the name of the user.
    list(&store, T + 600, &[Admit(one.clone(), Admitted::Stricter)]).await;
    let past = &store.pin_history(ID, &one.key).await.unwrap()[0];
    assert_eq!((past.pin, past.decided_by.as_str(), past.is_by_user), (two.pin(), "anna", true));
    let found = &store.accepted_pins(ID).await.unwrap()[0];
    assert_eq!((found.pin, found.accepted_by.as_str(), found.is_by_user), (one.pin(), "stricter", false));
}

async fn a_rejected_version_is_remembered(place: &Place) {
    let store = place.store().await;
    let user = anna(&store).await;
    let (one, two, new) = (version("send", 1), version("send", 2), version("new", 1));
    list(&store, T, &[seen_first(&one)]).await;
    list(&store, T + 10, &[changed(&two), Hold(new.clone(), Held::New)]).await;
    for definition in [&two, &new] {
        assert_eq!(decide(&store, &user, definition, Choice::Reject).await, Decided::Done);
    }
    assert_eq!(store.pins_version().await.unwrap(), 2);
    let known = store.known_pins(ID).await.unwrap();
    assert_eq!(known.definitions[&two.key].rejected, [two.pin()]);
    assert_eq!(known.definitions[&two.key].accepted.as_ref().unwrap().pin, one.pin());
    assert_eq!(known.definitions[&new.key].rejected, [new.pin()]);
    assert_eq!(known.definitions[&new.key].accepted, None);
    let [past] = &store.pin_history(ID, &two.key).await.unwrap()[..] else { panic!("one rejected version") };
    assert_eq!((past.pin, past.state, &past.json), (two.pin(), PastState::Rejected, &Some(two.json.clone())));
    assert_eq!((past.first_seen_ms, past.decided_ms, past.decided_by.as_str()), (T + 10, T + 500, "anna"));
    // The judgement says so, too.
    list(&store, T + 20, &[Hold(two.clone(), Held::Rejected), Hold(new.clone(), Held::Rejected)]).await;
    assert!(store.waiting_pins(ID).await.unwrap().is_empty());
}

async fn only_the_version_that_was_shown_is_decided(place: &Place) {
    let store = place.store().await;
    let user = anna(&store).await;
    let (shown, now) = (version("send", 1), version("send", 2));
    list(&store, T, &[Hold(shown.clone(), Held::New)]).await;
    list(&store, T, &[Hold(now.clone(), Held::New)]).await;
    for choice in [Choice::Accept, Choice::Reject] {
        assert_eq!(decide(&store, &user, &shown, choice).await, Decided::Changed, "{choice:?}");
    }
    assert_eq!(store.pins_version().await.unwrap(), 0, "nothing was decided");
    assert_eq!(accepted(&store, &now.key).await, None);
    assert_eq!(waiting(&store, &now.key).await.unwrap().pin, now.pin());
    assert!(store.pin_history(ID, &now.key).await.unwrap().is_empty());
    assert_eq!(decide(&store, &user, &now, Choice::Accept).await, Decided::Done);
    assert_eq!(accepted(&store, &now.key).await, Some(now.pin()));
}

async fn a_decision_is_taken_once(place: &Place) {
    let store = place.store().await;
    let user = anna(&store).await;
    let (send, read) = (version("send", 1), version("read", 1));
    assert_eq!(decide(&store, &user, &send, Choice::Accept).await, Decided::Gone, "the server is unknown");
    list(&store, T, &[Hold(send.clone(), Held::New)]).await;
    assert_eq!(decide(&store, &user, &send, Choice::Accept).await, Decided::Done);
    for choice in [Choice::Accept, Choice::Reject] {
        assert_eq!(decide(&store, &user, &send, choice).await, Decided::Gone, "{choice:?}");
    }
    assert_eq!(accepted(&store, &send.key).await, Some(send.pin()));
    list(&store, T, &[Same(send.clone()), Hold(read.clone(), Held::New)]).await;
    list(&store, T, &[Same(send.clone())]).await;
    assert_eq!(decide(&store, &user, &read, Choice::Accept).await, Decided::Gone, "withdrawn");
    assert_eq!(store.pins_version().await.unwrap(), 1);
}

async fn decisions_are_answered_one_by_one(place: &Place) {
    let store = place.store().await;
    let user = anna(&store).await;
    let [a, b, c, d] = ["a", "b", "c", "d"].map(|name| version(name, 1));
    list(&store, T, &[&a, &b, &c].map(|definition| Hold(definition.clone(), Held::FirstSight))).await;
    let decisions = [
        decision(&c, Choice::Accept),
        decision(&version("a", 2), Choice::Accept),
        decision(&d, Choice::Accept),
        decision(&b, Choice::Reject),
        decision(&c, Choice::Reject),
    ];
    let decided = store.decide_pins(ID, &decisions, &user, T).await.unwrap();
    assert_eq!(decided, [Decided::Done, Decided::Changed, Decided::Gone, Decided::Done, Decided::Gone]);
    assert_eq!(store.pins_version().await.unwrap(), 1);
    let known = store.known_pins(ID).await.unwrap();
    assert_eq!(known.definitions[&a.key].waiting, Some(a.pin()));
    assert_eq!(known.definitions[&b.key].rejected, [b.pin()]);
    assert_eq!(known.definitions[&c.key].accepted.as_ref().unwrap().pin, c.pin());
    assert!(!known.definitions.contains_key(&d.key));
    assert!(store.decide_pins(ID, &[], &user, T).await.unwrap().is_empty());
}

async fn of_two_users_one_decides(place: &Place) {
    let gateways = [place.store().await, place.store().await];
    let user = anna(&gateways[0]).await;
    for round in 0..5 {
        let shown = version("send", round);
        list(&gateways[0], T, &[Hold(shown.clone(), Held::New)]).await;
        let task = |n: usize| {
            let (store, user, shown) = (gateways[n % 2].clone(), user.clone(), shown.clone());
            let choice = if n < 4 { Choice::Accept } else { Choice::Reject };
            tokio::spawn(async move { (choice, decide(&store, &user, &shown, choice).await) })
        };
        let mut done = Vec::new();
        for task in (0..8).map(task).collect::<Vec<_>>() {
            match task.await.unwrap() {
                (choice, Decided::Done) => done.push(choice),
                (_, other) => assert_eq!(other, Decided::Gone),
            }
        }
        let [choice] = done[..] else { panic!("{done:?}") };
        let is_accepted = accepted(&gateways[1], &shown.key).await == Some(shown.pin());
        assert_eq!(is_accepted, choice == Choice::Accept);
        assert_eq!(waiting(&gateways[1], &shown.key).await, None);
        assert_eq!(gateways[1].pins_version().await.unwrap(), i64::from(round) + 1);
    }
}

/// Another gateway has judged a list before a user decided, and stores it afterwards.
async fn a_list_does_not_undo_a_decision(place: &Place) {
    let store = place.store().await;
    let user = anna(&store).await;
    let (one, two) = (version("send", 1), version("send", 2));
    list(&store, T, &[seen_first(&one)]).await;
    list(&store, T, &[changed(&two)]).await;
    assert_eq!(decide(&store, &user, &two, Choice::Accept).await, Decided::Done);
    for late in [changed(&two), seen_first(&one), seen_first(&two), Admit(two.clone(), Admitted::Warned)] {
        list(&store, T, &[late]).await;
        assert_eq!(waiting(&store, &two.key).await, None);
        let found = &store.accepted_pins(ID).await.unwrap()[0];
        assert_eq!((found.pin, found.accepted_by.as_str()), (two.pin(), "anna"));
    }
    let bad = version("send", 3);
    list(&store, T, &[changed(&bad)]).await;
    assert_eq!(decide(&store, &user, &bad, Choice::Reject).await, Decided::Done);
    let rules = [Admitted::FirstSight, Admitted::Stricter, Admitted::Warned, Admitted::Unasked];
    for late in [changed(&bad)].into_iter().chain(rules.map(|rule| Admit(bad.clone(), rule))) {
        list(&store, T, &[late]).await;
        assert_eq!(waiting(&store, &bad.key).await, None);
        assert_eq!(accepted(&store, &bad.key).await, Some(two.pin()));
        assert_eq!(store.known_pins(ID).await.unwrap().definitions[&bad.key].rejected, [bad.pin()]);
    }
}

/// One gateway lists two versions in turn while users decide about one of them at the other.
async fn lists_and_decisions_at_once_agree(place: &Place) {
    let gateways = [place.store().await, place.store().await];
    let user = anna(&gateways[0]).await;
    let (one, two) = (version("send", 1), version("send", 2));
    list(&gateways[0], T, &[Hold(one.clone(), Held::New)]).await;
    let lister = {
        let (store, versions) = (gateways[0].clone(), [two.clone(), one.clone()]);
        tokio::spawn(async move {
            for n in 0..20 {
                list(&store, T, &[Hold(versions[n % 2].clone(), Held::New)]).await;
            }
        })
    };
    let mut results = Vec::new();
    while !lister.is_finished() {
        results.push(decide(&gateways[1], &user, &two, Choice::Accept).await);
    }
    lister.await.unwrap();
    list(&gateways[0], T, &[Hold(two.clone(), Held::New)]).await;
    results.push(decide(&gateways[1], &user, &two, Choice::Accept).await);
    let done = results.iter().filter(|result| **result == Decided::Done).count();
    assert_eq!(done, 1, "{results:?}");
    assert_eq!(accepted(&gateways[0], &two.key).await, Some(two.pin()));
    assert_eq!(waiting(&gateways[0], &two.key).await, None);
}

async fn the_lock_file_outranks_a_rejection(place: &Place) {
    let store = place.store().await;
    let user = anna(&store).await;
    let send = version("send", 1);
    list(&store, T, &[Hold(send.clone(), Held::NotLocked)]).await;
    assert_eq!(decide(&store, &user, &send, Choice::Reject).await, Decided::Done);
    list(&store, T, &[Admit(send.clone(), Admitted::Locked)]).await;
    assert_eq!(accepted(&store, &send.key).await, Some(send.pin()));
}

async fn a_rejection_is_taken_back(place: &Place) {
    let store = place.store().await;
    let user = anna(&store).await;
    let (one, two, new) = (version("send", 1), version("send", 2), version("new", 1));
    list(&store, T, &[seen_first(&one)]).await;
    list(&store, T + 10, &[changed(&two), Hold(new.clone(), Held::New)]).await;
    for definition in [&two, &new] {
        assert_eq!(decide(&store, &user, definition, Choice::Reject).await, Decided::Done);
    }
    let rejected = store.rejected_pins(ID).await.unwrap();
    let found = rejected.iter().find(|found| found.key == two.key).unwrap();
    assert_eq!((found.pin, &found.json, found.first_seen_ms), (two.pin(), &two.json, T + 10));
    assert_eq!((found.rejected_by.as_str(), found.rejected_ms), ("anna", T + 500));
    assert_eq!(rejected.len(), 2);
    for definition in [&two, &new] {
        assert_eq!(decide(&store, &user, definition, Choice::AcceptRejected).await, Decided::Done);
        assert_eq!(accepted(&store, &definition.key).await, Some(definition.pin()));
        assert_eq!(decide(&store, &user, definition, Choice::AcceptRejected).await, Decided::Gone, "once");
    }
    assert_eq!(store.pins_version().await.unwrap(), 4);
    assert!(store.rejected_pins(ID).await.unwrap().is_empty());
    let found = &store.accepted_pins(ID).await.unwrap()[1];
    assert_eq!((&found.json, found.accepted_by.as_str(), found.is_by_user), (&two.json, "anna", true));
    let [past] = &store.pin_history(ID, &one.key).await.unwrap()[..] else { panic!("one former version") };
    assert_eq!((past.pin, past.state), (one.pin(), PastState::Former));
    // It stays accepted when the server changes it and comes back.
    list(&store, T + 20, &[changed(&version("send", 3)), Same(new)]).await;
    assert_eq!(store.known_pins(ID).await.unwrap().definitions[&two.key].rejected, []);
}

/// Somebody who accepts what waits does not overrule the user who rejected it a moment before.
async fn a_rejection_is_taken_back_on_purpose_only(place: &Place) {
    let store = place.store().await;
    let user = anna(&store).await;
    let (one, two) = (version("send", 1), version("send", 2));
    list(&store, T, &[changed(&one)]).await;
    assert_eq!(decide(&store, &user, &one, Choice::AcceptRejected).await, Decided::Changed, "it waits");
    assert_eq!(decide(&store, &user, &one, Choice::Reject).await, Decided::Done);
    assert_eq!(decide(&store, &user, &one, Choice::Accept).await, Decided::Gone);
    assert_eq!(decide(&store, &user, &two, Choice::AcceptRejected).await, Decided::Gone, "never rejected");
    // The server lists another version now.
    list(&store, T, &[changed(&two)]).await;
    assert_eq!(decide(&store, &user, &one, Choice::AcceptRejected).await, Decided::Changed);
    list(&store, T, &[Hold(one.clone(), Held::Rejected)]).await;
    place.sql("UPDATE past_pins SET json = NULL").await;
    assert_eq!(decide(&store, &user, &one, Choice::AcceptRejected).await, Decided::Gone, "without its text");
    assert_eq!(accepted(&store, &one.key).await, None);
    // A pin of another formula is computed again.
    list(&store, T, &[changed(&two)]).await;
    assert_eq!(decide(&store, &user, &two, Choice::Reject).await, Decided::Done);
    place
        .sql(&format!("UPDATE past_pins SET formula = 0, pin = {} WHERE json IS NOT NULL", blob(place, &[7; 32])))
        .await;
    assert_eq!(store.rejected_pins(ID).await.unwrap()[0].pin, two.pin());
    assert_eq!(decide(&store, &user, &two, Choice::AcceptRejected).await, Decided::Done);
    assert_eq!(accepted(&store, &two.key).await, Some(two.pin()));
    assert!(store.rejected_pins(ID).await.unwrap().is_empty());
}
