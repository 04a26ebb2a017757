//! The contract editor of a gateway whose files come from the database. It writes no file: the page publishes its draft as
//! the next version.

use mcpproxy_core::ToolName;
use mcpproxy_gateway::Gateway;
use mcpproxy_store::{ConfigFiles, ConfigVersion, files_digest};
use mcpproxy_web::editor::{
    ContractChange, ContractDraft, ContractsEditor, Destination, EditError, NextVersion, WrittenContract,
};

use super::contracts_editor::{draft, written};
use super::published::VersionInForce;
use super::{CONTRACTS, OperatorTexts, POLICIES};

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
