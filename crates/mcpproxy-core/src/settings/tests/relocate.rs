//! Tests for secrets that `import` moves into files.

use serde_json::{Value, json};

use crate::ServerName;
use crate::settings::relocate_secrets;

fn check(mut definition: Value, expected: Value, files: &[(&str, &str, &str)]) {
    let moved = relocate_secrets(&ServerName::parse("s").unwrap(), &mut definition);
    assert_eq!(definition, expected);
    let moved: Vec<(&str, &str, &str)> =
        moved.iter().map(|one| (one.path.as_str(), one.place.as_str(), one.value.expose())).collect();
    assert_eq!(moved, files);
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
}
