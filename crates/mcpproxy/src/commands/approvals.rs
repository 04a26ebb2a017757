//! `approvals`: shows approval requests and decides on them.

mod approve;
mod find;
mod grants;
mod list;
mod raw;
mod show;
pub(super) mod sign_in;
mod view;
mod wait;
mod watch;
mod words;

use std::time::Duration;

use clap::Subcommand;
use serde_json::json;

use crate::client::Rest;
use crate::commands::names;
use crate::exit::Exit;
use crate::home::Home;
use crate::terminal::output::Format;

use self::words::text;

pub(super) use self::approve::has_users;

/// Approve or deny calls that need a user
#[derive(Debug, Subcommand)]
#[command(after_help = "\
Examples:
  mcpproxy approvals list
  mcpproxy approvals show 01JG2ABCDEF
  mcpproxy approvals approve 01JG2ABCDEF
  mcpproxy approvals deny 01JG2ABCDEF --comment \"Ask Anna first\"
  mcpproxy approvals wait 01JG2ABCDEF && mcpproxy call …

A call that needs a user's approval creates an approval request with an id. Decide on it here or on \
the approval page. An approval allows exactly one call.")]
pub(crate) enum ApprovalsCommand {
    /// List approval requests, newest first
    #[command(after_help = "\
Examples:
  mcpproxy approvals list
  mcpproxy approvals list --state all --tool github:delete_repo
  mcpproxy approvals list --watch
  mcpproxy approvals list -o json")]
    List(list::List),
    /// Show an approval request with everything that helps to decide
    #[command(after_help = "\
Examples:
  mcpproxy approvals show 01JG2ABCDEF
  mcpproxy approvals show 01JG2ABCDEF -o json

*** replaces a secret. The server gets its value, and only the user who decides can see it. If a secret \
changed since the last approved call, the output says so.")]
    Show {
        /// Id of the approval request, or an unambiguous prefix
        #[arg(add = names::approvals())]
        id: String,
    },
    /// Approve one call; asks for your name and password
    #[command(after_help = "\
Examples:
  mcpproxy approvals approve 01JG2ABCDEF

Only a user can approve a call, so this command needs a terminal. It asks for your name and \
password, shows the whole call without masking, and asks for your decision. If the call requires a \
second factor, it also asks for a code from your authenticator app. Passkeys work on the approval \
page only. So do sign-ins with an identity provider.

The command reads nothing from arguments, environment variables, pipes or files, because an agent \
that runs programs as you could use them. For the same reason, the admin key and agent tokens cannot \
approve.

The exit code is 0 if the call is approved, and 3 if not.")]
    Approve {
        /// Id of the approval request, or an unambiguous prefix
        #[arg(add = names::approvals())]
        id: String,
    },
    /// Deny one call, with a comment for the agent
    #[command(after_help = "\
Examples:
  mcpproxy approvals deny 01JG2ABCDEF --comment \"Ask Anna first\"

You can also deny an approved call until the agent makes it. Denying needs no password: the admin \
key in the data folder is enough.")]
    Deny {
        /// Id of the approval request, or an unambiguous prefix
        #[arg(add = names::approvals())]
        id: String,
        /// Comment for the agent
        #[arg(long, value_name = "TEXT")]
        comment: Option<String>,
    },
    /// Wait until a user decides
    #[command(after_help = "\
Examples:
  mcpproxy approvals wait 01JG2ABCDEF
  mcpproxy approvals wait 01JG2ABCDEF --timeout 1h && mcpproxy call …

The exit code is 0 if the call is approved, 3 if it is denied, expired or cancelled, and 4 if nobody \
decides before the timeout.")]
    Wait {
        /// Id of the approval request, or an unambiguous prefix
        #[arg(add = names::approvals())]
        id: String,
        /// Maximum time to wait, such as `30s`, `10m` or `1h`
        #[arg(long, value_name = "TIME", default_value = "10m", value_parser = words::parse_duration)]
        timeout: Duration,
    },
    /// List standing approvals: a limited number of similar calls of one agent
    #[command(after_help = "\
Examples:
  mcpproxy approvals grants
  mcpproxy approvals grants --all -o json

Create a standing approval on the page of an approval request.")]
    Grants {
        /// Include standing approvals that are used up, expired or revoked
        #[arg(long)]
        all: bool,
    },
    /// Revoke a standing approval, effective immediately
    #[command(after_help = "\
Examples:
  mcpproxy approvals revoke 01JG2ABCDEF")]
    Revoke {
        /// Id of the standing approval, or an unambiguous prefix
        #[arg(add = names::standing_approvals())]
        grant: String,
    },
}

pub(crate) async fn run(home: &Home, format: Format, command: ApprovalsCommand) -> anyhow::Result<Exit> {
    match command {
        ApprovalsCommand::List(list) => list::run(home, format, &list).await,
        ApprovalsCommand::Show { id } => {
            let view = find::approval(&Rest::connect(home)?, &id).await?;
            view.print(format, || show::text(&view, words::now_ms()))?;
            Ok(Exit::Done)
        }
        ApprovalsCommand::Approve { id } => approve::run(home, format, &id).await,
        ApprovalsCommand::Deny { id, comment } => deny(home, format, &id, comment.as_deref()).await,
        ApprovalsCommand::Wait { id, timeout } => wait::run(home, format, &id, timeout).await,
        ApprovalsCommand::Grants { all } => grants::list(home, format, all).await,
        ApprovalsCommand::Revoke { grant } => grants::revoke(home, format, &grant).await,
    }
}

async fn deny(home: &Home, format: Format, id: &str, comment: Option<&str>) -> anyhow::Result<Exit> {
    let rest = Rest::connect(home)?;
    let id = find::id(&rest, id).await?;
    let body = match comment {
        Some(comment) => json!({"comment": comment}),
        None => json!({}),
    };
    let denied = rest.post(&format!("/api/v1/approvals/{id}/deny"), body.to_string()).await?;
    format
        .print(&denied, || format!("Denied {id}: {} for agent {}.\n", text(&denied, "tool"), text(&denied, "agent")))?;
    Ok(Exit::Done)
}
