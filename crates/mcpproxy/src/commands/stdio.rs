//! `stdio`: one agent on standard input and output, at the running gateway or at one of our own.

use std::time::Duration;

use anyhow::Context as _;

use crate::bridge;
use crate::exit::{Exit, Failure};
use crate::home::Home;
use crate::runtime::{Listen, Runtime, end_signal};

const HEAD_START: Duration = Duration::from_secs(2);

pub(crate) const EXAMPLES: &str = "\
For clients that start their servers; put this into the client's settings:
  {\"mcpServers\": {\"mcpproxy\": {\"command\": \"mcpproxy\", \"args\": [\"stdio\"]}}}

If a gateway runs on the data folder, this is a bridge to it; otherwise it runs one for as long as it lives.";

pub(crate) async fn run(home: &Home) -> anyhow::Result<Exit> {
    let (reader, writer) = (tokio::io::stdin(), tokio::io::stdout());
    if let Some(running) = home.running()? {
        bridge::run(home, &running, reader, writer).await?;
        return Ok(Exit::Done);
    }
    let runtime = Runtime::start(home, Listen::Somewhere).await?;
    let agent = runtime.local.agent.clone().ok_or_else(|| {
        Failure::new(Exit::Failed, "the token in agent.token was revoked")
            .hint("put a token of `mcpproxy token create NAME` into agent.token")
    })?;
    let gateway = runtime.gateway.clone();
    // Clients ask for tools at once and some never again, so servers that are quick to start get the chance to be there.
    let _slow_ones_come_later = tokio::time::timeout(HEAD_START, gateway.ready()).await;
    let served = runtime.run_until(async {
        tokio::select! {
            served = mcpproxy_gateway::serve_stdio(&gateway, agent, reader, writer) => served,
            signal = end_signal() => signal,
        }
    });
    served.await.context("could not talk to the client")?;
    Ok(Exit::Done)
}
