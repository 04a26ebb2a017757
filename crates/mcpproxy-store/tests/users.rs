//! Tests for users: invitations, sessions, challenges and factors, their purposes and expiry.

#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "a test that cannot go on should stop")]

mod common;

use common::Place;
use common::asking::{MINUTE, T};
use mcpproxy_store::{Store, StoreError, User};

on_both!(
    the_first_user_needs_a_bootstrap_invitation,
    an_invitation_is_good_once,
    a_name_is_taken_once_and_costs_no_invitation,
    the_setup_link_is_invalid_once_a_user_exists,
    a_session_ends_when_it_is_idle_or_old,
    sessions_are_closed_one_by_one,
    the_key_of_a_session_s_pages_is_of_this_session_alone,
    a_new_password_ends_all_other_sessions,
    a_user_is_removed_with_all_they_had,
    the_last_user_stays,
    a_code_counts_once_and_never_an_older_one,
    passkeys_belong_to_users,
    a_challenge_is_answered_once,
    failures_are_counted_while_they_follow_each_other,
    a_shared_secret_is_made_once,
    what_is_left_of_sign_ins_is_forgotten,
    no_secret_can_be_read_in_the_database,
);

const IDLE: i64 = 15 * MINUTE;
const MOST: i64 = 12 * 60 * MINUTE;
const HOUR: i64 = 60 * MINUTE;

async fn first(store: &Store, name: &str) -> User {
    let invitation = store.invite([1; 32], None, T, HOUR).await.unwrap();
    assert!(store.create_user(&invitation, name, "$argon2id$…", T).await.unwrap());
    signed_in(store, name, 100).await.1
}

async fn signed_in(store: &Store, name: &str, random: u8) -> (String, User) {
    let secret = store.open_session(name, [[random; 32], [0x77; 32]], T).await.unwrap().secret;
    let session = store.find_session(&secret, T, IDLE, MOST).await.unwrap().unwrap();
    (secret, session.user)
}

async fn is_invited(store: &Store, invitation: &str, now_ms: i64) -> bool {
    store.find_invitation(invitation, now_ms).await.unwrap().is_some()
}

async fn the_first_user_needs_a_bootstrap_invitation(place: &Place) {
    let store = place.store().await;
    assert!(!store.has_users().await.unwrap());
    assert!(!store.create_user("invite_guessed", "anna", "hash", T).await.unwrap());
    let user = first(&store, "anna").await;
    assert_eq!(user.name(), "anna");
    assert!(store.has_users().await.unwrap());
    let row = store.find_user("anna").await.unwrap().unwrap();
    assert_eq!((row.name.as_str(), row.password_hash.as_deref()), ("anna", Some("$argon2id$…")));
    assert!(row.totp.is_none() && row.passkeys.is_empty());
    assert!(store.find_user("Anna").await.unwrap().is_none());
    let unknown = store.open_session("berta", [[1; 32], [0x77; 32]], T).await;
    assert!(matches!(unknown, Err(StoreError::NoSuchUser { .. })));
}

async fn an_invitation_is_good_once(place: &Place) {
    let store = place.store().await;
    let anna = first(&store, "anna").await;
    let invitation = store.invite([2; 32], Some(&anna), T, HOUR).await.unwrap();
    assert!(is_invited(&store, &invitation, T + HOUR - 1).await);
    assert!(!is_invited(&store, &invitation, T + HOUR).await);
    assert!(!store.create_user(&invitation, "late", "hash", T + HOUR).await.unwrap());
    let create = |n: u32| {
        let (store, invitation) = (store.clone(), invitation.clone());
        tokio::spawn(async move { store.create_user(&invitation, &format!("user{n}"), "hash", T).await.unwrap() })
    };
    let mut created = 0;
    for task in (0..10).map(create).collect::<Vec<_>>() {
        created += usize::from(task.await.unwrap());
    }
    assert_eq!(created, 1);
    assert!(!is_invited(&store, &invitation, T).await);
}

