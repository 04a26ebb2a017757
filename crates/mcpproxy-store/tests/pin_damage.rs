//! Tests for rows of the pin tables that make no sense: they hold their own definition, until a user decides again.

#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "a test that cannot go on should stop")]

mod common;

use common::Place;
use common::asking::T;
use common::pins::Said::{Hold, Same};
use common::pins::{
    ID, Said, accepted, anna, blob, changed, decide, decision, list, seen_first, try_list, version, waiting,
};
use mcpproxy_core::trust::Held;
use mcpproxy_store::{Choice, Decided, PresenceProof, Store, StoreError};

on_both!(
    a_row_that_makes_no_sense_damages_its_definition,
    a_row_that_nobody_can_name_fails_the_read,
    a_damaged_row_keeps_nothing_else_out,
    a_decision_replaces_a_damaged_row,
);

/// Lists one accepted, one waiting and one rejected definition.
async fn one_of_each(store: &Store) -> (PresenceProof, Vec<Said>) {
    let user = anna(store).await;
    let (read, send, other) = (version("read", 1), version("send", 1), version("other", 1));
    list(store, T, &[seen_first(&read), changed(&send), changed(&other)]).await;
    assert_eq!(decide(store, &user, &other, Choice::Reject).await, Decided::Done);
    (user, vec![Same(read), changed(&send)])
}

async fn a_row_that_makes_no_sense_damages_its_definition(place: &Place) {
    let store = place.store().await;
    one_of_each(&store).await;
    let (short, text, bad) = (blob(place, &[1; 31]), blob(place, b"{\"name\":"), blob(place, b"\"\xff\""));
    let other = blob(place, b"another name");
    let cases = [
        ("accepted_pins", "kind", "'gadget'".to_owned()),
        ("accepted_pins", "kind", "'prompt'".to_owned()),
        ("accepted_pins", "name", other.clone()),
        ("accepted_pins", "pin", short.clone()),
        ("accepted_pins", "json", text.clone()),
        ("accepted_pins", "json", bad.clone()),
        ("past_pins", "kind", "''".to_owned()),
        ("past_pins", "name", other),
        ("past_pins", "pin", short.clone()),
    ];
    for (table, column, value) in cases {
        place.sql(&format!("CREATE TABLE kept AS SELECT * FROM {table}")).await;
        place.sql(&format!("UPDATE {table} SET {column} = {value}")).await;
        let known = store.known_pins(ID).await.unwrap();
        let name = if table == "past_pins" { "other" } else { "read" };
        let key = version(name, 1).key;
        assert_eq!(known.damaged, [key.digest()].into(), "{table}.{column} = {value}");
        assert_eq!(known.definitions.get(&key), None, "{table}.{column} = {value}");
        assert_eq!(known.definitions.len(), 2, "the others are read");
        place.sql(&format!("DELETE FROM {table}; INSERT INTO {table} SELECT * FROM kept; DROP TABLE kept")).await;
        assert!(store.known_pins(ID).await.unwrap().damaged.is_empty());
    }
    // Nobody has decided about what waits. The next list writes it again.
    for (column, value) in
        [("reason", "'whim'"), ("json", &text), ("json", &bad), ("kind", "'gadget'"), ("pin", &short)]
    {
        place.sql(&format!("UPDATE waiting_pins SET {column} = {value}")).await;
        assert!(store.waiting_pins(ID).await.unwrap().is_empty(), "{column} = {value}");
        list(&store, T, &[Same(version("read", 1)), changed(&version("send", 1)), Hold(version("more", 1), Held::New)])
            .await;
        list(&store, T, &[Same(version("read", 1)), changed(&version("send", 1))]).await;
        assert_eq!(waiting(&store, &version("send", 1).key).await.unwrap().pin, version("send", 1).pin(), "{column}");
    }
    place.sql("DELETE FROM pinned_servers").await;
    let read = store.known_pins(ID).await;
    assert!(matches!(read, Err(StoreError::Corrupt { .. })), "a known server must not become unknown: {read:?}");
}

