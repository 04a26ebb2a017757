//! The rules of mcpproxy. Nothing here reads a file, a clock or a random number: what a rule needs is handed in.

mod agent;
mod approval;
mod attached;
mod brief;
mod catalog;
pub mod contract;
mod denial;
mod hidden;
mod intent;
pub mod json;
mod limits;
mod mask;
mod mistake;
mod name;
mod nearest;
mod outcome;
pub mod policy;
mod risk;
pub mod rules;
pub mod schema;
mod search;
pub mod settings;
mod untrusted;
mod variant;

pub use agent::{Agent, Scope};
pub use approval::{Approval, ApprovalId, ApprovalState, Binding, Digest, Given, Word};
pub use attached::Attached;
pub use brief::{Brief, Keep, brief};
pub use catalog::{Catalog, Changed, Hints, Offer, Offered, Tool, ToolError};
pub use denial::{Check, Denial, Mark, Missing, Retry, Ticket};
pub use hidden::{Hidden, Parts, below};
pub use intent::{
    Arguments, Declared, IDEMPOTENCY_KEY_MAX_CHARS, Intent, Mode, REASON_MAX_CHARS, Sensitivity, declare,
};
pub use json::canonical;
pub use limits::Limits;
pub use mask::{Masked, Pointer, PointerError, mask};
pub use mistake::Mistake;
pub use name::{NameError, SERVER_NAME_MAX_CHARS, ServerName, TOOL_NAME_MAX_CHARS, ToolName};
pub use nearest::nearest;
pub use outcome::{Failure, Mismatch, UNDECLARED, check_result};
pub use policy::{
    Claim, DRY_RUN_FRESH_MS, Decision, Grant, Ground, Moment, Permit, Preview, Question, Refused, Repeat, Seen,
    Warning, decide,
};
pub use risk::RiskLevel;
pub use search::{Features, Field, Found, Hit, Index, Nothing, Place, Why, WordMatch};
pub use untrusted::Untrusted;
pub use variant::Variant;