async fn a_name_is_taken_once_and_costs_no_invitation(place: &Place) {
    let store = place.store().await;
    let anna = first(&store, "anna").await;
    let invitation = store.invite([2; 32], Some(&anna), T, HOUR).await.unwrap();
    let taken = store.create_user(&invitation, "anna", "another hash", T).await;
    assert_eq!(taken.unwrap_err().to_string(), "a user named `anna` already exists; choose another name");
    let odd = store.create_user(&invitation, "an na", "hash", T).await;
    assert!(matches!(odd, Err(StoreError::UserName)));
    assert_eq!(store.find_user("anna").await.unwrap().unwrap().password_hash.as_deref(), Some("$argon2id$…"));
    assert!(store.create_user(&invitation, "berta", "hash", T).await.unwrap());
}

async fn the_setup_link_is_invalid_once_a_user_exists(place: &Place) {
    let store = place.store().await;
    let mut links = Vec::new();
    for random in 1..=10 {
        links.push(store.invite([random; 32], None, T, HOUR).await.unwrap());
    }
    let create = |(n, link): (usize, String)| {
        let store = store.clone();
        tokio::spawn(async move { store.create_user(&link, &format!("user{n}"), "hash", T).await.unwrap() })
    };
    let mut created = 0;
    for task in links.clone().into_iter().enumerate().map(create).collect::<Vec<_>>() {
        created += usize::from(task.await.unwrap());
    }
    assert_eq!(created, 1, "of all who hold a link from nobody, one is the first");
    for link in links {
        assert!(!is_invited(&store, &link, T).await);
    }
}

async fn a_session_ends_when_it_is_idle_or_old(place: &Place) {
    let store = place.store().await;
    first(&store, "anna").await;
    let secret = store.open_session("anna", [[7; 32], [0x77; 32]], T).await.unwrap().secret;
    let found = async |now_ms: i64| store.find_session(&secret, now_ms, IDLE, MOST).await.unwrap();
    let session = found(T).await.unwrap();
    assert_eq!((session.user.name(), session.created_ms, session.is_enrolled), ("anna", T, false));
    assert_eq!((session.csrf.len(), session.csrf == secret), (64, false));
    assert_eq!(found(T + IDLE).await, None);
    // A use within a minute writes nothing. A later use restarts the idle time.
    assert!(found(T + MINUTE - 1).await.is_some());
    assert_eq!(found(T + IDLE).await, None);
    assert!(found(T + IDLE - 1).await.is_some());
    assert_eq!(found(T + IDLE).await.unwrap(), session);
    assert_eq!(found(T + 2 * IDLE - 1).await, None);
    // A session in constant use still ends.
    let mut now_ms = T + IDLE;
    while now_ms < T + MOST {
        assert!(found(now_ms).await.is_some(), "{now_ms}");
        now_ms += 10 * MINUTE;
    }
    assert!(found(T + MOST - 1).await.is_some());
    assert_eq!(found(T + MOST).await, None);
    assert_eq!(store.find_session("session_other", T, IDLE, MOST).await.unwrap(), None);
    assert_eq!(store.find_session("", T, IDLE, MOST).await.unwrap(), None);
}

async fn sessions_are_closed_one_by_one(place: &Place) {
    let store = place.store().await;
    first(&store, "anna").await;
    let (one, _) = signed_in(&store, "anna", 1).await;
    let (two, _) = signed_in(&store, "anna", 2).await;
    let (three, _) = signed_in(&store, "anna", 3).await;
    let is_open = async |secret: &str| store.find_session(secret, T, IDLE, MOST).await.unwrap().is_some();
    store.close_session(&one).await.unwrap();
    assert_eq!((is_open(&one).await, is_open(&two).await, is_open(&three).await), (false, true, true));
}

/// Neither the cookie nor the page key of another session of the same user proves presence.
async fn the_key_of_a_session_s_pages_is_of_this_session_alone(place: &Place) {
    let store = place.store().await;
    first(&store, "anna").await;
    let one = store.open_session("anna", [[1; 32], [2; 32]], T).await.unwrap();
    let two = store.open_session("anna", [[3; 32], [4; 32]], T).await.unwrap();
    let session = store.find_session(&one.secret, T, IDLE, MOST).await.unwrap().unwrap();
    for wrong in ["", "page_", &two.page_key, &one.secret, &session.csrf] {
        assert_eq!(session.present(wrong), None, "{wrong}");
    }
    assert_eq!(session.present(&one.page_key).unwrap().user().name(), "anna");
}

