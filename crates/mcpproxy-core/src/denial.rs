//! Why a call is refused, in the words the agent gets.

use serde_json::{Value, json};

use crate::{NameError, ToolName, Untrusted, Variant};

/// One fact that stops a call. Its texts are part of the product: agents correct themselves by them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Denial {
    /// Our own tools take no such parameter.
    UnknownField {
        field: Untrusted,
        nearest: Option<&'static str>,
    },
    /// A parameter of ours is missing or has the wrong type.
    BadField {
        field: &'static str,
        expected: &'static str,
    },
    InvalidToolName(NameError),
    InvalidArgs(String),
    InvalidIntent(String),
    InvalidOperationType(Untrusted),
    InvalidSensitivity(Untrusted),
    ReasonTooLong,
    MissingIntent(Variant),
    MissingOperationType,
    IntentMismatch {
        variant: Variant,
        declared: Variant,
    },
    NoSuchTool {
        name: ToolName,
        missing: Missing,
        suggestions: Vec<ToolName>,
    },
    ServerMismatch {
        tool: ToolName,
        mark: Mark,
        used: Variant,
        right: Variant,
    },
    /// The agent's token does not cover this kind of operation.
    NotGranted {
        agent: String,
        variant: Variant,
    },
    /// The agent may only read, and nobody says that this tool only reads.
    NotKnownToRead {
        agent: String,
        tool: ToolName,
    },
}

/// The checks a call passes, in their order. The first that fails answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Check {
    Shape,
    TwoKeys,
    Exists,
    Annotations,
    Permissions,
}

impl Check {
    pub const ALL: [Self; 5] = [Self::Shape, Self::TwoKeys, Self::Exists, Self::Annotations, Self::Permissions];

    pub fn words(self) -> &'static str {
        match self {
            Self::Shape => "shape and intent fields",
            Self::TwoKeys => "two keys",
            Self::Exists => "the tool exists",
            Self::Annotations => "server annotations",
            Self::Permissions => "permissions",
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Missing {
    Server,
    Tool,
}

/// What a server says of a tool that contradicts the variant used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mark {
    Destructive,
    NotReadOnly,
    Unannotated,
}

impl Denial {
    pub fn code(&self) -> &'static str {
        match self {
            Self::UnknownField { .. } => "UNKNOWN_FIELD",
            Self::BadField { .. } => "INVALID_FIELD",
            Self::InvalidToolName(_) => "INVALID_TOOL_NAME",
            Self::InvalidArgs(_) => "INVALID_ARGS",
            Self::InvalidIntent(_) => "INVALID_INTENT",
            Self::InvalidOperationType(_) => "INVALID_OPERATION_TYPE",
            Self::InvalidSensitivity(_) => "INVALID_SENSITIVITY",
            Self::ReasonTooLong => "REASON_TOO_LONG",
            Self::MissingIntent(_) => "MISSING_INTENT",
            Self::MissingOperationType => "MISSING_OPERATION_TYPE",
            Self::IntentMismatch { .. } => "INTENT_MISMATCH",
            Self::NoSuchTool { .. } => "TOOL_NOT_FOUND",
            Self::ServerMismatch { .. } => "SERVER_MISMATCH",
            Self::NotGranted { .. } | Self::NotKnownToRead { .. } => "permission_denied",
        }
    }

    /// The check that failed.
    pub fn check(&self) -> Check {
        match self {
            Self::UnknownField { .. }
            | Self::BadField { .. }
            | Self::InvalidToolName(_)
            | Self::InvalidArgs(_)
            | Self::InvalidIntent(_)
            | Self::InvalidOperationType(_)
            | Self::InvalidSensitivity(_)
            | Self::ReasonTooLong => Check::Shape,
            Self::MissingIntent(_) | Self::MissingOperationType | Self::IntentMismatch { .. } => Check::TwoKeys,
            Self::NoSuchTool { .. } => Check::Exists,
            Self::ServerMismatch { .. } => Check::Annotations,
            Self::NotGranted { .. } | Self::NotKnownToRead { .. } => Check::Permissions,
        }
    }

    /// Whether the request itself is malformed (a protocol error) or a well-formed call is refused (a tool result).
    pub fn is_malformed(&self) -> bool {
        matches!(self, Self::UnknownField { .. } | Self::BadField { .. })
    }

