//! Reads the intent of a refused call as the agent wrote it, for its record.
//!
//! [`declare`](super::declare) stops at the first mistake, so a refused call may have no [`Intent`](super::Intent). The
//! record still says what the agent declared. Nothing here decides on a call.

use super::{FIELDS_OF_INTENT, QUOTE_MAX_CHARS, field};
use crate::json::{Members, members, string_value};
use crate::{Untrusted, Variant};

/// The fields of an intent, valid or not, cut to a bounded length.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WrittenIntent {
    pub operation_type: Option<Untrusted>,
    pub data_sensitivity: Option<Untrusted>,
    pub reason: Option<Untrusted>,
}

impl WrittenIntent {
    /// Reads the parameters of `call_tool_*`: the flat fields, and those in `intent`.
    pub fn of_parameters(fields: &Members<'_>) -> Self {
        let nested = field(fields, "intent").map(Self::of_value).unwrap_or_default();
        let [operation_type, data_sensitivity, reason] =
            FIELDS_OF_INTENT.map(|(flat, _, max_chars)| field(fields, flat).and_then(|text| word(text, max_chars)));
        Self {
            operation_type: operation_type.or(nested.operation_type),
            data_sensitivity: data_sensitivity.or(nested.data_sensitivity),
            reason: reason.or(nested.reason),
        }
    }

    /// Reads an `intent` object. A string stands for its operation type.
    pub fn of_value(json: &str) -> Self {
        let Some(fields) = members(json) else {
            let operation_type = string_value(json).map(|text| Untrusted::shortened(&text, QUOTE_MAX_CHARS));
            return Self { operation_type, ..Self::default() };
        };
        let [operation_type, data_sensitivity, reason] = FIELDS_OF_INTENT
            .map(|(_, nested, max_chars)| field(&fields, nested).and_then(|text| word(text, max_chars)));
        Self { operation_type, data_sensitivity, reason }
    }

    /// Returns the operation that was declared, if it is one.
    pub fn operation(&self) -> Option<Variant> {
        self.operation_type.as_ref().and_then(|word| Variant::from_operation(word.for_json()))
    }
}

/// Returns a string, or the JSON of anything else. `null` declares nothing.
fn word(json: &str, max_chars: usize) -> Option<Untrusted> {
    match string_value(json) {
        Some(text) => Some(Untrusted::shortened(&text, max_chars)),
        None => (json != "null").then(|| Untrusted::shortened(json, max_chars.min(QUOTE_MAX_CHARS))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_agent_wrote_is_kept() {
        let check = |parameters: &str, expected: [Option<&str>; 3]| {
            let found = WrittenIntent::of_parameters(&members(parameters).unwrap());
            let found = [found.operation_type, found.data_sensitivity, found.reason];
            let found = found.each_ref().map(|word| word.as_ref().map(Untrusted::for_json));
            assert_eq!(found, expected, "{parameters}");
        };
        check("{}", [None; 3]);
        check(
            r#"{"intent":{"operation_type":"write","data_sensitivity":"secret","reason":"r","other":1}}"#,
            [Some("write"), Some("secret"), Some("r")],
        );
        check(
            r#"{"intent_operation_type":"read","intent":{"operation_type":"write"},"intent_reason":7}"#,
            [Some("read"), None, Some("7")],
        );
        check(r#"{"intent":"destructive"}"#, [Some("destructive"), None, None]);
        check(r#"{"intent":["read"],"intent_data_sensitivity":null}"#, [None; 3]);
        let long = "é".repeat(2_000);
        let found = WrittenIntent::of_value(&format!(r#"{{"operation_type":"{long}","reason":"{long}"}}"#));
        let length = |word: Option<Untrusted>| word.unwrap().for_json().chars().count();
        assert!(length(found.operation_type) <= QUOTE_MAX_CHARS + 1);
        assert!((1_000..=1_001).contains(&length(found.reason)));
    }
}
