//! The pages' editors of a gateway whose files come from the database. They write no file: the page publishes the draft of a
//! contract as the next version.

use mcpproxy_core::{ServerName, ToolName};
use mcpproxy_gateway::Gateway;
use mcpproxy_store::{ConfigFiles, ConfigVersion, files_digest};
use mcpproxy_web::editor::{
    ContractChange, ContractDraft, ContractsEditor, Destination, EditError, Edited, NextVersion, ServersEditor,
    WrittenContract,
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
}

/// Returns the contracts and policies of a version.
fn texts(version: Option<&ConfigVersion>) -> OperatorTexts {
    let files = version.into_iter().flat_map(|version| &version.files);
    let is_rule = |name: &str| {
        [CONTRACTS, POLICIES]
            .iter()
            .any(|folder| name.strip_prefix(folder.name()).is_some_and(|rest| rest.starts_with('/')))
    };
    OperatorTexts::remembered(files.filter(|(name, _)| is_rule(name)).cloned().collect())
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
        Ok(written(&texts(self.in_force.find().as_deref()), tool))
    }

    fn draft(&self, tool: &ToolName, change: &ContractChange) -> Result<ContractDraft, EditError> {
        let version = self.in_force.find();
        let draft = draft(&texts(version.as_deref()), &self.gateway.settings(), tool, change)?;
        let (after, before) = match version.as_deref() {
            Some(version) => (version.head.number, version.files.as_slice()),
            None => (0, [].as_slice()),
        };
        let kept = before.iter().filter(|(name, _)| *name != draft.file).cloned();
        let mut files: ConfigFiles = kept.chain([(draft.file.clone(), draft.after.clone())]).collect();
        files.sort();
        let digest = files_digest(&files);
        let destination = Destination::Version(NextVersion { after, files });
        Ok(ContractDraft { digest, destination, ..draft })
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
