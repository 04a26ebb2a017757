//! `restore`: brings back a data folder and its database from a backup.
//!
//! Nothing is replaced before everything is checked. The order of the steps:
//!
//! 1. Lock the data folder. Check the digests of the archive.
//! 2. Write the files to `restoring/`, and load the rows into a new database. Verify its activity log.
//! 3. Compare with the log that is replaced, to know what will be gone.
//! 4. Create `restore.pending`. From here on, no gateway starts.
//! 5. Append the signed record of the restore, and sign it. In PostgreSQL, this follows the replacement of all rows in one
//!    transaction.
//! 6. Move the old files aside and the new ones into place. Remove `restore.pending`.
//!
//! After a crash before step 4, nothing has changed. After a later one, the same command finishes the work. The file
//! `restore.pending` keeps what step 3 found, because the old log may be out of place by then.

mod place;
mod report;

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Context as _;
use clap::Args;
use mcpproxy_core::settings::Retention;
use mcpproxy_store::{
    Checkpoint, Existing, Ledger, LedgerOptions, Loader, Location, Restore, SigningKey, Store, StoreError, WaitFor,
};

use self::place::{Replaced, StagedDatabase, StagedFiles};
use crate::archive::{self, Archive, Overwrite, Staged};
use crate::database::{location, location_of};
use crate::exit::{Exit, Failure};
use crate::home::Home;
use crate::home::secret::{Readers, replace_file};
use crate::operator_files::settings_file;
use crate::terminal::output::{Format, tell};
use crate::terminal::progress::{Output, Progress};
use crate::terminal::time::now_ms;

const LOG_TIMEOUT: Duration = Duration::from_secs(30);
const NO_RETENTION: Retention = Retention { payloads: None, payload_bytes: None, records: None };

/// Restore the data folder and its database from a backup
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  mcpproxy restore /mnt/backups/mcpproxy-monday.tar --home ./data
  mcpproxy restore /mnt/backups/mcpproxy-monday.tar --dry-run
  mcpproxy restore /mnt/backups/mcpproxy-monday.tar --force

Stop the gateway first. The activity log goes on from the backup, with a signed record that says how many records after \
it are gone. Sessions, open approval requests and standing approvals of the backup end. Tokens and users are as they \
were at the backup: revoke again what you revoked since. If the command is interrupted, run it again with --force.")]
pub(crate) struct RestoreArgs {
    /// The backup, from `mcpproxy backup`
    #[arg(value_name = "FILE")]
    from: PathBuf,
    /// Replace an existing data folder or database; replaced files are kept under another name
    #[arg(long)]
    force: bool,
    /// Check the backup and say what would be gone, but change nothing
    #[arg(long)]
    dry_run: bool,
    /// Restore to this database, and write it to the settings as `storage.url`
    #[arg(long, value_name = "URL")]
    storage: Option<String>,
}

pub(crate) async fn run(home: &Home, format: Format, args: &RestoreArgs) -> anyhow::Result<Exit> {
    if let Some(url) = &args.storage {
        settings_file::storage_named(&home.settings(), "--storage", url)?;
    }
    if args.dry_run {
        return dry_run(home, format, args).await;
    }
    // A wrong file is found before a data folder is created for it.
    archive::check_kind(&args.from)?;
    home.create()?;
    let _lock = home.take_lock_to_restore()?;
    let archive = Archive::open(&args.from)?;
    let pending = read_pending(home, &archive);
    if !args.force
        && let Some(found) = place::existing(home)
    {
        return Err(Failure::new(Exit::Failed, format!("`{}` already exists.", found.display()))
            .hint("add --force to replace it, or choose an empty folder with --home DIR")
            .into());
    }
    let files = StagedFiles::write(home, &archive, args.storage.as_deref())?;
    let target = location_of(home, &settings_file::read_storage(&files.settings())?);
    let database = StagedDatabase::at(match &target {
        Location::Sqlite(path) => place::beside(path, "restoring"),
        Location::Postgres(_) => files.folder().join("check.db"),
    })?;
    let staged = archive::stage(&archive, database.path()).await?;
    let restore = match pending {
        Some(restore) => restore,
        None => plan(home, &archive, &staged, &target).await?,
    };
    if let Location::Postgres(_) = &target {
        check_target(&target, args).await?;
    }
    let pending = serde_json::to_string(&restore).context("could not describe the restore")?;
    replace_file(&home.restore_pending(), &pending, Readers::OnlyUs)?;
    home.forget_verification()?;
    let replaced = Replaced::new(home);
    let work =
        Work { home, archive: &archive, checkpoint: &files.checkpoint(), restore: &restore, replaced: &replaced };
    work.write(staged, &target, if args.force { Existing::Replace } else { Existing::Refuse }).await?;
    let kept = replaced.swap(home, &files, &target, database.path())?;
    fs::remove_file(home.restore_pending()).context("could not remove `restore.pending`")?;
    report::done(format, &archive, &restore, &kept)?;
    Ok(Exit::Done)
}

async fn dry_run(home: &Home, format: Format, args: &RestoreArgs) -> anyhow::Result<Exit> {
    let archive = Archive::open(&args.from)?;
    let folder = tempfile::tempdir().context("could not create a temporary folder")?;
    let staged = archive::stage(&archive, &folder.path().join("check.db")).await?;
    let target = location(home)?;
    let restore = plan(home, &archive, &staged, &target).await?;
    staged.store.close().await;
    report::would(format, &archive, &restore)?;
    Ok(Exit::Done)
}

