//! The settings file that `import` shares with other commands: names that are taken, and changes at the same time.

use std::fs;
use std::process::Stdio;

use serde_json::json;

use crate::desk::Desk;

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
