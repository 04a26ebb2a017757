//! `migrate`: copies the database of a data folder into another database.

use std::collections::BTreeMap;

use clap::Args;
use mcpproxy_store::{Checkpoint, CopyStep, Location, Store, StoreError, VerifyOptions};
use serde_json::json;

use crate::database::{self, location, location_of};
use crate::exit::{Exit, Failure};
use crate::home::Home;
use crate::home::secret::{Readers, replace_file};
use crate::operator_files::{edit, settings_file};
use crate::runtime::local_agent;
use crate::terminal::output::{Format, counted, grouped, line, tell};
use crate::terminal::progress::{Output, Progress};

/// Copy the database to another one, such as from SQLite to PostgreSQL
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  mcpproxy migrate --to 'postgres://me:${env:DB_PASSWORD}@db.example/log'
  mcpproxy migrate --to 'postgres://me@db.example/log' --switch

Stop the gateway first. The command copies records with their chain, payloads, tokens, users, approvals and all other \
tables. If it is interrupted, run it again: it goes on where it stopped. At the end it compares every row, and verifies \
the activity log in the new database. The old database stays as it is.")]
pub(crate) struct Migrate {
    /// The new, empty database, as in `storage.url`
    #[arg(long, value_name = "URL")]
    to: String,
    /// Write the new database to the settings as `storage.url`
    #[arg(long)]
    switch: bool,
}

pub(crate) async fn run(home: &Home, format: Format, migrate: &Migrate) -> anyhow::Result<Exit> {
    let path = home.settings();
    let current = location(home)?;
    let target = location_of(home, &settings_file::storage_named(&path, "--to", &migrate.to)?);
    if target == current {
        return Err(Failure::new(Exit::Usage, format!("The data folder already uses {target}.")).into());
    }
    if let Location::Sqlite(path) = &current
        && !path.exists()
    {
        return Err(Failure::new(Exit::Failed, format!("There is no database `{}` to copy.", path.display()))
            .hint("write `storage.url` to the settings, and start the gateway")
            .into());
    }
    let _lock = home.take_lock()?;
    let source = database::open(home).await?;
    let mut bars = Bars::default();
    let copied = source.copy_to(&target, &mut |step, done| bars.show(step, done.done, done.total)).await;
    bars.end();
    let copied = copied.map_err(|error| not_copied(&target, error))?;
    let lines = verify(home, copied.store()).await?;
    take_over_name(home, copied.store(), (&current, &target)).await?;
    let (rows, continued) = (copied.rows, copied.continued);
    let tables: BTreeMap<_, _> = copied.tables.iter().cloned().collect();
    // Until here, no gateway opens the new database.
    copied.finish().await?;
    home.forget_verification()?;
    source.close().await;
    if migrate.switch {
        switch(home, &migrate.to)?;
    }
    let answer = json!({
        "from": current.to_string(),
        "to": target.to_string(),
        "rows": rows,
        "tables": tables,
        "lines_verified": lines,
        "continued": continued,
        "switched": migrate.switch,
    });
    format.print(&answer, || {
        format!(
            "Copied {} rows of {} to {target}. Every row is equal, and {} lines of the log are intact.\n",
            grouped(rows),
            counted(tables.len(), "table"),
            grouped(lines),
        )
    })?;
    tell(&if migrate.switch {
        format!("`{}` uses the new database now. Start the gateway: mcpproxy serve", path.display())
    } else {
        format!("Set `storage.url` in `{}` to the new database, then start the gateway: mcpproxy serve", path.display())
    });
    Ok(Exit::Done)
}

/// Returns the settings with the new database.
fn switched(home: &Home, url: &str) -> anyhow::Result<String> {
    let before = settings_file::read_text(&home.settings())?.map(|(_, text)| text);
    let after = edit::set_storage(before.as_deref(), url);
    Ok(after.map_err(|error| Failure::new(Exit::BadSettings, error.to_string()))?)
}

/// Writes the new database to the settings.
fn switch(home: &Home, url: &str) -> anyhow::Result<()> {
    let _lock = home.lock_settings()?;
    replace_file(&home.settings(), &switched(home, url)?, Readers::OnlyUs)
}

fn not_copied(target: &Location, error: StoreError) -> anyhow::Error {
    let hint = if matches!(error, StoreError::NotEmpty { .. }) {
        "create an empty database for mcpproxy, and name it with --to; if an earlier run has finished, set `storage.url`"
    } else if matches!(error, StoreError::InUse { .. }) {
        "stop every gateway that uses it, then run the command again"
    } else if matches!(error, StoreError::Database { .. } | StoreError::NoAnswer) {
        "check that the database runs and that its address is right, then run the command again: it goes on where it stopped"
    } else {
        return error.into();
    };
    let error = anyhow::Error::from(error);
    Failure::new(Exit::Failed, format!("Not copied to {target}: {error:#}.")).hint(hint).into()
}

/// Verifies the log of the new database. Returns the number of lines.
async fn verify(home: &Home, copy: &Store) -> anyhow::Result<i64> {
    let note = std::fs::read_to_string(home.checkpoint()).unwrap_or_default();
    let key = home.existing_signing_key()?;
    let trusted = key.map(|key| key.verifier().clone()).into_iter().collect();
    let options = VerifyOptions { checkpoints: Checkpoint::notes(&note), trusted };
    let mut progress = Progress::new("lines verified", Output::Elsewhere);
    let verdicts = copy.verify(options, &mut |done| progress.show(done.done, Some(done.total))).await?;
    drop(progress);
    for verdict in &verdicts {
        if let Some(damage) = &verdict.damage {
            let chain = line(&verdict.chain);
            let message =
                format!("The activity log is damaged, in the old database as in the new one: chain {chain}: {damage}.");
            return Err(Failure::new(Exit::Failed, message).hint("run `mcpproxy activity verify` for details").into());
        }
    }
    Ok(verdicts.iter().map(|verdict| verdict.lines).sum())
}

/// Moves what belongs to this gateway to the name that it has in the new database.
async fn take_over_name(home: &Home, copy: &Store, (old, new): (&Location, &Location)) -> anyhow::Result<()> {
    let Some(key) = home.existing_signing_key()? else { return Ok(()) };
    let [old, new] = [old, new].map(|location| local_agent::name(location, key.verifier()));
    local_agent::rename(copy, &old, &new).await
}

/// The progress of each step.
#[derive(Default)]
struct Bars {
    copying: Option<Progress>,
    comparing: Option<Progress>,
}

impl Bars {
    fn show(&mut self, step: CopyStep, done: u64, total: u64) {
        let (bar, word) = match step {
            CopyStep::Copy => (&mut self.copying, "rows copied"),
            CopyStep::Compare => (&mut self.comparing, "rows compared"),
        };
        bar.get_or_insert_with(|| Progress::new(word, Output::Elsewhere)).show(done, Some(total));
    }

    fn end(&mut self) {
        *self = Self::default();
    }
}
