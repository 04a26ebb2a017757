//! `servers`: shows servers and edits them in the settings.

use std::collections::BTreeSet;
use std::path::Path;

use clap::{ArgGroup, Args, Subcommand};
use http::Method;
use mcpproxy_core::settings::{server_keys, suggest_server_name};
use mcpproxy_core::{ServerName, nearest};
use serde_json::{Value, json};

use crate::client::{Rest, state};
use crate::commands::names;
use crate::exit::{Exit, Failure};
use crate::home::Home;
use crate::home::secret::{Readers, replace_file};
use crate::operator_files::edit::{self, Change, EditError};
use crate::operator_files::settings_file;
use crate::terminal::listing::Cell;
use crate::terminal::output::{self, Format, line, member, print};
use crate::terminal::shell::plain_word;
use crate::terminal::size;
use crate::terminal::style::of_state;
use crate::terminal::wrap::hanging;

/// Show, add, remove and restart servers
#[derive(Debug, Subcommand)]
#[command(after_help = "\
Examples:
  mcpproxy servers list
  mcpproxy servers add time -- uvx mcp-server-time
  mcpproxy servers logs time")]
pub(crate) enum ServersCommand {
    /// List servers with their state and last error
    #[command(after_help = "\
Examples:
  mcpproxy servers list
  mcpproxy servers list -o json")]
    List,
    /// Print the last lines that a server wrote to standard error
    #[command(after_help = "\
Examples:
  mcpproxy servers logs github
  mcpproxy servers logs github --lines 500")]
    Logs {
        /// Name of the server
        #[arg(value_parser = names::parse_server, add = names::servers())]
        name: ServerName,
        /// Maximum number of lines
        #[arg(long, value_name = "N", default_value_t = 100)]
        lines: u32,
    },
    /// Restart a server
    #[command(after_help = "\
Examples:
  mcpproxy servers restart github")]
    Restart {
        /// Name of the server
        #[arg(value_parser = names::parse_server, add = names::servers())]
        name: ServerName,
    },
    /// Add a server to the settings, keeping comments and order
    #[command(after_help = "\
Examples:
  mcpproxy servers add time -- uvx mcp-server-time
  mcpproxy servers add git --env 'TOKEN=${env:TOKEN}' -- uvx mcp-server-git
  mcpproxy servers add docs --url https://docs.example.com/mcp \\
      --header 'Authorization=Bearer ${env:DOCS_TOKEN}'")]
    Add(Add),
    /// Remove a server from the settings
    #[command(after_help = "\
Examples:
  mcpproxy servers remove docs")]
    Remove {
        /// Name of the server
        #[arg(value_parser = names::parse_server, add = names::servers())]
        name: ServerName,
    },
    /// Enable a disabled server
    #[command(after_help = "\
Examples:
  mcpproxy servers enable docs")]
    Enable {
        /// Name of the server
        #[arg(value_parser = names::parse_server, add = names::servers())]
        name: ServerName,
    },
    /// Disable a server, but keep it in the settings
    #[command(after_help = "\
Examples:
  mcpproxy servers disable docs")]
    Disable {
        /// Name of the server
        #[arg(value_parser = names::parse_server, add = names::servers())]
        name: ServerName,
    },
}

#[derive(Debug, Args)]
#[command(
    group = ArgGroup::new("way").required(true).args(["url", "command"]),
    override_usage = "mcpproxy servers add [OPTIONS] <NAME> -- <COMMAND>...\n       \
                      mcpproxy servers add [OPTIONS] <NAME> --url <URL>"
)]
pub(crate) struct Add {
    /// Name of the server: lower-case letters, digits, `-` and `_`
    #[arg(value_parser = parse_new_name)]
    name: ServerName,
    /// URL of the server, for a server over HTTP
    #[arg(long, value_name = "URL", conflicts_with = "command")]
    url: Option<String>,
    /// HTTP header to send; repeatable
    #[arg(long = "header", value_name = "NAME=VALUE", value_parser = parse_header, requires = "url")]
    headers: Vec<(String, String)>,
    /// Environment variable for the process; repeatable
    #[arg(long, value_name = "NAME=VALUE", value_parser = parse_pair, conflicts_with = "url")]
    env: Vec<(String, String)>,
    /// Command that starts the server, after `--`
    #[arg(last = true, value_name = "COMMAND")]
    command: Vec<String>,
}

