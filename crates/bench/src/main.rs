//! Measures calls to an echo server directly, through nginx and through mcpproxy, side by side in one run.

mod case;
mod child;
mod echo;
mod encoder;
mod field;
mod gateway;
mod issuer;
mod leg;
mod load;
mod log;
mod nginx;
mod pages;
mod payload;
mod peer;
mod postgres;
mod replay;
mod report;
mod request;
mod rules;
mod tokens;
mod tools;

use std::io::Write as _;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use clap::{Parser, Subcommand, ValueEnum};
use tokio::signal::unix::{SignalKind, signal};

use crate::case::{Axes, Case, Server};
use crate::field::Field;
use crate::leg::Leg;
use crate::load::{Load, Measured};
use crate::report::{Effort, Report, Round};

/// Measure MCP calls: direct, through nginx, and through mcpproxy.
///
/// Without options, it measures the cases that most users have, in about eight minutes. Options for agents, servers,
/// operations, payloads, contents, setups or connections measure all their combinations instead.
#[derive(Parser)]
#[command(name = "bench", args_conflicts_with_subcommands = true)]
struct Cli {
    #[command(subcommand)]
    command: Option<Command>,
    #[command(flatten)]
    options: Options,
}

#[derive(Subcommand)]
enum Command {
    /// Run the echo MCP server only. Over HTTP, print its URL on standard output
    Echo {
        #[arg(long, value_enum, default_value = "sessions")]
        server: Server,
        #[arg(long, default_value = "127.0.0.1:0")]
        listen: SocketAddr,
        /// Number of tools to list in addition to its own
        #[arg(long, default_value_t = 0)]
        tools: usize,
    },
    /// Measure a replay of recorded calls, as `mcpproxy policy replay` makes it
    Replay {
        /// Number of recorded calls
        #[arg(long, default_value_t = 200_000, value_parser = clap::value_parser!(u64).range(100..))]
        calls: u64,
        /// Fail below 50,000 decisions a second on one core, or if memory grows with the number of calls
        #[arg(long)]
        check: bool,
    },
    /// Measure the pages of the console with a long log, and calls while many pages are open
    Pages(pages::Options),
    /// Compare calls with a token of the gateway and with an access token of an identity provider
    Tokens(tokens::Options),
    /// Measure how the tools are encoded for search, queries with and without the encoder, and calls meanwhile
    Encoder(encoder::Options),
}

#[derive(clap::Args)]
struct Options {
    /// Measure a few cases once, in half a minute
    #[arg(long)]
    quick: bool,
    #[command(flatten)]
    axes: Axes,
    /// Seconds to measure each path in each round [default: 3, with --quick 1]
    #[arg(long, value_parser = parse_seconds)]
    seconds: Option<f64>,
    /// Number of rounds; the table shows medians [default: 3, with --quick 1]
    #[arg(long, value_parser = clap::value_parser!(u16).range(1..=100))]
    rounds: Option<u16>,
    /// Paths to measure, where they exist for a case
    #[arg(long, value_delimiter = ',', value_enum, default_values_t = [Leg::Direct, Leg::Nginx, Leg::Peer, Leg::Mcp])]
    paths: Vec<Leg>,
    /// Path of the `mcpproxy` to measure [default: next to this program]
    #[arg(long)]
    mcpproxy: Option<PathBuf>,
    /// Path of an `mcp-proxy` 0.6 to compare with
    #[arg(long)]
    mcp_proxy: Option<PathBuf>,
    #[arg(short, long, value_enum, default_value_t = Output::Table)]
    output: Output,
}

#[derive(Clone, Copy, ValueEnum)]
enum Output {
    Table,
    Json,
}

impl Options {
    fn cases(&self) -> Vec<Case> {
        match (self.axes.is_empty(), self.quick) {
            (false, _) => self.axes.cases(),
            (true, true) => case::quick(),
            (true, false) => case::typical(),
        }
    }

    fn effort(&self) -> Effort {
        let (rounds, seconds) = if self.quick { (1, 1.0) } else { (3, 3.0) };
        Effort { rounds: self.rounds.unwrap_or(rounds), seconds: self.seconds.unwrap_or(seconds) }
    }
}

