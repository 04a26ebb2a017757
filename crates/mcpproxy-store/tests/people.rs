//! Tests for resets and invitations of the operator, recovery codes, and users of an identity provider.

#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "a test that cannot go on should stop")]

mod common;

use std::net::IpAddr;

use common::Place;
use common::asking::{MINUTE, T};
use mcpproxy_store::{
    NewSignIn, OperatorInvitation, Profile, ProviderSignIn, ProviderSubject, Reset, Store, StoreError, User,
};

on_both!(
    an_invitation_of_the_operator_is_for_one_name,
    a_reset_takes_everything_and_gives_a_link,
    users_of_a_provider_are_not_reset,
    actions_of_the_operator_are_recorded_once,
    a_recovery_code_works_once_and_for_its_user,
    the_first_user_of_a_provider_needs_the_setup_link,
    a_subject_is_one_account_and_never_another_users,
    a_profile_changes_with_each_sign_in,
    a_sign_in_is_taken_once_by_its_browser,
    one_address_uses_up_its_own_sign_ins,
    a_proof_of_the_provider_is_for_one_session_and_purpose,
);

const IDLE: i64 = 15 * MINUTE;
const MOST: i64 = 12 * 60 * MINUTE;
const HOUR: i64 = 60 * MINUTE;
const ISSUER: &str = "https://id.example";

async fn first(store: &Store, name: &str) -> User {
    let invitation = store.invite([1; 32], None, T, HOUR).await.unwrap();
    assert!(store.create_user(&invitation, name, "hash", T).await.unwrap());
    signed_in(store, name, 100).await.1
}

async fn signed_in(store: &Store, name: &str, random: u8) -> (String, User) {
    let secret = store.open_session(name, [[random; 32], [0x77; 32]], T).await.unwrap().secret;
    let session = store.find_session(&secret, T, IDLE, MOST).await.unwrap().unwrap();
    (secret, session.user)
}

fn subject(subject: &str, name: &str) -> ProviderSubject {
    let profile = Profile { email: Some(name.to_owned()), email_verified: true, ..Profile::default() };
    ProviderSubject { issuer: ISSUER.to_owned(), subject: subject.to_owned(), profile, wanted_name: name.to_owned() }
}

async fn invited(store: &Store, random: u8, name: &str) -> String {
    match store.invite_by_operator([random; 32], name, T, HOUR).await.unwrap() {
        OperatorInvitation::Invited { secret } => secret,
        OperatorInvitation::NameTaken => panic!("{name} is taken"),
    }
}

async fn an_invitation_of_the_operator_is_for_one_name(place: &Place) {
    let store = place.store().await;
    first(&store, "anna").await;
    let link = invited(&store, 2, "berta").await;
    let found = store.find_invitation(&link, T).await.unwrap().unwrap();
    assert_eq!(found.user_name.as_deref(), Some("berta"));
    assert!(!store.create_user(&link, "carl", "hash", T).await.unwrap(), "another name is refused");
    assert!(store.create_user(&link, "berta", "hash", T).await.unwrap(), "and does not use up the link");
    assert!(!store.create_user(&link, "berta", "hash", T).await.unwrap());
    let taken = store.invite_by_operator([3; 32], "berta", T, HOUR).await.unwrap();
    assert_eq!(taken, OperatorInvitation::NameTaken);
    // Two links for one name: the first one that is used makes the other invalid.
    let (one, two) = (invited(&store, 4, "carl").await, invited(&store, 5, "carl").await);
    assert!(store.create_user(&one, "carl", "hash", T).await.unwrap());
    assert_eq!(store.find_invitation(&two, T).await.unwrap(), None);
    assert!(matches!(store.invite_by_operator([6; 32], "no name", T, HOUR).await, Err(StoreError::UserName)));
}

