//! `mcpproxy import`: real-looking files of clients, in a home folder made for each test.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test that cannot go on stops"
)]

mod common;

use std::fs;
use std::os::unix::fs::{PermissionsExt as _, chown, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use common::{Folder, Serving};
use serde_json::{Value, json};

/// A home folder with clients in it, and a data folder.
struct Desk {
    data: Folder,
    user: tempfile::TempDir,
}

impl Desk {
    fn new() -> Self {
        Self { data: Folder::new(), user: tempfile::tempdir().unwrap() }
    }

    /// Writes a file of a client.
    fn client(&self, path: &str, text: &str) -> PathBuf {
        let path = self.user.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, text).unwrap();
        path
    }

    fn command(&self, args: &[&str]) -> Command {
        let mut command = self.data.command(args);
        command.env("HOME", self.user.path()).stdin(Stdio::null());
        for moved in ["XDG_CONFIG_HOME", "CODEX_HOME", "CLAUDE_CONFIG_DIR", "GEMINI_CLI_HOME"] {
            command.env_remove(moved);
        }
        command
    }

    /// Returns the exit code and all output. Both folders get short names.
    fn run(&self, args: &[&str]) -> (i32, String) {
        let output = self.command(args).output().unwrap();
        let text = format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        let text = text.replace(&self.data.path().display().to_string(), "DATA");
        (output.status.code().unwrap(), text.replace(&self.user.path().display().to_string(), "HOME"))
    }

    fn json(&self, args: &[&str]) -> Value {
        let output = self.command(args).args(["-o", "json"]).output().unwrap();
        assert!(output.status.success(), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
        serde_json::from_slice(&output.stdout).unwrap()
    }

    fn settings(&self) -> Value {
        serde_json::from_str(&self.data.read("mcp_config.json")).unwrap()
    }

    fn has_nothing(&self) -> bool {
        !self.data.file("mcp_config.json").exists() && self.secrets().is_empty()
    }

    /// The files for secrets, with mode and content.
    fn secrets(&self) -> Vec<(String, u32, String)> {
        let Ok(files) = fs::read_dir(self.data.file("secrets")) else { return Vec::new() };
        let mut files: Vec<_> = files
            .map(|file| {
                let path = file.unwrap().path();
                (name(&path), mode(&path), fs::read_to_string(&path).unwrap())
            })
            .collect();
        files.sort();
        files
    }
}

fn name(path: &Path) -> String {
    path.file_name().unwrap().to_str().unwrap().to_owned()
}

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().permissions().mode() & 0o777
}

const CURSOR: &str = r#"{
  // Mine.
  "mcpServers": {
    "GitHub": {
      "command": "npx",
      "args": ["-y", "server-github", "--api-key", "arg-secret-1"],
      "env": { "GITHUB_TOKEN": "ghp_secret2", "LOG": "info", "OTHER_TOKEN": "${env:OTHER_TOKEN}" },
      "autoApprove": ["list"]
    },
    "docs": { "url": "https://docs.example.com/mcp?key=query-secret-3", "headers": { "Authorization": "Bearer head-secret-4" } }, // slow
    "mcpproxy": { "url": "http://127.0.0.1:8080/mcp", "headers": { "Authorization": "Bearer own-secret" } }
  },
  "other": "own-setting-5"
}
"#;

