//! Names that exist now, for shell completion: servers, tools, agents and approval requests.
//!
//! Each function is the `add = …` of an argument. The shell runs `mcpproxy` with the variable `COMPLETE`, and clap asks
//! for the candidates of the argument under the cursor. Names of servers and tools come from the running gateway, and
//! names of agents from the database. Without either, there are no candidates and no message.

use std::ffi::{OsStr, OsString};
use std::path::PathBuf;

use clap_complete::engine::{
    ArgValueCandidates, ArgValueCompleter, CompletionCandidate, PathCompleter, ValueCompleter as _,
};
use http::Method;
use mcpproxy_core::settings::{ServerKey, server_keys};
use mcpproxy_core::{ServerName, nearest};
use mcpproxy_store::Store;
use serde_json::Value;

use crate::agent_clients::CLIENTS;
use crate::client::Rest;
use crate::client::quick::quickly;
use crate::database::location;
use crate::home::Home;
use crate::operator_files::settings_file;
use crate::terminal::output::{line, shorten};

/// Longest description next to a candidate.
const HELP_MAX_CHARS: usize = 60;

pub(crate) fn servers() -> ArgValueCandidates {
    ArgValueCandidates::new(|| {
        let running = from_gateway("/api/v1/servers", "servers", |server| {
            Some((text(server, "name")?.to_owned(), text(server, "state").unwrap_or_default().to_owned()))
        });
        candidates(running.or_else(configured).unwrap_or_default())
    })
}

/// Definitions that wait for review at the server that is typed.
pub(crate) fn waiting() -> ArgValueCandidates {
    ArgValueCandidates::new(|| {
        let Some(server) = reviewed_in(std::env::args_os()) else { return Vec::new() };
        let found = from_gateway(format!("/api/v1/servers/{server}/review"), "entries", |entry| {
            let (kind, name) = (text(entry, "kind")?, text(entry, "name")?);
            let full = if name.is_empty() { kind.to_owned() } else { format!("{kind}:{name}") };
            Some((full, text(entry, "reason").unwrap_or_default().to_owned()))
        });
        candidates(found.unwrap_or_default())
    })
}

/// Returns the server of a command line with `review NAME`.
fn reviewed_in(args: impl IntoIterator<Item = OsString>) -> Option<ServerName> {
    let mut args = args.into_iter().skip_while(|arg| arg != "review").skip(1);
    args.find_map(|arg| ServerName::parse(arg.to_str()?).ok())
}

/// Clients, and files below the folder that is typed.
pub(crate) fn clients_and_files() -> ArgValueCompleter {
    ArgValueCompleter::new(|typed: &OsStr| {
        let start = typed.to_string_lossy();
        let clients = CLIENTS.iter().filter(|client| client.id.starts_with(start.as_ref()));
        let found = clients.map(|client| (client.id.to_owned(), client.title.to_owned())).collect();
        candidates(found).into_iter().chain(PathCompleter::any().complete(typed)).collect()
    })
}

pub(crate) fn tools() -> ArgValueCandidates {
    tools_where(|_| true)
}

/// Tools that `call tool-read`, or the variant that is typed, can call.
pub(crate) fn callable_tools() -> ArgValueCandidates {
    tools_where(|call_with| variant_in(std::env::args_os()).is_none_or(|variant| call_with == variant))
}

/// Returns `call_tool_read` for a command line with `tool-read`.
fn variant_in(args: impl IntoIterator<Item = OsString>) -> Option<&'static str> {
    const VARIANTS: [(&str, &str); 3] = [
        ("tool-read", "call_tool_read"),
        ("tool-write", "call_tool_write"),
        ("tool-destructive", "call_tool_destructive"),
    ];
    args.into_iter().find_map(|arg| VARIANTS.iter().find(|(word, _)| arg == *word).map(|(_, variant)| *variant))
}

fn tools_where(fits: fn(&str) -> bool) -> ArgValueCandidates {
    ArgValueCandidates::new(move || {
        let tools = from_gateway("/api/v1/tools", "tools", |tool| {
            let call_with = text(tool, "call_with").filter(|call_with| fits(call_with))?.replace("call_tool_", "");
            let description = text(tool, "description").unwrap_or_default();
            let description = description.lines().next().unwrap_or_default();
            Some((text(tool, "name")?.to_owned(), format!("{call_with}: {description}")))
        });
        candidates(tools.unwrap_or_default())
    })
}

