//! Settings, contracts and policies that users publish in the database, for all gateways with `operator_files: "database"`.
//!
//! A version has the texts of a folder: `mcp_config.json`, `contracts/` and `policies/`. A gateway reads them as it reads
//! a folder, with the same parsers and limits. Only the source of the texts differs. So one reader finds the mistakes of
//! `config apply --from`, of the gateway at which a user publishes, and of every gateway that takes the version over.
//!
//! Each setting has one place. `mcp_config.json` in the data folder has the settings of this machine, and the version all
//! others (`mcpproxy_core::settings`, `machine.rs`). References such as `${env:TOKEN}` are published as they are written, and
//! every gateway resolves them for itself: `${file:PATH}` starts in its own data folder. A secret that stands in the file is
//! refused, because whoever reads the database would have it.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use mcpproxy_core::settings::{FilesSource, Settings, StorageUrl};
use mcpproxy_gateway::Files;
use mcpproxy_store::{ConfigFiles, ConfigVersion};

use super::folder::Texts;
use super::settings_file::{self, bad};
use super::{CONTRACTS, OperatorFiles, OperatorTexts, POLICIES, parse_contracts, parse_policies};
use crate::exit::{Exit, Failure};
use crate::home::Home;

/// The name of the settings in a version.
pub(crate) const SETTINGS: &str = "mcp_config.json";
/// The next step if files of the data folder cannot be edited.
const NEXT: &str = "edit your folder, then run `mcpproxy config apply --from FOLDER`";
/// The largest request of the gateway, without room for the rest of it.
const REQUEST_MAX_BYTES: usize = 2 * 1024 * 1024 - 4096;

/// The source of contracts, policies and the settings that gateways share.
#[derive(Clone)]
pub(crate) enum Source {
    /// The folder of the settings file.
    Folder,
    /// The newest version in the database. `None` if nothing was published yet.
    Database(Option<Arc<ConfigVersion>>),
}

/// The version in force, for readers other than the reload.
#[derive(Clone, Default)]
pub(crate) struct VersionInForce(Arc<Mutex<Option<Arc<ConfigVersion>>>>);

impl VersionInForce {
    pub(crate) fn set(&self, version: &Arc<ConfigVersion>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(Arc::clone(version));
    }

