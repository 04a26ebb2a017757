//! `approvals`: calls that wait for a user, and the user's word on them.

mod approve;
mod find;
mod grants;
mod list;
mod person;
mod raw;
mod show;
mod view;
mod wait;
mod watch;
mod words;

use std::time::Duration;

use clap::Subcommand;
use serde_json::json;

use crate::client::Rest;
use crate::exit::Exit;
use crate::home::Home;
use crate::terminal::output::Format;

use self::words::text;

/// Decide on calls that need a user
#[derive(Debug, Subcommand)]
#[command(after_help = "\
Examples:
  mcpproxy approvals list
  mcpproxy approvals show 01JG2ABCDEF
  mcpproxy approvals approve 01JG2ABCDEF
  mcpproxy approvals deny 01JG2ABCDEF --comment \"Ask Anna first\"
  mcpproxy approvals wait 01JG2ABCDEF && mcpproxy call … --approval-id 01JG2ABCDEF…

A call that needs a user is a question with an id. It is answered here or on the gateway's page,
once, for exactly that call.")]
pub(crate) enum ApprovalsCommand {
    /// List calls that wait for a user, or waited, newest first
    #[command(after_help = "\
Examples:
  mcpproxy approvals list
  mcpproxy approvals list --state all --tool github:delete_repo
  mcpproxy approvals list --watch
  mcpproxy approvals list -o json")]
    List(list::List),
    /// Show one with all that helps to decide
    #[command(after_help = "\
Examples:
  mcpproxy approvals show 01JG2ABCDEF
  mcpproxy approvals show 01JG2ABCDEF -o json

What stands as *** is a secret: it is sent, and shown to nobody but the user who decides. Whether it is
what it was in the last approved call is said all the same.")]
    Show {
        /// The approval's id, or as much of its beginning as is needed
        id: String,
    },
    /// Say yes to one call, once; asks for your name and password
    #[command(after_help = "\
Examples:
  mcpproxy approvals approve 01JG2ABCDEF

Only a user can approve, so this needs a terminal with a user at it: it asks for your name and
password, shows the whole call with nothing masked, and asks for your word, and for a code of your
authenticator if the call takes a fresh factor.
None of them is taken from arguments, the environment, a pipe or a file: an agent that runs programs
as you could put them there, or find them there. For the same reason neither the admin key nor an
agent's token can approve. Passkeys work in the browser, on the page of the approval.
Ends with 0 if it is approved, and with 3 if not.")]
    Approve {
        /// The approval's id, or as much of its beginning as is needed
        id: String,
    },
    /// Say no to one call, with a word for the agent
    #[command(after_help = "\
Examples:
  mcpproxy approvals deny 01JG2ABCDEF --comment \"Ask Anna first\"

What was approved can be denied too, for as long as the call has not been made. A no takes no
password: the admin key of the data folder is enough.")]
    Deny {
        /// The approval's id, or as much of its beginning as is needed
        id: String,
        /// What the agent is told
        #[arg(long, value_name = "TEXT")]
        comment: Option<String>,
    },
    /// Wait until a user has decided
    #[command(after_help = "\
Examples:
  mcpproxy approvals wait 01JG2ABCDEF
  mcpproxy approvals wait 01JG2ABCDEF --timeout 1h && mcpproxy call … --approval-id 01JG2ABCDEF…

Ends with 0 if it is approved, with 3 if it is denied, expired or cancelled, and with 4 if nobody
has decided when the time is over.")]
    Wait {
        /// The approval's id, or as much of its beginning as is needed
        id: String,
        /// How long: `30s`, `10m`, `1h`
        #[arg(long, value_name = "TIME", default_value = "10m", value_parser = words::parse_duration)]
        timeout: Duration,
    },
    /// List what users allowed for a while: such calls, of one agent, so many times
    #[command(after_help = "\
Examples:
  mcpproxy approvals grants
  mcpproxy approvals grants --all -o json

A grant is given on the page of an approval.")]
    Grants {
        /// Also those that are used up, expired or revoked
        #[arg(long)]
        all: bool,
    },
    /// Take a grant back, at once
    #[command(after_help = "\
Examples:
  mcpproxy approvals revoke 01JG2ABCDEF")]
    Revoke {
        /// The grant's id, or as much of its beginning as is needed
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
        .print(&denied, || format!("denied {id}: {} for agent {}\n", text(&denied, "tool"), text(&denied, "agent")))?;
    Ok(Exit::Done)
}
