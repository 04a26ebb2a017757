//! `serve`: runs the gateway until it is told to stop.

use std::net::SocketAddr;

use clap::Args;
use mcpproxy_core::settings::parse_listen;

use crate::banner::banner;
use crate::commands::token::random;
use crate::exit::Exit;
use crate::home::Home;
use crate::notices;
use crate::output::tell;
use crate::runtime::{EndSignal, Listen, Runtime, now_ms};

/// An hour: long enough to do it now, too short to be found later.
const SETUP_MS: i64 = 60 * 60 * 1000;

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  mcpproxy serve
  mcpproxy serve --listen 127.0.0.1:9000
  mcpproxy serve --home ./data")]
pub(crate) struct Serve {
    /// Where to listen [default: `listen` of the settings, or 127.0.0.1:8080]
    #[arg(long, value_name = "ADDR", value_parser = parse_listen)]
    pub(crate) listen: Option<SocketAddr>,
}

pub(crate) async fn run(home: &Home, serve: &Serve) -> anyhow::Result<Exit> {
    let end = EndSignal::listen()?;
    let runtime = Runtime::start(home, Listen::Exactly(serve.listen)).await?;
    let setup = setup(&runtime).await?;
    tell(&banner(home, &runtime, setup.as_deref()));
    let notices =
        notices::tell_of_questions(runtime.gateway.approvals().clone(), runtime.settings.approvals.notify.bell);
    let end = async {
        tokio::select! {
            () = end.wait() => {}
            () = notices => {}
        }
    };
    runtime.run_until(end).await;
    Ok(Exit::Done)
}

/// A link to become the first human with, made anew at each start for as long as there is none. It is shown to whoever
/// starts the gateway and to nobody else.
async fn setup(runtime: &Runtime) -> anyhow::Result<Option<String>> {
    if runtime.store.has_humans().await? {
        return Ok(None);
    }
    let secret = runtime.store.invite(random()?, None, now_ms(), SETUP_MS).await?;
    Ok(Some(format!("{}/ui/setup/{secret}", runtime.base_url)))
}
