//! A separate gateway and store for each test.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use http::{HeaderMap, Method, Request, Response, StatusCode};
use http_body_util::BodyExt;
use mcpproxy_core::settings::{
    EncoderUse, Retention, SearchSettings, Secret, ServerSettings, Settings, TransportSettings, TrustSettings,
};
use mcpproxy_core::trust::{OnChange, Welcome};
use mcpproxy_core::{Agent, Scope, ServerName};
use mcpproxy_gateway::{Files, Gateway, Options, ServerStatus};
use mcpproxy_store::{
    Filter, Kind, Ledger, LedgerOptions, Location, Record, RecordId, SealingKey, SigningKey, Store, WholeRecord,
};
use tempfile::TempDir;
use tower::ServiceExt;

/// Timeout of every wait. Only a bug reaches it.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);

const DATABASE: &str = "mcpproxy.db";

pub(crate) struct Rig {
    pub(crate) gateway: Gateway,
    pub(crate) store: Store,
    /// The gateway's own handle for writing records.
    pub(crate) ledger: Ledger,
    folder: Arc<TempDir>,
    tokens: AtomicU8,
}

/// An HTTP response, read to its end.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    pub(crate) body: String,
}

impl Rig {
    /// Starts a gateway and waits for the first connection attempt of every server.
    pub(crate) async fn start(files: impl Into<Files>) -> Self {
        let rig = Self::launch(files).await;
        within(rig.gateway.ready()).await;
        rig
    }

    pub(crate) async fn launch(files: impl Into<Files>) -> Self {
        Self::launch_in(Arc::new(tempfile::tempdir().unwrap()), 7, files).await
    }

    /// Starts another gateway on the same store, as a replica.
    pub(crate) async fn beside(&self, files: impl Into<Files>) -> Self {
        let rig = Self::launch_in(Arc::clone(&self.folder), 8, files).await;
        within(rig.gateway.ready()).await;
        rig
    }

    /// Stops the gateway and starts another on the same store.
    pub(crate) async fn again(self, files: impl Into<Files>) -> Self {
        within(self.gateway.stop()).await;
        let rig = Self::after(self.folder(), files).await;
        rig.tokens.store(self.tokens.load(Ordering::Relaxed), Ordering::Relaxed);
        rig
    }

    /// Returns the data folder, which survives a crash of the gateway.
    pub(crate) fn folder(&self) -> Arc<TempDir> {
        Arc::clone(&self.folder)
    }

    /// Starts a gateway on the data folder of another.
    pub(crate) async fn after(folder: Arc<TempDir>, files: impl Into<Files>) -> Self {
        let rig = Self::launch_in(folder, 7, files).await;
        within(rig.gateway.ready()).await;
        rig
    }

    async fn launch_in(folder: Arc<TempDir>, seed: u8, files: impl Into<Files>) -> Self {
        let store = Store::open(&database(&folder)).await.unwrap();
        let options = LedgerOptions {
            key: SigningKey::from_seed(&[seed; 32]).unwrap(),
            newest_checkpoint: None,
            checkpoints_to: None,
            retention: Retention::default(),
            patience: std::time::Duration::from_secs(20),
            now_ms: || 0,
        };
        let ledger = Ledger::start(&store, options).await.unwrap();
        let logs = folder.path().to_owned();
        let demo_command = vec![binary("demo-server").display().to_string()];
        let base_url = "http://localhost:8080".to_owned();
        let files = files.into();
        let (stored, written) = (store.clone(), ledger.clone());
        let tools = folder.path().join("tools");
        let options = Options {
            files,
            store: stored,
            ledger: written,
            logs,
            tools,
            base_url,
            demo_command,
            lock: None,
            sealing_key: SealingKey::from_bytes(&[7; 32]).unwrap(),
            telemetry: Default::default(),
        };
        let gateway = Gateway::start(options);
        Self { gateway, store, ledger, folder, tokens: AtomicU8::new(1) }
    }

