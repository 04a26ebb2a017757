//! Changes of the operator's files that users make on a page.
//!
//! This crate must not know where the files are or how they are written. The program implements these traits with the
//! code that its own commands use, so that a page and a command write the same text.

use std::fmt;
use std::sync::Arc;

use mcpproxy_core::contract::Contracts;
use mcpproxy_core::{ServerName, ToolName};
use mcpproxy_store::ConfigFiles;
use serde_json::Value;

/// The reason why a file was not changed, for the user, with a next step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EditError {
    /// The input is wrong. The sentence says what to change.
    Invalid(String),
    /// The files cannot be written. The text is for the user to paste into the file.
    ReadOnly {
        file: String,
        text: String,
    },
    Failed(String),
}

impl fmt::Display for EditError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Invalid(sentence) | Self::Failed(sentence) => f.write_str(sentence),
            Self::ReadOnly { file, .. } => {
                write!(f, "{file} cannot be written. Paste the text into the file yourself.")
            }
        }
    }
}

/// Edits the servers in the settings file, or in the published settings. A text that the gateway would refuse is not written.
pub trait ServersEditor: Send + Sync {
    /// Adds the servers of a client's JSON, such as `{"mcpServers": {"time": {"command": "uvx"}}}`. A single server
    /// without a name around it gets `name`.
    fn add(&self, pasted: &str, name: Option<&str>) -> Result<Edited, EditError>;

    fn set_enabled(&self, server: &ServerName, is_enabled: bool) -> Result<Edited, EditError>;

    fn remove(&self, server: &ServerName) -> Result<Edited, EditError>;
}

/// A change of servers.
pub struct Edited {
    /// The servers that were added or changed.
    pub names: Vec<ServerName>,
    /// Sentences for the user, for example about a secret that was moved into a file.
    pub notes: Vec<String>,
    pub written: Written,
}

/// The place where a change of servers is.
pub enum Written {
    /// The settings file has it.
    File(Undo),
    /// Nothing was written. The user publishes it as the next version.
    Version(NextVersion),
}

/// Restores the file as it was before a change, for a change that the gateway does not accept.
pub struct Undo(Box<dyn FnOnce() + Send>);

impl Undo {
    pub fn new(undo: impl FnOnce() + Send + 'static) -> Self {
        Self(Box::new(undo))
    }

    pub fn run(self) {
        (self.0)();
    }
}

/// Writes the settings with which AI clients connect to this gateway.
pub trait ClientSettings: Send + Sync {
    /// Returns one snippet for each client that can use a token.
    fn snippets(&self, token: &str) -> Vec<ClientSnippet>;
}

/// The settings of one client, ready to paste.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClientSnippet {
    /// The name of the client, such as `Claude Code`.
    pub title: &'static str,
    /// The file that the text belongs into.
    pub file: String,
    pub text: String,
    /// The step after which the client reads its file again.
    pub restart: &'static str,
}

/// Edits contract files.
pub trait ContractsEditor: Send + Sync {
    /// Returns the contract that the files have for exactly this tool, and the file that a change is written to.
    fn written(&self, tool: &ToolName) -> Result<WrittenContract, EditError>;

    /// Returns the files as they would be after the change.
    fn draft(&self, tool: &ToolName, change: &ContractChange) -> Result<ContractDraft, EditError>;

    /// Writes a draft whose destination is a file, unless the file has changed since.
    fn write(&self, draft: &ContractDraft) -> Result<(), EditError>;
}

/// The contract of one tool, as the operator wrote it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct WrittenContract {
    /// The path below the data folder, such as `contracts/mail.yaml`.
    pub file: String,
    /// The line of the contract. `None` if the files have no contract for this tool yet.
    pub line: Option<usize>,
    /// Key and value, such as `riskLevel` and `"high"`.
    pub fields: Vec<(&'static str, Value)>,
}

/// New values of a contract, by key. `None` removes the key.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ContractChange {
    pub fields: Vec<(&'static str, Option<Value>)>,
}

/// A contract file before and after a change.
#[derive(Clone, Debug, PartialEq)]
pub struct ContractDraft {
    /// The path below the data folder, such as `contracts/mail.yaml`.
    pub file: String,
    /// Empty if the file does not exist yet.
    pub before: String,
    pub after: String,
    /// Identifies all files of the operator after the change. A user confirms these and no others.
    pub digest: String,
    /// All contracts after the change.
    pub contracts: Arc<Contracts>,
    pub destination: Destination,
}

/// The place where a draft is saved.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Destination {
    File,
    /// The file cannot be written. Then the user copies the text.
    ByHand,
    /// The next version for all gateways of the database. The digest of the draft is that of its files.
    Version(NextVersion),
}

/// All files of a version that is not published yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NextVersion {
    /// The number of the version that was changed. 0 if nothing was published.
    pub after: i64,
    pub files: ConfigFiles,
}

/// Refuses every change, for gateways whose files no page may write.
#[derive(Clone, Copy, Debug)]
pub struct ReadOnly;

impl ReadOnly {
    fn refuse<T>() -> Result<T, EditError> {
        Err(EditError::Failed("The files of this gateway cannot be changed here. Use the command line.".to_owned()))
    }
}

impl ServersEditor for ReadOnly {
    fn add(&self, _: &str, _: Option<&str>) -> Result<Edited, EditError> {
        Self::refuse()
    }

    fn set_enabled(&self, _: &ServerName, _: bool) -> Result<Edited, EditError> {
        Self::refuse()
    }

    fn remove(&self, _: &ServerName) -> Result<Edited, EditError> {
        Self::refuse()
    }
}

impl ClientSettings for ReadOnly {
    fn snippets(&self, _: &str) -> Vec<ClientSnippet> {
        Vec::new()
    }
}

impl ContractsEditor for ReadOnly {
    fn written(&self, _: &ToolName) -> Result<WrittenContract, EditError> {
        Self::refuse()
    }

    fn draft(&self, _: &ToolName, _: &ContractChange) -> Result<ContractDraft, EditError> {
        Self::refuse()
    }

    fn write(&self, _: &ContractDraft) -> Result<(), EditError> {
        Self::refuse()
    }
}
