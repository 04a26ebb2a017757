//! Edits the servers in the published settings for users of the pages.
//!
//! Writes nothing. The page shows the differences of the whole version, checks it, and publishes it if the user confirms.
//! Secrets cannot be moved into files, because the files of this gateway are not those of the others. So they are refused.

use mcpproxy_core::ServerName;
use mcpproxy_store::ConfigFiles;
use mcpproxy_web::editor::{EditError, Edited, NextVersion, ServersEditor, Written};

use super::editor::{check, notes, of_failure};
use super::plan::Plan;
use super::source::Source;
use crate::home::Home;
use crate::operator_files::edit::{self, Change};
use crate::operator_files::{VersionInForce, published};

/// Settings without servers, if nothing was published yet.
const EMPTY: &str = "{}\n";

/// The published settings of a gateway.
pub(crate) struct VersionEditor {
    home: Home,
    in_force: VersionInForce,
}

/// The version in force, with the text of its settings.
struct Base {
    number: i64,
    files: ConfigFiles,
    settings: String,
}

impl VersionEditor {
    pub(crate) fn new(home: &Home, in_force: &VersionInForce) -> Self {
        Self { home: home.clone(), in_force: in_force.clone() }
    }

    fn base(&self) -> Base {
        let (number, files) = match self.in_force.find() {
            Some(version) => (version.head.number, version.files.clone()),
            None => (0, ConfigFiles::new()),
        };
        let settings = files.iter().find(|(name, _)| name == published::SETTINGS).map(|(_, text)| text.clone());
        Base { number, files, settings: settings.unwrap_or_else(|| EMPTY.to_owned()) }
    }

    fn change(&self, server: &ServerName, change: Change) -> Result<Edited, EditError> {
        let base = self.base();
        let text = edit::apply(Some(&base.settings), server, change)
            .map_err(|error| EditError::Failed(format!("Nothing was changed: {error}.")))?;
        Ok(Edited { names: vec![server.clone()], notes: Vec::new(), written: base.with(text) })
    }
}

impl Base {
    fn with(self, settings: String) -> Written {
        let kept = self.files.into_iter().filter(|(name, _)| name != published::SETTINGS);
        let mut files: ConfigFiles = kept.chain([(published::SETTINGS.to_owned(), settings)]).collect();
        files.sort();
        Written::Version(NextVersion { after: self.number, files })
    }
}

impl ServersEditor for VersionEditor {
    fn add(&self, pasted: &str, name: Option<&str>) -> Result<Edited, EditError> {
        let source = Source::pasted(pasted, name).map_err(|failure| of_failure(&failure))?;
        let base = self.base();
        let plan =
            Plan::make(&self.home, source, Some(base.settings.clone())).map_err(|failure| of_failure(&failure))?;
        check(&self.home.settings(), &plan)?;
        if let Some(server) = plan.servers.iter().find(|server| !server.secrets.is_empty()) {
            return Err(EditError::Invalid(format!(
                "Server `{}` contains a secret, and published settings are stored in the database. Write `${{env:NAME}}` or \
                 `${{file:PATH}}` in its place. Every gateway resolves it for itself.",
                server.name
            )));
        }
        let names = plan.servers.iter().map(|server| server.name.clone()).collect();
        Ok(Edited { names, notes: notes(&plan), written: base.with(plan.after) })
    }

    fn set_enabled(&self, server: &ServerName, is_enabled: bool) -> Result<Edited, EditError> {
        self.change(server, if is_enabled { Change::Enable } else { Change::Disable })
    }

    fn remove(&self, server: &ServerName) -> Result<Edited, EditError> {
        self.change(server, Change::Remove)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use mcpproxy_store::{ConfigVersion, VersionHead};

    use super::*;

    const SETTINGS: &str = "{\n  // Ours.\n  \"mcpServers\": {\n    \"time\": { \"command\": \"uvx\" }\n  }\n}\n";

    fn editor(folder: &tempfile::TempDir) -> VersionEditor {
        let head = VersionHead {
            number: 7,
            published_ms: 0,
            published_by: "ada".to_owned(),
            summary: String::new(),
            digest: String::new(),
        };
        let files = [("contracts/a.yaml", "[]\n"), (published::SETTINGS, SETTINGS), ("policies/p.cedar", "")];
        let files = files.map(|(name, text)| (name.to_owned(), text.to_owned())).to_vec();
        let in_force = VersionInForce::default();
        in_force.set(&Arc::new(ConfigVersion { head, files }));
        VersionEditor::new(&Home::resolve(Some(folder.path().to_owned())).unwrap(), &in_force)
    }

    fn next(edited: Edited) -> NextVersion {
        match edited.written {
            Written::Version(next) => next,
            Written::File(_) => panic!("nothing is written"),
        }
    }

    #[test]
    fn a_change_is_the_next_version() {
        let folder = tempfile::tempdir().unwrap();
        let editor = editor(&folder);
        let time = ServerName::parse("time").unwrap();
        let disabled = next(editor.set_enabled(&time, false).unwrap());
        assert_eq!(disabled.after, 7);
        let names: Vec<&str> = disabled.files.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(names, ["contracts/a.yaml", "mcp_config.json", "policies/p.cedar"]);
        assert!(disabled.files[1].1.contains("// Ours.") && disabled.files[1].1.contains("\"enabled\": false"));
        assert!(!next(editor.remove(&time).unwrap()).files[1].1.contains("uvx"));
        let docs = r#"{"mcpServers": {"docs": {"url": "https://docs.example.com/mcp"}}}"#;
        let added = editor.add(docs, None).unwrap();
        assert_eq!(added.names, [ServerName::parse("docs").unwrap()]);
        let text = next(added).files[1].1.clone();
        assert!(text.contains("docs.example.com") && text.contains("// Ours.") && text.contains("uvx"), "{text}");
        assert_eq!(folder.path().read_dir().unwrap().count(), 0, "nothing is written");
    }

    #[test]
    fn what_cannot_be_published() {
        let folder = tempfile::tempdir().unwrap();
        let editor = editor(&folder);
        let none = ServerName::parse("none").unwrap();
        assert!(matches!(editor.set_enabled(&none, true), Err(EditError::Failed(text)) if text.contains("`none`")));
        let secret =
            r#"{"mcpServers": {"a": {"url": "https://h", "headers": {"Authorization": "Bearer abcdefgh12345678"}}}}"#;
        let Err(EditError::Invalid(text)) = editor.add(secret, None) else { panic!("a secret") };
        assert!(text.contains("`a` contains a secret") && !text.contains("abcdefgh"), "{text}");
        let reference = secret.replace("abcdefgh12345678", "${env:TOKEN}");
        assert!(editor.add(&reference, None).is_ok());
    }
}
