//! `activity key rotate`: replaces the signing key. The old key signs the new one.
//!
//! 1. Create the new key as `signing.key.next`.
//! 2. Append a record with the new key to the old chain, signed by the old key.
//! 3. Add the public part of the old key to `retired-keys.txt`, and rename `signing.key.next` to `signing.key`.
//! 4. Begin the new chain with a record that states the end of the old one.
//!
//! After a crash before step 3, the gateway goes on with the old key. After a crash before step 4, its next start does
//! step 4. Either way, running the command again finishes the work.

use mcpproxy_store::{SigningKey, Verifier, WaitFor};
use serde_json::json;

use crate::database::{self, location};
use crate::exit::{Exit, Failure};
use crate::home::Home;
use crate::operator_files::settings_file;
use crate::runtime::{local_agent, open_log};
use crate::terminal::output::{Format, tell};
use crate::terminal::time::now_ms;

pub(super) async fn run(home: &Home, format: Format) -> anyhow::Result<Exit> {
    let _lock = home.take_lock()?;
    let old = home.existing_signing_key()?.ok_or_else(|| {
        Failure::new(Exit::NoGateway, "The data folder has no signing key yet.")
            .hint("start the gateway once to create it: mcpproxy serve")
    })?;
    let machine = settings_file::read(&home.settings())?.map(|read| read.settings).unwrap_or_default();
    // The retention may be a published setting.
    let settings = database::settings(home).await?.on_machine(&machine);
    let store = database::open(home).await?;
    let new: Verifier = home.next_signing_key()?.verifier().clone();
    let ledger = open_log::continued(home, &store, &settings).await?;
    ledger.append(rotated(&old, &new), WaitFor::Disk).await?;
    ledger.finish().await?;
    home.adopt_next_signing_key(old.verifier())?;
    let place = location(home)?;
    let [before, after] = [old.verifier(), &new].map(|verifier| local_agent::name(&place, verifier));
    local_agent::rename(&store, &before, &after).await?;
    open_log::continued(home, &store, &settings).await?.finish().await?;
    store.close().await;
    let answer = json!({ "old_key": old.verifier().to_string(), "key": new.to_string(), "chain": new.chain() });
    format.print(&answer, || new.to_string())?;
    tell(
        "The signing key was replaced. Give the new public key to the people who verify your bundles, and make a new backup.",
    );
    Ok(Exit::Done)
}

fn rotated(old: &SigningKey, new: &Verifier) -> mcpproxy_store::NewRecord {
    old.rotated_to(new, now_ms(), rand::random())
}
