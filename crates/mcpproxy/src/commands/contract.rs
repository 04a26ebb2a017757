//! `contract`: checks, prints and drafts the contracts of tools.

mod coverage;
mod draft;
mod lint;
mod report;
mod show;

use std::path::PathBuf;

use clap::Subcommand;
use mcpproxy_core::{ServerName, ToolName, contract};

use crate::exit::Exit;
use crate::home::Home;
use crate::terminal::output::{Format, print};

/// Check, show and draft the contracts of tools
#[derive(Debug, Subcommand)]
#[command(after_help = "\
Examples:
  mcpproxy contract coverage
  mcpproxy contract draft github --to github.yaml
  mcpproxy contract lint
  mcpproxy contract show github:delete_repo

A contract says how dangerous a tool is, what a call needs and how it fails; the gateway enforces
it. Contracts are YAML or JSON files in contracts/ in the data folder, and a running gateway takes
them over.")]
pub(crate) enum ContractCommand {
    /// Tell what is wrong or doubtful about contracts
    #[command(after_help = "\
Examples:
  mcpproxy contract lint                       All of contracts/, held against the servers' tools
  mcpproxy contract lint contracts/mail.yaml   These files alone, for example before a commit
  mcpproxy contract lint --strict -o json      For CI: warnings count too

Without FILE a running gateway is asked what its servers really offer; if none runs, the files are
looked at alone. Ends with 0 if there is no error, and with 1 if there is one.")]
    Lint {
        /// [default: all of contracts/ in the data folder]
        #[arg(value_name = "FILE")]
        files: Vec<PathBuf>,
        /// Count warnings as errors
        #[arg(long)]
        strict: bool,
    },
    /// Show the contract that counts for a tool, and who said what
    #[command(after_help = "\
Examples:
  mcpproxy contract show demo:delete_user
  mcpproxy contract show demo:delete_user -o yaml

Your own files are final; what they leave open is the stricter of the server's contract, the
server's annotations and what the risk level asks for.")]
    Show {
        /// `server:tool`
        #[arg(value_parser = ToolName::parse)]
        name: ToolName,
    },
    /// Make a first contract file for every tool of a server
    #[command(after_help = "\
Examples:
  mcpproxy contract draft github                       Print it
  mcpproxy contract draft github --to github.yaml      Write it into a new file

A draft is made from schemas, annotations and names: read it and correct it before you put it into
contracts/ in the data folder, where it counts at once.")]
    Draft {
        /// As in the settings
        #[arg(value_parser = ServerName::parse)]
        server: ServerName,
        /// A file that does not exist yet [default: standard output]
        #[arg(long, value_name = "FILE")]
        to: Option<PathBuf>,
    },
    /// List which tools have a risk level, and who gave it
    #[command(after_help = "\
Examples:
  mcpproxy contract coverage
  mcpproxy contract coverage -o json")]
    Coverage,
    /// Print the JSON Schema of contract files
    #[command(after_help = "\
Examples:
  mcpproxy contract schema > contract.schema.json
  Then begin a contract with # yaml-language-server: $schema=./contract.schema.json, and an editor
  completes and checks it.")]
    Schema,
}

pub(crate) async fn run(home: &Home, format: Format, command: ContractCommand) -> anyhow::Result<Exit> {
    match command {
        ContractCommand::Lint { files, strict } => return lint::run(home, format, &files, strict).await,
        ContractCommand::Show { name } => show::run(home, format, &name).await?,
        ContractCommand::Draft { server, to } => draft::run(home, format, &server, to.as_deref()).await?,
        ContractCommand::Coverage => coverage::run(home, format).await?,
        ContractCommand::Schema => match format {
            Format::Table | Format::Json => print(&serde_json::to_string_pretty(&contract::schema())?)?,
            Format::Yaml => format.print(&contract::schema(), String::new)?,
        },
    }
    Ok(Exit::Done)
}
