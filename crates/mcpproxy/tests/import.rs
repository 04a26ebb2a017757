//! `mcpproxy import`: real-looking files of clients, in a home folder made for each test.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test that cannot go on stops"
)]

#[path = "import/bad_input.rs"]
mod bad_input;
mod common;
#[path = "import/desk.rs"]
mod desk;
#[path = "import/secrets.rs"]
mod secrets;
#[path = "import/settings_file.rs"]
mod settings_file;

use std::fs;
use std::os::unix::fs::symlink;
use std::path::PathBuf;

use common::Serving;
use desk::{CURSOR, Desk, assert_no_secret, mode};
use serde_json::{Value, json};

#[test]
fn servers_of_all_clients_are_listed() {
    let desk = Desk::new();
    let (exit, text) = desk.run(&["import"]);
    assert_eq!((exit, text.contains("No client on this machine has servers")), (0, true), "{text}");
    desk.client(".cursor/mcp.json", CURSOR);
    desk.client(".codex/config.toml", "[mcp_servers.Figma]\nurl = \"https://mcp.figma.com/mcp\"\n");
    desk.client(".gemini/settings.json", "{ \"mcpServers\": ");
    let (exit, text) = desk.run(&["import"]);
    assert_eq!(exit, 0, "{text}");
    assert!(text.contains("Cursor (cursor)\n  HOME/.cursor/mcp.json\n  3 servers: GitHub, docs, mcpproxy\n"), "{text}");
    assert!(text.contains("1 server: Figma\n"), "{text}");
    assert!(text.contains("cannot be read: `HOME/.gemini/settings.json`: line 1"), "{text}");
    assert!(text.contains("Import the servers of a client with: mcpproxy --home DATA import"), "{text}");
    assert_no_secret(&text);
    let found = desk.json(&["import"]);
    let cursor = found["clients"].as_array().unwrap().iter().find(|client| client["client"] == "cursor").unwrap();
    assert_eq!(cursor["servers"], json!(["GitHub", "docs", "mcpproxy"]));
    assert!(desk.has_nothing());
}

#[test]
fn cursor_is_imported_and_its_entries_removed_and_restored() {
    let desk = Desk::new();
    let file = desk.client(".cursor/mcp.json", CURSOR);

    let (exit, text) = desk.run(&["import", "cursor", "--dry-run"]);
    assert_eq!(exit, 0, "{text}");
    for line in [
        "import GitHub as github\n",
        "  env.GITHUB_TOKEN is copied to secrets/github.GITHUB_TOKEN\n",
        "  args.3 is copied to secrets/github.api-key\n",
        "  url?key is copied to secrets/docs.key\n",
        "skip mcpproxy: it is mcpproxy itself\n",
        "warning: `autoApprove` (github) has no effect",
        "+        \"GITHUB_TOKEN\": \"${file:secrets/github.GITHUB_TOKEN}\"",
        "+      \"url\": \"https://docs.example.com/mcp?key=${file:secrets/docs.key}\"",
        "+        \"LOG\": \"info\"",
        "Dry run: nothing was changed.",
    ] {
        assert!(text.contains(line), "{line} in {text}");
    }
    assert_no_secret(&text);
    assert!(desk.has_nothing());

    // A pipe cannot answer a question.
    let (exit, text) = desk.run(&["import", "cursor"]);
    assert_eq!((exit, text.contains("add --yes to import without asking")), (2, true), "{text}");
    assert!(desk.has_nothing());

    let (exit, text) = desk.run(&["import", "cursor", "--yes"]);
    assert_eq!(exit, 0, "{text}");
    assert!(text.contains("Imported 2 servers from Cursor."), "{text}");
    assert!(text.contains("Secrets were copied to secrets/") && text.contains("The client's file keeps its own copy."));
    let kept = "HOME/.cursor/mcp.json still has these 2 servers too. Once Cursor uses mcpproxy, it sees each tool twice.\n\
                To remove them: mcpproxy --home DATA import cursor --remove-direct\n";
    assert!(text.ends_with(kept), "{text}");
    assert_no_secret(&text);
    let servers = &desk.settings()["mcpServers"];
    assert_eq!(
        servers["github"],
        json!({
            "title": "GitHub", "command": "npx",
            "args": ["-y", "server-github", "--api-key", "${file:secrets/github.api-key}"],
            "env": {
                "GITHUB_TOKEN": "${file:secrets/github.GITHUB_TOKEN}", "LOG": "info", "OTHER_TOKEN": "${env:OTHER_TOKEN}"
            },
            "first_sight": "review",
        })
    );
    assert_eq!(
        servers["docs"],
        json!({
            "url": "https://docs.example.com/mcp?key=${file:secrets/docs.key}",
            "headers": { "Authorization": "Bearer ${file:secrets/docs.Authorization}" },
            "first_sight": "review",
        })
    );
    assert_eq!(servers.get("mcpproxy"), None);
    let secret = |name: &str, text: &str| (name.to_owned(), 0o600, format!("{text}\n"));
    assert_eq!(
        desk.secrets(),
        [
            secret("docs.Authorization", "head-secret-4"),
            secret("docs.key", "query-secret-3"),
            secret("github.GITHUB_TOKEN", "ghp_secret2"),
            secret("github.api-key", "arg-secret-1"),
        ]
    );
    assert_eq!(mode(&desk.data.file("secrets")), 0o700);
    assert_eq!(fs::read_to_string(&file).unwrap(), CURSOR);
    // The gateway finds every secret, and only the variable is missing.
    let (exit, text) = desk.run(&["config", "check"]);
    assert_eq!((exit, text.contains("`OTHER_TOKEN` is not set")), (6, true), "{text}");
    assert_no_secret(&text);

    // The same again changes nothing.
    let before = desk.data.read("mcp_config.json");
    let again = desk.json(&["import", "cursor", "--yes", "--keep-direct"]);
    assert_eq!(again["imported"], json!([]));
    assert_eq!(again["present"], json!([{"name": "github", "title": "GitHub"}, {"name": "docs", "title": "docs"}]));
    assert_eq!(desk.data.read("mcp_config.json"), before);

    let removed = desk.json(&["import", "cursor", "--yes", "--remove-direct"]);
    assert_eq!(removed["removed_direct"], true);
    let left = fs::read_to_string(&file).unwrap();
    assert!(left.contains("// Mine.") && left.contains("own-setting-5") && left.contains("own-secret"), "{left}");
    assert!(!left.contains("GitHub") && !left.contains("docs"), "{left}");
    let backup = PathBuf::from(removed["backup"].as_str().unwrap());
    assert_eq!((fs::read_to_string(&backup).unwrap().as_str(), mode(&backup)), (CURSOR, 0o600));
    assert_eq!(desk.data.read("mcp_config.json"), before);
}

