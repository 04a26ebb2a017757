//! The source of a statement about a tool.

use mcpproxy_core::contract::Source;

/// Source of a statement about a tool. Only the operator's statements are trusted, and only after a review.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SaidBy {
    Operator,
    /// A contract file of the operator that is still marked as a draft. It is in force, but nobody has reviewed it.
    Draft,
    Server,
}

impl SaidBy {
    pub const ALL: [Self; 3] = [Self::Operator, Self::Draft, Self::Server];

    pub fn as_str(self) -> &'static str {
        match self {
            Self::Operator => "operator",
            Self::Draft => "draft",
            Self::Server => "server",
        }
    }

    pub(crate) fn of(source: &Source) -> Option<Self> {
        match source {
            Source::Operator { is_draft: false, .. } => Some(Self::Operator),
            Source::Operator { is_draft: true, .. } => Some(Self::Draft),
            Source::Server | Source::Hints => Some(Self::Server),
            Source::Level | Source::Default => None,
        }
    }

    pub fn parse(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|one| one.as_str() == word)
    }
}
