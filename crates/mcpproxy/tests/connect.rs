//! `connect`: every client, existing files, bad input, and undo byte for byte.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test that cannot go on stops"
)]

#[path = "connect/bad_input.rs"]
mod bad_input;
mod common;
#[path = "connect/desk.rs"]
mod desk;
#[path = "connect/people.rs"]
mod people;
#[path = "connect/tokens.rs"]
mod tokens;

use std::fs;

use common::Serving;
use desk::{CLIENTS, Desk};
use insta::assert_snapshot;
use serde_json::Value;

#[test]
fn every_client_is_connected_and_undone() {
    for (client, folder) in CLIENTS {
        let desk = Desk::new();
        fs::create_dir_all(desk.home_file(folder)).unwrap();
        let before = desk.files();
        let connected = desk.run(&["connect", client, "--permissions", "--yes"]);
        assert!(connected.starts_with("exit 0\n"), "{client}: {connected}");
        assert_snapshot!(format!("{client}"), format!("{connected}\n{}", desk.shown_files()));
        let undone = desk.run(&["connect", client, "--undo", "--yes"]);
        assert!(undone.starts_with("exit 0\n"), "{client}: {undone}");
        assert_eq!(desk.files(), before, "{client}");
        assert!(desk.valid_tokens().is_empty(), "{client}");
        assert!(!desk.data.file(&format!("connect/{client}.json")).exists());
    }
}

const JSONC: &str = "// settings of Kim\n{\n\t\"theme\": \"dark\", // easy on the eyes\n\t\"SERVERS\": {\n\t\t/* mail */\n\t\t\"mail\": {\"command\": \"mail\", \"env\": {\"KEY\": \"hunter2\"}},\n\t},\n\t\"last\": [1,2]\n}";
const TOML: &str = "# settings of Kim\nmodel = \"o3\"   # odd spaces\n\n[mcp_servers.mail]\ncommand = 'mail'\nenv = { KEY = \"hunter2\" }\n\n# the end\n[tui]\ntheme = \"dark\"\n";
const YAML: &str = "# settings of Kim\nGOOSE_MODE: smart_approve\nextensions:\n    mail:\n        cmd: mail   # odd spaces\n        envs:\n            KEY: hunter2\n\n# the end\nGOOSE_MODEL: o3\n";

#[test]
fn existing_files_keep_everything() {
    let json = |servers: &str| JSONC.replace("SERVERS", servers);
    let cases = [
        ("claude-code", ".claude.json", json("mcpServers")),
        ("claude-desktop", ".config/Claude/claude_desktop_config.json", json("mcpServers")),
        ("cursor", ".cursor/mcp.json", json("mcpServers")),
        ("vscode", ".config/Code/User/mcp.json", json("servers")),
        ("codex", ".codex/config.toml", TOML.to_owned()),
        ("gemini", ".gemini/settings.json", json("mcpServers")),
        ("opencode", ".config/opencode/opencode.jsonc", json("mcp")),
        ("qwen", ".qwen/settings.json", json("mcpServers")),
        ("windsurf", ".codeium/windsurf/mcp_config.json", json("mcpServers")),
        ("zed", ".config/zed/settings.json", json("context_servers")),
        ("goose", ".config/goose/config.yaml", YAML.to_owned()),
    ];
    assert_eq!(cases.len(), CLIENTS.len());
    let windows = |text: &str| format!("\u{feff}{}", text.replace('\n', "\r\n"));
    for (client, file, text) in cases {
        for text in [text.clone(), windows(&text)] {
            let desk = Desk::new();
            desk.write(file, &text);
            let before = desk.files();
            let connected = desk.run(&["connect", client, "--permissions", "--yes"]);
            assert!(connected.starts_with("exit 0\n"), "{client}: {connected}");
            assert!(!connected.contains("hunter2"), "{client}: {connected}");
            let after = desk.read(file);
            assert_ne!(after, text, "{client}");
            assert_eq!(after.starts_with('\u{feff}'), text.starts_with('\u{feff}'), "{client}");
            assert_eq!(after.contains("\r\n"), text.contains("\r\n"), "{client}");
            assert!(!text.contains("\r\n") || !after.replace("\r\n", "").contains('\n'), "{client}: {after:?}");
            // Every old line is still there. The last line of a table may have got a comma.
            for line in text.lines().filter(|line| !line.trim().is_empty()) {
                assert!(
                    after.contains(line.trim_end_matches(['}', ']', ',']).trim_end()),
                    "{client}: {line:?}\n{after}"
                );
            }
            let undone = desk.run(&["connect", client, "--undo", "--yes"]);
            assert!(undone.starts_with("exit 0\n"), "{client}: {undone}");
            assert_eq!(desk.files(), before, "{client}");
        }
    }
}

