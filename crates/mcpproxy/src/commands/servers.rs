//! `servers`: shows servers, reviews what they say, and edits them in the settings.

mod edit;
mod history;
mod list;
mod login;
mod review;
mod welcome;

use clap::Subcommand;
use http::Method;
use mcpproxy_core::ServerName;
use serde_json::Value;

use self::edit::{Add, change, definition};
use self::history::HistoryArgs;
use self::login::{Login, Logout};
use self::review::ReviewArgs;
use crate::client::{Rest, state};
use crate::commands::names;
use crate::exit::Exit;
use crate::home::Home;
use crate::operator_files::edit::Change;
use crate::terminal::output::{Format, line, member};

/// Show, add, review, remove and restart servers, and sign in to them
#[derive(Debug, Subcommand)]
#[command(after_help = "\
Examples:
  mcpproxy servers list
  mcpproxy servers add time -- uvx mcp-server-time
  mcpproxy servers review time
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
    /// Read what a server wants to tell agents, and accept or reject it
    Review(ReviewArgs),
    /// Show the versions of a tool or another definition, and who accepted or rejected each
    History(HistoryArgs),
    /// Sign the gateway in to a server that asks for OAuth
    Login(Login),
    /// Remove the tokens of a server, and disconnect it
    Logout(Logout),
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

pub(crate) async fn run(home: &Home, format: Format, command: ServersCommand) -> anyhow::Result<Exit> {
    match command {
        ServersCommand::List => return list::run(home, format).await,
        ServersCommand::Logs { name, lines } => logs(home, format, &name, lines).await?,
        ServersCommand::Review(args) => return review::run(home, format, args).await,
        ServersCommand::History(args) => return history::run(home, format, &args).await,
        ServersCommand::Login(args) => return login::login(home, format, args).await,
        ServersCommand::Logout(args) => return login::logout(home, format, args).await,
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

async fn logs(home: &Home, format: Format, name: &ServerName, lines: u32) -> anyhow::Result<()> {
    let path = format!("/api/v1/servers/{name}/logs?lines={lines}");
    let answer = Rest::connect(home)?.ask(Method::GET, &path).await?;
    format.print(&answer, || {
        let lines = answer.get("lines").and_then(Value::as_array).into_iter().flatten();
        lines.filter_map(Value::as_str).map(|text| line(text) + "\n").collect()
    })
}
