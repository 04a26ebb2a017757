//! Measures the console: how long a page takes with a long log, and what open pages cost the agents.
//!
//! The log is filled before the gateway starts. Each viewer listens for changes and fetches the page again when one comes,
//! as the script of the page does.

use std::fmt::Write as _;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use anyhow::{Context as _, Result, bail};
use bytes::Bytes;
use http_body_util::{BodyExt as _, Full};
use hyper::header::{COOKIE, HOST, HeaderValue};
use hyper::{Request, StatusCode};
use mcpproxy_store::{Location, SigningKey, Store};
use tokio::task::JoinSet;

use crate::case::{Agent, Content, Server, Setup};
use crate::field::Echo;
use crate::gateway::{self, Beside, Gateway, Servers};
use crate::load::{self, Load, Measured, percentile_us};
use crate::payload::Payload;
use crate::request::{Call, Target, wrapped};
use crate::{log, say, tools};

const PAGES: [&str; 9] = [
    "/ui/",
    "/ui/?days=7",
    "/ui/activity",
    "/ui/activity?agent=agent1&tool=fx%3Atool3",
    "/ui/approvals",
    "/ui/tools",
    "/ui/servers",
    "/ui/agents",
    "/ui/settings",
];
const TIMES: usize = 30;
/// The time that a page may take.
const PAGE_MAX: Duration = Duration::from_millis(50);
/// The records lie in the last week.
const SPAN_MS: i64 = 7 * 24 * 3600 * 1000;
const USER: &str = "bench";
const KEY: [u8; 32] = [7; 32];
const KEY_HEX: &str = "0707070707070707070707070707070707070707070707070707070707070707";
const READ_BYTES: u32 = 1024;
const CONNECTIONS: u16 = 4;

#[derive(clap::Args)]
pub(crate) struct Options {
    /// Number of records in the log
    #[arg(long, default_value_t = 1_000_000)]
    records: u64,
    /// Number of pages that are open while calls are measured
    #[arg(long, default_value_t = 200)]
    viewers: usize,
    /// Seconds to measure calls, each time
    #[arg(long, default_value_t = 5.0, value_parser = crate::parse_seconds)]
    seconds: f64,
    /// Path of the `mcpproxy` to measure [default: next to this program]
    #[arg(long)]
    mcpproxy: Option<PathBuf>,
    /// Fail if the median of a page is over 50 ms
    #[arg(long)]
    check: bool,
}

/// A browser that is signed in.
#[derive(Clone)]
struct Viewer {
    address: SocketAddr,
    cookie: HeaderValue,
}

pub(crate) async fn measure(options: &Options) -> Result<String> {
    let program = options.mcpproxy.clone().map_or_else(gateway::beside_this_program, Ok)?;
    let home = tempfile::tempdir().context("could not make a data folder for mcpproxy")?;
    say(&format!("writing {} records", options.records));
    let cookie = prepare(home.path(), options.records).await?;
    let echo = Echo::start(Server::Sessions, 0)?;
    let servers = Servers { sessions: echo.address, stateless: None, tools: tools::OWN };
    let gateway = Gateway::start_in(home, &program, &servers, Setup::Plain, Beside::default()).await?;
    let viewer = Viewer { address: gateway.address, cookie };
    let mut text = format!("pages with {} records in SQLite, {TIMES} times each\n", options.records);
    let mut is_slow = false;
    for page in PAGES {
        let (p50, p99, bytes) = viewer.time(page).await?;
        is_slow |= p50 > PAGE_MAX.as_secs_f64() * 1e6;
        writeln!(text, "{page:44} p50 {:7.1} ms  p99 {:7.1} ms  {bytes:7} bytes", p50 / 1e3, p99 / 1e3)?;
    }
    text.push_str(&while_open(&gateway, &viewer, options).await?);
    if options.check && is_slow {
        bail!("{text}expected a median below {PAGE_MAX:?} for every page");
    }
    Ok(text)
}

