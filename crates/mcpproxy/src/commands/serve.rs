//! `serve`: runs the gateway until a signal stops it.

use std::io::IsTerminal as _;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use mcpproxy_core::settings::parse_listen;

use crate::commands::connect::offer::offer;
use crate::exit::Exit;
use crate::home::Home;
use crate::lock_file;
use crate::runtime::banner;
use crate::runtime::first_user::FirstUser;
use crate::runtime::notices;
use crate::runtime::{Accepted, EndSignal, Listen, Runtime};
use crate::terminal::output::tell;

/// Start the gateway (the default command)
#[derive(Debug, Default, Args)]
#[command(after_help = "\
Examples:
  mcpproxy serve
  mcpproxy serve --listen 127.0.0.1:9000
  mcpproxy serve --home ./data
  mcpproxy serve --locked   Accept exactly what mcpproxy.lock names")]
pub(crate) struct Serve {
    /// Address to listen on [default: `listen` in the settings, or 127.0.0.1:8080]
    #[arg(long, value_name = "ADDR", value_parser = parse_listen)]
    pub(crate) listen: Option<SocketAddr>,
    /// Start although the activity log is damaged, with a new signing key and a new chain; the log records this
    #[arg(long)]
    pub(crate) accept_damage: bool,
    /// Start although contract or policy files of the last run are gone
    #[arg(long)]
    pub(crate) accept_removed: bool,
    /// Accept exactly the definitions in this lock file, and nothing else [default: mcpproxy.lock]
    #[arg(long, value_name = "FILE", num_args = 0..=1, default_missing_value = "mcpproxy.lock")]
    pub(crate) locked: Option<PathBuf>,
}

pub(crate) async fn run(home: &Home, serve: &Serve) -> anyhow::Result<Exit> {
    let (mut end, mut again) = (EndSignal::listen()?, EndSignal::listen()?);
    let accepted = Accepted { damage: serve.accept_damage, removed: serve.accept_removed };
    let lock = serve.locked.as_deref().map(lock_file::read).transpose()?;
    let runtime = Runtime::start(home, Listen::Exactly(serve.listen), accepted, lock).await?;
    let mut first = FirstUser::of(&runtime);
    tell(&banner(home, &runtime, first.link().await?.as_ref()).await);
    // Offer the next step once, to a person, and never wait for an answer.
    let has_person = std::io::stdin().is_terminal() && std::io::stderr().is_terminal();
    if let (true, false, Some(offer)) = (has_person, runtime.has_settings_file, offer(home)) {
        tell(&offer);
    }
    let bell = runtime.settings.approvals.notify.bell;
    let notices = notices::follow(runtime.gateway.approvals().clone(), first, bell);
    let gateway = runtime.gateway.clone();
    let end = async {
        tokio::select! {
            () = end.next() => {}
            () = notices => {}
        }
        if let Some(text) = stopping(gateway.running_calls(), gateway.shutdown_grace(), std::io::stderr().is_terminal())
        {
            tell(&text);
        }
    };
    let twice = async {
        again.next().await;
        again.next().await;
    };
    tokio::select! {
        () = runtime.run_until(end) => Ok(Exit::Done),
        // Records that are not written yet count as interrupted at the next start.
        () = twice => {
            tell("Stopped at once.");
            Ok(Exit::Interrupted)
        }
    }
}

/// Says what happens to calls that servers are running, and to a person how to stop at once.
fn stopping(calls: usize, grace: Duration, has_terminal: bool) -> Option<String> {
    let grace = grace.as_secs_f64();
    let calls = match calls {
        0 => String::new(),
        1 => format!(
            " 1 call is running. The gateway waits up to {grace} s for it. `mcpproxy activity list` shows how it ended."
        ),
        count => format!(
            " {count} calls are running. The gateway waits up to {grace} s for them. `mcpproxy activity list` shows how \
             they ended."
        ),
    };
    let again = if has_terminal { " Press Ctrl-C again to stop at once." } else { "" };
    (has_terminal || !calls.is_empty()).then(|| format!("Stopping.{calls}{again}"))
}
