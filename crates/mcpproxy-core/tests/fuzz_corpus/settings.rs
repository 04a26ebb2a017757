//! Invariants of reading any text as a settings file, which is JSON with comments.

use mcpproxy_core::settings::{self, Unresolved};

pub(crate) fn check(bytes: &[u8]) {
    let Ok(text) = str::from_utf8(bytes) else { return };
    let Err(mistakes) = settings::parse(text, &Unresolved) else { return };
    assert!(!mistakes.is_empty(), "refused without a reason: {text}");
    let lines = text.split(['\n', '\r']).count() + 1;
    for mistake in &mistakes {
        assert!((1..=lines).contains(&mistake.line), "{mistake}: {text}");
        assert!((1..=text.chars().count() + 1).contains(&mistake.column), "{mistake}: {text}");
        assert!(!mistake.message.is_empty() && !mistake.message.contains(char::is_control), "{mistake:?}: {text}");
    }
}
