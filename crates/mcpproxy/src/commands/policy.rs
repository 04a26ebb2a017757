//! `policy`: the operator's policies, what would become of a call and why, and the table of all decisions.

mod check;
mod explain;
mod test;

use std::path::PathBuf;

use clap::Subcommand;
use mcpproxy_core::decision::{rows, sections, table};
use serde_json::{Map, Value, json};

use crate::exit::Exit;
use crate::home::Home;
use crate::terminal::output::{Format, print};

/// Check and test policies, and see what would become of a call
#[derive(Debug, Subcommand)]
#[command(after_help = "\
Examples:
  mcpproxy policy explain github:delete_repo --variant read
  mcpproxy policy check
  mcpproxy policy test cases.yaml
  mcpproxy policy table")]
pub(crate) enum PolicyCommand {
    /// Read policies as the gateway would, and tell everything that is wrong with them
    #[command(after_help = "\
Examples:
  mcpproxy policy check                     Check policies/ in the data folder
  mcpproxy policy check night.cedar         Check a file, for example before a commit

A policy forbids calls that everything else allows. The gateway takes new files over while it runs;
if one is wrong, none counts and the policies before stay in force. Ends with 6 if something is wrong.

  @id(\"no-night-mail\")
  @message(\"No mail at night\")
  forbid (principal, action, resource in Server::\"mail\")
  when { context.time.hour < 7 };")]
    Check {
        /// [default: all of policies/ in the data folder]
        #[arg(value_name = "FILE")]
        files: Vec<PathBuf>,
    },
    /// Say what would happen to a call, check by check and policy by policy; nothing is sent
    #[command(after_help = "\
Examples:
  mcpproxy policy explain github:delete_repo --variant read
  mcpproxy policy explain github:create_issue --variant write --agent cursor \\
      --args '{\"title\": \"Bug\"}'

Ends with 0 if the call would be allowed and with 3 if it would be refused.")]
    Explain(explain::Explain),
    /// Run cases against the policies: calls, and whether they are to be refused
    #[command(after_help = "\
Examples:
  mcpproxy policy test cases.yaml
  mcpproxy policy test cases.yaml --rules policies/night.cedar -o json

A file of cases is YAML or JSON:
  - name: no mail at night
    agent: laptop
    tool: { name: mail:send, risk: high, category: communication }
    variant: write
    time: 03:00 sunday
    expect: deny
    rule: no-night-mail
  - name: mail at noon
    tool: mail:send
    expect: allow

Ends with 0 if all is as expected, with 1 if not, and with 6 if a file cannot be read.")]
    Test(test::Test),
    /// Print the Cedar schema: everything a policy may speak about
    #[command(after_help = "\
Examples:
  mcpproxy policy schema
  mcpproxy policy schema > policy.cedarschema    For an editor that knows Cedar")]
    Schema,
    /// Print every decision on variant, intent, annotations, contract and settings
    #[command(after_help = "\
Examples:
  mcpproxy policy table | grep '^read .* deny'
  mcpproxy policy table -o json")]
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
        PolicyCommand::Table => {
            format.print(&table_json(), table)?;
            Ok(Exit::Done)
        }
    }
}

/// The decisions on intent and annotations, and those of each other section under its name.
fn table_json() -> Value {
    let decisions = rows().into_iter().map(|row| {
        json!({
            "variant": row.variant.operation(),
            "declared": row.declared,
            "readOnlyHint": row.read_only,
            "destructiveHint": row.destructive,
            "strict_server_validation": row.settings.strict_server_validation,
            "two_key": row.settings.two_key.as_str(),
            "unannotated": row.settings.unannotated.as_str(),
            "outcome": row.outcome,
        })
    });
    let mut all = Map::from_iter([("decisions".to_owned(), decisions.collect())]);
    for section in sections().into_iter().skip(1) {
        let cells = |row: Vec<String>| -> Value {
            let named = section.columns.iter().zip(row);
            named.map(|(name, cell)| ((*name).to_owned(), Value::from(cell))).collect::<Map<_, _>>().into()
        };
        all.insert(section.name.to_owned(), section.rows.into_iter().map(cells).collect());
    }
    all.into()
}
