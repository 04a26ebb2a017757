//! Compares the operator's files with those of the last run, and remembers them for the next.
//!
//! A start reads whatever is in the folders. If a mount with `contracts/` is missing, that is nothing, and forbidden tools
//! become callable. So the store remembers the files, and a start refuses if one of them is gone and something is weaker
//! without it. `serve --accept-removed` accepts that.
//!
//! Files that are there and say less are an edit, and a restart applies them. The gateway prints and records what is
//! weaker.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use mcpproxy_core::Offered;
use mcpproxy_core::review::weakening::{Rules, Weaker};
use mcpproxy_gateway::{Files, Gateway, ToolLists};
use mcpproxy_store::{Location, Store};
use tokio::sync::watch;

use super::weigh::{KnownTools, rules};
use super::{Accepted, local_agent};
use crate::database::location;
use crate::exit::{Exit, Failure};
use crate::home::Home;
use crate::operator_files::{self, OperatorFiles, OperatorTexts, Source, published};
use crate::terminal::output::{counted, counted_as, line, tell};

/// Changes and files to print. More are counted.
const TOLD_MAX: usize = 10;
/// Comparisons to find out which files of a reload are stricter.
const COMPARISONS_MAX: usize = 50;
/// Time between two attempts to write to the store.
const RETRY_PAUSE: Duration = Duration::from_secs(5);
/// Time to read the files of the last run, for commands that only look. The database may be away.
const READ_TIMEOUT: Duration = Duration::from_secs(5);

/// The files of the last run, and what is weaker now.
pub(super) struct LastRun {
    store: Store,
    /// The gateway: several may share a database.
    owner: String,
    texts: OperatorTexts,
    weaker: Weaker,
}

impl LastRun {
    pub(super) async fn load(store: &Store, owner: &str) -> anyhow::Result<Self> {
        let texts = OperatorTexts::remembered(store.remembered_files(owner).await?);
        Ok(Self { store: store.clone(), owner: owner.to_owned(), texts, weaker: Weaker::default() })
    }

    /// Compares with the files of this run, and prints what is weaker. Returns an error if the gateway must not start.
    pub(super) fn compare(
        self,
        home: &Home,
        (source, now): (&Source, &OperatorFiles),
        accepted: Accepted,
    ) -> Result<Self, Failure> {
        match source {
            Source::Folder => {}
            // A user confirmed what is weaker.
            Source::Database(_) => return Ok(self),
        }
        let weaker = compare(home, &self.texts, now, accepted)?;
        tell_weaker(&weaker);
        Ok(Self { weaker, ..self })
    }

    /// Records what is weaker, and remembers the files of this run instead. Files that are sent to the returned sender
    /// are remembered later.
    pub(super) async fn replace(
        self,
        gateway: &Gateway,
        texts: OperatorTexts,
    ) -> anyhow::Result<watch::Sender<Arc<OperatorTexts>>> {
        // The record comes first: after a crash in between, the next start records it again.
        if !self.weaker.is_empty() {
            gateway.note_weaker_at_start(&self.weaker).await;
        }
        if texts != self.texts {
            self.store.remember_files(&self.owner, texts.all()).await?;
        }
        let (sender, receiver) = watch::channel(Arc::new(texts));
        tokio::spawn(remember(self.store, self.owner, receiver));
        Ok(sender)
    }
}

/// Returns what is weaker than in the last run, or the reason not to start.
fn compare(home: &Home, last: &OperatorTexts, now: &OperatorFiles, accepted: Accepted) -> Result<Weaker, Failure> {
    if *last == now.texts {
        return Ok(Weaker::default());
    }
    let here: BTreeSet<&str> = now.texts.names().collect();
    let gone: Vec<&str> = last.names().filter(|name| !here.contains(name)).collect();
    let new = rules(&now.files);
    // Servers connect later.
    let mut known = KnownTools::new(ToolLists::new(home.tools()));
    known.update(Vec::new(), &now.files.settings);
    let weaker = parsed(last, &now.files).map(|old| Weaker::between(&old, &new, &known.all()));
    // Files of an older version that cannot be read any more cannot be compared either.
    let is_weaker = weaker.as_ref().is_none_or(|weaker| !weaker.is_empty());
    if !gone.is_empty() && is_weaker && !accepted.removed {
        return Err(refusal(home, &gone, weaker.as_ref()));
    }
    Ok(weaker.unwrap_or_default())
}

