//! The `mcpproxy` command.
//!
//! - `commands` parses the arguments and runs one command. Each command is a module.
//! - `runtime` wires up and runs a gateway, for `serve` and `stdio`.
//! - `client` talks to a running gateway, for all other commands.
//! - `operator_files` reads settings, contracts and policies. `home` is the data folder, and `database` its database.
//! - `terminal` prints tables, JSON and messages, and reads passwords.
//! - `exit` lists the exit codes.

mod client;
mod commands;
mod database;
mod exit;
mod home;
mod operator_files;
mod runtime;
mod terminal;

use std::process::ExitCode;

use anyhow::Context as _;
use clap::Parser as _;
use tracing_subscriber::EnvFilter;

use crate::commands::Cli;
use crate::exit::Exit;
use crate::terminal::style::Colours;

// The gateway allocates many small, short-lived strings on several threads. mimalloc is faster at that.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => {
            let _stderr_is_closed = error.print();
            return if error.use_stderr() { Exit::Usage } else { Exit::Done }.into();
        }
    };
    log_to_stderr();
    let (exit, text) = exit::report(&run(cli));
    if let Some(text) = text {
        terminal::output::tell_error(&text);
    }
    exit.into()
}

fn run(cli: Cli) -> anyhow::Result<Exit> {
    let runtime =
        tokio::runtime::Builder::new_multi_thread().enable_all().build().context("could not start threads")?;
    let outcome = runtime.block_on(commands::run(cli));
    // A blocking read of standard input cannot be interrupted, so do not wait for it.
    runtime.shutdown_background();
    outcome
}

fn log_to_stderr() {
    // The store reports lost connections itself.
    let filter = EnvFilter::try_from_env("MCPPROXY_LOG").unwrap_or_else(|_| EnvFilter::new("warn,sqlx=error"));
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        .with_ansi(Colours::of(&std::io::stderr()) == Colours::On)
        .with_target(false)
        .init();
}