async fn a_new_password_ends_all_other_sessions(place: &Place) {
    let store = place.store().await;
    let anna = first(&store, "anna").await;
    let berta = second(&store, &anna, "berta").await;
    let (one, _) = signed_in(&store, "anna", 1).await;
    let (two, _) = signed_in(&store, "anna", 2).await;
    let (hers, _) = signed_in(&store, berta.name(), 3).await;
    store.change_password(&anna, "another hash", &one).await.unwrap();
    let is_open = async |secret: &str| store.find_session(secret, T, IDLE, MOST).await.unwrap().is_some();
    assert_eq!((is_open(&one).await, is_open(&two).await, is_open(&hers).await), (true, false, true));
    assert_eq!(store.find_user("anna").await.unwrap().unwrap().password_hash.as_deref(), Some("another hash"));
    assert_eq!(store.find_user("berta").await.unwrap().unwrap().password_hash.as_deref(), Some("hash"));
}

async fn a_user_is_removed_with_all_they_had(place: &Place) {
    let store = place.store().await;
    let anna = first(&store, "anna").await;
    let berta = second(&store, &anna, "berta").await;
    let (hers, _) = signed_in(&store, "berta", 3).await;
    store.save_challenge(&hers, "p", "state", T, MINUTE).await.unwrap();
    assert!(store.add_passkey(&berta, "id", "phone", "{}", T).await.unwrap());
    let open = store.invite([8; 32], Some(&berta), T, HOUR).await.unwrap();
    let fresh = fresh(&store, &anna).await;
    assert_eq!(store.list_users().await.unwrap(), ["anna", "berta"]);
    assert!(!store.remove_user("nobody", &fresh).await.unwrap());
    assert!(store.remove_user("berta", &fresh).await.unwrap());
    assert_eq!(store.list_users().await.unwrap(), ["anna"]);
    assert_eq!(store.find_session(&hers, T, IDLE, MOST).await.unwrap(), None);
    assert!(!is_invited(&store, &open, T).await);
    // Late changes of a removed user do not reach a later user of the same name.
    assert!(!store.add_passkey(&berta, "late", "phone", "{}", T).await.unwrap());
    let late = store.invite([9; 32], Some(&berta), T, HOUR).await.unwrap();
    assert!(!is_invited(&store, &late, T).await);
    second(&store, &anna, "berta").await;
    assert!(store.find_user("berta").await.unwrap().unwrap().passkeys.is_empty());
    assert_eq!(store.find_session(&hers, T, IDLE, MOST).await.unwrap(), None);
    assert_eq!(store.take_challenge(&hers, "p", T).await.unwrap(), None);
}

async fn the_last_user_stays(place: &Place) {
    let store = place.store().await;
    let anna = first(&store, "anna").await;
    let of_anna = fresh(&store, &anna).await;
    assert!(!store.remove_user("anna", &of_anna).await.unwrap(), "nobody removes themselves");
    let berta = second(&store, &anna, "berta").await;
    let of_berta = fresh(&store, &berta).await;
    let (one, two) = tokio::join!(store.remove_user("berta", &of_anna), store.remove_user("anna", &of_berta));
    assert_ne!(one.unwrap(), two.unwrap(), "of two who remove each other, one stays");
    assert_eq!(store.list_users().await.unwrap().len(), 1);
}

async fn second(store: &Store, by: &User, name: &str) -> User {
    let invitation = store.invite([name.as_bytes()[0]; 32], Some(by), T, HOUR).await.unwrap();
    assert!(store.create_user(&invitation, name, "hash", T).await.unwrap());
    signed_in(store, name, 200).await.1
}

async fn fresh(store: &Store, user: &User) -> mcpproxy_store::StepUpProof {
    store.set_totp(user, b"secret", 0).await.unwrap();
    store.use_totp_step(user, 1, "remove").await.unwrap().unwrap()
}

