//! Checks values against JSON Schemas from untrusted sources, in bounded time.
//!
//! A server sends a schema for the arguments of each tool, and a contract can add its own. Both are untrusted. A schema
//! of 1 KB can take hours to check. Branches that refer to each other double the work at every level, a pattern can
//! backtrack exponentially, and a reference can fetch a URL. So the life of a schema has three stages:
//!
//! 1. `build` parses it into a graph of nodes and refuses what is too long, too deep or too large. `bounds` refuses
//!    cycles that never descend into the value, and nodes that apply too many others to one value. References are
//!    resolved inside the document only (`refs`).
//! 2. `compile` prepares its patterns, with a regex engine that never backtracks.
//! 3. `check` walks graph and value together, and counts steps. If it runs out of steps, the value is refused.
//!
//! ```text
//! schema  {"properties":{"limit":{"type":"integer"}}}
//! value   {"limit":"ten"}
//! problem /limit: expected an integer, found the string "ten"
//! ```
//!
//! Why not the `jsonschema` crate for all of it? Its validators cannot be stopped. It still does what is hard and
//! cheap: patterns and formats (`keyword_check`), and the meta-schemas for contracts (`strict`). A test compares our
//! results with those of the crate for every draft.
//!
//! Numbers are compared by all their digits, because the server gets all of them. So a check takes an [`ExactValue`],
//! and a condition keeps its constants as one.
//!
//! The author of a schema matters. A server checks arguments itself, so a pattern that we cannot run is skipped and the
//! rest is weakened accordingly. A skipped keyword must never refuse a value that the full schema admits. Nobody else
//! checks a contract, so every mistake in it is an error. Schemas in contracts from a server are compiled at first use,
//! because a server can send thousands.

mod bounds;
mod build;
mod check;
mod compile;
mod condition;
mod containers;
pub(crate) mod draft;
mod equal;
mod keyword_check;
mod keywords;
mod messages;
mod mismatch;
mod problem;
mod refs;
mod strict;
mod values;

use std::sync::OnceLock;

pub use problem::{PROBLEMS_MAX, Problem};

use build::Graph;
use check::CheckMode;
use compile::{Author, compile};

use crate::json::ExactValue;

/// A schema that is small and harmless enough to use.
pub struct Schema {
    text: Box<str>,
    /// The compiled schema, or the error. Set at first use.
    ready: OnceLock<Result<Compiled, SchemaError>>,
}

struct Compiled {
    graph: Graph,
    unchecked: Vec<String>,
}

/// An error in a schema.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SchemaError {
    #[error("a schema must be a JSON object, true or false")]
    NotASchema,
    #[error("the schema has {0} bytes, the maximum is {max}", max = build::TEXT_MAX_BYTES)]
    TooLong(usize),
    #[error("the schema is nested deeper than {} levels", build::DEPTH_MAX)]
    TooDeep,
    #[error("the schema has more than {} subschemas", build::NODES_MAX)]
    TooManyParts,
    #[error("the schema has more than {} different patterns and formats", build::PATTERNS_MAX)]
    TooManyPatterns,
    #[error("the schema applies more than {} subschemas to one value", bounds::PATHS_MAX)]
    TooManyPaths,
    #[error("the schema at `{0}` refers to itself in an endless loop")]
    Endless(String),
    #[error("reference {0} points outside the schema, and external schemas are never fetched")]
    ExternalReference(String),
    #[error("reference {0} points to nothing in the schema")]
    DanglingReference(String),
    #[error("`{pointer}` must be {expected}")]
    Keyword { pointer: String, expected: &'static str },
    #[error(
        "the pattern at `{0}` is invalid, too large, or uses look-around or back-references, which are not supported"
    )]
    Pattern(String),
    #[error("`{pointer}` is not a JSON Schema keyword; did you mean `{meant}`?")]
    UnknownKeyword { pointer: String, meant: &'static str },
    #[error("the schema is invalid: {0}")]
    Invalid(String),
}

impl SchemaError {
    /// Returns `true` if the schema is not valid JSON Schema. `false` means that it is too large, endless, or refers to
    /// another document.
    pub(crate) fn is_invalid(&self) -> bool {
        match self {
            Self::Keyword { .. }
            | Self::DanglingReference(_)
            | Self::Pattern(_)
            | Self::UnknownKeyword { .. }
            | Self::Invalid(_) => true,
            Self::NotASchema
            | Self::TooLong(_)
            | Self::TooDeep
            | Self::TooManyParts
            | Self::TooManyPatterns
            | Self::TooManyPaths
            | Self::Endless(_)
            | Self::ExternalReference(_) => false,
        }
    }
}

