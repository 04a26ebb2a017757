//! Wires up and runs a gateway on a data folder, for `serve` and `stdio`.
//!
//! [`Runtime::start`] builds everything in this order, and each step needs the ones before it:
//!
//! 1. Read the operator's files: of the data folder, or of the newest version in the database. An invalid file stops the start, and so do settings without a single usable server.
//! 2. Lock the data folder, so that one gateway owns the keys and the log.
//! 3. Bind the port, on both loopback addresses.
//! 4. Open the database and the activity log, unless the log is damaged. Calls that were open at the last stop are
//!    marked as interrupted. If contract or policy files of the last run are gone, the start stops here.
//! 5. Create or read the token of the local agent.
//! 6. Start the gateway, which connects to the servers in the background.
//! 7. Build the web application, and write the address into `gateway.lock`. From here on, other commands find the
//!    gateway.
//!
//! [`Runtime::run_until`] then serves requests and reloads changed files until a signal arrives or the client of
//! `stdio` disconnects. It stops in order: end open streams, wait up to `shutdown_grace` for running calls, stop the
//! servers, close the connections of agents, and only then finish the log. So every call that was answered has its outcome
//! on disk. The lock is released last, so that the next gateway finds everything closed.
//!
//! This is the only place that knows the gateway, the store and the web application together. They get each other as
//! values, without global state, so that a test can start several gateways in one process.

mod banner;
mod changes;
mod client_entries;
mod end_signal;
mod file_events;
pub(crate) mod first_user;
pub(crate) mod last_run;
mod listen;
pub(crate) mod local_agent;
pub(crate) mod notices;
pub(crate) mod open_log;
mod own_tls;
mod reload;
mod telemetry;
mod versions;
mod weigh;

use std::future::Future;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use anyhow::Context as _;
use mcpproxy_core::lock::Lock as LockFile;
use mcpproxy_core::settings::Settings;
use mcpproxy_gateway::{Files, Gateway, GatewayEvent, Introduction, Options, Reloader, ToolLists};
use mcpproxy_store::{Ledger, Location, SearchIndexer, Store};
use mcpproxy_web::editor::{ContractsEditor, ServersEditor};
use mcpproxy_web::{
    AdminKey, App, Certificates, ConnectionLimits, Facts, Guard, HttpServer, Listeners, Overridden, Web,
};
use tokio::sync::broadcast;
use tokio_util::sync::CancellationToken;

use self::client_entries::ClientEntries;
use self::last_run::LastRun;
use self::listen::{bind, bind_metrics};
use self::local_agent::LocalAgent;
use self::reload::{ListenerFacts, Reload, WatchedFiles};
use self::versions::NewestVersion;
use self::weigh::KnownTools;
use crate::database::{check_not_gone, location_of, not_opened};
use crate::home::Home;
use crate::home::lock::Lock;
use crate::imports::editor::SettingsEditor;
use crate::imports::version_editor::VersionEditor;
use crate::operator_files::{
    self, ContractFiles, FileStamps, OperatorFiles, PublishedContracts, Source, VersionInForce, published,
    settings_file,
};
use crate::terminal::output::tell;
use crate::terminal::time::now_ms;

pub(crate) use self::banner::banner;
pub(crate) use self::end_signal::EndSignal;
pub(crate) use self::listen::{Listen, own_url};

/// Time to write the last records, on a disk that may be slow or gone.
const FINISH_TIMEOUT: Duration = Duration::from_secs(8);
/// Time to close connections whose last answer is being written.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(1);
/// Open files for scrapes of metrics on an address of their own, which bounds the connections.
const METRICS_FILES: u64 = 256;

/// Findings at the start that the operator accepts. Without a word of the operator, each of them stops the start.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Accepted {
    /// A damaged log: a new chain begins, and its first record says why.
    pub(crate) damage: bool,
    /// Contract or policy files of the last run that are gone.
    pub(crate) removed: bool,
}

