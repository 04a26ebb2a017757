//! Tests of every route over HTTP: access control and answers.

mod access;
mod account;
mod activity;
mod activity_pages;
mod agent_pages;
mod bad;
mod contracts;
mod document;
mod events;
mod export;
mod flows;
mod frames;
mod listings;
mod matrix;
mod overview_pages;
mod people;
mod plain;
mod presence;
mod recovery;
mod reviews;
mod server_pages;
mod settings_pages;
mod sign_in_flood;
mod stopping;
mod strangers;
mod tls;
mod tool_dry_runs;
mod tool_pages;
mod version_pages;

use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::body::Body;
use http::{Method, Request, Response, StatusCode, header};
use http_body_util::BodyExt as _;
use mcpproxy_core::contract::Contracts;
use mcpproxy_core::settings::{ApprovalSettings, Retention, Settings};
use mcpproxy_core::{RiskLevel, Variant, mask};
use mcpproxy_gateway::{CheckedFiles, Confirmed, Gateway, Options, ReloadRequest, Reloaded, Reloader};
use mcpproxy_store::{
    Kind, Ledger, LedgerOptions, Location, NewRecord, OpenRecord, Outcome, Payload, RecordId, SealingKey, SigningKey,
    Status, Store, WaitFor,
};
use serde_json::Value;
use tempfile::TempDir;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;
use tower::ServiceExt as _;

use crate::editor::{ContractsEditor, ReadOnly, ServersEditor};
use crate::rest::endpoint::Endpoint;
use crate::{AdminKey, App, Facts, Guard, Web, app};

const KEY: &str = "0123456789abcdef";
/// 2027-01-15T08:00:00Z.
const NOW_MS: i64 = 1_800_000_000_000;
const HOUR_MS: i64 = 3_600_000;
/// Longer than any step takes, so that a missing event fails the test instead of blocking it.
const PATIENCE: Duration = Duration::from_secs(20);

struct Fixture {
    app: App,
    gateway: Gateway,
    store: Store,
    ledger: Ledger,
    stopping: CancellationToken,
    folder: TempDir,
}

/// The gateway uses the real clock, not that of the tests. Approvals are valid for longer than the two can differ.
fn settings() -> Settings {
    let approvals = ApprovalSettings { expire: Duration::from_millis(NOW_MS.unsigned_abs()), ..Default::default() };
    Settings { approvals, ..Settings::default() }
}

impl Fixture {
    /// Starts a gateway without servers.
    async fn new() -> Self {
        Self::with(settings()).await
    }

    async fn with(settings: Settings) -> Self {
        Self::with_editors(settings, Box::new(ReadOnly), Box::new(ReadOnly)).await
    }

    /// Starts a gateway whose contract files a page may edit.
    async fn with_contracts(settings: Settings, contracts_editor: Box<dyn ContractsEditor>) -> Self {
        Self::with_editors(settings, Box::new(ReadOnly), contracts_editor).await
    }

    /// Starts a gateway whose servers a page may edit.
    async fn with_editor(settings: Settings, servers_editor: Box<dyn ServersEditor>) -> Self {
        Self::with_editors(settings, servers_editor, Box::new(ReadOnly)).await
    }

    async fn with_editors(
        settings: Settings,
        servers_editor: Box<dyn ServersEditor>,
        contracts_editor: Box<dyn ContractsEditor>,
    ) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::open(&Location::Sqlite(folder.path().join("mcpproxy.db"))).await.unwrap();
        let ledger = Ledger::start(&store, ledger_options(7)).await.unwrap();
        let gateway = Gateway::start(Options {
            files: settings.into(),
            store: store.clone(),
            ledger: ledger.clone(),
            logs: folder.path().join("logs"),
            tools: folder.path().join("tools"),
            base_url: "http://localhost:8080".to_owned(),
            demo_command: Vec::new(),
            lock: None,
            sealing_key: SealingKey::from_bytes(&[7; 32]).unwrap(),
            telemetry: Default::default(),
        });
        let reloader = answer_reloads(gateway.clone(), store.clone());
        let stopping = CancellationToken::new();
        let facts = Facts {
            version: "1.2.3",
            address: "127.0.0.1:8080".to_owned(),
            base_url: "http://localhost:8080".to_owned(),
            metrics_address: None,
            tls: None,
            started: Instant::now(),
            settings_path: "/data/mcp_config.json".into(),
            overridden: Vec::new(),
            home_option: " --home '/my data'".to_owned(),
            now_ms: || NOW_MS,
        };
        let app = app(Web {
            gateway: gateway.clone(),
            reloader,
            store: store.clone(),
            ledger: ledger.clone(),
            admin_key: AdminKey::new(KEY),
            guard: Guard::new(8080, &[], &[]),
            facts,
            stopping: stopping.clone(),
            servers_editor,
            contracts_editor,
            client_settings: Box::new(ReadOnly),
        });
        Self { app, gateway, store, ledger, stopping, folder }
    }

    async fn send(&self, method: Method, path: &str, headers: &[(&str, &str)]) -> Response<Body> {
        let mut request = Request::builder().method(method).uri(path);
        if !headers.iter().any(|(name, _)| *name == "host") {
            request = request.header(header::HOST, "localhost:8080");
        }
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        self.app.clone().oneshot(request.body(Body::empty()).unwrap()).await.unwrap()
    }

    async fn ask(&self, method: Method, path: &str, headers: &[(&str, &str)]) -> (StatusCode, Value) {
        let response = self.send(method, path, headers).await;
        let status = response.status();
        let text = text(response).await;
        (status, serde_json::from_str(&text).unwrap_or(Value::String(text)))
    }

    /// Sends a GET request with the admin key and returns the answer.
    async fn get(&self, path: &str) -> Value {
        let (status, answer) = self.ask(Method::GET, path, &[("x-api-key", KEY)]).await;
        assert_eq!(status, StatusCode::OK, "{path} {answer}");
        answer
    }

    /// Writes a record and waits until it is on disk.
    async fn note(&self, record: NewRecord) -> RecordId {
        let id = self.ledger.append(record, WaitFor::Queue).await.unwrap();
        self.until(id, |_| true).await;
        id
    }

    /// Writes a call that was sent and answered: the start and the end.
    async fn call(&self, record: NewRecord, result: &str) -> RecordId {
        let open = self.open(record).await;
        let outcome = Outcome {
            duration_us: Some(1_500),
            result: Some(Payload::of(mask(result, &[]), result.len())),
            metadata: Some(r#"{"attempts":2}"#.to_owned()),
            ..Outcome::bare(Status::Success)
        };
        self.close(open, outcome).await
    }

    async fn open(&self, record: NewRecord) -> OpenRecord {
        let record = NewRecord { status: Status::Started, ..record };
        let open = self.ledger.open(record, WaitFor::Queue).await.unwrap();
        self.until(open.id(), |_| true).await;
        open
    }

    async fn close(&self, open: OpenRecord, outcome: Outcome) -> RecordId {
        let id = open.id();
        self.ledger.close(open, outcome, WaitFor::Queue).await.unwrap();
        self.until(id, |status| status != Status::Started).await;
        id
    }

    /// Waits until a record is on disk and its status matches.
    async fn until(&self, id: RecordId, is_so: impl Fn(Status) -> bool) {
        let mut commits = self.ledger.committed();
        loop {
            commits.mark_unchanged();
            let found = self.store.find(&id.to_string()).await.unwrap();
            if found.is_some_and(|whole| is_so(whole.record.status)) {
                return;
            }
            timeout(PATIENCE, commits.changed()).await.unwrap().unwrap();
        }
    }

    async fn stop(self) {
        self.gateway.stop().await;
    }
}

