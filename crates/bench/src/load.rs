//! Generates the load: a closed loop on each connection, which sends the next call after the last answer.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use bytes::Bytes;
use http_body_util::{BodyExt as _, Full};
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper::header::HOST;
use hyper::{HeaderMap, Request, StatusCode};
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;
use tokio::task::JoinSet;

use crate::case::Agent as Speaks;
use crate::child::Child;
use crate::request::{Call, SESSION_HEADER, refused};

const WARM_UP: Duration = Duration::from_millis(300);
const CALL_TIMEOUT: Duration = Duration::from_secs(10);

pub(crate) struct Load {
    pub(crate) connections: u16,
    pub(crate) length: Duration,
}

/// The measurements of one leg in one round.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sample {
    pub(crate) p50_us: f64,
    pub(crate) p99_us: f64,
    pub(crate) calls_per_s: f64,
    /// CPU time of the proxy. `None` for direct calls.
    pub(crate) cpu_us_per_call: Option<f64>,
    /// CPU time of its database server, if it has one.
    pub(crate) database_us_per_call: Option<f64>,
}

/// The processes whose CPU time is measured.
#[derive(Clone, Copy, Default)]
pub(crate) struct Measured<'a> {
    pub(crate) middle: Option<&'a Child>,
    pub(crate) database: Option<&'a Child>,
}

pub(crate) async fn measure(load: &Load, call: &Call, measured: Measured<'_>) -> Result<Sample> {
    let mut agents = Vec::new();
    for _ in 0..load.connections {
        agents.push(Agent::connect(call.clone()).await?);
    }
    let (agents, _) = run_all(agents, WARM_UP, Check::Whole).await?;

    let cpu = |process: Option<&Child>| process.map(Child::cpu).transpose();
    let before = (cpu(measured.middle)?, cpu(measured.database)?);
    let began = Instant::now();
    let (agents, mut latencies) = run_all(agents, load.length, Check::Quick).await?;
    let elapsed = began.elapsed();
    let after = (cpu(measured.middle)?, cpu(measured.database)?);

    for agent in agents {
        agent.leave().await?;
    }
    latencies.sort_unstable();
    let calls = latencies.len() as f64;
    let per_call = |before: Option<Duration>, after: Option<Duration>| {
        before.zip(after).map(|(before, after)| after.saturating_sub(before).as_secs_f64() * 1e6 / calls.max(1.0))
    };
    Ok(Sample {
        p50_us: percentile_us(&latencies, 50),
        p99_us: percentile_us(&latencies, 99),
        calls_per_s: calls / elapsed.as_secs_f64(),
        cpu_us_per_call: per_call(before.0, after.0),
        database_us_per_call: per_call(before.1, after.1),
    })
}

/// Measures several calls in turn on one connection each, one call at a time. Returns the latencies of each.
///
/// The order is reversed each time.
pub(crate) async fn measure_in_turn(calls: &[Call], length: Duration) -> Result<Vec<Vec<u64>>> {
    let mut agents = Vec::new();
    for call in calls {
        let mut agent = Agent::connect(call.clone()).await?;
        agent.run(WARM_UP, Check::Whole).await?;
        agents.push((agent, Vec::new()));
    }
    let took = async {
        let began = Instant::now();
        while began.elapsed() < length {
            for (agent, latencies) in &mut agents {
                latencies.push(agent.call(Check::Quick).await?);
            }
            agents.reverse();
            for (agent, latencies) in &mut agents {
                latencies.push(agent.call(Check::Quick).await?);
            }
            agents.reverse();
        }
        anyhow::Ok(())
    };
    let timeout = tokio::time::timeout(length + CALL_TIMEOUT, took).await;
    timeout.with_context(|| format!("a call was not answered in {CALL_TIMEOUT:?}"))??;
    let mut all = Vec::new();
    for (agent, latencies) in agents {
        agent.leave().await?;
        all.push(latencies);
    }
    Ok(all)
}

/// Sends a GET on a new connection, for readiness checks.
pub(crate) async fn fetch(address: SocketAddr, path: &str, headers: HeaderMap) -> Result<(StatusCode, Bytes)> {
    let mut request = Request::builder().uri(path).header(HOST, address.to_string()).body(Full::default())?;
    request.headers_mut().extend(headers);
    let (status, _, body) = send(&mut connect(address).await?, request).await?;
    Ok((status, body))
}

