//! Collects everything that the checks look at: files, the running gateway, the database and the port.
//!
//! Collecting never fails. What cannot be read is part of the facts.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt as _;
use std::time::Duration;

use http::Method;
use mcpproxy_core::settings;
use mcpproxy_store::{Checkpoint, Location, Store, StoreError, TokenInfo, VerifyOptions};
use serde_json::Value;
use tokio::time::timeout;

use super::port;
use crate::agent_clients::file::ClientFile;
use crate::agent_clients::{self, Client, ENTRY, Machine, document};
use crate::client::Rest;
use crate::database::location;
use crate::home::Home;
use crate::operator_files::{self, settings_file};
use crate::terminal::output::line;
use crate::terminal::time::now_ms;

/// Verifying more lines takes too long for a check that people wait for.
const VERIFIED_LINES_MAX: i64 = 200_000;
const VERIFY_TIMEOUT: Duration = Duration::from_secs(10);
/// A gateway that needs longer does not answer.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(5);
/// Lines of a server's standard error to look at.
const LINES: usize = 5;

/// The amount of facts to collect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Depth {
    /// Everything that `status` shows.
    Summary,
    Everything,
}

pub(crate) struct Facts {
    pub(crate) home: Home,
    pub(crate) settings_path: String,
    /// The number of servers in the settings file, `None` without a file, or all errors.
    pub(crate) settings: Result<Option<usize>, String>,
    /// Secrets that other users can access, with their modes.
    pub(crate) open_files: Vec<(String, u32)>,
    pub(crate) listen: SocketAddr,
    pub(crate) port: PortState,
    pub(crate) gateway: Result<Option<GatewayFacts>, String>,
    pub(crate) storage: Result<Option<StorageFacts>, String>,
    pub(crate) is_local_token_valid: Option<bool>,
    /// The clients that are installed on this machine.
    pub(crate) clients: Vec<ClientFacts>,
    pub(crate) now_ms: i64,
}

/// An installed client, such as Cursor.
pub(crate) struct ClientFacts {
    pub(crate) id: &'static str,
    pub(crate) title: &'static str,
    /// True if its file has an entry for mcpproxy. The error says why the file cannot be read.
    pub(crate) is_connected: Result<bool, String>,
}

/// Answers of the running gateway.
pub(crate) struct GatewayFacts {
    pub(crate) status: Value,
    pub(crate) servers: Value,
    /// Denied approval requests.
    pub(crate) denied: Value,
    /// Clients with a session.
    pub(crate) clients: Value,
    /// The last line that each unready server wrote to standard error.
    pub(crate) last_lines: BTreeMap<String, String>,
}