/// Approval requests that are pending or approved.
pub(crate) fn approvals() -> ArgValueCandidates {
    ArgValueCandidates::new(|| {
        let found = from_gateway("/api/v1/approvals?limit=50", "approvals", |approval| {
            let state = text(approval, "state").filter(|state| ["pending", "approved"].contains(state))?;
            let tool = text(approval, "tool").unwrap_or_default();
            Some((text(approval, "id")?.to_owned(), format!("{state}: {tool}")))
        });
        candidates(found.unwrap_or_default())
    })
}

pub(crate) fn standing_approvals() -> ArgValueCandidates {
    ArgValueCandidates::new(|| {
        let found = from_gateway("/api/v1/grants", "grants", |grant| {
            let (agent, tool) = (text(grant, "agent").unwrap_or_default(), text(grant, "tool").unwrap_or_default());
            Some((text(grant, "id")?.to_owned(), format!("{agent}: {tool}")))
        });
        candidates(found.unwrap_or_default())
    })
}

/// Agents with a valid token.
pub(crate) fn agents() -> ArgValueCandidates {
    ArgValueCandidates::new(|| {
        let tokens = home().and_then(|home| {
            quickly(move || async move {
                let store = Store::open_read_only(&location(&home)?).await?;
                Ok(store.list_tokens().await?)
            })
        });
        let valid = tokens.unwrap_or_default().into_iter().filter(|token| token.revoked_ms.is_none());
        candidates(valid.map(|token| (token.name, String::new())).collect())
    })
}

/// Completes names of users.
pub(crate) fn users() -> ArgValueCandidates {
    ArgValueCandidates::new(|| {
        let users = home().and_then(|home| {
            quickly(move || async move {
                let store = Store::open_read_only(&location(&home)?).await?;
                Ok(store.list_users().await?)
            })
        });
        candidates(users.unwrap_or_default().into_iter().map(|name| (name, String::new())).collect())
    })
}

/// Asks the running gateway for a list.
fn from_gateway(
    path: impl Into<String>,
    list: &'static str,
    of: impl Fn(&Value) -> Option<(String, String)>,
) -> Option<Vec<(String, String)>> {
    let (home, path) = (home()?, path.into());
    let answer = quickly(move || async move { Rest::connect(&home)?.ask(Method::GET, &path).await })?;
    Some(answer.get(list)?.as_array()?.iter().filter_map(of).collect())
}

/// Reads the names of servers from the settings, for a gateway that does not run.
fn configured() -> Option<Vec<(String, String)>> {
    let path = home()?.settings();
    let (_, text) = settings_file::read_text(&path).ok()??;
    let settings = settings_file::check_shape(&path, &text).ok()?;
    Some(settings.servers.iter().map(|server| (server.name.to_string(), String::new())).collect())
}

/// Parses the name of a server. A pasted server is also found under the name in the settings file, such as `My Files`
/// for `my-files`.
pub(crate) fn parse_server(text: &str) -> Result<ServerName, String> {
    if let Ok(name) = ServerName::parse(text) {
        return Ok(name);
    }
    let written = home().and_then(|home| settings_file::read_text(&home.settings()).ok()?);
    named(text, &written.map(|(_, text)| server_keys(&text)).unwrap_or_default())
}

/// Finds a server by the name that is written in the settings.
fn named(text: &str, keys: &[ServerKey]) -> Result<ServerName, String> {
    let mut found = keys.iter().filter(|key| key.key == text);
    match (found.next(), found.next()) {
        (Some(key), None) => return Ok(key.name.clone()),
        (Some(one), Some(other)) => {
            return Err(format!("two servers have this name; use {} or {}", one.name, other.name));
        }
        (None, _) => {}
    }
    let near = nearest(text, keys.iter().flat_map(|key| [key.key.as_str(), key.name.as_str()]));
    match near.and_then(|near| keys.iter().find(|key| key.key == near || key.name.as_str() == near)) {
        Some(key) => Err(format!("no server has this name; did you mean {}?", key.name)),
        None => Err("no server has this name; `mcpproxy servers list` shows the names".to_owned()),
    }
}

