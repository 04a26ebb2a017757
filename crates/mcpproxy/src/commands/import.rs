//! `import`: takes over the servers that another client has.
//!
//! The command works in three steps, and only the last one writes:
//!
//! 1. `imports::source` finds the client's file and the servers in it.
//! 2. `imports::plan` translates them, leaves out what must not be imported, and decides on names and files for
//!    secrets.
//! 3. `imports::write` writes secrets, settings and the client's file in this order, and undoes everything if one step
//!    fails.
//!
//! Secrets go into files of mode 0600 below `secrets/`, not into the keyring of the system: a gateway often runs without
//! a desktop session, and then a keyring cannot be opened.

mod report;

use clap::Args;
use serde_json::Value;

use crate::agent_clients::Machine;
use crate::client::{Rest, state};
use crate::commands::names;
use crate::exit::{Exit, Failure};
use crate::home::Home;
use crate::home::lock::HeldLock;
use crate::imports::plan::Plan;
use crate::imports::source::{self, Source};
use crate::imports::write::{self, Written};
use crate::operator_files::{published, settings_file};
use crate::terminal::output::{Format, counted, print, tell};
use crate::terminal::prompt::Terminal;

use self::report::Report;

/// Take over the servers of another MCP client
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  mcpproxy import                    List the servers of all clients
  mcpproxy import cursor --dry-run   Show what would change
  mcpproxy import cursor             Import, and ask before each change
  mcpproxy import ./mcp.json --yes   Import a file without asking
  mcpproxy import codex --yes --remove-direct

Clients: claude-code, claude-desktop, cursor, vscode, codex, gemini, opencode, qwen, windsurf, zed, goose. A file may be JSON, TOML or YAML.

Secrets are copied into files below secrets/ in the data folder, which only you can read. The client's file keeps its copy. With --remove-direct, only the backup of the file does. The system keyring is not used. References that the client resolves, such as ${env:TOKEN} in Cursor, stay references. Everything else stays plain text.")]
pub(crate) struct Import {
    /// A client, or a file with its servers. Without it, the command lists what it finds
    #[arg(value_name = "CLIENT|FILE", add = names::clients_and_files())]
    source: Option<String>,
    /// Show what would change, and write nothing
    #[arg(long)]
    dry_run: bool,
    /// Do not ask. Direct entries stay in the client unless --remove-direct is given
    #[arg(long, short)]
    yes: bool,
    /// Keep the servers in the client as well
    #[arg(long, conflicts_with = "remove_direct")]
    keep_direct: bool,
    /// Remove the imported servers from the client, so that agents see each tool once
    #[arg(long)]
    remove_direct: bool,
}

pub(crate) async fn run(home: &Home, format: Format, import: Import) -> anyhow::Result<Exit> {
    let machine = Machine::here().ok_or_else(|| Failure::new(Exit::Failed, "Your home folder is unknown."))?;
    let Some(given) = &import.source else {
        let found = source::find_all(&machine);
        return format.print(&report::found_json(&found), || report::found_text(home, &found)).map(|()| Exit::Done);
    };
    let source = Source::open(given, &machine)?;
    published::check_editable(home)?;
    let path = home.settings();
    if std::fs::canonicalize(&path).is_ok_and(|own| own == source.file.target) {
        return Err(Failure::new(Exit::Usage, "These are the settings of mcpproxy itself.")
            .hint("name the file of another client")
            .into());
    }
    // Without questions, nothing may change between reading and writing. A question may wait for minutes, so then the
    // settings are compared before they are written.
    let lock = (import.yes && !import.dry_run).then(|| locked(home)).transpose()?;
    let before = settings_file::read_text(&path)?.map(|(_, text)| text);
    if let Some(text) = &before {
        // Check the file first. Otherwise this change would be blamed for earlier errors.
        settings_file::check_shape(&path, text)?;
    }
    let plan = Plan::make(home, source, before)?;
    let mut report = Report::new(home, &plan, import.dry_run);
    match format {
        Format::Table => print(&report::preview(home, &plan))?,
        Format::Json | Format::Yaml => {}
    }
    if import.dry_run {
        finish(format, &report)?;
        return Ok(Exit::Done);
    }
    if plan.servers.is_empty() && plan.present.is_empty() {
        finish(format, &report)?;
        return Ok(Exit::Done);
    }
    let answers = ask(&import, &plan).await?;
    let Some(direct) = answers else {
        tell("Nothing was changed.");
        return Ok(Exit::Failed);
    };
    let lock = lock.map_or_else(|| locked(home), Ok)?;
    let written = write::settings(home, &plan, lock)?;
    let states = match reload(home, &plan, &written).await {
        Ok(states) => states,
        Err(error) => {
            undo(home, &written).await;
            return Err(error.context("nothing was imported"));
        }
    };
    if direct == Direct::Remove {
        match write::remove_direct(home, &plan) {
            Ok(backup) => report.removed(backup),
            Err(failure) => {
                undo(home, &written).await;
                return Err(failure.into());
            }
        }
    }
    report.states(states);
    finish(format, &report)?;
    Ok(Exit::Done)
}

