//! The `mcpServers` section, in the form that MCP clients use.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::time::Duration;

use super::keys::{self, Kind};
use super::read::Reader;
use super::reference::Unresolved;
use super::{
    SERVERS_MAX, Secret, ServerIdentity, ServerSettings, TransportSettings, address, amount, foreign, oauth, suggest,
    tool_filter,
};
use crate::ServerName;
use crate::file::{Fields, Member, Mistakes, Node, NodeValue, SourcePosition, list, shown};

pub(super) const CONCURRENT_CALLS_MAX: usize = 10_000;

/// Headers that mcpproxy sets itself. Other values would break the connection.
const OWN_HEADERS: [&str; 14] = [
    "accept",
    "connection",
    "content-length",
    "content-type",
    "host",
    "keep-alive",
    "last-event-id",
    "mcp-method",
    "mcp-name",
    "mcp-protocol-version",
    "mcp-session-id",
    "te",
    "transfer-encoding",
    "upgrade",
];

/// Start of the variables that configure mcpproxy itself.
const OWN_VARIABLES: &str = "MCPPROXY_";

/// Mistakes that are kept of one server. The rest adds nothing to its reason.
const MISTAKES_KEPT: usize = 20;

/// Parts of the file outside a server that concern the server.
pub(super) struct Surroundings<'s> {
    /// The environment variables that every process gets.
    pub(super) passthrough: &'s [String],
    /// The interval of servers without one of their own.
    pub(super) tools_refresh: Duration,
    pub(super) clashes: &'s foreign::NameClashes,
}

/// Reads all servers.
pub(super) fn read_all(
    reader: &mut Reader<'_>,
    field: &Member,
    surroundings: &Surroundings<'_>,
) -> Vec<ServerSettings> {
    let Some(servers) = reader.object(&field.node) else { return Vec::new() };
    if servers.len() > SERVERS_MAX {
        reader.report(field.position, format!("{} servers; at most {SERVERS_MAX} are possible", servers.len()));
        return Vec::new();
    }
    servers.iter().filter_map(|field| read(reader, field, surroundings)).collect()
}

/// Reads one server. A mistake in its name concerns the whole file, any other only this server.
fn read(reader: &mut Reader<'_>, field: &Member, surroundings: &Surroundings<'_>) -> Option<ServerSettings> {
    let name = read_name(reader, field)?;
    let mut found = Mistakes::default();
    let mut own = Reader::new(reader.author, reader.context, &mut found);
    if let Some(reason) = surroundings.clashes.get(name.as_str()) {
        own.report(field.position, reason);
    }
    let (kind, server) = match own.fields(&field.node, &keys::SERVER) {
        Some(fields) => read_fields(&mut own, &name, &fields, field.position, surroundings.tools_refresh),
        None => {
            // It must not have the identity of a demo server.
            let identity = ServerIdentity::read(&name, None, &Fields::default());
            (None, ServerSettings { identity, ..ServerSettings::new(name, TransportSettings::Demo) })
        }
    };
    let server = ServerSettings { secrets_in_file: foreign::inline_secrets(&server.name, &field.node), ..server };
    let mut mistakes = found.in_order();
    if mistakes.is_empty() {
        let is_process = matches!(server.transport, TransportSettings::Stdio { .. });
        let added = surroundings.passthrough.iter().filter(|name| is_process && !server.env_passthrough.contains(name));
        let env_passthrough = server.env_passthrough.iter().chain(added).cloned().collect();
        return Some(ServerSettings { env_passthrough, ..server });
    }
    mistakes.truncate(MISTAKES_KEPT);
    let kind = kind.map_or("unknown", Kind::as_str);
    Some(ServerSettings { transport: TransportSettings::Misconfigured { kind, mistakes }, ..server })
}

