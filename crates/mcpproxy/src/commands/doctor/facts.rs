//! Collects everything that the checks look at: files, the running gateway, the database and the port.
//!
//! Collecting never fails. What cannot be read is part of the facts.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::Duration;

use http::Method;
use mcpproxy_core::settings::{self, Settings};
use mcpproxy_core::{DeniedBy, Mistake};
use mcpproxy_store::{
    Checkpoint, Filter, Kind, Location, NotedVerification, Record, Status, Store, StoreError, TokenInfo, VerifyExtent,
    VerifyOptions, VerifyRun, small_chain_lines,
};
use serde_json::Value;
use tokio::time::timeout;

use super::{modes, port};
use crate::agent_clients::file::ClientFile;
use crate::agent_clients::{self, Client, ENTRY, Machine, document};
use crate::client::Rest;
use crate::database::location;
use crate::exit::{Exit, Failure};
use crate::home::Home;
use crate::operator_files::{self, Source, settings_file};
use crate::runtime::last_run::{self, MissingFiles};
use crate::terminal::output::line;
use crate::terminal::time::now_ms;

const VERIFY_TIMEOUT: Duration = Duration::from_secs(10);
/// A gateway that needs longer does not answer.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(5);
/// Lines of a server's standard error to look at.
const LINES: usize = 5;
/// Older records say little about a client, which may have been updated since.
pub(crate) const UNSHOWN_DAYS: i64 = 7;
/// A large log needs a verification of every line within this time.
pub(crate) const FULL_DAYS: i64 = 7;
const DAY_MS: i64 = 24 * 60 * 60 * 1000;
/// The code of a record about a prompt that a client declined without showing it.
const NOT_SHOWN: &str = "approval_not_shown";
const NOT_SHOWN_MAX: usize = 100;

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
    /// Servers with a mistake in the settings file, as this command reads it, with the first mistake of each.
    pub(crate) misconfigured: Vec<(String, String)>,
    pub(crate) missing_files: MissingFiles,
    /// True if a gateway would start on these settings: they are valid, and not every enabled server has a mistake.
    pub(crate) can_start: bool,
    /// Secrets that other users can access, with their modes.
    pub(crate) open_files: Vec<(String, u32)>,
    pub(crate) listen: SocketAddr,
    pub(crate) port: PortState,
    pub(crate) gateway: Result<Option<GatewayFacts>, String>,
    pub(crate) storage: StorageState,
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
    /// Clients with a session.
    pub(crate) clients: Value,
    /// The last line that each unready server wrote to standard error.
    pub(crate) last_lines: BTreeMap<String, String>,
}

/// The state of the database.
pub(crate) enum StorageState {
    Open(StorageFacts),
    /// The first gateway creates it.
    Missing,
    /// The settings name its location, and they cannot be read.
    NeedsSettings,
    Unreachable(String),
}

impl StorageState {
    pub(crate) fn facts(&self) -> Option<&StorageFacts> {
        match self {
            Self::Open(facts) => Some(facts),
            Self::Missing | Self::NeedsSettings | Self::Unreachable(_) => None,
        }
    }
}