#[test]
fn the_difference_hides_secrets() {
    let desk = Desk::new();
    desk.write(".cursor/mcp.json", &JSONC.replace("SERVERS", "mcpServers"));
    assert_snapshot!("difference", desk.run(&["connect", "cursor", "--dry-run"]));
    // All in one line.
    desk.write(
        ".cursor/mcp.json",
        "{\"mcpServers\":{\"a\":{\"args\":[\"--pin\",\"4711\"],\"env\":{\"K\":\"hunter2\"}}}}",
    );
    let shown = desk.run(&["connect", "cursor", "--dry-run"]);
    assert!(!shown.contains("hunter2") && !shown.contains("4711"), "{shown}");
    let connected = desk.run(&["connect", "cursor", "--yes"]);
    let token = desk.token(".cursor/mcp.json");
    assert!(!connected.contains(&token) && !connected.contains("hunter2"), "{connected}");
    let json = desk.run(&["connect", "cursor", "--undo", "--dry-run", "-o", "json"]);
    assert!(!json.contains(&token) && !json.contains("hunter2"), "{json}");
}

#[test]
fn a_dry_run_writes_nothing() {
    let desk = Desk::new();
    desk.write(".cursor/mcp.json", "{}");
    let before = desk.files();
    let shown: Value = desk.json(&["connect", "cursor", "--permissions", "--dry-run"]);
    assert_eq!((&shown["dry_run"], &shown["clients"][0]["state"]), (&Value::from(true), &Value::from("would_connect")));
    assert!(shown["clients"][0]["files"][0]["diff"].as_str().unwrap().contains("+"), "{shown}");
    assert_eq!(desk.files(), before);
    assert_eq!(fs::read_dir(desk.data.path()).unwrap().count(), 0, "not even a database");
    desk.run(&["connect", "cursor", "--yes"]);
    let before = desk.files();
    let shown = desk.json(&["connect", "cursor", "--undo", "--dry-run"]);
    assert_eq!((&shown["action"], &shown["clients"][0]["state"]), (&"undo".into(), &"would_disconnect".into()));
    assert_eq!(desk.files(), before);
    assert_eq!(desk.valid_tokens(), ["cursor"]);
}

#[test]
fn a_dry_run_does_not_hide_a_broken_database() {
    let desk = Desk::new();
    desk.write(".cursor/mcp.json", "{}");
    desk.run(&["connect", "cursor", "--yes"]);
    let is_database = |path: &std::path::PathBuf| path.extension().is_some_and(|extension| extension == "db");
    let files = fs::read_dir(desk.data.path()).unwrap().map(|entry| entry.unwrap().path());
    let databases: Vec<_> = files.filter(is_database).collect();
    assert_eq!(databases.len(), 1, "{databases:?}");
    fs::write(&databases[0], "no database ".repeat(1000)).unwrap();
    let shown = desk.run(&["connect", "cursor", "--dry-run"]);
    assert!(shown.starts_with("exit 1\n") && shown.contains("could not open the database"), "{shown}");
}

#[test]
fn permissions_say_which_calls_they_do_not_cover() {
    let check = |settings: Option<&str>, expected: &[&str]| {
        let desk = Desk::new();
        desk.write(".cursor/mcp.json", "{}");
        if let Some(settings) = settings {
            desk.data.write("mcp_config.json", settings);
        }
        let report = desk.json(&["connect", "cursor", "--permissions", "--yes"]);
        let next: Vec<&str> = report["next"].as_array().unwrap().iter().map(|step| step.as_str().unwrap()).collect();
        assert!(next[0].starts_with("No gateway is running."), "{next:?}");
        assert_eq!(next.len(), 1 + expected.len(), "{next:?}");
        assert!(next[1..].iter().zip(expected).all(|(step, expected)| step.contains(expected)), "{next:?}");
        let report = desk.json(&["connect", "cursor"]);
        assert_eq!(report["next"].as_array().unwrap().len(), 1, "without the rules, there is no promise");
    };
    let with = |intent: &str| {
        format!("{{\"mcpServers\": {{\"a\": {{\"command\": \"a\"}}}}, \"intent_declaration\": {{{intent}}}}}")
    };
    // The tools of the demo server have annotations.
    check(None, &[]);
    check(Some(&with("")), &["set \"intent_declaration\": {\"unannotated\": \"require_write\"} in "]);
    check(Some(&with("\"unannotated\": \"warn\"")), &["\"require_write\""]);
    check(Some(&with("\"unannotated\": \"require_write\"")), &[]);
    check(Some(&with("\"strict_server_validation\": false")), &["{\"strict_server_validation\": true}"]);
}

