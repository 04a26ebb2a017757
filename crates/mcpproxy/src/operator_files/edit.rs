//! Edits the settings file in place, keeping comments and order.

use std::collections::BTreeSet;

use jsonc_parser::cst::{CstInputValue, CstObject, CstRootNode};
use mcpproxy_core::settings::server_keys;
use mcpproxy_core::{JSONC, ServerName};
use serde_json::Value;

#[derive(Clone)]
pub(crate) enum Change {
    Add(Value),
    Remove,
    Enable,
    Disable,
}

#[derive(Debug, PartialEq, Eq)]
pub(crate) enum EditError {
    NotJson(String),
    NotAnObject,
    Exists(ServerName),
    Missing(ServerName),
}

impl std::fmt::Display for EditError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::NotJson(reason) => write!(f, "the settings are not valid JSON: {reason}"),
            Self::NotAnObject => f.write_str("`mcpServers` in the settings is not an object"),
            Self::Exists(name) => {
                write!(f, "server `{name}` already exists. Remove it first, or choose another name")
            }
            Self::Missing(name) => write!(f, "the settings have no server `{name}`"),
        }
    }
}

/// New settings. Without a file the gateway runs the demo server, and adding the first server must not remove it.
const NEW: &str = "{\n  \"mcpServers\": {\n    \"demo\": { \"type\": \"demo\" }\n  }\n}\n";

/// Returns the edited settings. Creates them if there are none.
pub(crate) fn apply(text: Option<&str>, name: &ServerName, change: Change) -> Result<String, EditError> {
    let text = text.filter(|text| !text.trim().is_empty()).unwrap_or(NEW);
    let root = CstRootNode::parse(text, &JSONC).map_err(|error| EditError::NotJson(error.to_string()))?;
    let settings = root.object_value_or_create().ok_or(EditError::NotAnObject)?;
    // A pasted server may be in the section of another client, under a name that is no slug.
    let written = server_keys(text).into_iter().find(|key| key.name == *name);
    let section = written.as_ref().map_or("mcpServers", |key| key.section.as_str());
    let servers = settings.object_value_or_create(section).ok_or(EditError::NotAnObject)?;
    let server = servers.get(written.as_ref().map_or(name.as_str(), |key| key.key.as_str()));
    match change {
        Change::Add(_) if server.is_some() => return Err(EditError::Exists(name.clone())),
        Change::Add(definition) => {
            servers.ensure_multiline();
            servers.append(name.as_str(), input(&definition));
        }
        Change::Remove => server.ok_or_else(|| EditError::Missing(name.clone()))?.remove(),
        Change::Enable | Change::Disable => {
            let server =
                server.and_then(|server| server.object_value()).ok_or_else(|| EditError::Missing(name.clone()))?;
            set_enabled(&server, matches!(change, Change::Enable));
        }
    }
    let mut text = root.to_string();
    if !text.ends_with('\n') {
        text.push('\n');
    }
    Ok(text)
}

/// Returns the settings with this `storage.url`. Creates them if there are none.
pub(crate) fn set_storage(text: Option<&str>, url: &str) -> Result<String, EditError> {
    let text = text.filter(|text| !text.trim().is_empty()).unwrap_or(NEW);
    let root = CstRootNode::parse(text, &JSONC).map_err(|error| EditError::NotJson(error.to_string()))?;
    let settings = root.object_value_or_create().ok_or(EditError::NotAnObject)?;
    let storage = settings.object_value_or_create("storage").ok_or(EditError::NotAnObject)?;
    if let Some(old) = storage.get("url") {
        old.remove();
    }
    storage.append("url", CstInputValue::String(url.to_owned()));
    let mut text = root.to_string();
    if !text.ends_with('\n') {
        text.push('\n');
    }
    Ok(text)
}