/// Reads the keys of a server. A value that is wrong leaves its default, and a mistake in the reader.
fn read_fields(
    reader: &mut Reader<'_>,
    name: &ServerName,
    fields: &Fields<'_>,
    at: SourcePosition,
    tools_refresh: Duration,
) -> (Option<Kind>, ServerSettings) {
    let enabled = read_enabled(reader, fields);
    if !enabled {
        // A server that is not started needs no secrets, so their files and variables may be missing.
        reader.context = &Unresolved;
    }
    // Read every key even after a mistake, so that all mistakes are reported at once.
    let kind = read_kind(reader, fields, at);
    let transport = read_transport(reader, fields, kind);
    let server = ServerSettings {
        enabled,
        title: fields.find("title").and_then(|field| reader.string(&field.node)).map(str::to_owned),
        description: fields.find("description").and_then(|field| reader.string(&field.node)).map(str::to_owned),
        call_timeout: read_duration(reader, fields, "call_timeout", ServerSettings::CALL_TIMEOUT),
        connect_timeout: read_duration(reader, fields, "connect_timeout", ServerSettings::CONNECT_TIMEOUT),
        tools_refresh: read_tools_refresh(reader, fields).unwrap_or(tools_refresh),
        max_concurrent_calls: fields
            .find("max_concurrent_calls")
            .and_then(|field| reader.whole_number(&field.node, 1..=CONCURRENT_CALLS_MAX))
            .unwrap_or(ServerSettings::MAX_CONCURRENT_CALLS),
        result_limit_bytes: read_result_limit(reader, fields).unwrap_or(ServerSettings::RESULT_LIMIT_BYTES),
        env_passthrough: reader.parsed_list(fields, "env_passthrough", parse_passthrough),
        oauth: oauth::read(reader, fields).unwrap_or_default(),
        tools: tool_filter::read(reader, fields),
        first_sight: reader.choice_of(fields, "first_sight", keys::FIRST_SIGHT),
        identity: ServerIdentity::read(name, kind, fields),
        // A transport that cannot be read has left a mistake, so this one is never used.
        ..ServerSettings::new(name.clone(), transport.unwrap_or(TransportSettings::Demo))
    };
    (kind, server)
}

fn read_name(reader: &mut Reader<'_>, field: &Member) -> Option<ServerName> {
    let name = field.name.as_str();
    match ServerName::parse(name) {
        Ok(name) => Some(name),
        Err(error) => {
            let suggestion = suggest::server_name(name).map(|name| format!("; use `{name}`")).unwrap_or_default();
            reader.report(field.position, format!("`{}` cannot be a server's name: {error}{suggestion}", shown(name)));
            None
        }
    }
}

fn read_kind(reader: &mut Reader<'_>, fields: &Fields<'_>, server_at: SourcePosition) -> Option<Kind> {
    let kind = match (fields.find("type"), fields.find("command"), fields.find("url")) {
        (Some(field), ..) => reader.choice(&field.node, keys::KINDS)?,
        (None, Some(_), None) => Kind::Stdio,
        (None, None, Some(_)) => Kind::Http,
        (None, Some(_), Some(url)) => {
            let message = "both `command` and `url`; keep `command` to start the server, or `url` to connect to it";
            reader.report(url.position, message);
            return None;
        }
        (None, None, None) => {
            let message = "no way to reach this server; add `command` to start it, or `url` to connect to it";
            reader.report(server_at, message);
            return None;
        }
    };
    let name = kind.as_str();
    let (needed, foreign): (_, &[&[&str]]) = match kind {
        Kind::Stdio => (Some("command"), &[keys::HTTP_ONLY]),
        Kind::Http | Kind::Sse => (Some("url"), &[keys::STDIO_ONLY]),
        Kind::Demo => (None, &[keys::STDIO_ONLY, keys::HTTP_ONLY]),
    };
    for key in foreign.iter().copied().flatten() {
        if let Some(field) = fields.find(key) {
            reader.report(field.position, format!("`{key}` has no meaning for a server of type `{name}`; remove it"));
        }
    }
    if let Some(key) = needed
        && fields.find(key).is_none()
    {
        reader.report(server_at, format!("a server of type `{name}` needs `{key}`; add it"));
    }
    Some(kind)
}

