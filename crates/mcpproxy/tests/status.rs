//! Tests of `status`, `doctor` and `open`, with and without a gateway.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test that cannot go on stops"
)]

mod common;

use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use std::process::Stdio;

use common::{Folder, Serving, wait};
use insta::assert_snapshot;
use serde_json::{Value, json};

/// Settings whose port the kernel chooses, so that no other program holds it.
fn settings(servers: &str) -> String {
    format!("{{\"listen\": \"127.0.0.1:0\", \"mcpServers\": {{{servers}}}}}")
}

/// Returns the JSON of a command and its exit code.
fn json_of(folder: &Folder, args: &[&str]) -> (Value, Option<i32>) {
    let output = folder.command(args).args(["-o", "json"]).output().unwrap();
    (serde_json::from_slice(&output.stdout).unwrap(), output.status.code())
}

/// Returns the rows with this code, as result and subject.
fn rows(report: &Value, code: &str) -> Vec<(String, Option<String>)> {
    let checks = report["checks"].as_array().unwrap();
    let rows = checks.iter().filter(|row| row["code"] == code);
    rows.map(|row| (row["result"].as_str().unwrap().to_owned(), row["subject"].as_str().map(str::to_owned))).collect()
}

fn is(result: &str) -> Vec<(String, Option<String>)> {
    vec![(result.to_owned(), None)]
}

#[test]
fn without_a_gateway() {
    let folder = Folder::new();
    folder.write("mcp_config.json", &settings(""));
    assert_snapshot!("status_stopped", folder.run(&["status"]));
    let (status, code) = json_of(&folder, &["status"]);
    assert_eq!((&status["running"], &status["gateway"], code), (&json!(false), &Value::Null, Some(7)));
    assert!(status["next"].as_str().unwrap().ends_with(" serve"), "{status}");
    assert!(folder.run(&["open", "--print"]).starts_with("exit 7\n"));

    let (report, code) = json_of(&folder, &["doctor"]);
    assert_eq!(code, Some(0), "a stopped gateway is a warning: {report}");
    assert_eq!(rows(&report, "gateway_stopped"), is("warn"));
    assert_eq!(rows(&report, "server_down"), is("skipped"));
    assert_eq!(rows(&report, "files_missing"), is("skipped"), "there is no last run");

    // A gateway runs the other servers, so the next step is to start it.
    let next = |servers: &str| {
        folder.write("mcp_config.json", &settings(servers));
        json_of(&folder, &["status"]).0["next"].as_str().unwrap().to_owned()
    };
    let wrong = "\"a\": {\"command\": \"x\", \"env\": {\"A\": \"${env:MCPPROXY_TEST_UNSET}\"}}";
    assert!(next(&format!("{wrong}, \"demo\": {{\"type\": \"demo\"}}")).ends_with(" serve"));
    assert!(next(wrong).starts_with("correct `a` in "));

    folder.write("mcp_config.json", "{\"mcpServers\": [");
    let (report, code) = json_of(&folder, &["doctor"]);
    assert_eq!((code, rows(&report, "settings_invalid")), (Some(1), is("error")));
    for check in ["files_missing", "port_in_use", "storage_unreachable", "no_approver", "server_misconfigured"] {
        assert_eq!(rows(&report, check), is("skipped"), "{check} needs valid settings");
    }
    let (status, _) = json_of(&folder, &["status"]);
    assert!(status["next"].as_str().unwrap().ends_with(" config check"), "{status}");
    let text = folder.run(&["status"]);
    assert!(text.ends_with(" config check\n") && !text.contains(" serve"), "one next step: {text}");
}

/// A mistake in one server is found before a gateway starts.
#[test]
fn a_misconfigured_server_without_a_gateway() {
    let folder = Folder::new();
    folder.write("mcp_config.json", &settings("\"a\": {\"comand\": \"x\"}, \"demo\": {\"type\": \"demo\"}"));
    let (report, code) = json_of(&folder, &["doctor"]);
    let found = rows(&report, "server_misconfigured");
    assert_eq!((code, found), (Some(1), vec![("error".to_owned(), Some("a".to_owned()))]), "{report}");
    let (status, _) = json_of(&folder, &["status"]);
    assert!(status["problems"][0]["next"].as_str().unwrap().starts_with("correct `a` in "), "{status}");
    assert!(status["next"].as_str().unwrap().ends_with(" serve"), "the other server would run: {status}");
}

