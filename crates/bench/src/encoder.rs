//! Measures the encoder of the search: the time to encode all tools, what calls feel of it, the time of a query, and
//! memory.
//!
//! Three gateways run one after the other, each with a new data folder, so that none finds stored vectors:
//!
//! 1. The first one encodes the tools while nothing else happens. Then it answers queries that it has never seen.
//! 2. The second one answers calls while it encodes, and the same calls again afterwards.
//! 3. The third one has `search.encoder: "off"` and answers the same queries. The difference is the encoder's share.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use serde::Deserialize;

use crate::case::{Agent, Content, Server, Setup};
use crate::field::Echo;
use crate::gateway::{self, Beside, Gateway, Servers};
use crate::load::{self, Load, Measured, Sample, percentile_us};
use crate::payload::Payload;
use crate::request::{Call, Target, wrapped};
use crate::{say, tools};

/// CPU time to encode 1,000 tools.
const CPU_MAX: Duration = Duration::from_secs(20);
/// Median of a query, with everything that the gateway does for it.
const QUERY_MAX_US: f64 = 6_000.0;
/// Memory that the encoder adds.
const MEMORY_MAX_KIB: u64 = 40 * 1024;
/// While tools are encoded, the 99th percentile of calls may be this many times as long.
const SLOWER_MAX: f64 = 2.0;
const READ_BYTES: u32 = 100;
const POLL: Duration = Duration::from_millis(50);
const ENCODE_TIMEOUT: Duration = Duration::from_secs(300);

const ACTIONS: [&str; 8] = [
    "find the unpaid invoices of",
    "show me all open alerts about",
    "create a new calendar event with",
    "delete the outdated documents that mention",
    "compare the last two deployments for",
    "export every message that was sent to",
    "update the subscription that belongs to",
    "list the branches that were changed by",
];
const SUBJECTS: [&str; 6] =
    ["customer Miller", "the sales team", "project Apollo", "our new office", "the Berlin branch", "Anna and Tom"];
const TIMES: [&str; 5] = ["since last Monday", "in the year 2025", "before the holidays", "this quarter", "until noon"];

#[derive(clap::Args)]
pub(crate) struct Options {
    /// Number of tools to encode
    #[arg(long, default_value_t = 1_000, value_parser = clap::value_parser!(u32).range(10..=10_000))]
    tools: u32,
    /// Seconds to measure calls, each time
    #[arg(long, default_value_t = 3.0, value_parser = crate::parse_seconds)]
    seconds: f64,
    /// Path of the `mcpproxy` to measure [default: next to this program]
    #[arg(long)]
    mcpproxy: Option<PathBuf>,
    /// Fail if a figure exceeds its limit
    #[arg(long)]
    check: bool,
}

/// The figures of a gateway that answers queries.
struct Queries {
    p50_us: f64,
    p99_us: f64,
    rss_kib: u64,
}

pub(crate) async fn measure(options: &Options) -> Result<String> {
    let program = options.mcpproxy.clone().map_or_else(gateway::beside_this_program, Ok)?;
    let count = usize::try_from(options.tools)?;
    let echo = Echo::start(Server::Sessions, count.saturating_sub(tools::OWN))?;
    let servers = Servers { sessions: echo.address, stateless: None, tools: count };

    say("encoding without calls");
    let gateway = start(&program, &servers, Beside::default()).await?;
    let (began, before) = (Instant::now(), gateway.child.cpu()?);
    wait_until_encoded(&gateway).await?;
    let (took, cpu) = (began.elapsed(), gateway.child.cpu()?.saturating_sub(before));
    say("queries with the encoder");
    let with = queries(&gateway).await?;
    drop(gateway);

    let gateway = start(&program, &servers, Beside::default()).await?;
    let (during, after) = calls(&gateway, options).await?;
    drop(gateway);

    say("queries without the encoder");
    let gateway = start(&program, &servers, Beside { encoder_off: true, ..Beside::default() }).await?;
    let without = queries(&gateway).await?;

    let mut text = format!("{count} tools encoded in {took:.1?}, with {cpu:.1?} of CPU time\n\n");
    text.push_str("search among them    p50 ms   p99 ms   memory MiB\n");
    for (name, Queries { p50_us, p99_us, rss_kib }) in [("with encoder", &with), ("without", &without)] {
        let (p50, p99, memory) = (p50_us / 1e3, p99_us / 1e3, *rss_kib as f64 / 1024.0);
        writeln!(text, "{name:<18} {p50:>8.2} {p99:>8.2} {memory:>12.1}")?;
    }
    text.push_str("\ncalls                p50 us   p99 us  calls/s\n");
    for (name, Sample { p50_us, p99_us, calls_per_s, .. }) in [("while encoding", &during), ("afterwards", &after)] {
        writeln!(text, "{name:<18} {p50_us:>8.0} {p99_us:>8.0} {calls_per_s:>8.0}")?;
    }
    if options.check {
        check(options, cpu, (&with, &without), (&during, &after)).with_context(|| text.clone())?;
    }
    Ok(text)
}

