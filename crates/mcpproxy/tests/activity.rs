//! `mcpproxy activity` on a folder without a gateway: output, exports and verification.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test that cannot go on stops"
)]

mod common;

use std::io::{BufRead as _, BufReader, Read as _};
use std::os::unix::fs::PermissionsExt as _;
use std::process::{Child, Stdio};
use std::sync::mpsc::Receiver;

use common::{Folder, PATIENCE, wait};
use insta::assert_snapshot;
use mcpproxy_core::settings::Retention;
use mcpproxy_core::{RiskLevel, Variant, mask};
use mcpproxy_store::{
    Kind, Ledger, LedgerOptions, Location, NewRecord, Outcome, Payload, SigningKey, Status, Store, WaitFor,
};
use serde_json::Value;

const START_MS: i64 = 1_700_000_000_000;
/// Prefix of the id of the first call.
const FIRST: &str = "01HF7YAT00";
/// Prefix of the id of the third call, which was refused.
const REFUSED: &str = "01HF7YAT20";
const SEED: [u8; 32] = [7; 32];

/// The store and ledger of a gateway, without the gateway.
struct Log {
    store: Store,
    ledger: Ledger,
}

impl Log {
    async fn open(folder: &Folder) -> Self {
        let key_file = folder.file("signing.key");
        if !key_file.exists() {
            folder.write("signing.key", &"07".repeat(32));
            std::fs::set_permissions(key_file, std::fs::Permissions::from_mode(0o600)).unwrap();
        }
        let store = Store::open(&Location::Sqlite(folder.file("mcpproxy.db"))).await.unwrap();
        let options = LedgerOptions {
            key: SigningKey::from_seed(&SEED).unwrap(),
            newest_checkpoint: Some(folder.file("checkpoint.txt")),
            checkpoints_to: None,
            retention: Retention::default(),
            patience: std::time::Duration::from_secs(20),
            now_ms: || START_MS + 60_000,
        };
        let ledger = Ledger::start(&store, options).await.unwrap();
        Self { store, ledger }
    }

    async fn call(&self, record: NewRecord, duration_us: u64, result: &str) {
        let open = self.ledger.open(record, WaitFor::Disk).await.unwrap();
        let outcome = Outcome {
            duration_us: Some(duration_us),
            result: Some(payload(result)),
            metadata: Some("{\"attempts\":1}".to_owned()),
            ..Outcome::bare(Status::Success)
        };
        self.ledger.close(open, outcome, WaitFor::Disk).await.unwrap();
    }

    async fn finish(self) {
        self.ledger.finish().await.unwrap();
        self.store.close().await;
    }
}

fn payload(text: &str) -> Payload {
    Payload::of(mask(text, &[]), text.len())
}

fn record(offset_ms: i64, tool: &str, variant: Variant) -> NewRecord {
    let metadata = serde_json::json!({
        "tool_variant": variant.tool(),
        "intent": {"operation_type": variant.operation(), "data_sensitivity": "private", "reason": "clean\u{1b}[2J up"},
        "intent_verified": true,
    });
    NewRecord {
        time_ms: START_MS + offset_ms,
        random: 7,
        kind: Kind::Call,
        status: Status::Started,
        agent: Some("local".to_owned()),
        client: Some("cursor 1.2".to_owned()),
        server: Some("github".to_owned()),
        tool: Some(tool.to_owned()),
        is_known_tool: true,
        intent_type: Some(variant),
        risk: Some(match variant {
            Variant::Read => RiskLevel::Low,
            Variant::Write => RiskLevel::Medium,
            Variant::Destructive => RiskLevel::High,
        }),
        code: None,
        message: None,
        duration_us: None,
        metadata: metadata.to_string(),
        args: Some(payload("{\"repo\":\"x\",\"password\":\"hunter2\"}")),
    }
}

/// Writes three calls, one of them refused. Their texts must be escaped for terminals and spreadsheets.
async fn fill(folder: &Folder) {
    let log = Log::open(folder).await;
    log.call(record(0, "list_repos", Variant::Read), 900, "{\"content\":[]}").await;
    let issue = "{\"content\":[{\"type\":\"text\",\"text\":\"#1\\u202e\u{202e}\"}]}";
    log.call(record(32, "create_issue", Variant::Write), 245_000, issue).await;
    let mut refusal = record(64, "delete_repo", Variant::Destructive);
    refusal.kind = Kind::Refusal;
    refusal.status = Status::Refused;
    refusal.code = Some("SERVER_MISMATCH".to_owned());
    refusal.message = Some("=1+1, \"no\"\u{9b}".to_owned());
    log.ledger.append(refusal, WaitFor::Disk).await.unwrap();
    log.finish().await;
}