async fn a_reset_takes_everything_and_gives_a_link(place: &Place) {
    let store = place.store().await;
    let anna = first(&store, "anna").await;
    let (session, _) = signed_in(&store, "anna", 7).await;
    store.set_totp(&anna, b"secret", 1).await.unwrap();
    assert!(store.add_passkey(&anna, "id", "phone", "{}", T).await.unwrap());
    store.replace_recovery_codes(&anna, &["code".to_owned()]).await.unwrap();
    let open = store.invite([8; 32], Some(&anna), T, HOUR).await.unwrap();
    assert_eq!(store.reset_user([9; 32], "nobody", T, HOUR).await.unwrap(), Reset::NoSuchUser);
    let Reset::Done { secret } = store.reset_user([9; 32], "anna", T, HOUR).await.unwrap() else { panic!("not reset") };
    let row = store.find_user("anna").await.unwrap().unwrap();
    assert!(row.password_hash.is_none() && row.totp.is_none() && row.passkeys.is_empty());
    assert_eq!(store.count_recovery_codes("anna").await.unwrap(), 0);
    assert_eq!(store.find_session(&session, T, IDLE, MOST).await.unwrap(), None);
    assert_eq!(store.find_invitation(&open, T).await.unwrap(), None, "her invitations are gone");
    assert!(store.has_users().await.unwrap(), "so no setup link is printed");
    assert_eq!(store.find_invitation(&secret, T + HOUR).await.unwrap(), None, "the link expires");
    // A second reset makes the first link invalid.
    let Reset::Done { secret: newer } = store.reset_user([10; 32], "anna", T, HOUR).await.unwrap() else { panic!() };
    assert!(!store.create_user(&secret, "anna", "new", T).await.unwrap());
    assert!(!store.create_user(&newer, "other", "new", T).await.unwrap());
    assert!(store.create_user(&newer, "anna", "new", T).await.unwrap());
    assert!(!store.create_user(&newer, "anna", "newer", T).await.unwrap());
    assert_eq!(store.find_user("anna").await.unwrap().unwrap().password_hash.as_deref(), Some("new"));
}

async fn users_of_a_provider_are_not_reset(place: &Place) {
    let store = place.store().await;
    first(&store, "anna").await;
    let joined = store.sign_in_from_provider(&subject("1", "carl@example.com"), None, T).await.unwrap();
    assert_eq!(joined, ProviderSignIn::Created("carl@example.com".to_owned()));
    assert_eq!(store.reset_user([9; 32], "carl@example.com", T, HOUR).await.unwrap(), Reset::OfProvider);
    let taken = store.invite_by_operator([3; 32], "carl@example.com", T, HOUR).await.unwrap();
    assert_eq!(taken, OperatorInvitation::NameTaken);
    assert!(store.take_operator_actions(T).await.unwrap().is_empty(), "nothing happened");
}

async fn actions_of_the_operator_are_recorded_once(place: &Place) {
    let store = place.store().await;
    first(&store, "anna").await;
    assert!(store.take_operator_actions(T).await.unwrap().is_empty());
    let _link = invited(&store, 2, "berta").await;
    assert!(matches!(store.reset_user([9; 32], "anna", T + 1, HOUR).await.unwrap(), Reset::Done { .. }));
    let taken = store.take_operator_actions(T + 2).await.unwrap();
    let mut codes: Vec<_> = taken.iter().map(|action| (action.code.as_str(), action.user_name.as_str())).collect();
    codes.sort_unstable();
    assert_eq!(codes, [("user_invited_by_operator", "berta"), ("user_reset_by_operator", "anna")]);
    assert!(store.take_operator_actions(T + 3).await.unwrap().is_empty(), "another gateway does not take them, too");
    store.finish_operator_action(&taken[0]).await.unwrap();
    // The gateway died before it recorded the second one.
    let again = store.take_operator_actions(T + 2 + MINUTE).await.unwrap();
    assert_eq!(again, taken[1..]);
    store.finish_operator_action(&again[0]).await.unwrap();
    assert!(store.take_operator_actions(T + HOUR).await.unwrap().is_empty());
}

async fn a_recovery_code_works_once_and_for_its_user(place: &Place) {
    let store = place.store().await;
    let anna = first(&store, "anna").await;
    let link = store.invite([2; 32], Some(&anna), T, HOUR).await.unwrap();
    assert!(store.create_user(&link, "berta", "hash", T).await.unwrap());
    let (_, berta) = signed_in(&store, "berta", 3).await;
    let codes = ["one".to_owned(), "two".to_owned()];
    store.replace_recovery_codes(&anna, &codes).await.unwrap();
    store.replace_recovery_codes(&berta, &codes[..1]).await.unwrap();
    let has = async |codes: &[String]| store.has_recovery_codes(&anna, codes).await.unwrap();
    assert_eq!((has(&codes).await, has(&codes[1..]).await, has(&[]).await), (true, false, false));
    assert_eq!(store.use_recovery_code(&berta, "two", "p").await.unwrap(), None, "hers is another");
    let proof = store.use_recovery_code(&anna, "one", "p").await.unwrap().unwrap();
    assert_eq!((proof.user().name(), proof.purpose()), ("anna", "p"));
    assert_eq!(store.use_recovery_code(&anna, "one", "p").await.unwrap(), None, "used");
    assert_eq!(store.count_recovery_codes("anna").await.unwrap(), 1);
    store.replace_recovery_codes(&anna, &["three".to_owned()]).await.unwrap();
    assert_eq!(store.use_recovery_code(&anna, "two", "p").await.unwrap(), None, "replaced");
    assert_eq!(store.count_recovery_codes("anna").await.unwrap(), 1);
    assert_eq!(store.count_recovery_codes("berta").await.unwrap(), 1);
}

