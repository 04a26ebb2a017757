//! Problems of a value, as an agent reads them.

use std::fmt;

use super::SchemaError;

/// Maximum number of problems in one answer.
pub const PROBLEMS_MAX: usize = 8;

/// Maximum length of a message about problems.
const MESSAGE_MAX_BYTES: usize = 2_048;

/// Suffix of `expected` for a missing property.
pub(super) const REQUIRED: &str = " (required)";
/// The expectation for a missing property without a type.
pub(super) const ANYTHING: &str = "a value";
/// The expectation if the schema itself has an error.
const USABLE: &str = "a contract whose schema can be used";

/// One mismatch between a value and a schema.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// A JSON pointer into the value.
    pub pointer: String,
    pub expected: String,
    pub found: String,
    /// The `description` of the schema for this value.
    pub description: Option<String>,
}

impl Problem {
    /// The value of `found` for a missing property.
    pub(crate) const MISSING: &str = "nothing";

    pub(super) fn too_costly() -> Self {
        Self {
            pointer: String::new(),
            expected: "a smaller value".to_owned(),
            found: "a value that takes too many steps to check".to_owned(),
            description: None,
        }
    }

    /// The contract's schema has an error, so no value can be checked.
    pub(super) fn unusable(error: &SchemaError) -> Self {
        Self {
            pointer: String::new(),
            expected: USABLE.to_owned(),
            found: Self::MISSING.to_owned(),
            description: Some(error.to_string()),
        }
    }

    /// Joins problems into one text, one line each.
    pub fn message(problems: &[Self]) -> String {
        let mut message = String::new();
        for (position, problem) in problems.iter().enumerate() {
            let line = problem.to_string();
            let more = format!("… and {} more", problems.len() - position);
            if message.len() + line.len() + more.len() + 2 > MESSAGE_MAX_BYTES {
                return message + &more;
            }
            message.push_str(&line);
            if position + 1 < problems.len() {
                message.push('\n');
            }
        }
        message
    }
}

/// Formats one line: `/limit: expected an integer, found the string "ten" (Maximum number of results)`.
impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let (USABLE, Some(why)) = (self.expected.as_str(), &self.description) {
            return write!(f, "the contract's schema cannot be used: {why}");
        }
        let pointer = if self.pointer.is_empty() { "/" } else { &self.pointer };
        match self.expected.strip_suffix(REQUIRED) {
            None => write!(f, "{pointer}: expected {}, found {}", self.expected, self.found)?,
            Some(ANYTHING) => write!(f, "{pointer}: required property missing")?,
            Some(expected) => write!(f, "{pointer}: required property missing, expected {expected}")?,
        }
        match &self.description {
            Some(description) => write!(f, " ({description})"),
            None => Ok(()),
        }
    }
}