#[test]
fn a_folder_that_was_never_used() {
    let folder = Folder::new();
    for (name, args) in [
        ("none", &["list"][..]),
        ("none_json", &["list", "-o", "json"]),
        ("none_show", &["show", "01JG2"]),
        ("none_summary", &["summary", "--since", "2023-11-14T22:30:00Z", "--until", "2023-11-14T23:30:00Z"]),
        ("none_export", &["export"]),
        ("none_export_csv", &["export", "--format", "csv", "--payloads"]),
        ("none_export_signed", &["export", "--signed"]),
        ("none_verify", &["verify"]),
        ("none_verify_json", &["verify", "-o", "json"]),
        ("none_key", &["key"]),
    ] {
        assert_snapshot!(name, folder.run(&[&["activity"], args].concat()));
    }
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0, "looking leaves nothing behind");
}

#[test]
fn usage_errors() {
    let folder = Folder::new();
    for (name, args) in [
        ("bad_intent_type", &["list", "--intent-type", "foo"][..]),
        ("bad_type", &["list", "--type", "foo"]),
        ("bad_status", &["watch", "--status", "foo"]),
        ("bad_risk", &["export", "--risk", "foo"]),
        ("bad_cursor", &["list", "--cursor", "x"]),
        ("bad_limit", &["list", "--limit", "501"]),
        ("bad_time", &["list", "--since", "yesterday"]),
        ("bad_range", &["summary", "--since", "2026-02-01", "--until", "2026-01-01"]),
        ("bad_tool", &["list", "--server", "a", "--tool", "b:c"]),
        ("bad_format", &["export", "--format", "xml"]),
        ("bad_output", &["export", "-o", "json"]),
        ("export_of_one", &["export", "01JG2"]),
        ("bad_key", &["verify", "--key", "x"]),
        ("bundle_and_checkpoint", &["verify", "bundle", "--checkpoint", "x"]),
    ] {
        assert_snapshot!(name, folder.run(&[&["activity"], args].concat()));
    }
}

#[tokio::test]
async fn a_busy_folder() {
    let folder = Folder::new();
    fill(&folder).await;
    for (name, args) in [
        ("list", &["list"][..]),
        ("list_filtered", &["list", "--intent-type", "destructive", "--server", "github"]),
        ("list_tool", &["list", "--tool", "github:create_issue"]),
        ("list_risk", &["list", "--risk", "low"]),
        ("list_query", &["list", "-q", "server_MISMATCH"]),
        ("list_paged", &["list", "--limit", "1"]),
        ("list_json", &["list", "--status", "refused", "-o", "json"]),
        ("show", &["show", "01HF7YAT10"]),
        ("show_refused", &["show", REFUSED]),
        ("show_json", &["show", REFUSED, "-o", "json"]),
        ("show_yaml", &["show", "01hf7yat10", "-o", "yaml"]),
        ("show_ambiguous", &["show", "01HF7YAT"]),
        ("summary", &["summary", "--since", "2023-11-14T22:00:00Z", "--until", "2023-11-14T23:00:00Z"]),
        ("summary_json", &["summary", "--since", "2023-11-14", "--until", "2023-11-14T22:30:00Z", "-o", "json"]),
        ("export", &["export"]),
        ("export_filtered", &["export", "--status", "refused", "--payloads"]),
        ("export_csv", &["export", "--format", "csv"]),
        ("export_csv_payloads", &["export", "--format", "csv", "--payloads", "--intent-type", "write"]),
        ("verify", &["verify"]),
        ("verify_json", &["verify", "-o", "json"]),
        ("key", &["key"]),
        ("key_json", &["key", "-o", "json"]),
    ] {
        assert_snapshot!(name, folder.run(&[&["activity"], args].concat()));
    }
}

#[tokio::test]
async fn an_export_to_a_file_is_whole() {
    let folder = Folder::new();
    fill(&folder).await;
    let out = tempfile::tempdir().unwrap();
    let path = out.path().join("records.jsonl");
    let told = folder.run(&["activity", "export", "--out", path.to_str().unwrap()]);
    assert_eq!(
        told.replace(path.to_str().unwrap(), "FILE"),
        "exit 0\n--- stdout\n--- stderr\nWrote 3 records to FILE\n"
    );
    let names: Vec<_> = std::fs::read_dir(out.path()).unwrap().map(|file| file.unwrap().file_name()).collect();
    assert_eq!(names, ["records.jsonl"]);
    let text = std::fs::read_to_string(&path).unwrap();
    let records: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let listed = folder.json(&["activity", "list"]);
    assert_eq!(listed["activities"], Value::Array(records));

    let nowhere = folder.run(&["activity", "export", "--out", "/nowhere/at/all"]);
    let expected = "exit 1\n--- stdout\n--- stderr\nerror: The folder `/nowhere/at` does not exist.\n\
                    hint: create it first: mkdir -p /nowhere/at\n";
    assert_eq!(nowhere, expected);
}