#[test]
fn without_arguments_the_clients_are_listed() {
    let desk = Desk::new();
    assert_snapshot!("clients_none", desk.run(&["connect"]));
    desk.write(".cursor/mcp.json", "{}");
    desk.write(".codex/config.toml", "");
    desk.run(&["connect", "cursor", "--yes"]);
    let before = desk.files();
    assert_snapshot!("clients", desk.run(&["connect"]));
    let listed = desk.json(&["connect"]);
    let of = |id: &str| {
        let clients = listed["clients"].as_array().unwrap();
        clients.iter().find(|client| client["client"] == id).unwrap().clone()
    };
    assert_eq!((&of("cursor")["connected"], &of("cursor")["agent"]), (&true.into(), &"cursor".into()));
    assert_eq!((&of("codex")["connected"], &of("codex")["installed"]), (&false.into(), &true.into()));
    assert_eq!(of("zed")["installed"], false);
    assert_eq!(desk.files(), before);
}

#[test]
fn a_client_with_an_invalid_file_is_not_listed_as_fine() {
    let desk = Desk::new();
    desk.write(".cursor/mcp.json", "{ bad");
    desk.write(".codex/config.toml", "");
    let listed = desk.run(&["connect"]);
    let cursor = listed.lines().find(|line| line.starts_with("cursor ")).unwrap();
    assert!(cursor.contains("file invalid") && !listed.contains("cursor  not connected"), "{listed}");
    assert!(listed.contains("\nHOME/.cursor/mcp.json: line 1, column 3: "), "{listed}");
    assert!(listed.contains("Connect a client: mcpproxy --home DATA connect codex\n"), "{listed}");
    let clients = desk.json(&["connect"])["clients"].as_array().unwrap().clone();
    let errors = clients.iter().filter(|client| !client["file_error"].is_null());
    assert_eq!(errors.map(|client| client["client"].as_str().unwrap()).collect::<Vec<_>>(), ["cursor"]);
}

