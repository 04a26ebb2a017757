//! What survives a restart: the tokens of agents and the records of what they did, in one SQLite file.

mod error;
mod ledger;
mod list;
mod queue;
mod record;
mod row;
mod sql;
mod store;
mod token;
mod writer;

pub use error::StoreError;
pub use ledger::{Ledger, OpenRecord, Wait};
pub use list::{Cursor, Filter, LIMIT_MAX, Page};
pub use record::{Cut, Kind, NewRecord, Outcome, PAYLOAD_MAX_BYTES, Record, RecordId, Status};
pub use store::Store;
pub use token::{AGENT_NAME_MAX_CHARS, TokenInfo};
