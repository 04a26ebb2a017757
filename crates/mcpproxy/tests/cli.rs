//! Commands that need no running gateway: what they print, where, and how they end.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test that cannot go on stops"
)]

mod common;

use std::os::unix::fs::PermissionsExt as _;
use std::process::Stdio;

use common::Folder;
use insta::assert_snapshot;

#[test]
fn help_of_every_command() {
    let folder = Folder::new();
    for command in [
        "",
        "serve",
        "stdio",
        "call",
        "call tool-read",
        "call tool-write",
        "call tool-destructive",
        "tools",
        "tools list",
        "tools search",
        "tools show",
        "servers",
        "servers list",
        "servers logs",
        "servers restart",
        "servers add",
        "servers remove",
        "servers enable",
        "servers disable",
        "token",
        "token create",
        "token list",
        "token revoke",
        "activity",
        "policy",
        "policy explain",
        "policy table",
        "activity list",
        "activity show",
        "activity watch",
        "activity summary",
        "activity export",
        "activity verify",
        "activity key",
        "config",
        "config check",
        "config schema",
        "completions",
    ] {
        let args: Vec<&str> = command.split_whitespace().chain(["--help"]).collect();
        let name = format!("help_{}", command.replace([' ', '-'], "_")).trim_end_matches('_').to_owned();
        assert_snapshot!(name, folder.run(&args));
    }
}

#[test]
fn usage_errors() {
    let folder = Folder::new();
    assert_snapshot!("call_without_a_name", folder.run(&["call", "tool-read"]));
    assert_snapshot!("call_with_a_bad_name", folder.run(&["call", "tool-read", "delete_thing"]));
    assert_snapshot!("call_with_bad_json", folder.run(&["call", "tool-read", "fx:echo", "--args", "{bad"]));
    assert_snapshot!("call_with_bad_json_args", folder.run(&["call", "tool-read", "fx:echo", "--json_args", "[]"]));
    assert_snapshot!("call_with_two_names", folder.run(&["call", "tool-read", "fx:a", "--tool-name", "fx:b"]));
    assert_snapshot!("bad_sensitivity", folder.run(&["call", "tool-write", "fx:note", "--sensitivity", "secret"]));
    assert_snapshot!("bad_listen", folder.run(&["serve", "--listen", "8080"]));
    assert_snapshot!("open_listen", folder.run(&["serve", "--listen", "0.0.0.0:0"]));
    assert_snapshot!("add_without_anything", folder.run(&["servers", "add", "x"]));
    assert_snapshot!("bad_server_name", folder.run(&["servers", "add", "X Y", "--", "true"]));
    assert_snapshot!("bad_operations", folder.run(&["token", "create", "x", "--operations", "read,admin"]));
    assert_snapshot!("bad_agent_name", folder.run(&["token", "create", "a b"]));
}

#[test]
fn without_a_gateway() {
    let folder = Folder::new();
    for (name, args) in [
        ("no_gateway_call", &["call", "tool-read", "fx:echo"][..]),
        ("no_gateway_tools", &["tools", "list"]),
        ("no_gateway_servers", &["servers", "list"]),
    ] {
        assert_snapshot!(name, folder.run(args));
    }
}

#[test]
fn config_check() {
    let folder = Folder::new();
    assert_snapshot!("config_missing", folder.run(&["config", "check"]));
    let check = |name: &str, text: &str| {
        folder.write("mcp_config.json", text);
        assert_snapshot!(name, folder.run(&["config", "check"]));
    };
    check(
        "config_good",
        "{\"mcpServers\": {\"a\": {\"command\": \"true\"}, \"b\": {\"command\": \"true\", \"enabled\": false}}}",
    );
    check("config_cut_off", "{\"mcpServers\": [");
    check("config_unknown_key", "{\n  \"intent_declartion\": {},\n  \"listen\": 8080\n}");
    check("config_open_listener", "{\"listen\": \"0.0.0.0:8080\"}");
    check(
        "config_missing_variable",
        "{\"mcpServers\": {\"a\": {\"command\": \"true\", \"env\": {\"T\": \"${env:NO_SUCH_VARIABLE}\"}}}}",
    );
    std::fs::write(folder.file("mcp_config.json"), b"{\n\"listen\": \"\xff\"}").unwrap();
    assert_snapshot!("config_not_utf8", folder.run(&["config", "check"]));
}