/// The result of a search for contract and policy files of the last run that are gone.
#[derive(Debug)]
pub(crate) enum MissingFiles {
    /// The reason why `serve` would not start.
    Found(Failure),
    NoneFound,
    /// The reason why nothing was compared, so files may be missing.
    NotChecked(&'static str),
}

const NEEDS_FILES: &str = "needs valid settings, contracts and policies";

/// Finds out if `serve` would not start, because a file of the last run is gone.
///
/// A running gateway keeps what is gone, and says so itself. So nothing is compared then.
pub(crate) async fn missing_files(home: &Home) -> MissingFiles {
    match compare_here(home).await {
        Ok(Ok(_)) => MissingFiles::NoneFound,
        Ok(Err(refusal)) => MissingFiles::Found(refusal),
        Err(reason) => MissingFiles::NotChecked(reason),
    }
}

/// Compares the files of the last run with those in the folder. Fails with the reason why that is not possible.
async fn compare_here(home: &Home) -> Result<Result<Weaker, Failure>, &'static str> {
    match home.running() {
        Ok(None) => {}
        Ok(Some(_)) => return Err("not checked while a gateway runs"),
        Err(_) => return Err("could not find out if a gateway runs"),
    }
    if published::is_published(&home.settings()).map_err(|_| NEEDS_FILES)? {
        return Err("contracts and policies come from the database");
    }
    let read = operator_files::read(&home.settings(), None, &Source::Folder).map_err(|_| NEEDS_FILES)?;
    match tokio::time::timeout(READ_TIMEOUT, remembered(home)).await {
        Ok(Ok(Some(remembered))) => Ok(compare(home, &remembered, &read, Accepted::default())),
        Ok(Ok(None)) => Err("needs the database and `signing.key` of the last run"),
        Ok(Err(_)) | Err(_) => Err("needs a database that answers"),
    }
}

/// Reads the files of the last run. Returns `None` without a database or a signing key.
async fn remembered(home: &Home) -> anyhow::Result<Option<OperatorTexts>> {
    let location = location(home)?;
    if let Location::Sqlite(path) = &location
        && !path.try_exists()?
    {
        return Ok(None);
    }
    // The key names the gateway. Without one, no gateway has run here.
    let Some(key) = home.existing_signing_key()? else { return Ok(None) };
    let store = Store::open_read_only(&location).await?;
    let files = store.remembered_files(&local_agent::name(&location, key.verifier())).await;
    store.close().await;
    Ok(Some(OperatorTexts::remembered(files?)))
}

fn refusal(home: &Home, gone: &[&str], weaker: Option<&Weaker>) -> Failure {
    let files = counted_as(gone.len(), "file of the last run is", "files of the last run are");
    let mut lines = vec![format!("{files} gone, and calls would be allowed that were not:")];
    lines.extend(some(gone.iter().map(|name| line(name)).collect(), "more file"));
    lines.extend(weaker.map(|weaker| some(weaker.lines(), "more change")).unwrap_or_default());
    let accept = home.command("mcpproxy", "serve --accept-removed");
    Failure::new(Exit::BadSettings, lines.join("\n"))
        .title("contracts or policies are missing")
        .hint(format!("restore the files, for example by mounting their folder. If you removed them, run `{accept}`"))
}

/// Prints what is weaker than in the last run.
fn tell_weaker(weaker: &Weaker) {
    let lines = weaker.lines();
    if lines.is_empty() {
        return;
    }
    let changes = counted_as(lines.len(), "change allows", "changes allow");
    tell(&format!("! {changes} more than in the last run:"));
    some(lines, "more change").iter().for_each(|line| tell(line));
}

/// Indents the first lines, and counts the others.
fn some(lines: Vec<String>, more: &str) -> Vec<String> {
    let rest = lines.len().saturating_sub(TOLD_MAX);
    let shown = lines.into_iter().take(TOLD_MAX).map(|line| format!("  {line}"));
    shown.chain((rest > 0).then(|| format!("  … {}", counted(rest, more)))).collect()
}

