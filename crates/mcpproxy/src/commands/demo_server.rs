//! `demo-server`: the demo server that the gateway starts when there is no settings file.

use clap::Args;

use crate::exit::Exit;

/// Run the demo server on standard input and output
#[derive(Debug, Args)]
#[command(hide = true)]
pub(crate) struct DemoServer {
    /// Leave out the tools' contracts, as most servers do
    #[arg(long)]
    without_contracts: bool,
}

pub(crate) async fn run(server: &DemoServer) -> anyhow::Result<Exit> {
    let demo = demo_server::Demo::new();
    let demo = if server.without_contracts { demo.without_contracts() } else { demo };
    demo_server::serve_standard(demo).await?;
    Ok(Exit::Done)
}
