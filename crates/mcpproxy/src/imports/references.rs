//! References such as `${env:NAME}` that each client resolves.
//!
//! mcpproxy resolves more than any client: `${NAME}`, `${env:NAME}` and `${file:PATH}`. What the client sends as plain
//! text must stay plain text here. Otherwise, an import would send a variable or a file to a server that never got it.

use mcpproxy_core::settings::escape_references;
use serde_json::Value;

use crate::agent_clients::Client;

/// A kind of reference.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// `${NAME}` and `${NAME:-default}`.
    Name,
    /// `${env:NAME}`.
    Env,
    /// `${file:PATH}`.
    File,
    /// `${workspaceFolder}`, `${input:ID}` and everything else that only an editor knows.
    Editor,
}

/// The references that each client resolves. A client that is not listed resolves none.
const RESOLVED: &[(&str, &[Kind])] = &[
    ("claude-code", &[Kind::Name]),
    ("gemini", &[Kind::Name]),
    ("qwen", &[Kind::Name]),
    ("goose", &[Kind::Name]),
    ("cursor", EDITOR),
    ("vscode", EDITOR),
    ("windsurf", &[Kind::Env]),
];
const EDITOR: &[Kind] = &[Kind::Name, Kind::Env, Kind::Editor];

/// Escapes what the client does not resolve. Returns true if anything was escaped. A file that belongs to no known
/// client may hold any reference but `${file:PATH}`, which no client resolves.
pub(crate) fn escape(definition: &mut Value, client: Option<&Client>) -> bool {
    let resolved = match client {
        Some(client) => RESOLVED.iter().find(|(id, _)| *id == client.id).map_or(&[][..], |(_, kinds)| kinds),
        None => EDITOR,
    };
    escape_references(definition, &|reference| resolved.contains(&kind(reference)))
}

fn kind(reference: &str) -> Kind {
    let name = reference.split_once(":-").map_or(reference, |(name, _)| name);
    match reference.split_once(':') {
        _ if !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_') => Kind::Name,
        Some(("env", _)) => Kind::Env,
        Some(("file", _)) => Kind::File,
        Some(_) | None => Kind::Editor,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::agent_clients;

    #[test]
    fn each_client_keeps_its_own_references() {
        for (id, _) in RESOLVED {
            assert!(agent_clients::find(id).is_some(), "{id} is no client");
        }
        let all = ["${A}", "${A:-b}", "${env:A}", "${file:a}", "${input:a}", "${workspaceFolder}"];
        let check = |client: Option<&str>, kept: &[&str]| {
            let mut definition = json!({"args": all});
            let has_changed = escape(&mut definition, client.map(|id| agent_clients::find(id).unwrap()));
            let args = definition["args"].as_array().unwrap();
            let found: Vec<&str> = args.iter().filter_map(Value::as_str).filter(|arg| !arg.starts_with("$$")).collect();
            assert_eq!((found.as_slice(), has_changed), (kept, true), "{client:?}");
        };
        check(Some("codex"), &[]);
        check(Some("claude-desktop"), &[]);
        check(Some("claude-code"), &["${A}", "${A:-b}", "${workspaceFolder}"]);
        check(Some("windsurf"), &["${env:A}"]);
        check(Some("cursor"), &["${A}", "${A:-b}", "${env:A}", "${input:a}", "${workspaceFolder}"]);
        check(None, &["${A}", "${A:-b}", "${env:A}", "${input:a}", "${workspaceFolder}"]);
    }
}