pub(crate) async fn run(home: &Home, format: Format, command: ServersCommand) -> anyhow::Result<Exit> {
    match command {
        ServersCommand::List => list(home, format).await?,
        ServersCommand::Logs { name, lines } => logs(home, format, &name, lines).await?,
        ServersCommand::Restart { name } => {
            let path = format!("/api/v1/servers/{name}/restart");
            let answer = Rest::connect(home)?.ask(Method::POST, &path).await?;
            format.print(&answer, || format!("{name} is {}\n", state::state_word(&member(&answer, "state"))))?;
        }
        ServersCommand::Add(add) => change(home, &add.name.clone(), Change::Add(definition(add))).await?,
        ServersCommand::Remove { name } => change(home, &name, Change::Remove).await?,
        ServersCommand::Enable { name } => change(home, &name, Change::Enable).await?,
        ServersCommand::Disable { name } => change(home, &name, Change::Disable).await?,
    }
    Ok(Exit::Done)
}

async fn list(home: &Home, format: Format) -> anyhow::Result<()> {
    let rest = Rest::connect(home)?;
    let answer = rest.ask(Method::GET, "/api/v1/servers").await?;
    format.print(&answer, || {
        let servers = answer.get("servers").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
        if servers.is_empty() {
            return "No servers. Add one with `mcpproxy servers add NAME -- COMMAND`.\n".to_owned();
        }
        let rows = servers.iter().map(|server| {
            let cells = ["name", "transport", "state", "tools", "protocol", "restarts", "reason"];
            let cell = |name: &str| match name {
                "state" => {
                    let state = member(server, name);
                    Cell::new(state::state_word(&state), of_state(&state))
                }
                _ => member(server, name).into(),
            };
            cells.into_iter().map(cell).collect()
        });
        output::table(&["NAME", "TRANSPORT", "STATE", "TOOLS", "PROTOCOL", "RESTARTS", "REASON"], rows)
            + &notes(servers)
            + &hints(servers)
    })?;
    state::warn(home, &rest).await;
    Ok(())
}

/// Lists the titles of servers, and each server that has unusable or unchecked tools with the first reason.
fn notes(servers: &[Value]) -> String {
    let title = |server: &Value| Some((member(server, "name"), line(server.get("title")?.as_str()?)));
    let titles = servers.iter().filter_map(title).filter(|(name, title)| name != title);
    let titles: String = titles.map(|(name, title)| format!("  {name}: {title}\n")).collect();
    let mut text = if titles.is_empty() { String::new() } else { format!("\nTitles:\n{titles}") };
    for server in servers {
        text.push_str(&note(server, "hidden_tools", "is not offered"));
        text.push_str(&note(server, "unchecked_tools", "is offered, but not checked with its schema"));
    }
    text
}

/// Describes the first tool of a server in a list of tools with a reason, and counts the others.
fn note(server: &Value, list: &str, what: &str) -> String {
    let tools = server.get(list).and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    let Some(first) = tools.first() else { return String::new() };
    let more = if tools.len() > 1 { format!(", and {} more (see -o json)", tools.len() - 1) } else { String::new() };
    let (name, reason) = (member(first, "name"), member(first, "reason"));
    format!("\n{}: tool {name} {what}: {reason}{more}\n", member(server, "name"))
}

/// Lists what may help servers that are not ready.
fn hints(servers: &[Value]) -> String {
    let with_hint = servers.iter().filter(|server| server.get("hint").is_some_and(Value::is_string));
    let shown = with_hint.map(|server| format!("{}: {}", member(server, "name"), member(server, "hint")));
    shown.map(|hint| format!("\n{}\n", hanging(&hint, size::prose_columns(), 2))).collect()
}

