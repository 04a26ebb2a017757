//! Reads what the operator writes: the settings file, and `contracts/` and `policies/` in the same folder.
//!
//! [`read`] returns all three or an error: one invalid file means that nothing changes. A running gateway then keeps
//! its previous files.
//!
//! Three checks protect the active files:
//!
//! - **Nothing disappears by accident.** If a folder is gone or a file is empty, the reload fails
//!   ([`OperatorFiles::keeps`]). An unmounted disk or an editor that truncates before it writes must not lift a
//!   restriction. To remove a contract or policy, the operator deletes its file.
//! - **Only the owner or root can write the files** (`settings_file::check_owner`). Write access to the settings is
//!   enough to start any program as this user.
//! - **Reading takes bounded time**: limits on size and number of files, no named pipes, no devices.
//!
//! With `operator_files: "database"`, the texts come from a version that a user published instead ([`published`]).
//!
//! [`inspect`] takes cheap fingerprints of all files. `runtime::reload` compares them to notice changes.

pub(crate) mod change;
mod contracts_editor;
pub(crate) mod edit;
mod folder;
pub(crate) mod published;
mod published_editors;
pub(crate) mod settings_file;
mod texts;
mod tls_files;

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use mcpproxy_core::Mistake;
use mcpproxy_core::contract::Contracts;
use mcpproxy_core::policy::Policies;
use mcpproxy_core::settings::{self, Settings};
use mcpproxy_gateway::Files;
use mcpproxy_web::CertifiedPair;

use crate::exit::{Exit, Failure};
use crate::terminal::output::{line, lines, tell};

use folder::Texts;

/// The first line of a failure about a file that the user named.
const GIVEN: &str = "invalid file";
pub(crate) use contracts_editor::ContractFiles;
pub(crate) use folder::{CONTRACTS, Folder, POLICIES};
pub(crate) use published::{Source, VersionInForce};
pub(crate) use published_editors::PublishedContracts;
pub(crate) use texts::OperatorTexts;

/// Errors per report. More would not fit into one line of the log.
pub(crate) const MISTAKES_MAX: usize = 100;

/// Fingerprint of a file: inode, size and change time. `None` if the file does not exist.
pub(crate) type Stamp = Option<(u64, u64, i64, i64)>;

/// The files of the operator, read and parsed.
pub(crate) struct OperatorFiles {
    pub(crate) files: Files,
    pub(crate) has_settings: bool,
    /// Files that the settings refer to with `${file:PATH}`.
    pub(crate) referenced: Vec<PathBuf>,
    pub(crate) texts: OperatorTexts,
    /// The gateway's own certificate.
    pub(crate) tls: Option<Arc<CertifiedPair>>,
    /// Names of the contract files. `None` if there is no folder.
    contracts: Option<BTreeSet<String>>,
    /// Names of the policy files. `None` if there is no folder.
    policies: Option<BTreeSet<String>>,
}

/// Reads the files of a source. Without a settings file, uses `settings`, or else the demo settings.
pub(crate) fn read(path: &Path, settings: Option<&Arc<Settings>>, source: &Source) -> Result<OperatorFiles, Failure> {
    match source {
        Source::Folder => read_folder(path, settings),
        Source::Database(version) => published::read(path, settings, version.as_deref()),
    }
}

fn read_folder(path: &Path, settings: Option<&Arc<Settings>>) -> Result<OperatorFiles, Failure> {
    let own = settings_file::read(path)?;
    let has_settings = own.is_some();
    let (own, referenced, tls) = match own {
        Some(read) => (Some(Arc::new(read.settings)), read.referenced, read.tls),
        None => (None, Vec::new(), None),
    };
    let settings = own.or_else(|| settings.cloned()).unwrap_or_else(|| Arc::new(settings::demo()));
    let names = |texts: &Texts| texts.iter().map(|(name, _)| name.clone()).collect();
    let contract_texts = CONTRACTS.read_if_there(path)?;
    let contracts = Arc::new(parse_contracts(path, contract_texts.as_deref().unwrap_or_default())?);
    let contract_files = contract_texts.as_ref().map(names);
    let policy_texts = POLICIES.read_if_there(path)?;
    let policies = Arc::new(parse_policies(path, policy_texts.as_deref().unwrap_or_default())?);
    let policy_files = policy_texts.as_ref().map(names);
    let files = Files { settings, contracts, policies };
    let texts = OperatorTexts::new(contract_texts.unwrap_or_default(), policy_texts.unwrap_or_default());
    Ok(OperatorFiles { files, has_settings, referenced, texts, tls, contracts: contract_files, policies: policy_files })
}

