//! Says what the difference between two versions of a definition means.

use super::DefinitionKind;

/// The difference between an accepted definition and the one that a server lists now.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Change {
    /// One sentence for each difference, the gravest first.
    pub meanings: Vec<String>,
    /// The kinds of difference, each once: `description`, `input_schema`, `hints` and so on.
    pub kinds: Vec<&'static str>,
    /// True if the new version only admits less than the old one.
    pub is_stricter: bool,
}

/// Compares two versions of a definition, as the server's own JSON.
pub fn compare(_kind: DefinitionKind, _old: &str, _new: &str) -> Change {
    Change::default()
}

/// Returns the name of the accepted definition that a new one resembles.
pub fn most_alike<'a>(_json: &str, _accepted: impl Iterator<Item = (&'a str, &'a str)>) -> Option<String> {
    None
}
