//! `policy`: checks and tests policies, explains decisions, and prints the decision table.

mod check;
mod explain;
mod table;
mod test;

use std::path::PathBuf;

use clap::Subcommand;
use serde_json::json;

use crate::exit::Exit;
use crate::home::Home;
use crate::terminal::output::{Format, print};

/// Check and test policies, and explain decisions
#[derive(Debug, Subcommand)]
#[command(after_help = "\
Examples:
  mcpproxy policy explain github:delete_repo --variant read
  mcpproxy policy check
  mcpproxy policy test cases.yaml
  mcpproxy policy table")]
pub(crate) enum PolicyCommand {
    /// Check policies and report every error
    #[command(after_help = "\
Examples:
  mcpproxy policy check               Check policies/ in the data folder
  mcpproxy policy check night.cedar   Check a file before you commit it

A policy forbids calls that everything else allows. A running gateway reloads policies. If a file has \
an error, the previous policies remain active. The exit code is 6 if there are errors.

  @id(\"no-night-mail\")
  @message(\"No mail at night\")
  forbid (principal, action, resource in Server::\"mail\")
  when { context.time.hour < 7 };")]
    Check {
        /// Policy files to check [default: all files of policies/ in the data folder]
        #[arg(value_name = "FILE")]
        files: Vec<PathBuf>,
    },
    /// Explain the decision on a call, without sending it
    #[command(after_help = "\
Examples:
  mcpproxy policy explain github:delete_repo --variant read
  mcpproxy policy explain github:create_issue --variant write \\
      --agent cursor --args '{\"title\": \"Bug\"}'

The exit code is 0 if the gateway would allow the call, and 3 if it would refuse it.")]
    Explain(explain::Explain),
    /// Test policies with a file of example calls and expected decisions
    #[command(after_help = "\
Examples:
  mcpproxy policy test cases.yaml
  mcpproxy policy test cases.yaml --policies policies/night.cedar -o json

The cases are a YAML or JSON file:
  - name: no mail at night
    agent: laptop
    tool: { name: mail:send, risk: high, category: communication }
    variant: write
    time: 03:00 sunday
    expect: deny
    policy: no-night-mail
  - name: mail at noon
    tool: mail:send
    expect: allow

The exit code is 0 if all cases pass, 1 if a case fails, and 6 if a file is invalid.")]
    Test(test::Test),
    /// Print the Cedar schema of policies
    #[command(after_help = "\
Examples:
  mcpproxy policy schema
  mcpproxy policy schema > policy.cedarschema   For an editor with Cedar support")]
    Schema,
    /// Print the decision table: every combination and its outcome
    #[command(after_help = "\
Examples:
  mcpproxy policy table | grep ' ask '    Calls that need an approval
  mcpproxy policy table -o json

Combinations with the same outcome share a row. A cell is a value, alternatives such as `read|write`, or `any`. Exactly one row of a section matches each combination. In JSON, alternatives are a list.")]
    Table,
}

pub(crate) async fn run(home: &Home, format: Format, command: PolicyCommand) -> anyhow::Result<Exit> {
    match command {
        PolicyCommand::Check { files } => check::run(home, format, &files),
        PolicyCommand::Explain(asked) => explain::run(home, format, asked).await,
        PolicyCommand::Test(test) => test::run(home, format, &test),
        PolicyCommand::Schema => {
            match format {
                Format::Table => print(mcpproxy_core::policy::SCHEMA)?,
                Format::Json | Format::Yaml => {
                    format.print(&json!({ "schema": mcpproxy_core::policy::SCHEMA }), String::new)?
                }
            }
            Ok(Exit::Done)
        }
        PolicyCommand::Table => table::run(format),
    }
}