/// Compares the backup with the log that it replaces, as far as that can be read.
async fn plan(home: &Home, archive: &Archive, staged: &Staged, target: &Location) -> anyhow::Result<Restore> {
    let verifier = staged.key.verifier();
    let newest = fs::read(home.checkpoint()).ok().map(|note| String::from_utf8_lossy(&note).into_owned());
    let newest = newest.and_then(|note| Checkpoint::open(&note, verifier).ok());
    // A new data folder has no log. The database that it will use may have one.
    let current = place::existing(home).and_then(|_| location(home).ok()).unwrap_or_else(|| target.clone());
    let replaced = match &current {
        Location::Sqlite(path) if !path.metadata().is_ok_and(|metadata| metadata.len() > 0) => None,
        Location::Sqlite(_) | Location::Postgres(_) => match Store::open_read_only(&current).await {
            Ok(store) => Some(store),
            Err(StoreError::NotReady { .. }) => None,
            Err(error) => {
                let error = anyhow::Error::from(error);
                tell(&format!("note: The present database cannot be compared with the backup: {error:#}"));
                None
            }
        },
    };
    let created = &archive.manifest.created;
    let plan = Restore::plan(&staged.store, created, replaced.as_ref(), newest.as_ref(), verifier, now_ms()).await;
    let plan = match (plan, &replaced) {
        // A damaged database is a reason to restore, and must not prevent it.
        (Err(error), Some(_)) => {
            let error = anyhow::Error::from(error);
            tell(&format!("note: The present database cannot be compared with the backup: {error:#}"));
            Restore::plan(&staged.store, created, None, newest.as_ref(), verifier, now_ms()).await
        }
        (plan, _) => plan,
    };
    if let Some(store) = replaced {
        store.close().await;
    }
    Ok(plan?)
}

/// Returns what an unfinished restore of the same backup found.
fn read_pending(home: &Home, archive: &Archive) -> Option<Restore> {
    let text = fs::read_to_string(home.restore_pending()).ok()?;
    let restore: Restore = serde_json::from_str(&text).ok()?;
    (restore.backup == archive.manifest.created).then_some(restore)
}

/// Fails before anything is changed if the PostgreSQL database has data and may not be replaced.
async fn check_target(target: &Location, args: &RestoreArgs) -> anyhow::Result<()> {
    let existing = if args.force { Existing::Replace } else { Existing::Refuse };
    match Loader::begin(target, 1, existing).await {
        // Dropping it rolls back.
        Ok(loader) => drop(loader),
        Err(error @ StoreError::NotEmpty { .. }) => {
            return Err(Failure::new(Exit::Failed, format!("Not restored: {error}."))
                .hint("add --force to replace all of it, or name an empty database with --storage URL")
                .into());
        }
        Err(error) => return Err(error.into()),
    }
    Ok(())
}

/// The last steps, from where the data folder is marked as half restored.
struct Work<'w> {
    home: &'w Home,
    archive: &'w Archive,
    /// The new `checkpoint.txt`.
    checkpoint: &'w Path,
    restore: &'w Restore,
    replaced: &'w Replaced,
}

impl Work<'_> {
    /// Writes the rows to their database, ends what must not outlive a restore, and appends the signed record.
    async fn write(&self, staged: Staged, target: &Location, existing: Existing) -> anyhow::Result<()> {
        let Staged { store: staged, key } = staged;
        match target {
            Location::Sqlite(_) => sign(&staged, key, self.checkpoint, self.restore).await?,
            Location::Postgres(_) => {
                if existing == Existing::Replace {
                    keep_postgres(self.home, target, &self.replaced.folder()?).await?;
                }
                let mut loader = Loader::begin(target, self.archive.manifest.schema, existing).await?;
                let mut progress = Progress::new("rows restored", Output::Elsewhere);
                self.archive.load(&mut loader, &mut |done, total| progress.show(done, Some(total))).await?;
                loader.finish().await?;
                drop(progress);
                let store = Store::open(target).await?;
                sign(&store, key, self.checkpoint, self.restore).await?;
                store.close().await;
            }
        }
        staged.close().await;
        Ok(())
    }
}

/// Keeps a backup of the PostgreSQL database that is replaced, if it has a log of this data folder.
async fn keep_postgres(home: &Home, target: &Location, folder: &Path) -> anyhow::Result<()> {
    let store = match Store::open_read_only(target).await {
        Ok(store) => store,
        Err(StoreError::NotReady { .. } | StoreError::HalfCopied { .. }) => return Ok(()),
        Err(error) => return Err(error.into()),
    };
    if home.existing_signing_key()?.is_some() {
        let mut progress = Progress::new("rows kept", Output::Elsewhere);
        let show = &mut |done, total| progress.show(done, Some(total));
        archive::write(home, (&store, target), &folder.join("database.tar"), Overwrite::Replace, show).await?;
    }
    store.close().await;
    Ok(())
}

async fn sign(store: &Store, key: SigningKey, checkpoint: &Path, restore: &Restore) -> anyhow::Result<()> {
    store.end_after_restore(now_ms()).await?;
    // A backup that was made during a rotation of the key may have a chain without its first record.
    let first = store.continues(key.verifier(), now_ms(), rand::random()).await?;
    let options = LedgerOptions {
        key,
        newest_checkpoint: Some(checkpoint.to_owned()),
        checkpoints_to: None,
        retention: NO_RETENTION,
        patience: LOG_TIMEOUT,
        now_ms,
    };
    let ledger = Ledger::start(store, options).await?;
    for record in first.into_iter().chain([restore.record(now_ms(), rand::random())]) {
        ledger.append(record, WaitFor::Disk).await?;
    }
    ledger.finish().await.context("could not sign the record of the restore")
}
