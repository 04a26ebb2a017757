//! Invariants of request states that clients send back.
//!
//! An input is sent as a state, is carried in a state, and says which byte of a state is changed: nothing that was not
//! sealed is opened.

use std::sync::LazyLock;
use std::time::Duration;

use mcpproxy_core::{Agent, ApprovalId, Digest, Scope};

use crate::state_seal::{StateContent, StateSealer, is_of_a_gateway};

const LASTS: Duration = Duration::from_secs(3600);
static SEALER: LazyLock<StateSealer> = LazyLock::new(|| StateSealer::new([7; 32]));

pub(crate) fn check(bytes: &[u8]) {
    let Some(approval) = ApprovalId::parse("01ARZ3NDEKTSV4RRFFQ69G5FAV") else { panic!("an id") };
    let (agent, arguments) = (agent("laptop"), Digest::of(b"{}"));
    if let Ok(text) = str::from_utf8(bytes) {
        // Whoever has no key cannot make a state, with the right prefix or without.
        assert_eq!(SEALER.open(&agent, &arguments, text), None, "{text:?}");
        let own = SEALER.sealed_part(text).map(|sealed| SEALER.open(&agent, &arguments, sealed));
        assert!(own.is_none_or(|opened| opened.is_none() && is_of_a_gateway(text)), "{text:?}");
    }
    let (mut change, mut sent, mut carried) = ([0; 4], [0; 8], None);
    if let Some((first, rest)) = bytes.split_first_chunk() {
        change = *first;
        if let Some((first, rest)) = rest.split_first_chunk() {
            sent = *first;
            carried = str::from_utf8(rest).ok().filter(|text| text.starts_with('{')).map(str::to_owned);
        }
    }
    let content = StateContent { approval, sent_ms: Some(i64::from_le_bytes(sent)), carried };
    let state = SEALER.seal(&agent, &arguments, &content, LASTS);
    assert!(is_of_a_gateway(&state));
    let Some(sealed) = SEALER.sealed_part(&state) else { panic!("its own prefix: {state}") };
    assert_eq!(SEALER.open(&agent, &arguments, sealed), Some(content), "{state}");
    is_for_one_call(sealed);
    is_refused_when_changed(sealed, change);
}

/// Checks that no other agent, call or gateway opens it.
fn is_for_one_call(sealed: &str) {
    let (laptop, arguments) = (agent("laptop"), Digest::of(b"{}"));
    assert_eq!(SEALER.open(&agent("laptop|"), &arguments, sealed), None, "{sealed}");
    assert_eq!(SEALER.open(&laptop, &Digest::of(b"{ }"), sealed), None, "{sealed}");
    assert_eq!(StateSealer::new([8; 32]).open(&laptop, &arguments, sealed), None, "{sealed}");
}

/// Checks that one changed, missing or additional byte is noticed. The first two bytes of the change say where it is.
fn is_refused_when_changed(sealed: &str, [low, high, with, kind]: [u8; 4]) {
    let at = usize::from(u16::from_le_bytes([low, high])) % sealed.len();
    let mut bytes = sealed.as_bytes().to_vec();
    match kind % 4 {
        0 => bytes.truncate(at),
        1 => drop(bytes.remove(at)),
        2 => bytes.insert(at, with),
        _ => bytes.splice(at..=at, [with]).for_each(drop),
    }
    let Ok(changed) = String::from_utf8(bytes) else { return };
    let opened = SEALER.open(&agent("laptop"), &Digest::of(b"{}"), &changed);
    assert!(changed == sealed || opened.is_none(), "{sealed} became {changed}");
}

fn agent(name: &str) -> Agent {
    Agent { name: name.to_owned(), scope: Scope::everything() }
}
