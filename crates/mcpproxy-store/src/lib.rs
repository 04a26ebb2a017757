//! Everything that survives a restart, in SQLite or PostgreSQL: records, approvals, tokens of agents, users, pins of
//! definitions, sign-ins at servers, changes of MCP sessions, rate limits, vectors of tools, and the gateways that share
//! the database.
//!
//! Modules depend on each other in one direction only:
//!
//! ```text
//! log ──▶ approvals ──▶ record ──▶ text, sha256
//!  │         │   accounts ──▶ record
//!  └────▶ store ──▶ sql ──▶ error ──▶ location
//!  members, operator_files, config_versions, pins, sign_ins, agent_sessions, replica_messages, tool_vectors ──▶ store
//!  transfer ──▶ log, store
//! ```
//!
//! `record` is plain data. `approvals`, `accounts`, `pins` and `log` add methods to [`Store`] and hold the SQL of their
//! tables. `log` is on top, because a record is written together with the steps that change approvals.
//!
//! To add a table: add it to a new file in `sql/schema/`, and list that file in `sql/migrate.rs`. Put types, methods
//! and SQL into one file in `log/`, `approvals/`, `accounts/` or `pins/`.

mod accounts;
mod agent_sessions;
mod approvals;
mod config_versions;
mod error;
mod location;
mod log;
mod members;
mod operator_files;
mod pins;
mod record;
mod replica_messages;
mod sha256;
mod sign_ins;
mod sql;
mod store;
mod text;
mod tool_vectors;
mod transfer;

pub use accounts::account::Account;
pub use accounts::attempt::{Admission, Attempt, Pace};
pub use accounts::invitation::{Invitation, OperatorInvitation, Reset};
pub use accounts::open_session::{OpenSession, SessionId, SessionTimes};
pub use accounts::operator_action::OperatorAction;
pub use accounts::provider::{Profile, ProviderAccount, ProviderSignIn, ProviderSubject};
pub use accounts::session::{NewSession, Session};
pub use accounts::sign_in::{InvitationDigest, NewSignIn, SessionDigest, TakenSignIn};
pub use accounts::token::{AGENT_NAME_MAX_CHARS, TokenInfo, is_stored_token};

pub use accounts::user::{PasskeyRow, PresenceProof, StepUpProof, Totp, USER_NAME_MAX_CHARS, User, UserRow};
pub use agent_sessions::{SUBSCRIPTIONS_STORED_MAX, SessionChange, SessionChanges, SessionKey};
pub use approvals::approval::{ApprovalFilter, ApprovalPage, NewApproval, StoredApproval};
pub use approvals::claim::{NewClaim, NewDryRun, StoredClaim, StoredDryRun};
pub use approvals::standing::{NewStandingApproval, StoredStandingApproval};
pub use approvals::step::{Conditional, Step};
pub use config_versions::{ConfigFiles, ConfigVersion, NewVersion, VersionHead, files_digest};
pub use error::{NoteError, StoreError};
pub use location::Location;
pub use log::bundle::{BundleError, BundleVerdict, ExportError, Exported, KeyFrom, Selection, verify_bundle};
pub use log::calls::{CallsFrom, RecordedCall};
pub use log::checkpoint::Checkpoint;
pub use log::damage::{Damage, DamageKind};
pub use log::export::{ExportBatch, ExportPage, LineMark};
pub use log::feed::{Feed, FeedCursor};
pub use log::filter::{Filter, SCAN_MAX};
pub use log::health::Health;
pub use log::hourly::{HourlyCount, REFUSALS_MAX, RefusalCount, RefusalCounts};
pub use log::ledger::{Ledger, LedgerOptions, WaitFor};
pub use log::list::{Cursor, Page};
pub use log::meter::{CallLabels, LogReadings, ServerReadings};
pub use log::place::ChainPlace;
pub use log::queue::OpenRecord;
pub use log::restore::{RecordedRestore, Restore};
pub use log::search::indexer::SearchIndexer;
pub use log::signature::{SigningKey, Verifier};
pub use log::summary::{AgentCalls, CALLS_BY_AGENT_RECORDS, Durations, Summary, SummaryGroup};
pub use log::verify::state::{
    NotedVerification, VERIFIED_FILE, distrust_verification, forget_verification, verified_checkpoints,
};
pub use log::verify::whole::{FullReason, NotKept, VerifiedLog, VerifyExtent, VerifyRun, small_chain_lines};
pub use log::verify::{ChainInfo, ChainVerdict, Progress, VerifiedBefore, VerifyOptions};
pub use members::{Announcement, StoredMember};
pub use pins::{
    AcceptedPin, AdmittedPin, Choice, Decided, HeldPin, Listing, PastPin, PastState, PinDecision, RejectedPin,
    WaitingPin,
};
pub use record::id::RecordId;
pub use record::mark::CallMark;
pub use record::payload::{Digests, PAYLOAD_MAX_BYTES, Payload, PayloadFacts};
pub use record::{Kind, NewRecord, Outcome, Record, Status, WholeRecord};
pub use replica_messages::ReplicaListener;
pub use sign_ins::{NewServerSignIn, SealedSignIn, SealingKey};
pub use sql::DatabaseSize;
pub use store::{LIMIT_MAX, Store};
pub use tool_vectors::StoredVector;
pub use transfer::copy::{Copied, CopyStep};
pub use transfer::load::{Existing, Loader};
pub use transfer::snapshot::{Batch, ChainHead, Snapshot};