    pub(crate) fn find(&self) -> Option<Arc<ConfigVersion>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// Says that a gateway has nothing to take over.
pub(crate) fn nothing_published() -> Failure {
    Failure::new(
        Exit::BadSettings,
        "no settings are published in this database yet, so the gateway has no servers; run `mcpproxy config apply --from \
         FOLDER`",
    )
}

/// Returns true if the settings file says that everything else comes from the database. Checks that it can.
pub(crate) fn is_published(path: &Path) -> Result<bool, Failure> {
    let Some(read) = settings_file::read(path)? else { return Ok(false) };
    match read.settings.operator_files {
        FilesSource::Folder => Ok(false),
        FilesSource::Database => check_database(path, &read.settings).map(|()| true),
    }
}

/// Checks the settings file of a gateway that takes everything else from the database.
pub(crate) fn check_machine(path: &Path, settings: &Settings) -> Result<(), Failure> {
    match settings.operator_files {
        FilesSource::Folder => return Ok(()),
        FilesSource::Database => check_database(path, settings)?,
    }
    let message = |key: &str| {
        format!(
            "`{key}` comes from the database, because `operator_files` is `database`; move it to the folder that you publish \
             with `mcpproxy config apply --from FOLDER`"
        )
    };
    none(path, &settings.shared_keys(message))
}

fn check_database(path: &Path, settings: &Settings) -> Result<(), Failure> {
    match &settings.storage.url {
        Some(StorageUrl::Postgres(_)) => Ok(()),
        Some(StorageUrl::Sqlite(_)) | None => {
            let line = settings.written.line("operator_files").unwrap_or(1);
            let message = format!(
                "{}:{line}:1: `operator_files` is `database`, but SQLite serves one gateway only; remove it, or set \
                 `storage.url` to a PostgreSQL database",
                path.display()
            );
            Err(Failure::new(Exit::BadSettings, message))
        }
    }
}

/// Warns about contracts and policies of the data folder, which have no effect.
pub(crate) fn warn_of_folders(path: &Path) {
    for folder in [CONTRACTS, POLICIES].map(|folder| folder.beside(path)).iter().filter(|folder| folder.exists()) {
        tracing::warn!(
            "{} is ignored, because `operator_files` is `database`. Publish it with `mcpproxy config apply --from FOLDER`, or \
             remove it.",
            folder.display()
        );
    }
}

/// Refuses a command that edits files of the data folder, if the gateway does not read them.
pub(crate) fn check_editable(home: &Home) -> Result<(), Failure> {
    if comes_from_database(home)? { Err(not_editable()) } else { Ok(()) }
}

/// Refuses a command that reads contracts, policies and settings from the data folder, if the gateway does not.
pub(crate) fn check_readable(home: &Home) -> Result<(), Failure> {
    if !comes_from_database(home)? {
        return Ok(());
    }
    let message = "The settings, contracts and policies of this gateway come from the database (`operator_files`), so they are \
                   not in the data folder.";
    let hint = "run this command for the folder that you publish: give it the files, or the folder with `--home`";
    Err(Failure::new(Exit::Failed, message).hint(hint))
}

fn comes_from_database(home: &Home) -> Result<bool, Failure> {
    let path = home.settings();
    let Some((_, text)) = settings_file::read_text(&path)? else { return Ok(false) };
    // Another part of the command reports an invalid file.
    let settings = settings_file::check_shape(&path, &text);
    Ok(settings.is_ok_and(|settings| settings.operator_files == FilesSource::Database))
}

fn not_editable() -> Failure {
    let message = "The settings, contracts and policies of this gateway come from the database (`operator_files`), so files of \
                   the data folder are not edited.";
    Failure::new(Exit::Failed, message).hint(NEXT)
}

/// Reads the settings of this machine, and joins them with a version. Without a settings file, the machine keeps `before`.
pub(super) fn read(
    path: &Path,
    before: Option<&Arc<Settings>>,
    version: Option<&ConfigVersion>,
) -> Result<OperatorFiles, Failure> {
    let own = settings_file::read(path)?;
    let has_settings = own.is_some();
    let (machine, mut referenced, tls) = match own {
        Some(own) => (Arc::new(own.settings), own.referenced, own.tls),
        None => (before.cloned().unwrap_or_default(), Vec::new(), None),
    };
    if has_settings {
        check_machine(path, &machine)?;
    }
    let Some(version) = version else {
        let files = Files { settings: machine, contracts: Arc::default(), policies: Arc::default() };
        let texts = OperatorTexts::default();
        return Ok(OperatorFiles { files, has_settings, referenced, texts, tls, contracts: None, policies: None });
    };
    let parsed = parse(&place(version), path, &machine, &version.files)?;
    referenced.extend(parsed.referenced);
    Ok(OperatorFiles { referenced, has_settings, tls, ..parsed })
}

/// Parses the files of a version for this machine. Mistakes name files beside `shown`.
fn parse(shown: &Path, path: &Path, machine: &Settings, files: &[(String, String)]) -> Result<OperatorFiles, Failure> {
    let (text, contract_texts, policy_texts) = split(files);
    let (settings, referenced) = settings_file::parse_shared(shown, path, text)?;
    let mut settings = settings.on_machine(machine);
    for warning in &mut settings.warnings {
        // The position is in the version, and not in the file of this machine.
        warning.message = format!("{}: {warning}", shown.display());
        warning.at = None;
    }
    settings.warnings.extend(machine.warnings.iter().cloned());
    let contracts = Arc::new(parse_contracts(shown, &contract_texts)?);
    let policies = Arc::new(parse_policies(shown, &policy_texts)?);
    Ok(OperatorFiles {
        files: Files { settings: Arc::new(settings), contracts, policies },
        has_settings: true,
        referenced,
        texts: OperatorTexts::new(contract_texts, policy_texts),
        tls: None,
        contracts: None,
        policies: None,
    })
}

/// Joins settings of a machine with those of a version, without resolving references.
pub(crate) fn join_shape(machine: &Settings, version: &ConfigVersion) -> Result<Settings, Failure> {
    let (text, ..) = split(&version.files);
    Ok(settings_file::check_shape(&place(version), text)?.on_machine(machine))
}

/// Returns the name of the settings in a version, for mistakes.
fn place(version: &ConfigVersion) -> PathBuf {
    PathBuf::from(format!("version {}", version.head.number)).join(SETTINGS)
}

/// Splits a version into its settings, contracts and policies.
fn split(files: &[(String, String)]) -> (&str, Texts, Texts) {
    let of = |folder: &str| {
        let prefix = format!("{folder}/");
        files.iter().filter(|(name, _)| name.starts_with(&prefix)).cloned().collect()
    };
    let settings = files.iter().find(|(name, _)| name == SETTINGS).map_or("{}", |(_, text)| text.as_str());
    (settings, of(CONTRACTS.name()), of(POLICIES.name()))
}

/// Reads a folder to publish, and reports every mistake in it.
pub(crate) fn read_folder(folder: &Path) -> Result<ConfigFiles, Failure> {
    let path = folder.join(SETTINGS);
    let missing = || {
        let message = format!("{}: the file does not exist", path.display());
        Failure::new(Exit::BadSettings, message)
            .hint("give the folder that has mcp_config.json, contracts/ and policies/")
    };
    let (file, text) = settings_file::read_text(&path)?.ok_or_else(missing)?;
    settings_file::check_owner(&path, &file)?;
    let mut files: ConfigFiles = vec![(SETTINGS.to_owned(), text)];
    files.extend(CONTRACTS.read(&path)?);
    files.extend(POLICIES.read(&path)?);
    files.sort();
    check_publishable(&path, &files)?;
    Ok(files)
}

/// Checks files that a user may publish, as every gateway can check them: without resolving references. Mistakes name files
/// beside `shown`.
fn check_publishable(shown: &Path, files: &[(String, String)]) -> Result<(), Failure> {
    let (text, contracts, policies) = split(files);
    let settings = settings_file::check_shape(shown, text).and_then(|settings| check_settings(shown, &settings));
    let contracts = parse_contracts(shown, &contracts).err();
    let policies = parse_policies(shown, &policies).err();
    let bytes = serde_json::to_string(files).map_or(usize::MAX, |json| json.len());
    let too_large = (bytes > REQUEST_MAX_BYTES).then(|| {
        let folder = shown.parent().unwrap_or(Path::new(".")).display();
        let message = format!("{folder}: the files have more than 2 MiB in total, as JSON");
        Failure::new(Exit::BadSettings, message).hint("remove files that do not belong there")
    });
    let failures: Vec<Failure> = [settings.err(), contracts, policies, too_large].into_iter().flatten().collect();
    if failures.is_empty() { Ok(()) } else { Err(Failure::all(failures).title("invalid files, nothing was published")) }
}

/// Checks what only published settings must be: the same on every machine, without secrets, and with servers that can run.
fn check_settings(shown: &Path, settings: &Settings) -> Result<(), Failure> {
    let message = |key: &str| {
        format!("`{key}` belongs to one machine; remove it here, and write it into mcp_config.json of each gateway")
    };
    let misplaced = none(shown, &settings.machine_keys(message)).err();
    let secrets = settings.inline_secrets();
    let secrets = (!secrets.is_empty()).then(|| {
        let message = format!(
            "{}:1:1: the database would have the secrets in this file ({}); replace them with `${{env:NAME}}` or \
             `${{file:PATH}}`, which every gateway resolves for itself",
            shown.display(),
            secrets.join(", ")
        );
        Failure::new(Exit::BadSettings, message)
    });
    let misconfigured = none(shown, settings.misconfigured().flat_map(|(_, mistakes)| mistakes)).err();
    let failures: Vec<Failure> = [misplaced, secrets, misconfigured].into_iter().flatten().collect();
    if failures.is_empty() { Ok(()) } else { Err(Failure::all(failures)) }
}

/// Checks files that a user may publish, and parses them for this machine.
pub(crate) fn check(path: &Path, machine: &Settings, files: &[(String, String)]) -> Result<Files, Failure> {
    let folders = [CONTRACTS.name(), POLICIES.name()];
    let is_known = |name: &str| {
        name == SETTINGS
            || name.split_once('/').is_some_and(|(folder, file)| folders.contains(&folder) && !file.is_empty())
    };
    if let Some((name, _)) = files.iter().find(|(name, _)| !is_known(name)) {
        let message = format!("`{name}` is no file of a version; send {SETTINGS}, contracts/ and policies/");
        return Err(Failure::new(Exit::BadSettings, message));
    }
    let shown = Path::new(SETTINGS);
    check_publishable(shown, files)?;
    Ok(parse(shown, path, machine, files)?.files)
}

fn none<'m>(path: &Path, mistakes: impl IntoIterator<Item = &'m mcpproxy_core::Mistake>) -> Result<(), Failure> {
    let mistakes: Vec<_> = mistakes.into_iter().collect();
    if mistakes.is_empty() { Ok(()) } else { Err(bad(path, mistakes)) }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use mcpproxy_store::{VersionHead, files_digest};

    use super::*;

    const SHARED: &str = "{\"approvals\": {\"wait\": \"1s\"}}";
    const FORBIDDEN: &str = "- tool: a:b\n  riskLevel: forbidden\n";

    /// Writes files into a folder, and reads it to publish it.
    fn published(files: &[(&str, &str)]) -> Result<ConfigFiles, String> {
        let folder = tempfile::tempdir().unwrap();
        for (name, text) in files {
            let path = folder.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        let shown = folder.path().display().to_string();
        read_folder(folder.path()).map_err(|failure| failure.to_string().replace(&shown, "FOLDER"))
    }

    #[test]
    fn every_mistake_of_a_folder_is_told() {
        let files =
            published(&[("mcp_config.json", SHARED), ("contracts/a.yaml", FORBIDDEN), ("README.md", "x")]).unwrap();
        let names: Vec<&str> = files.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(names, ["contracts/a.yaml", "mcp_config.json"]);
        let refused = published(&[
            ("mcp_config.json", "{\n\"listen\": \"127.0.0.1:1\",\n\"mcpServers\": {\"a\": {\"comand\": \"x\"}}}"),
            ("contracts/a.yaml", "- tool: a:b\n  riskLevel: huge\n"),
            ("policies/a.cedar", "permit ("),
        ])
        .unwrap_err();
        for part in [
            "FOLDER/mcp_config.json:2:1: `listen` belongs to one machine",
            "FOLDER/mcp_config.json:3:",
            "FOLDER/contracts/a.yaml:2:",
            "FOLDER/policies/a.cedar:1:",
        ] {
            assert!(refused.contains(part), "{part}: {refused}");
        }
        let missing = published(&[("contracts/a.yaml", FORBIDDEN)]).unwrap_err();
        assert_eq!(missing, "FOLDER/mcp_config.json: the file does not exist");
        let secret = "{\"mcpServers\": {\"a\": {\"command\": \"x\", \"env\": {\"TOKEN\": \"abcdefgh12345678\"}}}}";
        let refused = published(&[("mcp_config.json", secret)]).unwrap_err();
        assert!(
            refused.contains("the database would have the secrets in this file (mcpServers.a.env.TOKEN)"),
            "{refused}"
        );
        // A reference that only the gateways can resolve.
        published(&[("mcp_config.json", &secret.replace("abcdefgh12345678", "${env:NOT_HERE}"))]).unwrap();
        let comment = "# a comment\n".repeat(20_000);
        let names: Vec<String> = (0..10).map(|number| format!("contracts/{number}.yaml")).collect();
        let many = names.iter().map(|name| (name.as_str(), comment.as_str()));
        let refused = published(&many.chain([("mcp_config.json", "{}")]).collect::<Vec<_>>()).unwrap_err();
        assert!(refused.contains("FOLDER: the files have more than 2 MiB in total"), "{refused}");
    }

    fn version(files: &[(&str, &str)]) -> ConfigVersion {
        let files: ConfigFiles = files.iter().map(|(name, text)| ((*name).to_owned(), (*text).to_owned())).collect();
        let digest = files_digest(&files);
        let head =
            VersionHead { number: 3, published_ms: 0, published_by: "anna".into(), summary: String::new(), digest };
        ConfigVersion { head, files }
    }

    #[test]
    fn a_version_runs_with_the_settings_of_the_machine() {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join(SETTINGS);
        let machine = |more: &str| {
            let storage = "\"storage\": {\"url\": \"postgres://h/d\"}, \"operator_files\": \"database\"";
            fs::write(&path, format!("{{{storage},\n{more}}}")).unwrap();
        };
        let read = |files: &[(&str, &str)]| {
            let read = super::super::read(&path, None, &Source::Database(Some(Arc::new(version(files)))));
            read.map_err(|failure| failure.to_string().replace(&home.path().display().to_string(), "HOME"))
        };
        machine("\"listen\": \"127.0.0.1:9\"");
        fs::create_dir(home.path().join("contracts")).unwrap();
        fs::write(home.path().join("contracts/x.yaml"), "not: [read").unwrap();
        let both = read(&[(SETTINGS, SHARED), ("contracts/a.yaml", FORBIDDEN)]).unwrap();
        let settings = &both.files.settings;
        assert_eq!((settings.listen.port(), settings.approvals.wait.as_secs()), (9, 1));
        assert_eq!(both.files.contracts.iter().count(), 1);
        assert_eq!(both.texts.names().collect::<Vec<_>>(), ["contracts/a.yaml"]);
        fs::write(home.path().join("secret"), "hush-hush-hush-hush").unwrap();
        let reference = "{\"mcpServers\": {\"a\": {\"command\": \"x\", \"env\": {\"TOKEN\": \"${file:secret}\"}}}}";
        let resolved = read(&[(SETTINGS, reference)]).unwrap();
        assert_eq!(resolved.referenced, [home.path().join("secret")], "of this data folder");
        assert_eq!(resolved.files.settings.misconfigured().count(), 0);

        let refused = |files: &[(&str, &str)]| read(files).err().unwrap();
        let future = refused(&[(SETTINGS, "{\n\"from_the_future\": 1}")]);
        assert!(future.starts_with("version 3/mcp_config.json:2:1: unknown key"), "{future}");
        let contract = refused(&[(SETTINGS, "{}"), ("contracts/a.yaml", "- tool: a:b\n  riskLevel: huge\n")]);
        assert!(contract.starts_with("version 3/contracts/a.yaml:2:"), "{contract}");
        machine("\"approvals\": {\"wait\": \"1s\"}");
        let misplaced = refused(&[(SETTINGS, "{}")]);
        assert!(misplaced.starts_with("HOME/mcp_config.json:2:1: `approvals` comes from the database"), "{misplaced}");
        fs::write(&path, "{\"operator_files\": \"database\"}").unwrap();
        let alone = is_published(&path).unwrap_err().to_string();
        assert!(alone.contains("mcp_config.json:1:1: `operator_files` is `database`, but SQLite"), "{alone}");
    }
}
