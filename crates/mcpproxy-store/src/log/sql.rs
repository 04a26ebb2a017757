//! The SQL of the activity log.

mod batch;
mod chains;
mod counts;
mod expired;
mod partitions;
mod queries;
mod read;
mod record_partitions;
mod recover;
mod retention;
mod rollup;
pub(super) mod search;
mod series;
mod take;
mod windows;
mod write;

pub(super) use chains::{ChainRow, Nearest, RemovalRow, StoredRow, Stretch};
pub(super) use queries::has_indexed_condition;
pub(super) use retention::More;
pub(super) use rollup::RollUpCursor;
pub(crate) use take::{Head, head};
pub(super) use write::{RecordWriter, Settled};
