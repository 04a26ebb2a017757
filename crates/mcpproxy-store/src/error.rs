//! Errors of the store. Messages tell the operator what happened and what to do.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use crate::Location;

/// Cloneable, because one failed commit answers every call that waits for it.
#[derive(Clone, Debug, thiserror::Error)]
pub enum StoreError {
    #[error("could not open the database `{}`", path.display())]
    Open { path: PathBuf, source: Arc<io::Error> },

    #[error("could not {doing}")]
    Database { doing: &'static str, source: Arc<sqlx::Error> },

    #[error(
        "the database `{location}` has schema version {found}, but this mcpproxy supports versions up to {known}; \
         install a newer mcpproxy"
    )]
    Newer { location: Location, found: i64, known: i64 },

    #[error("the database `{location}` has no tables yet; start the gateway once to create them")]
    NotReady { location: Location },

    #[error(
        "the database `{location}` has schema version {found}, but this mcpproxy needs version {known}; \
         start the gateway once to upgrade it"
    )]
    Older { location: Location, found: i64, known: i64 },

    /// Whatever is written now would be lost when the process ends.
    #[error(
        "the database file was removed or replaced while the gateway ran; move it back, or stop the gateway and restore a \
         backup"
    )]
    Gone,

    #[error("the session with PostgreSQL can only read; check that `storage.url` leads to the primary server")]
    ReadOnlySession,

    #[error("the database does not respond")]
    NoAnswer,

    #[error(
        "another gateway is writing to the chain `{chain}`; \
         give every gateway its own data folder, with its own `signing.key`"
    )]
    ChainTaken { chain: String },

    #[error("the database cannot hold any more chains; use a new database, or the data folder of an existing chain")]
    ChainsFull,

    /// At the start. Continuing the chain would hide the damage.
    #[error("the activity log of chain `{chain}` is damaged: {damage}")]
    Damaged { chain: String, damage: String },

    #[error("`signing.key` is not the key of chain `{chain}`, which this gateway wrote before")]
    KeyReplaced { chain: String },

    #[error("`signing.key` is missing, but this gateway wrote the chain `{chain}` before")]
    KeyMissing { chain: String },

    #[error(
        "records are missing: the activity log of chain `{chain}` ends at position {found}, but position {signed} was \
         signed; run `mcpproxy activity verify` for details"
    )]
    Truncated { chain: String, found: i64, signed: i64 },

    #[error(
        "the activity log of chain `{chain}` does not match the checkpoint signed for position {seq}; \
         run `mcpproxy activity verify` for details"
    )]
    Rewritten { chain: String, seq: i64 },

    #[error("not a valid checkpoint of this chain")]
    Checkpoint { source: NoteError },

    #[error("the database `{location}` is in use; stop every gateway and command that uses it, and try again")]
    InUse { location: Location },

    #[error("the database `{location}` already contains data")]
    NotEmpty { location: Location },

    #[error("a copy into the database `{location}` has not finished")]
    HalfCopied { location: Location },

    #[error("the copy of the table `{table}` differs from the original; nothing was switched over")]
    CopyDiffers { table: String },

    #[error("the database is open for reading only")]
    ReadOnly,

    #[error("the store is closed")]
    Closed,

    /// Nothing was recorded, so nothing may be sent.
    #[error("the activity log cannot accept records at the moment")]
    LogUnavailable,

    #[error(
        "the database has reached `limits.disk`; raise it, or let `activity.retention` remove old records, and restart the \
         gateway"
    )]
    DiskLimit,

    #[error("agent names have 1 to 64 characters: letters, digits, `.`, `_` and `-`")]
    AgentName,

    #[error("an agent named `{name}` already exists; revoke its token first, or choose another name")]
    AgentExists { name: String },

    #[error("no agent named `{name}` has a token")]
    NoSuchAgent { name: String },

    #[error("user names have 1 to 64 characters: letters, digits, `.`, `_`, `-`, `@` and `+`")]
    UserName,

    #[error("a user named `{name}` already exists; choose another name")]
    UserExists { name: String },

    #[error("no user named `{name}` exists")]
    NoSuchUser { name: String },

    #[error("several records have ids that start with `{prefix}`; use more characters of the id")]
    AmbiguousId { prefix: String },

    #[error("not a cursor that an earlier page returned")]
    Cursor,

    #[error("the database contains a value that mcpproxy did not write: {what}")]
    Corrupt { what: String },
}

/// Reasons to reject a signed note.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NoteError {
    #[error("not in the signed note format")]
    Form,
    #[error("signed with a different key")]
    OtherKey,
    #[error("the signature is invalid")]
    Signature,
}

impl StoreError {
    /// For `map_err`: names what was being done.
    pub(crate) fn while_trying(doing: &'static str) -> impl Fn(sqlx::Error) -> Self {
        move |source| Self::Database { doing, source: Arc::new(source) }
    }

    pub(crate) fn corrupt(what: impl Into<String>) -> Self {
        Self::Corrupt { what: what.into() }
    }
}

/// An error and all its causes on one line, for log messages.
pub(crate) fn with_causes(error: &dyn std::error::Error) -> String {
    let causes = std::iter::successors(error.source(), |cause| cause.source());
    causes.fold(error.to_string(), |text, cause| format!("{text}: {cause}"))
}