/// Sets `enabled` and removes the keys that other programs write for the same thing.
fn set_enabled(server: &CstObject, enabled: bool) {
    for key in ["disabled", "enabled", "isActive", "active"] {
        if let Some(property) = server.get(key) {
            property.remove();
        }
    }
    if !enabled {
        server.append("enabled", CstInputValue::Bool(false));
    }
}

/// Returns the files in `secrets/` that settings no longer refer to after a change, relative to the data folder.
pub(crate) fn unused_secrets(before: &str, after: &str) -> BTreeSet<String> {
    const START: &str = "${file:secrets/";
    let referenced = |text: &str| -> BTreeSet<String> {
        let references = text.split(START).skip(1).filter_map(|rest| rest.split_once('}'));
        // A name with a slash could lead out of the folder.
        let names = references.map(|(name, _)| name).filter(|name| !name.contains(['/', '\\', '"']));
        names.map(|name| format!("secrets/{name}")).collect()
    };
    referenced(before).difference(&referenced(after)).cloned().collect()
}

/// Converts a value for the syntax tree.
pub(crate) fn input(value: &Value) -> CstInputValue {
    match value {
        Value::Null => CstInputValue::Null,
        Value::Bool(value) => CstInputValue::Bool(*value),
        Value::Number(number) => CstInputValue::Number(number.to_string()),
        Value::String(text) => CstInputValue::String(text.clone()),
        Value::Array(values) => CstInputValue::Array(values.iter().map(input).collect()),
        Value::Object(members) => {
            CstInputValue::Object(members.iter().map(|(name, value)| (name.clone(), input(value))).collect())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    const SETTINGS: &str = r#"// Ours.
{
  "listen": "127.0.0.1:9000", // not the default
  "mcpServers": {
    /* the clock */
    "time": { "command": "uvx", "args": ["mcp-server-time"] },
    "docs": {
      "url": "https://docs.example.com/mcp", // slow
      "disabled": true
    }
  }
}
"#;

    fn edit(text: Option<&str>, name: &str, change: Change) -> Result<String, EditError> {
        apply(text, &ServerName::parse(name).unwrap(), change)
    }

    #[test]
    fn the_storage_is_set() {
        let set = set_storage(Some(SETTINGS), "postgres://me:${env:P}@db/log").unwrap();
        assert!(
            set.contains("\"url\": \"postgres://me:${env:P}@db/log\"") && set.contains("// not the default"),
            "{set}"
        );
        let again = set_storage(Some(&set), "sqlite:x.db").unwrap();
        assert!(again.contains("sqlite:x.db") && !again.contains("postgres://"), "{again}");
        assert!(set_storage(None, "sqlite:x.db").unwrap().contains("demo"));
    }

    #[test]
    fn adding_keeps_everything_else() {
        insta::assert_snapshot!(
            edit(
                Some(SETTINGS),
                "git",
                Change::Add(json!({"command": "uvx", "args": ["mcp-server-git"], "env": {"A": "b\"c"}}))
            )
            .unwrap()
        );
    }

    #[test]
    fn removing_keeps_everything_else() {
        insta::assert_snapshot!(edit(Some(SETTINGS), "time", Change::Remove).unwrap());
    }

    #[test]
    fn disabling_and_enabling() {
        insta::assert_snapshot!("disabled", edit(Some(SETTINGS), "time", Change::Disable).unwrap());
        let enabled = edit(Some(SETTINGS), "docs", Change::Enable).unwrap();
        insta::assert_snapshot!("enabled", enabled);
        assert_eq!(edit(Some(&enabled), "docs", Change::Enable).unwrap(), enabled);
    }

    #[test]
    fn a_pasted_server_is_found_by_its_name_here() {
        let pasted = r#"{
  "servers": { "My Files": { "command": "x" }, "GitHub": { "command": "y" } },
  "mcpServers": { "github": { "command": "z" } }
}
"#;
        let without = edit(Some(pasted), "my-files", Change::Remove).unwrap();
        assert!(!without.contains("My Files") && without.contains("GitHub"), "{without}");
        let disabled = edit(Some(pasted), "github-2", Change::Disable).unwrap();
        let (_, after) = disabled.split_once("\"GitHub\"").unwrap();
        assert!(after.find("\"enabled\": false") < after.find("\"mcpServers\""), "{disabled}");
        assert_eq!(disabled.matches("enabled").count(), 1, "{disabled}");
        let exists = edit(Some(pasted), "my-files", Change::Add(json!({"command": "x"})));
        assert_eq!(exists, Err(EditError::Exists(ServerName::parse("my-files").unwrap())));
        let added = edit(Some(pasted), "new", Change::Add(json!({"command": "x"}))).unwrap();
        assert!(added.find("\"mcpServers\"").unwrap() < added.find("\"new\"").unwrap(), "{added}");
    }

    #[test]
    fn disabling_removes_what_other_programs_write() {
        let pasted = r#"{ "mcpServers": { "a": { "command": "x", "isActive": true } } }"#;
        let disabled = edit(Some(pasted), "a", Change::Disable).unwrap();
        assert!(disabled.contains("\"enabled\": false") && !disabled.contains("isActive"), "{disabled}");
        let enabled = edit(Some(&pasted.replace("true", "false")), "a", Change::Enable).unwrap();
        assert!(!enabled.contains("isActive") && !enabled.contains("enabled"), "{enabled}");
    }

    #[test]
    fn secrets_that_nothing_refers_to() {
        let both = r#"{"mcpServers": {"a": {"env": {"X": "${file:secrets/a.X}", "Y": "${file:secrets/shared}"}},
            "b": {"env": {"Y": "${file:secrets/shared}", "Z": "${file:secrets/../admin.key}"}}}}"#;
        let one = edit(Some(both), "a", Change::Remove).unwrap();
        assert_eq!(unused_secrets(both, &one), BTreeSet::from(["secrets/a.X".to_owned()]));
        let none = edit(Some(&one), "b", Change::Remove).unwrap();
        assert_eq!(unused_secrets(&one, &none), BTreeSet::from(["secrets/shared".to_owned()]));
        assert!(unused_secrets(both, both).is_empty());
    }

    #[test]
    fn the_first_server_of_all() {
        let add = || Change::Add(json!({"url": "https://docs.example.com/mcp"}));
        insta::assert_snapshot!("first_in_no_file", edit(None, "docs", add()).unwrap());
        insta::assert_snapshot!("first_in_an_empty_object", edit(Some("{}"), "docs", add()).unwrap());
        assert_eq!(edit(Some(" \n"), "docs", add()), edit(None, "docs", add()));
    }

    #[test]
    fn what_cannot_be_done() {
        let name = |name: &str| ServerName::parse(name).unwrap();
        let add = Change::Add(json!({"command": "x"}));
        assert_eq!(edit(Some(SETTINGS), "time", add), Err(EditError::Exists(name("time"))));
        assert_eq!(edit(Some(SETTINGS), "x", Change::Remove), Err(EditError::Missing(name("x"))));
        assert_eq!(edit(Some(SETTINGS), "x", Change::Enable), Err(EditError::Missing(name("x"))));
        assert_eq!(edit(Some("[]"), "x", Change::Remove), Err(EditError::NotAnObject));
        assert_eq!(edit(Some("{\"mcpServers\": []}"), "x", Change::Remove), Err(EditError::NotAnObject));
        // The gateway reads JSON with comments and trailing commas, and nothing looser.
        for text in ["{", "{'mcpServers': {}}", "{mcpServers: {}}", "{\"listen\": \"x\" \"mcpServers\": {}}"] {
            let add = Change::Add(json!({"command": "x"}));
            assert!(matches!(edit(Some(text), "x", add), Err(EditError::NotJson(_))), "{text}");
        }
    }
}
