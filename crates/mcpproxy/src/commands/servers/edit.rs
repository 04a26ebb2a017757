//! `servers add`, `remove`, `enable` and `disable`: edits servers in the settings.

use std::collections::BTreeSet;
use std::path::Path;

use clap::{ArgGroup, Args};
use mcpproxy_core::ServerName;
use mcpproxy_core::settings::suggest_server_name;
use serde_json::{Value, json};

use super::welcome::{self, FirstSight};
use crate::client::{Rest, state};
use crate::home::Home;
use crate::operator_files::change;
use crate::operator_files::edit::Change;
use crate::terminal::output::{self, print};
use crate::terminal::shell::plain_word;

#[derive(Debug, Args)]
#[command(
    group = ArgGroup::new("way").required(true).args(["url", "command"]),
    override_usage = "mcpproxy servers add [OPTIONS] <NAME> -- <COMMAND>...\n       \
                      mcpproxy servers add [OPTIONS] <NAME> --url <URL>"
)]
pub(crate) struct Add {
    /// Name of the server: lower-case letters, digits, `-` and `_`
    #[arg(value_parser = parse_new_name)]
    pub(super) name: ServerName,
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

/// Edits the settings file. A running gateway reloads it.
pub(super) async fn change(home: &Home, name: &ServerName, mut change: Change) -> anyhow::Result<()> {
    home.create()?;
    let path = home.settings();
    let done = Done::of(&change);
    let mut welcome = FirstSight::Accepted;
    if let Change::Add(server) = &mut change {
        // Mistakes come before questions.
        let edited = change::edit(home, name, Change::Add(server.clone()))?;
        welcome = welcome::first_sight(home, name, &edited.settings).await?;
        welcome.write_into(server);
    }
    let written = change::write_change(home, name, change)?;
    print(&format!("{}\n", done.sentence(name, &path)))?;
    tell_unused(home, &written.unused_secrets());
    let review = welcome.sentence(&home.command("mcpproxy", &format!("servers review {name}")));
    if home.running()?.is_none() {
        let serve = home.command("mcpproxy", "serve");
        output::tell(&match done {
            Done::Added | Done::Enabled => format!("No gateway is running. Start it with `{serve}` to use {name}."),
            Done::Removed | Done::Disabled => "No gateway is running, so nothing else changes.".to_owned(),
        });
        review.iter().for_each(|text| output::tell(text));
        return Ok(());
    }
    let answer = Rest::connect(home)?.reload().await?;
    output::tell(&state::describe(home, &answer, name.as_str()));
    // A server that is ready says by itself how much waits.
    if !state::is_ready(&answer, name.as_str()) {
        review.iter().for_each(|text| output::tell(text));
    }
    Ok(())
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

pub(super) fn definition(add: Add) -> Value {
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
    use super::*;

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