fn read_transport(reader: &mut Reader<'_>, fields: &Fields<'_>, kind: Option<Kind>) -> Option<TransportSettings> {
    let command = fields.find("command").and_then(|field| read_command(reader, &field.node));
    let args = fields.find("args").map(|field| read_args(reader, &field.node)).unwrap_or_default();
    let mut env = fields.find("env").map(|field| read_env(reader, &field.node)).unwrap_or_default();
    let more = foreign::read_env_file(reader, fields);
    let is_new = |name: &str| !env.iter().any(|(other, _)| other == name);
    env.extend(more.into_iter().filter(|(name, _)| is_new(name)).collect::<Vec<_>>());
    let cwd = fields.find("cwd").and_then(|field| reader.path(&field.node, "cwd"));
    let url = fields.find("url").and_then(|field| read_url(reader, &field.node));
    let headers = fields.find("headers").map(|field| read_headers(reader, &field.node)).unwrap_or_default();
    match kind? {
        Kind::Stdio => Some(TransportSettings::Stdio { command: command?, args, env, cwd }),
        Kind::Http => Some(TransportSettings::Http { url: url?, headers }),
        Kind::Sse => Some(TransportSettings::Sse { url: url?, headers }),
        Kind::Demo => Some(TransportSettings::Demo),
    }
}

fn read_command(reader: &mut Reader<'_>, node: &Node) -> Option<String> {
    if let NodeValue::Array(_) = &node.value {
        let hint = "; write the program here and the rest in `args`";
        return reader.wrong_type_but(node, "string", hint);
    }
    let command = reader.path(node, "command")?;
    let first_word = reader.string(node)?.split_whitespace().next().unwrap_or_default();
    let is_path = command.starts_with(['/', '.']) || command.get(1..3) == Some(":\\");
    if command.contains(char::is_whitespace) && !is_path {
        // Show the first word only. The rest are arguments, which may be secret.
        let first_word = shown(first_word);
        reader.report(
            node.position,
            format!("command not found: \"{first_word} …\"; put arguments in \"args\" (no shell is used)"),
        );
        return None;
    }
    Some(command)
}

fn read_args(reader: &mut Reader<'_>, node: &Node) -> Vec<String> {
    let nodes = reader.array(node).unwrap_or_default();
    nodes.iter().filter_map(|node| reader.expanded(node)).map(|expanded| expanded.text).collect()
}

fn read_url(reader: &mut Reader<'_>, node: &Node) -> Option<String> {
    let url = reader.expanded(node)?.text;
    reader.checked(node, address::check_server_url(&url)).map(|()| url)
}

fn read_env(reader: &mut Reader<'_>, node: &Node) -> Vec<(String, Secret)> {
    let variables = reader.object(node).unwrap_or_default();
    variables.iter().filter_map(|field| read_pair(reader, field, check_variable)).collect()
}

fn read_headers(reader: &mut Reader<'_>, node: &Node) -> Vec<(String, Secret)> {
    let mut headers = Vec::new();
    let mut seen = HashMap::new();
    for field in reader.object(node).unwrap_or_default() {
        headers.extend(read_pair(reader, field, check_header));
        match seen.entry(field.name.to_ascii_lowercase()) {
            Entry::Vacant(first) => {
                first.insert(field.position);
            }
            Entry::Occupied(first) => {
                let SourcePosition { line, column } = *first.get();
                let name = shown(&field.name);
                let message =
                    format!("duplicate header `{name}`, first used at line {line}, column {column}; keep one of them");
                reader.report(field.position, message);
            }
        }
    }
    headers
}

