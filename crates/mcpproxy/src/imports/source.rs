//! Finds the servers of a client: in its own file, or in a file that the user names.

use std::path::{Path, PathBuf};

use mcpproxy_core::nearest;
use serde_json::{Map, Value, json};

use super::references;
use crate::agent_clients::document::{self, KeyPath};
use crate::agent_clients::file::ClientFile;
use crate::agent_clients::{self, CLIENTS, Client, FileFormat, Machine};
use crate::exit::{Exit, Failure};
use crate::terminal::output::line;

/// Keys that lead to servers in a file that no client row describes.
const SECTIONS: [&[&str]; 7] = [
    &["mcpServers"],
    &["servers"],
    &["context_servers"],
    &["mcp_servers"],
    &["mcp", "servers"],
    &["mcp"],
    &["extensions"],
];
/// Clients in which `url` alone means SSE, and `httpUrl` Streamable HTTP.
const URL_MEANS_SSE: [&str; 2] = ["gemini", "qwen"];
/// Entries of Goose that are part of Goose itself.
const BUILT_IN: [&str; 4] = ["builtin", "platform", "frontend", "inline_python"];

/// A file with servers.
pub(crate) struct Source {
    pub(crate) client: Option<&'static Client>,
    pub(crate) file: ClientFile,
    pub(crate) format: FileFormat,
    pub(crate) entries: Vec<Entry>,
}

/// One server in the file.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Entry {
    /// The keys that lead to it. The last one is its name.
    pub(crate) path: KeyPath,
    pub(crate) definition: Value,
    /// Why it cannot be imported.
    pub(crate) refused: Option<&'static str>,
    /// True if `${` was escaped, because the client does not resolve it.
    pub(crate) is_escaped: bool,
}

impl Entry {
    pub(crate) fn name(&self) -> &str {
        self.path.last().map(String::as_str).unwrap_or_default()
    }
}

impl Source {
    /// Opens the file of a client, or a file.
    pub(crate) fn open(given: &str, machine: &Machine) -> Result<Self, Failure> {
        let Some(client) = agent_clients::find(given) else {
            let path = Path::new(given);
            if path.symlink_metadata().is_err() && !given.contains(['/', '.', '\\']) {
                return Err(unknown(given));
            }
            return Self::read(path, None, format_of(path));
        };
        let path = client.config_path(machine).filter(|path| path.symlink_metadata().is_ok()).ok_or_else(|| {
            let looked: Vec<String> =
                client.config.places.paths(machine).iter().map(|path| format!("`{}`", path.display())).collect();
            Failure::new(Exit::Failed, format!("{} has no settings file here ({}).", client.title, looked.join(", ")))
                .hint("name the file itself: mcpproxy import PATH")
        })?;
        Self::read(&path, Some(client), client.config.format)
    }

    fn read(path: &Path, client: Option<&'static Client>, format: FileFormat) -> Result<Self, Failure> {
        let file = ClientFile::read(path)?;
        let shown = path.display();
        let Some(text) = &file.text else {
            return Err(Failure::new(Exit::Failed, format!("`{shown}` does not exist."))
                .hint("run `mcpproxy import` to see the files of all clients"));
        };
        let value = document::read(text, format).map_err(|error| {
            Failure::new(Exit::Failed, format!("`{shown}`: {error}"))
                .hint("correct the file, and run the command again; nothing was changed")
        })?;
        let entries = entries(&value, client);
        Ok(Self { client, file, format, entries })
    }

    /// Reads a text that a user pasted: a file of a client, a part of one, or a single server.
    pub(crate) fn pasted(text: &str, name: Option<&str>) -> Result<Self, Failure> {
        let value = pasted_value(text)?;
        let Value::Object(members) = &value else { return Err(no_servers()) };
        let value = if is_definition(members) {
            let named = name.or_else(|| members.get("name").and_then(Value::as_str));
            let name = named.map(str::trim).filter(|name| !name.is_empty()).ok_or_else(|| {
                Failure::new(Exit::Usage, "The text is one server without a name.")
                    .hint("fill in the field for its name, and try again")
            })?;
            json!({"mcpServers": {name: value}})
        } else if SECTIONS.iter().any(|path| members.contains_key(*path.first().unwrap_or(&""))) {
            value
        } else {
            json!({"mcpServers": value})
        };
        let entries = entries(&value, None);
        if entries.is_empty() {
            return Err(no_servers());
        }
        let file = ClientFile { path: PathBuf::new(), target: PathBuf::new(), text: None, mode: 0 };
        Ok(Self { client: None, file, format: FileFormat::Json, entries })
    }

    /// The name for people: `Cursor`, or the path.
    pub(crate) fn title(&self) -> String {
        self.client.map_or_else(|| line(&self.file.path.display().to_string()), |client| client.title.to_owned())
    }
}

