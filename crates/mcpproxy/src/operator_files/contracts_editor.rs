//! Edits contract files for the console.
//!
//! The editor of core changes lines and keeps comments. This file chooses the file: the one that has a contract for
//! the tool, or else `contracts/SERVER.yaml`. A draft names the digest of all files after the change, the same one that
//! `mcpproxy config apply` confirms. So the user confirms the files that they have seen, and no others.

use std::fs::DirBuilder;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use mcpproxy_core::ToolName;
use mcpproxy_core::contract::Contracts;
use mcpproxy_core::review::edit;
use mcpproxy_core::settings::Settings;
use mcpproxy_web::editor::{ContractChange, ContractDraft, ContractsEditor, Destination, EditError, WrittenContract};
use rustix::fs::{Access, access};

use super::{CONTRACTS, OperatorFiles, OperatorTexts, Source, beside, settings_file};
use crate::exit::Failure;
use crate::home::secret::{Readers, replace_file};
use crate::terminal::output::{line, lines};

/// The contract files beside a settings file.
pub(crate) struct ContractFiles {
    settings_path: PathBuf,
}

/// The file that a change is written to.
struct Target {
    file: String,
    text: String,
    contract: Option<edit::WrittenContract>,
}

impl ContractFiles {
    pub(crate) fn new(settings_path: &Path) -> Self {
        Self { settings_path: settings_path.to_owned() }
    }

    fn read(&self) -> Result<OperatorFiles, EditError> {
        super::read(&self.settings_path, None, &Source::Folder).map_err(|failure| invalid_files(&failure))
    }

    fn path(&self, file: &str) -> PathBuf {
        beside(&CONTRACTS.beside(&self.settings_path), file)
    }

    fn is_read_only(&self, file: &str) -> bool {
        let path = self.path(file);
        // A file is replaced by another one, so its folder has to be writable. The first existing folder counts.
        let folder = path.ancestors().skip(1).find(|folder| folder.exists());
        let is_near = |folder: &Path| folder.starts_with(self.settings_path.parent().unwrap_or(Path::new(".")));
        folder.is_none_or(|folder| !is_near(folder) || access(folder, Access::WRITE_OK).is_err())
    }
}

impl ContractsEditor for ContractFiles {
    fn written(&self, tool: &ToolName) -> Result<WrittenContract, EditError> {
        Ok(written(&self.read()?.texts, tool))
    }

    fn draft(&self, tool: &ToolName, change: &ContractChange) -> Result<ContractDraft, EditError> {
        let read = self.read()?;
        let draft = draft(&read.texts, &read.files.settings, tool, change)?;
        let destination = if self.is_read_only(&draft.file) { Destination::ByHand } else { Destination::File };
        Ok(ContractDraft { destination, ..draft })
    }

    fn write(&self, draft: &ContractDraft) -> Result<(), EditError> {
        let path = self.path(&draft.file);
        let now = settings_file::read_text(&path).map_err(|failure| invalid_files(&failure))?;
        if now.map(|(_, text)| text).unwrap_or_default() != draft.before {
            let sentence = format!("{} changed meanwhile. Nothing was saved. Look at the new preview.", draft.file);
            return Err(EditError::Invalid(sentence));
        }
        let read_only = |error: &dyn std::fmt::Display| {
            tracing::warn!(%error, "could not write a contract file");
            EditError::ReadOnly { file: draft.file.clone(), text: draft.after.clone() }
        };
        if let Some(folder) = path.parent().filter(|folder| !folder.exists()) {
            DirBuilder::new().mode(0o700).create(folder).map_err(|error| read_only(&error))?;
        }
        replace_file(&path, &draft.after, Readers::AsBefore).map_err(|error| read_only(&format!("{error:#}")))
    }
}

/// Returns the contract of a tool as it is written in these files.
pub(super) fn written(texts: &OperatorTexts, tool: &ToolName) -> WrittenContract {
    let Target { file, contract, .. } = target(texts, tool);
    let (line, fields) = contract.map(|contract| (contract.line, contract.fields)).unzip();
    WrittenContract { file, line, fields: fields.unwrap_or_default() }
}

