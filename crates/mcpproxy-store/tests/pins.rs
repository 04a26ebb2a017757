//! Tests for lists of servers: what is stored about them, and what waits for a user.

#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "a test that cannot go on should stop")]

mod common;

use common::Place;
use common::asking::{MINUTE, T};
use common::pins::Said::{About, Admit, Hold, Same};
use common::pins::{ID, accepted, anna, blob, changed, decide, decision, list, seen_first, try_list, version, waiting};
use mcpproxy_core::trust::{Accepted, Admitted, Definition, DefinitionKind, Held, Pinned};
use mcpproxy_store::{AcceptedPin, Choice, Decided, PastPin, PastState, Store, StoreError, WaitingPin};

on_both!(
    a_server_is_unknown_until_its_first_list,
    names_and_texts_keep_every_byte,
    an_unchanged_list_writes_nothing,
    an_old_time_is_written_alone,
    a_changed_definition_waits,
    versions_that_wait_replace_each_other,
    the_accepted_version_withdraws_the_other,
    definitions_come_and_go,
    what_is_said_about_a_version_may_change,
    a_rule_replaces_the_accepted_version,
    a_definition_may_be_listed_twice,
    servers_do_not_mix,
    a_noted_server_is_known_and_has_listed_nothing,
    pins_of_another_formula_are_computed_again,
    ten_thousand_definitions_are_stored,
);

async fn a_noted_server_is_known_and_has_listed_nothing(place: &Place) {
    let store = place.store().await;
    store.note_server(ID, "fx", T).await.unwrap();
    let known = store.known_pins(ID).await.unwrap();
    assert!(known.is_known && known.is_noted && known.definitions.is_empty());
    let send = version("send", 1);
    list(&store, T + 1, &[Hold(send.clone(), Held::FirstSight)]).await;
    // A server that has listed something is not noted again.
    store.note_server(ID, "fx", T + 2).await.unwrap();
    let known = store.known_pins(ID).await.unwrap();
    assert!(known.is_known && !known.is_noted);
    assert_eq!(known.definitions[&send.key].waiting_since_ms, Some(T + 1));
}

async fn a_server_is_unknown_until_its_first_list(place: &Place) {
    let store = place.store().await;
    let known = store.known_pins(ID).await.unwrap();
    assert!(!known.is_known && known.definitions.is_empty());
    let (read, send) = (version("read", 1), version("send", 1));
    list(&store, T, &[seen_first(&read), Hold(send.clone(), Held::Suspicious)]).await;
    let known = store.known_pins(ID).await.unwrap();
    assert!(known.is_known);
    let expected = Accepted { pin: read.pin(), json: read.json.clone() };
    assert_eq!(known.definitions[&read.key], Pinned { accepted: Some(expected), ..Pinned::default() });
    assert_eq!(
        known.definitions[&send.key],
        Pinned { waiting: Some(send.pin()), waiting_since_ms: Some(T), ..Pinned::default() }
    );
    assert_eq!(known.definitions.len(), 2);
    let expected = AcceptedPin {
        key: read.key.clone(),
        pin: read.pin(),
        json: read.json.clone(),
        first_seen_ms: T,
        last_seen_ms: T,
        accepted_ms: T,
        accepted_by: "first_sight".into(),
        is_by_user: false,
    };
    assert_eq!(store.accepted_pins(ID).await.unwrap(), [expected]);
    let expected = WaitingPin {
        key: send.key.clone(),
        pin: send.pin(),
        json: send.json.clone(),
        reason: Held::Suspicious,
        details: "{}".into(),
        first_seen_ms: T,
        last_seen_ms: T,
        times: 1,
        accepted: None,
    };
    assert_eq!(store.waiting_pins(ID).await.unwrap(), [expected]);
    assert_eq!(store.waiting_counts().await.unwrap(), [(ID.to_owned(), 1)]);
    assert!(store.pin_history(ID, &read.key).await.unwrap().is_empty());
    assert_eq!(store.pins_version().await.unwrap(), 0, "no user decided");
}