pub(crate) struct StorageFacts {
    pub(crate) tokens: Vec<TokenInfo>,
    /// All user accounts.
    pub(crate) users: usize,
    /// User accounts with a second factor. Only they can approve.
    pub(crate) approvers: usize,
    /// The clients that declined an approval prompt without showing it, once for each prompt.
    pub(crate) unshown: Vec<String>,
    pub(crate) chain: ChainState,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ChainState {
    Intact(usize),
    Damaged(String),
    NotVerified(String),
    /// The lines since the last verification are intact. Every line was read at `full_ms`.
    Continued {
        lines: usize,
        full_ms: i64,
    },
    /// Verifying so many lines takes too long for a check that people wait for.
    TooLong {
        lines: usize,
        /// The last verification of every line.
        full_ms: Option<i64>,
    },
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum PortState {
    Free,
    /// The gateway of this data folder holds it.
    Ours,
    /// Another program holds it.
    Taken(Option<String>),
    Unknown(String),
    /// The settings name the port, and they cannot be read.
    NeedsSettings,
}

impl Facts {
    pub(crate) async fn collect(home: &Home, depth: Depth) -> Self {
        let gateway = gateway(home, depth).await;
        let path = home.settings();
        // Of settings in the database, only those of this machine are here.
        let source = operator_files::published::is_published(&path);
        let source = source.map(|is| if is { Source::Database(None) } else { Source::Folder });
        let read = source.and_then(|source| operator_files::read(&path, None, &source));
        let address = match &gateway {
            Ok(Some(gateway)) => {
                gateway.status.get("address").and_then(Value::as_str).and_then(|text| text.parse().ok())
            }
            Ok(None) | Err(_) => None,
        };
        let listen = listen(home);
        let port = match (address, listen) {
            (Some(_), _) => PortState::Ours,
            (None, Some(listen)) => port::state_of(listen),
            (None, None) => PortState::NeedsSettings,
        };
        let misconfigured = read.as_ref().map(|read| mistakes(&read.files.settings)).unwrap_or_default();
        let can_start =
            read.as_ref().is_ok_and(|read| settings_file::check_any_runs(&path, &read.files.settings).is_ok());
        let settings = match read {
            Ok(read) if read.has_settings => Ok(Some(read.files.settings.servers.len())),
            Ok(_) => Ok(None),
            Err(failure) => Err(failure.to_string()),
        };
        let (storage, is_local_token_valid) = match storage(home, depth).await {
            Ok(Some((facts, is_valid))) => (StorageState::Open(facts), is_valid),
            Ok(None) => (StorageState::Missing, None),
            Err(error) if is_about_settings(&error) => (StorageState::NeedsSettings, None),
            Err(error) => (StorageState::Unreachable(format!("{error:#}")), None),
        };
        let missing_files = match &storage {
            StorageState::Open(_) => last_run::missing_files(home).await,
            StorageState::NeedsSettings => MissingFiles::NotChecked("needs valid settings"),
            StorageState::Missing | StorageState::Unreachable(_) => MissingFiles::NotChecked("needs the database"),
        };
        Self {
            home: home.clone(),
            settings_path: path.display().to_string(),
            settings,
            misconfigured,
            missing_files,
            can_start,
            open_files: modes::open_files(home),
            listen: address.or(listen).unwrap_or_else(|| settings::demo().listen),
            port,
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

/// Returns the address in the settings, or `None` if they cannot be read. Contracts and policies do not matter here.
fn listen(home: &Home) -> Option<SocketAddr> {
    let path = home.settings();
    match settings_file::read_text(&path).ok()? {
        None => Some(settings::demo().listen),
        Some((_, text)) => settings_file::check_shape(&path, &text).ok().map(|settings| settings.listen),
    }
}

/// Returns the first mistake of each misconfigured server.
fn mistakes(settings: &Settings) -> Vec<(String, String)> {
    let first = |mistakes: &[Mistake]| mistakes.first().map(ToString::to_string).unwrap_or_default();
    settings.misconfigured().map(|(server, mistakes)| (server.name.to_string(), first(mistakes))).collect()
}

fn is_about_settings(error: &anyhow::Error) -> bool {
    error.downcast_ref::<Failure>().is_some_and(|failure| failure.exit() == Exit::BadSettings)
}

async fn gateway(home: &Home, depth: Depth) -> Result<Option<GatewayFacts>, String> {
    let all = async {
        if home.running()?.is_none() {
            return Ok(None);
        }
        let rest = Rest::connect(home)?;
        let status = rest.ask(Method::GET, "/api/v1/status").await?;
        let servers = rest.ask(Method::GET, "/api/v1/servers").await?;
        let (mut clients, mut last_lines) = (Value::Null, BTreeMap::new());
        if depth == Depth::Everything {
            clients = rest.ask(Method::GET, "/api/v1/clients").await.unwrap_or_default();
            last_lines = self::last_lines(&rest, &servers).await;
        }
        anyhow::Ok(Some(GatewayFacts { status, servers, clients, last_lines }))
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
    let (chain, unshown) = match depth {
        Depth::Everything => (chain(home, &store).await?, unshown(&store).await?),
        Depth::Summary => (ChainState::NotVerified("not verified here".to_owned()), Vec::new()),
    };
    let facts = StorageFacts {
        tokens: store.list_tokens().await?,
        users: store.list_users().await?.len(),
        approvers: store.count_approvers().await?,
        unshown,
        chain,
    };
    store.close().await;
    Ok(Some((facts, is_local_token_valid)))
}

/// Verifies the chain, unless that would take long.
async fn chain(home: &Home, store: &Store) -> anyhow::Result<ChainState> {
    let lines: i64 = store.chains().await?.iter().map(|chain| chain.lines - chain.removed_seq).sum();
    let checkpoints = std::fs::read_to_string(home.checkpoint()).map(|text| Checkpoint::notes(&text));
    let key = home.existing_signing_key().ok().flatten();
    let options = VerifyOptions {
        checkpoints: checkpoints.unwrap_or_default(),
        trusted: key.map(|key| key.verifier().clone()).into_iter().collect(),
    };
    if lines > small_chain_lines() {
        return long_chain(home, store, options, usize::try_from(lines).unwrap_or_default()).await;
    }
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

/// Verifies the new lines of a log that is too large to read here. The database claims its size, so a file that says when
/// everything was verified is not enough.
async fn long_chain(home: &Home, store: &Store, evidence: VerifyOptions, lines: usize) -> anyhow::Result<ChainState> {
    let full_ms = match store.noted_verification(&home.verified()) {
        Some(NotedVerification { found_damage: true, .. }) => {
            return Ok(ChainState::Damaged("the last verification found damage".to_owned()));
        }
        Some(NotedVerification { full_ms, found_damage: false }) => Some(full_ms),
        None => None,
    };
    let is_recent = |full_ms: i64| (0..FULL_DAYS * DAY_MS).contains(&(now_ms() - full_ms));
    if !full_ms.is_some_and(is_recent) {
        // Every line would be read.
        return Ok(ChainState::TooLong { lines, full_ms });
    }
    let run = VerifyRun {
        evidence,
        file: Some(home.verified()),
        extent: VerifyExtent::SinceLast,
        now_ms: now_ms(),
        small_lines: small_chain_lines(),
    };
    let found = match timeout(VERIFY_TIMEOUT, store.verify_log(run, &mut |_| {})).await {
        Ok(found) => found?,
        Err(_) => return Ok(ChainState::TooLong { lines, full_ms }),
    };
    Ok(match found.last_full_ms {
        Some(full_ms) if found.is_intact() => ChainState::Continued { lines, full_ms },
        Some(_) | None => ChainState::Damaged(found.summary()),
    })
}

/// Returns the client of each recent prompt that a client declined without showing it.
async fn unshown(store: &Store) -> anyhow::Result<Vec<String>> {
    let filter = Filter {
        kind: Some(Kind::Approval),
        status: Some(Status::Error),
        since_ms: Some(now_ms() - UNSHOWN_DAYS * DAY_MS),
        text: Some(NOT_SHOWN.to_owned()),
        ..Filter::default()
    };
    let page = store.list(&filter, None, NOT_SHOWN_MAX).await?;
    let unshown =
        page.records.into_iter().filter(|record| record.code.as_ref().is_some_and(|c| c.for_json() == NOT_SHOWN));
    let client = |record: Record| {
        let metadata: Value = serde_json::from_str(record.metadata.for_json()).unwrap_or_default();
        match DeniedBy::read(metadata.get("by").and_then(Value::as_str)) {
            DeniedBy::Client(client) => client.for_terminal().into_owned(),
            DeniedBy::User(_) | DeniedBy::AdminKey | DeniedBy::Unknown => record.agent.unwrap_or_default(),
        }
    };
    Ok(unshown.map(client).collect())
}
