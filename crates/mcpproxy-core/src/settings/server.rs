//! The `mcpServers` part, in the shape MCP clients use.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::time::Duration;

use jsonc_parser::ast::Value;

use super::keys::{self, Kind};
use super::read::{Field, Fields, Reader};
use super::suggest::{self, list, shown};
use super::{SERVERS_MAX, Secret, ServerSettings, TransportSettings, address, amount};
use crate::ServerName;

pub(super) const CONCURRENT_CALLS_MAX: usize = 10_000;

/// mcpproxy frames messages and speaks the protocol itself; a second opinion in these would break a connection.
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

pub(super) fn read_all(reader: &mut Reader<'_>, field: Field<'_, '_>) -> Vec<ServerSettings> {
    let Some(servers) = reader.object(field.value) else { return Vec::new() };
    if servers.len() > SERVERS_MAX {
        reader.error(field.key_at, format!("{} servers; at most {SERVERS_MAX} are possible", servers.len()));
        return Vec::new();
    }
    servers.into_iter().filter_map(|(name, field)| read(reader, name, field)).collect()
}

fn read(reader: &mut Reader<'_>, name: &str, field: Field<'_, '_>) -> Option<ServerSettings> {
    let name = read_name(reader, name, field.key_at);
    let fields = reader.fields(field.value, &keys::SERVER)?;
    // Every key is read whatever the others say, so that one look at the errors is enough.
    let kind = read_kind(reader, &fields, field.key_at);
    let transport = read_transport(reader, &fields, kind);
    let server = ServerSettings {
        enabled: read_enabled(reader, &fields),
        description: fields.find("description").and_then(|field| reader.string(field.value)).map(str::to_owned),
        call_timeout: read_duration(reader, &fields, "call_timeout", ServerSettings::CALL_TIMEOUT),
        connect_timeout: read_duration(reader, &fields, "connect_timeout", ServerSettings::CONNECT_TIMEOUT),
        max_concurrent_calls: fields
            .find("max_concurrent_calls")
            .and_then(|field| reader.whole_number(field.value, 1..=CONCURRENT_CALLS_MAX))
            .unwrap_or(ServerSettings::MAX_CONCURRENT_CALLS),
        result_limit_bytes: read_result_limit(reader, &fields).unwrap_or(ServerSettings::RESULT_LIMIT_BYTES),
        ..ServerSettings::new(name?, transport?)
    };
    Some(server)
}

fn read_name(reader: &mut Reader<'_>, name: &str, at: usize) -> Option<ServerName> {
    match ServerName::parse(name) {
        Ok(name) => Some(name),
        Err(error) => {
            let suggestion = suggest::server_name(name).map(|name| format!("; use `{name}`")).unwrap_or_default();
            reader.error(at, format!("`{}` cannot be a server's name: {error}{suggestion}", shown(name)));
            None
        }
    }
}

fn read_kind(reader: &mut Reader<'_>, fields: &Fields<'_, '_>, server_at: usize) -> Option<Kind> {
    let kind = match (fields.find("type"), fields.find("command"), fields.find("url")) {
        (Some(field), ..) => reader.choice(field.value, keys::KINDS)?,
        (None, Some(_), None) => Kind::Stdio,
        (None, None, Some(_)) => Kind::Http,
        (None, Some(_), Some(url)) => {
            let message = "both `command` and `url`; keep `command` to start the server, or `url` to connect to it";
            reader.error(url.key_at, message);
            return None;
        }
        (None, None, None) => {
            let message = "no way to reach this server; add `command` to start it, or `url` to connect to it";
            reader.error(server_at, message);
            return None;
        }
    };
    let (name, needed, foreign): (_, _, &[&[&str]]) = match kind {
        Kind::Stdio => ("stdio", Some("command"), &[keys::HTTP_ONLY]),
        Kind::Http => ("http", Some("url"), &[keys::STDIO_ONLY]),
        Kind::Sse => ("sse", Some("url"), &[keys::STDIO_ONLY]),
        Kind::Demo => ("demo", None, &[keys::STDIO_ONLY, keys::HTTP_ONLY]),
    };
    for key in foreign.iter().copied().flatten() {
        if let Some(field) = fields.find(key) {
            reader.error(field.key_at, format!("`{key}` has no meaning for a server of type `{name}`; remove it"));
        }
    }
    if let Some(key) = needed
        && fields.find(key).is_none()
    {
        reader.error(server_at, format!("a server of type `{name}` needs `{key}`; add it"));
    }
    Some(kind)
}

fn read_transport(reader: &mut Reader<'_>, fields: &Fields<'_, '_>, kind: Option<Kind>) -> Option<TransportSettings> {
    let command = fields.find("command").and_then(|field| read_command(reader, field.value));
    let args = fields.find("args").map(|field| read_args(reader, field.value)).unwrap_or_default();
    let env = fields.find("env").map(|field| read_env(reader, field.value)).unwrap_or_default();
    let cwd = fields.find("cwd").and_then(|field| reader.path(field.value, "cwd"));
    let url = fields.find("url").and_then(|field| read_url(reader, field.value));
    let headers = fields.find("headers").map(|field| read_headers(reader, field.value)).unwrap_or_default();
    match kind? {
        Kind::Stdio => Some(TransportSettings::Stdio { command: command?, args, env, cwd }),
        Kind::Http => Some(TransportSettings::Http { url: url?, headers }),
        Kind::Sse => Some(TransportSettings::Sse { url: url?, headers }),
        Kind::Demo => Some(TransportSettings::Demo),
    }
}

