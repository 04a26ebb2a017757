//! JSON Schemas of strangers: bounded before they are compiled, and compiled only when they are used.
//!
//! Schemas are walked here and not by the library, because a walk can be stopped: however a schema and a value were
//! made for each other, a check ends after a bounded number of steps, and what was not checked to the end is refused.

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

use std::sync::OnceLock;

use serde_json::Value;

pub use problem::{PROBLEMS_MAX, Problem};

use build::Graph;
use check::CheckMode;
use compile::{Author, compile};

/// A schema that was found small and harmless enough to use.
pub struct Schema {
    text: Box<str>,
    /// What the text was compiled to, once it is there; or why it cannot be.
    ready: OnceLock<Result<Compiled, SchemaError>>,
}

struct Compiled {
    graph: Graph,
    unchecked: Vec<String>,
}

/// Why a schema is not used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SchemaError {
    #[error("not a JSON object or boolean")]
    NotASchema,
    #[error("the schema is too long: {0} bytes, at most {max} are allowed", max = build::TEXT_MAX_BYTES)]
    TooLong(usize),
    #[error("schemas are nested deeper than {}", build::DEPTH_MAX)]
    TooDeep,
    #[error("the schema has more than {} parts", build::NODES_MAX)]
    TooManyParts,
    #[error("the schema has more than {} different patterns and formats", build::PATTERNS_MAX)]
    TooManyPatterns,
    #[error("the schema looks at one value more than {} times", bounds::PATHS_MAX)]
    TooManyPaths,
    #[error("the schema refers to itself without end at `{0}`")]
    Endless(String),
    #[error("reference {0} leads out of the schema, and nothing is fetched")]
    ExternalReference(String),
    #[error("reference {0} leads nowhere")]
    DanglingReference(String),
    #[error("`{pointer}` must be {expected}")]
    Keyword { pointer: String, expected: &'static str },
    #[error(
        "the pattern at `{0}` is not valid, too large, or needs look-around or back-references, which are not supported"
    )]
    Pattern(String),
    #[error("`{pointer}` is not a keyword of JSON Schema; did you mean `{meant}`?")]
    UnknownKeyword { pointer: String, meant: &'static str },
    #[error("the schema is not valid: {0}")]
    Invalid(String),
}

impl Schema {
    /// Whether a server's schema may be used at all. This is what a long list of tools costs, so nothing is compiled.
    pub fn inspect(text: &str) -> Result<(), SchemaError> {
        Graph::build(text, Author::Server).map(|_| ())
    }

    /// A server's schema that passed `inspect`: patterns that only a backtracking engine can run are left out.
    pub fn of_server(text: &str) -> Result<Self, SchemaError> {
        Compiled::of(text, Author::Server).map(|ready| Self::ready(text, ready))
    }

    /// A contract's schema, compiled at once: every mistake is an error.
    pub fn parse(text: &str) -> Result<Self, SchemaError> {
        Compiled::of(text, Author::Contract).map(|ready| Self::ready(text, ready))
    }

    /// A contract's schema that is compiled when it is first used, because a server can send thousands of them. A
    /// mistake that only shows then refuses every value, since nothing may pass for lack of a check.
    pub fn deferred(text: &str) -> Result<Self, SchemaError> {
        Graph::build(text, Author::Contract)?;
        Ok(Self { text: text.into(), ready: OnceLock::new() })
    }

    fn ready(text: &str, ready: Compiled) -> Self {
        Self { text: text.into(), ready: OnceLock::from(Ok(ready)) }
    }

    /// Only schemas of contracts wait to be compiled.
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

    /// What of a server's schema is left to the server to check, as JSON pointers into the schema.
    pub fn unchecked(&self) -> &[String] {
        self.compiled().map(|ready| ready.unchecked.as_slice()).unwrap_or_default()
    }

    /// At most `PROBLEMS_MAX` problems, in the order of the schema.
    pub fn check(&self, value: &Value) -> Result<(), Vec<Problem>> {
        let graph = match self.compiled() {
            Ok(ready) => &ready.graph,
            Err(error) => return Err(vec![Problem::unusable(error)]),
        };
        let problems = match check::check(graph, value, CheckMode::Verdict) {
            Ok(outcome) if !outcome.failed => return Ok(()),
            Ok(_) => check::check(graph, value, CheckMode::Mismatches).map(|outcome| {
                outcome.mismatches.iter().map(|mismatch| messages::problem(&graph.nodes, mismatch)).collect()
            }),
            Err(spent) => Err(spent),
        };
        Err(problems
            .ok()
            .filter(|problems: &Vec<Problem>| !problems.is_empty())
            .unwrap_or_else(|| vec![Problem::too_costly()]))
    }

    /// Whether a value surely fits.
    pub fn admits(&self, value: &Value) -> bool {
        self.fits(value).unwrap_or(false)
    }

    /// Whether a value fits, or may fit: what cannot be told, or takes too many steps to tell, is not taken for a no.
    pub fn may_admit(&self, value: &Value) -> bool {
        self.fits(value).unwrap_or(true)
    }

    /// `None` when it cannot be told.
    fn fits(&self, value: &Value) -> Option<bool> {
        let graph = &self.compiled().ok()?.graph;
        check::check(graph, value, CheckMode::Verdict).ok().map(|outcome| !outcome.failed)
    }
}

impl Compiled {
    fn of(text: &str, author: Author) -> Result<Self, SchemaError> {
        let mut graph = Graph::build(text, author)?;
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