/// Names of prompts and templates are any text of the server. An index of PostgreSQL has no room for a long one.
async fn names_and_texts_keep_every_byte(place: &Place) {
    let store = place.store().await;
    let long = "{x}".repeat(10_000);
    let said = [
        Definition::new(DefinitionKind::Prompt, "a\0b", r#"{"name":"a\u0000b"}"#),
        Definition::new(DefinitionKind::Prompt, "a\u{FFFD}b", "{\"name\":\"a\u{FFFD}b\"}"),
        Definition::new(DefinitionKind::Template, &long, r#"{ "uriTemplate" : "long" }"#),
        Definition::new(DefinitionKind::Tool, "same", r#"{"name":"same"}"#),
        Definition::new(DefinitionKind::Prompt, "same", r#"{"name":"same"}"#),
        Definition::instructions("Tools of\nmail → \0"),
    ];
    list(&store, T, &said.clone().map(|one| seen_first(&one))).await;
    let known = store.known_pins(ID).await.unwrap();
    assert_eq!(known.definitions.len(), said.len());
    for one in &said {
        let found = known.definitions[&one.key].accepted.clone().unwrap();
        assert_eq!((found.json, found.pin), (one.json.clone(), one.pin()), "{}", one.key);
    }
    let others = said.clone().map(|one| Definition { json: r#""another""#.into(), ..one });
    list(&store, T, &others.clone().map(|one| changed(&one))).await;
    let waiting = store.waiting_pins(ID).await.unwrap();
    assert_eq!(waiting.len(), said.len());
    for found in waiting {
        let before = said.iter().find(|one| one.key == found.key).unwrap();
        assert_eq!(found.accepted.unwrap().json, before.json, "{}", found.key);
    }
}

/// A reader cannot write, so a list that it stores successfully has written nothing.
async fn an_unchanged_list_writes_nothing(place: &Place) {
    let store = place.store().await;
    let (read, send, mut said) = (version("read", 1), version("send", 2), Vec::new());
    said.extend([seen_first(&read), Hold(send.clone(), Held::New), Hold(version("no", 1), Held::Rejected)]);
    list(&store, T, &said).await;
    said[0] = Same(read.clone());
    let reader = Store::open_read_only(&place.location).await.unwrap();
    list(&reader, T + 1, &said).await;
    said.reverse();
    list(&reader, T + MINUTE - 1, &said).await;
    for other in [
        vec![Same(read.clone())],
        vec![Same(read.clone()), Same(send.clone())],
        vec![Same(read.clone()), Hold(version("send", 3), Held::New)],
        vec![Same(read.clone()), Hold(send.clone(), Held::Suspicious)],
        vec![Same(read.clone()), About(send.clone(), Held::New, r#"{"findings":[]}"#)],
        vec![Hold(send.clone(), Held::New)],
    ] {
        let refused = try_list(&reader, T + 1, &other).await;
        assert!(matches!(refused, Err(StoreError::ReadOnly)), "{refused:?}");
    }
}

async fn an_old_time_is_written_alone(place: &Place) {
    let store = place.store().await;
    let (read, send) = (version("read", 1), version("send", 1));
    list(&store, T, &[seen_first(&read), Hold(send.clone(), Held::New)]).await;
    list(&store, T + MINUTE, &[Same(read.clone()), Hold(send.clone(), Held::New)]).await;
    assert_eq!(place.sql("SELECT revision FROM pinned_servers").await, [1], "no other row was looked at");
    let found = &store.accepted_pins(ID).await.unwrap()[0];
    assert_eq!((found.first_seen_ms, found.last_seen_ms), (T, T + MINUTE));
    assert_eq!(waiting(&store, &send.key).await.unwrap().last_seen_ms, T + MINUTE);
}

async fn a_changed_definition_waits(place: &Place) {
    let store = place.store().await;
    let (one, two) = (version("send", 1), version("send", 2));
    list(&store, T, &[seen_first(&one)]).await;
    list(&store, T + 5, &[About(two.clone(), Held::Changed, r#"{"kinds":["description"]}"#)]).await;
    let found = waiting(&store, &two.key).await.unwrap();
    assert_eq!((found.pin, &found.json, found.reason), (two.pin(), &two.json, Held::Changed));
    assert_eq!(found.details, r#"{"kinds":["description"]}"#);
    assert_eq!((found.first_seen_ms, found.last_seen_ms, found.times), (T + 5, T + 5, 1));
    assert_eq!(found.accepted, Some(Accepted { pin: one.pin(), json: one.json.clone() }));
    let known = store.known_pins(ID).await.unwrap();
    assert_eq!(known.definitions[&one.key].waiting, Some(two.pin()));
    assert_eq!(accepted(&store, &one.key).await, Some(one.pin()), "the accepted one stays");
}

async fn versions_that_wait_replace_each_other(place: &Place) {
    let store = place.store().await;
    let versions = [version("send", 1), version("send", 2), version("send", 3)];
    list(&store, T, &[seen_first(&versions[0])]).await;
    for n in 1..=10 {
        let shown = &versions[1 + n % 2];
        list(&store, T + n as i64, &[changed(shown)]).await;
        let found = waiting(&store, &shown.key).await.unwrap();
        assert_eq!((found.pin, found.times, found.first_seen_ms), (shown.pin(), n as u64, T + n as i64));
    }
    assert_eq!(place.sql("SELECT count(*) FROM waiting_pins").await, [1]);
    assert_eq!(place.sql("SELECT count(*) FROM past_pins").await, [0], "what nobody decided leaves nothing");
}

async fn the_accepted_version_withdraws_the_other(place: &Place) {
    let store = place.store().await;
    let (one, two) = (version("send", 1), version("send", 2));
    list(&store, T, &[seen_first(&one)]).await;
    for n in 1..=3 {
        list(&store, T, &[changed(&two)]).await;
        assert_eq!(waiting(&store, &two.key).await.unwrap().times, n, "going back does not reset the count");
        list(&store, T, &[Same(one.clone())]).await;
        assert_eq!(waiting(&store, &two.key).await, None);
        assert!(store.waiting_counts().await.unwrap().is_empty());
        assert_eq!(accepted(&store, &one.key).await, Some(one.pin()));
    }
    let user = anna(&store).await;
    list(&store, T, &[changed(&two)]).await;
    assert_eq!(decide(&store, &user, &two, Choice::Accept).await, Decided::Done);
    list(&store, T, &[changed(&one)]).await;
    assert_eq!(waiting(&store, &one.key).await.unwrap().times, 1, "a decision does");
}

async fn definitions_come_and_go(place: &Place) {
    let store = place.store().await;
    let (read, send, new) = (version("read", 1), version("send", 1), version("new", 1));
    list(&store, T, &[seen_first(&read), seen_first(&send), Hold(new.clone(), Held::New)]).await;
    list(&store, T + MINUTE, &[Same(read.clone())]).await;
    list(&store, T + 2 * MINUTE, &[Same(read.clone())]).await;
    assert_eq!(waiting(&store, &new.key).await, None, "withdrawn");
    let times = async || {
        let accepted = store.accepted_pins(ID).await.unwrap();
        accepted.iter().map(|pin| (pin.key.name.to_string(), pin.last_seen_ms)).collect::<Vec<_>>()
    };
    assert_eq!(times().await, [("read".to_owned(), T + 2 * MINUTE), ("send".to_owned(), T)]);
    assert_eq!(accepted(&store, &send.key).await, Some(send.pin()), "if it comes back, it is the same");
    list(&store, T + 3 * MINUTE, &[Same(read.clone()), Same(send.clone())]).await;
    assert_eq!(times().await, [("read".to_owned(), T + 3 * MINUTE), ("send".to_owned(), T + 3 * MINUTE)]);
}

async fn what_is_said_about_a_version_may_change(place: &Place) {
    let store = place.store().await;
    let new = version("new", 1);
    list(&store, T, &[Hold(new.clone(), Held::New)]).await;
    list(&store, T + 5, &[About(new.clone(), Held::Suspicious, r#"{"findings":[1]}"#)]).await;
    let found = waiting(&store, &new.key).await.unwrap();
    assert_eq!((found.reason, found.details.as_str()), (Held::Suspicious, r#"{"findings":[1]}"#));
    assert_eq!((found.first_seen_ms, found.times), (T, 1), "it is the same version");
}

async fn a_rule_replaces_the_accepted_version(place: &Place) {
    let store = place.store().await;
    let (one, two, three) = (version("send", 1), version("send", 2), version("send", 3));
    list(&store, T, &[seen_first(&one)]).await;
    list(&store, T + 1, &[changed(&three)]).await;
    list(&store, T + 2, &[Admit(two.clone(), Admitted::Stricter)]).await;
    assert_eq!(accepted(&store, &one.key).await, Some(two.pin()));
    assert_eq!(waiting(&store, &one.key).await, None);
    let expected = PastPin {
        pin: one.pin(),
        state: PastState::Former,
        json: Some(one.json.clone()),
        first_seen_ms: T,
        decided_ms: T,
        decided_by: "first_sight".into(),
        is_by_user: false,
        ended_ms: T + 2,
    };
    assert_eq!(store.pin_history(ID, &one.key).await.unwrap(), [expected]);
    list(&store, T + 3, &[Admit(one.clone(), Admitted::Warned)]).await;
    list(&store, T + 4, &[Admit(two.clone(), Admitted::Unasked)]).await;
    let history = store.pin_history(ID, &one.key).await.unwrap();
    let pins: Vec<_> = history.iter().map(|past| (past.pin, past.ended_ms, past.decided_by.as_str())).collect();
    assert_eq!(pins, [(one.pin(), T + 4, "warned"), (two.pin(), T + 3, "stricter")], "the latest first, each once");
}

async fn a_definition_may_be_listed_twice(place: &Place) {
    let store = place.store().await;
    let (one, two, three) = (version("send", 1), version("send", 2), version("send", 3));
    list(&store, T, &[seen_first(&one), seen_first(&two), changed(&three), changed(&two)]).await;
    assert_eq!(accepted(&store, &one.key).await, Some(one.pin()));
    assert_eq!(waiting(&store, &one.key).await.unwrap().pin, three.pin());
}

async fn servers_do_not_mix(place: &Place) {
    let store = place.store().await;
    list(&store, T, &[seen_first(&version("send", 1)), changed(&version("read", 1))]).await;
    let other = "0".repeat(64);
    let known = store.known_pins(&other).await.unwrap();
    assert!(!known.is_known && known.definitions.is_empty());
    assert!(store.waiting_pins(&other).await.unwrap().is_empty());
    assert!(store.accepted_pins(&other).await.unwrap().is_empty());
}

async fn pins_of_another_formula_are_computed_again(place: &Place) {
    let store = place.store().await;
    let user = anna(&store).await;
    let (read, send, other) = (version("read", 1), version("send", 1), version("other", 1));
    let held = |definition: &Definition| Hold(definition.clone(), Held::New);
    list(&store, T, &[seen_first(&read), held(&send), held(&other), held(&version("read", 2))]).await;
    assert_eq!(decide(&store, &user, &other, Choice::Reject).await, Decided::Done);
    let old = blob(place, &[7; 32]);
    for table in ["accepted_pins", "waiting_pins", "past_pins"] {
        place.sql(&format!("UPDATE {table} SET formula = 0, pin = {old}")).await;
    }
    let known = store.known_pins(ID).await.unwrap();
    assert_eq!(known.definitions[&read.key].accepted.as_ref().unwrap().pin, read.pin());
    assert_eq!(known.definitions[&send.key].waiting, Some(send.pin()));
    assert_eq!(known.definitions[&other.key].rejected, [other.pin()]);
    assert_eq!(store.accepted_pins(ID).await.unwrap()[0].pin, read.pin());
    assert_eq!(store.pin_history(ID, &other.key).await.unwrap()[0].pin, other.pin());
    let found = waiting(&store, &read.key).await.unwrap();
    assert_eq!((found.pin, found.accepted.unwrap().pin), (version("read", 2).pin(), read.pin()));
    // A list finds nothing changed, and what was rejected does not wait again.
    list(&store, T, &[held(&read), held(&send), held(&other)]).await;
    assert_eq!(waiting(&store, &send.key).await.unwrap().times, 1);
    assert_eq!(waiting(&store, &other.key).await, None);
    assert_eq!(waiting(&store, &read.key).await, None);
    assert_eq!(decide(&store, &user, &send, Choice::Accept).await, Decided::Done);
    assert_eq!(accepted(&store, &send.key).await, Some(send.pin()));
    // Without its text, a rejected pin of another formula matches nothing.
    place.sql("UPDATE past_pins SET json = NULL").await;
    let known = store.known_pins(ID).await.unwrap();
    assert_eq!(known.definitions[&other.key], Pinned::default());
    assert_eq!(store.pin_history(ID, &other.key).await.unwrap()[0].json, None);
}

async fn ten_thousand_definitions_are_stored(place: &Place) {
    const COUNT: usize = 10_000;
    let store = place.store().await;
    let user = anna(&store).await;
    let all = |n| (0..COUNT).map(|tool| version(&format!("tool{tool}"), n)).collect::<Vec<_>>();
    let (first, second) = (all(1), all(2));
    list(&store, T, &first.iter().map(seen_first).collect::<Vec<_>>()).await;
    assert_eq!(store.known_pins(ID).await.unwrap().definitions.len(), COUNT);
    list(&store, T, &second.iter().map(changed).collect::<Vec<_>>()).await;
    assert_eq!(store.waiting_counts().await.unwrap(), [(ID.to_owned(), COUNT as u64)]);
    let decisions: Vec<_> = second.iter().map(|one| decision(one, Choice::Accept)).collect();
    let decided = store.decide_pins(ID, &decisions, &user, T).await.unwrap();
    assert!(decided.len() == COUNT && decided.iter().all(|decided| *decided == Decided::Done));
    let known = store.known_pins(ID).await.unwrap();
    for definition in &second {
        let found = &known.definitions[&definition.key];
        assert_eq!(found.accepted.as_ref().map(|accepted| accepted.pin), Some(definition.pin()));
        assert_eq!(found.waiting, None);
    }
}