    /// The sentence for the agent: what to do instead.
    pub fn message(&self) -> String {
        match self {
            Self::UnknownField { field, nearest } => {
                let hint = nearest.map(|near| format!("; did you mean \"{near}\"?")).unwrap_or_default();
                format!("unknown field \"{}\"{hint}", field.for_terminal())
            }
            Self::BadField { field, expected } => format!("{field} must be {expected}"),
            Self::InvalidToolName(error) => format!("Invalid tool name: {error}"),
            Self::InvalidArgs(why) => format!("Invalid arguments: {why}"),
            Self::InvalidIntent(why) => format!("Invalid intent: {why}"),
            Self::InvalidOperationType(found) => {
                format!("Invalid intent.operation_type '{}': must be read, write, or destructive", found.for_terminal())
            }
            Self::InvalidSensitivity(found) => format!(
                "Invalid intent.data_sensitivity '{}': must be public, internal, private, or unknown",
                found.for_terminal()
            ),
            Self::ReasonTooLong => "intent.reason exceeds maximum length of 1000 characters".to_owned(),
            Self::MissingIntent(variant) => format!("intent parameter is required for {}", variant.tool()),
            Self::MissingOperationType => "intent.operation_type is required".to_owned(),
            Self::IntentMismatch { variant, declared } => {
                format!("Intent mismatch: tool is {} but intent declares {declared}", variant.tool())
            }
            Self::NoSuchTool { name, missing, suggestions } => no_such_tool(name, *missing, suggestions),
            Self::ServerMismatch { tool, mark, used, right } => {
                format!("Tool '{tool}' is {}, use {} instead of {}", mark.words(), right.tool(), used.tool())
            }
            Self::NotGranted { agent, variant } => {
                format!("Agent '{agent}' may not use {}: its token does not cover {variant} operations", variant.tool())
            }
            Self::NotKnownToRead { agent, tool } => {
                format!("Agent '{agent}' may only read, and the server does not mark '{tool}' as read-only")
            }
        }
    }

    /// The same for programs.
    pub fn details(&self) -> Value {
        match self {
            Self::UnknownField { field, nearest } => json!({"field": field.for_json(), "nearest": nearest}),
            Self::BadField { field, expected } => json!({"field": field, "expected": expected}),
            Self::InvalidToolName(_) | Self::InvalidArgs(_) | Self::InvalidIntent(_) => json!({}),
            Self::InvalidOperationType(found) => {
                json!({"found": found.for_json(), "allowed": ["read", "write", "destructive"]})
            }
            Self::InvalidSensitivity(found) => {
                json!({"found": found.for_json(), "allowed": ["public", "internal", "private", "unknown"]})
            }
            Self::ReasonTooLong => json!({"max_characters": crate::REASON_MAX_CHARS}),
            Self::MissingIntent(variant) => json!({"tool_variant": variant.tool()}),
            Self::MissingOperationType => json!({"allowed": ["read", "write", "destructive"]}),
            Self::IntentMismatch { variant, declared } => {
                json!({"tool_variant": variant.tool(), "operation_type": declared.operation()})
            }
            Self::NoSuchTool { name, suggestions, .. } => {
                let suggestions: Vec<String> = suggestions.iter().map(ToString::to_string).collect();
                json!({"tool": name.to_string(), "suggestions": suggestions})
            }
            Self::ServerMismatch { tool, used, right, .. } => {
                json!({"tool": tool.to_string(), "tool_variant": used.tool(), "call_with": right.tool()})
            }
            Self::NotGranted { variant, .. } => json!({"operation": variant.operation()}),
            Self::NotKnownToRead { tool, .. } => json!({"tool": tool.to_string()}),
        }
    }
}

impl Mark {
    fn words(self) -> &'static str {
        match self {
            Self::Destructive => "marked destructive by server",
            Self::NotReadOnly => "marked not read-only by server",
            Self::Unannotated => "not marked read-only by server",
        }
    }
}

fn no_such_tool(name: &ToolName, missing: Missing, suggestions: &[ToolName]) -> String {
    let fact = match missing {
        Missing::Server => format!("unknown server '{}'", name.server()),
        Missing::Tool => format!("server '{}' has no tool '{}'", name.server(), name.tool()),
    };
    let hint = match suggestions {
        [] => "use retrieve_tools to find tools".to_owned(),
        some => {
            let quoted: Vec<String> = some.iter().map(|name| format!("'{name}'")).collect();
            format!("did you mean {}?", quoted.join(" or "))
        }
    };
    format!("Tool '{name}' not found: {fact}; {hint}")
}
