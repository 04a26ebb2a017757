//! The rules of mcpproxy. Nothing here reads a file, a clock or a random number: what a rule needs is handed in.

mod agent;
mod catalog;
pub mod contract;
mod denial;
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
pub use catalog::{Catalog, Changed, Hints, Offer, Offered, Tool, ToolError};
pub use denial::{Check, Denial, Mark, Missing};
pub use intent::{Arguments, Declared, Intent, REASON_MAX_CHARS, Sensitivity, declare};
pub use limits::Limits;
pub use mask::{Masked, Pointer, PointerError, mask};
pub use mistake::Mistake;
pub use name::{NameError, SERVER_NAME_MAX_CHARS, ServerName, TOOL_NAME_MAX_CHARS, ToolName};
pub use nearest::nearest;
pub use outcome::{Failure, Mismatch, UNDECLARED, check_result};
pub use policy::{Decision, Ground, Moment, Permit, Question, Warning, decide};
pub use risk::RiskLevel;
pub use search::{Hit, Index};
pub use untrusted::Untrusted;
pub use variant::Variant;
