//! Everything the operator writes: the settings, `contracts/` and `policies/` beside them. All good, or nothing counts.

pub(crate) mod edit;
mod folder;
pub(crate) mod settings_file;

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

use crate::exit::{Exit, Failure};
use crate::terminal::output::{line, lines, tell};

use folder::Texts;
pub(crate) use folder::{CONTRACTS, Folder, POLICIES};

/// Nobody mends more at once, and all of them are one line of the log.
pub(crate) const MISTAKES_MAX: usize = 100;

/// What changes when a file does; `None` when there is no file.
pub(crate) type Stamp = Option<(u64, u64, i64, i64)>;

/// What was read, and whether there was a settings file at all.
pub(crate) struct Read {
    pub(crate) files: Files,
    pub(crate) has_settings: bool,
    /// Names of the files of contracts; `None` when there is no folder.
    contracts: Option<BTreeSet<String>>,
    /// The same for rules.
    rules: Option<BTreeSet<String>>,
}

/// Reads all of it. Without a settings file `settings` counts, or the demo when there are none either.
pub(crate) fn read(path: &Path, settings: Option<&Arc<Settings>>) -> Result<Read, Failure> {
    let own = settings_file::read(path)?.map(Arc::new);
    let has_settings = own.is_some();
    let settings = own.or_else(|| settings.cloned()).unwrap_or_else(|| Arc::new(settings::demo()));
    let names = |texts: &Texts| texts.iter().map(|(name, _)| name.clone()).collect();
    let texts = CONTRACTS.read_if_there(path)?;
    let contracts = Arc::new(parse_contracts(path, texts.as_deref().unwrap_or_default())?);
    let contract_files = texts.as_ref().map(names);
    let texts = POLICIES.read_if_there(path)?;
    let rules = Arc::new(parse_rules(path, texts.as_deref().unwrap_or_default())?);
    let rule_files = texts.as_ref().map(names);
    let files = Files { settings, contracts, rules };
    Ok(Read { files, has_settings, contracts: contract_files, rules: rule_files })
}

impl Read {
    /// Whether nothing that is in force has vanished in a way that nobody chooses: a disk that is not there, a file that is
    /// about to be written. What forbids must not end because of that.
    pub(crate) fn keeps(&self, in_force: &Files) -> Result<(), Failure> {
        let contract_files = |files: &Files| -> BTreeSet<String> {
            files.contracts.iter().filter_map(|(_, contract)| contract.file.as_deref().map(str::to_owned)).collect()
        };
        let rule_files = |files: &Files| files.rules.iter().map(|rule| rule.file.to_string()).collect();
        kept(&CONTRACTS, self.contracts.as_ref(), &contract_files(in_force), &contract_files(&self.files))?;
        kept(&POLICIES, self.rules.as_ref(), &rule_files(in_force), &rule_files(&self.files))
    }
}

/// `there` are the files of the folder, `before` and `now` those with something in them.
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
            "{name}/ is gone; its last content stays in force; to have no {word}, leave the folder there, empty"
        );
        return Err(Failure::new(Exit::BadSettings, message));
    };
    let emptied = before.iter().filter(|file| there.contains(*file) && !now.contains(*file));
    let lines: Vec<String> = emptied
        .map(|file| {
            let file = line(file);
            format!("{file} has no {word} now; its last content stays in force; remove the file to remove its {word}")
        })
        .collect();
    if lines.is_empty() { Ok(()) } else { Err(Failure::new(Exit::BadSettings, lines.join("\n"))) }
}

/// Files that were named on the command line, under the names they were given.
pub(crate) fn read_given(paths: &[PathBuf]) -> Result<Vec<(String, String)>, Failure> {
    let mut files = Vec::new();
    for path in paths {
        let shown = path.display().to_string();
        let missing = || Failure::new(Exit::BadSettings, format!("{shown}: there is no such file"));
        let (_, text) = settings_file::read_text(path)?.ok_or_else(missing)?;
        files.push((shown, text));
    }
    Ok(files)
}

