//! Secrets of imported servers: they move to files of their own, and plain text stays plain text.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;

use serde_json::json;

use crate::desk::{CURSOR, Desk};

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
