//! `backup`: writes the data folder and its database into one file, or checks such a file.

use std::path::{Path, PathBuf};

use anyhow::Context as _;
use clap::Args;
use jiff::Timestamp;
use mcpproxy_store::Store;
use serde_json::json;

use crate::archive::{self, Archive, Manifest, Overwrite};
use crate::commands::out_file::check_folder_of;
use crate::database::{check_not_gone, location, not_opened};
use crate::exit::Exit;
use crate::home::Home;
use crate::terminal::output::{Format, counted, grouped, line, tell};
use crate::terminal::progress::{Output, Progress};

/// Back up the data folder and its database into one file
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  mcpproxy backup /mnt/backups/mcpproxy-monday.tar
  mcpproxy backup /mnt/backups
  mcpproxy backup --check /mnt/backups/mcpproxy-monday.tar
  mcpproxy restore /mnt/backups/mcpproxy-monday.tar --home ./data

The gateway may run. The file has everything as it was at one moment: records, tokens, users, approvals, settings, \
contracts, policies and keys. Whoever can read it can act as this gateway, so keep it as safe as the data folder.")]
pub(crate) struct Backup {
    /// The file to write, or to check with --check. In a folder, the file is named after the time
    #[arg(value_name = "TO")]
    file: PathBuf,
    /// Replace the file if it exists
    #[arg(long, conflicts_with = "check")]
    force: bool,
    /// Check a backup instead: read all of it, and verify its activity log
    #[arg(long)]
    check: bool,
}

pub(crate) async fn run(home: &Home, format: Format, backup: &Backup) -> anyhow::Result<Exit> {
    if backup.check { check(format, backup).await } else { write(home, format, backup).await }
}

async fn write(home: &Home, format: Format, backup: &Backup) -> anyhow::Result<Exit> {
    archive::key(home)?;
    check_folder_of(&backup.file)?;
    let location = location(home)?;
    check_not_gone(home, &location)?;
    let store = Store::open_read_only(&location).await.map_err(|error| not_opened(home, &location, error))?;
    let file = match backup.file.is_dir() {
        true => backup.file.join(format!("mcpproxy-{}.tar", Timestamp::now().strftime("%Y%m%dT%H%M%SZ"))),
        false => backup.file.clone(),
    };
    let overwrite = if backup.force { Overwrite::Replace } else { Overwrite::Refuse };
    let mut progress = Progress::new("rows", Output::Elsewhere);
    let show = &mut |done, total| progress.show(done, Some(total));
    let manifest = archive::write(home, (&store, &location), &file, overwrite, show).await?;
    drop(progress);
    store.close().await;
    print(format, "Wrote", &file, &manifest)?;
    tell("The file holds keys and tokens. Keep it as safe as the data folder.");
    Ok(Exit::Done)
}

async fn check(format: Format, backup: &Backup) -> anyhow::Result<Exit> {
    let archive = Archive::open(&backup.file)?;
    let folder = tempfile::tempdir().context("could not create a temporary folder")?;
    let staged = archive::stage(&archive, &folder.path().join("check.db")).await?;
    staged.store.close().await;
    print(format, "Intact:", &backup.file, &archive.manifest)?;
    Ok(Exit::Done)
}

fn print(format: Format, word: &str, file: &Path, manifest: &Manifest) -> anyhow::Result<()> {
    let file = file.display().to_string();
    let answer = json!({
        "file": file,
        "created": manifest.created,
        "program": manifest.program,
        "schema": manifest.schema,
        "database": manifest.database,
        "chain": manifest.chain,
        "position": manifest.position(),
        "rows": manifest.rows(),
        "files": manifest.files(),
        "tables": manifest.tables,
    });
    format.print(&answer, || {
        format!(
            "{word} {}\n  {} rows of {}, {}, of {}\n  chain {} up to position {}\n",
            line(&file),
            grouped(manifest.rows()),
            counted(manifest.tables.len(), "table"),
            counted(manifest.files(), "file"),
            manifest.created,
            line(&manifest.chain),
            grouped(manifest.position()),
        )
    })
}
