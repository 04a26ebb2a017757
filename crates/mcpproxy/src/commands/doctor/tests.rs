//! Tests of the checks and of their output, without files or a gateway.

use std::collections::BTreeMap;
use std::path::PathBuf;

use mcpproxy_core::Scope;
use mcpproxy_store::TokenInfo;
use serde_json::{Value, json};

use super::facts::{ChainState, ClientFacts, GatewayFacts, PortState, StorageFacts, StorageState};
use super::*;
use crate::exit::Failure;
use crate::runtime::last_run::MissingFiles;

fn token(name: &str, created_ms: i64, last_used_ms: Option<i64>) -> TokenInfo {
    TokenInfo { name: name.to_owned(), scope: Scope::everything(), created_ms, revoked_ms: None, last_used_ms }
}

fn gateway(servers: Value) -> GatewayFacts {
    GatewayFacts {
        status: json!({"version": "1.0.0", "address": "127.0.0.1:8080", "settings": {"error": null},
                       "log": {"reason": null}, "approvals": {"waiting": 0}, "cluster": {"drift": []}}),
        servers: json!({ "servers": servers }),
        clients: json!({"clients": []}),
        last_lines: BTreeMap::new(),
    }
}

/// A data folder on which everything is fine.
fn healthy() -> Facts {
    Facts {
        home: Home::resolve(Some(PathBuf::from("/data"))).unwrap(),
        settings_path: "/data/mcp_config.json".to_owned(),
        settings: Ok(Some(2)),
        misconfigured: Vec::new(),
        missing_files: MissingFiles::NoneFound,
        can_start: true,
        open_files: Vec::new(),
        listen: "127.0.0.1:8080".parse().unwrap(),
        port: PortState::Ours,
        gateway: Ok(Some(gateway(json!([{"name": "a", "state": "ready", "hidden_tools": []}])))),
        storage: StorageState::Open(StorageFacts {
            tokens: vec![token("local", 0, Some(5))],
            users: 1,
            approvers: 1,
            unshown: Vec::new(),
            chain: ChainState::Intact(12),
        }),
        is_local_token_valid: Some(true),
        clients: Vec::new(),
        now_ms: 0,
    }
}

/// Returns the findings of one check that are not `ok`.
fn problems(facts: &Facts) -> Vec<String> {
    let rows = report(facts, Vec::new()).checks;
    let bad = rows.iter().filter(|row| row.finding.result >= Outcome::Warning);
    bad.map(|row| {
        format!("{} {} {}", row.finding.result.words(), row.code, row.finding.subject.as_deref().unwrap_or("-"))
    })
    .collect()
}

#[test]
fn nothing_is_wrong() {
    let report = report(&healthy(), Vec::new());
    assert_eq!((report.errors, report.warnings), (0, 0));
    assert_eq!(report.checks.len(), CHECKS.len(), "each check has its row");
    assert!(report.checks.iter().all(|row| row.finding.result == Outcome::Ok), "{report:?}");
}

