//! Copies of the whole database: for backups, restores and moves to another database.
//!
//! There is one form for both databases. A [`Snapshot`] reads all tables in one transaction, so it is consistent while
//! gateways write. It returns [`Batch`]es of rows as text. A [`Loader`] creates a database from such batches.
//! `Store::copy_to` connects both, in steps that can be continued after a crash.
//!
//! ```text
//! SQLite ──┐               ┌─▶ archive (mcpproxy backup)
//!          ├──▶ Snapshot ──┤                 │
//! PostgreSQL ─┘            │                 ▼
//!                          └──────────▶ Loader ──▶ SQLite or PostgreSQL
//! ```
//!
//! Why not copy the SQLite file, or call `pg_dump`? Then a backup of one database could not be restored to the other,
//! and PostgreSQL's tools would have to be installed beside the gateway in a matching version. The rows have the same
//! columns and types in both databases, so one reader and one writer suffice.
//!
//! `fate.rs` decides for each table whether a copy has it, and what a restore ends.
//!
//! A batch is JSON Lines. Each line is one row: an array with a number, a string or `null` for every column, in the order
//! of the schema. Bytes are a string in base64.

pub(crate) mod copy;
mod fate;
pub(crate) mod load;
mod rows;
pub(crate) mod snapshot;
