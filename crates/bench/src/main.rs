//! Measures a read call to an echo server directly, through nginx and through mcpproxy, side by side in one run.

mod child;
mod echo;
mod gateway;
mod load;
mod nginx;
mod report;
mod request;
mod tools;

use std::io::Write as _;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use clap::{Parser, Subcommand, ValueEnum};
use tokio::signal::unix::{SignalKind, signal};

use crate::child::{Child, Stdout};
use crate::gateway::Gateway;
use crate::load::Load;
use crate::nginx::Nginx;
use crate::report::{Memory, Report, Round};
use crate::request::{Call, Revision};

const MANY_TOOLS: usize = 1000;

/// Measure the latency of an MCP call: direct, through nginx, and through mcpproxy.
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
    /// Run the echo MCP server only, and print its URL on standard output
    Echo {
        #[arg(long, default_value = "127.0.0.1:0")]
        listen: SocketAddr,
        /// Number of tools to list in addition to `echo`
        #[arg(long, default_value_t = 0)]
        tools: usize,
    },
}

#[derive(clap::Args)]
pub(crate) struct Options {
    /// Seconds to measure each leg in each round
    #[arg(long, default_value_t = 3.0, value_parser = parse_seconds)]
    pub(crate) seconds: f64,
    /// Numbers of concurrent agents; each number is one series
    #[arg(long, value_delimiter = ',', default_value = "1,8,32", value_parser = clap::value_parser!(u16).range(1..=512))]
    pub(crate) connections: Vec<u16>,
    /// Number of rounds; the table shows medians
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u16).range(1..=100))]
    pub(crate) rounds: u16,
    /// Bytes of text in each call and its answer
    #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub(crate) payload: u32,
    /// Use MCP 2025-11-25 (with sessions) instead of 2026-07-28 (stateless)
    #[arg(long)]
    pub(crate) legacy: bool,
    /// Legs to measure
    #[arg(long, value_delimiter = ',', value_enum, default_values_t = [Leg::Direct, Leg::Nginx, Leg::Read, Leg::Server])]
    pub(crate) legs: Vec<Leg>,
    /// Path of the `mcpproxy` to measure [default: next to this program]
    #[arg(long)]
    mcpproxy: Option<PathBuf>,
    #[arg(short, long, value_enum, default_value_t = Output::Table)]
    output: Output,
}

/// One path from the load generator to the echo server.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub(crate) enum Leg {
    /// Straight to the echo server
    Direct,
    /// Through a plain nginx `proxy_pass`
    Nginx,
    /// Through mcpproxy at `/mcp`, with `call_tool_read`
    Read,
    /// Through mcpproxy at `/mcp/s/echo`, with the tool's own name
    Server,
}

impl Leg {
    pub(crate) fn label(self) -> &'static str {
        match self {
            Leg::Direct => "direct",
            Leg::Nginx => "nginx",
            Leg::Read => "/mcp call_tool_read",
            Leg::Server => "/mcp/s/echo",
        }
    }
}

#[derive(Clone, Copy, ValueEnum)]
enum Output {
    Table,
    Json,
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
        Some(Command::Echo { listen, tools }) => runtime.block_on(echo::serve(listen, tools)),
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
    let mut field = Field::start(options).await?;
    let revision = if options.legacy { Revision::Legacy } else { Revision::Modern };
    let mut rounds = Vec::new();
    for &connections in &options.connections {
        for round in 1..=options.rounds {
            for &leg in &options.legs {
                say(&format!("{connections} connections, round {round} of {}: {}", options.rounds, leg.label()));
                let call = field.call(leg, revision, options.payload)?;
                let middle = field.middle(leg)?;
                let load = Load { connections, length: Duration::from_secs_f64(options.seconds) };
                let sample = load::measure(&load, &call, middle).await.with_context(|| leg.label().to_owned())?;
                rounds.push(Round { connections, leg, sample });
            }
        }
    }
    field.note_memory_after_load()?;
    let report = Report::new(options, &rounds, field.memory);
    let text = match options.output {
        Output::Table => report.table(),
        Output::Json => report.json()?,
    };
    match std::io::stdout().write_all(text.as_bytes()) {
        // A closed pipe is fine: the reader has what it wanted, as in `bench | head`.
        Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => Ok(()),
        written => Ok(written?),
    }
}