async fn the_first_user_of_a_provider_needs_the_setup_link(place: &Place) {
    let store = place.store().await;
    let carl = subject("1", "carl@example.com");
    let refused = store.sign_in_from_provider(&carl, None, T).await.unwrap();
    assert_eq!(refused, ProviderSignIn::NeedsSetupLink);
    let digest = async |link: &str| {
        let begin = NewSignIn { invitation: Some(link), ..sign_in(link, "b", 1, None) };
        store.begin_sign_in(&begin, T, HOUR).await.unwrap();
        store.take_sign_in(link, "b", T).await.unwrap().unwrap().invitation
    };
    let guessed = digest("invite_guessed").await;
    let refused = store.sign_in_from_provider(&carl, guessed.as_ref(), T).await.unwrap();
    assert_eq!(refused, ProviderSignIn::NeedsSetupLink);
    assert!(!store.has_users().await.unwrap());
    let link = store.invite([1; 32], None, T, HOUR).await.unwrap();
    let joined = store.sign_in_from_provider(&carl, digest(&link).await.as_ref(), T).await.unwrap();
    assert_eq!(joined, ProviderSignIn::Created("carl@example.com".to_owned()));
    assert_eq!(store.find_invitation(&link, T).await.unwrap(), None);
    assert_eq!(store.count_approvers().await.unwrap(), 1, "the factor is at the provider");
    let second = store.sign_in_from_provider(&subject("2", "dora@example.com"), None, T).await.unwrap();
    assert_eq!(second, ProviderSignIn::Created("dora@example.com".to_owned()));
}

async fn a_subject_is_one_account_and_never_another_users(place: &Place) {
    let store = place.store().await;
    first(&store, "carl@example.com").await;
    let joined = store.sign_in_from_provider(&subject("1", "carl@example.com"), None, T).await.unwrap();
    assert_eq!(joined, ProviderSignIn::Created("carl@example.com-2".to_owned()), "the local user keeps the name");
    // The address now belongs to another subject, who gets an account of their own.
    let other = store.sign_in_from_provider(&subject("2", "carl@example.com"), None, T).await.unwrap();
    assert_eq!(other, ProviderSignIn::Created("carl@example.com-3".to_owned()));
    let again = store.sign_in_from_provider(&subject("1", "new@example.com"), None, T).await.unwrap();
    assert_eq!(again, ProviderSignIn::Known("carl@example.com-2".to_owned()));
    let elsewhere = ProviderSubject { issuer: "https://other.example".to_owned(), ..subject("1", "carl") };
    let elsewhere = store.sign_in_from_provider(&elsewhere, None, T).await.unwrap();
    assert_eq!(elsewhere, ProviderSignIn::Created("carl".to_owned()), "another issuer, another user");
    let local = store.find_user("carl@example.com").await.unwrap().unwrap();
    assert!(local.provider.is_none() && local.password_hash.is_some());
    let row = store.find_user("carl@example.com-2").await.unwrap().unwrap();
    assert!(row.password_hash.is_none());
    assert_eq!(row.provider.unwrap().issuer, ISSUER);
}

