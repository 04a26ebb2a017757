//! Invariants of reading any text as a contract.

use mcpproxy_core::contract::{Contract, Contracts};
use mcpproxy_core::{Mistake, json};

pub(crate) fn check(bytes: &[u8]) {
    let Ok(text) = str::from_utf8(bytes) else { return };
    let as_yaml = read("c.yaml", text);
    let as_json = read("c.json", text);
    // JSON is YAML, so a text that is both must mean the same.
    if let (Some(yaml), Some(json), true) = (as_yaml, as_json, json::read_server(bytes).is_ok()) {
        assert_eq!(bare(&yaml), bare(&json), "{text}");
    }
    match Contract::of_server(text) {
        Ok(contract) => assert_eq!(contract.file, None, "{text}"),
        Err(message) => assert!(message.starts_with('/') && is_harmless(&message), "{message:?}: {text}"),
    }
}

fn read(name: &str, text: &str) -> Option<Contracts> {
    match Contracts::parse(&[(name.to_owned(), text.to_owned())]) {
        Ok(contracts) => Some(contracts),
        Err(mistakes) => {
            assert!(!mistakes.is_empty() && mistakes.len() <= 101, "{} mistakes: {text}", mistakes.len());
            assert!(mistakes.is_sorted_by_key(|(_, mistake)| (mistake.line, mistake.column)), "{mistakes:?}: {text}");
            for (_, mistake) in &mistakes {
                check_mistake(text, mistake);
            }
            None
        }
    }
}

fn check_mistake(text: &str, mistake: &Mistake) {
    let lines = text.split(['\n', '\r']).count() + 1;
    assert!((1..=lines).contains(&mistake.line), "{mistake}: {text}");
    assert!((1..=text.chars().count() + 1).contains(&mistake.column), "{mistake}: {text}");
    assert!(is_harmless(&mistake.message), "{mistake:?}: {text}");
}

/// Returns the contracts without the names of their files.
fn bare(contracts: &Contracts) -> Vec<(String, Contract)> {
    let bare = |contract: &Contract| Contract { file: None, ..contract.clone() };
    contracts.iter().map(|(pattern, contract)| (pattern.to_string(), bare(contract))).collect()
}

fn is_harmless(message: &str) -> bool {
    !message.contains(|c: char| c.is_control() || matches!(c, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}'))
}