impl Schema {
    /// Checks the limits of a server's schema. Compiles nothing, because this runs for every tool of every server.
    ///
    /// Returns the first mistake of a schema that is within the limits, but is not valid JSON Schema. Only the server
    /// can check values for such a schema.
    pub fn inspect(text: &str) -> Result<Option<SchemaError>, SchemaError> {
        Graph::build(text, Author::Server).map(|graph| graph.mistake)
    }

    /// Compiles a server's schema. Patterns that need a backtracking engine are skipped.
    pub fn of_server(text: &str) -> Result<Self, SchemaError> {
        Compiled::of(text, Author::Server).map(|ready| Self::ready(text, ready))
    }

    /// Compiles a contract's schema. Every mistake is an error.
    pub fn parse(text: &str) -> Result<Self, SchemaError> {
        Compiled::of(text, Author::Contract).map(|ready| Self::ready(text, ready))
    }

    /// Checks the limits of a contract's schema, and compiles it at first use. If compiling fails then, every value is
    /// refused, because no value may pass unchecked.
    pub fn deferred(text: &str) -> Result<Self, SchemaError> {
        Graph::build(text, Author::Contract)?;
        Ok(Self { text: text.into(), ready: OnceLock::new() })
    }

    fn ready(text: &str, ready: Compiled) -> Self {
        Self { text: text.into(), ready: OnceLock::from(Ok(ready)) }
    }

    /// Compiles a deferred schema. Only schemas of contracts are deferred.
    fn compiled(&self) -> Result<&Compiled, &SchemaError> {
        self.ready.get_or_init(|| Compiled::of(&self.text, Author::Contract)).as_ref()
    }

    #[cfg(test)]
    pub(crate) fn is_compiled(&self) -> bool {
        self.ready.get().is_some()
    }

    pub fn text(&self) -> &str {
        &self.text
    }

    /// Returns JSON pointers to the keywords of a server's schema that only the server can check.
    pub fn unchecked(&self) -> &[String] {
        self.compiled().map(|ready| ready.unchecked.as_slice()).unwrap_or_default()
    }

    /// Checks a value. Returns at most [`PROBLEMS_MAX`] problems, in the order of the schema.
    pub fn check(&self, value: &ExactValue) -> Result<(), Vec<Problem>> {
        let graph = match self.compiled() {
            Ok(ready) => &ready.graph,
            Err(error) => return Err(vec![Problem::unusable(error)]),
        };
        let problems = match check::check(graph, value, CheckMode::Verdict) {
            Ok(outcome) if !outcome.failed => return Ok(()),
            Ok(_) => check::check(graph, value, CheckMode::Mismatches).map(|outcome| {
                outcome
                    .mismatches
                    .iter()
                    .map(|mismatch| messages::problem(&graph.nodes, mismatch, value.long()))
                    .collect()
            }),
            Err(spent) => Err(spent),
        };
        Err(problems
            .ok()
            .filter(|problems: &Vec<Problem>| !problems.is_empty())
            .unwrap_or_else(|| vec![Problem::too_costly()]))
    }

    /// Returns `true` if a value certainly fits. Running out of steps counts as no.
    pub fn admits(&self, value: &ExactValue) -> bool {
        self.fits(value).unwrap_or(false)
    }

    /// Returns `true` if a value may fit. Running out of steps counts as yes.
    pub fn may_admit(&self, value: &ExactValue) -> bool {
        self.fits(value).unwrap_or(true)
    }

    /// Returns `None` if the schema cannot be compiled or the check runs out of steps.
    fn fits(&self, value: &ExactValue) -> Option<bool> {
        let graph = &self.compiled().ok()?.graph;
        check::check(graph, value, CheckMode::Verdict).ok().map(|outcome| !outcome.failed)
    }
}

impl Compiled {
    fn of(text: &str, author: Author) -> Result<Self, SchemaError> {
        let mut graph = Graph::build(text, author)?;
        if let Some(mistake) = graph.mistake.take() {
            return Err(mistake);
        }
        let unchecked = compile(&mut graph, author)?;
        if author == Author::Contract {
            strict::check(text)?;
        }
        Ok(Self { graph, unchecked })
    }
}

impl PartialEq for Schema {
    fn eq(&self, other: &Self) -> bool {
        self.text == other.text
    }
}

impl std::fmt::Debug for Schema {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Schema").field(&crate::Untrusted::shortened(&self.text, 80).for_terminal()).finish()
    }
}