fn assert_no_secret(text: &str) {
    for secret in ["arg-secret-1", "ghp_secret2", "query-secret-3", "head-secret-4", "own-secret", "own-setting-5"] {
        assert!(!text.contains(secret), "{secret} in {text}");
    }
}

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
            "title": "GitHub",
            "command": "npx",
            "args": ["-y", "server-github", "--api-key", "${file:secrets/github.api-key}"],
            "env": {
                "GITHUB_TOKEN": "${file:secrets/github.GITHUB_TOKEN}", "LOG": "info", "OTHER_TOKEN": "${env:OTHER_TOKEN}"
            },
        })
    );
    assert_eq!(
        servers["docs"],
        json!({
            "url": "https://docs.example.com/mcp?key=${file:secrets/docs.key}",
            "headers": { "Authorization": "Bearer ${file:secrets/docs.Authorization}" },
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
    // Now Codex has no servers at all, unless it is connected.
    let next = "Codex does not use mcpproxy yet. Connect it: mcpproxy --home DATA connect codex\n";
    assert!(text.ends_with(next), "{text}");
    let servers = &desk.settings()["mcpServers"];
    assert_eq!(
        servers["figma"],
        json!({
            "title": "Figma", "url": "https://mcp.figma.com/mcp",
            "headers": { "Authorization": "Bearer ${env:FIGMA_TOKEN}" }, "call_timeout": "45500ms",
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
        })
    );
    desk.client(
        ".gemini/settings.json",
        r#"{"mcpServers": {"old": {"url": "https://h/sse"}, "new": {"httpUrl": "https://h/mcp", "trust": true}}}"#,
    );
    desk.json(&["import", "gemini", "--yes"]);
    assert_eq!(desk.settings()["mcpServers"]["old"], json!({"url": "https://h/sse", "type": "sse"}));
    assert_eq!(desk.settings()["mcpServers"]["new"], json!({"url": "https://h/mcp", "type": "http"}));
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

#[test]
fn names_that_are_taken() {
    let desk = Desk::new();
    let settings = "{\n  // mine\n  \"mcpServers\": {\n    \"docs\": { \"url\": \"https://other.example.com/mcp\" },\n    \
                    \"same\": { \"command\": \"same\", \"description\": \"kept\" }\n  }\n}\n";
    desk.data.write("mcp_config.json", settings);
    desk.client(
        ".cursor/mcp.json",
        r#"{"mcpServers": {"Docs": {"url": "https://d.example.com/mcp"}, "same": {"command": "same"}, "日本": {"command": "x"}}}"#,
    );
    let (exit, text) = desk.run(&["import", "cursor", "--yes", "--keep-direct"]);
    assert_eq!(exit, 0, "{text}");
    assert!(text.contains("import Docs as docs-2\n  docs exists already with other settings\n"), "{text}");
    assert!(text.contains("skip same: the settings have it already as same\n"), "{text}");
    let new = desk.data.read("mcp_config.json");
    assert!(
        new.starts_with("{\n  // mine\n  \"mcpServers\": {\n    \"docs\": { \"url\": \"https://other.example"),
        "{new}"
    );
    assert!(new.contains("\"docs-2\": ") && new.contains("\"title\": \"日本\""), "{new}");
    // The second time, all three are there.
    let again = desk.json(&["import", "cursor", "--yes", "--keep-direct"]);
    assert_eq!((again["imported"].as_array().unwrap().len(), again["present"].as_array().unwrap().len()), (0, 3));
    assert_eq!(desk.data.read("mcp_config.json"), new);
}

#[test]
fn a_secret_file_of_another_server_is_left_alone() {
    let desk = Desk::new();
    desk.data.make("secrets");
    desk.data.write("secrets/a.API_KEY", "older\n");
    fs::set_permissions(desk.data.file("secrets/a.API_KEY"), fs::Permissions::from_mode(0o600)).unwrap();
    desk.client(".cursor/mcp.json", r#"{"mcpServers": {"a": {"command": "x", "env": {"API_KEY": "newer"}}}}"#);
    desk.json(&["import", "cursor", "--yes"]);
    assert_eq!(desk.settings()["mcpServers"]["a"]["env"]["API_KEY"], "${file:secrets/a.API_KEY~2}");
    assert_eq!(desk.data.read("secrets/a.API_KEY"), "older\n");
    assert_eq!(desk.data.read("secrets/a.API_KEY~2"), "newer\n");
}

#[test]
fn bad_files_change_nothing() {
    let desk = Desk::new();
    let check = |path: &Path, expected: &str| {
        let (exit, text) = desk.run(&["import", path.to_str().unwrap(), "--yes", "--remove-direct"]);
        assert!(exit != 0 && text.contains(expected), "{expected} in exit {exit}: {text}");
        assert!(text.contains("hint: "), "{text}");
        assert!(desk.has_nothing(), "{text}");
    };
    check(&desk.client("a.json", "{\"mcpServers\": {\"a\": }"), "a.json`: line 1, column");
    check(&desk.client("a.toml", "[mcp_servers.a\ncommand = 1"), "a.toml`: line 1, column");
    check(&desk.client("a.yaml", "extensions:\n  a: [1\n"), "a.yaml`: line");
    fs::write(desk.user.path().join("c.json"), b"{\n\"\xff\": 1}").unwrap();
    check(&desk.user.path().join("c.json"), "line 2 is not UTF-8");
    check(&desk.user.path().join("gone.json"), "gone.json` does not exist");
    fs::create_dir(desk.user.path().join("folder.json")).unwrap();
    check(&desk.user.path().join("folder.json"), "is not a file but a folder");
    symlink("loop.json", desk.user.path().join("loop.json")).unwrap();
    check(&desk.user.path().join("loop.json"), "is a broken symbolic link");
    if rustix::process::geteuid().is_root() {
        let foreign = desk.client("foreign.json", CURSOR);
        chown(&foreign, Some(4711), None).unwrap();
        check(&foreign, "belongs to another user (uid 4711");
    }
    // Nothing can be removed from this one, so nothing is imported from it either.
    let flow = "extensions: {a: {type: stdio, cmd: x, envs: {API_KEY: flow-secret}}, b: {type: builtin}}\n";
    check(&desk.client("flow.yaml", flow), "cannot edit without loss");
    assert_eq!(fs::read_to_string(desk.user.path().join("flow.yaml")).unwrap(), flow);

    let (exit, text) = desk.run(&["import", "curser"]);
    assert_eq!((exit, text.contains("did you mean `mcpproxy import cursor`?")), (2, true), "{text}");
    let (exit, text) = desk.run(&["import", "zed"]);
    assert_eq!((exit, text.contains("Zed has no settings file here")), (1, true), "{text}");
    for empty in ["", "{}", "{\"mcpServers\": {}}", "// nothing\n"] {
        let path = desk.client("empty.json", empty);
        let (exit, text) = desk.run(&["import", path.to_str().unwrap(), "--yes"]);
        assert_eq!((exit, text.contains("Nothing to import from")), (0, true), "{empty}: {text}");
        assert!(desk.has_nothing());
    }
    // Our own settings are no source.
    desk.data.write("mcp_config.json", CURSOR);
    let own = desk.data.file("mcp_config.json");
    let (exit, text) = desk.run(&["import", own.to_str().unwrap(), "--yes", "--remove-direct"]);
    assert_eq!((exit, text.contains("These are the settings of mcpproxy itself.")), (2, true), "{text}");
    assert_eq!(desk.data.read("mcp_config.json"), CURSOR);
    // Our own file with a mistake is not touched.
    desk.data.write("mcp_config.json", "{ \"listen\": 1 }");
    let good = desk.client("good.json", CURSOR);
    let (exit, text) = desk.run(&["import", good.to_str().unwrap(), "--yes"]);
    assert_eq!((exit, desk.data.read("mcp_config.json").as_str()), (6, "{ \"listen\": 1 }"), "{text}");
    assert!(desk.secrets().is_empty());
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

/// A client's plain text must not become a reference here: it would send a file to the server.
#[test]
fn plain_text_stays_plain_text() {
    let desk = Desk::new();
    desk.client(
        ".codex/config.toml",
        "[mcp_servers.web]\nurl = \"https://h.example/mcp\"\nhttp_headers = { X-Note = \"${file:admin.key}\", \
         X-Home = \"${HOME}\", X-Api-Key = \"pa${env:HOME}ss\" }\n",
    );
    let imported = desk.json(&["import", "codex", "--yes"]);
    assert_eq!(
        imported["warnings"],
        json!([
            "`web` contains a `${…}` that Codex does not resolve; it stays plain text, which the settings write as `$${…}`"
        ])
    );
    assert_eq!(
        desk.settings()["mcpServers"]["web"]["headers"],
        json!({"X-Note": "$${file:admin.key}", "X-Home": "$${HOME}", "X-Api-Key": "${file:secrets/web.X-Api-Key}"})
    );
    assert_eq!(desk.secrets(), [("web.X-Api-Key".to_owned(), 0o600, "pa${env:HOME}ss\n".to_owned())]);
    let (exit, text) = desk.run(&["config", "check"]);
    assert_eq!(exit, 0, "{text}");
    // The second time, the server is the same.
    assert_eq!(desk.json(&["import", "codex", "--yes"])["imported"], json!([]));
}

#[test]
fn secrets_in_the_path_of_a_url_are_moved() {
    let desk = Desk::new();
    let cursor = r#"{"mcpServers": {"zap": {"url": "https://h.example/s/N2E5ZjQ0YzItM2Q0/mcp"}}}"#;
    desk.client(".cursor/mcp.json", cursor);
    let (exit, text) = desk.run(&["import", "cursor", "--yes"]);
    assert_eq!(exit, 0, "{text}");
    assert!(text.contains("  url is copied to secrets/zap.url\n") && !text.contains("N2E5ZjQ0YzItM2Q0"), "{text}");
    assert_eq!(desk.settings()["mcpServers"]["zap"]["url"], "https://h.example/s/${file:secrets/zap.url}/mcp");
    let (exit, text) = desk.run(&["config", "check"]);
    assert_eq!(exit, 0, "{text}");
}

/// Commands that change the settings at the same time wait for each other.
#[test]
fn changes_at_the_same_time_are_all_kept() {
    const COMMANDS: usize = 6;
    let desk = Desk::new();
    desk.data.write("mcp_config.json", "{\"mcpServers\": {\"first\": {\"command\": \"true\"}}}\n");
    let mut running = Vec::new();
    for number in 0..COMMANDS {
        let name = format!("n{number}");
        running.push(desk.command(&["servers", "add", &name, "--", "true"]).stdout(Stdio::null()).spawn().unwrap());
        let file = format!("{number}.json");
        let path = desk.client(&file, &format!(r#"{{"mcpServers": {{"i{number}": {{"command": "true"}}}}}}"#));
        let import = ["import", path.to_str().unwrap(), "--yes"];
        running.push(desk.command(&import).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap());
    }
    for mut child in running {
        assert!(child.wait().unwrap().success());
    }
    let settings = desk.settings();
    let servers = settings["mcpServers"].as_object().unwrap();
    assert_eq!(servers.len(), 1 + 2 * COMMANDS, "{servers:?}");
    // A command that cannot get the lock says so, and changes nothing.
    let before = desk.data.read("mcp_config.json");
    let lock = fs::File::open(desk.data.file("settings.lock")).unwrap();
    lock.lock().unwrap();
    let (exit, text) = desk.run(&["servers", "remove", "first"]);
    assert_eq!(
        (exit, text.contains("Another command is changing the settings. Nothing was changed.")),
        (1, true),
        "{text}"
    );
    assert_eq!(desk.data.read("mcp_config.json"), before);
}

#[test]
fn a_removed_server_names_its_secrets() {
    let desk = Desk::new();
    desk.client(".cursor/mcp.json", CURSOR);
    desk.json(&["import", "cursor", "--yes"]);
    let (exit, text) = desk.run(&["servers", "remove", "github"]);
    assert_eq!(exit, 0, "{text}");
    let told = "Its secrets stay in the data folder. To delete: rm DATA/secrets/github.GITHUB_TOKEN DATA/secrets/github.api-key\n";
    assert!(text.contains(told), "{text}");
    assert_eq!(desk.secrets().len(), 4);
    let (exit, text) = desk.run(&["servers", "disable", "docs"]);
    assert_eq!((exit, text.contains("To delete")), (0, false), "{text}");
}

/// A pasted server never takes the name of another one.
#[test]
fn a_pasted_name_that_is_taken() {
    let desk = Desk::new();
    let pasted = r#"{"mcpServers": {"GitHub": {"command": "theirs"}, "github": {"command": "mine"}}}"#;
    desk.data.write("mcp_config.json", pasted);
    let (exit, text) = desk.run(&["config", "check"]);
    let reason = "1:17: several servers would be called `github` here, so none of them runs: `GitHub`, `github`. Give \
                  each server a different name.";
    assert_eq!((exit, text.contains(reason)), (6, true), "{text}");
    let (exit, text) = desk.run(&["servers", "enable", "github-2"]);
    assert_eq!((exit, text.contains(reason)), (6, true), "{text}");
    let (exit, text) = desk.run(&["servers", "remove", "github-2"]);
    assert_eq!(exit, 0, "{text}");
    assert_eq!(desk.settings()["mcpServers"], json!({"github": {"command": "mine"}}));
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

#[test]
fn a_refused_reload_undoes_everything() {
    let desk = Desk::new();
    let settings = "{ \"mcpServers\": {} } // mine\n";
    desk.data.write("mcp_config.json", settings);
    let cursor = desk.client(".cursor/mcp.json", CURSOR);
    let _gateway = Serving::start(&desk.data);
    desk.data.make("contracts");
    desk.data.write("contracts/broken.yaml", "tool: [\n");
    let (exit, text) = desk.run(&["import", "cursor", "--yes", "--remove-direct"]);
    assert!(exit != 0 && text.contains("nothing was imported") && text.contains("broken.yaml"), "{text}");
    assert_no_secret(&text);
    assert_eq!(desk.data.read("mcp_config.json"), settings);
    assert_eq!(fs::read_to_string(&cursor).unwrap(), CURSOR);
    assert!(desk.secrets().is_empty());
}