pub(crate) fn read_contracts(settings_path: &Path) -> Result<Contracts, Failure> {
    parse_contracts(settings_path, &CONTRACTS.read(settings_path)?)
}

pub(crate) fn read_rules(settings_path: &Path) -> Result<Policies, Failure> {
    parse_rules(settings_path, &POLICIES.read(settings_path)?)
}

fn parse_contracts(settings_path: &Path, texts: &[(String, String)]) -> Result<Contracts, Failure> {
    Contracts::parse(texts).map_err(|mistakes| bad(&CONTRACTS.beside(settings_path), &mistakes))
}

fn parse_rules(settings_path: &Path, texts: &[(String, String)]) -> Result<Policies, Failure> {
    Policies::parse(texts).map_err(|mistakes| bad(&POLICIES.beside(settings_path), &mistakes))
}

/// One look at everything there is, to see whether it changed since.
#[derive(Clone, PartialEq)]
pub(crate) struct Look {
    /// The settings file comes first.
    pub(crate) stamps: Vec<(PathBuf, Stamp)>,
    /// Sentences about what is in the folders and does not count.
    pub(crate) left_out: Vec<String>,
}

pub(crate) fn look(settings_path: &Path) -> Look {
    let mut stamps = vec![(settings_path.to_owned(), stamp(settings_path))];
    for folder in [CONTRACTS, POLICIES] {
        stamps.extend(folder.stamps(settings_path));
    }
    let left_out = [CONTRACTS, POLICIES].iter().filter_map(|folder| folder.left_out(settings_path)).collect();
    Look { stamps, left_out }
}

impl Look {
    pub(crate) fn has_settings(&self) -> bool {
        self.stamps.first().is_some_and(|(_, stamp)| stamp.is_some())
    }

    pub(crate) fn warn_of_left_out(&self) {
        for sentence in &self.left_out {
            tracing::warn!("{sentence}");
        }
    }
}

/// Tells whoever checks these folders what in them does not count.
pub(crate) fn tell_left_out(settings_path: &Path, folders: &[Folder]) {
    for sentence in folders.iter().filter_map(|folder| folder.left_out(settings_path)) {
        tell(&format!("note: {sentence}"));
    }
}

/// Mistakes as editors and terminals know them: `file:line:column: what`.
fn bad(folder: &Path, mistakes: &[(String, Mistake)]) -> Failure {
    let placed: Vec<(String, Mistake)> =
        mistakes.iter().map(|(file, mistake)| (beside(folder, file).display().to_string(), mistake.clone())).collect();
    bad_given(&placed)
}

/// The same for files under the names they were given.
pub(crate) fn bad_given(mistakes: &[(String, Mistake)]) -> Failure {
    let shown = mistakes.iter().take(MISTAKES_MAX).map(|(file, mistake)| {
        format!("{}:{}:{}: {}", line(file), mistake.line, mistake.column, lines(&mistake.message))
    });
    let more = mistakes.len().saturating_sub(MISTAKES_MAX);
    let lines: Vec<String> = shown.chain((more > 0).then(|| format!("… and {more} more"))).collect();
    Failure::new(Exit::BadSettings, lines.join("\n"))
}

/// Files are named as the operator knows them, `contracts/mail.yaml`; on disk they are in the folder.
fn beside(folder: &Path, file: &str) -> PathBuf {
    folder.parent().unwrap_or(Path::new(".")).join(file)
}

fn stamp(path: &Path) -> Stamp {
    let metadata = fs::metadata(path).ok()?;
    // The change time moves with the mode too, and mending the mode must count as a new attempt.
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
                "contracts/ is gone; its last content stays in force; to have no contracts, leave the folder there, empty",
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
                "contracts/a.yaml has no contracts now; its last content stays in force; remove the file to remove its contracts",
            ),
        );
    }
}
