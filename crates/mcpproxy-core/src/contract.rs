//! Contracts of tools, as an operator writes them in a file or a server in `_meta`. Any field may be missing.

mod all;
mod contradictions;
mod effective;
mod fields;
mod files;
mod format;
mod of_server;
mod pattern;
mod rows;
mod show;
#[cfg(test)]
mod tests;
mod values;
mod weaker;

use std::sync::Arc;
use std::time::Duration;

use crate::file::SourcePosition;
use crate::schema::Schema;
use crate::{Pointer, ServerName, ToolName};

pub use all::Contracts;
pub(crate) use effective::asks;
pub use effective::{Need, Source, Sourced};
pub(crate) use fields::FIELDS;
pub use fields::{Contract, Effective};
pub use files::{CONTRACTS_MAX, FILE_MAX_BYTES};
pub(crate) use files::{contracts_of, documents, draft_line};
pub use format::schema;

/// The start of the line that marks a contract file as a draft. Operators remove the line after they have reviewed the
/// file. Until then, users read its fields as "draft, not reviewed".
pub const DRAFT_MARKER: &str = "# DRAFT";

/// The key in a tool's `_meta` that holds the server's contract.
pub const META_KEY: &str = "mcp-first/contract";

impl Contract {
    /// Reads the contract that a server sends for a tool. The JSON has passed the strict reader. Unknown keys are
    /// ignored. A value that cannot be read is an error, because half a contract is weaker than a whole one. The error
    /// is a JSON pointer and a sentence, safe to print.
    pub fn of_server(json: &str) -> Result<Self, String> {
        of_server::parse(json)
    }
}

/// A value and the position of its key in its file. The line is 0 if there is no file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Written<T> {
    pub value: T,
    pub line: usize,
    pub column: usize,
}

impl<T> Written<T> {
    fn position(&self) -> SourcePosition {
        SourcePosition { line: self.line, column: self.column }
    }
}

/// `confirmation`: when a user has to approve a call. From the weakest to the strictest.
#[derive(Clone, Debug, PartialEq)]
pub enum Confirmation {
    None,
    /// A user approves the call if its arguments match this schema.
    When(Arc<Schema>),
    Required,
}

impl Confirmation {
    /// Returns how strict the value is. Two conditions are equally strict, because nobody can compare schemas.
    pub(crate) fn rank(&self) -> u8 {
        match self {
            Self::None => 0,
            Self::When(_) => 1,
            Self::Required => 2,
        }
    }

    /// Names the value in a message.
    pub(crate) fn word(&self) -> &'static str {
        match self {
            Self::None => "none",
            Self::When(_) => "{ when: … }",
            Self::Required => "required",
        }
    }
}

/// `stepUpAuth`: when an approval needs a fresh second factor.
#[derive(Clone, Debug, PartialEq)]
pub enum StepUp {
    Never,
    /// Needed if the arguments match this schema.
    When(Arc<Schema>),
    Always,
}

/// The schema of results. If `is_strict`, the gateway does not return a result that does not match.
#[derive(Clone, Debug, PartialEq)]
pub struct OutputSchema {
    pub schema: Arc<Schema>,
    pub is_strict: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Idempotency {
    None,
    /// These arguments identify the result, so a repeated call changes nothing more.
    Natural {
        key_from: Vec<String>,
        ttl: Duration,
        /// A JSON pointer to the time at which a result stops being valid.
        valid_until: Option<String>,
    },
    /// The agent sends an idempotency key, which is kept this long.
    Key {
        ttl: Duration,
    },
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DryRun {
    None,
    /// `parameter` is the argument that asks the server for a dry run.
    Supported {
        parameter: Option<String>,
    },
    Required {
        parameter: Option<String>,
    },
}

/// The maximum number of calls in any time span of this length, for all agents together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RateLimit {
    pub calls: u32,
    pub per: Duration,
}

/// A JSON pointer to a masked value in arguments and results, as written and as parsed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sensitive {
    pub text: String,
    pub pointer: Pointer,
}

/// The tools that an operator's contract is for: one tool, or all tools with a common prefix.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ToolPattern {
    pub server: ServerName,
    /// The whole name of a tool, or a prefix of names.
    pub prefix: String,
    pub is_exact: bool,
}

impl ToolPattern {
    pub fn matches(&self, name: &ToolName) -> bool {
        *name.server() == self.server
            && if self.is_exact { name.tool() == self.prefix } else { name.tool().starts_with(&self.prefix) }
    }

    /// Returns true if this pattern is more specific than `other`, and matches nothing that `other` does not.
    pub(crate) fn is_within(&self, other: &Self) -> bool {
        self != other && self.server == other.server && !other.is_exact && self.prefix.starts_with(&other.prefix)
    }
}