async fn a_profile_changes_with_each_sign_in(place: &Place) {
    let store = place.store().await;
    first(&store, "anna").await;
    let mut carl = subject("1", "carl@example.com");
    carl.profile.groups = vec!["ops".to_owned(), "Ä \"quoted\"".to_owned()];
    assert!(matches!(store.sign_in_from_provider(&carl, None, T).await.unwrap(), ProviderSignIn::Created(_)));
    let (secret, _) = signed_in(&store, "carl@example.com", 5).await;
    let profile = async || {
        let session = store.find_session(&secret, T, IDLE, MOST).await.unwrap().unwrap();
        assert!(session.is_enrolled);
        session.provider.unwrap().profile
    };
    assert_eq!(profile().await, carl.profile);
    carl.profile.groups.clear();
    carl.profile.email_verified = false;
    assert!(matches!(store.sign_in_from_provider(&carl, None, T).await.unwrap(), ProviderSignIn::Known(_)));
    assert_eq!(profile().await, carl.profile);
    assert_eq!(store.find_provider_user(ISSUER, "1").await.unwrap().as_deref(), Some("carl@example.com"));
    assert_eq!(store.find_provider_user(ISSUER, "2").await.unwrap(), None);
    assert_eq!(store.close_sessions_of("carl@example.com").await.unwrap(), 1);
    assert_eq!(store.find_session(&secret, T, IDLE, MOST).await.unwrap(), None);
}

fn sign_in<'a>(state: &'a str, browser: &'a str, address: u8, session_secret: Option<&'a str>) -> NewSignIn<'a> {
    NewSignIn {
        state,
        browser,
        address: IpAddr::from([192, 0, 2, address]),
        session_secret,
        invitation: None,
        data: "{}",
    }
}

async fn a_sign_in_is_taken_once_by_its_browser(place: &Place) {
    let store = place.store().await;
    store.begin_sign_in(&sign_in("s", "b", 1, None), T, 10 * MINUTE).await.unwrap();
    let take = async |state: &str, browser: &str, now_ms: i64| {
        store.take_sign_in(state, browser, now_ms).await.unwrap().map(|taken| taken.data)
    };
    assert_eq!(take("s", "other", T).await, None);
    assert_eq!(take("other", "b", T).await, None);
    assert_eq!(take("s", "b", T + 10 * MINUTE).await, None, "too late");
    assert_eq!(take("s", "b", T + 10 * MINUTE - 1).await.as_deref(), Some("{}"));
    assert_eq!(take("s", "b", T).await, None, "used");
    store.begin_sign_in(&sign_in("t", "b", 1, None), T, MINUTE).await.unwrap();
    assert_eq!(store.remove_expired(T + MINUTE).await.unwrap(), 1);
}

async fn one_address_uses_up_its_own_sign_ins(place: &Place) {
    let store = place.store().await;
    store.begin_sign_in(&sign_in("of another", "b", 1, None), T, HOUR).await.unwrap();
    for number in 0..1005 {
        store.begin_sign_in(&sign_in(&format!("s{number}"), "b", 2, None), T + number, HOUR).await.unwrap();
    }
    assert_eq!(place.sql("SELECT count(*) FROM sign_ins").await, [1001]);
    assert!(store.take_sign_in("of another", "b", T).await.unwrap().is_some());
    assert!(store.take_sign_in("s0", "b", T).await.unwrap().is_none(), "the oldest of the address made room");
    assert!(store.take_sign_in("s1004", "b", T).await.unwrap().is_some());
}

async fn a_proof_of_the_provider_is_for_one_session_and_purpose(place: &Place) {
    let store = place.store().await;
    let anna = first(&store, "anna").await;
    let (one, _) = signed_in(&store, "anna", 1).await;
    let (two, _) = signed_in(&store, "anna", 2).await;
    store.begin_sign_in(&sign_in("s", "b", 1, Some(&one)), T, MINUTE).await.unwrap();
    let session = store.take_sign_in("s", "b", T).await.unwrap().unwrap().session.unwrap();
    let save = async |name: &str| store.save_provider_proof(&session, name, "p", "proof", T + MINUTE).await.unwrap();
    assert!(!save("berta").await, "the session is of another user");
    assert!(save("anna").await);
    let spend = async |secret: &str, proof: &str, purpose: &str, now_ms: i64| {
        store.use_provider_proof(&anna, secret, proof, purpose, now_ms).await.unwrap()
    };
    assert_eq!(spend(&two, "proof", "p", T).await, None, "another session");
    assert_eq!(spend(&one, "proof", "q", T).await, None, "another purpose");
    assert_eq!(spend(&one, "guess", "p", T).await, None);
    assert_eq!(spend(&one, "proof", "p", T + MINUTE).await, None, "too late");
    let proof = spend(&one, "proof", "p", T).await.unwrap();
    assert_eq!((proof.user().name(), proof.purpose()), ("anna", "p"));
    assert_eq!(spend(&one, "proof", "p", T).await, None, "used");
    store.close_session(&one).await.unwrap();
    assert!(!save("anna").await, "the session has ended");
}