#[tokio::test]
async fn a_bundle_proves_its_records_anywhere() {
    let folder = Folder::new();
    fill(&folder).await;
    let elsewhere = Folder::new();
    let bundle = elsewhere.file("bundle.jsonl");
    let bundle = bundle.to_str().unwrap();
    let told = folder.run(&["activity", "export", "--signed", "--out", bundle, REFUSED]);
    assert_eq!(told.replace(bundle, "FILE"), "exit 0\n--- stdout\n--- stderr\nWrote 1 record to FILE\n");
    let key = SigningKey::from_seed(&SEED).unwrap().verifier().to_string();
    let other = SigningKey::from_seed(&[8; 32]).unwrap().verifier().to_string();
    assert_snapshot!("bundle", elsewhere.run(&["activity", "verify", bundle, "--key", &key]));
    assert_snapshot!("bundle_without_key", elsewhere.run(&["activity", "verify", bundle]));
    assert_snapshot!("bundle_other_key", elsewhere.run(&["activity", "verify", bundle, "--key", &other]));
    let mut proven = elsewhere.json(&["activity", "verify", bundle, "--key", &key]);
    assert!(proven["exported"].take().is_string());
    assert_snapshot!("bundle_json", serde_json::to_string_pretty(&proven).unwrap());

    let whole = std::fs::read_to_string(bundle).unwrap();
    let check = |name: &str, text: &str| {
        elsewhere.write("bad.jsonl", text);
        let path = elsewhere.file("bad.jsonl");
        let path = path.to_str().unwrap();
        assert_snapshot!(name, elsewhere.run(&["activity", "verify", path, "--key", &key]));
    };
    check("bundle_changed", &whole.replace("delete_repo", "delete_rope"));
    check("bundle_payload_changed", &whole.replace("\\\"repo\\\":\\\"x\\\"", "\\\"repo\\\":\\\"y\\\""));
    let without = |lines: usize| {
        let count = whole.lines().count() - lines;
        whole.lines().take(count).map(|line| format!("{line}\n")).collect::<String>()
    };
    check("bundle_without_seal", &without(1));
    check("bundle_cut", &without(2));
    check("bundle_nonsense", "hello\n");
    check("bundle_empty", "");
    assert_snapshot!("bundle_missing", elsewhere.run(&["activity", "verify", "/nowhere/bundle"]));
}

/// Two logs share a key. The checkpoint of the longer log shows that the shorter one was truncated.
#[tokio::test]
async fn a_log_that_was_cut_is_found() {
    let (short, long) = (Folder::new(), Folder::new());
    fill(&short).await;
    fill(&long).await;
    let log = Log::open(&long).await;
    log.call(record(96, "list_repos", Variant::Read), 900, "{}").await;
    log.finish().await;
    assert_snapshot!("verify_long", long.run(&["activity", "verify"]));
    let kept = long.file("checkpoint.txt");
    assert_snapshot!("verify_cut", short.run(&["activity", "verify", "--checkpoint", kept.to_str().unwrap()]));
    std::fs::copy(&kept, short.file("checkpoint.txt")).unwrap();
    assert_snapshot!("verify_cut_json", short.run(&["activity", "verify", "-o", "json"]));
    std::fs::remove_file(short.file("mcpproxy.db")).unwrap();
    assert_snapshot!("verify_gone", short.run(&["activity", "verify"]));
    // The last verification of the long log tells, too.
    for name in ["mcpproxy.db", "checkpoint.txt"] {
        std::fs::rename(long.file(name), long.file(&format!("{name}.aside"))).unwrap();
    }
    let gone = long.run(&["activity", "verify"]);
    assert!(gone.starts_with("exit 1\n") && gone.contains("The log is gone."), "{gone}");
    for name in ["mcpproxy.db", "checkpoint.txt"] {
        std::fs::rename(long.file(&format!("{name}.aside")), long.file(name)).unwrap();
    }
    long.write("nothing.txt", "");
    let nothing = long.file("nothing.txt");
    let args = ["activity", "verify", "--checkpoint", nothing.to_str().unwrap()];
    assert_snapshot!("verify_no_checkpoint", long.run(&args));
}

