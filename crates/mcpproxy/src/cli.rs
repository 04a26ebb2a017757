//! The shape of the command line.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};

use crate::commands::activity::ActivityCommand;
use crate::commands::approvals::ApprovalsCommand;
use crate::commands::call::CallCommand;
use crate::commands::completions::Completions;
use crate::commands::config::ConfigCommand;
use crate::commands::contract::ContractCommand;
use crate::commands::policy::PolicyCommand;
use crate::commands::serve::Serve;
use crate::commands::servers::ServersCommand;
use crate::commands::token::TokenCommand;
use crate::commands::tools::ToolsCommand;
use crate::output::Format;

const EXAMPLES: &str = "\
Examples:
  mcpproxy                                 Start the gateway; with no settings, with a demo server
  mcpproxy servers add time -- uvx mcp-server-time
  mcpproxy tools search \"current time\"
  mcpproxy call tool-read time:get_current_time --args '{\"timezone\": \"Europe/Paris\"}'
  mcpproxy activity list

Exit codes:
  0 done, 1 failed, 2 usage, 3 refused, 4 waiting for a user, 5 server failed, 6 bad settings,
  7 no gateway running";

const CALL: &str = "\
Examples:
  mcpproxy call tool-read github:list_repos --args '{\"org\": \"myorg\"}'
  mcpproxy call tool-write github:create_issue --args @issue.json --reason \"Reported by a user\"

The variant says what you mean to do; the gateway refuses a call that understates it.";

const TOOLS: &str = "\
Examples:
  mcpproxy tools search \"create an issue\"
  mcpproxy tools show github:create_issue";

const SERVERS: &str = "\
Examples:
  mcpproxy servers list
  mcpproxy servers add time -- uvx mcp-server-time
  mcpproxy servers logs time";

const TOKEN: &str = "\
Examples:
  mcpproxy token create cursor
  mcpproxy token list
  mcpproxy token revoke cursor";

const ACTIVITY: &str = "\
Examples:
  mcpproxy activity list --intent-type destructive
  mcpproxy activity show 01JG2ABCDEF
  mcpproxy activity watch
  mcpproxy activity summary --since 7d
  mcpproxy activity export --signed --out proof.jsonl 01JG2ABCDEF
  mcpproxy activity verify proof.jsonl";

const APPROVALS: &str = "\
Examples:
  mcpproxy approvals list
  mcpproxy approvals show 01JG2ABCDEF
  mcpproxy approvals approve 01JG2ABCDEF
  mcpproxy approvals deny 01JG2ABCDEF --comment \"Ask Anna first\"
  mcpproxy approvals wait 01JG2ABCDEF && mcpproxy call … --approval-id 01JG2ABCDEF…

A call that needs a user is a question with an id. It is answered here or on the gateway's page,
once, for exactly that call.";

const CONTRACT: &str = "\
Examples:
  mcpproxy contract coverage
  mcpproxy contract draft github --to github.yaml
  mcpproxy contract lint
  mcpproxy contract show github:delete_repo

A contract says how dangerous a tool is, what a call needs and how it fails; the gateway enforces
it. Contracts are YAML or JSON files in contracts/ in the data folder, and a running gateway takes
them over.";

const POLICY: &str = "\
Examples:
  mcpproxy policy explain github:delete_repo --variant read
  mcpproxy policy check
  mcpproxy policy test cases.yaml
  mcpproxy policy table";

const CONFIG: &str = "\
Examples:
  mcpproxy config check
  mcpproxy config schema > mcp_config.schema.json";

/// One door between AI agents and MCP servers: it finds tools, checks every call and remembers it.
#[derive(Debug, Parser)]
#[command(name = "mcpproxy", version, after_help = EXAMPLES, disable_help_subcommand = true)]
pub(crate) struct Cli {
    #[command(flatten)]
    pub(crate) global: Global,
    #[command(subcommand)]
    pub(crate) command: Option<Command>,
}

#[derive(Debug, Args)]
#[command(next_help_heading = "Global options")]
pub(crate) struct Global {
    /// The data folder [default: ~/.mcpproxy]
    #[arg(long, global = true, value_name = "DIR", env = "MCPPROXY_HOME", hide_env_values = true)]
    pub(crate) home: Option<PathBuf>,
    /// How to print data
    #[arg(short, long, global = true, value_enum, value_name = "FORMAT", default_value = "table")]
    pub(crate) output: Format,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Run the gateway (also when no command is given)
    Serve(Serve),
    /// Speak MCP on standard input and output, for clients that start their servers
    #[command(after_help = crate::commands::stdio::EXAMPLES)]
    Stdio,
    /// Call a tool through the running gateway
    #[command(subcommand, after_help = CALL)]
    Call(CallCommand),
    /// Look at the tools the gateway offers
    #[command(subcommand, after_help = TOOLS)]
    Tools(ToolsCommand),
    /// Look at servers, and change which there are
    #[command(subcommand, after_help = SERVERS)]
    Servers(ServersCommand),
    /// Make and revoke the tokens of agents
    #[command(subcommand, after_help = TOKEN)]
    Token(TokenCommand),
    /// See what agents did
    #[command(subcommand, after_help = ACTIVITY)]
    Activity(ActivityCommand),
    /// Decide on calls that need a user
    #[command(subcommand, after_help = APPROVALS)]
    Approvals(ApprovalsCommand),
    /// Check, show and draft the contracts of tools
    #[command(subcommand, after_help = CONTRACT)]
    Contract(ContractCommand),
    /// Check and test rules, and see what would become of a call
    #[command(subcommand, after_help = POLICY)]
    Policy(PolicyCommand),
    /// Check the settings, contracts and rules, or print the settings' JSON Schema
    #[command(subcommand, after_help = CONFIG)]
    Config(ConfigCommand),
    /// Print a completion script for a shell
    Completions(Completions),
    /// The demo server, on standard input and output
    #[command(hide = true)]
    DemoServer {
        /// Leave the tools' contracts out, as most servers do
        #[arg(long)]
        without_contracts: bool,
    },
}