impl OperatorFiles {
    /// Checks that no active file has disappeared by accident, such as through an unmounted disk or a half-written
    /// file.
    pub(crate) fn keeps(&self, in_force: &Files) -> Result<(), Failure> {
        let contract_files = |files: &Files| -> BTreeSet<String> {
            files.contracts.iter().filter_map(|(_, contract)| contract.file.as_deref().map(str::to_owned)).collect()
        };
        let policy_files = |files: &Files| files.policies.iter().map(|policy| policy.file.to_string()).collect();
        kept(&CONTRACTS, self.contracts.as_ref(), &contract_files(in_force), &contract_files(&self.files))?;
        kept(&POLICIES, self.policies.as_ref(), &policy_files(in_force), &policy_files(&self.files))
    }
}

/// Compares the files that have content, `before` and `now`, with the files that are `there`.
fn kept(
    folder: &Folder,
    there: Option<&BTreeSet<String>>,
    before: &BTreeSet<String>,
    now: &BTreeSet<String>,
) -> Result<(), Failure> {
    let word = folder.word;
    let Some(there) = there else {
        if before.is_empty() {
            return Ok(());
        }
        let name = folder.name();
        let message = format!(
            "{name}/ is gone. Its previous {word} remain active. To remove all {word}, keep the folder and empty it."
        );
        return Err(Failure::new(Exit::BadSettings, message));
    };
    let emptied = before.iter().filter(|file| there.contains(*file) && !now.contains(*file));
    let lines: Vec<String> = emptied
        .map(|file| {
            let file = line(file);
            format!(
                "{file} has no {word} any more. Its previous {word} remain active. To remove them, delete the file."
            )
        })
        .collect();
    if lines.is_empty() { Ok(()) } else { Err(Failure::new(Exit::BadSettings, lines.join("\n"))) }
}

/// Reads files that the command line names.
pub(crate) fn read_given(paths: &[PathBuf]) -> Result<Vec<(String, String)>, Failure> {
    let mut files = Vec::new();
    for path in paths {
        let shown = path.display().to_string();
        let missing = || Failure::new(Exit::BadSettings, format!("{shown}: the file does not exist")).title(GIVEN);
        let (_, text) = settings_file::read_text(path)?.ok_or_else(missing)?;
        files.push((shown, text));
    }
    Ok(files)
}

pub(crate) fn read_contracts(settings_path: &Path) -> Result<Contracts, Failure> {
    parse_contracts(settings_path, &CONTRACTS.read(settings_path)?)
}

pub(crate) fn read_policies(settings_path: &Path) -> Result<Policies, Failure> {
    parse_policies(settings_path, &POLICIES.read(settings_path)?)
}

fn parse_contracts(settings_path: &Path, texts: &[(String, String)]) -> Result<Contracts, Failure> {
    Contracts::parse(texts).map_err(|mistakes| bad(&CONTRACTS.beside(settings_path), &mistakes))
}

fn parse_policies(settings_path: &Path, texts: &[(String, String)]) -> Result<Policies, Failure> {
    Policies::parse(texts).map_err(|mistakes| bad(&POLICIES.beside(settings_path), &mistakes))
}

/// Fingerprints of all files, to notice changes.
#[derive(Clone, PartialEq)]
pub(crate) struct FileStamps {
    /// The first entry is the settings file.
    pub(crate) stamps: Vec<(PathBuf, Stamp)>,
    /// Messages about files in the folders that are ignored.
    pub(crate) ignored: Vec<String>,
}

/// Takes fingerprints of all files, and of those that the settings refer to.
pub(crate) fn inspect(settings_path: &Path, referenced: &[PathBuf]) -> FileStamps {
    let mut stamps = vec![(settings_path.to_owned(), stamp(settings_path))];
    stamps.extend(referenced.iter().map(|path| (path.clone(), stamp(path))));
    for folder in [CONTRACTS, POLICIES] {
        stamps.extend(folder.stamps(settings_path));
    }
    let ignored = [CONTRACTS, POLICIES].iter().filter_map(|folder| folder.ignored(settings_path)).collect();
    FileStamps { stamps, ignored }
}

impl FileStamps {
    pub(crate) fn has_settings(&self) -> bool {
        self.stamps.first().is_some_and(|(_, stamp)| stamp.is_some())
    }