#[test]
fn a_database_that_cannot_be_reached() {
    let folder = Folder::new();
    // Only root can listen on this port, so no server does.
    folder.write("mcp_config.json", "{\"storage\": {\"url\": \"postgres://me@127.0.0.1:1/log\"}}");
    let start = "exit 1\n--- stdout\n--- stderr\nerror: The database postgres://127.0.0.1:1/log cannot be reached: ";
    let hint = "\nhint: start the database, or correct `storage.url` in FOLDER/mcp_config.json\n";
    for args in [&["activity", "list"][..], &["activity", "verify"], &["token", "list"]] {
        let told = folder.run(args);
        assert!(told.starts_with(start) && told.ends_with(hint), "{told}");
    }
}

/// A running `activity watch`, read line by line.
struct Watching {
    child: Child,
    lines: Receiver<String>,
}

impl Watching {
    fn start(folder: &Folder, args: &[&str]) -> Self {
        let mut child = spawn(folder, args);
        let stdout = BufReader::new(child.stdout.take().unwrap());
        let (sender, lines) = std::sync::mpsc::channel();
        std::thread::spawn(move || stdout.lines().map_while(Result::ok).try_for_each(|line| sender.send(line)));
        Self { child, lines }
    }

    fn line(&self) -> String {
        self.lines.recv_timeout(PATIENCE).unwrap()
    }

    /// Sends SIGINT, as Ctrl-C does, and returns the exit code.
    fn interrupt(mut self) -> Option<i32> {
        let pid = rustix::process::Pid::from_child(&self.child);
        rustix::process::kill_process(pid, rustix::process::Signal::INT).unwrap();
        ended(&mut self.child)
    }
}

impl Drop for Watching {
    fn drop(&mut self) {
        let _already_gone = self.child.kill();
    }
}

fn spawn(folder: &Folder, args: &[&str]) -> Child {
    let mut command = folder.command(&[&["activity", "watch"], args].concat());
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
}

fn ended(child: &mut Child) -> Option<i32> {
    let mut status = None;
    wait("the command to end", || {
        status = child.try_wait().unwrap();
        status.is_some()
    });
    status.unwrap().code()
}

#[tokio::test(flavor = "multi_thread")]
async fn what_happens_is_seen_as_it_happens() {
    let folder = Folder::new();
    fill(&folder).await;
    let log = Log::open(&folder).await;

    let table = Watching::start(&folder, &["-n", "1"]);
    assert!(table.line().starts_with("ID "));
    assert!(table.line().contains("delete_repo"));
    let json = Watching::start(&folder, &["-n", "1", "-o", "json", "--intent-type", "read"]);
    let parsed = |line: String| -> Value { serde_json::from_str(&line).unwrap() };
    assert!(parsed(json.line())["id"].as_str().unwrap().starts_with(FIRST));

    let open = log.ledger.open(record(96, "list_repos", Variant::Read), WaitFor::Disk).await.unwrap();
    let begun = parsed(json.line());
    assert_eq!((&begun["id"], &begun["status"]), (&open.id().to_string().into(), &"started".into()));
    assert!(table.line().contains("started"));
    log.ledger.append(record(97, "delete_repo", Variant::Destructive), WaitFor::Disk).await.unwrap();
    log.ledger.close(open, Outcome::bare(Status::Success), WaitFor::Disk).await.unwrap();
    let ended = parsed(json.line());
    assert_eq!((&ended["id"], &ended["status"]), (&begun["id"], &"success".into()));
    assert!(table.line().contains("delete_repo"));
    assert!(table.line().contains("success"));

    assert_eq!((table.interrupt(), json.interrupt()), (Some(0), Some(0)));
    log.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_closed_pipe_is_no_error() {
    let folder = Folder::new();
    fill(&folder).await;
    let log = Log::open(&folder).await;
    let mut child = spawn(&folder, &["-o", "yaml", "-n", "1"]);
    let mut first = [0; 4];
    child.stdout.take().unwrap().read_exact(&mut first).unwrap();
    assert_eq!(&first, b"---\n");
    // The reader has closed standard output. The command notices at its next output.
    log.call(record(96, "list_repos", Variant::Read), 900, "{}").await;
    let code = ended(&mut child);
    let mut told = String::new();
    child.stderr.take().unwrap().read_to_string(&mut told).unwrap();
    assert_eq!((code, told.as_str()), (Some(0), ""));
    log.finish().await;
}