async fn a_code_counts_once_and_never_an_older_one(place: &Place) {
    let store = place.store().await;
    let anna = first(&store, "anna").await;
    assert_eq!(store.use_totp_step(&anna, 100, "login").await.unwrap(), None, "nobody has a factor at first");
    store.set_totp(&anna, &[0, 255, 7], 100).await.unwrap();
    let totp = store.find_user("anna").await.unwrap().unwrap().totp.unwrap();
    assert_eq!((totp.secret, totp.last_step), (vec![0, 255, 7], 100));
    let (_, enrolled) = signed_in(&store, "anna", 9).await;
    assert_eq!(enrolled, anna);
    for (step, counts) in [(99, false), (100, false), (101, true), (101, false), (103, true), (102, false)] {
        let fresh = store.use_totp_step(&anna, step, "01APPROVAL").await.unwrap();
        assert_eq!(fresh.is_some(), counts, "{step}");
        if let Some(fresh) = fresh {
            assert_eq!((fresh.user(), fresh.purpose()), (&anna, "01APPROVAL"));
        }
    }
    let using = |n: i64| {
        let (store, anna) = (store.clone(), anna.clone());
        tokio::spawn(async move { store.use_totp_step(&anna, 200, &n.to_string()).await.unwrap().is_some() })
    };
    let mut counted = 0;
    for task in (0..20).map(using).collect::<Vec<_>>() {
        counted += usize::from(task.await.unwrap());
    }
    assert_eq!(counted, 1);
}

async fn passkeys_belong_to_users(place: &Place) {
    let store = place.store().await;
    let anna = first(&store, "anna").await;
    let invitation = store.invite([2; 32], Some(&anna), T, HOUR).await.unwrap();
    assert!(store.create_user(&invitation, "berta", "hash", T).await.unwrap());
    let (_, berta) = signed_in(&store, "berta", 2).await;
    assert_eq!(store.count_approvers().await.unwrap(), 0, "nobody has a factor at first");
    assert!(store.add_passkey(&anna, "key1", "laptop", "{1}", T).await.unwrap());
    assert_eq!(store.count_approvers().await.unwrap(), 1);
    store.set_totp(&berta, b"secret", 0).await.unwrap();
    assert_eq!(store.count_approvers().await.unwrap(), 2);
    assert!(store.add_passkey(&anna, "key2", "phone", "{2}", T + 1).await.unwrap());
    assert!(!store.add_passkey(&berta, "key1", "mine", "{3}", T).await.unwrap(), "it is somebody's");
    let (secret, _) = signed_in(&store, "anna", 3).await;
    assert!(store.find_session(&secret, T, IDLE, MOST).await.unwrap().unwrap().is_enrolled);
    let labels = async |name: &str| {
        let row = store.find_user(name).await.unwrap().unwrap();
        row.passkeys.into_iter().map(|key| format!("{} {} {}", key.id, key.label, key.data)).collect::<Vec<_>>()
    };
    assert_eq!(labels("anna").await, ["key1 laptop {1}", "key2 phone {2}"]);
    assert_eq!(store.use_passkey(&berta, "key1", "{9}", "p").await.unwrap(), None);
    assert_eq!(store.use_passkey(&anna, "key3", "{9}", "p").await.unwrap(), None);
    let fresh = store.use_passkey(&anna, "key1", "{1b}", "p").await.unwrap().unwrap();
    assert_eq!((fresh.user().name(), fresh.purpose()), ("anna", "p"));
    store.update_passkey("key2", "{2b}").await.unwrap();
    assert_eq!(labels("anna").await, ["key1 laptop {1b}", "key2 phone {2b}"]);
    assert!(!store.remove_passkey(&berta, "key1").await.unwrap());
    assert!(store.remove_passkey(&anna, "key1").await.unwrap());
    assert_eq!(store.use_passkey(&anna, "key1", "{1c}", "p").await.unwrap(), None, "it is gone");
    assert_eq!(labels("anna").await, ["key2 phone {2b}"]);
}