/// Parses JSON with comments. People often copy one member of a file, `"time": {…},`, without the braces around it.
fn pasted_value(text: &str) -> Result<Value, Failure> {
    let text = text.trim();
    document::read(text, FileFormat::Json).or_else(|error| {
        let member = text.starts_with('"').then(|| document::read(&format!("{{{text}}}"), FileFormat::Json).ok());
        member.flatten().ok_or_else(|| {
            Failure::new(Exit::Usage, format!("The text is not valid JSON: {error}."))
                .hint("copy it again from its first { to its last }")
        })
    })
}

/// Returns true if the members describe one server.
fn is_definition(members: &Map<String, Value>) -> bool {
    let is_text = |key: &str| members.get(key).is_some_and(|value| value.is_string() || value.is_array());
    ["command", "cmd", "url", "httpUrl", "serverUrl", "uri"].into_iter().any(is_text)
}

fn no_servers() -> Failure {
    Failure::new(Exit::Usage, "The text has no servers.")
        .hint("paste a client's JSON, such as {\"mcpServers\": {\"time\": {\"command\": \"uvx\", \"args\": [\"mcp-server-time\"]}}}")
}

/// The servers of one client.
pub(crate) struct Found {
    pub(crate) client: &'static Client,
    pub(crate) path: PathBuf,
    pub(crate) entries: Result<Vec<Entry>, Failure>,
}

/// Looks at the files of all clients. A file that cannot be read does not hide the others.
pub(crate) fn find_all(machine: &Machine) -> Vec<Found> {
    let there = CLIENTS.iter().filter_map(|client| {
        let path = client.config_path(machine).filter(|path| path.symlink_metadata().is_ok())?;
        let entries = Source::read(&path, Some(client), client.config.format).map(|source| source.entries);
        Some(Found { client, path, entries })
    });
    there.collect()
}

fn unknown(given: &str) -> Failure {
    let ids = CLIENTS.iter().map(|client| client.id);
    let hint = match nearest(given, ids) {
        Some(id) => format!("did you mean `mcpproxy import {id}`?"),
        None => "run `mcpproxy import` to see the clients on this machine".to_owned(),
    };
    Failure::new(Exit::Usage, format!("`{}` is neither a client nor a file.", line(given))).hint(hint)
}

fn format_of(path: &Path) -> FileFormat {
    match path.extension().and_then(|ending| ending.to_str()) {
        Some("toml") => FileFormat::Toml,
        Some("yaml" | "yml") => FileFormat::Yaml,
        Some(_) | None => FileFormat::Json,
    }
}

fn entries(value: &Value, client: Option<&Client>) -> Vec<Entry> {
    let mut sections: Vec<KeyPath> = match client {
        Some(client) => vec![client.config.servers.iter().map(|key| (*key).to_owned()).collect()],
        None => {
            let is_there = |path: &KeyPath| is_section(document::get(value, path));
            let paths = SECTIONS.iter().map(|path| path.iter().map(|key| (*key).to_owned()).collect::<KeyPath>());
            // `mcp` holds servers in opencode, and `servers` in VS Code.
            paths.filter(is_there).take(1).collect()
        }
    };
    // Claude Code keeps the servers of a folder under `projects`.
    if let Some(Value::Object(projects)) = value.get("projects") {
        sections.extend(projects.keys().map(|folder| ["projects", folder, "mcpServers"].map(str::to_owned).into()));
    }
    let mut entries = Vec::new();
    for section in sections {
        let Some(Value::Object(servers)) = document::get(value, &section) else { continue };
        for (name, definition) in servers {
            let path = section.iter().chain([name]).cloned().collect();
            let mut definition = definition.clone();
            let refused = prepare(&mut definition, client);
            let is_escaped = references::escape(&mut definition, client);
            entries.push(Entry { path, definition, refused, is_escaped });
        }
    }
    entries
}

/// A table of tables, or an empty one.
fn is_section(value: Option<&Value>) -> bool {
    let Some(Value::Object(members)) = value else { return false };
    members.is_empty() || members.values().any(Value::is_object)
}

/// Adds what only the client's own reading of a key tells. Returns why the entry cannot be imported.
fn prepare(definition: &mut Value, client: Option<&Client>) -> Option<&'static str> {
    let Value::Object(members) = definition else { return Some("its entry is not an object") };
    if client.is_some_and(|client| URL_MEANS_SSE.contains(&client.id)) && is_sse(members) {
        members.insert("type".to_owned(), Value::from("sse"));
    }
    let kind = members.get("type").and_then(Value::as_str);
    if kind.is_some_and(|kind| BUILT_IN.contains(&kind)) {
        return Some("it is part of the client itself");
    }
    // Goose writes an empty list if all tools are available.
    if members.get("available_tools").and_then(Value::as_array).is_some_and(Vec::is_empty) {
        members.remove("available_tools");
    }
    None
}

fn is_sse(members: &Map<String, Value>) -> bool {
    members.contains_key("url") && !members.contains_key("type") && !members.contains_key("httpUrl")
}
