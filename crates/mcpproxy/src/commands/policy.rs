//! `policy`: checks and tests policies, explains decisions, replays recorded calls, and prints the decision table.

mod check;
mod explain;
mod replay;
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
  mcpproxy policy replay --since 7d --contracts new-contracts
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
    /// Test contracts and policies with example calls and expected decisions
    #[command(after_help = "\
Examples:
  mcpproxy policy test cases.yaml
  mcpproxy policy test cases.yaml --contracts new --policies night.cedar
  mcpproxy policy test --demo

The cases are a YAML or JSON file:
  - name: a user approves every mail
    tool: mail:send
    args: { to: [kim@example.com] }
    expect: ask
  - name: no mail at night
    tool: mail:send
    time: 03:00 sunday
    expect: deny policy_violation
    policy: no-night-mail

A case expects `allow`, `ask`, `step_up`, `dry_run_required`, `not_found`, `deny CODE`, or `deny` for \
any refusal. The tools are those that the servers listed last. A tool of another server has no schema and \
no annotations, apart from those in the case.

The exit code is 0 if all cases pass, 1 if a case fails, and 6 if a file is invalid.")]
    Test(test::Test),
    /// Try contracts, policies or settings on recorded calls
    #[command(after_help = "\
Examples:
  mcpproxy policy replay --since 7d --contracts new-contracts
  mcpproxy policy replay --since 24h --policies night.cedar -o json
  mcpproxy policy replay --contracts new-contracts --fail-on newly-refused
  mcpproxy policy replay --since 7d         Compare with the active files

The command decides every recorded call again, with the new files and with the active ones, and lists the \
calls that would end differently. It sends nothing and changes nothing. --contracts and --policies replace \
all active files of their kind. It works with and without a running gateway, on the tools that the servers \
listed last.

The exit code is 0, or 1 if there is a difference that --fail-on names. With --fail-on, it is also 1 if there \
are calls and none of them can be decided. It is 6 if a file is invalid.")]
    Replay(replay::Replay),
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
        PolicyCommand::Replay(replay) => replay::run(home, format, &replay).await,
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
