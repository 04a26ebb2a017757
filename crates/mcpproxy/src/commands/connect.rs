//! `connect`: adds mcpproxy to the settings of AI clients, and removes it again.
//!
//! Connecting a client has four steps, and nothing is written before the last one:
//!
//! 1. [`content`] says what belongs into the client's files, from the table in `agent_clients`.
//! 2. [`plan`] reads the files, edits their text in memory, and makes a masked diff.
//! 3. The user agrees, or passed `--yes`.
//! 4. [`execute`] takes a lock, checks that the files are unchanged, creates the token, backs up and writes.
//!
//! [`journal`] remembers what was written, so that [`undo`] can restore the files byte for byte. A file that changed
//! since then, as Claude Code's does all the time, loses only the entry of mcpproxy.

mod clients;
mod content;
mod execute;
mod journal;
pub(crate) mod offer;
mod plan;
mod report;
mod token;
mod unannotated;
mod undo;

use clap::Args;
use clap::builder::PossibleValuesParser;

use self::clients::Clients;
use self::journal::Journal;
use self::plan::{Plan, Request};
use self::report::{Action, Report, State};
use self::token::Tokens;
use crate::agent_clients::{self, CLIENTS, Client, Machine};
use crate::exit::{Exit, Failure};
use crate::home::Home;
use crate::terminal::output::{Format, line, lines, print, tell, warn};
use crate::terminal::prompt::Terminal;

/// Add mcpproxy to the settings of AI clients, or remove it again
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  mcpproxy connect                      List the clients on this machine
  mcpproxy connect cursor               Show the difference, ask, and write
  mcpproxy connect codex --permissions  Let reads run, ask before other calls
  mcpproxy connect --all --dry-run      Show the changes, write nothing
  mcpproxy connect codex --undo         Restore the file, revoke the token

The client gets its own agent token, named after it. The token is valid for all servers and has all permissions, like the agent `local`. A token can never approve a call.

A token that you put into the entry stays there, unless you add --replace. A file that holds a token loses the permissions of other users.

The old file is backed up in the data folder. --undo restores it byte for byte. If the client has changed its file since then, --undo removes only the entry of mcpproxy.")]
pub(crate) struct Connect {
    /// Clients to connect. Without one, the command lists the clients on this machine
    #[arg(value_name = "CLIENT", value_parser = client_ids())]
    clients: Vec<String>,
    /// All installed clients; with --undo, all connected clients
    #[arg(long, conflicts_with = "clients")]
    all: bool,
    /// Also write the client's own rules: reads run, writes and destructive calls ask
    #[arg(long, conflicts_with = "undo")]
    permissions: bool,
    /// Let the client start `mcpproxy stdio` instead of connecting over HTTP
    #[arg(long, conflicts_with = "undo")]
    stdio: bool,
    /// Replace an entry `mcpproxy` or a token in it that this command did not write
    #[arg(long, conflicts_with = "undo")]
    replace: bool,
    /// Show what would change, and write nothing
    #[arg(long)]
    dry_run: bool,
    /// Restore the files, and revoke the token
    #[arg(long)]
    undo: bool,
    /// Do not ask before writing
    #[arg(long)]
    yes: bool,
}

impl Connect {
    /// Checks for a bare `connect`, which only lists clients.
    fn is_bare(&self) -> bool {
        !(self.permissions || self.stdio || self.replace || self.dry_run || self.undo || self.yes)
    }
}

fn client_ids() -> PossibleValuesParser {
    PossibleValuesParser::new(CLIENTS.iter().map(|client| client.id))
}

pub(crate) async fn run(home: &Home, format: Format, connect: Connect) -> anyhow::Result<Exit> {
    let machine = Machine::here().ok_or_else(|| {
        Failure::new(Exit::Usage, "Your home folder is unknown.")
            .hint("set the variable HOME, and run the command again")
    })?;
    let journal = Journal::of(home);
    if connect.clients.is_empty() && !connect.all {
        if !connect.is_bare() {
            return Err(clients::none_named(&machine, &journal, connect.undo));
        }
        let clients = Clients::of(&machine, &journal)?;
        return format.print(&clients, || clients.text(home)).map(|()| Exit::Done);
    }
    let session = Session { home, format, journal, machine, connect };
    if session.connect.undo { session.undo().await } else { session.connect_clients().await }
}

/// One run of the command.
struct Session<'a> {
    home: &'a Home,
    format: Format,
    journal: Journal,
    machine: Machine,
    connect: Connect,
}

