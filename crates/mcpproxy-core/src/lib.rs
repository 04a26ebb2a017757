//! The rules of mcpproxy. Nothing here reads a file, a clock or a random number: what a rule needs is handed in.

mod agent;
mod catalog;
mod denial;
mod intent;
pub mod json;
mod mask;
mod name;
mod nearest;
pub mod policy;
mod risk;
mod search;
pub mod settings;
mod untrusted;
mod variant;

pub use agent::{Agent, Scope};
pub use catalog::{Catalog, Hints, Offer, Tool, ToolError};
pub use denial::{Check, Denial, Mark, Missing};
pub use intent::{Arguments, Declared, Intent, REASON_MAX_CHARS, Sensitivity, declare};
pub use mask::{Masked, Pointer, PointerError, mask};
pub use name::{NameError, SERVER_NAME_MAX_CHARS, ServerName, TOOL_NAME_MAX_CHARS, ToolName};
pub use nearest::nearest;
pub use policy::{Decision, Permit, Warning, decide};
pub use risk::RiskLevel;
pub use search::{Hit, Index};
pub use untrusted::Untrusted;
pub use variant::Variant;
