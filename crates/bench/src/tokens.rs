//! Compares calls with a token of the gateway and calls with an access token of an identity provider (a JWT).
//!
//! The gateway checks the signature of an access token once, and then finds it in memory. What remains is the length of
//! the token: it is sent, parsed and looked up with every call. That is a few microseconds of a call that takes about
//! 100, and the speed of a machine varies more than that within seconds. So both kinds take turns, call by call, over
//! the same path. A third agent with the token of the gateway takes part too. Its difference from the first one should
//! be zero, and shows how exact the measurement is.

use std::fmt::Write as _;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Result, bail};

use crate::case::{Agent, Content, Server, Setup};
use crate::field::Echo;
use crate::gateway::{self, Beside, Gateway, Servers};
use crate::issuer::Issuer;
use crate::load::{self, percentile_us};
use crate::payload::Payload;
use crate::report::median;
use crate::request::{Call, Target, wrapped};
use crate::{say, tools};

/// The time that a call with a token of a provider may take more.
const MORE_MAX_US: f64 = 5.0;
const READ_BYTES: u32 = 100;

#[derive(clap::Args)]
pub(crate) struct Options {
    /// Length of the access token. Tokens of large providers have 1,000 to 2,500 bytes
    #[arg(long, default_value_t = 1_500, value_parser = clap::value_parser!(u32).range(300..=16_000))]
    token_bytes: u32,
    /// Seconds to measure in each round
    #[arg(long, default_value_t = 3.0, value_parser = crate::parse_seconds)]
    seconds: f64,
    /// Number of rounds; the differences are medians of them
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u16).range(1..=100))]
    rounds: u16,
    /// Path of the `mcpproxy` to measure [default: next to this program]
    #[arg(long)]
    mcpproxy: Option<PathBuf>,
    /// Fail if a call with an access token takes over 5 µs more
    #[arg(long)]
    check: bool,
}

pub(crate) async fn measure(options: &Options) -> Result<String> {
    if cfg!(debug_assertions) {
        say(
            "warning: this is a debug build, so its figures mean little. Use `cargo run --release -p bench -- tokens`.",
        );
    }
    let program = options.mcpproxy.clone().map_or_else(gateway::beside_this_program, Ok)?;
    let echo = Echo::start(Server::Sessions, 0)?;
    let issuer = Issuer::start().await?;
    let servers = Servers { sessions: echo.address, stateless: None, tools: tools::OWN };
    let beside = Beside { issuer: Some(&issuer.url), ..Beside::default() };
    let gateway = Gateway::start(&program, &servers, Setup::Plain, beside).await?;
    let access_token = issuer.token(usize::try_from(options.token_bytes)?)?;
    let lengths = [gateway.token.len(), access_token.len(), gateway.token.len()];
    let calls = [call(&gateway, &gateway.token)?, call(&gateway, &access_token)?, call(&gateway, &gateway.token)?];
    let mut rounds = Vec::new();
    for round in 1..=options.rounds {
        say(&format!("round {round} of {}", options.rounds));
        rounds.push(load::measure_in_turn(&calls, Duration::from_secs_f64(options.seconds)).await?);
    }
    let [own, provider, again] = [0, 1, 2].map(|agent| {
        let series: Vec<Vec<u64>> = rounds.iter().filter_map(|round| round.get(agent).cloned()).collect();
        Figures::of(series)
    });
    let (more, noise) = (provider.minus(&own), again.minus(&own));
    let text =
        report(options, &[("the gateway", &own), ("a provider", &provider), ("the gateway, again", &again)], lengths)?
            + &format!(
                "\na call with a token of a provider takes {more:.1} µs more\n\
             the same measurement of two equal agents shows {noise:.1} µs\n"
            );
    if options.check && more > MORE_MAX_US {
        bail!("{text}expected at most {MORE_MAX_US} µs more");
    }
    Ok(text)
}

fn call(gateway: &Gateway, token: &str) -> Result<Call> {
    let payload = Payload::new(Content::Words, READ_BYTES);
    let arguments = wrapped(&format!("{}:{}", Server::Sessions.name(), tools::ECHO), &payload.arguments);
    let token = Some(token.to_owned());
    let target = Target { address: gateway.address, path: "/mcp", token, speaks: Agent::Sessions };
    Call::new(target, "call_tool_read", &arguments, payload)
}

/// The latencies of one agent: their medians by round, and the percentiles of all.
struct Figures {
    medians_us: Vec<f64>,
    p50_us: f64,
    p99_us: f64,
    calls: usize,
}

impl Figures {
    fn of(mut rounds: Vec<Vec<u64>>) -> Self {
        rounds.iter_mut().for_each(|round| round.sort_unstable());
        let medians_us = rounds.iter().map(|round| percentile_us(round, 50)).collect();
        let mut all = rounds.concat();
        all.sort_unstable();
        Self { medians_us, p50_us: percentile_us(&all, 50), p99_us: percentile_us(&all, 99), calls: all.len() }
    }

    /// Returns the median of the differences of all rounds. Both agents met the same speed of the machine in each round.
    fn minus(&self, other: &Self) -> f64 {
        let differences = self.medians_us.iter().zip(&other.medians_us).map(|(own, other)| own - other);
        median(differences.collect()).unwrap_or_default()
    }
}

fn report(options: &Options, agents: &[(&str, &Figures); 3], lengths: [usize; 3]) -> Result<String> {
    let mut text = format!(
        "reads of {READ_BYTES} bytes over /mcp, agents in turn, {} rounds of {} s\n\n\
         token of              bytes     calls     p50 µs     p99 µs\n",
        options.rounds, options.seconds
    );
    for ((name, figures), length) in agents.iter().zip(lengths) {
        let Figures { p50_us, p99_us, calls, .. } = figures;
        writeln!(text, "{name:<20} {length:>6} {calls:>9} {p50_us:>10.1} {p99_us:>10.1}")?;
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_difference_is_the_median_of_the_rounds() {
        // The second round was slow for both.
        let own = Figures::of(vec![vec![3_000, 1_000, 2_000], vec![90_000], vec![5_000]]);
        let provider = Figures::of(vec![vec![4_000], vec![93_000], vec![5_500, 5_500]]);
        assert_eq!(own.medians_us, [2.0, 90.0, 5.0]);
        assert_eq!((own.p50_us, own.p99_us, own.calls), (3.0, 90.0, 5));
        assert_eq!(provider.minus(&own), 2.0);
        assert_eq!(own.minus(&own), 0.0);
    }
}