#[test]
fn a_port_that_another_program_holds() {
    let folder = Folder::new();
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    folder.write("mcp_config.json", &format!("{{\"listen\": \"{address}\"}}"));
    let (report, code) = json_of(&folder, &["doctor"]);
    assert_eq!((code, rows(&report, "port_in_use")), (Some(1), is("error")));
    let message = report["checks"].as_array().unwrap().iter().find(|row| row["code"] == "port_in_use").unwrap();
    let holder = format!("(pid {}) listens on {address}", std::process::id());
    assert!(message["message"].as_str().unwrap().contains(&holder), "{message}");
}

#[test]
fn a_running_gateway() {
    let folder = Folder::new();
    folder.write("mcp_config.json", &settings("\"demo\": {\"type\": \"demo\"}"));
    let serving = Serving::start(&folder);
    let (status, code) = json_of(&folder, &["status"]);
    assert_eq!((&status["running"], code), (&json!(true), Some(0)));
    assert_eq!(status["gateway"]["address"], json!(serving.address));
    assert_eq!(status["problems"][0]["code"], "no_approver");
    assert_eq!((&status["users"], &status["approvers"]), (&json!(0), &json!(0)));
    assert!(status["next"].as_str().unwrap().starts_with("open the setup link "), "{status}");
    let text = folder.run(&["status"]);
    for line in [
        "Gateway    ✓ running version ",
        "Servers    1 ready, 26 tools",
        "Approvals  none waiting",
        "Log        ✓ writable",
    ] {
        assert!(text.lines().any(|shown| shown.starts_with(line)), "{line}\n{text}");
    }
    let url = folder.json(&["open", "--print"])["url"].as_str().unwrap().to_owned();
    assert!(url.starts_with("http://localhost:") && url.ends_with("/ui/"), "{url}");

    let (report, code) = json_of(&folder, &["doctor"]);
    assert_eq!(code, Some(0), "{report}");
    for check in
        ["settings_invalid", "port_in_use", "storage_unreachable", "chain_damaged", "server_down", "token_revoked"]
    {
        assert_eq!(rows(&report, check), is("ok"), "{check}: {report}");
    }
    assert_eq!(rows(&report, "files_missing"), is("skipped"), "the gateway keeps the files of its start");
    assert_eq!(serving.stop(), Some(0));
    assert_eq!(rows(&json_of(&folder, &["doctor"]).0, "files_missing"), is("ok"));
}

#[test]
fn a_server_that_does_not_start() {
    let folder = Folder::new();
    let script = "echo 'GIT_TOKEN is not set' >&2; exit 3";
    folder.write(
        "mcp_config.json",
        &settings(&format!("\"git\": {{\"command\": \"sh\", \"args\": [\"-c\", \"{script}\"]}}")),
    );
    let _serving = Serving::start(&folder);
    wait("the failure", || json_of(&folder, &["status"]).0["gateway"]["servers"]["failed"] == 1);
    let (report, code) = json_of(&folder, &["doctor"]);
    assert_eq!((code, rows(&report, "server_down")), (Some(1), vec![("error".to_owned(), Some("git".to_owned()))]));
    let row = report["checks"].as_array().unwrap().iter().find(|row| row["code"] == "server_down").unwrap();
    assert!(row["message"].as_str().unwrap().contains("GIT_TOKEN is not set"), "{row}");
    let (status, _) = json_of(&folder, &["status"]);
    assert_eq!(status["next"], status["problems"][0]["next"], "the first error comes first: {status}");
    assert!(status["next"].as_str().unwrap().starts_with("GIT_TOKEN is not set. Set it"), "{status}");
}

#[test]
fn fixing_changes_modes_only() {
    let folder = Folder::new();
    folder.write("mcp_config.json", &settings(""));
    Serving::start(&folder).stop();
    let key = folder.file("admin.key");
    let before = folder.read("admin.key");
    let set = |mode: u32| std::fs::set_permissions(&key, std::fs::Permissions::from_mode(mode)).unwrap();
    let mode = || std::fs::metadata(&key).unwrap().permissions().mode() & 0o777;
    set(0o644);
    let (report, code) = json_of(&folder, &["doctor"]);
    assert_eq!((code, mode()), (Some(1), 0o644), "without --fix nothing changes");
    assert_eq!(rows(&report, "file_mode").len(), 1);
    let (report, code) = json_of(&folder, &["doctor", "--fix"]);
    assert_eq!((code, mode(), folder.read("admin.key")), (Some(0), 0o600, before));
    assert!(report["fixed"][0].as_str().unwrap().ends_with("admin.key: mode 644 is now 600"), "{report}");
    assert_eq!(rows(&report, "file_mode"), is("ok"));
}