#[test]
fn settings_with_secrets_are_ours_alone() {
    let folder = Folder::new();
    folder.write(
        "mcp_config.json",
        "{\"mcpServers\": {\"a\": {\"command\": \"true\", \"env\": {\"API_TOKEN\": \"abc\"}}}}",
    );
    let check = |name: &str, mode: u32| {
        let permissions = std::fs::Permissions::from_mode(mode);
        std::fs::set_permissions(folder.file("mcp_config.json"), permissions).unwrap();
        assert_snapshot!(name, folder.run(&["config", "check"]));
    };
    check("secrets_readable", 0o644);
    check("secrets_private", 0o600);
    folder.write("mcp_config.json", "{}");
    check("settings_writable", 0o666);
    check("settings_readable", 0o664);
}

#[test]
fn the_schema_is_json() {
    let folder = Folder::new();
    let schema = folder.json(&["config", "schema"]);
    assert!(schema.pointer("/properties/mcpServers").is_some());
}

#[test]
fn servers_are_added_and_removed() {
    let folder = Folder::new();
    let header = "Authorization=Bearer ${env:HOME}";
    assert_snapshot!(
        "add_stdio",
        folder.run(&["servers", "add", "time", "--env", "A=b=c", "--", "uvx", "mcp-server-time", "--utc"])
    );
    assert_snapshot!(
        "add_http",
        folder.run(&["servers", "add", "docs", "--url", "https://docs.example.com/mcp", "--header", header])
    );
    assert_snapshot!("added", folder.read("mcp_config.json"));
    let mode = std::fs::metadata(folder.file("mcp_config.json")).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode, 0o600);

    assert_snapshot!("add_again", folder.run(&["servers", "add", "time", "--", "true"]));
    assert_snapshot!("add_bad_url", folder.run(&["servers", "add", "x", "--url", "ftp://example.com"]));
    assert_snapshot!("disable", folder.run(&["servers", "disable", "docs"]));
    assert_snapshot!("disabled", folder.read("mcp_config.json"));
    assert_snapshot!("remove", folder.run(&["servers", "remove", "docs"]));
    assert_snapshot!("remove_again", folder.run(&["servers", "remove", "docs"]));

    let text = "{\n  // mine\n  \"mcpServers\": {\n    \"a\": { \"command\": \"true\" } // a\n  }\n}\n";
    folder.write("mcp_config.json", text);
    folder.run(&["servers", "add", "b", "--", "true"]);
    folder.run(&["servers", "remove", "b"]);
    assert_eq!(folder.read("mcp_config.json"), text);

    folder.write("mcp_config.json", "{\"mcpServers\": [");
    assert_snapshot!("add_to_a_bad_file", folder.run(&["servers", "add", "b", "--", "true"]));
    assert_eq!(folder.read("mcp_config.json"), "{\"mcpServers\": [");
}

#[test]
fn tokens() {
    let folder = Folder::new();
    let output = folder.command(&[
        "token",
        "create",
        "ci",
        "--servers",
        "a,b",
        "--operations",
        "write,read",
        "--grant",
        "files:*",
    ]);
    let output = { output }.output().unwrap();
    let token = String::from_utf8(output.stdout).unwrap();
    assert!(token.starts_with("mcp_") && token.ends_with('\n') && token.lines().count() == 1, "{token}");

    let mut listed = folder.json(&["token", "list"]);
    listed["tokens"][0]["created"] = "some time".into();
    assert_snapshot!("token_list", serde_json::to_string_pretty(&listed).unwrap());
    assert_snapshot!("token_twice", folder.run(&["token", "create", "ci"]));
    assert_snapshot!("token_revoke", folder.run(&["token", "revoke", "ci"]));
    assert_snapshot!("token_revoke_again", folder.run(&["token", "revoke", "ci"]));
    assert!(folder.json(&["token", "list"])["tokens"][0]["revoked"].is_string());
}

#[test]
fn completions_for_shells() {
    let folder = Folder::new();
    for shell in ["bash", "zsh", "fish"] {
        let output = folder.command(&["completions", shell]).output().unwrap();
        let script = String::from_utf8(output.stdout).unwrap();
        assert!(output.status.success() && script.contains("tool-destructive"), "{shell}");
    }
}

#[test]
fn a_broken_pipe_is_no_error() {
    let folder = Folder::new();
    let mut child =
        folder.command(&["config", "schema"]).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    drop(child.stdout.take());
    let output = child.wait_with_output().unwrap();
    assert_eq!((output.status.code(), output.stderr.as_slice()), (Some(0), &b""[..]));
}
