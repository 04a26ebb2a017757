//! The token of each client: made once, revoked with the entry, and never a replacement for a token of the user.

use insta::assert_snapshot;
use serde_json::Value;

use super::common::Serving;
use super::desk::{self, Desk};

#[test]
fn connecting_again_keeps_one_token() {
    let desk = Desk::new();
    desk.write(".codex/config.toml", "# mine\n");
    let original = desk.files();
    desk.run(&["connect", "codex", "--permissions", "--yes"]);
    let (files, token) = (desk.files(), desk.token(".codex/config.toml"));
    assert_snapshot!("again", desk.run(&["connect", "codex", "--yes"]));
    assert_eq!(desk.files(), files, "rules and token stay");
    assert_eq!(desk.valid_tokens(), ["codex"]);

    // A revoked token is replaced, under the same name.
    desk.run(&["token", "revoke", "codex"]);
    assert!(desk.run(&["connect", "codex", "--yes"]).starts_with("exit 0\n"));
    assert_ne!(desk.token(".codex/config.toml"), token);
    assert_eq!(desk.valid_tokens(), ["codex"]);

    // Undo restores the file from before the first time.
    desk.run(&["connect", "codex", "--undo", "--yes"]);
    assert_eq!(desk.files(), original);
    assert!(desk.valid_tokens().is_empty());
    assert_snapshot!("undo_twice", desk.run(&["connect", "codex", "--undo", "--yes"]));
}

#[test]
fn a_token_of_the_user_is_not_touched() {
    let desk = Desk::new();
    desk.run(&["token", "create", "cursor"]);
    desk.write(".cursor/mcp.json", "{}");
    desk.run(&["connect", "cursor", "--yes"]);
    assert_eq!(desk.valid_tokens(), ["cursor", "cursor-2"]);
    desk.run(&["connect", "cursor", "--undo", "--yes"]);
    assert_eq!(desk.valid_tokens(), ["cursor"]);
}

#[test]
fn a_limited_token_of_the_user_stays_in_the_entry() {
    let desk = Desk::new();
    desk.write(".cursor/mcp.json", "{}");
    desk.run(&["connect", "cursor", "--yes"]);
    let limited = desk.data.json(&["token", "create", "cursor-limited", "--operations", "read"]);
    let limited = limited["token"].as_str().unwrap();
    let text = desk.read(".cursor/mcp.json").replace(&desk.token(".cursor/mcp.json"), limited);
    desk.write(".cursor/mcp.json", &text);
    let shown = desk.run(&["connect", "cursor", "--dry-run"]);
    assert!(shown.contains("revokes the token of agent `cursor`"), "{shown}");
    assert_eq!(desk.valid_tokens(), ["cursor", "cursor-limited"]);
    // Nobody needs the token without limits any more.
    assert_snapshot!("limited", desk.run(&["connect", "cursor", "--yes"]));
    assert_eq!(desk.valid_tokens(), ["cursor-limited"]);
    assert_eq!(desk.read(".cursor/mcp.json"), text);
    assert!(desk.run(&["connect", "cursor", "--yes"]).contains("Cursor: already connected"));
    let shown = desk.json(&["connect", "cursor", "--dry-run"]);
    assert_eq!(shown["clients"][0]["agent"], "cursor-limited");

    // Other changes keep the token too.
    let shown = desk.run(&["connect", "cursor", "--permissions", "--yes"]);
    assert!(shown.starts_with("exit 0\n") && shown.contains("keeps the token of agent `cursor-limited`"), "{shown}");
    assert_eq!(desk.token(".cursor/mcp.json"), limited);

    // Only --replace takes it out. The token itself belongs to the user, so it stays valid.
    let shown = desk.run(&["connect", "cursor", "--replace", "--yes"]);
    let note =
        "Connecting replaces the token of agent `cursor-limited` in the entry. The new token has all permissions.";
    assert!(shown.starts_with("exit 0\n") && shown.contains(note), "{shown}");
    assert_ne!(desk.token(".cursor/mcp.json"), limited);
    assert_eq!(desk.valid_tokens(), ["cursor", "cursor-limited"]);
    assert!(desk.run(&["connect", "cursor", "--undo", "--yes"]).starts_with("exit 0\n"));
    assert_eq!(desk.valid_tokens(), ["cursor-limited"]);
}

