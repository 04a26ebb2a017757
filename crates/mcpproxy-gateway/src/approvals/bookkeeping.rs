//! Leaves the client's own bookkeeping out of what users read.
//!
//! Clients put numbers of their own into `_meta`, such as Codex's `x-codex-turn-metadata`. Users cannot judge them, and
//! they push the arguments out of a form of three lines. So they are left out of what users read, and an approved call is
//! sent without them: nothing reaches a server that the approver could not see.
//!
//! Only the keys listed here are left out, and only with short values of the expected form. A server may act on any other
//! metadata. If an unknown key or a long value were left out too, the approver would not see what the agent attached, and
//! an approved call would reach the server without it.

use mcpproxy_core::Untrusted;
use mcpproxy_core::json::{members, string_value};

use crate::message;

const META: &str = "_meta";
/// Keys whose value is an identifier.
const IDS: [&str; 4] = ["progressToken", "toolUseId", "claudecode/toolUseId", "anthropic/toolUseId"];
/// Keys whose value is an object of identifiers and states.
const OBJECTS: [&str; 1] = ["x-codex-turn-metadata"];
const ID_MAX_CHARS: usize = 128;
const OBJECT_MAX_BYTES: usize = 2048;

/// Returns the attached members for users. `None` if nothing else is attached.
pub(crate) fn for_users(attached: &str) -> Option<String> {
    let all = members(attached)?;
    let meta = all.iter().find(|(key, _)| key == META).and_then(|(_, value)| members(value));
    let Some(meta) = meta.filter(|meta| meta.iter().any(|(key, value)| is_bookkeeping(key, value))) else {
        return Some(attached.to_owned());
    };
    let rest = meta.iter().filter(|(key, value)| !is_bookkeeping(key, value));
    let rest: Vec<(&str, &str)> = rest.map(|(key, value)| (key.as_ref(), *value)).collect();
    let meta = (!rest.is_empty()).then(|| message::object(rest));
    let others = all.iter().filter(|(key, _)| key != META).map(|(key, value)| (key.as_ref(), *value));
    let kept: Vec<(&str, &str)> = others.chain(meta.as_deref().map(|meta| (META, meta))).collect();
    (!kept.is_empty()).then(|| message::object(kept))
}

/// Does the same for text that is already masked.
pub(crate) fn shown_to_users(attached: &Untrusted) -> Option<Untrusted> {
    for_users(attached.for_json()).map(Untrusted::new)
}

fn is_bookkeeping(key: &str, value: &str) -> bool {
    let is_id = |text: &str| {
        let fits = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'_' | b'-' | b':');
        text.len() <= ID_MAX_CHARS && text.bytes().all(fits)
    };
    if IDS.contains(&key) {
        return match string_value(value) {
            Some(text) => is_id(&text),
            None => is_id(value),
        };
    }
    OBJECTS.contains(&key) && value.len() <= OBJECT_MAX_BYTES
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn users_read_what_matters() {
        let check = |given: &str, expected: Option<&str>| {
            assert_eq!(for_users(given).as_deref(), expected, "{given}");
        };
        check(r#"{"_meta":{"x-codex-turn-metadata":{"turn_id":"t1"}}}"#, None);
        check(r#"{"_meta":{"claudecode/toolUseId":"toolu_01"}}"#, None);
        check(
            r#"{"_meta":{"toolUseId":"toolu_01","progressToken":7,"account":1.0}}"#,
            Some(r#"{"_meta":{"account":1.0}}"#),
        );
        check(r#"{"inputResponses":{"a":1.0},"_meta":{"toolUseId":"x"}}"#, Some(r#"{"inputResponses":{"a":1.0}}"#));
        // A value that could hold a message is shown, and so is a key that nobody knows.
        for whole in [
            r#"{"_meta":{"toolUseId":"send it to eve"}}"#,
            r#"{"_meta":{"toolUseId":{"to":"eve"}}}"#,
            r#"{"_meta":{"x-codex":{"turn_id":"t1"}}}"#,
            r#"{"toolUseId":"x"}"#,
        ] {
            check(whole, Some(whole));
        }
        let long = format!(r#"{{"_meta":{{"x-codex-turn-metadata":"{}"}}}}"#, "x".repeat(OBJECT_MAX_BYTES));
        check(&long, Some(&long));
    }
}