pub(crate) struct StorageFacts {
    pub(crate) tokens: Vec<TokenInfo>,
    pub(crate) users: usize,
    pub(crate) chain: ChainState,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ChainState {
    Intact(usize),
    Damaged(String),
    NotVerified(String),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum PortState {
    Free,
    /// The gateway of this data folder holds it.
    Ours,
    /// Another program holds it.
    Taken(Option<String>),
    Unknown(String),
}

impl Facts {
    pub(crate) async fn collect(home: &Home, depth: Depth) -> Self {
        let gateway = gateway(home, depth).await;
        let path = home.settings();
        let read = operator_files::read(&path, None);
        let listen = read.as_ref().map_or_else(|_| settings::demo().listen, |read| read.files.settings.listen);
        let address = match &gateway {
            Ok(Some(gateway)) => {
                gateway.status.get("address").and_then(Value::as_str).and_then(|text| text.parse().ok())
            }
            Ok(None) | Err(_) => None,
        };
        let settings = match read {
            Ok(read) if read.has_settings => Ok(Some(read.files.settings.servers.len())),
            Ok(_) => Ok(None),
            Err(failure) => Err(failure.to_string()),
        };
        let (storage, is_local_token_valid) = match storage(home, depth).await {
            Ok(Some((facts, is_valid))) => (Ok(Some(facts)), is_valid),
            Ok(None) => (Ok(None), None),
            Err(error) => (Err(format!("{error:#}")), None),
        };
        Self {
            home: home.clone(),
            settings_path: path.display().to_string(),
            settings,
            open_files: open_files(home),
            listen: address.unwrap_or(listen),
            port: if address.is_some() { PortState::Ours } else { port::state_of(listen) },
            gateway,
            storage,
            is_local_token_valid,
            clients: if depth == Depth::Everything { clients() } else { Vec::new() },
            now_ms: now_ms(),
        }
    }

    /// Returns a command for the data folder of these facts.
    pub(crate) fn command(&self, rest: &str) -> String {
        self.home.command("mcpproxy", rest)
    }
}

async fn gateway(home: &Home, depth: Depth) -> Result<Option<GatewayFacts>, String> {
    let all = async {
        if home.running()?.is_none() {
            return Ok(None);
        }
        let rest = Rest::connect(home)?;
        let status = rest.ask(Method::GET, "/api/v1/status").await?;
        let servers = rest.ask(Method::GET, "/api/v1/servers").await?;
        let (mut denied, mut clients, mut last_lines) = (Value::Null, Value::Null, BTreeMap::new());
        if depth == Depth::Everything {
            denied = rest.ask(Method::GET, "/api/v1/approvals?state=denied&limit=100").await?;
            clients = rest.ask(Method::GET, "/api/v1/clients").await.unwrap_or_default();
            last_lines = self::last_lines(&rest, &servers).await;
        }
        anyhow::Ok(Some(GatewayFacts { status, servers, denied, clients, last_lines }))
    };
    match timeout(ANSWER_TIMEOUT, all).await {
        Ok(answered) => answered.map_err(|error| format!("{error:#}")),
        Err(_) => Err(format!("no answer within {} seconds", ANSWER_TIMEOUT.as_secs())),
    }
}

/// Looks for an entry in the file of each installed client.
fn clients() -> Vec<ClientFacts> {
    let Some(machine) = Machine::here() else { return Vec::new() };
    let facts = |client: &&'static Client| {
        let path = client.config_path(&machine)?;
        let is_connected = match ClientFile::read(&path) {
            Err(failure) => Err(failure.to_string()),
            Ok(file) => is_connected(client, file.text.as_deref().unwrap_or_default()),
        };
        Some(ClientFacts { id: client.id, title: client.title, is_connected })
    };
    agent_clients::installed(&machine).iter().filter_map(facts).collect()
}

fn is_connected(client: &Client, text: &str) -> Result<bool, String> {
    let value = document::read(text, client.config.format).map_err(|error| error.to_string())?;
    let path: Vec<String> = client.config.servers.iter().chain([&ENTRY]).map(|key| (*key).to_owned()).collect();
    Ok(document::get(&value, &path).is_some())
}

/// Returns the last line of each server that is not ready.
async fn last_lines(rest: &Rest, servers: &Value) -> BTreeMap<String, String> {
    let mut last = BTreeMap::new();
    for server in servers.get("servers").and_then(Value::as_array).into_iter().flatten() {
        let text = |name: &str| server.get(name).and_then(Value::as_str).unwrap_or_default();
        let (name, state) = (text("name"), text("state"));
        if ["ready", "disabled"].contains(&state) {
            continue;
        }
        let path = format!("/api/v1/servers/{name}/logs?lines={LINES}");
        let log = rest.ask(Method::GET, &path).await.unwrap_or_default();
        let lines = log.get("lines").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
        let said = lines.iter().rev().filter_map(Value::as_str).find(|line| !line.trim().is_empty());
        last.extend(said.map(|said| (name.to_owned(), line(said.trim()))));
    }
    last
}

/// Reads the database. Returns `None` if it does not exist yet.
async fn storage(home: &Home, depth: Depth) -> anyhow::Result<Option<(StorageFacts, Option<bool>)>> {
    let location = location(home)?;
    if let Location::Sqlite(path) = &location
        && !path.try_exists()?
    {
        return Ok(None);
    }
    let store = match Store::open_read_only(&location).await {
        Ok(store) => store,
        Err(StoreError::NotReady { .. }) => return Ok(None),
        Err(error) => return Err(error.into()),
    };
    let is_local_token_valid = match home.existing_agent_token() {
        Ok(token) => Some(store.find_agent(&token).await?.is_some()),
        Err(_) => None,
    };
    let chain = match depth {
        Depth::Everything => chain(home, &store).await?,
        Depth::Summary => ChainState::NotVerified("not verified here".to_owned()),
    };
    let facts = StorageFacts { tokens: store.list_tokens().await?, users: store.list_users().await?.len(), chain };
    store.close().await;
    Ok(Some((facts, is_local_token_valid)))
}

/// Verifies the chain, unless that would take long.
async fn chain(home: &Home, store: &Store) -> anyhow::Result<ChainState> {
    let lines: i64 = store.chains().await?.iter().map(|chain| chain.lines - chain.removed_seq).sum();
    if lines > VERIFIED_LINES_MAX {
        return Ok(ChainState::NotVerified(format!("{lines} lines take too long to verify here")));
    }
    let checkpoints = std::fs::read_to_string(home.checkpoint()).map(|text| Checkpoint::notes(&text));
    let key = home.existing_signing_key().ok().flatten();
    let options = VerifyOptions {
        checkpoints: checkpoints.unwrap_or_default(),
        trusted: key.map(|key| key.verifier().clone()).into_iter().collect(),
    };
    let verdicts = match timeout(VERIFY_TIMEOUT, store.verify(options, &mut |_| {})).await {
        Ok(verdicts) => verdicts?,
        Err(_) => return Ok(ChainState::NotVerified("verifying takes too long here".to_owned())),
    };
    let damage = verdicts.iter().find_map(|verdict| Some((verdict, verdict.damage.as_ref()?)));
    Ok(match damage {
        Some((verdict, damage)) => ChainState::Damaged(format!("chain {}: {damage}", verdict.chain)),
        None => ChainState::Intact(usize::try_from(lines).unwrap_or_default()),
    })
}

/// Returns the secrets in the data folder that other users can access, and the folder itself if they can write to it.
pub(super) fn open_files(home: &Home) -> Vec<(String, u32)> {
    let mode = |path: &std::path::Path| std::fs::metadata(path).ok().map(|found| found.permissions().mode() & 0o777);
    let keys = ["admin.key", "agent.token", "signing.key"].as_slice();
    // The folder protects the database, unless others may enter it.
    let is_entered = mode(home.folder()).is_some_and(|mode| mode & 0o011 != 0);
    let databases = if is_entered { ["mcpproxy.db", "mcpproxy.db-wal"].as_slice() } else { &[] };
    let secrets = keys.iter().chain(databases).map(|name| (home.folder().join(name), 0o077));
    let folder = std::iter::once((home.folder().to_owned(), 0o022));
    // Without secrets in it, others may read the settings, but never write them.
    let files = std::iter::once((home.settings(), if has_secrets(home) { 0o077 } else { 0o022 }));
    let open = folder.chain(files).chain(secrets).filter_map(|(path, refused)| {
        let mode = mode(&path)?;
        (mode & refused != 0).then(|| (path.display().to_string(), mode))
    });
    open.collect()
}

/// Returns whether the settings file itself contains secrets, instead of references to them.
fn has_secrets(home: &Home) -> bool {
    let path = home.settings();
    let Ok(Some((_, text))) = settings_file::read_text(&path) else { return false };
    settings_file::check_shape(&path, &text).is_ok_and(|settings| !settings.inline_secrets().is_empty())
}
