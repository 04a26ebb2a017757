//! What is wrong with a value, for an agent to read.

use std::fmt;

use super::SchemaError;

/// More problems than these are not told at once.
pub const PROBLEMS_MAX: usize = 8;

/// A message about problems is never longer.
const MESSAGE_MAX_BYTES: usize = 2_048;

/// What is expected where something is missing: the words for it, and that it must be there.
pub(super) const REQUIRED: &str = " (required)";
pub(super) const ANYTHING: &str = "a value";
/// What is expected where no value can be checked at all.
const USABLE: &str = "a contract whose schema can be used";

/// One place where a value is not what a schema asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// A JSON pointer into the value.
    pub pointer: String,
    pub expected: String,
    pub found: String,
    /// The schema's own words for that place.
    pub description: Option<String>,
}

impl Problem {
    /// What is found where something is missing.
    pub(crate) const MISSING: &str = "nothing";

    pub(super) fn too_costly() -> Self {
        Self {
            pointer: String::new(),
            expected: "a smaller value".to_owned(),
            found: "one that takes too many steps to check against the schema".to_owned(),
            description: None,
        }
    }

    /// Whatever the value is, it is not to blame.
    pub(super) fn unusable(error: &SchemaError) -> Self {
        Self {
            pointer: String::new(),
            expected: USABLE.to_owned(),
            found: Self::MISSING.to_owned(),
            description: Some(error.to_string()),
        }
    }

    /// All problems in one text, a line for each.
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

/// One line: `/limit: expected an integer, found the string "ten" (How many to give back)`.
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
