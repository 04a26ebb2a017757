//! `contract draft`: writes a first contract file for the tools of a server.

use std::fs::{DirBuilder, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::DirBuilderExt as _;
use std::path::Path;

use anyhow::Context as _;
use http::Method;
use mcpproxy_core::ServerName;
use serde_json::Value;

use crate::client::{Rest, state};
use crate::commands::config;
use crate::exit::{Exit, Failure};
use crate::home::Home;
use crate::operator_files::{CONTRACTS, published};
use crate::terminal::output::{Format, counted_as, lines, print, tell};

pub(super) async fn run(home: &Home, format: Format, server: &ServerName, to: Option<&Path>) -> anyhow::Result<()> {
    let answer = Rest::connect(home)?.ask(Method::GET, &format!("/api/v1/servers/{server}/contracts/draft")).await?;
    let text = lines(answer.get("text").and_then(Value::as_str).unwrap_or_default());
    let folder = CONTRACTS.beside(&home.settings());
    let Some(path) = to else {
        format.print(&answer, || text)?;
        let target = folder.join(format!("{server}.yaml"));
        tell(&format!("This is a draft. Review it before you move it to {}.", target.display()));
        tell_waiting(home, &answer, server);
        return Ok(());
    };
    let is_in_force = std::path::absolute(path).is_ok_and(|path| path.parent() == Some(&folder));
    if is_in_force {
        published::check_editable(home)?;
    }
    write_new(path, &text, &folder)?;
    print(&format!("Wrote {}\n", path.display()))?;
    tell_waiting(home, &answer, server);
    if is_in_force {
        let answer = Rest::connect(home)?.reload().await?;
        if config::apply::confirm_own(home, &answer).await? {
            tell("The draft is in force now. Review it, then run `mcpproxy contract lint`.");
        }
        tell(&state::describe(home, &answer, server.as_str()));
    } else {
        tell(&format!("This is a draft. Review it before you move it to {}.", folder.display()));
    }
    Ok(())
}

/// Says how many tools are not in the draft, and how to review them. Otherwise a user would take the draft for
/// complete.
fn tell_waiting(home: &Home, answer: &Value, server: &ServerName) {
    let waiting = answer.get("waiting").and_then(Value::as_u64).unwrap_or_default();
    if waiting > 0 {
        let count = usize::try_from(waiting).unwrap_or(usize::MAX);
        let tools = counted_as(count, "tool waits", "tools wait");
        tell(&format!("note: {tools} for review, not in the draft:"));
        tell(&format!("  {}", home.command("mcpproxy", &format!("servers review {server}"))));
    }
}

/// Writes a new file. Never overwrites an existing one.
fn write_new(path: &Path, text: &str, folder: &Path) -> anyhow::Result<()> {
    let doing = || format!("could not write `{}`", path.display());
    if std::path::absolute(path).is_ok_and(|path| path.parent() == Some(folder)) {
        DirBuilder::new().recursive(true).mode(0o700).create(folder).with_context(doing)?;
    }
    let mut file = match OpenOptions::new().write(true).create_new(true).open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            return Err(Failure::new(Exit::Failed, format!("`{}` already exists", path.display()))
                .hint("choose another file with --to, or leave out --to to print the draft")
                .into());
        }
        Err(error) => return Err(error).with_context(doing),
    };
    file.write_all(text.as_bytes()).with_context(doing)?;
    file.sync_all().with_context(doing)
}