/// Reads a name and its value. `check` gets the value with its references resolved.
fn read_pair(
    reader: &mut Reader<'_>,
    field: &Member,
    check: fn(&str, &str) -> Result<(), String>,
) -> Option<(String, Secret)> {
    let expanded = reader.expanded(&field.node)?;
    if let Err(message) = check(&field.name, &expanded.text) {
        reader.report(field.position, message);
        return None;
    }
    let secret =
        if expanded.has_reference { Secret::new(expanded.text) } else { Secret::written_in_file(expanded.text) };
    Some((field.name.clone(), secret))
}

fn check_variable(name: &str, _value: &str) -> Result<(), String> {
    if name.is_empty() || name.contains(['=', '\0']) {
        return Err("the name of an environment variable is not empty and contains no `=` and no NUL".to_owned());
    }
    Ok(())
}

/// Parses the name of an environment variable that servers get from the gateway.
pub(super) fn parse_passthrough(name: &str) -> Result<String, String> {
    let fits = |b: u8| b.is_ascii_alphanumeric() || b == b'_';
    if name.is_empty() || !name.bytes().all(fits) {
        return Err(format!(
            "`{}` cannot be a variable's name; write one whole name such as \"MY_CA_FILE\"",
            shown(name)
        ));
    }
    if name.starts_with(OWN_VARIABLES) {
        return Err(format!("`{}` is mcpproxy's own variable and is never passed on; remove it", shown(name)));
    }
    Ok(name.to_owned())
}

fn check_header(name: &str, value: &str) -> Result<(), String> {
    let is_token = |b: u8| b.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&b);
    if name.is_empty() || !name.bytes().all(is_token) {
        return Err(format!("`{}` cannot be a header's name; use letters, digits and `-`", shown(name)));
    }
    if OWN_HEADERS.contains(&name.to_ascii_lowercase().as_str()) {
        return Err(format!("header `{}` is set by mcpproxy itself; remove it", shown(name)));
    }
    if value.contains(['\r', '\n']) {
        return Err(format!("the value of header `{name}` contains a line end; remove it"));
    }
    if !value.bytes().all(|b| b == b'\t' || (b' '..=b'~').contains(&b)) {
        return Err(format!("the value of header `{name}` may contain only printable ASCII; remove other characters"));
    }
    Ok(())
}

fn read_enabled(reader: &mut Reader<'_>, fields: &Fields<'_>) -> bool {
    let (enabled, disabled) = (fields.find("enabled"), fields.find("disabled"));
    let enabled_says = enabled.and_then(|field| reader.boolean(&field.node));
    let disabled_says = disabled.and_then(|field| reader.boolean(&field.node)).map(|disabled| !disabled);
    if let (Some(a), Some(b), Some(field)) = (enabled_says, disabled_says, disabled)
        && a != b
    {
        reader.report(field.position, format!("{} contradict each other; remove one", list(["enabled", "disabled"])));
    }
    enabled_says.or(disabled_says).unwrap_or(true)
}

fn read_duration(reader: &mut Reader<'_>, fields: &Fields<'_>, key: &str, default: Duration) -> Duration {
    let Some(field) = fields.find(key) else { return default };
    if let NodeValue::Number(_) = &field.node.value {
        reader.wrong_type_but::<()>(&field.node, "string", "; write the unit too, such as \"60s\" or \"500ms\"");
        return default;
    }
    reader.parsed(&field.node, amount::parse_duration).unwrap_or(default)
}

/// Reads `tools_refresh`, of the file or of one server.
pub(super) fn read_tools_refresh(reader: &mut Reader<'_>, fields: &Fields<'_>) -> Option<Duration> {
    reader.parsed_of(fields, "tools_refresh", amount::parse_refresh)
}

fn read_result_limit(reader: &mut Reader<'_>, fields: &Fields<'_>) -> Option<usize> {
    let node = &fields.find("result_limit")?.node;
    let NodeValue::Number(number) = &node.value else { return reader.parsed(node, amount::parse_size) };
    reader.checked(node, amount::check_size(number.as_u64().unwrap_or(0)))
}