/// A running gateway.
pub(crate) struct Runtime {
    pub(crate) gateway: Gateway,
    pub(crate) address: SocketAddr,
    pub(crate) local: LocalAgent,
    pub(crate) settings: Settings,
    /// Base of links for users.
    pub(crate) base_url: String,
    pub(crate) store: Store,
    /// False if the demo server runs because there is no settings file.
    pub(crate) has_settings_file: bool,
    server: HttpServer,
    /// Answers `/metrics` on an address of its own.
    metrics_server: Option<HttpServer>,
    /// Ends event streams, which would otherwise stay open.
    stopping: CancellationToken,
    reload: Reload,
    /// Writes the index of the text search, beside all calls.
    search_indexer: SearchIndexer,
    /// Opened when the gateway started, so that no change is missed.
    changes: broadcast::Receiver<GatewayEvent>,
    /// Released last, so that the next gateway finds everything closed.
    _lock: Arc<Mutex<Lock>>,
}

impl Runtime {
    /// With a lock file, exactly the definitions in it are accepted.
    pub(crate) async fn start(
        home: &Home,
        listen: Listen,
        accepted: Accepted,
        locked: Option<LockFile>,
    ) -> anyhow::Result<Self> {
        home.create()?;
        let path = home.settings();
        let (source, store) = source_of_files(home, accepted).await?;
        let (seen, read) = read_files(&path, &source)?;
        let settings = Settings::clone(&read.files.settings);
        let (lock, open_files) = (home.take_lock()?, raise_file_limit());

        let options = (listen.option(), locked.is_some());
        let listeners = bind(&settings, listen).await?;
        let address = listeners.main.local_addr()?;
        let (metrics_listeners, metrics_address) = bind_metrics(&settings).await?.unzip();
        let location = location_of(home, &settings.storage);
        let store = opened_or_open(store, home, &location, accepted).await?;
        let ledger = open_log::open(home, &store, &settings, accepted).await?;
        let own_name = local_agent::name(&location, ledger.verifier());
        let last_run = LastRun::load(&store, &own_name).await?.compare(home, (&source, &read), accepted)?;
        let local = local_agent::open(home, &store, &own_name).await?;
        let OperatorFiles { files, has_settings: has_settings_file, referenced, texts, tls, .. } = read;
        let tls = tls.map(Certificates::new);

        let own_url = own_url(&settings, address);
        let base_url = settings.approvals.public_url.clone().unwrap_or_else(|| own_url.clone());
        let gateway = start_gateway(home, &files, &store, &ledger, own_url, locked)?;
        let changes = gateway.events();
        gateway.join(introduction(address));
        let remember = last_run.replace(&gateway, texts).await?;
        let (in_force, newest) = (note_source(&gateway, &source), NewestVersion::new(&store));
        let guard = Guard::new(address.port(), &settings.allowed_hosts, &settings.allowed_origins);
        let (stopping, search_indexer) = (CancellationToken::new(), SearchIndexer::start(&store, &ledger, now_ms));
        let (reloader, requests) = Reloader::channel();
        let facts = Facts { metrics_address, tls: tls.clone(), ..facts(home, address, &base_url, options) };
        let metrics_tls = facts.metrics_tls();
        let (app, metrics_app) = mcpproxy_web::apps(Web {
            gateway: gateway.clone(),
            reloader,
            store: store.clone(),
            ledger,
            admin_key: AdminKey::new(home.admin_key_or_new()?),
            guard: guard.clone(),
            facts,
            stopping: stopping.clone(),
            servers_editor: servers_editor(home, &source, &in_force),
            contracts_editor: contracts_editor(&path, &source, &in_force, &gateway),
            client_settings: Box::new(ClientEntries::new(&base_url)),
        });
        let server = HttpServer::new(listeners, app, ConnectionLimits::for_open_files(open_files), tls.clone());
        let metrics_server = metrics_listeners.zip(metrics_app).map(|parts| metrics_server(parts, metrics_tls));
        let (lock, tls) = own_tls::announce(lock, address, &base_url, tls)?;
        let files = WatchedFiles {
            path,
            source,
            in_force,
            referenced,
            tls_paths: Vec::new(),
            seen,
            current: files,
            wanted: None,
            known: KnownTools::new(ToolLists::new(home.tools())),
            remember,
            gateway: gateway.clone(),
            guard,
            listener: ListenerFacts { address, tls },
            read: operator_files::read,
        };
        Ok(Self {
            gateway,
            address,
            local,
            settings,
            base_url,
            store,
            has_settings_file,
            server,
            metrics_server,
            stopping,
            reload: Reload { files, requests, newest },
            search_indexer,
            changes,
            _lock: lock,
        })
    }

