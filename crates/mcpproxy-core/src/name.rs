//! Names of servers and tools, parsed once at the edge.

use std::fmt;
use std::sync::Arc;

pub const SERVER_NAME_MAX_CHARS: usize = 63;
pub const TOOL_NAME_MAX_CHARS: usize = 128;

/// The name an operator gave a server: `[a-z0-9][a-z0-9_-]{0,62}`, without `__`.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ServerName(Arc<str>);

/// `server:tool`, the only way to address a tool.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ToolName {
    server: ServerName,
    tool: Arc<str>,
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NameError {
    #[error("expected server:tool")]
    NotQualified,
    #[error("server names look like [a-z0-9][a-z0-9_-]{{0,62}}, without two underscores in a row")]
    Server,
    #[error("tool name longer than 128")]
    ToolTooLong,
    #[error("tool names consist of letters, digits, `_`, `.` and `-`")]
    Tool,
}

impl ServerName {
    pub fn parse(text: &str) -> Result<Self, NameError> {
        let first_fits = text.bytes().next().is_some_and(|b| b.is_ascii_lowercase() || b.is_ascii_digit());
        let rest_fits = text.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_' || b == b'-');
        // `__` separates server and tool in direct mode, so a server's name may not contain it.
        if first_fits
            && rest_fits
            && text.len() <= SERVER_NAME_MAX_CHARS
            && !text.contains("__")
            && !text.ends_with('_')
        {
            Ok(Self(text.into()))
        } else {
            Err(NameError::Server)
        }
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl ToolName {
    pub fn parse(text: &str) -> Result<Self, NameError> {
        let (server, tool) = text.split_once(':').ok_or(NameError::NotQualified)?;
        if server.is_empty() || tool.is_empty() || tool.contains(':') {
            return Err(NameError::NotQualified);
        }
        Self::of(&ServerName::parse(server)?, tool)
    }

    /// Makes the name of a tool from its server and the server's own name for it.
    pub fn of(server: &ServerName, tool: &str) -> Result<Self, NameError> {
        if tool.chars().count() > TOOL_NAME_MAX_CHARS {
            return Err(NameError::ToolTooLong);
        }
        if tool.is_empty() || !tool.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'.' | b'-')) {
            return Err(NameError::Tool);
        }
        Ok(Self { server: server.clone(), tool: tool.into() })
    }

    pub fn server(&self) -> &ServerName {
        &self.server
    }

    pub fn tool(&self) -> &str {
        &self.tool
    }
}

// Both kinds of name are harmless ASCII, so they may be printed anywhere.
impl fmt::Display for ServerName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Display for ToolName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.server, self.tool)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tool_names() {
        let check = |text: &str, expected: Result<&str, NameError>| {
            assert_eq!(ToolName::parse(text).map(|n| n.to_string()), expected.map(str::to_owned), "{text:?}");
        };
        check("github:delete_repo", Ok("github:delete_repo"));
        check("mail:emails.send_external", Ok("mail:emails.send_external"));
        check("", Err(NameError::NotQualified));
        check(":x", Err(NameError::NotQualified));
        check("fx:", Err(NameError::NotQualified));
        check("fx:a:b", Err(NameError::NotQualified));
        check("delete_thing", Err(NameError::NotQualified));
        check("GitHub:x", Err(NameError::Server));
        check("a__b:x", Err(NameError::Server));
        check("fx:naïve", Err(NameError::Tool));
        check("fx:a b", Err(NameError::Tool));
        check(&format!("fx:{}", "a".repeat(128)), Ok(&format!("fx:{}", "a".repeat(128))));
        check(&format!("fx:{}", "a".repeat(129)), Err(NameError::ToolTooLong));
    }

    #[test]
    fn server_names() {
        for good in ["a", "0x", "my-server_2", &"a".repeat(63)] {
            assert!(ServerName::parse(good).is_ok(), "{good}");
        }
        for bad in ["", "-a", "_a", "a_", "A", "a b", "test&calc", "gіthub", "a__b", &"a".repeat(64)] {
            assert_eq!(ServerName::parse(bad), Err(NameError::Server), "{bad}");
        }
    }
}
