//! A tool's contract as somebody wrote it, an operator in a file or a server in its `_meta`: any field may be missing.

mod all;
mod contradictions;
mod digest;
mod effective;
mod fields;
mod files;
mod format;
mod json;
pub(crate) mod keys;
mod node;
mod of_server;
mod pattern;
mod plain;
mod read;
pub(crate) mod show;
#[cfg(test)]
mod tests;
mod yaml;
mod yaml_error;

use std::sync::Arc;
use std::time::Duration;

use crate::schema::Schema;
use crate::{Pointer, RiskLevel, ServerName, ToolName, Untrusted, Variant};

pub use all::Contracts;
pub(crate) use effective::asks;
pub use effective::{Effective, Need, Source, Sourced};
pub use files::{CONTRACTS_MAX, FILE_MAX_BYTES};
pub use format::schema;

/// Where a server's own listing carries a contract.
pub const META_KEY: &str = "mcp-first/contract";

/// What one contract says. What it leaves out is decided elsewhere, see [`Effective`].
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Contract {
    /// The file, for an operator's; `None` for a server's.
    pub file: Option<Arc<str>>,
    pub description: Option<Written<Untrusted>>,
    pub category: Option<Written<String>>,
    pub risk: Option<Written<RiskLevel>>,
    pub operation: Option<Written<Variant>>,
    pub autonomous: Option<Written<bool>>,
    pub confirmation: Option<Written<Confirmation>>,
    pub step_up: Option<Written<StepUp>>,
    pub input_schema: Option<Written<Arc<Schema>>>,
    pub output_schema: Option<Written<OutputSchema>>,
    pub permissions: Option<Written<Vec<String>>>,
    pub side_effects: Option<Written<Vec<Untrusted>>>,
    pub audit_event: Option<Written<String>>,
    pub failure_modes: Option<Written<Vec<String>>>,
    pub idempotency: Option<Written<Idempotency>>,
    pub dry_run: Option<Written<DryRun>>,
    pub rate_limit: Option<Written<RateLimit>>,
    pub sensitive: Option<Written<Vec<Sensitive>>>,
}

impl Contract {
    /// The contract a server carries for a tool, as JSON that has passed the strict reader. Keys that we do not know
    /// are left alone; a value that we cannot read is an error, because half a contract is weaker than a whole one. The
    /// error is a JSON pointer and a sentence, harmless to print.
    pub fn of_server(json: &str) -> Result<Self, String> {
        of_server::parse(json)
    }
}

/// A value and where its key stands in its file; line 0 when there is no file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Written<T> {
    pub value: T,
    pub line: usize,
    pub column: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Confirmation {
    None,
    Required,
}

/// When a fresh factor is asked for.
#[derive(Clone, Debug, PartialEq)]
pub enum StepUp {
    Never,
    /// When the arguments match this schema.
    When(Arc<Schema>),
    Always,
}

/// What results must look like, and whether one that does not is withheld.
#[derive(Clone, Debug, PartialEq)]
pub struct OutputSchema {
    pub schema: Arc<Schema>,
    pub is_strict: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Idempotency {
    None,
    /// These arguments name the result, so a repeat changes nothing more.
    Natural {
        key_from: Vec<String>,
        ttl: Duration,
    },
    /// The agent names the call, and the name is kept this long.
    Key {
        ttl: Duration,
    },
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DryRun {
    None,
    /// `parameter` is the argument by which the server itself is asked for a dry run.
    Supported {
        parameter: Option<String>,
    },
    Required {
        parameter: Option<String>,
    },
}

/// At most so many calls in any such span, all agents together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RateLimit {
    pub calls: u32,
    pub per: Duration,
}

/// A place in arguments and results that is masked, as written and as parsed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sensitive {
    pub text: String,
    pub pointer: Pointer,
}

/// Which tools of a server an operator's contract is for.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ToolPattern {
    pub server: ServerName,
    /// The whole name of a tool, or how names begin.
    pub prefix: String,
    pub is_exact: bool,
}

impl ToolPattern {
    pub fn matches(&self, name: &ToolName) -> bool {
        *name.server() == self.server
            && if self.is_exact { name.tool() == self.prefix } else { name.tool().starts_with(&self.prefix) }
    }
}