async fn logs(home: &Home, format: Format, name: &ServerName, lines: u32) -> anyhow::Result<()> {
    let path = format!("/api/v1/servers/{name}/logs?lines={lines}");
    let answer = Rest::connect(home)?.ask(Method::GET, &path).await?;
    format.print(&answer, || {
        let lines = answer.get("lines").and_then(Value::as_array).into_iter().flatten();
        lines.filter_map(Value::as_str).map(|text| line(text) + "\n").collect()
    })
}

/// Edits the settings file. A running gateway reloads it.
async fn change(home: &Home, name: &ServerName, change: Change) -> anyhow::Result<()> {
    home.create()?;
    let path = home.settings();
    let done = Done::of(&change);
    let unused = write_change(home, name, change)?;
    print(&format!("{}\n", done.sentence(name, &path)))?;
    tell_unused(home, &unused);
    if home.running()?.is_none() {
        let serve = home.command("mcpproxy", "serve");
        output::tell(&match done {
            Done::Added | Done::Enabled => format!("No gateway is running. Start it with `{serve}` to use {name}."),
            Done::Removed | Done::Disabled => "No gateway is running, so nothing else changes.".to_owned(),
        });
        return Ok(());
    }
    let answer = Rest::connect(home)?.reload().await?;
    output::tell(&state::describe(home, &answer, name.as_str()));
    Ok(())
}

/// Reads, edits and writes the settings file. Returns the files with secrets that nothing refers to any more.
fn write_change(home: &Home, name: &ServerName, change: Change) -> anyhow::Result<BTreeSet<String>> {
    let _lock = home.lock_settings()?;
    let path = home.settings();
    let text = settings_file::read_text(&path)?.map(|(_, text)| text);
    if let Some(text) = &text {
        // Check the file first. Otherwise this change would be blamed for earlier errors.
        settings_file::check_shape(&path, text)?;
    }
    let done = Done::of(&change);
    let edited = edit::apply(text.as_deref(), name, change).map_err(|error| edit_failure(&error, text.as_deref()))?;
    let unchanged = |failure: Failure| failure.hint("the settings file was not changed");
    let settings = settings_file::check_shape(&path, &edited).map_err(unchanged)?;
    // A mistake in another server is none of this change.
    let own = settings.misconfigured().find(|(server, _)| server.name == *name);
    match (own, done) {
        (None, _) | (Some(_), Done::Disabled | Done::Removed) => {}
        // The mistake is in the arguments, and no line of the file has it.
        (Some((_, mistakes)), Done::Added) => {
            let messages: Vec<&str> = mistakes.iter().map(|mistake| mistake.message.as_str()).collect();
            let message = format!("Server `{name}` cannot be added: {}", messages.join("; "));
            return Err(unchanged(Failure::new(Exit::Usage, message)).into());
        }
        (Some((_, mistakes)), Done::Enabled) => return Err(unchanged(settings_file::bad(&path, mistakes)).into()),
    }
    // The gateway refuses secrets in a file that other users can read.
    let readers = if settings.inline_secrets().is_empty() { Readers::AsBefore } else { Readers::OnlyUs };
    replace_file(&path, &edited, readers)?;
    Ok(edit::unused_secrets(text.as_deref().unwrap_or_default(), &edited))
}

/// Names the server that was probably meant, if the settings have none with this name.
fn edit_failure(error: &EditError, text: Option<&str>) -> Failure {
    let failure = Failure::new(Exit::Failed, error.to_string());
    let EditError::Missing(name) = error else { return failure };
    let keys = server_keys(text.unwrap_or_default());
    match nearest(name.as_str(), keys.iter().map(|key| key.name.as_str())) {
        Some(near) => failure.hint(format!("did you mean `{near}`?")),
        None => failure.hint("list all servers with `mcpproxy servers list`"),
    }
}

/// Names secrets that a removed server leaves behind. They may be the only copy, so they are not deleted.
fn tell_unused(home: &Home, unused: &BTreeSet<String>) {
    let paths = unused.iter().map(|name| home.folder().join(name)).filter(|path| path.is_file());
    let words: Vec<String> = paths.map(|path| plain_word(&path.display().to_string())).collect();
    if !words.is_empty() {
        let secrets = if words.len() == 1 { "Its secret stays" } else { "Its secrets stay" };
        output::tell(&format!("{secrets} in the data folder. To delete: rm {}", words.join(" ")));
    }
}

