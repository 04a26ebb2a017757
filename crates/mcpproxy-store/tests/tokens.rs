//! Tests for tokens: created, listed, found and revoked, also by several processes at once.

#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "a test that cannot go on should stop")]

mod common;

use common::{Place, call};
use mcpproxy_core::{Agent, Scope, ServerName, Variant};
use mcpproxy_store::{Kind, NewRecord, Status, Store, StoreError, TokenInfo, WaitFor};

on_both!(
    a_token_names_its_agent_until_it_is_revoked,
    a_name_is_free_again_after_it_was_revoked,
    a_change_by_another_process_is_noticed,
    one_of_many_gets_a_name,
);

fn narrow() -> Scope {
    Scope {
        grants: vec!["emails:send".into()],
        servers: Some(vec![ServerName::parse("mail").unwrap()]),
        operations: vec![Variant::Read],
        headless: false,
    }
}

async fn a_token_names_its_agent_until_it_is_revoked(place: &Place) {
    let store = place.store().await;
    let secret = store.create_token("ci", &narrow(), [7; 32], 1000).await.unwrap();
    assert_eq!(secret, format!("mcp_{}", "07".repeat(32)));
    let agent = Agent { name: "ci".into(), scope: narrow() };
    assert_eq!(store.find_agent(&secret).await.unwrap(), Some(agent));
    for wrong in ["", "mcp_", secret.trim_start_matches('m'), &secret.to_uppercase(), "mcp_' OR 1=1 --"] {
        assert_eq!(store.find_agent(wrong).await.unwrap(), None, "{wrong}");
    }
    store.revoke_token("ci", 2000).await.unwrap();
    assert_eq!(store.find_agent(&secret).await.unwrap(), None);
    let again = store.revoke_token("ci", 3000).await.unwrap_err();
    assert_eq!(again.to_string(), "no agent named `ci` has a token");
}

async fn a_name_is_free_again_after_it_was_revoked(place: &Place) {
    let store = place.store().await;
    store.create_token("ci", &Scope::everything(), [1; 32], 1000).await.unwrap();
    let taken = store.create_token("ci", &Scope::read_only(), [2; 32], 1500).await.unwrap_err();
    assert_eq!(taken.to_string(), "an agent named `ci` already exists; revoke its token first, or choose another name");
    let bad = store.create_token("c i", &Scope::read_only(), [2; 32], 1500).await.unwrap_err();
    assert!(matches!(bad, StoreError::AgentName));
    store.revoke_token("ci", 2000).await.unwrap();
    store.create_token("ci", &Scope::read_only(), [2; 32], 3000).await.unwrap();
    let used =
        NewRecord { time_ms: 4000, kind: Kind::Auth, status: Status::Success, agent: Some("ci".into()), ..call(1) };
    let ledger = place.ledger(&store).await;
    ledger.append(used.clone(), WaitFor::Disk).await.unwrap();
    // A user's decision names the agent, but the agent did nothing.
    let decided =
        NewRecord { time_ms: 5000, kind: Kind::Approval, code: Some("approval_approved".into()), ..used.clone() };
    ledger.append(decided, WaitFor::Disk).await.unwrap();
    let info = |scope, created_ms, revoked_ms, last_used_ms| TokenInfo {
        name: "ci".into(),
        scope,
        created_ms,
        revoked_ms,
        last_used_ms,
    };
    assert_eq!(
        store.list_tokens().await.unwrap(),
        [info(Scope::everything(), 1000, Some(2000), None), info(Scope::read_only(), 3000, None, Some(4000))]
    );
}

async fn a_change_by_another_process_is_noticed(place: &Place) {
    let (gateway, command) = (place.store().await, place.store().await);
    let looker = Store::open_read_only(&place.location).await.unwrap();
    let before = gateway.tokens_version().await.unwrap();
    let secret = command.create_token("x", &Scope::everything(), [3; 32], 1).await.unwrap();
    let created = gateway.tokens_version().await.unwrap();
    assert_eq!(gateway.find_agent(&secret).await.unwrap().unwrap().name, "x");
    assert_eq!(looker.find_agent(&secret).await.unwrap().unwrap().name, "x");
    command.create_token("x", &Scope::everything(), [4; 32], 1).await.unwrap_err();
    assert_eq!(gateway.tokens_version().await.unwrap(), created, "a refused token is no change");
    command.revoke_token("x", 2).await.unwrap();
    let revoked = gateway.tokens_version().await.unwrap();
    assert!(before < created && created < revoked);
    assert!(matches!(looker.revoke_token("x", 3).await, Err(StoreError::ReadOnly)));
    assert!(matches!(looker.create_token("y", &Scope::read_only(), [5; 32], 3).await, Err(StoreError::ReadOnly)));
}

#[tokio::test]
async fn no_secret_is_in_any_file() {
    let place = Place::sqlite();
    let store = place.store().await;
    let secret = store.create_token("x", &Scope::everything(), [0x5a; 32], 1).await.unwrap();
    store.close().await;
    for file in std::fs::read_dir(place.folder.path()).unwrap() {
        let bytes = std::fs::read(file.unwrap().path()).unwrap();
        assert!(!bytes.windows(32).any(|window| window == [0x5a; 32]));
        assert!(!bytes.windows(secret.len()).any(|window| window == secret.as_bytes()));
    }
}

async fn one_of_many_gets_a_name(place: &Place) {
    let store = place.store().await;
    let creating: Vec<_> = (0..8u8)
        .map(|n| {
            let store = store.clone();
            tokio::spawn(async move { store.create_token("x", &Scope::everything(), [n; 32], 1).await })
        })
        .collect();
    let mut created = 0;
    for creating in creating {
        match creating.await.unwrap() {
            Ok(_) => created += 1,
            Err(error) => assert!(matches!(error, StoreError::AgentExists { .. }), "{error:?}"),
        }
    }
    assert_eq!((created, store.tokens_version().await.unwrap()), (1, 1));
}
