//! The content of the pages of servers.

use super::*;
use crate::ui::pages::test_status::server_status;

#[test]
fn names_in_addresses_are_encoded() {
    assert_eq!(segment("get_rate-1.0~"), "get_rate-1.0~");
    assert_eq!(segment("a/b?c#d e\u{202E}<"), "a%2Fb%3Fc%23d%20e%E2%80%AE%3C");
}

#[test]
fn every_state_has_a_word_and_an_icon() {
    let sprite = include_str!("../../../../templates/sprite.html");
    for name in StateName::ALL {
        let shown = state(&server_status("fx", name));
        assert!(sprite.contains(&format!("id=\"i-{}\"", shown.icon)), "{name:?}");
        assert!(!shown.word.is_empty());
    }
}

#[test]
fn a_reason_and_its_advice_are_two_paragraphs() {
    let reason = Some("npx: command not found".to_owned());
    let hint = Some("A program is missing. Install it.".to_owned());
    let status = ServerStatus { reason, hint, ..server_status("fx", StateName::Waiting) };
    let html = Servers::new(Frame::outside("Servers"), vec![status], &[]).render().unwrap();
    assert!(html.contains("command not found</p><p class=\"why muted\">A program is missing."), "{html}");
}

#[test]
fn a_server_of_which_agents_see_nothing_is_not_ready() {
    let status = |tools, to_review| ServerStatus { tools, to_review, ..server_status("fx", StateName::Ready) };
    assert_eq!(state(&status(0, 2)).word, "Waits for review");
    assert_eq!(state(&status(1, 2)).word, "Ready");
    assert_eq!(state(&status(0, 0)).word, "Ready");
}