#[test]
fn each_problem_has_its_code_and_a_next_step() {
    let check = |change: &dyn Fn(&mut Facts), expected: &[&str]| {
        let mut facts = healthy();
        change(&mut facts);
        assert_eq!(problems(&facts), expected);
        let rows = report(&facts, Vec::new()).checks;
        let bad = rows.iter().filter(|row| row.finding.result >= Outcome::Warning);
        assert!(bad.into_iter().all(|row| row.finding.next.is_some()), "{rows:?}");
    };
    let with = |facts: &mut Facts, change: &dyn Fn(&mut GatewayFacts)| {
        let Ok(Some(gateway)) = &mut facts.gateway else { panic!("it runs") };
        change(gateway);
    };
    check(
        &|facts| facts.settings = Err("a.json:1:2: bad\nb.yaml:3:4: worse".to_owned()),
        &["✗ error settings_invalid -", "✗ error settings_invalid -"],
    );
    check(
        &|facts| with(facts, &|gateway| gateway.status["settings"]["error"] = "bad".into()),
        &["✗ error settings_refused -"],
    );
    check(
        &|facts| with(facts, &|gateway| gateway.status["settings"]["held"] = json!({"changes": ["fx:a"], "more": 2})),
        &["! warn weakening_held -"],
    );
    check(
        &|facts| facts.open_files = vec![("/data/admin.key".to_owned(), 0o644)],
        &["✗ error file_mode /data/admin.key"],
    );
    check(
        &|facts| (facts.gateway, facts.port) = (Ok(None), PortState::Taken(Some("nginx (pid 812)".to_owned()))),
        &["! warn gateway_stopped -", "✗ error port_in_use -"],
    );
    check(&|facts| facts.gateway = Err("timeout".to_owned()), &["✗ error gateway_stopped -"]);
    let certificate = |validity: &str, expected: &[&str]| {
        let tls = json!({"expires": "2026-01-01T00:00:00Z", "validity": validity});
        check(&|facts| with(facts, &|gateway| gateway.status["tls"] = tls.clone()), expected);
    };
    certificate("valid", &[]);
    certificate("ends_soon", &["! warn certificate_expired -"]);
    certificate("expired", &["✗ error certificate_expired -"]);
    certificate("not_yet", &["✗ error certificate_expired -"]);
    check(&|facts| facts.storage = StorageState::Unreachable("refused".to_owned()), &["✗ error storage_unreachable -"]);
    check(
        &|facts| with(facts, &|gateway| gateway.status["log"]["reason"] = "disk full".into()),
        &["✗ error log_unavailable -"],
    );
    let client = |is_connected| ClientFacts { id: "cursor", title: "Cursor", is_connected };
    check(&|facts| facts.clients = vec![client(Ok(false))], &["! warn client_not_connected Cursor"]);
    check(&|facts| facts.clients = vec![client(Err("bad".to_owned()))], &["! warn client_not_connected Cursor"]);
    check(&|facts| facts.clients = vec![client(Ok(true))], &[]);
    check(&|facts| facts.is_local_token_valid = Some(false), &["✗ error token_revoked -"]);
    check(
        &|facts| with(facts, &|gateway| gateway.status["approvals"]["waiting"] = 2.into()),
        &["! warn approval_waiting -"],
    );
    let waiting = json!([{"name": "fx", "state": "ready", "hidden_tools": [], "to_review": 3}]);
    check(
        &|facts| with(facts, &|gateway| gateway.servers = json!({ "servers": waiting })),
        &["! warn review_waiting fx"],
    );
    let storage = |facts: &mut Facts, change: &dyn Fn(&mut StorageFacts)| {
        let StorageState::Open(storage) = &mut facts.storage else { panic!("it answers") };
        change(storage);
    };
    check(
        &|facts| storage(facts, &|storage| storage.chain = ChainState::Damaged("line 3".to_owned())),
        &["✗ error chain_damaged -"],
    );
    check(&|facts| storage(facts, &|storage| (storage.users, storage.approvers) = (0, 0)), &["! warn no_approver -"]);
    check(&|facts| storage(facts, &|storage| (storage.users, storage.approvers) = (2, 0)), &["! warn no_approver -"]);
    check(&|facts| storage(facts, &|storage| (storage.users, storage.approvers) = (2, 1)), &[]);
    let old = 8 * 24 * 60 * 60 * 1000;
    check(
        &|facts| {
            facts.now_ms = old;
            storage(facts, &|storage| storage.tokens = vec![token("ci", 0, None), token("new", old, None)]);
        },
        &["! warn token_unused ci"],
    );
}

#[test]
fn files_of_the_last_run_that_are_gone() {
    let mut facts = healthy();
    let message = "1 file of the last run is gone:\n  contracts/a.yaml\n  fx:a: contract removed";
    let failure = Failure::new(Exit::BadSettings, message).hint("restore the files");
    facts.missing_files = MissingFiles::Found(failure);
    assert_eq!(problems(&facts), ["✗ error files_missing -"]);
    let rows = report(&facts, Vec::new()).checks;
    let finding = &rows.iter().find(|row| row.code == "files_missing").unwrap().finding;
    assert_eq!(finding.message, "1 file of the last run is gone: contracts/a.yaml; fx:a: contract removed");
    assert_eq!(finding.next.as_deref(), Some("restore the files"));
    facts.missing_files = MissingFiles::NotChecked("needs the database");
    let rows = report(&facts, Vec::new()).checks;
    let finding = &rows.iter().find(|row| row.code == "files_missing").unwrap().finding;
    assert_eq!((finding.result, finding.message.as_str()), (Outcome::Skipped, "needs the database"));
}

