//! The decision logic of mcpproxy, without I/O: callers pass in files, the time and random numbers.

mod agent;
mod approval;
mod attached;
mod brief;
pub mod cases;
mod catalog;
pub mod contract;
pub mod decision;
mod denial;
mod error_code;
mod file;
mod hidden;
mod hints;
mod intent;
pub mod json;
mod limits;
pub mod lock;
mod mask;
pub mod meter;
mod name;
mod nearest;
mod outcome;
pub mod policy;
pub mod replay;
pub mod review;
mod risk;
pub mod schema;
mod search;
pub mod settings;
mod time;
pub mod trust;
mod untrusted;
mod variant;

pub use agent::{Agent, Scope};
pub use approval::{Approval, ApprovalId, ApprovalRef, ApprovalState, Assurance, Binding, Digest};
pub use attached::Attached;
pub use brief::{Brief, Keep, brief};
pub use catalog::{
    Catalog, Changed, Offer, OfferChanges, Offered, Quarantined, SchemaMistake, Tool, ToolChange, ToolError,
};
pub use decision::{
    ApprovalRequest, Claim, DRY_RUN_FRESH_MS, Decision, DecisionInputs, Moment, NotCovered, Permit, Preview,
    PriorState, Repeat, StandingApproval, Warning, decide,
};
pub use denial::{
    Approvers, Denial, DeniedBy, FieldHint, FirstOutcome, IDEMPOTENCY_KEY_MAX_CHARS, Mark, Missing, ParameterPlace,
    REASON_MAX_CHARS, Retry, Ticket,
};
pub use error_code::ErrorCode;
pub use file::{JSONC, Mistake};
pub use hidden::{Hidden, Parts, below};
pub use hints::Hints;
pub use intent::{
    Arguments, Declared, Intent, Mode, Sensitivity, Understood, WrittenIntent, declare, declare_members, understand,
};
pub use json::canonical;
pub use limits::Limits;
pub use mask::{Masked, Pointer, PointerError, mask};
pub use name::{NameError, SERVER_NAME_MAX_CHARS, ServerName, TOOL_NAME_MAX_CHARS, ToolName};
pub use nearest::nearest;
pub use outcome::{Failure, Mismatch, UNDECLARED, check_result};
pub use risk::RiskLevel;
pub use search::{
    Confidence, Doubt, Features, Field, FieldMatch, Index, MeaningSource, NoMatch, PendingTool, ScoreExplanation,
    SearchHit, SearchResult, ToolVector, VectorKey, WordMatch,
};
pub use untrusted::Untrusted;
pub use variant::Variant;
