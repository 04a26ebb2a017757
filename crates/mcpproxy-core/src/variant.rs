//! The three variants of a tool call: read, write and destructive.

use std::fmt;

/// The `call_tool_*` tool that an agent uses, and with it the operation it declares.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Variant {
    Read,
    Write,
    Destructive,
}

impl Variant {
    pub const ALL: [Self; 3] = [Self::Read, Self::Write, Self::Destructive];

    /// Returns the name of the tool that an agent calls, such as `call_tool_read`.
    pub fn tool(self) -> &'static str {
        match self {
            Self::Read => "call_tool_read",
            Self::Write => "call_tool_write",
            Self::Destructive => "call_tool_destructive",
        }
    }

    /// Returns the operation type: `read`, `write` or `destructive`.
    pub fn operation(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Write => "write",
            Self::Destructive => "destructive",
        }
    }

    pub fn from_tool(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|v| v.tool() == name)
    }

    pub fn from_operation(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|v| v.operation() == name)
    }
}

impl fmt::Display for Variant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.operation())
    }
}