/// A log that is too large to verify here counts as verified only after a full verification.
#[test]
fn a_large_log_needs_a_full_verification() {
    const DAY_MS: i64 = 24 * 60 * 60 * 1000;
    let of = |chain: ChainState| {
        let mut facts = healthy();
        let StorageState::Open(storage) = &mut facts.storage else { panic!("it answers") };
        storage.chain = chain;
        let rows = report(&facts, Vec::new()).checks;
        let row = rows.iter().find(|row| row.code == "chain_damaged").unwrap();
        (row.finding.result, row.finding.message.clone())
    };
    let verified = "every line was verified within 3 days, and the new ones of 300000 lines now";
    let continued = ChainState::Continued { lines: 300_000, full_ms: -2 * DAY_MS };
    assert_eq!(of(continued), (Outcome::Ok, verified.to_owned()));
    // Without reading the new lines, nothing is known.
    for days in [None, Some(2), Some(7), Some(-1)] {
        let full_ms = days.map(|days| -days * DAY_MS);
        let (result, message) = of(ChainState::TooLong { lines: 300_000, full_ms });
        assert_eq!(result, Outcome::Skipped);
        assert!(message.ends_with("Run `mcpproxy --home /data activity verify --full`"), "{message}");
    }
}

#[test]
fn servers_that_do_not_work() {
    let mut facts = healthy();
    let mut gateway = gateway(json!([
        {"name": "git", "state": "waiting", "reason": "the process ended with exit code 1"},
        {"name": "docs", "state": "misconfigured", "reason": "DOCS_TOKEN is not set", "hint": "export DOCS_TOKEN"},
        {"name": "slow", "state": "connecting"},
        {"name": "odd", "state": "ready", "hidden_tools": [{"name": "x", "reason": "no schema"}]},
        {"name": "off", "state": "disabled"},
    ]));
    gateway.last_lines.insert("git".to_owned(), "GIT_TOKEN is not set".to_owned());
    facts.gateway = Ok(Some(gateway));
    assert_eq!(
        problems(&facts),
        ["✗ error server_misconfigured docs", "✗ error server_down git", "! warn tool_hidden odd",]
    );
    let rows = report(&facts, Vec::new()).checks;
    let of = |name: &str| rows.iter().find(|row| row.finding.subject.as_deref() == Some(name)).unwrap().finding.clone();
    assert_eq!(of("git").message, "the process ended with exit code 1. It last wrote: GIT_TOKEN is not set");
    assert_eq!(of("git").next.as_deref(), Some("mcpproxy --home /data servers logs git"));
    let Ok(Some(gateway)) = &mut facts.gateway else { panic!("it runs") };
    gateway.last_lines.insert("git".to_owned(), "[mcpproxy] the process ended with exit code 1".to_owned());
    let rows_again = report(&facts, Vec::new()).checks;
    let git = rows_again.iter().find(|row| row.finding.subject.as_deref() == Some("git")).unwrap();
    assert_eq!(git.finding.message, "the process ended with exit code 1", "the same reason is not repeated");
    assert_eq!(of("docs").next.as_deref(), Some("export DOCS_TOKEN"));
}

#[test]
fn destructive_tools_that_nobody_is_asked_about() {
    let mut facts = healthy();
    let server = |name: &str, state: &str, count: u64| json!({"name": name, "state": state, "hidden_tools": [], "unasked_destructive_tools": count});
    facts.gateway = Ok(Some(gateway(json!([server("a", "ready", 0), server("files", "ready", 1)]))));
    assert_eq!(problems(&facts), ["! warn destructive_unasked -"]);
    let finding = |facts: &Facts| {
        let rows = report(facts, Vec::new()).checks;
        rows.into_iter().find(|row| row.code == "destructive_unasked").unwrap().finding
    };
    assert_eq!(finding(&facts).message, "1 destructive tool runs without asking a user: files (1).");
    assert_eq!(
        finding(&facts).next.as_deref(),
        Some("run `mcpproxy --home /data contract draft files --to /data/contracts/files.yaml`")
    );
    let many = ["a", "b", "c", "d"].map(|name| server(name, "ready", 2));
    facts.gateway = Ok(Some(gateway(many.into_iter().collect())));
    assert_eq!(finding(&facts).message, "8 destructive tools run without asking a user: a (2), b (2), c (2), ….");
}