#[test]
fn codex_is_imported_from_toml() {
    let desk = Desk::new();
    let file = desk.client(
        ".codex/config.toml",
        "model = \"gpt\" # keep\n\n[mcp_servers.Figma]\nurl = \"https://mcp.figma.com/mcp\"\n\
         bearer_token_env_var = \"FIGMA_TOKEN\"\ntool_timeout_sec = 45.5\n\n# ours\n[mcp_servers.files]\n\
         command = \"npx\"\nargs = [\"files\"]\n\n[mcp_servers.files.env]\nAPI_KEY = \"toml-secret\"\n",
    );
    let (exit, text) = desk.run(&["import", "codex", "--yes", "--remove-direct"]);
    assert_eq!(exit, 0, "{text}");
    assert!(!text.contains("toml-secret"), "{text}");
    assert!(text.contains("Removed these 2 servers from HOME/.codex/config.toml.\n"), "{text}");
    assert!(text.contains("To restore that file: cp DATA/backups/import-codex-"), "{text}");
    assert!(text.contains("\nThe backup has everything that the file had, secrets included.\n"), "{text}");
    // Now Codex has no servers at all, unless it is connected.
    let next = "Codex does not use mcpproxy yet. Connect it: mcpproxy --home DATA connect codex\n";
    assert!(text.ends_with(next), "{text}");
    let servers = &desk.settings()["mcpServers"];
    assert_eq!(
        servers["figma"],
        json!({
            "title": "Figma", "url": "https://mcp.figma.com/mcp",
            "headers": { "Authorization": "Bearer ${env:FIGMA_TOKEN}" }, "call_timeout": "45500ms",
            "first_sight": "review",
        })
    );
    assert_eq!(servers["files"]["env"]["API_KEY"], "${file:secrets/files.API_KEY}");
    let left = fs::read_to_string(&file).unwrap();
    assert!(left.contains("model = \"gpt\" # keep") && !left.contains("figma"), "{left}");
}