    /// Serves until `end` completes, then stops everything in order.
    pub(crate) async fn run_until<T>(self, end: impl Future<Output = T>) -> T {
        // Joined, so that a part that returns takes nothing with it. As branches of the `select!`, the first one to
        // return would end the others, `end` included.
        let metrics = async {
            if let Some(server) = &self.metrics_server {
                server.run().await;
            }
        };
        let parts = async {
            tokio::join!(self.server.run(), metrics, self.reload.run(), changes::follow(&self.gateway, self.changes));
        };
        let ended = tokio::select! {
            ended = end => ended,
            () = parts => std::future::pending().await,
        };
        self.stopping.cancel();
        drop(self.search_indexer);
        if let Some(server) = &self.metrics_server {
            server.cut().cancel();
        }
        stop(self.server, &self.gateway).await;
        ended
    }
}

/// Finds the source of the operator's files. Opens the database if they are there.
async fn source_of_files(home: &Home, accepted: Accepted) -> anyhow::Result<(Source, Option<Store>)> {
    if !published::is_published(&home.settings())? {
        return Ok((Source::Folder, None));
    }
    let location = crate::database::location(home)?;
    let store = open_store(home, &location, accepted).await?;
    let newest = versions::find(&store, None).await?;
    Ok((Source::Database(newest.map(Arc::new)), Some(store)))
}

/// Tells the gateway which version is in force.
fn note_source(gateway: &Gateway, source: &Source) -> VersionInForce {
    let in_force = VersionInForce::default();
    match source {
        Source::Folder => {}
        Source::Database(Some(version)) => {
            gateway.set_version(version.head.number);
            in_force.set(version);
        }
        Source::Database(None) => {
            gateway.set_version(0);
            gateway.reload_failed(published::nothing_published().to_string());
        }
    }
    in_force
}

fn servers_editor(home: &Home, source: &Source, in_force: &VersionInForce) -> Box<dyn ServersEditor> {
    match source {
        Source::Folder => Box::new(SettingsEditor::new(home)),
        Source::Database(_) => Box::new(VersionEditor::new(home, in_force)),
    }
}

fn contracts_editor(
    path: &Path,
    source: &Source,
    in_force: &VersionInForce,
    gateway: &Gateway,
) -> Box<dyn ContractsEditor> {
    match source {
        Source::Folder => Box::new(ContractFiles::new(path)),
        Source::Database(_) => Box::new(PublishedContracts::new(in_force.clone(), gateway.clone())),
    }
}

/// Reads the operator's files, and warns about what is ignored in them.
fn read_files(path: &Path, source: &Source) -> anyhow::Result<(FileStamps, OperatorFiles)> {
    let seen = operator_files::inspect(path, &[]);
    match source {
        Source::Folder => seen.warn_of_ignored(),
        Source::Database(_) => published::warn_of_folders(path),
    }
    let read = operator_files::read(path, None, source)?;
    let settings = &read.files.settings;
    settings_file::check_any_runs(path, settings)?;
    settings_file::warning_lines(path, &settings.warnings).iter().for_each(|warning| tell(warning));
    Ok((seen, read))
}

async fn opened_or_open(
    opened: Option<Store>,
    home: &Home,
    location: &Location,
    accepted: Accepted,
) -> anyhow::Result<Store> {
    match opened {
        Some(store) => Ok(store),
        None => open_store(home, location, accepted).await,
    }
}

async fn open_store(home: &Home, location: &Location, accepted: Accepted) -> anyhow::Result<Store> {
    if !accepted.damage {
        check_not_gone(home, location)?;
    }
    Store::open(location).await.map_err(|error| not_opened(home, location, error))
}

fn start_gateway(
    home: &Home,
    files: &Files,
    store: &Store,
    ledger: &Ledger,
    base_url: String,
    locked: Option<LockFile>,
) -> anyhow::Result<Gateway> {
    Ok(Gateway::start(Options {
        files: files.clone(),
        store: store.clone(),
        ledger: ledger.clone(),
        logs: home.logs(),
        tools: home.tools(),
        base_url,
        demo_command: demo_command()?,
        lock: locked.map(Arc::new),
        sealing_key: home.sealing_key_or_new()?,
        telemetry: telemetry::start()?,
    }))
}

/// Serves metrics on an address of their own.
fn metrics_server((listeners, app): (Listeners, App), tls: Option<Certificates>) -> HttpServer {
    HttpServer::new(listeners, app, ConnectionLimits::for_open_files(METRICS_FILES), tls)
}