#[test]
fn a_connected_client_is_listed_with_its_revision() {
    let folder = Folder::new();
    folder.write("mcp_config.json", &settings(""));
    let serving = Serving::start(&folder);
    assert_eq!(serving.admin("/api/v1/clients"), json!({"clients": []}));
    let mut client = folder.command(&["stdio"]).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let params = json!({
        "protocolVersion": "2025-06-18", "capabilities": {"elicitation": {}},
        "clientInfo": {"name": "editor", "version": "1.2"},
    });
    let input = client.stdin.as_mut().unwrap();
    writeln!(input, "{}", json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params})).unwrap();
    let mut answer = String::new();
    BufReader::new(client.stdout.as_mut().unwrap()).read_line(&mut answer).unwrap();

    let listed = serving.admin("/api/v1/clients")["clients"][0].clone();
    assert_eq!(
        (&listed["client"], &listed["protocol"], &listed["elicitation"]),
        (&json!("editor 1.2"), &json!("2025-06-18"), &json!(true)),
        "{answer}"
    );
    let (report, _) = json_of(&folder, &["doctor"]);
    assert_eq!(rows(&report, "client_revision"), [("ok".to_owned(), Some("editor 1.2".to_owned()))]);
    drop(client.stdin.take());
    client.wait().unwrap();
}

/// A client that declines a prompt at once has asked nobody. The gateway records it, and `doctor` names the client.
#[test]
fn a_client_that_declines_unseen_prompts_is_named() {
    let folder = Folder::new();
    // A form needs no account, so the client is asked although nobody has one.
    let demo = "\"demo\": {\"type\": \"demo\"}}, \"approvals\": {\"channels\": {\"high\": \"form\"}";
    folder.write("mcp_config.json", &settings(demo));
    let serving = Serving::start(&folder);
    assert_eq!(rows(&json_of(&folder, &["doctor"]).0, "elicitation_declined"), is("ok"));
    let mut client = folder.command(&["stdio"]).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut input = client.stdin.take().unwrap();
    let mut output = BufReader::new(client.stdout.take().unwrap()).lines();
    let mut until = |wanted: &dyn Fn(&Value) -> bool| {
        let mut messages = output.by_ref().map(|line| serde_json::from_str::<Value>(&line.unwrap()).unwrap());
        messages.find(|message| wanted(message)).expect("the message comes")
    };
    let params = json!({
        "protocolVersion": "2025-11-25", "capabilities": {"elicitation": {"form": {}, "url": {}}},
        "clientInfo": {"name": "hasty", "version": "1.0"},
    });
    writeln!(input, "{}", json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params})).unwrap();
    until(&|message| message["id"] == 1);
    writeln!(input, "{}", json!({"jsonrpc": "2.0", "method": "notifications/initialized"})).unwrap();
    let call = json!({
        "name": "call_tool_write",
        "arguments": {
            "name": "demo:update_customer_data", "args": {"customerId": "c_1", "changes": {"company": "Acme"}},
            "intent": {"operation_type": "write", "data_sensitivity": "private", "reason": "asked for"},
        },
    });
    writeln!(input, "{}", json!({"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": call})).unwrap();
    let prompt = until(&|message| {
        assert_ne!(message["id"], 2, "{message}");
        message["method"] == "elicitation/create"
    });
    writeln!(input, "{}", json!({"jsonrpc": "2.0", "id": prompt["id"], "result": {"action": "decline"}})).unwrap();

    let named = || rows(&json_of(&folder, &["doctor"]).0, "elicitation_declined");
    wait("the record", || named() == [("warn".to_owned(), Some("client \"hasty 1.0\"".to_owned()))]);
    drop(input);
    assert_eq!(serving.stop(), Some(0));
    assert_eq!(named().len(), 1, "the record is found without a gateway too");
    client.wait().unwrap();
}