fn candidates(found: Vec<(String, String)>) -> Vec<CompletionCandidate> {
    let candidate = |(name, help): (String, String)| {
        let help = shorten(&line(&help), HELP_MAX_CHARS);
        CompletionCandidate::new(line(&name)).help((!help.is_empty()).then(|| help.into()))
    };
    found.into_iter().map(candidate).collect()
}

fn text<'v>(value: &'v Value, name: &str) -> Option<&'v str> {
    value.get(name).and_then(Value::as_str)
}

fn home() -> Option<Home> {
    Home::resolve(home_in(std::env::args_os())).ok()
}

/// Finds `--home` in a command line that is still being typed, or else in the environment.
pub(crate) fn home_in(args: impl IntoIterator<Item = OsString>) -> Option<PathBuf> {
    let in_environment = || std::env::var_os("MCPPROXY_HOME").filter(|path| !path.is_empty()).map(PathBuf::from);
    given_home(args).or_else(in_environment)
}

/// Finds `--home` in a command line.
pub(super) fn given_home(args: impl IntoIterator<Item = OsString>) -> Option<PathBuf> {
    let mut args = args.into_iter();
    while let Some(arg) = args.next() {
        if arg == "--home" {
            return args.next().map(PathBuf::from);
        }
        if let Some(path) = arg.to_str().and_then(|arg| arg.strip_prefix("--home=")) {
            return Some(PathBuf::from(path));
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_data_folder_of_an_unfinished_command() {
        let check = |args: &[&str], expected: &str| {
            let found = home_in(args.iter().map(OsString::from));
            assert_eq!(found, Some(PathBuf::from(expected)), "{args:?}");
        };
        check(&["mcpproxy", "--", "mcpproxy", "--home", "/data", "servers", "logs", ""], "/data");
        check(&["mcpproxy", "--", "mcpproxy", "servers", "--home=/data"], "/data");
    }

    #[test]
    fn the_variant_of_an_unfinished_call() {
        let check = |words: &str, expected: Option<&str>| {
            assert_eq!(variant_in(words.split(' ').map(OsString::from)), expected, "{words}");
        };
        check("mcpproxy -- mcpproxy --home /d call tool-read demo:", Some("call_tool_read"));
        check("mcpproxy -- mcpproxy call tool-destructive --reason x demo:", Some("call_tool_destructive"));
        check("mcpproxy -- mcpproxy tools show demo:", None);
    }

    #[test]
    fn the_server_of_an_unfinished_review() {
        let check = |words: &str, expected: Option<&str>| {
            let found = reviewed_in(words.split(' ').map(OsString::from));
            assert_eq!(found.as_ref().map(ServerName::as_str), expected, "{words}");
        };
        check("mcpproxy -- mcpproxy servers review fx --accept tool:", Some("fx"));
        check("mcpproxy -- mcpproxy servers logs fx", None);
    }

    #[test]
    fn a_pasted_server_has_two_names() {
        let keys = server_keys(r#"{"mcpServers": {"My Files": {}, "GitHub": {}, "time": {}}}"#);
        let check = |text: &str, expected: Result<&str, &str>| {
            let found = named(text, &keys);
            assert_eq!(found.as_ref().map(ServerName::as_str).map_err(String::as_str), expected, "{text}");
        };
        check("My Files", Ok("my-files"));
        check("GitHub", Ok("github"));
        check("My Fils", Err("no server has this name; did you mean my-files?"));
        check("Time", Err("no server has this name; did you mean time?"));
        check("Elsewhere!", Err("no server has this name; `mcpproxy servers list` shows the names"));
        let twice = server_keys(r#"{"mcpServers": {"My Files": {}}, "servers": {"My Files": {}}}"#);
        assert!(named("My Files", &twice).unwrap_err().starts_with("two servers have this name; use my-files"));
    }

    #[test]
    fn names_of_servers_are_escaped() {
        let made = candidates(vec![("a\u{1b}[2J".to_owned(), "x\ny".to_owned())]);
        let (name, help) = (made[0].get_value().to_string_lossy(), made[0].get_help().unwrap().to_string());
        assert_eq!((&*name, &*help), ("a\\u{1b}[2J", "x\\ny"));
    }
}
