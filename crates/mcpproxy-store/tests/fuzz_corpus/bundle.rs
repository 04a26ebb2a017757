//! Invariants of verifying any bytes as a bundle.
//!
//! There is one genuine bundle. An input is verified as it is, and also says how to change the genuine one. Whatever is
//! accepted with its key contains only lines of it. If it is sealed, nothing but the spelling of the seal may differ.

use std::collections::HashSet;
use std::sync::LazyLock;

use mcpproxy_store::{BundleVerdict, KeyFrom, Verifier, verify_bundle};
use serde_json::Value;

static GENUINE: &str = include_str!("../../../../fuzz/corpus-seed/bundle/sealed");

static KEY: LazyLock<Verifier> = LazyLock::new(|| {
    let header: Value = GENUINE.lines().next().and_then(|line| serde_json::from_str(line).ok()).unwrap_or_default();
    let key = header.get("verifier").and_then(Value::as_str).and_then(Verifier::parse);
    key.unwrap_or_else(|| panic!("the genuine bundle has no key"))
});

/// The values of all genuine lines. An unsealed bundle may spell them in another way.
static LINES: LazyLock<HashSet<String>> = LazyLock::new(|| GENUINE.lines().filter_map(value).collect());

pub(crate) fn check(bytes: &[u8]) {
    if let Ok(verdict) = verify(bytes, None) {
        assert_eq!(verdict.key_from, KeyFrom::Bundle);
        assert!(verdict.first <= verdict.last && verdict.lines + verdict.digests > 0, "{verdict:?}");
        let ids: HashSet<_> = verdict.ids.iter().map(ToString::to_string).collect();
        assert!(ids.len() as u64 <= verdict.lines, "{verdict:?}");
    }
    is_genuine_if_accepted(bytes);
    for changed in changes(bytes) {
        is_genuine_if_accepted(&changed);
    }
}

fn verify(bytes: &[u8], trusted: Option<&Verifier>) -> Result<BundleVerdict, String> {
    verify_bundle(bytes, trusted, &mut |_| {}).map_err(|error| {
        let message = error.to_string();
        assert!(!message.contains(char::is_control), "{message:?}");
        message
    })
}

fn is_genuine_if_accepted(bytes: &[u8]) {
    let Ok(verdict) = verify(bytes, Some(&KEY)) else { return };
    let Ok(text) = str::from_utf8(bytes) else { panic!("accepted, and not UTF-8") };
    if verdict.is_sealed {
        assert_eq!(without_seal(text), without_seal(GENUINE), "accepted, and changed after the seal");
    }
    // The first line says what was exported. Without a seal, it proves nothing.
    for line in text.lines().skip(1) {
        // A bundle may begin at any signed position, which the checkpoint behind it proves.
        let is_start = line.contains("\"start\"");
        assert!(is_start || value(line).is_some_and(|value| LINES.contains(&value)), "accepted, and forged: {line}");
    }
}

/// Returns everything before the last line.
fn without_seal(text: &str) -> &str {
    text.trim_end_matches('\n').rsplit_once('\n').map_or("", |(before, _)| before)
}

/// Returns the value of a line in one spelling.
fn value(line: &str) -> Option<String> {
    serde_json::from_str::<Value>(line).ok().map(|value| value.to_string())
}

/// Changes the genuine bundle as the input says: a byte, or a line.
fn changes(bytes: &[u8]) -> Vec<Vec<u8>> {
    let Some((&[low, high, with, line], _)) = bytes.split_first_chunk() else { return Vec::new() };
    let at = usize::from(u16::from_le_bytes([low, high])) % GENUINE.len();
    let mut replaced = GENUINE.as_bytes().to_vec();
    replaced.splice(at..=at, [with]).for_each(drop);
    let mut inserted = GENUINE.as_bytes().to_vec();
    inserted.insert(at, with);
    let lines: Vec<&str> = GENUINE.split_inclusive('\n').collect();
    let (first, second) = (usize::from(low) % lines.len(), usize::from(line) % lines.len());
    let mut removed = lines.clone();
    removed.remove(first);
    let mut repeated = lines.clone();
    repeated.extend(lines.get(first).map(|line| vec![*line]).unwrap_or_default());
    let mut swapped = lines;
    swapped.swap(first, second);
    vec![
        replaced,
        inserted,
        removed.concat().into_bytes(),
        repeated.concat().into_bytes(),
        swapped.concat().into_bytes(),
    ]
}
