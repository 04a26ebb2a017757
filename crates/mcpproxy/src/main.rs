//! The `mcpproxy` command.
//!
//! - `commands` parses the arguments and runs one command. Each command is a module.
//! - `runtime` wires up and runs a gateway, for `serve` and `stdio`.
//! - `client` talks to a running gateway, for all other commands.
//! - `operator_files` reads settings, contracts and policies. `home` is the data folder, and `database` its database.
//! - `agent_clients` lists AI clients with their files and formats, for `connect` and `import`.
//! - `archive` writes and reads backups, for `backup` and `restore`.
//! - `imports` takes over servers that are written for another client, for `import` and for the pages.
//! - `port` finds the program that holds a port.
//! - `terminal` prints tables, JSON and messages, and reads passwords.
//! - `logging` writes the log of the program. `exit` lists the exit codes.

mod agent_clients;
mod archive;
mod client;
mod commands;
mod database;
mod exit;
mod home;
mod imports;
mod known_tools;
mod lock_file;
mod logging;
mod operator_files;
mod port;
mod runtime;
mod terminal;

use std::ffi::OsString;
use std::num::NonZero;
use std::process::ExitCode;

use anyhow::Context as _;
use clap::Parser as _;

use crate::commands::{Cli, usage};
use crate::exit::{Exit, Failure};

// The gateway allocates many small, short-lived strings on several threads. mimalloc is faster at that.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    if commands::completions::answer() {
        return Exit::Done.into();
    }
    let cli = match parse() {
        Ok(cli) => cli,
        Err(exit) => return exit.into(),
    };
    logging::start();
    let (exit, text) = exit::report(&run(cli));
    if let Some(text) = text {
        terminal::output::tell_error(&text);
    }
    exit.into()
}

/// Parses the arguments. Prints the help, or advice on a mistake.
fn parse() -> Result<Cli, Exit> {
    let mut args = std::env::args_os();
    let program = args.next().unwrap_or_default();
    let args: Vec<OsString> = args.collect();
    // Paths that are not UTF-8 need no advice.
    let words: Option<Vec<String>> = args.iter().map(|arg| arg.to_str().map(str::to_owned)).collect();
    let words = words.map(usage::with_help);
    let args = words.as_ref().map_or(args, |words| words.iter().map(Into::into).collect());
    let mut error = match Cli::try_parse_from(std::iter::once(program).chain(args)) {
        Ok(cli) => return Ok(cli),
        Err(error) => error,
    };
    usage::remove_tip_to_escape(&mut error);
    let words = words.unwrap_or_default();
    if let Some(mut advice) = usage::advice(error.kind(), &words) {
        advice.change_hint(|hint| commands::with_given_home(hint, &words));
        let (exit, text) = exit::report(&Err(advice.into()));
        terminal::output::tell_error(&text.unwrap_or_default());
        return Err(exit);
    }
    let _stderr_is_closed = error.print();
    Err(if error.use_stderr() { Exit::Usage } else { Exit::Done })
}

/// Sets the number of threads that serve calls.
const THREADS_VARIABLE: &str = "TOKIO_WORKER_THREADS";

const THREADS_MAX: usize = 1024;

/// The number of threads that serve calls, for a machine with this many cores.
///
/// One thread serves thousands of calls per second. A second one makes each call wait while it is woken and handed
/// over, and takes a core from the servers, the agents and the database on the same machine.
fn threads_for(cores: usize) -> usize {
    (cores / 4).max(1)
}

fn chosen_threads(given: &str) -> Result<usize, Failure> {
    given.parse().ok().filter(|threads| (1..=THREADS_MAX).contains(threads)).ok_or_else(|| {
        let message = format!("`{THREADS_VARIABLE}` must be a number from 1 to {THREADS_MAX}, not {given:?}");
        Failure::new(Exit::Usage, message).hint(format!("unset {THREADS_VARIABLE}"))
    })
}

fn run(cli: Cli) -> anyhow::Result<Exit> {
    let threads = match std::env::var(THREADS_VARIABLE) {
        Ok(given) => chosen_threads(&given)?,
        Err(_) => threads_for(std::thread::available_parallelism().map_or(1, NonZero::get)),
    };
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(threads).enable_all().build();
    let runtime = runtime.context("could not start threads")?;
    let outcome = runtime.block_on(commands::run(cli));
    // A blocking read of standard input cannot be interrupted, so do not wait for it.
    runtime.shutdown_background();
    outcome
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_are_counted_or_chosen() {
        assert_eq!([1, 2, 4, 8, 64].map(threads_for), [1, 1, 1, 2, 16]);
        for (given, expected) in
            [("1", Some(1)), ("16", Some(16)), ("0", None), ("", None), ("abc", None), ("1e9", None)]
        {
            assert_eq!(chosen_threads(given).ok(), expected, "{given:?}");
        }
    }
}