#[test]
fn an_address_that_will_not_last_is_explained() {
    let desk = Desk::new();
    desk.write(".cursor/mcp.json", "{}");
    let write = |listen: &str| {
        let settings = format!("{{{listen}\"mcpServers\": {{\"demo\": {{\"type\": \"demo\"}}}}}}");
        desk.data.write("mcp_config.json", &settings);
    };
    write("");
    let _serving = Serving::start(&desk.data);
    let next = |args: &[&str]| {
        let report = desk.json(&[&["connect", "cursor", "--yes"], args].concat());
        report["next"].as_array().unwrap().iter().map(|step| step.as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    let [step] = next(&[]).try_into().unwrap();
    assert!(step.contains("without `listen` in the settings, the next one listens on 127.0.0.1:8080."), "{step}");
    write("\"listen\": \"127.0.0.1:9\", ");
    let [step] = next(&[]).try_into().unwrap();
    assert!(step.contains("but the settings say 127.0.0.1:9."), "{step}");
    assert_eq!(next(&["--stdio"]), Vec::<String>::new(), "`mcpproxy stdio` finds the gateway");
}

#[test]
fn texts_fit_a_narrow_terminal() {
    for (client, folder) in CLIENTS {
        let desk = Desk::new();
        fs::create_dir_all(desk.home_file(folder)).unwrap();
        for args in [&["connect", client, "--permissions", "--yes"][..], &["connect", client, "--undo", "--yes"]] {
            let output = desk.command(args).env("COLUMNS", "60").output().unwrap();
            assert!(output.status.success(), "{client}");
            let text = String::from_utf8(output.stdout).unwrap();
            let (_, report) = text.split_once("\n\n").unwrap();
            // A path or a command stays whole.
            let home = desk.home_file("").display().to_string();
            let is_whole = |line: &str| line.contains(&home) || line.starts_with("  undo ");
            for line in report.lines().filter(|line| !is_whole(line) && !line.contains("mcpproxy --home")) {
                assert!(line.chars().count() <= 60, "{client}: {line}");
            }
        }
    }
}

#[test]
fn undo_removes_only_the_entry_if_the_client_changed_its_file() {
    let desk = Desk::new();
    desk.write(".claude.json", "{\n  \"mcpServers\": {\n    \"a\": { \"command\": \"a\" }\n  }\n}\n");
    desk.write(".claude/settings.json", "{\n  \"permissions\": { \"allow\": [\"Bash(ls)\"] }\n}\n");
    desk.run(&["connect", "claude-code", "--permissions", "--yes"]);
    // The client writes its file anew, with other spaces and order.
    let value: Value = serde_json::from_str(&desk.read(".claude.json")).unwrap();
    let entries = value["mcpServers"].clone();
    desk.write(".claude.json", &serde_json::json!({"numStartups": 7, "mcpServers": entries}).to_string());
    let rules = desk.read(".claude/settings.json").replace("Bash(ls)", "Bash(pwd)");
    desk.write(".claude/settings.json", &rules);
    let undone = desk.run(&["connect", "claude-code", "--undo", "--yes"]);
    assert!(undone.starts_with("exit 0\n"), "{undone}");
    let left: Value = serde_json::from_str(&desk.read(".claude.json")).unwrap();
    assert_eq!(left, serde_json::json!({"numStartups": 7, "mcpServers": {"a": {"command": "a"}}}));
    let left: Value = serde_json::from_str(&desk.read(".claude/settings.json")).unwrap();
    assert_eq!(left["permissions"], serde_json::json!({"allow": ["Bash(pwd)"], "ask": []}));
    assert!(desk.valid_tokens().is_empty());
}

#[test]
fn undo_refuses_to_remove_what_somebody_changed() {
    let desk = Desk::new();
    desk.write(".cursor/mcp.json", "{ }\n");
    desk.run(&["connect", "cursor", "--yes"]);
    let changed = desk.read(".cursor/mcp.json").replace("\"url\"", "\"disabled\": true,\n      \"url\"");
    desk.write(".cursor/mcp.json", &changed);
    assert_snapshot!("undo_of_a_changed_entry", desk.run(&["connect", "cursor", "--undo", "--yes"]));
    assert_eq!(desk.read(".cursor/mcp.json"), changed);
    assert_eq!(desk.data.read("connect/backups/cursor-1-mcp.json"), "{ }\n");
    assert_eq!(desk.valid_tokens(), ["cursor"]);

    // If somebody removed the entry, only the token is left to revoke.
    desk.write(".cursor/mcp.json", "{\"mcpServers\": {}}");
    assert!(desk.run(&["connect", "cursor", "--undo", "--yes"]).starts_with("exit 0\n"));
    assert_eq!(desk.read(".cursor/mcp.json"), "{\"mcpServers\": {}}");
    assert!(desk.valid_tokens().is_empty());
}

#[test]
fn entries_of_others_need_a_word() {
    let desk = Desk::new();
    let text = "{\"mcpServers\": {\"mcpproxy\": {\"command\": \"other\"}}}";
    desk.write(".cursor/mcp.json", text);
    assert_snapshot!("not_ours", desk.run(&["connect", "cursor", "--yes"]));
    assert_eq!(desk.read(".cursor/mcp.json"), text);
    assert!(desk.valid_tokens().is_empty());
    assert!(desk.run(&["connect", "cursor", "--replace", "--yes"]).starts_with("exit 0\n"));
    assert!(desk.read(".cursor/mcp.json").contains("/mcp\""));
    // A changed file gets the previous entry back.
    let changed = desk.read(".cursor/mcp.json") + "\n// later\n";
    desk.write(".cursor/mcp.json", &changed);
    assert!(desk.run(&["connect", "cursor", "--undo", "--yes"]).starts_with("exit 0\n"));
    assert!(desk.read(".cursor/mcp.json").contains("\"command\": \"other\""));
}

#[test]
fn all_installed_clients() {
    let desk = Desk::new();
    assert_snapshot!("none_installed", desk.run(&["connect", "--all", "--yes"]));
    desk.write(".cursor/mcp.json", "{}");
    desk.write(".codex/config.toml", "");
    desk.write(".qwen/settings.json", "{broken");
    let before = desk.files();
    let output = desk.run(&["connect", "--all", "--yes"]);
    assert_snapshot!("all", output);
    assert_eq!(desk.valid_tokens(), ["codex", "cursor"]);
    assert_eq!(desk.read(".qwen/settings.json"), "{broken");
    assert!(desk.run(&["connect", "--all", "--undo", "--yes"]).starts_with("exit 0\n"));
    assert_eq!(desk.files(), before);
    assert!(desk.valid_tokens().is_empty());
}
