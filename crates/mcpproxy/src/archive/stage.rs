//! Loads an archive into a database of its own and verifies its log, before anything is replaced.

use std::path::Path;

use mcpproxy_store::{ChainVerdict, Checkpoint, Existing, Loader, Location, SigningKey, Store, VerifyOptions};

use super::Archive;
use crate::exit::{Exit, Failure};
use crate::terminal::output::{line, warn};
use crate::terminal::progress::{Output, Progress};

/// A verified copy of the database of an archive.
pub(crate) struct Staged {
    pub(crate) store: Store,
    pub(crate) key: SigningKey,
}

/// Loads the archive into a new SQLite file at `path`. Fails if the log of the data folder is damaged.
pub(crate) async fn stage(archive: &Archive, path: &Path) -> anyhow::Result<Staged> {
    let key = archive.signing_key()?;
    let location = Location::Sqlite(path.to_owned());
    let mut loader = Loader::begin(&location, archive.manifest.schema, Existing::Replace).await?;
    let mut progress = Progress::new("rows loaded", Output::Elsewhere);
    archive.load(&mut loader, &mut |done, total| progress.show(done, Some(total))).await?;
    loader.finish().await?;
    drop(progress);
    let store = Store::open(&location).await?;
    let checkpoints = archive.checkpoint().map(|text| Checkpoint::notes(&text)).unwrap_or_default();
    let options = VerifyOptions { checkpoints, trusted: vec![key.verifier().clone()] };
    let mut progress = Progress::new("lines verified", Output::Elsewhere);
    let verdicts = store.verify(options, &mut |done| progress.show(done.done, Some(done.total))).await?;
    drop(progress);
    let mut own = None;
    for verdict in verdicts {
        if verdict.chain == key.verifier().chain() {
            own = Some(verdict);
        } else if let Some(damage) = &verdict.damage {
            // Such as a chain whose damage was accepted with `serve --accept-damage`.
            warn(&format!("chain {}, which is not of this data folder, is damaged: {damage}", line(&verdict.chain)));
        }
    }
    match own {
        Some(ChainVerdict { damage: Some(damage), .. }) => Err(refused(&damage.to_string())),
        Some(_) => Ok(Staged { store, key }),
        None => Err(refused("its log is missing")),
    }
}

fn refused(damage: &str) -> anyhow::Error {
    Failure::new(Exit::Failed, format!("The activity log in this backup is damaged: {damage}."))
        .hint("use another backup; `mcpproxy backup --check FILE` checks one")
        .into()
}
