//! Runs mcpproxy as a process of its own, with a new data folder and the echo servers in its settings.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use hyper::StatusCode;
use hyper::header::{HeaderMap, HeaderName, HeaderValue};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::case::{Server, Setup};
use crate::child::{Child, Stdout};
use crate::{issuer, load, rules, tools};

const START_TIMEOUT: Duration = Duration::from_secs(30);
const POLL: Duration = Duration::from_millis(20);
const SETTLE_STEP: Duration = Duration::from_millis(500);
const SETTLE_STEPS: usize = 10;
const ADMIN_KEY_HEADER: HeaderName = HeaderName::from_static("x-api-key");

pub(crate) struct Gateway {
    pub(crate) address: SocketAddr,
    pub(crate) token: String,
    pub(crate) child: Child,
    home: TempDir,
}

/// The echo servers in the gateway's settings. A third one, over stdio, always comes along.
pub(crate) struct Servers {
    pub(crate) sessions: SocketAddr,
    pub(crate) stateless: Option<SocketAddr>,
    /// Number of tools that the first server must have.
    pub(crate) tools: usize,
}

/// Settings beside the servers.
#[derive(Clone, Copy, Default)]
pub(crate) struct Beside<'a> {
    /// The URL of a PostgreSQL database.
    pub(crate) storage: Option<&'a str>,
    /// The identity provider of agents.
    pub(crate) issuer: Option<&'a str>,
    /// True if search works without the encoder.
    pub(crate) encoder_off: bool,
}

impl Gateway {
    /// Starts mcpproxy in front of the echo servers, and waits until it knows all tools.
    pub(crate) async fn start(program: &Path, servers: &Servers, setup: Setup, beside: Beside<'_>) -> Result<Self> {
        let home = tempfile::tempdir().context("could not make a data folder for mcpproxy")?;
        Self::start_in(home, program, servers, setup, beside).await
    }

    /// Works like `start`, with a data folder that may have a log already.
    pub(crate) async fn start_in(
        home: TempDir,
        program: &Path,
        servers: &Servers,
        setup: Setup,
        beside: Beside<'_>,
    ) -> Result<Self> {
        std::fs::write(home.path().join("mcp_config.json"), settings(servers, beside)?.to_string())?;
        if setup == Setup::Rules {
            rules::write(home.path())?;
        }
        let mut command = Command::new(program);
        command.arg("serve").arg("--home").arg(home.path()).args(["--listen", "127.0.0.1:0"]);
        let mut child = Child::start("mcpproxy", command, Stdout::Log)?;
        let deadline = Instant::now() + START_TIMEOUT;
        let address = loop {
            child.check_alive()?;
            if let Some(address) = ready_address(home.path()).await {
                break address;
            }
            if Instant::now() > deadline {
                bail!("mcpproxy was not ready in {START_TIMEOUT:?}\n{}", child.log_tail());
            }
            tokio::time::sleep(POLL).await;
        };
        let expected = servers.tools + tools::OWN * (1 + usize::from(servers.stateless.is_some()));
        // The gateway is ready after a few seconds, even if servers on a busy machine take longer.
        loop {
            let Tools { tools: known } = status(home.path(), address).await?;
            if known == expected {
                break;
            }
            if Instant::now() > deadline {
                bail!("mcpproxy found {known} of the {expected} tools of the echo servers\n{}", child.log_tail());
            }
            tokio::time::sleep(POLL).await;
        }
        let token = create_token(program, home.path())?;
        Ok(Gateway { address, token, child, home })
    }

    /// Returns the parts of the status that `T` names.
    pub(crate) async fn status<T: DeserializeOwned>(&self) -> Result<T> {
        status(self.home.path(), self.address).await
    }

    /// Returns the resident memory when it no longer changes, or after some seconds.
    pub(crate) async fn idle_rss_kib(&self) -> Result<u64> {
        let mut last = self.child.rss_kib()?;
        for _ in 0..SETTLE_STEPS {
            tokio::time::sleep(SETTLE_STEP).await;
            let now = self.child.rss_kib()?;
            if now == last {
                break;
            }
            last = now;
        }
        Ok(last)
    }
}

/// Returns the `mcpproxy` next to this program, where `cargo build --release` puts it.
pub(crate) fn beside_this_program() -> Result<PathBuf> {
    let program = std::env::current_exe().context("could not find this program")?.with_file_name("mcpproxy");
    if !program.is_file() {
        bail!("`{}` does not exist. Run `cargo build --release` first, or pass --mcpproxy", program.display());
    }
    Ok(program)
}

fn settings(servers: &Servers, beside: Beside<'_>) -> Result<Value> {
    let this = std::env::current_exe().context("could not find this program")?;
    let url = |address: SocketAddr| json!({ "url": format!("http://{address}/mcp") });
    let mut all = json!({
        Server::Sessions.name(): url(servers.sessions),
        Server::Stdio.name(): { "command": this, "args": ["echo", "--server", Server::Stdio.name()] },
    });
    if let (Some(all), Some(address)) = (all.as_object_mut(), servers.stateless) {
        all.insert(Server::Stateless.name().to_owned(), url(address));
    }
    let mut settings = json!({ "mcpServers": all });
    if let Some(settings) = settings.as_object_mut() {
        if let Some(storage) = beside.storage {
            settings.insert("storage".to_owned(), json!({ "url": storage }));
        }
        if let Some(issuer) = beside.issuer {
            let oauth = json!({ "issuer": issuer, "audience": issuer::AUDIENCE });
            settings.insert("agents".to_owned(), json!({ "oauth": oauth }));
        }
        if beside.encoder_off {
            settings.insert("search".to_owned(), json!({ "encoder": "off" }));
        }
    }
    Ok(settings)
}

/// The fields of `gateway.lock` that are needed here.
#[derive(Deserialize)]
struct Lock {
    address: SocketAddr,
}

#[derive(Deserialize)]
struct Tools {
    tools: usize,
}

async fn ready_address(home: &Path) -> Option<SocketAddr> {
    let lock = std::fs::read(home.join("gateway.lock")).ok()?;
    let Lock { address } = serde_json::from_slice(&lock).ok()?;
    let (status, _) = load::fetch(address, "/readyz", HeaderMap::new()).await.ok()?;
    (status == StatusCode::OK).then_some(address)
}

async fn status<T: DeserializeOwned>(home: &Path, address: SocketAddr) -> Result<T> {
    let key = std::fs::read_to_string(home.join("admin.key")).context("could not read mcpproxy's admin key")?;
    let mut headers = HeaderMap::new();
    headers.insert(
        ADMIN_KEY_HEADER,
        HeaderValue::from_str(key.trim()).context("the admin key is not a valid header value")?,
    );
    let (status, body) = load::fetch(address, "/api/v1/status", headers).await?;
    let text = String::from_utf8_lossy(&body);
    if status != StatusCode::OK {
        bail!("mcpproxy refused to report its status: HTTP {status}\n{text}");
    }
    serde_json::from_slice(&body).with_context(|| format!("could not read the status `{text}`"))
}

fn create_token(program: &Path, home: &Path) -> Result<String> {
    let output = Command::new(program)
        .args(["token", "create", "bench", "--grant", rules::PERMISSION, "--home"])
        .arg(home)
        .output()
        .context("could not run `mcpproxy token create`")?;
    let token = String::from_utf8_lossy(&output.stdout).trim().to_owned();
    if !output.status.success() || token.is_empty() {
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        bail!("`mcpproxy token create` ended with {}\n{said}", output.status);
    }
    Ok(token)
}