impl Session<'_> {
    async fn connect_clients(&self) -> anyhow::Result<Exit> {
        let mut report = Report::new(Action::Connect, self.connect.dry_run);
        let chosen = self.chosen(&mut report)?;
        let request = Request::new(self.home, &self.machine, &self.connect)?;
        let mut tokens = Tokens::new(self.home, self.connect.dry_run);
        let mut plans = Vec::new();
        for client in chosen {
            match Plan::make(client, &request, &self.journal, &mut tokens).await {
                Ok(plan) => plans.push(plan),
                Err(error) => report.fail(client, error),
            }
        }
        if report.is_single_failure(&self.connect.clients) {
            tokens.close().await;
            return Err(report.into_failure());
        }
        let changes = plans.iter().any(|plan| !plan.is_done());
        let consequences: Vec<String> = plans.iter().flat_map(Plan::consequences).collect();
        let agreed = self.show_and_ask(plans.iter().flat_map(Plan::diffs), &consequences, changes).await;
        for plan in plans {
            match &agreed {
                Ok(true) if !plan.is_done() => match execute::connect(&plan, &self.journal, &mut tokens).await {
                    Ok(done) => report.add(plan.report(State::Connected, &done)),
                    Err(error) => report.fail(plan.client, error),
                },
                Ok(_) | Err(_) => {
                    let state = if plan.is_done() { State::AlreadyConnected } else { State::WouldConnect };
                    report.add(plan.report(state, &[]));
                }
            }
        }
        tokens.close().await;
        report.next = request.next_steps(&report);
        if self.connect.permissions {
            match unannotated::warning(self.home).await {
                Ok(warning) => report.next.extend(warning),
                Err(error) => warn(&format!("The tools could not be checked for `readOnlyHint`: {error:#}")),
            }
        }
        self.finish(report, agreed)
    }

    async fn undo(&self) -> anyhow::Result<Exit> {
        let mut report = Report::new(Action::Undo, self.connect.dry_run);
        let chosen = if self.connect.all { self.journal.clients()? } else { self.named() };
        if chosen.is_empty() {
            tell("No client is connected.");
        }
        let mut tokens = Tokens::new(self.home, self.connect.dry_run);
        let mut plans = Vec::new();
        for client in chosen {
            match undo::Plan::make(client, &self.journal) {
                Ok(plan) => plans.push(plan),
                Err(error) => report.fail(client, error.into()),
            }
        }
        if report.is_single_failure(&self.connect.clients) {
            return Err(report.into_failure());
        }
        let agreed = self.show_and_ask(plans.iter().flat_map(undo::Plan::diffs), &[], !plans.is_empty()).await;
        for plan in plans {
            match &agreed {
                Ok(true) => match plan.execute(&self.journal, &mut tokens).await {
                    Ok(()) => report.add(plan.report(State::Disconnected)),
                    Err(error) => report.fail(plan.client, error),
                },
                Ok(false) | Err(_) => report.add(plan.report(State::WouldDisconnect)),
            }
        }
        tokens.close().await;
        self.finish(report, agreed)
    }

    /// Returns the clients that the arguments name.
    fn named(&self) -> Vec<&'static Client> {
        let is_named = |client: &&Client| self.connect.clients.iter().any(|id| id == client.id);
        CLIENTS.iter().filter(is_named).collect()
    }

    /// Returns the clients to connect. With `--all`, those that are installed.
    fn chosen(&self, report: &mut Report) -> Result<Vec<&'static Client>, Failure> {
        if !self.connect.all {
            return Ok(self.named());
        }
        let installed = agent_clients::installed(&self.machine);
        let is_missing = |client: &&Client| !installed.iter().any(|found| found.id == client.id);
        report.not_installed = CLIENTS.iter().filter(is_missing).map(|client| client.id).collect();
        if installed.is_empty() {
            let known = CLIENTS.iter().map(|client| client.id).collect::<Vec<_>>().join(", ");
            return Err(
                Failure::new(Exit::Failed, "No known client is installed.").hint(format!("known clients: {known}"))
            );
        }
        Ok(installed)
    }

    /// Shows all differences and their consequences, and asks once. Returns false for a dry run and for a no. Without
    /// a question, only the report names the consequences.
    async fn show_and_ask(
        &self,
        diffs: impl Iterator<Item = &str>,
        consequences: &[String],
        has_changes: bool,
    ) -> Result<bool, Failure> {
        // A terminal would show a tab as an escape.
        let diffs = lines(&diffs.collect::<Vec<_>>().join("").replace('\t', "    "));
        let failed = |error: anyhow::Error| Failure::new(Exit::Failed, format!("{error:#}"));
        if self.format == Format::Table && !diffs.is_empty() {
            print(&(diffs.clone() + "\n")).map_err(failed)?;
        }
        if self.connect.dry_run || !has_changes {
            return Ok(false);
        }
        if self.connect.yes {
            return Ok(true);
        }
        let Some(terminal) = Terminal::of_user() else {
            return Err(Failure::new(Exit::Usage, "Nothing was written, because there is no terminal to ask on.")
                .hint("pass --yes to write without asking, or --dry-run to see the difference only"));
        };
        if self.format != Format::Table {
            terminal.say(&diffs).map_err(failed)?;
        }
        for consequence in consequences {
            terminal.say(&format!("{}\n", line(consequence))).map_err(failed)?;
        }
        terminal.confirm("Write these changes? [y/N] ").await.map_err(failed)
    }

    fn finish(&self, report: Report, agreed: Result<bool, Failure>) -> anyhow::Result<Exit> {
        if report.is_single_failure(&self.connect.clients) {
            return Err(report.into_failure());
        }
        self.format.print(&report, || report.text(self.home))?;
        match agreed {
            Ok(_) => Ok(report.exit()),
            Err(failure) => Err(failure.into()),
        }
    }
}
