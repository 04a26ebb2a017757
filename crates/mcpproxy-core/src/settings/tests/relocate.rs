//! Tests for secrets that `import` moves into files.

use serde_json::{Value, json};

use super::World;
use crate::ServerName;
use crate::settings::{escape_references, parse, relocate_secrets};

fn check(mut definition: Value, expected: Value, files: &[(&str, &str, &str)]) {
    let moved = relocate_secrets(&ServerName::parse("s").unwrap(), &mut definition);
    assert_eq!(definition, expected);
    let moved: Vec<(&str, &str, &str)> =
        moved.iter().map(|one| (one.path.as_str(), one.place.as_str(), one.value.expose())).collect();
    assert_eq!(moved, files);
    let again = relocate_secrets(&ServerName::parse("s").unwrap(), &mut definition);
    assert!(again.is_empty(), "the result contains no secret: {again:?}");
}

#[test]
fn secrets_of_variables_and_headers() {
    check(
        json!({"env": {
            "GITHUB_TOKEN": "ghp_short", "LOG_LEVEL": "info", "DB": "postgres://ann:pw@db/x", "KEEP_TOKEN": "${env:T}",
            "EMPTY_KEY": ""
        }}),
        json!({"env": {
            "GITHUB_TOKEN": "${file:secrets/s.GITHUB_TOKEN}", "LOG_LEVEL": "info", "DB": "${file:secrets/s.DB}",
            "KEEP_TOKEN": "${env:T}", "EMPTY_KEY": ""
        }}),
        &[
            ("secrets/s.GITHUB_TOKEN", "env.GITHUB_TOKEN", "ghp_short"),
            ("secrets/s.DB", "env.DB", "postgres://ann:pw@db/x"),
        ],
    );
    check(
        json!({"headers": {"Authorization": "Bearer abc", "X/Key": "k", "Accept-Language": "de"}}),
        json!({"headers": {
            "Authorization": "Bearer ${file:secrets/s.Authorization}", "X/Key": "${file:secrets/s.X-Key}",
            "Accept-Language": "de"
        }}),
        &[("secrets/s.Authorization", "headers.Authorization", "abc"), ("secrets/s.X-Key", "headers.X/Key", "k")],
    );
}

#[test]
fn secrets_of_arguments_and_addresses() {
    check(
        json!({"args": [
            "-y", "pkg", "--token", "abc", "--api-key=def", "--key-file", "/etc/key.pem", "--token", "${env:T}",
            "https://h/mcp?api_key=ghi&x=1#y", "--header", "Authorization: Bearer abcdefghijklmnop", "--password", "-v"
        ]}),
        json!({"args": [
            "-y", "pkg", "--token", "${file:secrets/s.token}", "--api-key=${file:secrets/s.api-key}", "--key-file",
            "/etc/key.pem", "--token", "${env:T}", "https://h/mcp?api_key=${file:secrets/s.api_key}&x=1#y", "--header",
            "${file:secrets/s.arg11}", "--password", "-v"
        ]}),
        &[
            ("secrets/s.token", "args.3", "abc"),
            ("secrets/s.api-key", "args.4", "def"),
            ("secrets/s.api_key", "args.9?api_key", "ghi"),
            ("secrets/s.arg11", "args.11", "Authorization: Bearer abcdefghijklmnop"),
        ],
    );
    check(
        json!({"url": "https://h/mcp?key=a&token=b&key=c&page=2"}),
        json!({"url": "https://h/mcp?key=${file:secrets/s.key}&token=${file:secrets/s.token}&key=${file:secrets/s.key.2}&page=2"}),
        &[
            ("secrets/s.key", "url?key", "a"),
            ("secrets/s.token", "url?token", "b"),
            ("secrets/s.key.2", "url?key", "c"),
        ],
    );
    check(
        json!({"url": "https://h/mcp?page=2", "args": "x", "env": []}),
        json!({"url": "https://h/mcp?page=2", "args": "x", "env": []}),
        &[],
    );
    check(json!("x"), json!("x"), &[]);
    check(
        json!({"url": "https://h/s/1f0c2f5e-8b1d-4c55-9a75-0e6a1a2b3c4d/mcp", "args": ["postgres://ann:pw@db/x"]}),
        json!({"url": "https://h/s/${file:secrets/s.url}/mcp", "args": ["postgres://ann:${file:secrets/s.arg0}@db/x"]}),
        &[("secrets/s.arg0", "args.0", "pw"), ("secrets/s.url", "url", "1f0c2f5e-8b1d-4c55-9a75-0e6a1a2b3c4d")],
    );
    // A reference stays, and does not hide the secret next to it.
    check(
        json!({"url": "https://h/${env:TENANT}?key=a"}),
        json!({"url": "https://h/${env:TENANT}?key=${file:secrets/s.key}"}),
        &[("secrets/s.key", "url?key", "a")],
    );
}

/// A reference in a secret's file would never be resolved.
#[test]
fn an_argument_with_a_reference_stays() {
    let args = json!({"args": [
        "postgresql://ann:${env:PW}@db/x", "--auth-url=https://${env:HOST}/x", "--auth-token", "https://${env:HOST}/x",
        "--auth-token=${env:T}://x", "postgres://u:${file:secrets/s.arg0}@h"
    ]});
    check(args.clone(), args.clone(), &[]);
    // A disabled server needs no variables.
    let settings = json!({"mcpServers": {"s": {"command": "x", "args": args["args"], "enabled": false}}});
    let settings = parse(&settings.to_string(), &World).unwrap();
    assert_eq!(settings.servers[0].secrets_in_file, [""; 0]);
    check(
        json!({"args": ["--auth-url=https://ann:pw@${env:HOST}/x"]}),
        json!({"args": ["--auth-url=https://ann:${file:secrets/s.arg0}@${env:HOST}/x"]}),
        &[("secrets/s.arg0", "args.0", "pw")],
    );
}

/// A file holds the secret itself. Only the settings have an escape.
#[test]
fn an_escaped_secret_is_moved_as_it_is_meant() {
    check(
        json!({"env": {"API_KEY": "a$${file:x}b", "OTHER_KEY": "a$${b}${env:C}"}}),
        json!({"env": {"API_KEY": "${file:secrets/s.API_KEY}", "OTHER_KEY": "a$${b}${env:C}"}}),
        &[("secrets/s.API_KEY", "env.API_KEY", "a${file:x}b")],
    );
}

#[test]
fn texts_that_a_client_does_not_resolve_are_escaped() {
    let mut definition = json!({
        "cmd": "x${file:a}", "args": ["${env:A}", "${file:b}", 1], "envs": {"K": "${"}, "httpUrl": "http://${file:c}",
        "name": "My ${title}", "description": "${x}", "command": {"path": "${file:d}"}
    });
    assert!(escape_references(&mut definition, &|reference| reference.starts_with("env:")));
    assert_eq!(
        definition,
        json!({
            "cmd": "x$${file:a}", "args": ["${env:A}", "$${file:b}", 1], "envs": {"K": "$${"},
            "httpUrl": "http://$${file:c}", "name": "My ${title}", "description": "${x}",
            "command": {"path": "$${file:d}"}
        })
    );
    assert!(!escape_references(&mut json!({"args": ["${env:A}"]}), &|_| true));
    assert!(!escape_references(&mut json!("${file:x}"), &|_| false));
}
