//! `stdio`: connects one agent on standard input and output, to the running gateway or to its own.

use std::io::IsTerminal as _;
use std::time::Duration;

use anyhow::Context as _;
use clap::Args;
use tokio::io::{stdin, stdout};

use crate::client::bridge;
use crate::exit::{Exit, Failure};
use crate::home::Home;
use crate::runtime::first_user::FirstUser;
use crate::runtime::notices;
use crate::runtime::{Accepted, EndSignal, Listen, Runtime};
use crate::terminal::output::tell;

const HEAD_START: Duration = Duration::from_secs(2);

/// Serve MCP on standard input and output, for clients that start their servers
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  mcpproxy stdio

Add this to the settings of your client:
  {\"mcpServers\": {\"mcpproxy\": {\"command\": \"mcpproxy\", \"args\": [\"stdio\"]}}}

If a gateway already runs on the data folder, this command connects the client to it. If not, it \
runs a gateway until the client disconnects. That gateway prints the setup link and all approval \
requests on standard error, which most clients show as the log of the server.")]
pub(crate) struct Stdio {}

/// Told to a person who runs the command. A client connects pipes instead of a terminal.
const FOR_CLIENTS: &str = "This command is for MCP clients, which write JSON-RPC messages to its standard input. Press \
                           Ctrl-C to stop it. Connect a client with";

pub(crate) async fn run(home: &Home) -> anyhow::Result<Exit> {
    if std::io::stdin().is_terminal() {
        tell(&format!("{FOR_CLIENTS} `{}`.", home.command("mcpproxy", "connect CLIENT")));
    }
    if let Some(running) = home.running()? {
        bridge::run(home, &running, stdin(), stdout()).await?;
        return Ok(Exit::Done);
    }
    let end = EndSignal::listen()?;
    let runtime = match Runtime::start(home, Listen::Somewhere, Accepted::default(), None).await {
        Ok(runtime) => runtime,
        // Two clients that start at the same time both find no gateway. Only one of them gets the lock.
        Err(error) => {
            let Some(running) = home.running()? else { return Err(error) };
            bridge::run(home, &running, stdin(), stdout()).await?;
            return Ok(Exit::Done);
        }
    };
    let agent = runtime.local.agent.clone();
    let gateway = runtime.gateway.clone();
    // Standard output belongs to the client. Users find this text in the client's log of the server.
    let mut first = FirstUser::of(&runtime);
    if let Some(link) = first.link().await? {
        tell(&format!("{} {}", link.sentence(), link.url));
    }
    let bell = runtime.settings.approvals.notify.bell;
    let notices = notices::follow(gateway.approvals().clone(), first, bell);
    let serve = async {
        let agent = agent.ok_or_else(|| {
            Failure::new(Exit::Failed, "The token in agent.token is revoked.")
                .hint("create a token with `mcpproxy token create NAME` and write it into agent.token")
        })?;
        // Clients list tools at once, and some never list them again. So wait a moment for servers to start.
        let _slow_ones_come_later = tokio::time::timeout(HEAD_START, gateway.ready()).await;
        let served = mcpproxy_gateway::serve_stdio(&gateway, agent, stdin(), stdout()).await;
        served.context("could not exchange messages with the client")
    };
    runtime
        .run_until(async {
            tokio::select! {
                served = serve => served,
                () = end.wait() => Ok(()),
                () = notices => Ok(()),
            }
        })
        .await?;
    Ok(Exit::Done)
}
