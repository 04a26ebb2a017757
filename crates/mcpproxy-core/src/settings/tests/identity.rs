//! Tests for the identity of a server.

use std::collections::HashSet;

use super::World;
use crate::ServerName;
use crate::settings::{Outside, ServerIdentity, ServerSettings, TransportSettings, parse};

/// An environment in which every variable has another value than in [`World`].
struct Rotated;

impl Outside for Rotated {
    fn env(&self, _name: &str) -> Option<String> {
        Some("rotated".to_owned())
    }

    fn file(&self, _path: &str) -> Result<String, String> {
        Ok("rotated".to_owned())
    }
}

fn server(name: &str, fields: &str, outside: &dyn Outside) -> ServerSettings {
    let text = format!(r#"{{"mcpServers": {{"{name}": {{{fields}}}}}}}"#);
    parse(&text, outside).unwrap().servers.remove(0)
}

fn identity(fields: &str) -> ServerIdentity {
    server("a", fields, &World).identity
}

const STDIO: &str =
    r#""command": "npx", "args": ["-y", "files", "--token", "${env:GITHUB_TOKEN}"], "cwd": "${env:HOME}""#;

#[test]
fn a_rotated_secret_is_no_other_server() {
    let old = server("a", STDIO, &World);
    let new = server("a", STDIO, &Rotated);
    assert_ne!(old.transport, new.transport);
    assert_eq!(old.identity, new.identity);
    assert_eq!(old.identity.key().len(), 64);
}

#[test]
fn the_same_server() {
    for more in [
        r#""type": "stdio""#,
        r#""env": {"A": "b"}"#,
        r#""disabled": true"#,
        r#""title": "A", "call_timeout": "5s""#,
        r#""first_sight": "review""#,
        // Misconfigured, until the variable is set.
        r#""env": {"A": "${env:MISSING}"}"#,
    ] {
        assert_eq!(identity(&format!("{STDIO}, {more}")), identity(STDIO), "{more}");
    }
    let http = r#""url": "https://h/mcp""#;
    assert_eq!(identity(&format!(r#"{http}, "headers": {{"A": "b"}}"#)), identity(http));
    assert_eq!(identity(&format!(r#"{http}, "type": "streamable-http""#)), identity(http));
}

#[test]
fn other_servers() {
    let all = [
        STDIO,
        r#""command": "npx""#,
        r#""command": "npm""#,
        r#""command": "npx", "args": ["a"]"#,
        r#""command": "npx", "args": ["a", "b"]"#,
        r#""command": "npx", "args": ["a b"]"#,
        r#""command": "npx", "cwd": "a""#,
        r#""command": "npx", "cwd": "${env:HOME}""#,
        r#""command": "npx", "cwd": "/home/ann""#,
        r#""url": "https://h/mcp""#,
        r#""url": "https://h/mcp2""#,
        r#""url": "https://h/mcp", "type": "sse""#,
        r#""type": "demo""#,
        // These cannot be connected to, and still are none of the others.
        r#""command": "npx", "url": "https://h/mcp""#,
        "",
    ];
    let keys: HashSet<String> = all.iter().map(|fields| identity(fields).key().to_owned()).collect();
    assert_eq!(keys.len(), all.len());
    assert_ne!(server("a", STDIO, &World).identity, server("b", STDIO, &World).identity, "the name counts");
    let not_an_object = parse(r#"{"mcpServers": {"a": 1}}"#, &World).unwrap().servers.remove(0).identity;
    assert_eq!(not_an_object, identity(""));
}

#[test]
fn a_server_from_elsewhere_has_the_identity_of_its_text() {
    let name = ServerName::parse("a").unwrap();
    let args = vec!["x".to_owned()];
    let transport = TransportSettings::Stdio { command: "npx".to_owned(), args, env: Vec::new(), cwd: None };
    assert_eq!(ServerSettings::new(name, transport).identity, identity(r#""command": "npx", "args": ["x"]"#));
    assert_eq!(server("a", r#""type": "demo""#, &World).identity, identity(r#""type": "demo""#));
}

/// A new formula would make every server a new one.
#[test]
fn the_formula_is_stable() {
    let key = identity(r#""command": "npx", "args": ["x"]"#).key().to_owned();
    assert_eq!(key, crate::Digest::of(br#"["server","a","stdio","npx",["x"],null,null]"#).to_string());
}

#[test]
fn literal_secrets_are_masked() {
    let shown = |fields: &str| identity(fields).shown();
    let fields =
        r#""command": "npx", "args": ["--token", "abc", "--url=https://h/0123456789abcdef/mcp", "${env:HOME}"]"#;
    assert_eq!(shown(fields).args, ["--token", "***", "--url=https://h/***/mcp", "${env:HOME}"]);
    assert_eq!(shown(fields).command.as_deref(), Some("npx"));
    let url = r#""url": "https://ann:pw@h/mcp?key=${env:HOME}&token=x""#;
    assert_eq!(shown(url).url.as_deref(), Some("https://ann:***@h/mcp?key=${env:HOME}&token=***"));
    assert_eq!((shown(url).args, shown(url).kind), (Vec::<String>::new(), "http"));
}
