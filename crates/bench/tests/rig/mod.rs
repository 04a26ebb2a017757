//! A gateway in this process, with echo servers in others, and a count of the memory that a call allocates.
//!
//! The router is called directly, so that the work of a client or of HTTP itself is not counted. All tasks share one
//! thread. A test that counts must be the only test of its file: tests of one file can share a process, and the
//! allocator counts for the whole process.

mod allocator;
mod calls;
#[path = "../../../mcpproxy-identity/src/tests/issuer.rs"]
mod issuer;

use std::io::{BufRead as _, BufReader};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use bytes::Bytes;
use http_body_util::{BodyExt as _, Full};
use hyper::body::Body;
use hyper::{Request, StatusCode};
use mcpproxy_core::settings::{
    EncoderUse, Retention, SearchSettings, ServerSettings, Settings, TransportSettings, Unresolved, parse,
};
use mcpproxy_core::{Scope, ServerName, Variant, mask};
use mcpproxy_gateway::{Gateway, Options, Reloader};
use mcpproxy_store::{
    Kind, Ledger, LedgerOptions, Location, NewRecord, Outcome, Payload, SealingKey, SigningKey, Status, Store, WaitFor,
};
use mcpproxy_web::{AdminKey, App, Facts, Guard, Web};
use serde_json::json;
use tempfile::TempDir;
use tokio_util::sync::CancellationToken;
use tower::ServiceExt as _;

pub(crate) use allocator::{Live, Work};
pub(crate) use calls::{CALLS, Call};
use issuer::{Issuer, SigningKey as SignatureKey};

const PORT: u16 = 8080;
const AUDIENCE: &str = "http://localhost:8080/mcp";
/// Timeout of every wait. Only a bug reaches it.
const PATIENCE: Duration = Duration::from_secs(60);
/// Tools of the server over HTTP, for `retrieve_tools`. It has two of its own.
const GENERATED_TOOLS: &str = "98";
/// All ids have the same length, so that all requests have the same size.
const FIRST_ID: u64 = 1_000_000_000;

pub(crate) struct Rig {
    app: App,
    ledger: Ledger,
    token: String,
    session: String,
    next_id: u64,
    /// An access token of an identity provider, as long as those of large providers.
    access_token: String,
    _issuer: Issuer,
    _server: EchoServer,
    _folder: TempDir,
}

/// Calls `test` with a running gateway, on one thread.
pub(crate) fn run(test: impl AsyncFnOnce(&mut Rig)) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let mut rig = Rig::start().await;
        test(&mut rig).await;
    });
}