#[test]
fn a_refused_file_is_told_once() {
    let mut facts = healthy();
    facts.settings = Err("a.json:1:2: bad".to_owned());
    let Ok(Some(gateway)) = &mut facts.gateway else { panic!("it runs") };
    gateway.status["settings"]["error"] = "a.json:1:2: bad".into();
    let told = |facts: &Facts| text(&report(facts, Vec::new()), 200, Colours::Off).matches("1:2: bad").count();
    assert_eq!(told(&facts), 1);
    // The file was corrected a moment ago.
    facts.settings = Ok(Some(1));
    assert_eq!(told(&facts), 1);
}

#[test]
fn a_client_that_never_showed_the_prompt() {
    let mut facts = healthy();
    let StorageState::Open(storage) = &mut facts.storage else { panic!("it answers") };
    storage.unshown = ["codex 0.1", "zed", "codex 0.1"].map(str::to_owned).to_vec();
    assert_eq!(problems(&facts), ["! warn elicitation_declined codex 0.1", "! warn elicitation_declined zed"]);
    let rows = report(&facts, Vec::new()).checks;
    let message = &rows.iter().find(|row| row.finding.subject.is_some()).unwrap().finding.message;
    assert!(message.contains("declined 2 approval prompts"), "{message}");
}

#[test]
fn invalid_settings_are_no_problem_of_the_database() {
    let mut facts = healthy();
    facts.settings = Err("a.json:1:2: bad".to_owned());
    (facts.gateway, facts.port, facts.storage) = (Ok(None), PortState::NeedsSettings, StorageState::NeedsSettings);
    assert_eq!(problems(&facts), ["✗ error settings_invalid -", "! warn gateway_stopped -"]);
    let rows = report(&facts, Vec::new()).checks;
    for code in ["port_in_use", "storage_unreachable", "chain_damaged", "server_misconfigured", "no_approver"] {
        let row = rows.iter().find(|row| row.code == code).unwrap();
        assert_eq!((row.finding.result, row.finding.message.as_str()), (Outcome::Skipped, "needs valid settings"));
    }
}

#[test]
fn mistakes_of_servers_are_found_without_a_gateway() {
    let mut facts = healthy();
    facts.gateway = Ok(None);
    facts.misconfigured = vec![("docs".to_owned(), "line 1, column 2: unset".to_owned())];
    assert_eq!(problems(&facts), ["! warn gateway_stopped -", "✗ error server_misconfigured docs"]);
    let rows = report(&facts, Vec::new()).checks;
    assert_eq!(rows[0].finding.message, "/data/mcp_config.json can be read, 2 servers, 1 misconfigured");
}

/// A word such as `server_down` beside a check mark would read as a contradiction.
#[test]
fn rows_without_a_problem_have_no_code() {
    let text = text(&report(&healthy(), Vec::new()), 80, Colours::Off);
    for check in CHECKS {
        assert!(!text.contains(check.code) && text.contains(check.title), "{}\n{text}", check.code);
    }
}

#[test]
fn the_output_fits() {
    let mut facts = healthy();
    facts.gateway = Ok(None);
    facts.port = PortState::Taken(Some("nginx (pid 812)".to_owned()));
    let report = report(&facts, vec!["/data/admin.key: mode 644 is now 600".to_owned()]);
    for room in [60, 80, 120] {
        let text = text(&report, room, Colours::Off);
        let widest = text.lines().map(width).max().unwrap_or_default();
        assert!(widest <= room, "{room}: {widest}\n{text}");
    }
    insta::assert_snapshot!("doctor_60", text(&report, 60, Colours::Off));
    insta::assert_snapshot!("doctor_80", text(&report, 80, Colours::Off));
}
