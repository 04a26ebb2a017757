//! Adopts the `mcpServers` of other MCP clients, so that a pasted block works.
//!
//! Clients agree on `mcpServers`, `command`, `args` and `env`, and on little else. VS Code writes `servers`, Zed
//! `context_servers`. Gemini calls a URL `httpUrl`, Windsurf `serverUrl`. opencode puts a whole command line into
//! `command`. [`adopt`] rewrites the tree of a settings file from all these dialects into ours, before anything else
//! reads it. Every value keeps its position, so a mistake in a pasted block is still reported at its own line.
//!
//! ```text
//! "servers": { "My Files": { "type": "local", "command": ["npx", "files"], "autoApprove": ["read"] } }
//! "mcpServers": { "my-files": { "title": "My Files", "type": "stdio", "command": "npx", "args": ["files"] } }
//! ```
//!
//! Invariants:
//!
//! - **Nothing gets weaker.** Keys that skip approvals in a client (`autoApprove`, `trust`) have no effect here. Keys
//!   that take tools away (`excludeTools`, `disabledTools`) do have one.
//! - **Nothing is dropped in silence.** A key of another client without a meaning here becomes a [`Warning`]. A key
//!   that no client uses stays a mistake.
//! - **A pasted server takes no name away.** If two servers would have the same name, only the one that is written so
//!   runs. The others are misconfigured ([`names`]).
//!
//! Why rewrite the tree instead of teaching `server.rs` all dialects? Reading stays simple, because it sees one
//! dialect. `mcpproxy import` uses the same code to translate a client's own file ([`translate`]).

mod dialect;
mod dotenv;
mod escape;
mod names;
mod relocate;
mod secret_url;

use std::collections::HashMap;

use serde_json::{Map, Value};

use self::names::AssignedName;
use super::SERVERS_MAX;
use super::warning::{Warning, Warnings};
use crate::ServerName;
use crate::file::{self, Format, Member, Mistakes, Node, NodeValue, SourcePosition};

pub(super) use dotenv::read as read_env_file;
pub use escape::escape_references;
pub use names::free_name;
pub(super) use relocate::inline_secrets;
pub use relocate::{RelocatedSecret, relocate_secrets};

/// Our own section. The sections of other clients are merged into it.
const SERVERS: &str = "mcpServers";
/// The keys under which clients list their servers.
const SECTIONS: [&str; 5] = [SERVERS, "servers", "context_servers", "mcp_servers", "mcp"];

const NO_INPUTS: &str = "has no effect: the gateway does not prompt for values; write `${env:NAME}` or `${file:PATH}` \
                         instead of `${input:…}`";

/// Servers that cannot have their name, by the name under which they are listed, with the reason.
pub(super) type NameClashes = HashMap<String, String>;

/// Rewrites a settings file into our dialect, and collects warnings about keys without a meaning here. Returns the
/// servers that must not run, because another one would have the same name.
pub(super) fn adopt(root: &mut Node, warnings: &mut Warnings) -> NameClashes {
    let NodeValue::Object(members) = &mut root.value else { return NameClashes::new() };
    if let Some(inputs) = remove(members, "inputs") {
        warnings.add(inputs.position, format!("`inputs` {NO_INPUTS}"));
    }
    merge_sections(members);
    let Some(NodeValue::Object(servers)) =
        members.iter_mut().find(|member| member.name == SERVERS).map(|member| &mut member.node.value)
    else {
        return NameClashes::new();
    };
    // The reader reports too many servers. Naming them would take long.
    if servers.len() > SERVERS_MAX {
        return NameClashes::new();
    }
    let clashes = adopt_servers(servers, warnings).into_iter();
    clashes.map(|clash| (clash.name.to_string(), clash.reason)).collect()
}

/// A server of another client, in the form of our settings.
#[derive(Clone, Debug, PartialEq)]
pub struct TranslatedServer {
    pub name: ServerName,
    /// Its name in the file of the client.
    pub original: String,
    /// The value to write under `mcpServers`.
    pub definition: Value,
}

/// Translates the servers of another client. Returns them in the order of the file, with warnings about keys without a
/// meaning here.
pub fn translate(servers: &Map<String, Value>) -> (Vec<TranslatedServer>, Vec<Warning>) {
    let mut members: Vec<Member> = servers.iter().map(|(name, value)| member(name, value)).collect();
    let originals: Vec<String> = members.iter().map(|member| member.name.clone()).collect();
    let mut warnings = Warnings::default();
    for NameClash { original, name, .. } in adopt_servers(&mut members, &mut warnings) {
        if original == name.as_str() {
            continue;
        }
        // The new name is written into the settings, so nothing can take it away later.
        let message =
            format!("`{}` is called `{name}` here, because another server has its name", file::shown(&original));
        warnings.add(SourcePosition::START, message);
    }
    let translated = members.iter().zip(originals).filter_map(|(member, original)| {
        let name = ServerName::parse(&member.name).ok()?;
        Some(TranslatedServer { name, original, definition: member.node.to_json()? })
    });
    (translated.collect(), warnings.without_positions())
}

