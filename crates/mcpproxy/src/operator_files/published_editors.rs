//! The pages' editors of a gateway whose files come from the database. They change nothing: the user copies the text into
//! the folder that is published next.

use mcpproxy_core::{ServerName, ToolName};
use mcpproxy_gateway::Gateway;
use mcpproxy_web::editor::{
    ContractChange, ContractDraft, ContractsEditor, EditError, Edited, ServersEditor, WrittenContract,
};

use super::contracts_editor::{draft, written};
use super::published::{VersionInForce, not_editable};
use super::{CONTRACTS, OperatorTexts, POLICIES};
use crate::terminal::output::sentence;

/// Refuses changes of servers.
pub(crate) struct PublishedServers;

/// Drafts contracts with the files of the version in force.
pub(crate) struct PublishedContracts {
    in_force: VersionInForce,
    gateway: Gateway,
}

impl PublishedContracts {
    pub(crate) fn new(in_force: VersionInForce, gateway: Gateway) -> Self {
        Self { in_force, gateway }
    }

    fn texts(&self) -> OperatorTexts {
        let version = self.in_force.find();
        let files = version.iter().flat_map(|version| &version.files);
        let is_rule = |name: &str| {
            [CONTRACTS, POLICIES]
                .iter()
                .any(|folder| name.strip_prefix(folder.name()).is_some_and(|rest| rest.starts_with('/')))
        };
        OperatorTexts::remembered(files.filter(|(name, _)| is_rule(name)).cloned().collect())
    }
}

impl ServersEditor for PublishedServers {
    fn add(&self, _: &str, _: Option<&str>) -> Result<Edited, EditError> {
        Err(refused())
    }

    fn set_enabled(&self, _: &ServerName, _: bool) -> Result<Edited, EditError> {
        Err(refused())
    }

    fn remove(&self, _: &ServerName) -> Result<Edited, EditError> {
        Err(refused())
    }
}

impl ContractsEditor for PublishedContracts {
    fn written(&self, tool: &ToolName) -> Result<WrittenContract, EditError> {
        Ok(written(&self.texts(), tool))
    }

    fn draft(&self, tool: &ToolName, change: &ContractChange) -> Result<ContractDraft, EditError> {
        let draft = draft(&self.texts(), &self.gateway.settings(), tool, change)?;
        Ok(ContractDraft { is_read_only: true, ..draft })
    }

    fn write(&self, draft: &ContractDraft) -> Result<(), EditError> {
        Err(EditError::ReadOnly { file: draft.file.clone(), text: draft.after.clone() })
    }
}

fn refused() -> EditError {
    let failure = not_editable();
    let next = failure.hint_text().map(sentence).unwrap_or_default();
    let mut letters = next.chars();
    let next: String = letters.next().into_iter().flat_map(char::to_uppercase).chain(letters).collect();
    EditError::Failed(format!("{failure} {next}"))
}
