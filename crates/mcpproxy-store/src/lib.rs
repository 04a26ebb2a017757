//! What survives a restart: the tokens of agents, the records of what they did, what users said to it, and who the
//! users are; in SQLite or PostgreSQL.

mod accounts;
mod approvals;
mod error;
mod location;
mod log;
mod record;
mod sql;
mod store;
mod text;

pub use accounts::session::{NewSession, Session};
pub use accounts::token::{AGENT_NAME_MAX_CHARS, TokenInfo};
pub use accounts::user::{PasskeyRow, PresenceProof, StepUpProof, Totp, USER_NAME_MAX_CHARS, User, UserRow};
pub use approvals::approval::{ApprovalFilter, ApprovalPage, NewApproval, StoredApproval};
pub use approvals::claim::{NewClaim, NewDryRun, StoredClaim, StoredDryRun};
pub use approvals::standing::{NewStandingApproval, StoredStandingApproval};
pub use approvals::step::{Lost, Step};
pub use error::StoreError;
pub use location::Location;
pub use log::bundle::{BundleError, BundleVerdict, ExportError, Exported, KeyFrom, Selection, verify_bundle};
pub use log::checkpoint::Checkpoint;
pub use log::damage::{Damage, DamageKind};
pub use log::feed::{Feed, FeedCursor};
pub use log::health::Health;
pub use log::ledger::{Ledger, LedgerOptions, OpenRecord, Wait};
pub use log::list::{Cursor, Filter, LIMIT_MAX, Page, SCAN_MAX};
pub use log::signature::{NoteError, SigningKey, Verifier};
pub use log::summary::{Count, Durations, Summary};
pub use log::verify::{ChainInfo, ChainVerdict, Progress, VerifyOptions};
pub use record::id::RecordId;
pub use record::payload::{Digests, PAYLOAD_MAX_BYTES, Payload, PayloadFacts};
pub use record::{Kind, NewRecord, Outcome, Record, Status, WholeRecord};
pub use store::Store;