fn read_command(reader: &mut Reader<'_>, value: &Value<'_>) -> Option<String> {
    if let Value::Array(_) = value {
        let hint = "; write the program here and the rest in `args`";
        return reader.wrong_type_but(value, "string", hint);
    }
    let command = reader.path(value, "command")?;
    let first_word = reader.string(value)?.split_whitespace().next().unwrap_or_default();
    let is_path = command.starts_with(['/', '.']) || command.get(1..3) == Some(":\\");
    if command.contains(char::is_whitespace) && !is_path {
        // Only the first word is shown: what follows it are arguments, and arguments may be secret.
        let first_word = shown(first_word);
        reader.error_at(
            value,
            format!("command not found: \"{first_word} …\"; put arguments in \"args\" (no shell is used)"),
        );
        return None;
    }
    Some(command)
}

fn read_args(reader: &mut Reader<'_>, value: &Value<'_>) -> Vec<String> {
    let values = reader.array(value).unwrap_or_default();
    values.iter().filter_map(|value| reader.expanded(value)).map(|expanded| expanded.text).collect()
}

fn read_url(reader: &mut Reader<'_>, value: &Value<'_>) -> Option<String> {
    let url = reader.expanded(value)?.text;
    reader.or_error(value, address::check_server_url(&url)).map(|()| url)
}

fn read_env(reader: &mut Reader<'_>, value: &Value<'_>) -> Vec<(String, Secret)> {
    let variables = reader.object(value).unwrap_or_default();
    variables.into_iter().filter_map(|(name, field)| read_pair(reader, name, field, check_variable)).collect()
}

fn read_headers(reader: &mut Reader<'_>, value: &Value<'_>) -> Vec<(String, Secret)> {
    let mut headers = Vec::new();
    let mut seen = HashMap::new();
    for (name, field) in reader.object(value).unwrap_or_default() {
        headers.extend(read_pair(reader, name, field, check_header));
        match seen.entry(name.to_ascii_lowercase()) {
            Entry::Vacant(place) => {
                place.insert(field.key_at);
            }
            Entry::Occupied(place) => {
                let (line, column) = reader.position(*place.get());
                let name = shown(name);
                let message =
                    format!("duplicate header `{name}`, first used at line {line}, column {column}; keep one of them");
                reader.error(field.key_at, message);
            }
        }
    }
    headers
}

/// A name and its value; `check` sees the value with its references replaced.
fn read_pair(
    reader: &mut Reader<'_>,
    name: &str,
    field: Field<'_, '_>,
    check: fn(&str, &str) -> Result<(), String>,
) -> Option<(String, Secret)> {
    let expanded = reader.expanded(field.value)?;
    if let Err(message) = check(name, &expanded.text) {
        reader.error(field.key_at, message);
        return None;
    }
    let secret =
        if expanded.has_reference { Secret::new(expanded.text) } else { Secret::written_in_file(expanded.text) };
    Some((name.to_owned(), secret))
}

fn check_variable(name: &str, _value: &str) -> Result<(), String> {
    if name.is_empty() || name.contains(['=', '\0']) {
        return Err("the name of an environment variable is not empty and contains no `=` and no NUL".to_owned());
    }
    Ok(())
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
        return Err(format!("the value of header `{name}` contains more than printable ASCII; remove the rest"));
    }
    Ok(())
}

fn read_enabled(reader: &mut Reader<'_>, fields: &Fields<'_, '_>) -> bool {
    let (enabled, disabled) = (fields.find("enabled"), fields.find("disabled"));
    let enabled_says = enabled.and_then(|field| reader.boolean(field.value));
    let disabled_says = disabled.and_then(|field| reader.boolean(field.value)).map(|disabled| !disabled);
    if let (Some(a), Some(b), Some(field)) = (enabled_says, disabled_says, disabled)
        && a != b
    {
        reader.error(field.key_at, format!("{} contradict each other; remove one", list(["enabled", "disabled"])));
    }
    enabled_says.or(disabled_says).unwrap_or(true)
}

fn read_duration(reader: &mut Reader<'_>, fields: &Fields<'_, '_>, key: &str, default: Duration) -> Duration {
    let Some(field) = fields.find(key) else { return default };
    if let Value::NumberLit(_) = field.value {
        reader.wrong_type_but::<()>(field.value, "string", "; write the unit too, such as \"60s\" or \"500ms\"");
        return default;
    }
    reader.parsed(field.value, amount::parse_duration).unwrap_or(default)
}

fn read_result_limit(reader: &mut Reader<'_>, fields: &Fields<'_, '_>) -> Option<usize> {
    let value = fields.find("result_limit")?.value;
    let Value::NumberLit(literal) = value else { return reader.parsed(value, amount::parse_size) };
    reader.or_error(value, amount::check_size(literal.value.parse().unwrap_or(0)))
}