/// A change that was made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Done {
    Added,
    Removed,
    Enabled,
    Disabled,
}

impl Done {
    fn of(change: &Change) -> Self {
        match change {
            Change::Add(_) => Self::Added,
            Change::Remove => Self::Removed,
            Change::Enable => Self::Enabled,
            Change::Disable => Self::Disabled,
        }
    }

    fn sentence(self, name: &ServerName, path: &Path) -> String {
        let path = path.display();
        match self {
            Self::Added => format!("added {name} to {path}"),
            Self::Removed => format!("removed {name} from {path}"),
            Self::Enabled => format!("enabled {name} in {path}"),
            Self::Disabled => format!("disabled {name} in {path}"),
        }
    }
}

fn definition(add: Add) -> Value {
    let object =
        |pairs: Vec<(String, String)>| Value::Object(pairs.into_iter().map(|(k, v)| (k, Value::from(v))).collect());
    let mut command = add.command.into_iter();
    let (mut server, pairs, key) = match add.url {
        Some(url) => (json!({ "url": url }), add.headers, "headers"),
        None => {
            let program = command.next().unwrap_or_default();
            let args: Vec<String> = command.collect();
            let server = if args.is_empty() {
                json!({ "command": program })
            } else {
                json!({ "command": program, "args": args })
            };
            (server, add.env, "env")
        }
    };
    if let (false, Some(members)) = (pairs.is_empty(), server.as_object_mut()) {
        members.insert(key.to_owned(), object(pairs));
    }
    server
}

/// Parses the name of a new server. Suggests one that fits.
fn parse_new_name(text: &str) -> Result<ServerName, String> {
    ServerName::parse(text).map_err(|_| {
        let suggested = suggest_server_name(text).map(|name| format!(", such as `{name}`")).unwrap_or_default();
        format!("a name has lower-case letters, digits, `-` and single `_`{suggested}")
    })
}

/// Parses `NAME=VALUE`, or `NAME: VALUE` as in curl. A header name contains neither `=` nor `:`.
fn parse_header(text: &str) -> Result<(String, String), String> {
    match text.find(['=', ':']).and_then(|at| Some((text.get(..at)?, text.get(at + 1..)?, text.as_bytes().get(at)?))) {
        Some((name, value, b':')) if !name.is_empty() => Ok((name.to_owned(), value.trim().to_owned())),
        _ => parse_pair(text),
    }
}

fn parse_pair(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((name, value)) if !name.is_empty() => Ok((name.to_owned(), value.to_owned())),
        _ => Err("expected NAME=VALUE".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn tools_with_a_mistake_are_noted() {
        let tool = |name: &str| json!({"name": name, "reason": "`inputSchema` is bad"});
        let servers = [
            json!({"name": "fine", "hidden_tools": [], "unchecked_tools": []}),
            json!({"name": "odd", "hidden_tools": [tool("a")], "unchecked_tools": [tool("b"), tool("c")]}),
        ];
        assert_eq!(
            notes(&servers),
            "\nodd: tool a is not offered: `inputSchema` is bad\n\n\
             odd: tool b is offered, but not checked with its schema: `inputSchema` is bad, and 1 more (see -o json)\n"
        );
    }

    #[test]
    fn headers_in_both_spellings() {
        let check = |given: &str, expected: Option<(&str, &str)>| {
            let parsed = parse_header(given).ok();
            assert_eq!(parsed.as_ref().map(|(name, value)| (name.as_str(), value.as_str())), expected, "{given}");
        };
        check("Authorization=Bearer a:b=c", Some(("Authorization", "Bearer a:b=c")));
        check("Authorization: Bearer a:b=c", Some(("Authorization", "Bearer a:b=c")));
        check("X-Empty:", Some(("X-Empty", "")));
        check("X=${env:TOKEN}", Some(("X", "${env:TOKEN}")));
        check(": x", None);
        check("nothing", None);
    }
}
