//! Writes a lock file.

use std::fmt::Write as _;

use super::{Lock, LockedServer, VERSION};
use crate::json::{member, pretty, quote, string_value};
use crate::settings::WrittenTransport;
use crate::trust::{Definition, DefinitionKind, FORMULA};
use crate::untrusted::is_hidden;

pub(super) fn write(lock: &Lock) -> String {
    let servers: Vec<String> = lock.servers.iter().map(server).collect();
    let file = format!(r#"{{"version":{VERSION},"servers":[{}]}}"#, servers.join(","));
    let mut text = escaped(&pretty(&file));
    text.push('\n');
    text
}

fn server(server: &LockedServer) -> String {
    let LockedServer { name, transport, identity, definitions, pins: _ } = server;
    let WrittenTransport { kind, command, args, cwd, url } = transport;
    let mut members = vec![("name", quote(name.as_str())), ("transport", quote(kind))];
    members.extend(command.as_ref().map(|command| ("command", quote(command))));
    if !args.is_empty() {
        members.push(("args", texts(args.iter().map(String::as_str))));
    }
    members.extend(cwd.as_ref().map(|cwd| ("cwd", quote(cwd))));
    members.extend(url.as_ref().map(|url| ("url", quote(url))));
    members.push(("identity", quote(identity)));
    let definitions: Vec<String> = definitions.iter().map(|one| definition(server, one)).collect();
    members.push(("definitions", format!("[{}]", definitions.join(","))));
    object(&members)
}

fn definition(server: &LockedServer, definition: &Definition) -> String {
    let key = &definition.key;
    let pin = server.pin(key).unwrap_or_else(|| definition.pin());
    let mut members = vec![("kind", quote(key.kind.as_str()))];
    if key.kind != DefinitionKind::Instructions {
        members.push(("name", quote(&key.name)));
    }
    members.push(("formula", FORMULA.to_string()));
    members.push(("pin", quote(&pin.to_string())));
    members.extend(text_of(definition).map(|text| ("text", texts(text.split('\n')))));
    members.push(("definition", definition.json.to_string()));
    object(&members)
}

/// Returns the text that models read first: the description, or the instructions themselves.
pub(super) fn text_of(definition: &Definition) -> Option<String> {
    let json = match definition.key.kind {
        DefinitionKind::Instructions => Some(&*definition.json),
        DefinitionKind::Tool | DefinitionKind::Prompt | DefinitionKind::Template => {
            member(&definition.json, "description")
        }
    };
    json.and_then(string_value).map(std::borrow::Cow::into_owned)
}

fn texts<'a>(lines: impl Iterator<Item = &'a str>) -> String {
    format!("[{}]", lines.map(quote).collect::<Vec<_>>().join(","))
}

fn object(members: &[(&str, String)]) -> String {
    let members: Vec<String> = members.iter().map(|(key, value)| format!("{}:{value}", quote(key))).collect();
    format!("{{{}}}", members.join(","))
}

/// Escapes characters that a reader of a diff would not see. Between values there are only spaces and line breaks, so
/// all others stand in strings.
fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut units = [0; 2];
    for c in text.chars() {
        if !is_hidden(c) || c == '\n' {
            out.push(c);
            continue;
        }
        for unit in c.encode_utf16(&mut units) {
            let _infallible = write!(out, "\\u{unit:04x}");
        }
    }
    out
}
