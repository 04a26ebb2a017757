//! One module for each command.

pub(crate) mod activity;
pub(crate) mod approvals;
pub(crate) mod call;
pub(crate) mod completions;
pub(crate) mod config;
pub(crate) mod contract;
pub(crate) mod policy;
pub(crate) mod serve;
pub(crate) mod servers;
pub(crate) mod stdio;
pub(crate) mod token;
pub(crate) mod tools;

use crate::cli::{Cli, Command};
use crate::exit::Exit;
use crate::home::Home;

pub(crate) async fn run(cli: Cli) -> anyhow::Result<Exit> {
    let format = cli.global.output;
    let home = Home::resolve(cli.global.home)?;
    match cli.command.unwrap_or(Command::Serve(serve::Serve { listen: None })) {
        Command::Serve(serve) => serve::run(&home, &serve).await,
        Command::Stdio => stdio::run(&home).await,
        Command::Call(command) => call::run(&home, format, command).await,
        Command::Tools(command) => tools::run(&home, format, command).await,
        Command::Servers(command) => servers::run(&home, format, command).await,
        Command::Token(command) => token::run(&home, format, command).await,
        Command::Activity(command) => activity::run(&home, format, command).await,
        Command::Approvals(command) => approvals::run(&home, format, command).await,
        Command::Contract(command) => contract::run(&home, format, command).await,
        Command::Policy(command) => policy::run(&home, format, command).await,
        Command::Config(command) => config::run(&home, format, &command),
        Command::Completions(completions) => completions::run(&completions),
        Command::DemoServer { without_contracts } => {
            let demo = demo_server::Demo::new();
            let demo = if without_contracts { demo.without_contracts() } else { demo };
            demo_server::serve_io(demo, tokio::io::stdin(), tokio::io::stdout()).await?;
            Ok(Exit::Done)
        }
    }
}