/// `options` are the one that replaces `listen`, and whether a lock file was given.
fn facts(home: &Home, address: SocketAddr, base_url: &str, options: (Option<&'static str>, bool)) -> Facts {
    Facts {
        version: env!("CARGO_PKG_VERSION"),
        address: address.to_string(),
        base_url: base_url.to_owned(),
        tls: None,
        started: Instant::now(),
        metrics_address: None,
        settings_path: home.settings(),
        overridden: overridden(options, address),
        home_option: home.option(),
        now_ms,
    }
}

/// Lists the settings that the command line replaces. A lock file decides about every definition, so the settings of the
/// quarantine have no effect.
fn overridden((listen, is_locked): (Option<&'static str>, bool), address: SocketAddr) -> Vec<Overridden> {
    const LOCKED: &str = "only what the lock file names";
    let listen = listen.map(|by| Overridden { key: "listen", value: address.to_string(), by });
    let trust = ["trust.first_sight", "trust.changes"].into_iter().filter(|_| is_locked);
    let trust = trust.map(|key| Overridden { key, value: LOCKED.to_owned(), by: "--locked" });
    listen.into_iter().chain(trust).collect()
}

/// Stops everything in order. The log closes when no answer can leave any more.
async fn stop(server: HttpServer, gateway: &Gateway) {
    let (cut, closed) = (server.cut(), CancellationToken::new());
    let all_closed = closed.clone();
    tokio::spawn(async move {
        server.finish().await;
        all_closed.cancel();
    });
    let grace = gateway.shutdown_grace();
    let drained = async { tokio::join!(closed.cancelled(), gateway.drain()) };
    if tokio::time::timeout(grace, drained).await.is_err() {
        tracing::warn!("some calls did not end within `shutdown_grace`, so their servers are stopped now");
    }
    gateway.stop_servers().await;
    let _late = tokio::time::timeout(CLOSE_TIMEOUT, closed.cancelled()).await;
    cut.cancel();
    if tokio::time::timeout(FINISH_TIMEOUT, gateway.finish()).await.is_err() {
        tracing::warn!("stopped before the log was complete");
    }
    mcpproxy_gateway::end_orphans();
}

/// Returns the command that starts the demo server: this program.
fn demo_command() -> anyhow::Result<Vec<String>> {
    let program = std::env::current_exe().context("could not find the path of this program")?;
    Ok(vec![program.display().to_string(), "demo-server".to_owned()])
}

/// Says who this gateway is, for others that share its database.
fn introduction(address: SocketAddr) -> Introduction {
    let version = env!("CARGO_PKG_VERSION").to_owned();
    Introduction { name: machine_name(), address: address.to_string(), version }
}

/// Returns the name of this machine, for the list of gateways. In a container, that is the name of the container or pod.
fn machine_name() -> String {
    rustix::system::uname().nodename().to_string_lossy().into_owned()
}

/// Raises the limit of open files, and returns it. Every connection needs one, and the default limit is often 1024.
fn raise_file_limit() -> u64 {
    use rustix::process::{Resource, getrlimit, setrlimit};
    let mut limit = getrlimit(Resource::Nofile);
    limit.current = limit.maximum;
    if let Err(error) = setrlimit(Resource::Nofile, limit) {
        tracing::debug!(%error, "could not raise the limit of open files");
    }
    // `None` stands for no limit.
    getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_replace_settings() {
        let address: SocketAddr = "127.0.0.1:9".parse().unwrap();
        let check = |listen: &Listen, is_locked: bool, expected: &[&str]| {
            let found = overridden((listen.option(), is_locked), address);
            let found: Vec<String> = found.iter().map(|one| format!("{} {} {}", one.key, one.value, one.by)).collect();
            assert_eq!(found, expected);
        };
        check(&Listen::Exactly(None), false, &[]);
        check(&Listen::Exactly(Some(address)), false, &["listen 127.0.0.1:9 --listen"]);
        check(&Listen::Somewhere, false, &["listen 127.0.0.1:9 mcpproxy stdio"]);
        let trust = ["first_sight", "changes"].map(|key| format!("trust.{key} only what the lock file names --locked"));
        check(&Listen::Exactly(None), true, &trust.each_ref().map(String::as_str));
    }
}
