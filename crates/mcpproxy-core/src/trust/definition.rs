//! One thing that a server says about itself.

use std::fmt;
use std::sync::Arc;

use super::Pin;
use crate::Digest;
use crate::json::{member, quote, string_value};

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum DefinitionKind {
    Tool,
    Prompt,
    Template,
    /// The text that a server sends with its handshake.
    Instructions,
}

impl DefinitionKind {
    pub const ALL: [Self; 4] = [Self::Tool, Self::Prompt, Self::Template, Self::Instructions];

    pub fn as_str(self) -> &'static str {
        match self {
            Self::Tool => "tool",
            Self::Prompt => "prompt",
            Self::Template => "template",
            Self::Instructions => "instructions",
        }
    }

    pub fn parse(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.as_str() == word)
    }
}

/// Names one definition of a server.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DefinitionKey {
    pub kind: DefinitionKind,
    /// The server's own name for it. A template has its address pattern here, and the instructions have nothing.
    pub name: Arc<str>,
}

impl DefinitionKey {
    /// Digest of kind and name, under which the store keeps its rows. A name may be longer than an index allows.
    pub fn digest(&self) -> Digest {
        Digest::of(format!("{}\n{}", self.kind.as_str(), self.name).as_bytes())
    }
}

/// The name of a prompt or template is any text of the server, so it is quoted for terminals by those who print it.
impl fmt::Display for DefinitionKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.kind {
            DefinitionKind::Instructions => f.write_str(self.kind.as_str()),
            DefinitionKind::Tool | DefinitionKind::Prompt | DefinitionKind::Template => {
                write!(f, "{} {}", self.kind.as_str(), self.name)
            }
        }
    }
}

/// A definition as its server wrote it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Definition {
    pub key: DefinitionKey,
    /// The server's own JSON, byte for byte. The instructions are a JSON string.
    pub json: Arc<str>,
}

impl Definition {
    pub fn new(kind: DefinitionKind, name: &str, json: &str) -> Self {
        Self { key: DefinitionKey { kind, name: name.into() }, json: json.into() }
    }

    pub fn tool(name: &str, json: &str) -> Self {
        Self::new(DefinitionKind::Tool, name, json)
    }

    /// Reads one element of `prompts/list`. Returns `None` if it has no name.
    pub fn prompt(json: &str) -> Option<Self> {
        Self::named(DefinitionKind::Prompt, "name", json)
    }

    /// Reads one element of `resources/templates/list`. Returns `None` if it has no address pattern.
    pub fn template(json: &str) -> Option<Self> {
        Self::named(DefinitionKind::Template, "uriTemplate", json)
    }

    pub fn instructions(text: &str) -> Self {
        Self::new(DefinitionKind::Instructions, "", &quote(text))
    }

    /// Stands for a server that lists resources and nothing else. Resources are not pinned, so without it a user would
    /// have nothing to accept or reject. Its form is that of empty instructions, which no server has otherwise.
    pub fn resources_only() -> Self {
        Self::instructions("")
    }

    pub fn is_resources_only(&self) -> bool {
        self.key.kind == DefinitionKind::Instructions && &*self.json == "\"\""
    }

    fn named(kind: DefinitionKind, field: &str, json: &str) -> Option<Self> {
        let name = member(json, field).and_then(string_value)?;
        Some(Self::new(kind, &name, json))
    }

    pub fn pin(&self) -> Pin {
        Pin::of(self.key.kind, &self.json)
    }
}
