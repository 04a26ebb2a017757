//! What can go wrong with the store.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use crate::{Location, NoteError};

/// Cloneable, because one failed commit answers every call that waited for it.
#[derive(Clone, Debug, thiserror::Error)]
pub enum StoreError {
    #[error("could not open the database `{}`", path.display())]
    Open { path: PathBuf, source: Arc<io::Error> },

    #[error("could not {doing}")]
    Database { doing: &'static str, source: Arc<sqlx::Error> },

    #[error(
        "the database `{location}` has version {found}, and this mcpproxy knows versions up to {known}; \
         use a newer mcpproxy"
    )]
    Newer { location: Location, found: i64, known: i64 },

    #[error("the database `{location}` has no tables yet; start the gateway once to make them")]
    NotReady { location: Location },

    #[error(
        "the database `{location}` has version {found}, and this mcpproxy needs version {known}; \
         start the gateway once to bring it there"
    )]
    Older { location: Location, found: i64, known: i64 },

    #[error("the database does not answer")]
    NoAnswer,

    #[error(
        "another gateway writes to the chain `{chain}` at this moment; \
         every gateway needs a data folder of its own, with its own `signing.key`"
    )]
    ChainTaken { chain: String },

    #[error(
        "the database has as many chains as it can take; use a new database, or a data folder that was used before"
    )]
    ChainsFull,

    #[error(
        "the activity log ends at position {found} of chain `{chain}`, but position {signed} was signed: records are \
         missing. `mcpproxy activity verify` tells more"
    )]
    Truncated { chain: String, found: i64, signed: i64 },

    #[error(
        "the activity log of chain `{chain}` is not the one that was signed at position {seq}. \
         `mcpproxy activity verify` tells more"
    )]
    Rewritten { chain: String, seq: i64 },

    #[error("this is not a checkpoint of the chain")]
    Checkpoint { source: NoteError },

    #[error("the database is open for reading only")]
    ReadOnly,

    #[error("the store is closed")]
    Closed,

    /// Nothing was recorded, so nothing may be sent.
    #[error("the activity log takes no records at the moment")]
    LogUnavailable,

    #[error("agent names consist of 1 to 64 letters, digits, `.`, `_` and `-`")]
    AgentName,

    #[error("an agent named `{name}` exists already; revoke it first or choose another name")]
    AgentExists { name: String },

    #[error("no agent named `{name}` has a token")]
    NoSuchAgent { name: String },

    #[error("names of people consist of 1 to 64 letters, digits, `.`, `_`, `-`, `@` and `+`")]
    UserName,

    #[error("somebody named `{name}` exists already; choose another name")]
    UserExists { name: String },

    #[error("there is nobody named `{name}`")]
    NoSuchUser { name: String },

    #[error("more than one record begins with `{prefix}`; give more of its id")]
    AmbiguousId { prefix: String },

    #[error("this is not a cursor of an earlier page")]
    Cursor,

    #[error("the database holds something that mcpproxy did not write: {what}")]
    Corrupt { what: String },
}

impl StoreError {
    /// For `map_err`: says what was being tried.
    pub(crate) fn while_trying(doing: &'static str) -> impl Fn(sqlx::Error) -> Self {
        move |source| Self::Database { doing, source: Arc::new(source) }
    }

    pub(crate) fn corrupt(what: impl Into<String>) -> Self {
        Self::Corrupt { what: what.into() }
    }
}
