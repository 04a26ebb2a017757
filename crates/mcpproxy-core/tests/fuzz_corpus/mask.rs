//! Invariants of masking any text.

use mcpproxy_core::{Pointer, json, mask};
use serde_json::Value;

pub(crate) fn check(bytes: &[u8]) {
    let Ok(text) = str::from_utf8(bytes) else { return };
    check_with(text, &[]);
    let pointers: Vec<Pointer> = ["/a", "/*/b", "/a/0"].iter().filter_map(|text| Pointer::parse(text).ok()).collect();
    check_with(text, &pointers);
}

fn check_with(text: &str, pointers: &[Pointer]) {
    let once = mask(text, pointers);
    let twice = mask(once.as_str(), pointers);
    let is_json = json::read_server(text.as_bytes()).is_ok();
    // In text that is not JSON, the part after `***` may read differently from the part after the secret.
    if is_json {
        assert_eq!(twice.as_str(), once.as_str(), "masked twice: {text}");
        assert!(!twice.is_changed(), "{text}");
        let before: Value = serde_json::from_str(text).unwrap_or_else(|error| panic!("{error}: {text}"));
        let after = serde_json::from_str(once.as_str());
        let after: Value = after.unwrap_or_else(|error| panic!("{error}: {text} became {}", once.as_str()));
        assert!(is_alike(&before, &after), "{text} became {}", once.as_str());
    }
}

/// Returns `true` if two values differ only where the second has `***`. Keys can be masked, too.
fn is_alike(before: &Value, after: &Value) -> bool {
    match (before, after) {
        (Value::Object(before), Value::Object(after)) => {
            let has_stars = after.keys().any(|key| key.contains("***"));
            let in_order = before.iter().zip(after.iter());
            has_stars
                || before.len() == after.len()
                    && in_order.clone().all(|((before, _), (after, _))| before == after)
                    && in_order.clone().all(|((_, before), (_, after))| is_alike(before, after))
        }
        (Value::Array(before), Value::Array(after)) => {
            before.len() == after.len() && before.iter().zip(after).all(|(before, after)| is_alike(before, after))
        }
        (Value::Object(_) | Value::Array(_), _) | (_, Value::Object(_) | Value::Array(_)) => false,
        (before, Value::String(after)) => after.contains("***") || before.as_str() == Some(after),
        (before, after) => before == after,
    }
}
