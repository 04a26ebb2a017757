//! The claims of a validated token.

use serde_json::{Map, Value};

/// Claims of a token whose signature, issuer, audience and time were checked. Only [`crate::Provider::verify`] makes
/// them. They have no `Debug`, because they contain personal data.
#[derive(Clone, PartialEq)]
pub struct Claims(pub(crate) Map<String, Value>);

impl Claims {
    /// Returns the subject: the provider's stable id of a user or client.
    pub fn subject(&self) -> Option<&str> {
        self.text("sub")
    }

    /// Returns a claim by name. Dots reach into objects (`realm_access.roles`), unless a claim has the whole name.
    pub fn get(&self, name: &str) -> Option<&Value> {
        if let Some(value) = self.0.get(name) {
            return Some(value);
        }
        let mut parts = name.split('.');
        let first = self.0.get(parts.next()?)?;
        parts.try_fold(first, |value, part| value.get(part))
    }

    /// Returns a claim that is a text and not empty.
    pub fn text(&self, name: &str) -> Option<&str> {
        self.get(name).and_then(Value::as_str).filter(|text| !text.is_empty())
    }

    /// Returns a claim as a list: an array of texts, or one text with spaces between the entries, such as `scope`.
    pub fn list(&self, name: &str) -> Vec<&str> {
        match self.get(name) {
            Some(Value::String(text)) => text.split_ascii_whitespace().collect(),
            Some(Value::Array(values)) => values.iter().filter_map(Value::as_str).collect(),
            _ => Vec::new(),
        }
    }

    /// Returns a claim that is a time, in seconds since 1970.
    pub fn seconds(&self, name: &str) -> Option<i64> {
        let value = self.get(name)?;
        // Some providers write times with a fraction.
        #[allow(clippy::cast_possible_truncation, reason = "a fraction of a second is dropped on purpose")]
        value.as_i64().or_else(|| value.as_f64().map(|seconds| seconds as i64))
    }

    /// Returns whether a claim is `true`.
    pub fn is_true(&self, name: &str) -> bool {
        self.get(name) == Some(&Value::Bool(true))
    }
}
