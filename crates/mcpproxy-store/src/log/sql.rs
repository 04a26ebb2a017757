//! The SQL of the activity log.

mod batch;
mod chains;
mod counts;
mod queries;
mod read;
mod recover;
mod retention;
pub(super) mod search;
mod take;
mod write;

pub(super) use chains::{ChainRow, Nearest, RemovalRow, StoredRow, Stretch};
pub(super) use retention::More;
pub(crate) use take::{Head, head};
pub(super) use write::{RecordWriter, Settled};