/// Changes the contract of a tool in these files.
pub(super) fn draft(
    texts: &OperatorTexts,
    settings: &Settings,
    tool: &ToolName,
    change: &ContractChange,
) -> Result<ContractDraft, EditError> {
    let Target { file, text: before, .. } = target(texts, tool);
    let after = edit::edited(&file, &before, tool, &change.fields).map_err(|edit::TooUnusual| EditError::ReadOnly {
        file: file.clone(),
        text: edit::entry(tool, &change.fields),
    })?;
    let texts = texts.with(&[&(file.clone(), after.clone())]);
    let in_folder = |name: &str| name.starts_with(&format!("{}/", CONTRACTS.name()));
    let contracts: Vec<_> = texts.all().iter().filter(|(name, _)| in_folder(name)).cloned().collect();
    let contracts = Contracts::parse(&contracts).map_err(|mistakes| {
        let told = mistakes.first().map(|(file, mistake)| {
            format!("{}:{}:{}: {}", line(file), mistake.line, mistake.column, lines(&mistake.message))
        });
        EditError::Invalid(format!("This contract would not be valid. {}", told.unwrap_or_default()))
    })?;
    let digest = texts.digest(settings);
    Ok(ContractDraft { file, before, after, digest, contracts: Arc::new(contracts), destination: Destination::File })
}

/// Finds the file with the contract of a tool, or the one for a new contract.
fn target(texts: &OperatorTexts, tool: &ToolName) -> Target {
    let all = || texts.all().iter();
    let has_it = |(file, text): &(String, String)| Some((file.clone(), text.clone(), edit::written(file, text, tool)?));
    if let Some((file, text, contract)) = all().find_map(has_it) {
        return Target { file, text, contract: Some(contract) };
    }
    let named = |ending: &str| format!("{}/{}.{ending}", CONTRACTS.name(), tool.server());
    let of_server = [named("yaml"), named("yml")].into_iter().find_map(|name| all().find(|(file, _)| *file == name));
    let (file, text) = of_server.cloned().unwrap_or_else(|| (named("yaml"), String::new()));
    Target { file, text, contract: None }
}