/// Locks the settings. Creates the data folder.
fn locked(home: &Home) -> anyhow::Result<HeldLock> {
    home.create()?;
    home.lock_settings()
}

/// The direct entries in the client after the import.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Direct {
    Keep,
    Remove,
}

/// Asks before anything is written. Returns `None` if the user declines.
async fn ask(import: &Import, plan: &Plan) -> anyhow::Result<Option<Direct>> {
    let chosen = match (import.keep_direct, import.remove_direct) {
        (_, true) => Some(Direct::Remove),
        (true, false) => Some(Direct::Keep),
        (false, false) => None,
    };
    if import.yes {
        return Ok(Some(chosen.unwrap_or(Direct::Keep)));
    }
    let Some(terminal) = Terminal::of_user() else {
        return Err(Failure::new(
            Exit::Usage,
            "This command asks before it writes, and standard input is no terminal.",
        )
        .hint("add --yes to import without asking, or --dry-run to look only")
        .into());
    };
    if !plan.servers.is_empty() {
        let question = format!("Import {}? [y/N] ", counted(plan.servers.len(), "server"));
        if !terminal.confirm(&question).await? {
            return Ok(None);
        }
    }
    match chosen {
        Some(chosen) => Ok(Some(chosen)),
        None => {
            let file = plan.source.file.path.display();
            let question =
                format!("Remove the imported servers from {file}? Otherwise the client sees their tools twice. [y/N] ");
            Ok(Some(if terminal.confirm(&question).await? { Direct::Remove } else { Direct::Keep }))
        }
    }
}

/// Makes the running gateway take over the settings. Returns its answer, or `None` if no gateway runs.
async fn reload(home: &Home, plan: &Plan, written: &Written) -> anyhow::Result<Option<Value>> {
    if home.running()?.is_none() || !written.has_changed() {
        return Ok(None);
    }
    let answer = Rest::connect(home)?.reload().await?;
    for server in &plan.servers {
        tell(&state::describe(home, &answer, server.name.as_str()));
    }
    Ok(Some(answer))
}

/// Restores all files, and makes the running gateway take the old settings over again.
async fn undo(home: &Home, written: &Written) {
    match home.lock_settings() {
        Ok(lock) => written.undo(lock),
        Err(error) => tell(&format!("warning: could not restore the settings: {error:#}")),
    }
    if let (true, Ok(rest)) = (written.has_changed(), Rest::connect(home)) {
        // The gateway also notices the file by itself.
        let _noticed_anyway = rest.reload().await;
    }
}

fn finish(format: Format, report: &Report<'_>) -> anyhow::Result<()> {
    format.print(&report.json(), || report.text())
}
