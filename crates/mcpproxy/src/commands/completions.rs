//! `completions`: prints shell completion scripts.

use clap::{Args, CommandFactory as _};
use clap_complete::Shell;

use crate::commands::Cli;
use crate::exit::Exit;
use crate::terminal::output::print;

/// Print a completion script for your shell
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  mcpproxy completions bash \\
      > ~/.local/share/bash-completion/completions/mcpproxy
  mcpproxy completions zsh > ~/.zfunc/_mcpproxy
  mcpproxy completions fish > ~/.config/fish/completions/mcpproxy.fish")]
pub(crate) struct Completions {
    /// Shell to complete for
    shell: Shell,
}

pub(crate) fn run(completions: &Completions) -> anyhow::Result<Exit> {
    let mut script = Vec::new();
    clap_complete::generate(completions.shell, &mut Cli::command(), "mcpproxy", &mut script);
    print(&String::from_utf8(script)?)?;
    Ok(Exit::Done)
}