fn invalid_files(failure: &Failure) -> EditError {
    EditError::Failed(format!("The files cannot be edited, because one of them is not valid. {failure}"))
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt as _;

    use serde_json::json;

    use super::*;

    struct Home(tempfile::TempDir);

    impl Home {
        fn new(files: &[(&str, &str)]) -> Self {
            let home = tempfile::tempdir().unwrap();
            fs::create_dir(home.path().join("contracts")).unwrap();
            for (name, text) in files {
                fs::write(home.path().join(name), text).unwrap();
            }
            Self(home)
        }

        fn editor(&self) -> ContractFiles {
            ContractFiles::new(&self.0.path().join("mcp_config.json"))
        }

        fn text(&self, name: &str) -> String {
            fs::read_to_string(self.0.path().join(name)).unwrap()
        }
    }

    fn tool(name: &str) -> ToolName {
        ToolName::parse(name).unwrap()
    }

    fn risk(level: &str) -> ContractChange {
        ContractChange { fields: vec![("riskLevel", Some(json!(level)))] }
    }

    #[test]
    fn the_file_with_the_contract_is_edited() {
        let ours = "# Ours.\n- tool: mail:send\n  riskLevel: high # others notice\n- tool: mail:list\n";
        let home =
            Home::new(&[("contracts/a.yaml", ours), ("contracts/mail.yaml", "- tool: mail:*\n  riskLevel: low\n")]);
        let editor = home.editor();
        let written = editor.written(&tool("mail:send")).unwrap();
        let expected = WrittenContract {
            file: "contracts/a.yaml".into(),
            line: Some(2),
            fields: vec![("riskLevel", json!("high"))],
        };
        assert_eq!(written, expected);
        let draft = editor.draft(&tool("mail:send"), &risk("critical")).unwrap();
        assert_eq!((draft.file.as_str(), draft.before.as_str()), ("contracts/a.yaml", ours));
        assert_eq!(draft.destination, Destination::File);
        assert_eq!(draft.contracts.iter().count(), 3);
        editor.write(&draft).unwrap();
        assert_eq!(home.text("contracts/a.yaml"), ours.replace("high", "critical"));
        let after = super::super::read(&home.0.path().join("mcp_config.json"), None, &Source::Folder).unwrap();
        assert_eq!(after.texts.digest(&after.files.settings), draft.digest, "as `config apply` confirms it");
        assert_eq!(*after.files.contracts, *draft.contracts);
    }

    #[test]
    fn a_new_contract_goes_to_the_file_of_its_server() {
        let home = Home::new(&[("contracts/mail.yaml", "- tool: mail:*\n  riskLevel: low\n")]);
        let editor = home.editor();
        let draft = editor.draft(&tool("mail:send"), &risk("high")).unwrap();
        editor.write(&draft).unwrap();
        let expected = "- tool: mail:*\n  riskLevel: low\n\n- tool: mail:send\n  riskLevel: high\n";
        assert_eq!(home.text("contracts/mail.yaml"), expected);
        fs::remove_dir_all(home.0.path().join("contracts")).unwrap();
        let draft = editor.draft(&tool("demo:echo"), &risk("low")).unwrap();
        assert_eq!((draft.file.as_str(), draft.before.as_str()), ("contracts/demo.yaml", ""));
        editor.write(&draft).unwrap();
        assert_eq!(home.text("contracts/demo.yaml"), "- tool: demo:echo\n  riskLevel: low\n");
        let mode = |name: &str| fs::metadata(home.0.path().join(name)).unwrap().permissions().mode() & 0o777;
        assert_eq!((mode("contracts"), mode("contracts/demo.yaml")), (0o700, 0o600));
    }

    #[test]
    fn what_changed_meanwhile_is_not_overwritten() {
        let home = Home::new(&[("contracts/mail.yaml", "- tool: mail:send\n")]);
        let draft = home.editor().draft(&tool("mail:send"), &risk("high")).unwrap();
        fs::write(home.0.path().join("contracts/mail.yaml"), "- tool: mail:send # mine\n").unwrap();
        let refused = home.editor().write(&draft).unwrap_err();
        assert!(refused.to_string().contains("changed meanwhile"), "{refused}");
        assert_eq!(home.text("contracts/mail.yaml"), "- tool: mail:send # mine\n");
    }

    #[test]
    fn what_would_not_be_valid_is_refused() {
        let home = Home::new(&[("contracts/mail.yaml", "- tool: mail:send\n  confirmation: none\n")]);
        let refused = home.editor().draft(&tool("mail:send"), &risk("critical")).unwrap_err();
        assert!(refused.to_string().contains("contradicts risk level `critical`"), "{refused}");
        fs::write(home.0.path().join("contracts/other.yaml"), "- tool: [\n").unwrap();
        let refused = home.editor().draft(&tool("mail:send"), &risk("low")).unwrap_err();
        assert!(matches!(&refused, EditError::Failed(sentence) if sentence.contains("other.yaml")), "{refused}");
    }

    #[test]
    fn unusual_files_are_edited_by_hand() {
        let home = Home::new(&[("contracts/mail.json", r#"[{"tool": "mail:send"}]"#)]);
        let refused = home.editor().draft(&tool("mail:send"), &risk("low")).unwrap_err();
        let text = "- tool: mail:send\n  riskLevel: low\n".to_owned();
        assert_eq!(refused, EditError::ReadOnly { file: "contracts/mail.json".to_owned(), text });
    }

    /// Root may write everywhere, so this folder does not exist at all.
    #[test]
    fn a_folder_that_cannot_be_written() {
        let home = Home::new(&[]);
        let editor = ContractFiles::new(&home.0.path().join("gone/mcp_config.json"));
        let draft = editor.draft(&tool("mail:send"), &risk("low")).unwrap();
        assert_eq!(draft.destination, Destination::ByHand);
        let refused = editor.write(&draft).unwrap_err();
        assert_eq!(refused, EditError::ReadOnly { file: "contracts/mail.yaml".to_owned(), text: draft.after });
    }
}