/// Answers requests as the program does: takes over the newest version, and checks the contracts of files.
fn answer_reloads(gateway: Gateway, store: Store) -> Reloader {
    let (reloader, mut requests) = Reloader::channel();
    tokio::spawn(async move {
        loop {
            match requests.next().await {
                ReloadRequest::Reload(answer) => {
                    if gateway.version().is_some() {
                        gateway.set_version(store.newest_version().await.unwrap().map_or(0, |head| head.number));
                    }
                    drop(answer.send(Reloaded::Applied));
                }
                ReloadRequest::Apply(_, answer) => drop(answer.send(Confirmed::Applied)),
                ReloadRequest::Check(files, answer) => {
                    let contracts: Vec<_> =
                        files.into_iter().filter(|(name, _)| name.starts_with("contracts/")).collect();
                    let checked = Contracts::parse(&contracts)
                        .map(|contracts| CheckedFiles { weaker: gateway.weaker_with(&Arc::new(contracts)) })
                        .map_err(|mistakes| mistakes[0].1.to_string());
                    drop(answer.send(checked));
                }
            }
        }
    });
    reloader
}

/// Options for a ledger that keeps everything, with a separate chain for each number.
fn ledger_options(number: u8) -> LedgerOptions {
    LedgerOptions {
        key: SigningKey::from_seed(&[number; 32]).unwrap(),
        newest_checkpoint: None,
        checkpoints_to: None,
        retention: Retention { payloads: None, payload_bytes: None, records: None },
        patience: std::time::Duration::from_secs(20),
        now_ms: || NOW_MS,
    }
}

/// Builds the record of a refused call of `demo:delete_user`, `hours` before now.
fn refusal(hours: i64) -> NewRecord {
    let args = r#"{"id": "1"}"#;
    NewRecord {
        time_ms: NOW_MS - hours * HOUR_MS,
        random: 5,
        kind: Kind::Refusal,
        status: Status::Refused,
        agent: Some("cursor".into()),
        client: Some("Cursor 1.2".into()),
        server: Some("demo".into()),
        tool: Some("delete_user".into()),
        is_known_tool: true,
        intent_type: Some(Variant::Destructive),
        risk: Some(RiskLevel::High),
        code: Some("SERVER_MISMATCH".into()),
        message: Some("use call_tool_destructive".into()),
        duration_us: None,
        metadata: r#"{"tool_variant":"call_tool_destructive","intent":{"operation_type":"destructive"}}"#.into(),
        args: Some(Payload::of(mask(args, &[]), args.len())),
    }
}

async fn text(response: Response<Body>) -> String {
    String::from_utf8(response.into_body().collect().await.unwrap().to_bytes().to_vec()).unwrap()
}

fn path(endpoint: &Endpoint) -> String {
    let path = endpoint
        .path
        .replace("{name}", "demo")
        .replace("{agent}", "none")
        .replace("{server}", "demo")
        .replace("{tool}", "echo");
    path.replace("{id}", "01HF").replace("{approval}", people::NO_APPROVAL).replace("{grant}", people::NO_APPROVAL)
}

fn code(answer: &Value) -> Option<&str> {
    answer.pointer("/error/code").and_then(Value::as_str)
}