#[test]
fn goose_gemini_and_claude_code() {
    let desk = Desk::new();
    desk.client(
        ".config/goose/config.yaml",
        "GOOSE_PROVIDER: x\nextensions:\n  developer:\n    type: builtin\n    enabled: true\n  fetch:\n    type: stdio\n    \
         name: fetch\n    cmd: uvx\n    args:\n      - mcp-server-fetch\n    envs:\n      FETCH_KEY: yaml-secret\n    \
         timeout: 300\n    enabled: true\n    available_tools: []\n",
    );
    let imported = desk.json(&["import", "goose", "--yes"]);
    assert_eq!(imported["skipped"], json!([{"title": "developer", "reason": "it is part of the client itself"}]));
    assert_eq!(
        desk.settings()["mcpServers"]["fetch"],
        json!({
            "type": "stdio", "title": "fetch", "command": "uvx", "args": ["mcp-server-fetch"],
            "env": {"FETCH_KEY": "${file:secrets/fetch.FETCH_KEY}"}, "call_timeout": "300s", "enabled": true,
            "first_sight": "review",
        })
    );
    desk.client(
        ".gemini/settings.json",
        r#"{"mcpServers": {"old": {"url": "https://h/sse"}, "new": {"httpUrl": "https://h/mcp", "trust": true}}}"#,
    );
    desk.json(&["import", "gemini", "--yes"]);
    assert_eq!(
        desk.settings()["mcpServers"]["old"],
        json!({"url": "https://h/sse", "type": "sse", "first_sight": "review"})
    );
    assert_eq!(
        desk.settings()["mcpServers"]["new"],
        json!({"url": "https://h/mcp", "type": "http", "first_sight": "review"})
    );
    desk.client(
        ".claude.json",
        r#"{"mcpServers": {"time": {"command": "uvx", "args": ["time"]}},
            "projects": {"/p": {"mcpServers": {"time": {"command": "uvx", "args": ["other"]}}}, "/q": {}}}"#,
    );
    desk.json(&["import", "claude-code", "--yes"]);
    assert_eq!(desk.settings()["mcpServers"]["time"]["args"], json!(["time"]));
    assert_eq!(desk.settings()["mcpServers"]["time-2"]["args"], json!(["other"]));
}

#[test]
fn a_file_of_vscode_with_inputs() {
    let desk = Desk::new();
    let file = desk.client(
        "project/mcp.json",
        r#"{"inputs": [{"id": "pat"}], "servers": {"A": {"url": "https://h/mcp", "headers": {"X-Key": "${input:pat}"}}}}"#,
    );
    let imported = desk.json(&["import", file.to_str().unwrap(), "--yes"]);
    assert_eq!(imported["client"], Value::Null);
    let warning = imported["warnings"][0].as_str().unwrap();
    assert!(warning.starts_with("`a` needs `${input:pat}`, which only an editor can resolve"), "{warning}");
    assert_eq!(desk.settings()["mcpServers"]["a"]["headers"]["X-Key"], "${input:pat}");
}

/// A client that is connected is not told to connect.
#[test]
fn a_connected_client_is_restarted() {
    let desk = Desk::new();
    desk.client(".cursor/mcp.json", CURSOR);
    let (exit, text) = desk.run(&["import", "cursor", "--yes", "--remove-direct"]);
    assert_eq!(exit, 0, "{text}");
    assert!(text.contains("Restart Cursor") && !text.contains("connect cursor"), "{text}");
}

#[test]
fn a_running_gateway_takes_over_the_servers() {
    let desk = Desk::new();
    desk.data.write("mcp_config.json", "{\"mcpServers\": {}}");
    // Under its own name the program would be recognized and left out.
    let program = desk.user.path().join("office");
    symlink(assert_cmd::cargo::cargo_bin!("mcpproxy"), &program).unwrap();
    let cursor = json!({"mcpServers": {
        "My Office": {"command": program, "args": ["demo-server"], "disabledTools": ["delete_user"]},
        "Broken": {"command": "x", "args": ["${workspaceFolder}"]},
    }});
    desk.client(".cursor/mcp.json", &cursor.to_string());
    let gateway = Serving::start(&desk.data);
    let url = format!("http://{}/mcp", gateway.address);
    desk.client(".codeium/windsurf/mcp_config.json", &json!({"mcpServers": {"x": {"serverUrl": url}}}).to_string());
    let own = desk.json(&["import", "windsurf", "--yes"]);
    assert_eq!(own["skipped"], json!([{"title": "x", "reason": "it is mcpproxy itself"}]));

    let imported = desk.json(&["import", "cursor", "--yes"]);
    let states: Vec<(&str, &str)> = imported["servers"]
        .as_array()
        .unwrap()
        .iter()
        .map(|server| (server["name"].as_str().unwrap(), server["state"].as_str().unwrap()))
        .collect();
    assert_eq!(states, [("broken", "misconfigured"), ("my-office", "ready")]);
    let servers = gateway.admin("/api/v1/servers");
    let office = servers["servers"].as_array().unwrap().iter().find(|server| server["name"] == "my-office").unwrap();
    assert_eq!(office["title"], "My Office");
    let hidden = &office["hidden_tools"][0];
    assert_eq!(hidden["name"], "delete_user");
    assert_eq!(hidden["reason"], "left out by `exclude_tools` in the settings");
    let (exit, text) = desk.run(&["call", "tool-destructive", "my-office:delete_user", "--args", "{}"]);
    assert!(exit != 0 && text.contains("delete_user"), "{text}");
}