fn check(
    options: &Options,
    cpu: Duration,
    (with, without): (&Queries, &Queries),
    (during, after): (&Sample, &Sample),
) -> Result<()> {
    let cpu_max = CPU_MAX * options.tools / 1_000;
    if cpu > cpu_max {
        bail!("encoding took {cpu:.1?} of CPU time, expected at most {cpu_max:?}");
    }
    if with.p50_us > QUERY_MAX_US {
        bail!("the median query took {:.0} µs, expected at most {QUERY_MAX_US} µs", with.p50_us);
    }
    let more = with.rss_kib.saturating_sub(without.rss_kib);
    if more > MEMORY_MAX_KIB {
        bail!("the encoder adds {more} KiB of memory, expected at most {MEMORY_MAX_KIB} KiB");
    }
    if during.p99_us > after.p99_us * SLOWER_MAX {
        bail!("expected the 99th percentile of calls while encoding to be at most {SLOWER_MAX} times as long");
    }
    Ok(())
}

async fn start(program: &Path, servers: &Servers, beside: Beside<'_>) -> Result<Gateway> {
    Gateway::start(program, servers, Setup::Plain, beside).await
}

#[derive(Deserialize)]
struct Status {
    encoder: Option<Encoder>,
}

#[derive(Deserialize)]
struct Encoder {
    encoded: usize,
    tools: usize,
}

async fn encoder(gateway: &Gateway) -> Result<Encoder> {
    let status: Status = gateway.status().await?;
    status.encoder.context("the gateway does not use the encoder")
}

async fn wait_until_encoded(gateway: &Gateway) -> Result<()> {
    let deadline = Instant::now() + ENCODE_TIMEOUT;
    loop {
        let Encoder { encoded, tools } = encoder(gateway).await?;
        if encoded == tools {
            return Ok(());
        }
        if Instant::now() > deadline {
            bail!("{encoded} of {tools} tools were encoded in {ENCODE_TIMEOUT:?}");
        }
        tokio::time::sleep(POLL).await;
    }
}

/// Makes calls while the tools are encoded, and again afterwards.
async fn calls(gateway: &Gateway, options: &Options) -> Result<(Sample, Sample)> {
    let payload = Payload::new(Content::Words, READ_BYTES);
    let arguments = wrapped(&format!("{}:{}", Server::Sessions.name(), tools::ECHO), &payload.arguments);
    let call = Call::new(target(gateway, Agent::Sessions), "call_tool_read", &arguments, payload)?;
    let load = Load { connections: 1, length: Duration::from_secs_f64(options.seconds) };
    let measured = || Measured { middle: Some(&gateway.child), database: None };
    while encoder(gateway).await?.encoded == 0 {
        tokio::time::sleep(POLL).await;
    }
    say("calls while tools are encoded");
    let during = load::measure(&load, &call, measured()).await?;
    let Encoder { encoded, tools } = encoder(gateway).await?;
    if encoded == tools {
        say("warning: the tools were encoded before the calls ended. Use more tools or fewer seconds.");
    }
    wait_until_encoded(gateway).await?;
    say("calls after all tools are encoded");
    Ok((during, load::measure(&load, &call, measured()).await?))
}

/// Sends each query once, because the gateway remembers the vectors of queries.
async fn queries(gateway: &Gateway) -> Result<Queries> {
    let mut sender = load::connect(gateway.address).await?;
    let mut took = Vec::new();
    for action in ACTIONS {
        for subject in SUBJECTS {
            for time in TIMES {
                let payload = Payload::query(&format!("{action} {subject} {time}"));
                let arguments = payload.arguments.clone();
                let mut call = Call::new(target(gateway, Agent::Stateless), "retrieve_tools", &arguments, payload)?;
                let request = call.request();
                let sent = Instant::now();
                let (status, _, body) = load::send(&mut sender, request).await?;
                took.push(u64::try_from(sent.elapsed().as_nanos())?);
                call.check(status, &body)?;
            }
        }
    }
    took.sort_unstable();
    let rss_kib = gateway.idle_rss_kib().await?;
    Ok(Queries { p50_us: percentile_us(&took, 50), p99_us: percentile_us(&took, 99), rss_kib })
}

fn target(gateway: &Gateway, speaks: Agent) -> Target {
    Target { address: gateway.address, path: "/mcp", token: Some(gateway.token.clone()), speaks }
}
