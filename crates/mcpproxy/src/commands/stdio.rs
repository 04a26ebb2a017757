//! `stdio`: one agent on standard input and output, at the running gateway or at one of our own.

use std::time::Duration;

use anyhow::Context as _;
use clap::Args;
use tokio::io::{stdin, stdout};

use crate::client::bridge;
use crate::exit::{Exit, Failure};
use crate::home::Home;
use crate::runtime::first_user::{self, FirstUser};
use crate::runtime::notices;
use crate::runtime::{EndSignal, Listen, Runtime};
use crate::terminal::output::tell;

const HEAD_START: Duration = Duration::from_secs(2);

/// Speak MCP on standard input and output, for clients that start their servers
#[derive(Debug, Args)]
#[command(after_help = "\
For clients that start their servers; put this into the client's settings:
  {\"mcpServers\": {\"mcpproxy\": {\"command\": \"mcpproxy\", \"args\": [\"stdio\"]}}}

If a gateway runs on the data folder, this is a bridge to it; otherwise it runs one for as long as it lives. Then it
says on standard error, which clients keep as their log of the server, who can approve and what is asked, as `serve` does.")]
pub(crate) struct Stdio {}

pub(crate) async fn run(home: &Home) -> anyhow::Result<Exit> {
    if let Some(running) = home.running()? {
        bridge::run(home, &running, stdin(), stdout()).await?;
        return Ok(Exit::Done);
    }
    let end = EndSignal::listen()?;
    let runtime = match Runtime::start(home, Listen::Somewhere).await {
        Ok(runtime) => runtime,
        // Two clients that start at the same time both find no gateway, and only one can become it.
        Err(error) => {
            let Some(running) = home.running()? else { return Err(error) };
            bridge::run(home, &running, stdin(), stdout()).await?;
            return Ok(Exit::Done);
        }
    };
    let agent = runtime.local.agent.clone();
    let gateway = runtime.gateway.clone();
    // Standard output is the client's; people read this in its log of the server.
    let mut first = FirstUser::of(&runtime);
    if let Some(link) = first.link().await? {
        tell(&format!("{} {link}", first_user::WORDS));
    }
    let bell = runtime.settings.approvals.notify.bell;
    let notices = notices::tell_of_questions(gateway.approvals().clone(), first, bell);
    let serve = async {
        let agent = agent.ok_or_else(|| {
            Failure::new(Exit::Failed, "the token in agent.token was revoked")
                .hint("put a token of `mcpproxy token create NAME` into agent.token")
        })?;
        // Clients ask for tools at once and some never again, so servers that are quick to start may be there first.
        let _slow_ones_come_later = tokio::time::timeout(HEAD_START, gateway.ready()).await;
        let served = mcpproxy_gateway::serve_stdio(&gateway, agent, stdin(), stdout()).await;
        served.context("could not talk to the client")
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