async fn a_row_that_nobody_can_name_fails_the_read(place: &Place) {
    let store = place.store().await;
    let (user, said) = one_of_each(&store).await;
    place.sql(&format!("UPDATE past_pins SET key = {}", blob(place, &[1; 31]))).await;
    assert!(matches!(store.known_pins(ID).await, Err(StoreError::Corrupt { .. })));
    let more = [&said[..], &[changed(&version("more", 1))]].concat();
    assert!(matches!(try_list(&store, T, &more).await, Err(StoreError::Corrupt { .. })));
    let decided = store.decide_pins(ID, &[decision(&version("send", 1), Choice::Accept)], &user, T).await;
    assert!(matches!(decided, Err(StoreError::Corrupt { .. })));
    assert_eq!(store.waiting_pins(ID).await.unwrap().len(), 1, "nothing was stored");
}

async fn a_damaged_row_keeps_nothing_else_out(place: &Place) {
    let store = place.store().await;
    let (user, mut said) = one_of_each(&store).await;
    place.sql("UPDATE past_pins SET kind = 'gadget'").await;
    said.push(changed(&version("more", 1)));
    list(&store, T, &said).await;
    assert_eq!(decide(&store, &user, &version("send", 1), Choice::Accept).await, Decided::Done);
    assert_eq!(decide(&store, &user, &version("more", 1), Choice::Accept).await, Decided::Done);
    let known = store.known_pins(ID).await.unwrap();
    assert_eq!(known.damaged, [version("other", 1).key.digest()].into(), "a decision about others repairs nothing");
}

/// Whatever is damaged and whatever the user decides: afterwards everything can be read, and nobody is asked again.
async fn a_decision_replaces_a_damaged_row(place: &Place) {
    let store = place.store().await;
    let (short, text) = (blob(place, &[1; 31]), blob(place, b"{\"name\":"));
    let user = anna(&store).await;
    let (read, next) = (version("read", 1), version("read", 2));
    for (n, (column, value)) in
        [("kind", "'gadget'"), ("kind", "'prompt'"), ("pin", &short), ("json", &text)].into_iter().enumerate()
    {
        for (choice, listed) in
            [Choice::Accept, Choice::Reject].into_iter().flat_map(|choice| [(choice, &read), (choice, &next)])
        {
            let case = format!("{column} = {value} {choice:?} {n}");
            for table in ["accepted_pins", "waiting_pins", "past_pins", "pinned_servers"] {
                place.sql(&format!("DELETE FROM {table}")).await;
            }
            list(&store, T, &[seen_first(&read)]).await;
            place.sql(&format!("UPDATE accepted_pins SET {column} = {value}")).await;
            list(&store, T, &[Hold(listed.clone(), Held::Unreadable)]).await;
            let found = waiting(&store, &read.key).await.unwrap();
            assert_eq!((found.pin, found.reason, found.accepted), (listed.pin(), Held::Unreadable, None), "{case}");
            assert_eq!(decide(&store, &user, listed, choice).await, Decided::Done, "{case}");
            let known = store.known_pins(ID).await.unwrap();
            assert!(known.damaged.is_empty(), "{case}");
            let found = &known.definitions[&read.key];
            let accepted = found.accepted.as_ref().map(|accepted| accepted.pin);
            let expected =
                if choice == Choice::Accept { (Some(listed.pin()), vec![]) } else { (None, vec![listed.pin()]) };
            assert_eq!((accepted, found.rejected.clone()), expected, "{case}");
        }
    }
    // A damaged rejection.
    place.sql(&format!("UPDATE past_pins SET pin = {short}")).await;
    list(&store, T, &[Hold(next.clone(), Held::Unreadable)]).await;
    assert_eq!(decide(&store, &user, &next, Choice::Accept).await, Decided::Done);
    let known = store.known_pins(ID).await.unwrap();
    assert!(known.damaged.is_empty() && known.definitions[&next.key].rejected.is_empty());
    assert_eq!(accepted(&store, &next.key).await, Some(next.pin()));
}
