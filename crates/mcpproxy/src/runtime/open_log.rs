//! Opens the activity log at the start: continues the chain of the data folder, or refuses to.
//!
//! A chain that is damaged, or whose key is missing or replaced, is not continued. New records on top would hide the
//! damage. The operator restores a backup, or accepts the damage with `serve --accept-damage`. Then the old key and
//! checkpoint are set aside, and a new key begins a new chain. Its first record says what was accepted. The old chain
//! stays in the database as it is, so `activity verify` still reports it.

use std::time::Duration;

use mcpproxy_core::settings::Settings;
use mcpproxy_store::{Kind, Ledger, LedgerOptions, NewRecord, SigningKey, Status, Store, StoreError, WaitFor};
use serde_json::json;

use super::Accepted;
use crate::exit::{Exit, Failure};
use crate::home::Home;
use crate::home::set_aside::SetAside;
use crate::terminal::output;
use crate::terminal::time::now_ms;

/// Time for the log to accept a record. After that, the call is refused. A disk that other programs keep busy may need
/// more than a second.
const LOG_TIMEOUT: Duration = Duration::from_secs(5);

/// The code of the record that says which damage was accepted.
const DAMAGE_ACCEPTED: &str = "damage_accepted";

/// Opens the activity log of this data folder.
pub(super) async fn open(
    home: &Home,
    store: &Store,
    settings: &Settings,
    accepted: Accepted,
) -> anyhow::Result<Ledger> {
    let error = match continued(home, store, settings).await {
        Ok(ledger) => return Ok(ledger),
        Err(error) => error,
    };
    match error.downcast_ref::<StoreError>().filter(|error| is_damage(error)) {
        None => Err(error),
        Some(damage) if accepted.damage => begun_again(home, store, settings, damage).await,
        Some(damage) => Err(refused(home, damage)),
    }
}

/// Continues the chain of this data folder. A new data folder begins one.
pub(crate) async fn continued(home: &Home, store: &Store, settings: &Settings) -> anyhow::Result<Ledger> {
    let key = home.existing_signing_key()?;
    store.check_key(key.as_ref().map(SigningKey::verifier), &home.checkpoint()).await?;
    let key = match key {
        Some(key) => key,
        None => home.new_signing_key()?,
    };
    // The first record of a chain says which one it continues, also if a rotation of the key was interrupted.
    let first = store.continues(key.verifier(), now_ms(), rand::random()).await?;
    let ledger = start(home, store, settings, key).await?;
    if let Some(first) = first {
        ledger.append(first, WaitFor::Disk).await?;
    }
    let interrupted = ledger.interrupted();
    if interrupted > 0 {
        tracing::warn!(
            "{interrupted} calls were running when the gateway last stopped. They are marked as interrupted."
        );
    }
    Ok(ledger)
}

/// Begins a new chain with a new key. Its first record says why.
async fn begun_again(home: &Home, store: &Store, settings: &Settings, damage: &StoreError) -> anyhow::Result<Ledger> {
    let SetAside { checkpoint: old_checkpoint, names } = home.set_log_aside()?;
    let ledger = start(home, store, settings, home.new_signing_key()?).await?;
    let record = NewRecord {
        code: Some(DAMAGE_ACCEPTED.to_owned()),
        message: Some(format!("started with --accept-damage: {damage}")),
        // The checkpoint proves what the old chain contained.
        metadata: json!({ "damage": damage.to_string(), "old_checkpoint": old_checkpoint }).to_string(),
        ..NewRecord::blank(Kind::Settings, Status::Error, now_ms(), rand::random())
    };
    ledger.append(record, WaitFor::Disk).await?;
    let old_files = match names.as_slice() {
        [] => String::new(),
        names => format!(" The old files are `{}`.", names.join("` and `")),
    };
    output::warn(&format!("Damage accepted: {damage}. A new chain begins with a new signing key.{old_files}"));
    Ok(ledger)
}

async fn start(home: &Home, store: &Store, settings: &Settings, key: SigningKey) -> Result<Ledger, StoreError> {
    let options = LedgerOptions {
        key,
        newest_checkpoint: Some(home.checkpoint()),
        checkpoints_to: settings.activity.checkpoints_to.as_ref().map(|path| home.folder().join(path)),
        retention: settings.activity.retention,
        patience: LOG_TIMEOUT,
        now_ms,
    };
    let ledger = Ledger::start(store, options).await?;
    if let Some(bytes) = settings.limits.disk {
        ledger.limit_disk(bytes);
    }
    Ok(ledger)
}

/// Tells if the operator may accept this. Anything else, such as a database that does not respond, is no damage.
fn is_damage(error: &StoreError) -> bool {
    matches!(
        error,
        StoreError::Damaged { .. }
            | StoreError::Corrupt { .. }
            | StoreError::KeyReplaced { .. }
            | StoreError::KeyMissing { .. }
    )
}

fn refused(home: &Home, damage: &StoreError) -> anyhow::Error {
    let [verify, restore, accept] = ["activity verify", "restore FILE --force", "serve --accept-damage"]
        .map(|command| home.command("mcpproxy", command));
    Failure::new(Exit::Failed, format!("The gateway does not start: {damage}."))
        .hint(format!(
            "`{verify}` checks the whole log. `{restore}` restores a backup. To start a new chain without one, run \
             `{accept}`. The log records that."
        ))
        .into()
}