impl Rig {
    async fn start() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::open(&Location::Sqlite(folder.path().join("mcpproxy.db"))).await.unwrap();
        let ledger = Ledger::start(&store, ledger_options(&folder)).await.unwrap();
        let server = EchoServer::start();
        let base_url = format!("http://localhost:{PORT}");
        let key = SignatureKey::new("k1");
        let issuer = Issuer::start(&[&key]).await;
        let claims = json!({
            "iss": issuer.url, "aud": AUDIENCE, "sub": "agent", "exp": now_ms() / 1000 + 3600, "more": "x".repeat(600),
        });
        let access_token = key.sign(&claims);
        let gateway = Gateway::start(Options {
            files: settings(&server.url, &issuer.url).into(),
            store: store.clone(),
            ledger: ledger.clone(),
            logs: folder.path().join("logs"),
            tools: folder.path().join("tools"),
            base_url: base_url.clone(),
            demo_command: Vec::new(),
            lock: None,
            sealing_key: SealingKey::from_bytes(&[7; 32]).unwrap(),
            telemetry: Default::default(),
        });
        tokio::time::timeout(PATIENCE, gateway.ready()).await.expect("the servers did not connect");
        let facts = Facts {
            version: "1.2.3",
            address: format!("127.0.0.1:{PORT}"),
            base_url,
            tls: None,
            metrics_address: None,
            started: Instant::now(),
            settings_path: folder.path().join("mcp_config.json"),
            overridden: Vec::new(),
            home_option: String::new(),
            now_ms,
        };
        let token = store.create_token("agent", &Scope::everything(), [1; 32], now_ms()).await.unwrap();
        let app = mcpproxy_web::app(Web {
            gateway,
            reloader: Reloader::channel().0,
            store,
            ledger: ledger.clone(),
            admin_key: AdminKey::new("0123456789abcdef"),
            guard: Guard::new(PORT, &[], &[]),
            facts,
            stopping: CancellationToken::new(),
            servers_editor: Box::new(mcpproxy_web::editor::ReadOnly),
            contracts_editor: Box::new(mcpproxy_web::editor::ReadOnly),
            client_settings: Box::new(mcpproxy_web::editor::ReadOnly),
        });
        let session = String::new();
        let mut rig = Self {
            app,
            ledger,
            token,
            session,
            next_id: FIRST_ID,
            access_token,
            _issuer: issuer,
            _server: server,
            _folder: folder,
        };
        rig.session = rig.initialize().await;
        rig
    }

    /// Opens a session, as agents up to MCP 2025-11-25 do.
    async fn initialize(&self) -> String {
        let hello = r#"{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"test","version":"1"}}}"#;
        let response = self.app.clone().oneshot(self.post(hello.to_owned())).await.unwrap();
        assert_eq!(response.status(), StatusCode::OK);
        let session = response.headers()["mcp-session-id"].to_str().unwrap().to_owned();
        let hello = r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#;
        let mut request = self.post(hello.to_owned());
        request.headers_mut().insert("mcp-session-id", session.parse().unwrap());
        assert_eq!(self.app.clone().oneshot(request).await.unwrap().status(), StatusCode::ACCEPTED);
        session
    }

    /// Makes all further calls with the access token of an identity provider.
    pub(crate) async fn use_access_token(&mut self) {
        self.token.clone_from(&self.access_token);
        self.session = self.initialize().await;
    }

    /// Makes a call and counts its work, from the request to the last byte of the answer.
    pub(crate) async fn count(&mut self, call: &Call) -> Work {
        let request = self.request(call);
        let app = self.app.clone();
        // Reserved before counting starts, so that reading the answer adds nothing.
        let mut answer = Vec::with_capacity(1 << 16);
        let start = Work::so_far();
        let response = app.oneshot(request).await.unwrap();
        let (head, body) = response.into_parts();
        read(body, &mut answer).await;
        let work = Work::so_far() - start;
        call.check(head.status, &head.headers, &answer);
        work
    }

    /// Makes calls, eight at a time.
    pub(crate) async fn make(&mut self, calls: &[&Call]) {
        for group in calls.chunks(8) {
            let answers: Vec<_> =
                group.iter().map(|call| (*call, tokio::spawn(self.app.clone().oneshot(self.request(call))))).collect();
            for (call, answer) in answers {
                let (head, body) = answer.await.unwrap().unwrap().into_parts();
                let mut answer = Vec::new();
                read(body, &mut answer).await;
                call.check(head.status, &head.headers, &answer);
            }
        }
    }

    /// Waits until all records are on disk. Otherwise, the next count would include some of that work.
    pub(crate) async fn flush(&self) {
        self.ledger.append(record(Status::Success), WaitFor::Disk).await.unwrap();
    }

    /// Counts the work of writing records of calls in one batch, from the queue to the disk.
    ///
    /// The writer runs in the same thread, so it cannot start before all of them are queued.
    pub(crate) async fn count_records(&self, records: usize) -> Work {
        let mut batch: Vec<_> = (0..records).map(|_| (record(Status::Started), outcome())).collect();
        let last = record(Status::Success);
        let start = Work::so_far();
        for (record, outcome) in batch.drain(..) {
            let open = self.ledger.open(record, WaitFor::Queue).await.unwrap();
            self.ledger.close(open, outcome, WaitFor::Queue).await.unwrap();
        }
        self.ledger.append(last, WaitFor::Disk).await.unwrap();
        Work::so_far() - start
    }

    fn request(&mut self, call: &Call) -> Request<Full<Bytes>> {
        self.next_id += 1;
        let mut request = self.post(call.message(self.next_id));
        request.headers_mut().insert("mcp-session-id", self.session.parse().unwrap());
        request.headers_mut().insert("mcp-protocol-version", "2025-11-25".parse().unwrap());
        request
    }

    fn post(&self, body: String) -> Request<Full<Bytes>> {
        Request::post("/mcp")
            .header("host", format!("localhost:{PORT}"))
            .header("content-type", "application/json")
            .header("accept", "application/json, text/event-stream")
            .header("authorization", format!("Bearer {}", self.token))
            .body(Full::from(body))
            .unwrap()
    }
}