fn main() -> ExitCode {
    let cli = Cli::parse();
    match run(cli) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            say(&format!("bench: {error:#}"));
            ExitCode::FAILURE
        }
    }
}

fn run(cli: Cli) -> Result<()> {
    // One thread for the load and one for the echo server leave the other cores to the process under test.
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    match cli.command {
        Some(Command::Echo { server: Server::Stdio, tools, .. }) => echo::serve_stdio(tools),
        Some(Command::Echo { server, listen, tools }) => runtime.block_on(echo::serve(listen, server, tools)),
        Some(Command::Replay { calls, check }) => {
            let text = runtime.block_on(replay::measure(calls, check))?;
            Ok(std::io::stdout().write_all(text.as_bytes())?)
        }
        Some(Command::Pages(options)) => {
            let text = runtime.block_on(pages::measure(&options))?;
            Ok(std::io::stdout().write_all(text.as_bytes())?)
        }
        Some(Command::Tokens(options)) => {
            let text = runtime.block_on(tokens::measure(&options))?;
            Ok(std::io::stdout().write_all(text.as_bytes())?)
        }
        Some(Command::Encoder(options)) => {
            let text = runtime.block_on(encoder::measure(&options))?;
            Ok(std::io::stdout().write_all(text.as_bytes())?)
        }
        None => runtime.block_on(async {
            let mut terminated = signal(SignalKind::terminate())?;
            // Leaving `measure` drops the child processes, which stops them, also after Ctrl-C.
            tokio::select! {
                result = measure(&cli.options) => result,
                _ = tokio::signal::ctrl_c() => bail!("interrupted"),
                _ = terminated.recv() => bail!("terminated"),
            }
        }),
    }
}

async fn measure(options: &Options) -> Result<()> {
    if cfg!(debug_assertions) {
        say("warning: this is a debug build, so its figures mean little. Use `cargo run --release -p bench`.");
    }
    let effort = options.effort();
    let mut field = Field::start(options.mcpproxy.clone(), options.mcp_proxy.clone())?;
    let mut rounds = Vec::new();
    let measured = measure_cases(&mut field, options, &mut rounds).await;
    // After an error, the table still has the cases before it: they took minutes.
    let report = Report::new(effort, &rounds, field.memory()?);
    let text = match options.output {
        Output::Table => report.table(),
        Output::Json => report.json()?,
    };
    match std::io::stdout().write_all(text.as_bytes()) {
        // A closed pipe is fine: the reader has what it wanted, as in `bench | head`.
        Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => {}
        written => written?,
    }
    measured
}

async fn measure_cases(field: &mut Field, options: &Options, rounds: &mut Vec<Round>) -> Result<()> {
    for case in options.cases() {
        for &connections in &case.connections {
            measure_case(field, &case, connections, (options.effort(), &options.paths), rounds).await?;
        }
    }
    Ok(())
}

/// Measures all paths in turn in each round, so that a change of the machine's speed meets all of them.
async fn measure_case(
    field: &mut Field,
    case: &Case,
    connections: u16,
    (effort, paths): (Effort, &[Leg]),
    rounds: &mut Vec<Round>,
) -> Result<()> {
    for round in 1..=effort.rounds {
        for leg in field.legs(case, paths) {
            let label = case.label();
            say(&format!("{label}: {connections} connections, round {round} of {}, {}", effort.rounds, leg.label()));
            let call = field.prepare(case, leg).await?;
            let load = Load { connections, length: Duration::from_secs_f64(effort.seconds) };
            let measured = Measured { middle: field.middle(case, leg), database: field.database(case, leg) };
            let sample = load::measure(&load, &call, measured).await;
            let sample = sample.with_context(|| format!("{label}: {}", leg.label()))?;
            rounds.push(Round { case: label, connections, leg, sample });
        }
    }
    Ok(())
}

fn parse_seconds(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(seconds) if (0.05..=3600.0).contains(&seconds) => Ok(seconds),
        Ok(_) | Err(_) => Err("expected a number of seconds from 0.05 to 3600".to_owned()),
    }
}

/// Prints progress to standard error, because standard output has the table.
fn say(line: &str) {
    // If standard error is closed, there is no place to report it.
    let _ = writeln!(std::io::stderr(), "{line}");
}
