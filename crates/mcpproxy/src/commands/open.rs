//! `open`: opens the web console in the browser.

use std::io::IsTerminal as _;
use std::process::{Command, Stdio};

use clap::Args;
use http::Method;
use serde_json::{Value, json};

use crate::client::Rest;
use crate::exit::{Exit, Failure};
use crate::home::Home;
use crate::terminal::output::{Format, line, tell};

/// The program that opens a URL, with its first arguments.
const OPENER: &[&str] = if cfg!(target_os = "macos") {
    &["open"]
} else if cfg!(windows) {
    &["cmd", "/c", "start", ""]
} else {
    &["xdg-open"]
};

/// Open the web console in your browser
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  mcpproxy open
  mcpproxy open --print

The command prints the URL. It opens a browser only if standard output is a terminal.")]
pub(crate) struct Open {
    /// Only print the URL
    #[arg(long)]
    print: bool,
}

pub(crate) async fn run(home: &Home, format: Format, open: &Open) -> anyhow::Result<Exit> {
    let status = Rest::connect(home)?.ask(Method::GET, "/api/v1/status").await?;
    let url = status.get("ui_url").and_then(Value::as_str).ok_or_else(|| {
        Failure::new(Exit::Failed, "The running gateway is older than this command and does not tell its URL.")
            .hint("restart the gateway: stop it, then run `mcpproxy serve`")
    })?;
    let is_opened = !open.print && format == Format::Table && std::io::stdout().is_terminal() && launch(url);
    format.print(&json!({ "url": url, "opened": is_opened }), || line(url))?;
    if !open.print && format == Format::Table && std::io::stdout().is_terminal() && !is_opened {
        tell("No browser could be started. Open the URL yourself.");
    }
    Ok(Exit::Done)
}

/// Starts the browser. The URL is an argument of its own, and no shell reads it.
pub(super) fn launch(url: &str) -> bool {
    let Some((program, first)) = OPENER.split_first() else { return false };
    let mut command = Command::new(program);
    command.args(first).arg(url).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command.status().is_ok_and(|status| status.success())
}
