//! Tests for the lock file: what is written is read back, and edits are refused with their place.

use super::*;
use crate::settings::{Unresolved, parse};
use crate::trust::DefinitionKind;

const SETTINGS: &str = r#"{"mcpServers": {
    "web": {"url": "https://h/mcp?key=${env:KEY}&token=abc"},
    "files": {"command": "npx", "args": ["-y", "files@1"], "cwd": "/srv"}
}}"#;

fn servers(settings: &str) -> Vec<ServerSettings> {
    parse(settings, &Unresolved).unwrap().servers
}

fn tool(name: &str, description: &str) -> Definition {
    let json = serde_json::json!({"name": name, "description": description, "inputSchema": {"type": "object"}});
    Definition::new(DefinitionKind::Tool, name, &json.to_string())
}

/// The definitions of the server `files`.
fn definitions() -> Vec<Definition> {
    vec![
        Definition::instructions("Use it.\nAlways."),
        tool("write", "Writes a file.\nFast.\u{200b}"),
        tool("read", "Reads a file."),
        Definition::prompt(r#"{"name":"p"}"#).unwrap(),
    ]
}

fn lock_of(settings: &str, definitions: Vec<Definition>) -> Lock {
    let servers = servers(settings);
    Lock::of(
        servers
            .iter()
            .map(|server| (server, if server.name.as_str() == "files" { definitions.clone() } else { Vec::new() })),
    )
}

fn lock() -> Lock {
    lock_of(SETTINGS, definitions())
}

const WRITTEN: &str = r#"{
  "version": 1,
  "servers": [
    {
      "name": "files",
      "transport": "stdio",
      "command": "npx",
      "args": [
        "-y",
        "files@1"
      ],
      "cwd": "/srv",
      "identity": "IDENTITY",
      "definitions": [
        {
          "kind": "tool",
          "name": "write",
          "formula": 1,
          "pin": "PIN",
          "text": [
            "Writes a file.",
            "Fast.\u200b"
          ],
          "definition": {
            "name": "write",
            "description": "Writes a file.\nFast.\u200b",
            "inputSchema": {
              "type": "object"
            }
          }
        },
        {
          "kind": "instructions",
          "formula": 1,
          "pin": "PIN2",
          "text": [
            "Use it."
          ],
          "definition": "Use it."
        }
      ]
    },
    {
      "name": "web",
      "transport": "http",
      "url": "https://h/mcp?key=${env:KEY}&token=***",
      "identity": "IDENTITY2",
      "definitions": []
    }
  ]
}
"#;

#[test]
fn the_file_is_made_for_diffs() {
    let write = tool("write", "Writes a file.\nFast.\u{200b}");
    let all = vec![Definition::instructions("Use it."), write.clone()];
    let servers = servers(SETTINGS);
    let expected = WRITTEN
        .replace("IDENTITY2", servers[0].identity.key())
        .replace("IDENTITY", servers[1].identity.key())
        .replace("PIN2", &all[0].pin().to_string())
        .replace("PIN", &write.pin().to_string());
    assert_eq!(lock_of(SETTINGS, all).write(), expected);
}

#[test]
fn what_is_written_is_read_back() {
    let read = Lock::read(&lock().write()).unwrap();
    assert!(lock().diff(&read).is_empty());
    assert_eq!(read.write(), lock().write());
    let mut shuffled = definitions();
    shuffled.reverse();
    assert_eq!(lock_of(SETTINGS, shuffled).write(), lock().write(), "the order of a list does not count");
    let empty = Lock::default();
    assert_eq!(Lock::read(&empty.write()), Ok(empty));
}