async fn read(body: impl Body<Data = Bytes, Error: std::fmt::Debug>, into: &mut Vec<u8>) {
    let mut body = std::pin::pin!(body);
    while let Some(frame) = body.frame().await {
        if let Ok(data) = frame.unwrap().into_data() {
            into.extend_from_slice(&data);
        }
    }
}

fn settings(url: &str, issuer: &str) -> Settings {
    let oauth = json!({ "issuer": issuer, "audience": AUDIENCE });
    let oauth = parse(&json!({ "agents": { "oauth": oauth } }).to_string(), &Unresolved).unwrap();
    let server = |name: &str, transport| ServerSettings::new(ServerName::parse(name).unwrap(), transport);
    let http = TransportSettings::Http { url: url.to_owned(), headers: Vec::new() };
    let stdio = TransportSettings::Stdio {
        command: env!("CARGO_BIN_EXE_bench").to_owned(),
        args: ["echo", "--server", "stdio"].map(str::to_owned).to_vec(),
        env: Vec::new(),
        cwd: None,
    };
    // What is counted here must not depend on tools that are encoded meanwhile.
    let search = SearchSettings { encoder: EncoderUse::Off };
    Settings { servers: vec![server("sessions", http), server("stdio", stdio)], search, ..oauth }
}

fn ledger_options(folder: &TempDir) -> LedgerOptions {
    LedgerOptions {
        key: SigningKey::from_seed(&[7; 32]).unwrap(),
        newest_checkpoint: Some(folder.path().join("checkpoint.txt")),
        checkpoints_to: None,
        retention: Retention::default(),
        patience: PATIENCE,
        now_ms,
    }
}

/// Builds the record of a call, as large as those of the calls here.
fn record(status: Status) -> NewRecord {
    let metadata = r#"{"intent":{"operation_type":"read"},"tool_variant":"call_tool_read","intent_verified":true}"#;
    NewRecord {
        time_ms: now_ms(),
        random: 1,
        kind: Kind::Call,
        status,
        agent: Some("agent".to_owned()),
        client: Some("test 1".to_owned()),
        server: Some("sessions".to_owned()),
        tool: Some("echo".to_owned()),
        is_known_tool: true,
        intent_type: Some(Variant::Read),
        risk: None,
        code: None,
        message: None,
        duration_us: None,
        metadata: metadata.to_owned(),
        args: Some(payload(&calls::arguments(100))),
    }
}

fn outcome() -> Outcome {
    let result = format!(r#"{{"content":[{{"type":"text","text":"{}"}}]}}"#, calls::words(100));
    Outcome { duration_us: Some(300), result: Some(payload(&result)), ..Outcome::bare(Status::Success) }
}

fn payload(text: &str) -> Payload {
    Payload::of(mask(text, &[]), text.len())
}

fn now_ms() -> i64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_millis().try_into().unwrap()
}

/// An echo server with sessions over HTTP, in a process of its own.
struct EchoServer {
    process: Child,
    url: String,
}

impl EchoServer {
    fn start() -> Self {
        let mut process = Command::new(env!("CARGO_BIN_EXE_bench"))
            .args(["echo", "--server", "sessions", "--tools", GENERATED_TOOLS])
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut url = String::new();
        BufReader::new(process.stdout.take().unwrap()).read_line(&mut url).unwrap();
        Self { process, url: url.trim().to_owned() }
    }
}

impl Drop for EchoServer {
    fn drop(&mut self) {
        let _gone = self.process.kill();
        let _gone = self.process.wait();
    }
}