    pub(crate) fn database_file(&self) -> PathBuf {
        self.folder.path().join(DATABASE)
    }

    pub(crate) fn router(&self) -> Router {
        mcpproxy_gateway::router(&self.gateway)
    }

    /// Creates a token for an agent with every permission.
    pub(crate) async fn token(&self, name: &str) -> String {
        self.token_for(&Agent { name: name.to_owned(), scope: Scope::everything() }).await
    }

    pub(crate) async fn token_for(&self, agent: &Agent) -> String {
        let random = [self.tokens.fetch_add(1, Ordering::Relaxed); 32];
        self.store.create_token(&agent.name, &agent.scope, random, 0).await.unwrap()
    }

    pub(crate) async fn revoke(&self, agent: &str) {
        self.store.revoke_token(agent, 1).await.unwrap();
    }

    /// Sends a request. The body of the response may be an open stream.
    pub(crate) async fn open(&self, request: Request<Body>) -> Response<Body> {
        within(self.router().oneshot(request)).await.unwrap()
    }

    pub(crate) async fn send(&self, request: Request<Body>) -> Answer {
        let (parts, body) = self.open(request).await.into_parts();
        let bytes = within(body.collect()).await.unwrap().to_bytes();
        Answer { status: parts.status, headers: parts.headers, body: String::from_utf8(bytes.to_vec()).unwrap() }
    }

    pub(crate) fn server(&self, name: &str) -> ServerStatus {
        self.gateway.servers().into_iter().find(|server| server.name.as_str() == name).unwrap()
    }

    /// Waits until a server's status matches. It is checked after every change of a server.
    pub(crate) async fn until(&self, name: &str, wanted: impl Fn(&ServerStatus) -> bool) -> ServerStatus {
        let reached = async {
            loop {
                let settled = self.gateway.settled();
                let status = self.server(name);
                if wanted(&status) {
                    return status;
                }
                settled.await;
            }
        };
        within(reached).await
    }

    /// Stops the gateway, which flushes everything to disk. Returns the records of calls and refusals, oldest first.
    pub(crate) async fn records(self) -> Vec<String> {
        self.all_records().await.iter().filter(|r| matches!(r.kind, Kind::Call | Kind::Refusal)).map(line).collect()
    }

    pub(crate) async fn all_records(self) -> Vec<Record> {
        self.whole_records().await.into_iter().map(|whole| whole.record).collect()
    }

    /// Stops the gateway, which flushes everything to disk. Returns the store, opened for reading, and its folder.
    pub(crate) async fn stopped(self) -> (Store, Arc<TempDir>) {
        within(self.gateway.stop()).await;
        let store = Store::open_read_only(&database(&self.folder)).await.unwrap();
        (store, self.folder)
    }

    /// Returns all records with arguments and results.
    pub(crate) async fn whole_records(self) -> Vec<WholeRecord> {
        within(self.gateway.stop()).await;
        let store = Store::open_read_only(&database(&self.folder)).await.unwrap();
        let mut records = store.list(&Filter::default(), None, 500).await.unwrap().records;
        records.reverse();
        let ids: Vec<RecordId> = records.iter().map(|record| record.id).collect();
        let payloads = store.payloads(&ids).await.unwrap();
        let payload = |id: RecordId| payloads.iter().find(|(found, ..)| *found == id);
        let whole = |record: Record| {
            let (args, result) = payload(record.id).map_or((None, None), |(_, a, r)| (a.clone(), r.clone()));
            WholeRecord { record, args, result }
        };
        records.into_iter().map(whole).collect()
    }
}

fn database(folder: &TempDir) -> Location {
    Location::Sqlite(folder.path().join(DATABASE))
}

