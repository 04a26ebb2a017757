//! Judged lists of a server for tests, without the code that judges.

use mcpproxy_core::trust::{Admitted, Definition, DefinitionKey, DefinitionKind, Held, Pin};
use mcpproxy_store::{
    AdmittedPin, Choice, Decided, HeldPin, Listing, Location, PinDecision, PresenceProof, Store, StoreError, WaitingPin,
};

use super::Place;
use super::asking::{MINUTE, T};

pub(crate) const ID: &str = "6f1ed002ab5595859014ebf0951522d96f1ed002ab5595859014ebf0951522d9";

/// One definition of a list, with its judgement.
#[derive(Clone)]
pub(crate) enum Said {
    Same(Definition),
    Admit(Definition, Admitted),
    Hold(Definition, Held),
    /// Held, with details.
    About(Definition, Held, &'static str),
}

use Said::{About, Admit, Hold, Same};

/// Returns a version of a tool.
pub(crate) fn version(name: &str, version: u32) -> Definition {
    Definition::new(DefinitionKind::Tool, name, &format!(r#"{{"name":"{name}","description":"Version {version}."}}"#))
}

/// Returns a version of a tool with a text of at least this size.
pub(crate) fn large(name: &str, version: u32, bytes: usize) -> Definition {
    let filler = "x".repeat(bytes);
    let json = format!(r#"{{"name":"{name}","description":"Version {version}. {filler}"}}"#);
    Definition::new(DefinitionKind::Tool, name, &json)
}

pub(crate) fn seen_first(definition: &Definition) -> Said {
    Admit(definition.clone(), Admitted::FirstSight)
}

pub(crate) fn changed(definition: &Definition) -> Said {
    Hold(definition.clone(), Held::Changed)
}

pub(crate) async fn list(store: &Store, now_ms: i64, said: &[Said]) {
    try_list(store, now_ms, said).await.unwrap();
}

pub(crate) async fn try_list(store: &Store, now_ms: i64, said: &[Said]) -> Result<(), StoreError> {
    let (admitted, held, listed) = (Vec::new(), Vec::new(), Vec::new());
    let mut listing = Listing { identity: ID, server: "mail", now_ms, admitted, held, listed, has_news: false };
    for one in said {
        let (Same(definition) | Admit(definition, _) | Hold(definition, _) | About(definition, ..)) = one;
        listing.listed.push(&definition.key);
        let pin = definition.pin();
        match one {
            Same(_) => {}
            Admit(_, reason) => listing.admitted.push(AdmittedPin { definition, pin, reason: *reason }),
            Hold(_, reason) => {
                listing.held.push(HeldPin { definition, pin, reason: *reason, details: "{}".to_owned() });
            }
            About(_, reason, details) => {
                listing.held.push(HeldPin { definition, pin, reason: *reason, details: (*details).to_owned() });
            }
        }
    }
    store.save_listing(&listing).await
}

/// Creates the user anna, and returns a proof that she is present.
pub(crate) async fn anna(store: &Store) -> PresenceProof {
    let invitation = store.invite([1; 32], None, T, MINUTE).await.unwrap();
    assert!(store.create_user(&invitation, "anna", "hash", T).await.unwrap());
    let secret = store.open_session("anna", [[2; 32], [3; 32]], T).await.unwrap().secret;
    let session = store.find_session(&secret, T, MINUTE, MINUTE).await.unwrap().unwrap();
    session.user.present_by_password()
}

pub(crate) fn decision(definition: &Definition, choice: Choice) -> PinDecision {
    PinDecision { key: definition.key.clone(), pin: definition.pin(), choice }
}

/// Decides about one definition.
pub(crate) async fn decide(store: &Store, by: &PresenceProof, definition: &Definition, choice: Choice) -> Decided {
    let decided = store.decide_pins(ID, &[decision(definition, choice)], by, T + 500).await.unwrap();
    let [decided] = decided[..] else { panic!("{decided:?}") };
    decided
}

/// Returns the pin of the accepted version.
pub(crate) async fn accepted(store: &Store, key: &DefinitionKey) -> Option<Pin> {
    let known = store.known_pins(ID).await.unwrap();
    known.definitions.get(key)?.accepted.as_ref().map(|accepted| accepted.pin)
}

pub(crate) async fn waiting(store: &Store, key: &DefinitionKey) -> Option<WaitingPin> {
    let mut waiting = store.waiting_pins(ID).await.unwrap();
    waiting.retain(|waiting| waiting.key == *key);
    assert!(waiting.len() <= 1, "one row per definition");
    waiting.pop()
}

/// Writes bytes as SQL.
pub(crate) fn blob(place: &Place, bytes: &[u8]) -> String {
    let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    match place.location {
        Location::Sqlite(_) => format!("x'{hex}'"),
        Location::Postgres(_) => format!("'\\x{hex}'::bytea"),
    }
}
