//! `contract`: checks, shows and drafts contracts.

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

/// Check, show and draft contracts
#[derive(Debug, Subcommand)]
#[command(after_help = "\
Examples:
  mcpproxy contract coverage
  mcpproxy contract draft github --to github.yaml
  mcpproxy contract lint
  mcpproxy contract show github:delete_repo

A contract states the risk level of a tool, the requirements for a call and its errors. The gateway \
enforces it. Contracts are YAML or JSON files in contracts/ in the data folder. A running gateway \
reloads them.")]
pub(crate) enum ContractCommand {
    /// Check contracts for errors and questionable choices
    #[command(
        alias = "check",
        after_help = "\
Examples:
  mcpproxy contract lint                    Check contracts/ in the data folder
  mcpproxy contract lint mail.yaml          Check a file before you commit it
  mcpproxy contract lint --strict -o json   For CI: treat warnings as errors

Without FILE, the command compares the contracts with the tools that the running gateway knows. If no \
gateway runs, it checks only the files. The exit code is 0 without errors and 1 with errors."
    )]
    Lint {
        /// Contract files to check [default: all files of contracts/ in the data folder]
        #[arg(value_name = "FILE")]
        files: Vec<PathBuf>,
        /// Treat warnings as errors
        #[arg(long)]
        strict: bool,
    },
    /// Show the effective contract of a tool and the source of each field
    #[command(after_help = "\
Examples:
  mcpproxy contract show demo:delete_user
  mcpproxy contract show demo:delete_user -o yaml

Your own files take precedence. For every field that they do not set, the stricter of the server's \
contract, the server's annotations and the defaults of the risk level applies.")]
    Show {
        /// Name of the tool, as `server:tool`
        #[arg(value_parser = ToolName::parse, add = super::names::tools())]
        name: ToolName,
    },
    /// Draft a contract file for all tools of a server
    #[command(after_help = "\
Examples:
  mcpproxy contract draft github                    Print the draft
  mcpproxy contract draft github --to github.yaml   Write it to a new file

The draft is a guess from schemas, annotations and names. Review it before you move it to contracts/ \
in the data folder, because a running gateway enforces files there at once.")]
    Draft {
        /// Name of the server, as in the settings
        #[arg(value_parser = super::names::parse_server, add = super::names::servers())]
        server: ServerName,
        /// New file to write [default: standard output]
        #[arg(long, value_name = "FILE")]
        to: Option<PathBuf>,
    },
    /// List the risk level of each tool and its source
    #[command(after_help = "\
Examples:
  mcpproxy contract coverage
  mcpproxy contract coverage -o json")]
    Coverage,
    /// Print the JSON Schema of contract files
    #[command(after_help = "\
Examples:
  mcpproxy contract schema > contract.schema.json

Start a contract with `# yaml-language-server: $schema=./contract.schema.json`, and your editor \
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
