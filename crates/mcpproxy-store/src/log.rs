//! The activity log: records are appended to a hash chain, signed, listed, verified, exported and removed.

pub(crate) mod bundle;
pub(crate) mod calls;
pub(crate) mod checkpoint;
mod copies;
pub(crate) mod damage;
mod disk;
pub(crate) mod feed;
pub(crate) mod filter;
pub(crate) mod health;
mod keeper;
pub(crate) mod ledger;
mod line;
pub(crate) mod list;
mod operation;
mod positions;
pub(crate) mod queue;
mod removal;
mod retention;
pub(crate) mod signature;
mod sql;
mod start;
mod subject;
pub(crate) mod summary;
mod tally;
pub(crate) mod verify;
mod waiting;
mod writer;