/// Fills the log and signs a user in. Returns the cookie.
async fn prepare(home: &std::path::Path, records: u64) -> Result<HeaderValue> {
    let store = Store::open(&Location::Sqlite(home.join("mcpproxy.db"))).await?;
    let now_ms = i64::try_from(SystemTime::now().duration_since(UNIX_EPOCH)?.as_millis())?;
    let invitation = store.invite([3; 32], None, now_ms, 60_000).await?;
    store.create_user(&invitation, USER, "no hash", now_ms).await?;
    let key = SigningKey::from_seed(&KEY).context("a key")?;
    std::fs::write(home.join("signing.key"), KEY_HEX)?;
    let private = std::os::unix::fs::PermissionsExt::from_mode(0o600);
    std::fs::set_permissions(home.join("signing.key"), private)?;
    let pause_ms = (SPAN_MS / records.max(1).cast_signed()).max(1);
    log::fill(&store, key, records, now_ms - SPAN_MS, pause_ms).await?;
    // After the log, because a session without requests ends.
    let session = store.open_session(USER, [[4; 32], [5; 32]], now_ms).await?;
    let found = store.find_session(&session.secret, now_ms, 60_000, 60_000).await?.context("a session")?;
    store.set_totp(&found.user, b"12345678901234567890", 0).await?;
    store.close().await;
    Ok(HeaderValue::from_str(&format!("mcpproxy_session={}", session.secret))?)
}

impl Viewer {
    fn get(&self, path: &str) -> Result<Request<Full<Bytes>>> {
        let host = self.address.to_string();
        Ok(Request::builder().uri(path).header(HOST, host).header(COOKIE, &self.cookie).body(Full::default())?)
    }

    /// Returns median, 99th percentile and size of a page.
    async fn time(&self, path: &str) -> Result<(f64, f64, usize)> {
        let mut sender = load::connect(self.address).await?;
        let (mut took, mut size) = (Vec::new(), 0);
        for _ in 0..TIMES {
            let sent = Instant::now();
            let (status, _, body) = load::send(&mut sender, self.get(path)?).await?;
            took.push(u64::try_from(sent.elapsed().as_nanos())?);
            if status != StatusCode::OK {
                bail!("{path}: HTTP {status}");
            }
            size = body.len();
        }
        took.sort_unstable();
        Ok((percentile_us(&took, 50), percentile_us(&took, 99), size))
    }

    /// Looks at the live list of calls until the connection ends.
    async fn look(self) -> Result<()> {
        let mut pages = load::connect(self.address).await?;
        let mut events = load::connect(self.address).await?;
        let response = events.send_request(self.get("/ui/events?about=calls")?).await?;
        let mut body = response.into_body();
        while let Some(frame) = body.frame().await {
            let is_change = frame?.data_ref().is_some_and(|data| data.windows(13).any(|part| part == b"event: change"));
            if is_change {
                load::send(&mut pages, self.get("/ui/activity")?).await?;
            }
        }
        Ok(())
    }
}

/// Compares calls without and with open pages, in turn.
async fn while_open(gateway: &Gateway, viewer: &Viewer, options: &Options) -> Result<String> {
    let mut text = String::new();
    for count in [0, options.viewers, 0, options.viewers] {
        let mut open = JoinSet::new();
        for _ in 0..count {
            open.spawn(viewer.clone().look());
        }
        say(&format!("calls while {count} pages are open"));
        let payload = Payload::new(Content::Words, READ_BYTES);
        let arguments = wrapped(&format!("{}:{}", Server::Sessions.name(), tools::ECHO), &payload.arguments);
        let token = Some(gateway.token.clone());
        let target = Target { address: gateway.address, path: "/mcp", token, speaks: Agent::Sessions };
        let call = Call::new(target, "call_tool_read", &arguments, payload)?;
        let load = Load { connections: CONNECTIONS, length: Duration::from_secs_f64(options.seconds) };
        let measured = Measured { middle: Some(&gateway.child), database: None };
        let sample = load::measure(&load, &call, measured).await?;
        writeln!(
            text,
            "calls while {count:3} pages are open: p50 {:6.0} us  p99 {:6.0} us  {:6.0} calls/s",
            sample.p50_us, sample.p99_us, sample.calls_per_s
        )?;
        open.shutdown().await;
    }
    Ok(text)
}