async fn a_challenge_is_answered_once(place: &Place) {
    let store = place.store().await;
    let keep = async |purpose: &str, state: &str| store.save_challenge("s", purpose, state, T, MINUTE).await.unwrap();
    let take =
        async |session: &str, purpose: &str, now_ms: i64| store.take_challenge(session, purpose, now_ms).await.unwrap();
    keep("approve 1", "first").await;
    keep("approve 1", "second").await;
    keep("approve 2", "other").await;
    assert_eq!(take("t", "approve 1", T).await, None, "another session");
    assert_eq!(take("s", "approve 3", T).await, None, "another purpose");
    assert_eq!(take("s", "approve 2", T + MINUTE).await, None, "too late");
    let taking = |_| {
        let store = store.clone();
        tokio::spawn(async move { store.take_challenge("s", "approve 1", T).await.unwrap() })
    };
    let mut taken = Vec::new();
    for task in (0..20).map(taking).collect::<Vec<_>>() {
        taken.extend(task.await.unwrap());
    }
    assert_eq!(taken, ["second"]);
}

async fn failures_are_counted_while_they_follow_each_other(place: &Place) {
    let store = place.store().await;
    first(&store, "anna").await;
    let failures = async || {
        let row = store.find_user("anna").await.unwrap().unwrap();
        (row.failures, row.locked_until_ms)
    };
    assert_eq!(failures().await, (0, 0));
    for (now_ms, expected) in [(T, 1), (T + 1, 2), (T + MINUTE, 3), (T + 3 * MINUTE, 4), (T + 3 * 24 * HOUR, 1)] {
        store.record_failure("anna", now_ms, now_ms + 5).await.unwrap();
        assert_eq!(failures().await, (expected, now_ms + 5));
    }
    store.record_failure("nobody", T, T).await.unwrap();
    store.reset_failures("anna").await.unwrap();
    assert_eq!(failures().await, (0, 0));
}

async fn a_shared_secret_is_made_once(place: &Place) {
    let store = place.store().await;
    let replica = place.store().await;
    let make = |n: u8| {
        let store = if n.is_multiple_of(2) { store.clone() } else { replica.clone() };
        tokio::spawn(async move { store.shared_secret("state", [n; 32]).await.unwrap() })
    };
    let mut made = Vec::new();
    for task in (0..10).map(make).collect::<Vec<_>>() {
        made.push(task.await.unwrap());
    }
    made.dedup();
    assert_eq!(made.len(), 1);
    assert_eq!(store.shared_secret("other", [77; 32]).await.unwrap(), [77; 32]);
    store.close().await;
    assert_eq!(place.store().await.shared_secret("state", [99; 32]).await.unwrap(), made[0]);
}

async fn what_is_left_of_sign_ins_is_forgotten(place: &Place) {
    let store = place.store().await;
    let anna = first(&store, "anna").await;
    store.invite([2; 32], Some(&anna), T, HOUR).await.unwrap();
    store.save_challenge("s", "p", "state", T, MINUTE).await.unwrap();
    assert_eq!(store.remove_expired(T + MINUTE - 1).await.unwrap(), 0);
    assert_eq!(store.remove_expired(T + HOUR).await.unwrap(), 2);
    let week = 7 * 24 * HOUR;
    assert_eq!(store.remove_expired(T + week).await.unwrap(), 1, "the session");
    assert!(store.has_users().await.unwrap());
}

/// The database contains no secret of an invitation or a session.
async fn no_secret_can_be_read_in_the_database(place: &Place) {
    let store = place.store().await;
    let anna = first(&store, "anna").await;
    let session = store.open_session("anna", [[0xcd; 32], [0xef; 32]], T).await.unwrap();
    let secrets = [store.invite([0xab; 32], Some(&anna), T, HOUR).await.unwrap(), session.secret, session.page_key];
    let csrf = store.find_session(&secrets[1], T, IDLE, MOST).await.unwrap().unwrap().csrf;
    assert_eq!(secrets[0], format!("invite_{}", "ab".repeat(32)));
    for secret in secrets.iter().chain([&csrf]) {
        let digits = secret.rsplit('_').next().unwrap();
        for (table, columns) in [("invitations", "hash"), ("sessions", "hash"), ("sessions", "page_key")] {
            let hex = if place.cluster.is_some() {
                format!("encode({columns}, 'hex')")
            } else {
                format!("lower(hex({columns}))")
            };
            let found = place.sql(&format!("SELECT count(*) FROM {table} WHERE {hex} = '{digits}'")).await;
            assert_eq!(found, [0], "{table}");
        }
    }
}
