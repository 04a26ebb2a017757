//! `contract`: checks, shows and drafts contracts.

mod coverage;
mod diff;
mod docs;
mod draft;
mod failures;
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
  mcpproxy contract diff live github.yaml
  mcpproxy contract lint
  mcpproxy contract show github:delete_repo
  mcpproxy contract failures --since 7d

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
    /// List the risk level and the number of contract fields of each tool
    #[command(after_help = "\
Examples:
  mcpproxy contract coverage
  mcpproxy contract coverage --min 80       For CI: fail below 80 %
  mcpproxy contract coverage -o json        Also lists the missing fields

A complete contract has 13 fields: name, description, category, risk level, autonomous execution, \
confirmation, step-up authentication, input and output schema, permissions, side effects, audit event \
and failure modes. With --min, the exit code is 1 if fewer fields are set, over all tools. It is also 1 \
if there are no tools, or if an enabled server is not connected.")]
    Coverage {
        /// Smallest share of fields that must be set, in percent
        #[arg(long, value_name = "PERCENT", value_parser = clap::value_parser!(u8).range(0..=100))]
        min: Option<u8>,
    },
    /// Compare two sets of contracts
    #[command(after_help = "\
Examples:
  mcpproxy contract diff live new-contracts/       What a folder would change
  mcpproxy contract diff old/mail.yaml mail.yaml   Compare two files
  mcpproxy contract diff old/ new/ -o json

Each side is a file, a folder with contract files, or `live`: the contracts that the running gateway \
enforces. The command compares your files, not the contracts of the servers.")]
    Diff {
        /// A file, a folder or `live`
        #[arg(value_name = "A")]
        before: PathBuf,
        /// A file, a folder or `live`
        #[arg(value_name = "B")]
        after: PathBuf,
    },
    /// Write contract cards for all tools as Markdown
    #[command(after_help = "\
Examples:
  mcpproxy contract docs                    Print all pages
  mcpproxy contract docs --to docs/tools    Write the pages to files

With --to, the command writes one file for each server, and README.md with all tools by risk level, \
forbidden tools included. Files that this command wrote \
before are replaced. It refuses to replace other files.")]
    Docs {
        /// Folder to write to [default: standard output]
        #[arg(long, value_name = "DIR")]
        to: Option<PathBuf>,
    },
    /// Compare declared failure modes with recorded failures
    #[command(after_help = "\
Examples:
  mcpproxy contract failures
  mcpproxy contract failures --since 7d -o json

For each tool, the command lists declared failure modes that never occurred, and failures of the server \
that its contract does not declare. Errors of the gateway itself, such as a timeout, are not listed. It \
works with and without a running gateway.")]
    Failures(failures::Failures),
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
        ContractCommand::Diff { before, after } => diff::run(home, format, &before, &after).await?,
        ContractCommand::Docs { to } => docs::run(home, format, to.as_deref()).await?,
        ContractCommand::Failures(failures) => failures::run(home, format, &failures).await?,
        ContractCommand::Coverage { min } => return coverage::run(home, format, min).await,
        ContractCommand::Schema => match format {
            Format::Table | Format::Json => print(&serde_json::to_string_pretty(&contract::schema())?)?,
            Format::Yaml => format.print(&contract::schema(), String::new)?,
        },
    }
    Ok(Exit::Done)
}
