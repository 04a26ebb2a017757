//! `man`: prints or writes manual pages.

use std::path::PathBuf;

use anyhow::Context as _;
use clap::{Args, CommandFactory as _};
use clap_mangen::Man as ManPage;
use std::io::IsTerminal as _;

use crate::commands::Cli;
use crate::exit::{Exit, Failure};
use crate::terminal::output::{Format, counted, line, print, tell};

/// Print a manual page, or write all of them
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  mcpproxy man | man -l -
  mcpproxy man servers add | man -l -
  mcpproxy man --to ~/.local/share/man/man1

After --to, `man mcpproxy` and `man mcpproxy-servers-add` find the pages.")]
pub(crate) struct Man {
    /// Command to describe, such as `servers add` [default: mcpproxy itself]
    #[arg(value_name = "COMMAND", conflicts_with = "to")]
    command: Vec<String>,
    /// Write one page for each command into this folder
    #[arg(long, value_name = "DIR")]
    to: Option<PathBuf>,
}

pub(crate) fn run(format: Format, man: &Man) -> anyhow::Result<Exit> {
    match &man.to {
        Some(folder) => write(format, folder)?,
        None => show(&man.command)?,
    }
    Ok(Exit::Done)
}

fn show(words: &[String]) -> anyhow::Result<()> {
    let mut root = Cli::command();
    root.build();
    let mut command = &root;
    for word in words {
        command = command.find_subcommand(word).ok_or_else(|| {
            Failure::new(Exit::Usage, format!("`{}` is not a command of `{}`.", line(word), name_of(command)))
                .hint("list all commands with `mcpproxy help`")
        })?;
    }
    print(&String::from_utf8(page(command)?)?)?;
    if std::io::stdout().is_terminal() {
        tell("hint: read the page with `mcpproxy man | man -l -`, or write all pages with --to DIR");
    }
    Ok(())
}

fn write(format: Format, folder: &PathBuf) -> anyhow::Result<()> {
    std::fs::create_dir_all(folder).with_context(|| format!("could not create `{}`", folder.display()))?;
    let mut root = Cli::command();
    root.build();
    let mut files = Vec::new();
    let mut open = vec![&root];
    while let Some(command) = open.pop() {
        let path = folder.join(format!("{}.1", name_of(command)));
        std::fs::write(&path, page(command)?).with_context(|| format!("could not write `{}`", path.display()))?;
        files.push(path.display().to_string());
        open.extend(command.get_subcommands());
    }
    files.sort();
    format.print(&serde_json::json!({ "files": files }), || {
        format!("Wrote {} to {}.\n", counted(files.len(), "manual page"), folder.display())
    })
}

/// Returns the name of a page: `mcpproxy-servers-add`.
fn name_of(command: &clap::Command) -> &str {
    command.get_display_name().unwrap_or_else(|| command.get_name())
}

fn page(command: &clap::Command) -> anyhow::Result<Vec<u8>> {
    let mut page = Vec::new();
    ManPage::new(command.clone()).render(&mut page).context("could not write the manual page")?;
    let usage = command.clone().render_usage().to_string();
    Ok(corrected(&String::from_utf8(page)?, name_of(command), &usage).into_bytes())
}

/// Replaces the title and the synopsis of a page.
///
/// The library writes an empty date as nothing, so that the next field of the title takes its place. Its synopsis lists
/// every option, and knows no second form of a command. The usage of `--help` is better.
fn corrected(page: &str, name: &str, usage: &str) -> String {
    let mut text = String::new();
    let mut is_synopsis = false;
    for line in page.lines() {
        if line.starts_with(".TH ") {
            // The date of a build would make every page differ.
            let (name, version) = (name.to_uppercase(), env!("CARGO_PKG_VERSION"));
            text.push_str(&format!(".TH \"{name}\" \"1\" \"\" \"mcpproxy {version}\" \"mcpproxy\"\n"));
        } else if line == ".SH SYNOPSIS" {
            is_synopsis = true;
            text.push_str(&format!("{line}\n.nf\n"));
            let forms = usage.lines().map(|form| form.trim_start_matches("Usage:").trim());
            forms.for_each(|form| text.push_str(&format!("{}\n", form.replace('\\', "\\e").replace('-', "\\-"))));
            text.push_str(".fi\n");
        } else if !is_synopsis || line.starts_with(".SH") {
            is_synopsis = false;
            text.push_str(&format!("{line}\n"));
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_title_has_a_version_and_the_synopsis_every_form() {
        let mut root = Cli::command();
        root.build();
        let add = root.find_subcommand("servers").unwrap().find_subcommand("add").unwrap();
        let page = String::from_utf8(page(add).unwrap()).unwrap();
        let title = format!(".TH \"MCPPROXY-SERVERS-ADD\" \"1\" \"\" \"mcpproxy {}\"", env!("CARGO_PKG_VERSION"));
        assert!(page.contains(&title), "{page}");
        let synopsis = ".SH SYNOPSIS\n.nf\n\
                        mcpproxy servers add [OPTIONS] <NAME> \\-\\- <COMMAND>...\n\
                        mcpproxy servers add [OPTIONS] <NAME> \\-\\-url <URL>\n.fi\n.SH DESCRIPTION\n";
        assert!(page.contains(synopsis), "{page}");
    }
}