/// A server in the text of a settings file: where it is, and what the gateway calls it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerKey {
    /// `mcpServers`, or the section of another client.
    pub section: String,
    pub key: String,
    pub name: ServerName,
}

/// Finds the servers in the text of a settings file, for a program that edits the text.
pub fn server_keys(text: &str) -> Vec<ServerKey> {
    let documents = file::documents(text, Format::Jsonc, super::KIND, &mut Mistakes::default());
    let Some(NodeValue::Object(members)) = documents.first().map(|root| &root.value) else { return Vec::new() };
    let mut keys = Vec::new();
    for section in members.iter().filter(|member| SECTIONS.contains(&member.name.as_str())) {
        let NodeValue::Object(servers) = &section.node.value else { continue };
        keys.extend(servers.iter().map(|server| (section.name.clone(), server.name.clone())));
    }
    keys.truncate(SERVERS_MAX);
    let names = names::assign(&keys.iter().map(|(_, key)| key.as_str()).collect::<Vec<_>>());
    let found = keys.into_iter().zip(names);
    found.filter_map(|((section, key), name)| Some(ServerKey { section, key, name: name?.name })).collect()
}

/// Moves the servers of all sections into `mcpServers`.
fn merge_sections(members: &mut Vec<Member>) {
    let is_section = |member: &Member| SECTIONS.contains(&member.name.as_str());
    let Some(first) = members.iter().position(is_section) else { return };
    let (sections, mut rest): (Vec<Member>, Vec<Member>) = std::mem::take(members).into_iter().partition(is_section);
    let mut servers = Vec::new();
    let mut merged: Option<Member> = None;
    for section in sections {
        match section.node.value {
            NodeValue::Object(more) => {
                servers.extend(more);
                let node = Node::new(section.node.position, NodeValue::Object(Vec::new()));
                merged.get_or_insert(Member { name: SERVERS.to_owned(), position: section.position, node });
            }
            // The reader reports the wrong type, so that the whole file has no effect.
            NodeValue::Null
            | NodeValue::Bool(_)
            | NodeValue::Number(_)
            | NodeValue::Text(_)
            | NodeValue::Array(_)
            | NodeValue::Broken => {
                merged = Some(Member { name: SERVERS.to_owned(), ..section });
                break;
            }
        }
    }
    if let Some(mut merged) = merged {
        if let NodeValue::Object(members) = &mut merged.node.value {
            *members = servers;
        }
        rest.insert(first.min(rest.len()), merged);
    }
    *members = rest;
}

/// A server that must not run, because another one would have the same name.
struct NameClash {
    original: String,
    name: ServerName,
    reason: String,
}

fn adopt_servers(servers: &mut [Member], warnings: &mut Warnings) -> Vec<NameClash> {
    let written: Vec<&str> = servers.iter().map(|server| server.name.as_str()).collect();
    let names = names::assign(&written);
    let mut clashes = Vec::new();
    for (server, assigned) in servers.iter_mut().zip(names) {
        // A name without a letter or digit stays as it is, and the reader reports it.
        if let Some(AssignedName { name, clash }) = assigned {
            let original = std::mem::replace(&mut server.name, name.to_string());
            if original != server.name
                && let NodeValue::Object(members) = &mut server.node.value
                && !has(members, "title")
            {
                members.insert(0, text_member("title", server.position, original.clone()));
            }
            clashes.extend(clash.map(|reason| NameClash { original, name, reason }));
        }
        if let NodeValue::Object(members) = &mut server.node.value {
            dialect::adopt(members, &server.name, warnings);
        }
    }
    clashes
}

fn member(name: &str, value: &Value) -> Member {
    Member { name: name.to_owned(), position: SourcePosition::START, node: node(value) }
}

fn node(value: &Value) -> Node {
    let value = match value {
        Value::Null => NodeValue::Null,
        Value::Bool(value) => NodeValue::Bool(*value),
        Value::Number(number) => NodeValue::Number(number.clone()),
        Value::String(text) => NodeValue::Text(text.clone()),
        Value::Array(values) => NodeValue::Array(values.iter().map(node).collect()),
        Value::Object(members) => NodeValue::Object(members.iter().map(|(name, value)| member(name, value)).collect()),
    };
    Node::new(SourcePosition::START, value)
}

fn text_member(name: &str, position: SourcePosition, text: String) -> Member {
    Member { name: name.to_owned(), position, node: Node::new(position, NodeValue::Text(text)) }
}

fn has(members: &[Member], name: &str) -> bool {
    members.iter().any(|member| member.name == name)
}

fn find<'m>(members: &'m mut [Member], name: &str) -> Option<&'m mut Member> {
    members.iter_mut().find(|member| member.name == name)
}

fn remove(members: &mut Vec<Member>, name: &str) -> Option<Member> {
    let at = members.iter().position(|member| member.name == name)?;
    Some(members.remove(at))
}