/// Formats `kind status agent server:tool intent code: message`, with `-` for missing fields.
pub(crate) fn line(record: &Record) -> String {
    let text = |field: &Option<mcpproxy_core::Untrusted>| {
        field.as_ref().map_or_else(|| "-".to_owned(), |text| text.for_json().to_owned())
    };
    format!(
        "{} {} {} {}:{} {} {}: {}",
        record.kind.as_str(),
        record.status.as_str(),
        record.agent.as_deref().unwrap_or("-"),
        text(&record.server),
        text(&record.tool),
        record.intent_type.map_or_else(|| "-".to_owned(), |variant| variant.to_string()),
        text(&record.code),
        text(&record.message),
    )
}

pub(crate) async fn within<F: Future>(future: F) -> F::Output {
    tokio::time::timeout(PATIENCE, future).await.expect("it took too long")
}

/// Builds a POST with the headers that every agent sends. Further headers replace them.
pub(crate) fn post(path: &str, token: &str, headers: &[(&str, &str)], body: impl Into<Body>) -> Request<Body> {
    let mut request = Request::builder().method(Method::POST).uri(path).body(body.into()).unwrap();
    let usual = [("content-type", "application/json"), ("accept", "application/json, text/event-stream")];
    let bearer = format!("Bearer {token}");
    for (name, value) in usual.into_iter().chain([("authorization", bearer.as_str())]).chain(headers.iter().copied()) {
        let name: http::HeaderName = name.parse().unwrap();
        request.headers_mut().insert(name, value.parse().unwrap());
    }
    request
}

pub(crate) fn name(text: &str) -> ServerName {
    ServerName::parse(text).unwrap()
}

pub(crate) fn settings(servers: impl IntoIterator<Item = ServerSettings>) -> Settings {
    // Most tests change servers and tools as they like. Those of trust set their own rules.
    let trust = TrustSettings { first_sight: Welcome::Accept, changes: OnChange::Accept };
    // Some tests have thousands of tools, and none is about their meaning.
    let search = SearchSettings { encoder: EncoderUse::Off };
    Settings { servers: servers.into_iter().collect(), trust, search, ..Settings::default() }
}

pub(crate) fn stdio(server: &str, command: &str, args: &[&str]) -> ServerSettings {
    let (command, args) = (command.to_owned(), args.iter().map(|&arg| arg.to_owned()).collect());
    let transport = TransportSettings::Stdio { command, args, env: Vec::new(), cwd: None };
    ServerSettings::new(name(server), transport)
}

pub(crate) fn demo(server: &str) -> ServerSettings {
    ServerSettings::new(name(server), TransportSettings::Demo)
}

pub(crate) fn http_server(server: &str, url: &str) -> ServerSettings {
    ServerSettings::new(name(server), TransportSettings::Http { url: url.to_owned(), headers: Vec::new() })
}

/// Configures the misbehaving server with some of its switches. It logs the calls that reach it to a file.
pub(crate) fn misbehaving(server: &str, switches: &[&str], ledger: Option<&std::path::Path>) -> ServerSettings {
    let env = ledger.map(|path| ("MISBEHAVING_LEDGER".to_owned(), Secret::new(path.display().to_string())));
    let transport = TransportSettings::Stdio {
        command: binary("misbehaving-server").display().to_string(),
        args: switches.iter().map(|&switch| switch.to_owned()).collect(),
        env: env.into_iter().collect(),
        cwd: None,
    };
    ServerSettings::new(name(server), transport)
}

/// Returns the path of a program in the workspace, and builds it if it is missing.
pub(crate) fn binary(name: &str) -> PathBuf {
    let folder = std::env::current_exe().unwrap().ancestors().nth(2).unwrap().to_owned();
    let path = folder.join(name);
    if !path.exists() {
        let cargo = std::env::var("CARGO").unwrap_or_else(|_| "cargo".to_owned());
        let built = std::process::Command::new(cargo).args(["build", "-p", "demo-server", "--bins"]).status();
        assert!(built.unwrap().success() && path.exists(), "could not build {name}");
    }
    path
}