#[test]
fn a_limited_token_in_an_entry_of_the_user_is_not_replaced_silently() {
    let desk = Desk::new();
    let limited = desk.data.json(&["token", "create", "mine", "--operations", "read"]);
    let header = format!("\"headers\": {{\"Authorization\": \"Bearer {}\"}}", limited["token"].as_str().unwrap());
    let text = format!("{{\"mcpServers\": {{\"mcpproxy\": {{\"url\": \"http://127.0.0.1:8080/mcp\", {header}}}}}}}");
    desk.write(".cursor/mcp.json", &text);
    let refused = desk.run(&["connect", "cursor", "--yes"]);
    assert!(refused.starts_with("exit 1\n") && refused.contains("a new token with all permissions"), "{refused}");
    let replaced = "Connecting replaces the token of agent `mine` in the entry. ";
    for (option, expected) in [
        ("--yes", "The new token has all permissions. Your token stays valid."),
        ("--stdio", "Over stdio, the client is the agent `local`, which has all permissions."),
    ] {
        let shown = desk.run(&["connect", "cursor", "--replace", "--dry-run", option]);
        assert!(shown.contains(&format!("{replaced}{expected}")), "{shown}");
    }
    assert_eq!(desk.read(".cursor/mcp.json"), text);
}

#[test]
fn stdio_needs_no_token() {
    let desk = Desk::new();
    desk.write(".cursor/mcp.json", "{}");
    desk.run(&["connect", "cursor", "--yes"]);
    assert_eq!(desk.valid_tokens(), ["cursor"]);
    assert_snapshot!("stdio", desk.run(&["connect", "cursor", "--stdio", "--yes"]));
    assert!(desk.valid_tokens().is_empty());
    let entry: Value = serde_json::from_str(&desk.read(".cursor/mcp.json")).unwrap();
    let entry = &entry["mcpServers"]["mcpproxy"];
    assert!(std::path::Path::new(entry["command"].as_str().unwrap()).is_absolute(), "{entry}");
    assert_eq!(entry["args"], serde_json::json!(["--home", desk.data.path(), "stdio"]));
    desk.run(&["connect", "cursor", "--undo", "--yes"]);
    assert_eq!(desk.read(".cursor/mcp.json"), "{}");
}

#[test]
fn the_token_opens_the_running_gateway() {
    let desk = Desk::new();
    desk.write(".cursor/mcp.json", "{}");
    let serving = Serving::start(&desk.data);
    let report = desk.json(&["connect", "cursor", "--yes"]);
    let url = report["clients"][0]["url"].as_str().unwrap();
    assert_eq!(url, format!("http://{}/mcp", serving.address));
    let token = desk.token(".cursor/mcp.json");
    let list = || desk::list_tools(&serving, &token);
    assert!(list().contains("call_tool_destructive"), "the new token is valid at once");
    desk.run(&["connect", "cursor", "--undo", "--yes"]);
    assert!(list().starts_with("HTTP/1.1 401"), "the token is revoked at once");
    serving.wait("the banner to name the command", || {
        serving.has_said("Connect a client. This lists those on this machine:")
    });

    // Without its key, the command cannot tell the gateway. The token is revoked all the same.
    desk.run(&["connect", "cursor", "--yes"]);
    desk.data.remove("admin.key");
    let undone = desk.run(&["connect", "cursor", "--undo", "--yes"]);
    assert!(undone.starts_with("exit 0\n") && undone.contains("Cursor: disconnected"), "{undone}");
    assert!(
        undone.contains("warning: The running gateway may accept the token as it was for one more second"),
        "{undone}"
    );
    desk.run(&["token", "create", "ci"]);
    let revoked = desk.run(&["token", "revoke", "ci"]);
    let (done, rest) = revoked.split_once("Revoked the token of ci.\n").unwrap();
    assert!(done.starts_with("exit 0\n") && rest.starts_with("warning: The running gateway may"), "{revoked}");
    assert!(desk.valid_tokens().is_empty());
}
