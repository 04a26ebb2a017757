//! The keys of one server in the dialects of other clients, as a table.

use std::collections::HashMap;

use serde_json::Number;

use super::super::warning::Warnings;
use super::{find, has, remove, text_member};
use crate::file::{Member, Node, NodeValue};
use crate::settings::amount;

/// The meaning of a key here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Meaning {
    /// The same as one of our keys.
    Key(&'static str),
    /// The URL of a server over Streamable HTTP.
    HttpUrl,
    /// A timeout, as a number without its unit.
    Timeout(&'static str, Unit),
    /// The environment variable that holds a bearer token.
    BearerVariable,
    /// Headers, with the names of the environment variables that hold their values.
    HeaderVariables,
    /// No meaning here. The text says why, or what to do.
    None(&'static str),
}

/// The unit of a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Unit {
    Milliseconds,
    Seconds,
    /// Cline and Roo mean seconds, Gemini and opencode milliseconds. Nobody waits for 1000 seconds, and nobody for less
    /// than a second.
    ByItsSize,
}

const NO_APPROVALS: &str = "has no effect: contracts and policies decide which calls need an approval";
const APPROVALS: Meaning = Meaning::None(NO_APPROVALS);
const DECORATION: Meaning = Meaning::None("has no effect here");
const LOADING: Meaning = Meaning::None("has no effect here: set it for mcpproxy in your client instead");
const OAUTH: Meaning =
    Meaning::None("has no effect: the gateway does not sign in with OAuth; put a token into `headers`");
const SANDBOX: Meaning = Meaning::None("has no effect: the gateway starts the server without a sandbox");
const HELPER: Meaning =
    Meaning::None("has no effect: the gateway runs no helper for headers; put a token into `headers`");
const NOT_ENDED: Meaning = Meaning::None("has no effect: the gateway keeps servers running");

/// Keys of other clients. A key that stands neither here nor in `keys::SERVER` is a mistake.
const FOREIGN: &[(&str, Meaning)] = &[
    // Claude Desktop, Cline, Roo, Kiro, Gemini, Qwen, Codex, Continue: calls that run unasked.
    ("autoApprove", APPROVALS),
    ("auto_approve", APPROVALS),
    ("autoApproveTools", APPROVALS),
    ("alwaysAllow", APPROVALS),
    ("always_allow", APPROVALS),
    ("trust", APPROVALS),
    ("trusted", APPROVALS),
    ("permissions", APPROVALS),
    ("approval_mode", APPROVALS),
    ("default_tools_approval_mode", APPROVALS),
    // Ways to reach a server.
    ("serverUrl", Meaning::Key("url")),
    ("uri", Meaning::Key("url")),
    ("endpoint", Meaning::Key("url")),
    ("httpUrl", Meaning::HttpUrl),
    ("transport", Meaning::Key("type")),
    ("transportType", Meaning::Key("type")),
    ("cmd", Meaning::Key("command")),
    ("environment", Meaning::Key("env")),
    ("envs", Meaning::Key("env")),
    ("envFile", Meaning::Key("env_file")),
    ("env_vars", Meaning::Key("env_passthrough")),
    ("env_keys", Meaning::Key("env_passthrough")),
    ("workingDirectory", Meaning::Key("cwd")),
    ("http_headers", Meaning::Key("headers")),
    ("requestHeaders", Meaning::Key("headers")),
    ("bearer_token_env_var", Meaning::BearerVariable),
    ("env_http_headers", Meaning::HeaderVariables),
    // Switches.
    ("isActive", Meaning::Key("enabled")),
    ("active", Meaning::Key("enabled")),
    ("includeTools", Meaning::Key("include_tools")),
    ("enabledTools", Meaning::Key("include_tools")),
    ("enabled_tools", Meaning::Key("include_tools")),
    ("allowedTools", Meaning::Key("include_tools")),
    ("available_tools", Meaning::Key("include_tools")),
    ("excludeTools", Meaning::Key("exclude_tools")),
    ("disabledTools", Meaning::Key("exclude_tools")),
    ("disabled_tools", Meaning::Key("exclude_tools")),
    // Timeouts.
    ("timeout", Meaning::Timeout("call_timeout", Unit::ByItsSize)),
    ("timeoutMs", Meaning::Timeout("call_timeout", Unit::Milliseconds)),
    ("tool_timeout_sec", Meaning::Timeout("call_timeout", Unit::Seconds)),
    ("startup_timeout_sec", Meaning::Timeout("connect_timeout", Unit::Seconds)),
    ("startup_timeout_ms", Meaning::Timeout("connect_timeout", Unit::Milliseconds)),
    ("connectionTimeout", Meaning::Timeout("connect_timeout", Unit::ByItsSize)),
    ("initTimeout", Meaning::Timeout("connect_timeout", Unit::ByItsSize)),
    // Names.
    ("name", Meaning::Key("title")),
    ("displayName", Meaning::Key("title")),
    ("display_name", Meaning::Key("title")),
    // What the gateway does not do.
    ("oauth", OAUTH),
    ("oauth_resource", OAUTH),
    ("auth", OAUTH),
    ("authProviderType", OAUTH),
    ("targetAudience", OAUTH),
    ("targetServiceAccount", OAUTH),
    ("scopes", OAUTH),
    ("headersHelper", HELPER),
    ("sandbox", SANDBOX),
    ("sandboxEnabled", SANDBOX),
    ("alwaysLoad", LOADING),
    ("defer_loading", LOADING),
    ("supports_parallel_tool_calls", LOADING),
    ("required", DECORATION),
    ("ephemeral", NOT_ENDED),
    ("watchPaths", NOT_ENDED),
    ("dev", DECORATION),
    ("gallery", DECORATION),
    ("icon", DECORATION),
    ("iconUrl", DECORATION),
    ("icons", DECORATION),
    ("version", DECORATION),
    ("source", DECORATION),
    ("settings", DECORATION),
    ("remote", DECORATION),
    ("registryUrl", DECORATION),
    ("fromGalleryId", DECORATION),
    ("provider", DECORATION),
    ("providerUrl", DECORATION),
    ("logoUrl", DECORATION),
    ("tags", DECORATION),
    ("bundled", DECORATION),
    ("extension", DECORATION),
    ("longRunning", DECORATION),
    ("debug", DECORATION),
    ("capabilities", DECORATION),
];

/// Names of transports in other clients, with ours.
const KINDS: [(&str, &str); 7] = [
    ("local", "stdio"),
    ("command", "stdio"),
    ("remote", "http"),
    ("streamable_http", "http"),
    ("streamable", "http"),
    ("http-stream", "http"),
    ("httpStream", "http"),
];

/// Keys that older versions of Zed write below `command`.
const COMMAND_PARTS: [&str; 2] = ["args", "env"];

/// Rewrites the keys of one server into ours.
pub(super) fn adopt(members: &mut Vec<Member>, server: &str, warnings: &mut Warnings) {
    let mut headers = Vec::new();
    for mut member in std::mem::take(members) {
        match FOREIGN.iter().find(|(key, _)| *key == member.name) {
            None => members.extend(listed_tools(member, server, warnings)),
            Some((key, Meaning::None(why))) => warnings.add_key(member.position, key, server, why),
            Some((key, Meaning::Key(ours))) => {
                member.name = (*ours).to_owned();
                put(members, key, member, server, warnings);
            }
            Some((key, Meaning::HttpUrl)) => {
                let position = member.position;
                member.name = "url".to_owned();
                put(members, key, member, server, warnings);
                if !has(members, "type") {
                    members.push(text_member("type", position, "http".to_owned()));
                }
            }
            Some((key, Meaning::Timeout(ours, unit))) => match duration(&member.node, *unit) {
                Some(text) => put(members, key, text_member(ours, member.position, text), server, warnings),
                None => warnings.add_key(member.position, key, server, "has no effect: it is no time up to 24 hours"),
            },
            Some((_, Meaning::BearerVariable)) => {
                headers.push(referring("Bearer ", Member { name: "Authorization".to_owned(), ..member }));
            }
            Some((_, Meaning::HeaderVariables)) => {
                if let NodeValue::Object(variables) = member.node.value {
                    headers.extend(variables.into_iter().map(|variable| referring("", variable)));
                }
            }
        }
    }
    remove_repeated(members, server, warnings);
    // Plain headers come first, wherever they stand.
    headers.into_iter().for_each(|header| add_header(members, header));
    shape(members);
}

/// Codex keeps its rules for single tools in `tools`, as an object. As a list, `tools` names the tools to offer.
fn listed_tools(member: Member, server: &str, warnings: &mut Warnings) -> Option<Member> {
    if member.name != "tools" {
        return Some(member);
    }
    let NodeValue::Array(tools) = &member.node.value else {
        warnings.add_key(member.position, "tools", server, NO_APPROVALS);
        return None;
    };
    let are_all = tools.iter().any(|tool| matches!(&tool.value, NodeValue::Text(name) if name == "*"));
    (!are_all).then(|| Member { name: "include_tools".to_owned(), ..member })
}

/// Adds a member under our name, unless the server has it already.
fn put(members: &mut Vec<Member>, key: &'static str, member: Member, server: &str, warnings: &mut Warnings) {
    if has(members, &member.name) {
        warnings.add_key(member.position, key, server, "has no effect, because another key says the same");
    } else {
        members.push(member);
    }
}

/// Drops a key that is given under two names, and an empty value beside a full one.
fn remove_repeated(members: &mut Vec<Member>, server: &str, warnings: &mut Warnings) {
    let mut kept: Vec<Member> = Vec::with_capacity(members.len());
    let mut places: HashMap<String, usize> = HashMap::with_capacity(members.len());
    for member in members.drain(..) {
        let first = places.get(&member.name).and_then(|at| kept.get_mut(*at));
        match first {
            None => {
                places.insert(member.name.clone(), kept.len());
                kept.push(member);
            }
            Some(first) if is_empty(&first.node) => *first = member,
            Some(_) if is_empty(&member.node) => {}
            Some(first) => {
                if !combine(first, &member) {
                    let why = "is given twice under different names; the first counts";
                    warnings.add_key(member.position, &member.name, server, why);
                }
            }
        }
    }
    *members = kept;
}

/// Combines two values of a key that limits a server, so that the stricter one counts. Returns false for other keys.
fn combine(first: &mut Member, second: &Member) -> bool {
    let name = |node: &Node| match &node.value {
        NodeValue::Text(name) => Some(name.clone()),
        NodeValue::Null
        | NodeValue::Bool(_)
        | NodeValue::Number(_)
        | NodeValue::Array(_)
        | NodeValue::Object(_)
        | NodeValue::Broken => None,
    };
    match (first.name.as_str(), &mut first.node.value, &second.node.value) {
        ("enabled", NodeValue::Bool(is_enabled), NodeValue::Bool(other)) => *is_enabled &= other,
        ("exclude_tools", NodeValue::Array(tools), NodeValue::Array(more)) => tools.extend(more.iter().cloned()),
        ("include_tools", NodeValue::Array(tools), NodeValue::Array(others)) => {
            let others: Vec<String> = others.iter().filter_map(name).collect();
            tools.retain(|tool| name(tool).is_some_and(|tool| others.contains(&tool)));
        }
        (_, _, _) => return false,
    }
    true
}

/// Converts a number of seconds or milliseconds into a text with its unit.
fn duration(node: &Node, unit: Unit) -> Option<String> {
    let text = match &node.value {
        // A reader of TOML may give a fraction as text.
        NodeValue::Text(text) => match text.parse::<Number>() {
            Ok(number) => in_milliseconds(&number, unit)?,
            Err(_) => text.clone(),
        },
        NodeValue::Number(number) => in_milliseconds(number, unit)?,
        NodeValue::Null | NodeValue::Bool(_) | NodeValue::Array(_) | NodeValue::Object(_) | NodeValue::Broken => {
            return None;
        }
    };
    amount::parse_duration(&text).ok().map(|_| text)
}

fn in_milliseconds(number: &Number, unit: Unit) -> Option<String> {
    const BOUNDARY: f64 = 1000.0;
    let number = number.as_f64().filter(|number| *number > 0.0 && *number < 1e12)?;
    let factor = match unit {
        Unit::Milliseconds => 1.0,
        Unit::Seconds => 1000.0,
        Unit::ByItsSize => {
            if number < BOUNDARY {
                1000.0
            } else {
                1.0
            }
        }
    };
    let milliseconds = (number * factor).round();
    Some(if milliseconds % 1000.0 == 0.0 { format!("{}s", milliseconds / 1000.0) } else { format!("{milliseconds}ms") })
}

/// Replaces the name of an environment variable by a reference to it.
fn referring(scheme: &str, mut member: Member) -> Member {
    if let NodeValue::Text(variable) = &member.node.value {
        member.node.value = NodeValue::Text(format!("{scheme}${{env:{variable}}}"));
    }
    member
}

/// Adds a header, unless the server has it already.
fn add_header(members: &mut Vec<Member>, header: Member) {
    if let Some(NodeValue::Object(headers)) = find(members, "headers").map(|headers| &mut headers.node.value) {
        if !headers.iter().any(|other| other.name.eq_ignore_ascii_case(&header.name)) {
            headers.push(header);
        }
        return;
    }
    let position = header.position;
    let node = Node::new(position, NodeValue::Object(vec![header]));
    members.push(Member { name: "headers".to_owned(), position, node });
}

/// Rewrites values of our own keys that other clients write in another shape.
fn shape(members: &mut Vec<Member>) {
    split_command(members);
    if let Some(NodeValue::Text(kind)) = find(members, "type").map(|kind| &mut kind.node.value)
        && let Some((_, ours)) = KINDS.iter().find(|(theirs, _)| theirs == kind)
    {
        *kind = (*ours).to_owned();
    }
    for pairs in ["env", "headers"] {
        if let Some(NodeValue::Object(pairs)) = find(members, pairs).map(|pairs| &mut pairs.node.value) {
            pairs.retain(|pair| !matches!(pair.node.value, NodeValue::Null));
            pairs.iter_mut().for_each(|pair| to_text(&mut pair.node));
        }
    }
    if let Some(NodeValue::Array(names)) = find(members, "env_passthrough").map(|names| &mut names.node.value) {
        names.iter_mut().for_each(name_of_variable);
    }
    // Programs write empty lists for what a server does not have.
    let unused: &[&str] = if has(members, "command") { &["headers", "url"] } else { &["args", "env", "command"] };
    members.retain(|member| !(unused.contains(&member.name.as_str()) && is_empty(&member.node)));
}

/// Splits a command line: opencode writes a list, older versions of Zed an object.
fn split_command(members: &mut Vec<Member>) {
    let Some(command) = find(members, "command") else { return };
    let position = command.position;
    match &mut command.node.value {
        NodeValue::Array(words) if !words.is_empty() => {
            let mut words = std::mem::take(words).into_iter();
            if let Some(program) = words.next() {
                command.node = program;
            }
            let mut args: Vec<Node> = words.collect();
            if let Some(NodeValue::Array(more)) = remove(members, "args").map(|args| args.node.value) {
                args.extend(more);
            }
            let node = Node::new(position, NodeValue::Array(args));
            members.push(Member { name: "args".to_owned(), position, node });
        }
        NodeValue::Object(parts) => {
            let mut parts = std::mem::take(parts);
            let Some(path) = remove(&mut parts, "path") else { return };
            command.node = path.node;
            parts.retain(|part| !(COMMAND_PARTS.contains(&part.name.as_str()) && has(members, &part.name)));
            members.append(&mut parts);
        }
        NodeValue::Array(_)
        | NodeValue::Null
        | NodeValue::Bool(_)
        | NodeValue::Number(_)
        | NodeValue::Text(_)
        | NodeValue::Broken => {}
    }
}

/// Converts a number or boolean to text, because VS Code allows both as the value of a variable.
fn to_text(node: &mut Node) {
    match &node.value {
        NodeValue::Number(number) => node.value = NodeValue::Text(number.to_string()),
        NodeValue::Bool(value) => node.value = NodeValue::Text(value.to_string()),
        NodeValue::Null | NodeValue::Text(_) | NodeValue::Array(_) | NodeValue::Object(_) | NodeValue::Broken => {}
    }
}

/// Codex names a variable as a text, or as an object with a `name`.
fn name_of_variable(node: &mut Node) {
    if let NodeValue::Object(parts) = &mut node.value
        && let Some(name) = remove(parts, "name")
    {
        *node = name.node;
    }
}

fn is_empty(node: &Node) -> bool {
    match &node.value {
        NodeValue::Array(nodes) => nodes.is_empty(),
        NodeValue::Object(members) => members.is_empty(),
        NodeValue::Text(text) => text.is_empty(),
        NodeValue::Null => true,
        NodeValue::Bool(_) | NodeValue::Number(_) | NodeValue::Broken => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::keys;

    #[test]
    fn the_table_leads_to_our_keys() {
        for (key, meaning) in FOREIGN {
            assert!(!keys::SERVER.known.contains(key), "{key} is one of ours");
            assert_eq!(FOREIGN.iter().filter(|(other, _)| other == key).count(), 1, "{key} stands twice");
            if let Meaning::Key(ours) | Meaning::Timeout(ours, _) = meaning {
                assert!(keys::SERVER.known.contains(ours), "{key}: {ours} is none of ours");
            }
        }
    }

    #[test]
    fn numbers_become_durations() {
        let check = |number: &str, unit: Unit, expected: Option<&str>| {
            let node = super::super::node(&serde_json::from_str(number).unwrap());
            assert_eq!(duration(&node, unit).as_deref(), expected, "{number}");
        };
        check("600000", Unit::ByItsSize, Some("600s"));
        check("1000", Unit::ByItsSize, Some("1s"));
        check("999", Unit::ByItsSize, Some("999s"));
        check("60", Unit::ByItsSize, Some("60s"));
        check("1.5", Unit::Seconds, Some("1500ms"));
        check("250", Unit::Milliseconds, Some("250ms"));
        check("\"2m\"", Unit::ByItsSize, Some("2m"));
        check("\"45.5\"", Unit::Seconds, Some("45500ms"));
        check("0", Unit::ByItsSize, None);
        check("-1", Unit::ByItsSize, None);
        check("1e300", Unit::ByItsSize, None);
        check("86400001", Unit::ByItsSize, None);
        check("true", Unit::ByItsSize, None);
        check("\"soon\"", Unit::ByItsSize, None);
    }
}