/// Returns the files to remember while a part of `new` waits for a user: the `remembered` ones, with every new or changed
/// file that makes nothing weaker. The rest of `new` is not in force as it is written.
///
/// Without this, the next start would not notice that a file is gone which was in force, only because another change
/// waited at the time. If a file is stricter in one place and weaker in another, its old text stays: a start without the
/// file is refused because of it.
pub(super) fn stricter(
    remembered: &OperatorTexts,
    new: &OperatorTexts,
    in_force: &Files,
    tools: &[Arc<Offered>],
) -> OperatorTexts {
    let old = |file: &(String, String)| remembered.all().contains(file);
    let changed: Vec<&(String, String)> = new.all().iter().filter(|file| !old(file)).collect();
    let Some(mut before) = parsed(remembered, in_force) else { return remembered.clone() };
    let mut kept = remembered.clone();
    let mut add = |files: &[&(String, String)]| {
        let with = kept.with(files);
        // Two files with a contract for the same tool are invalid together. One of them is the old name of the other.
        let Some(after) = parsed(&with, in_force) else { return false };
        let is_stricter = Weaker::between(&before, &after, tools).is_empty();
        if is_stricter {
            (kept, before) = (with, after);
        }
        is_stricter
    };
    // One at a time finds more, but a comparison of many tools takes a while.
    if !add(&changed) {
        for files in changed.chunks(changed.len().div_ceil(COMPARISONS_MAX).max(1)) {
            add(files);
        }
    }
    kept
}

/// Parses files as rules with the settings in force. Returns `None` if one is invalid.
fn parsed(texts: &OperatorTexts, in_force: &Files) -> Option<Rules> {
    let (contracts, policies) = texts.parse()?;
    Some(Rules { contracts: Arc::new(contracts), policies: Arc::new(policies), ..rules(in_force) })
}

