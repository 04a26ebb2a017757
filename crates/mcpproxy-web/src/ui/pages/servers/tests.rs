//! The content of the pages of servers.

use super::*;

#[test]
fn names_in_addresses_are_encoded() {
    assert_eq!(segment("get_rate-1.0~"), "get_rate-1.0~");
    assert_eq!(segment("a/b?c#d e\u{202E}<"), "a%2Fb%3Fc%23d%20e%E2%80%AE%3C");
}

#[test]
fn every_state_has_a_word_and_an_icon() {
    let sprite = include_str!("../../../../templates/sprite.html");
    for name in StateName::ALL {
        let shown = state(name);
        assert!(sprite.contains(&format!("id=\"i-{}\"", shown.icon)), "{name:?}");
        assert!(!shown.word.is_empty());
    }
}