/// Returns the nearest-rank percentile of sorted nanoseconds, in microseconds.
pub(crate) fn percentile_us(sorted_ns: &[u64], percent: usize) -> f64 {
    let rank = (sorted_ns.len() * percent).div_ceil(100).max(1);
    let ns = sorted_ns.get(rank - 1).copied().unwrap_or_default();
    Duration::from_nanos(ns).as_secs_f64() * 1e6
}

#[derive(Clone, Copy)]
enum Check {
    Whole,
    Quick,
}

struct Agent {
    sender: SendRequest<Full<Bytes>>,
    call: Call,
}

impl Agent {
    async fn connect(mut call: Call) -> Result<Self> {
        let mut sender = connect(call.target.address).await?;
        match call.target.speaks {
            Speaks::Stateless => {}
            Speaks::Sessions => {
                let (status, headers, body) = send(&mut sender, call.initialize()).await?;
                if status != StatusCode::OK {
                    bail!(refused(status, &body));
                }
                call.join(headers.get(SESSION_HEADER).cloned());
                let (status, _, body) = send(&mut sender, call.initialized()).await?;
                if !status.is_success() {
                    bail!(refused(status, &body));
                }
            }
        }
        Ok(Agent { sender, call })
    }

    async fn run(&mut self, length: Duration, check: Check) -> Result<Vec<u64>> {
        let mut latencies = Vec::new();
        let began = Instant::now();
        while began.elapsed() < length {
            latencies.push(self.call(check).await?);
        }
        Ok(latencies)
    }

    /// Makes one call. Returns its latency in nanoseconds.
    async fn call(&mut self, check: Check) -> Result<u64> {
        let request = self.call.request();
        let sent = Instant::now();
        let (status, _, body) = send(&mut self.sender, request).await?;
        let latency = sent.elapsed();
        match check {
            Check::Whole => self.call.check(status, &body)?,
            Check::Quick => self.call.check_quickly(status, &body)?,
        }
        Ok(u64::try_from(latency.as_nanos()).unwrap_or(u64::MAX))
    }

    async fn leave(mut self) -> Result<()> {
        if let Some(request) = self.call.leave() {
            send(&mut self.sender, request).await?;
        }
        Ok(())
    }
}

async fn run_all(agents: Vec<Agent>, length: Duration, check: Check) -> Result<(Vec<Agent>, Vec<u64>)> {
    let mut tasks = JoinSet::new();
    for mut agent in agents {
        tasks.spawn(async move {
            // A hanging call must not hang the benchmark. One timer for the run is cheaper than one per call.
            let latencies = tokio::time::timeout(length + CALL_TIMEOUT, agent.run(length, check)).await;
            (agent, latencies)
        });
    }
    let (mut back, mut all) = (Vec::new(), Vec::new());
    while let Some(task) = tasks.join_next().await {
        let (agent, latencies) = task?;
        all.extend(latencies.with_context(|| format!("a call was not answered in {CALL_TIMEOUT:?}"))??);
        back.push(agent);
    }
    Ok((back, all))
}

pub(crate) async fn connect(address: SocketAddr) -> Result<SendRequest<Full<Bytes>>> {
    let stream = TcpStream::connect(address).await.with_context(|| format!("could not connect to `{address}`"))?;
    stream.set_nodelay(true)?;
    let (sender, connection) = handshake(TokioIo::new(stream)).await?;
    // Errors of this task are reported to the request that waits for an answer.
    tokio::spawn(connection);
    Ok(sender)
}

pub(crate) async fn send(
    sender: &mut SendRequest<Full<Bytes>>,
    request: Request<Full<Bytes>>,
) -> Result<(StatusCode, HeaderMap, Bytes)> {
    sender.ready().await.context("the connection was closed")?;
    let response = sender.send_request(request).await.context("a call was not answered")?;
    let (head, body) = response.into_parts();
    let body = body.collect().await.context("an answer was incomplete")?.to_bytes();
    Ok((head.status, head.headers, body))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_nearest_ranks() {
        let check = |sorted_ns: &[u64], percent, us: f64| assert_eq!(percentile_us(sorted_ns, percent), us);
        check(&[], 50, 0.0);
        check(&[7000], 50, 7.0);
        check(&[7000], 99, 7.0);
        check(&[1000, 2000, 3000, 4000], 50, 2.0);
        let hundred: Vec<u64> = (1..=100).map(|us| us * 1000).collect();
        check(&hundred, 50, 50.0);
        check(&hundred, 99, 99.0);
        check(&hundred, 100, 100.0);
    }
}