/// The processes under test. Dropping it stops them, the proxies before the echo server.
struct Field {
    gateway: Option<Gateway>,
    nginx: Option<Nginx>,
    echo: Echo,
    memory: Option<Memory>,
}

impl Field {
    async fn start(options: &Options) -> Result<Self> {
        let has = |leg| options.legs.contains(&leg);
        let echo = Echo::start(0)?;
        let nginx = if has(Leg::Nginx) { Some(Nginx::start(echo.address).await?) } else { None };
        let mut field = Field { gateway: None, nginx, echo, memory: None };
        if has(Leg::Read) || has(Leg::Server) {
            let program = match &options.mcpproxy {
                Some(path) => path.clone(),
                None => gateway::beside_this_program()?,
            };
            say("measuring idle memory");
            let many = {
                let echo = Echo::start(MANY_TOOLS)?;
                Gateway::start(&program, echo.address, MANY_TOOLS + 1).await?.idle_rss_kib().await?
            };
            let gateway = Gateway::start(&program, field.echo.address, 1).await?;
            let one = gateway.idle_rss_kib().await?;
            field.memory = Some(Memory { one_tool_kib: one, many_tools_kib: many, after_load_kib: one });
            field.gateway = Some(gateway);
        }
        Ok(field)
    }

    fn gateway(&self) -> Result<&Gateway> {
        self.gateway.as_ref().context("mcpproxy was not started")
    }

    fn nginx(&self) -> Result<&Nginx> {
        self.nginx.as_ref().context("nginx was not started")
    }

    fn call(&self, leg: Leg, revision: Revision, payload: u32) -> Result<Call> {
        let (address, path, token) = match leg {
            Leg::Direct => (self.echo.address, "/mcp", None),
            Leg::Nginx => (self.nginx()?.address, "/mcp", None),
            Leg::Read => (self.gateway()?.address, "/mcp", Some(self.gateway()?.token.as_str())),
            Leg::Server => (self.gateway()?.address, "/mcp/s/echo", Some(self.gateway()?.token.as_str())),
        };
        let text = request::payload(payload);
        let (tool, arguments) = match leg {
            Leg::Direct | Leg::Nginx | Leg::Server => ("echo", request::own_arguments(&text)),
            Leg::Read => ("call_tool_read", request::read_arguments(&text)),
        };
        Call::new(address, path, token, revision, (tool, arguments), text)
    }

    fn middle(&self, leg: Leg) -> Result<Option<&Child>> {
        Ok(match leg {
            Leg::Direct => None,
            Leg::Nginx => Some(&self.nginx()?.child),
            Leg::Read | Leg::Server => Some(&self.gateway()?.child),
        })
    }

    fn note_memory_after_load(&mut self) -> Result<()> {
        if let (Some(memory), Some(gateway)) = (&mut self.memory, &self.gateway) {
            memory.after_load_kib = gateway.child.rss_kib()?;
        }
        Ok(())
    }
}

/// The echo server in a process of its own, so that it does not share a thread with the load.
struct Echo {
    address: SocketAddr,
    _child: Child,
}

impl Echo {
    fn start(tools: usize) -> Result<Self> {
        let mut command = std::process::Command::new(std::env::current_exe()?);
        command.args(["echo", "--listen", "127.0.0.1:0", "--tools", &tools.to_string()]);
        let mut child = Child::start("the echo server", command, Stdout::Pipe)?;
        let line = child.first_line()?;
        let address = line.trim().trim_start_matches("http://").trim_end_matches("/mcp").parse();
        Ok(Echo { address: address.with_context(|| format!("no address in `{}`", line.trim()))?, _child: child })
    }
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