    /// Returns the folders in which a change may concern these files, also behind symbolic links.
    pub(crate) fn folders(&self) -> BTreeSet<PathBuf> {
        let mut folders = BTreeSet::new();
        for (path, _) in &self.stamps {
            let real = fs::canonicalize(path).ok();
            let parents = [path.parent(), real.as_deref().and_then(Path::parent)];
            folders.extend(parents.into_iter().flatten().map(Path::to_owned));
            folders.extend(path.is_dir().then(|| path.clone()));
        }
        folders
    }

    pub(crate) fn warn_of_ignored(&self) {
        for sentence in &self.ignored {
            tracing::warn!("{sentence}");
        }
    }
}

/// Prints a note about ignored files in these folders.
pub(crate) fn tell_ignored(settings_path: &Path, folders: &[Folder]) {
    for sentence in folders.iter().filter_map(|folder| folder.ignored(settings_path)) {
        tell(&format!("note: {sentence}"));
    }
}

/// Formats errors as `file:line:column: message`, which editors understand.
fn bad(folder: &Path, mistakes: &[(String, Mistake)]) -> Failure {
    let placed: Vec<(String, Mistake)> =
        mistakes.iter().map(|(file, mistake)| (beside(folder, file).display().to_string(), mistake.clone())).collect();
    bad_given(&placed)
}

/// Formats errors of files that the command line names.
pub(crate) fn bad_given(mistakes: &[(String, Mistake)]) -> Failure {
    let shown = mistakes.iter().take(MISTAKES_MAX).map(|(file, mistake)| {
        format!("{}:{}:{}: {}", line(file), mistake.line, mistake.column, lines(&mistake.message))
    });
    let more = mistakes.len().saturating_sub(MISTAKES_MAX);
    let lines: Vec<String> = shown.chain((more > 0).then(|| format!("… and {more} more"))).collect();
    Failure::new(Exit::BadSettings, lines.join("\n")).title(GIVEN)
}

/// Returns the path of a file that is named relative to the settings, such as `contracts/mail.yaml`.
fn beside(folder: &Path, file: &str) -> PathBuf {
    folder.parent().unwrap_or(Path::new(".")).join(file)
}

fn stamp(path: &Path) -> Stamp {
    let metadata = fs::metadata(path).ok()?;
    // The change time also moves with the mode, so that `chmod` triggers a new attempt.
    Some((metadata.ino(), metadata.size(), metadata.ctime(), metadata.ctime_nsec()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mistakes_have_a_bound() {
        let check = |count: usize, lines: usize, last: &str| {
            let mistake = Mistake { line: 1, column: 2, message: "wrong".to_owned() };
            let mistakes: Vec<_> = (1..=count).map(|number| (format!("{number}.yaml"), mistake.clone())).collect();
            let told = bad_given(&mistakes).to_string();
            assert_eq!((told.lines().count(), told.lines().last()), (lines, Some(last)));
        };
        check(100, 100, "100.yaml:1:2: wrong");
        check(101, 101, "… and 1 more");
        check(2_000, 101, "… and 1900 more");
    }

    #[test]
    fn what_is_in_force_does_not_vanish() {
        let set = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<BTreeSet<_>>();
        let check = |there: Option<&[&str]>, before: &[&str], now: &[&str], expected: Option<&str>| {
            let there = there.map(set);
            let kept = kept(&CONTRACTS, there.as_ref(), &set(before), &set(now));
            assert_eq!(kept.err().map(|failure| failure.to_string()).as_deref(), expected);
        };
        check(None, &[], &[], None);
        check(
            None,
            &["contracts/a.yaml"],
            &[],
            Some(
                "contracts/ is gone. Its previous contracts remain active. To remove all contracts, keep the folder and empty it.",
            ),
        );
        check(Some(&[]), &["contracts/a.yaml"], &[], None);
        check(Some(&["contracts/a.yaml"]), &[], &[], None);
        check(Some(&["contracts/b.yaml"]), &["contracts/a.yaml"], &["contracts/b.yaml"], None);
        check(
            Some(&["contracts/a.yaml", "contracts/b.yaml"]),
            &["contracts/a.yaml", "contracts/b.yaml"],
            &["contracts/b.yaml"],
            Some(
                "contracts/a.yaml has no contracts any more. Its previous contracts remain active. To remove them, delete the file.",
            ),
        );
    }
}