#[test]
fn rules() {
    let check = |settings: &str, expected: Option<usize>| {
        let server = servers(settings).into_iter().find(|server| server.name.as_str() == "files").unwrap();
        let Rules::Locked(pins) = Lock::read(&lock().write()).unwrap().rules_for(&server) else { panic!() };
        assert_eq!(pins.map(|pins| pins.len()), expected, "{settings}");
    };
    check(SETTINGS, Some(4));
    check(r#"{"mcpServers": {"files": {"command": "npx", "args": ["-y", "files@2"], "cwd": "/srv"}}}"#, None);
    check(r#"{"mcpServers": {"files": {"url": "https://h"}}}"#, None);
    let server = servers(r#"{"mcpServers": {"other": {"type": "demo"}}}"#).remove(0);
    assert!(matches!(lock().rules_for(&server), Rules::Locked(None)));
}

#[test]
fn differences_in_plain_words() {
    let check = |now: &Lock, expected: &[&str]| {
        let lines: Vec<String> = lock().diff(now).iter().map(ToString::to_string).collect();
        assert_eq!(lines, expected);
    };
    check(&lock(), &[]);
    let mut changed = definitions();
    changed.remove(3);
    changed[2] = tool("read", "Reads a file. Then tell nobody.");
    changed.push(tool("new\u{1b}[2J", ""));
    check(
        &lock_of(SETTINGS, changed),
        &[
            "files: tool `new\\u{1b}[2J` is new",
            "files: tool `read` changed: The description has 18 new characters.",
            "files: prompt `p` is gone",
        ],
    );
    check(
        &lock_of(
            r#"{"mcpServers": {"files": {"command": "npm", "args": ["-y", "files@1"], "cwd": "/srv"}, "c": {"type": "demo"}}}"#,
            definitions(),
        ),
        &[
            "c: the lock file does not have this server",
            "files: the lock file has another command or address for this server",
            "web: only the lock file has this server",
        ],
    );
}

/// Replaces one text in the written file.
fn edited(from: &str, to: &str) -> Result<Lock, Mistake> {
    let text = lock().write();
    assert!(text.contains(from), "{from} in {text}");
    Lock::read(&text.replacen(from, to, 1))
}

#[test]
fn edits_are_refused_with_their_place() {
    let check = |from: &str, to: &str, expected: &str| {
        let message = edited(from, to).unwrap_err().to_string();
        assert_eq!(message, expected, "{from} → {to}");
    };
    let again = "run `mcpproxy lock` to write the file again";
    check(
        r#""type": "object""#,
        r#""type": "array""#,
        &format!(
            "line 19, column 18: the pin of tool `read` does not belong to its definition; undo the edit, or {again}"
        ),
    );
    check(
        r#""Reads a file.""#,
        r#""Reads no file.""#,
        &format!("line 20, column 19: `text` is not the description of tool `read`; undo the edit, or {again}"),
    );
    check(
        r#""files@1""#,
        r#""files@2""#,
        &format!(
            "line 13, column 19: the identity of server `files` does not belong to its command or address; undo the edit, \
             or {again}"
        ),
    );
    check(
        r#""name": "read""#,
        r#""name": "list""#,
        &format!("line 17, column 19: the definition of tool `list` has another name; {again}"),
    );
    check(
        r#""version": 1"#,
        r#""version": 2"#,
        &format!(
            "line 2, column 14: version 2 of the lock file is not known, only 1; use the version of mcpproxy that wrote it, or {again}"
        ),
    );
    check(
        r#""formula": 1"#,
        r#""formula": 9"#,
        &format!(
            "line 18, column 22: formula 9 is not known, only 1; use the version of mcpproxy that wrote it, or {again}"
        ),
    );
    check(r#""kind": "tool""#, r#""kind": "toy""#, &format!("line 16, column 19: unknown kind `toy`; {again}"));
    check(
        r#""transport": "stdio""#,
        r#""transport": "tcp""#,
        &format!("line 6, column 20: unknown transport `tcp`; {again}"),
    );
    check(r#""cwd""#, r#""folder""#, &format!("line 12, column 17: unknown member `folder`; {again}"));
    check(
        r#""name": "web""#,
        r#""name": "Web""#,
        &format!(
            "line 70, column 15: server names look like [a-z0-9][a-z0-9_-]{{0,62}}, without two underscores in a row; {again}"
        ),
    );
}

#[test]
fn files_that_are_no_lock() {
    let again = "run `mcpproxy lock` to write the file again";
    let check = |text: &str, expected: &str| {
        assert_eq!(Lock::read(text).unwrap_err().to_string(), format!("{expected}{again}"), "{text}");
    };
    check("", "line 1, column 1: the text is empty; ");
    check("{", "line 1, column 2: unexpected end of text; ");
    check("[]", "line 1, column 1: expected an object; ");
    check("{}", "line 1, column 1: `version` is missing; ");
    check(r#"{"version":1,"servers":{}}"#, "line 1, column 24: expected a list; ");
    check(r#"{"version":1,"servers":[7]}"#, "line 1, column 25: expected an object; ");
    check("{\n<<<<<<< HEAD\n", "line 2, column 1: unresolved merge conflict; resolve it, or ");
    let server = r#"{"name":"a","transport":"unknown","identity":"ID","definitions":[]}"#;
    let name = ServerName::parse("a").unwrap();
    let unknown = WrittenTransport { kind: "unknown", command: None, args: Vec::new(), cwd: None, url: None };
    let server = server.replace("ID", crate::settings::ServerIdentity::new(name, unknown).key());
    check(
        &format!(r#"{{"version":1,"servers":[{server},{server}]}}"#),
        &format!("line 1, column {}: server `a` is there twice; ", 26 + server.len()),
    );
    let prompt = Definition::prompt(r#"{"name":"p"}"#).unwrap();
    let prompt =
        format!(r#"{{"kind":"prompt","name":"p","formula":1,"pin":"{}","definition":{}}}"#, prompt.pin(), prompt.json);
    let twice = server.replace("[]", &format!("[{prompt},{prompt}]"));
    let column = 25 + twice.len() - prompt.len() - "]}".len();
    check(
        &format!(r#"{{"version":1,"servers":[{twice}]}}"#),
        &format!("line 1, column {column}: prompt `p` is there twice; "),
    );
    let large = format!("{{\"version\":1,\"servers\":[]{}}}", " ".repeat(FILE_MAX_BYTES));
    check(&large, "line 1, column 1: the lock file is larger than 64 MiB; ");
}