/// Writes the newest files to the store until the sender is gone. A database that is away for a while must not delay
/// a reload, so this is a task of its own.
async fn remember(store: Store, owner: String, mut files: watch::Receiver<Arc<OperatorTexts>>) {
    while files.changed().await.is_ok() {
        loop {
            let newest = Arc::clone(&files.borrow_and_update());
            let Err(error) = store.remember_files(&owner, newest.all()).await else { break };
            tracing::warn!(
                error = &error as &dyn std::error::Error,
                "could not remember the contract and policy files; trying again"
            );
            tokio::time::sleep(RETRY_PAUSE).await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(files: &[(&str, &str)]) -> (Home, OperatorFiles, tempfile::TempDir) {
        let folder = tempfile::tempdir().unwrap();
        let home = Home::resolve(Some(folder.path().to_owned())).unwrap();
        for (name, text) in files {
            let path = folder.path().join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        }
        let read = crate::operator_files::read(&home.settings(), None, &Source::Folder).unwrap();
        (home, read, folder)
    }

    #[test]
    fn stricter_files_are_remembered_while_others_wait() {
        const WIPE: (&str, &str) = ("contracts/a.yaml", "tool: fx:wipe\nriskLevel: forbidden\n");
        const LOW_WIPE: (&str, &str) = ("contracts/a.yaml", "tool: fx:wipe\nriskLevel: low\n");
        const SEND: (&str, &str) = ("contracts/b.yaml", "tool: fx:send\nriskLevel: high\n");
        const STRICT_SEND: (&str, &str) = ("contracts/b.yaml", "tool: fx:send\nriskLevel: critical\n");
        const PAY: (&str, &str) = ("contracts/c.yaml", "tool: fx:pay\nriskLevel: forbidden\n");
        let check = |last: &[(&str, &str)], now: &[(&str, &str)], expected: &[(&str, &str)]| {
            let owned = |files: &[(&str, &str)]| {
                files.iter().map(|(name, text)| ((*name).to_owned(), (*text).to_owned())).collect::<Vec<_>>()
            };
            let (_home, read, _folder) = read(now);
            let kept = stricter(&OperatorTexts::remembered(owned(last)), &read.texts, &read.files, &[]);
            assert_eq!(kept.all(), owned(expected), "{last:?} {now:?}");
        };
        check(&[WIPE], &[LOW_WIPE, PAY], &[WIPE, PAY]);
        check(&[WIPE, SEND], &[LOW_WIPE, STRICT_SEND], &[WIPE, STRICT_SEND]);
        check(&[WIPE], &[PAY], &[WIPE, PAY]);
        check(&[WIPE], &[LOW_WIPE], &[WIPE]);
        // Renamed and weaker, so the new name comes later.
        check(&[WIPE], &[("contracts/d.yaml", LOW_WIPE.1), PAY], &[WIPE, PAY]);
        check(
            &[("contracts/a.yaml", "of: [an older version")],
            &[PAY],
            &[("contracts/a.yaml", "of: [an older version")],
        );
    }

    #[test]
    fn a_start_without_the_files_of_the_last_run_is_refused() {
        const WIPE: (&str, &str) = ("contracts/a.yaml", "tool: fx:wipe\nriskLevel: forbidden\n");
        const HELP: (&str, &str) = ("contracts/b.yaml", "tool: fx:help\ndescription: x\n");
        let check = |last: &[(&str, &str)], now: &[(&str, &str)], removed: bool, expected: Result<usize, &str>| {
            let (home, now, _folder) = read(now);
            let last = last.iter().map(|(name, text)| ((*name).to_owned(), (*text).to_owned())).collect();
            let found =
                compare(&home, &OperatorTexts::remembered(last), &now, Accepted { removed, ..Accepted::default() });
            match (found, expected) {
                (Ok(weaker), Ok(count)) => assert_eq!(weaker.lines().len(), count, "{:?}", weaker.lines()),
                (Err(failure), Err(part)) => assert!(failure.to_string().contains(part), "{failure}"),
                (found, expected) => panic!("{:?} instead of {expected:?}", found.map(|weaker| weaker.lines())),
            }
        };
        let gone = Err("1 file of the last run is gone");
        check(&[WIPE], &[], false, gone);
        check(&[WIPE, HELP], &[HELP], false, gone);
        check(&[WIPE], &[], true, Ok(1));
        // Renamed, without a rule, and edited.
        check(&[WIPE], &[("contracts/c.yaml", WIPE.1)], false, Ok(0));
        check(&[WIPE, HELP], &[WIPE], false, Ok(0));
        check(&[WIPE], &[("contracts/a.yaml", "tool: fx:wipe\nriskLevel: low\n")], false, Ok(1));
        check(&[], &[WIPE], false, Ok(0));
        check(&[("contracts/a.yaml", "of: [an older version")], &[], false, gone);
    }

    /// Without a comparison, a command must not say that nothing is missing.
    #[tokio::test]
    async fn missing_files_are_known_only_after_a_comparison() {
        const WIPE: (&str, &str) = ("contracts/a.yaml", "tool: fx:wipe\nriskLevel: forbidden\n");
        let (home, now, _folder) = read(&[WIPE]);
        let check = async |expected: &str| {
            let found = match missing_files(&home).await {
                MissingFiles::Found(failure) => failure.to_string(),
                MissingFiles::NoneFound => "none".to_owned(),
                MissingFiles::NotChecked(reason) => reason.to_owned(),
            };
            assert!(found.starts_with(expected), "{found} instead of {expected}");
        };
        check("needs the database and `signing.key`").await;
        let place = location(&home).unwrap();
        let store = Store::open(&place).await.unwrap();
        check("needs the database and `signing.key`").await;
        let key = home.new_signing_key().unwrap();
        let owner = local_agent::name(&place, key.verifier());
        store.remember_files(&owner, now.texts.all()).await.unwrap();
        store.close().await;
        check("none").await;
        std::fs::remove_file(home.folder().join(WIPE.0)).unwrap();
        check("1 file of the last run is gone").await;
        std::fs::write(home.settings(), "{").unwrap();
        check(NEEDS_FILES).await;
        std::fs::remove_file(home.settings()).unwrap();
        std::fs::write(home.database(), "no database, but long enough to have a header").unwrap();
        check("needs a database that answers").await;
    }
}
