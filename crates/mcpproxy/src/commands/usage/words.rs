//! Words that people type for commands with another name.

use clap::CommandFactory as _;
use mcpproxy_core::nearest;

use crate::commands::Cli;
use crate::commands::names::home_in;
use crate::exit::{Exit, Failure};
use crate::home::Home;
use crate::terminal::output::line;
use crate::terminal::shell::plain_word;

/// Words that people type, the command that they mean, and the argument that it needs.
const SYNONYMS: &[(&[&str], &str, &str)] = &[
    (&["start"], "serve", ""),
    (&["run"], "serve", ""),
    (&["server"], "servers", "list"),
    (&["up"], "serve", ""),
    (&["ls"], "servers list", ""),
    (&["list"], "servers list", ""),
    (&["add"], "servers add", "NAME -- COMMAND"),
    (&["remove"], "servers remove", "NAME"),
    (&["rm"], "servers remove", "NAME"),
    (&["restart"], "servers restart", "NAME"),
    (&["search"], "tools search", "QUERY"),
    (&["log"], "activity list", ""),
    (&["logs"], "servers logs", "NAME"),
    (&["history"], "activity list", ""),
    (&["approve"], "approvals approve", "ID"),
    (&["deny"], "approvals deny", "ID"),
    (&["agents"], "token list", ""),
    (&["install"], "connect", "CLIENT"),
    (&["ui"], "open", ""),
    (&["console"], "open", ""),
    (&["check"], "doctor", ""),
    (&["health"], "status", ""),
    (&["info"], "status", ""),
    (&["version"], "--version", ""),
    (&["servers", "delete"], "servers remove", "NAME"),
    (&["servers", "rm"], "servers remove", "NAME"),
    (&["servers", "ls"], "servers list", ""),
    (&["servers", "show"], "servers list", ""),
    (&["servers", "status"], "servers list", ""),
    (&["servers", "log"], "servers logs", "NAME"),
    (&["servers", "start"], "servers enable", "NAME"),
    (&["servers", "stop"], "servers disable", "NAME"),
    (&["servers", "import"], "import", "CLIENT"),
    (&["tools", "ls"], "tools list", ""),
    (&["tools", "find"], "tools search", "QUERY"),
    (&["tools", "describe"], "tools show", "NAME"),
    (&["tools", "call"], "call tool-read", "NAME"),
    (&["token", "add"], "token create", "NAME"),
    (&["token", "new"], "token create", "NAME"),
    (&["token", "delete"], "token revoke", "NAME"),
    (&["token", "remove"], "token revoke", "NAME"),
    (&["token", "rm"], "token revoke", "NAME"),
    (&["token", "ls"], "token list", ""),
    (&["activity", "tail"], "activity watch", ""),
    (&["activity", "log"], "activity list", ""),
    (&["activity", "ls"], "activity list", ""),
    (&["approvals", "ls"], "approvals list", ""),
    (&["approvals", "reject"], "approvals deny", "ID"),
    (&["policy", "lint"], "policy check", ""),
    (&["config", "validate"], "config check", ""),
];
/// Words for stopping the gateway, which has no command.
const STOP: [&str; 5] = ["stop", "down", "quit", "kill", "shutdown"];

/// Advises on a word that is no command.
pub(super) fn advice(words: &[&str], args: &[String]) -> Option<Failure> {
    let first = words.first()?;
    if STOP.contains(first) {
        return Some(Failure::new(Exit::Usage, format!("`mcpproxy {first}` is not a command.")).hint(stop(args)));
    }
    let (typed, command, argument) = SYNONYMS.iter().find(|(typed, _, _)| words.starts_with(typed))?;
    // Options belong to the command. Without arguments, the placeholder stands for them.
    let rest: Vec<String> = after(words, typed.len(), args).map(|word| plain_word(word)).collect();
    let has_words = words.len() > typed.len();
    let rest = if !has_words || argument.is_empty() { (*argument).to_owned() } else { rest.join(" ") };
    let message = format!("`mcpproxy {}` is not a command.", line(&typed.join(" ")));
    Some(Failure::new(Exit::Usage, message).hint(format!("use `{}`", format!("mcpproxy {command} {rest}").trim_end())))
}

/// Returns everything behind the typed words, options included.
fn after<'a>(words: &[&str], typed: usize, args: &'a [String]) -> impl Iterator<Item = &'a String> {
    let last = typed.checked_sub(1).and_then(|last| words.get(last)).copied();
    let at = args.iter().position(|arg| Some(arg.as_str()) == last).map_or(args.len(), |at| at + 1);
    args.iter().skip(at)
}

/// Advises on a word that is almost a command, or lists the commands. clap's own tip names several commands, and none
/// of them with the arguments.
pub(super) fn misspelled(words: &[&str], positions: &[usize], args: &[String]) -> Option<Failure> {
    let mut command = Cli::command();
    let mut known = Vec::new();
    let wrong = words.iter().position(|word| match command.find_subcommand(word).cloned() {
        Some(found) => {
            command = found;
            known.push(*word);
            false
        }
        None => true,
    })?;
    let word = words.get(wrong)?;
    let names: Vec<String> =
        command.get_subcommands().filter(|one| !one.is_hide_set()).map(|one| one.get_name().to_owned()).collect();
    known.insert(0, "mcpproxy");
    let message = format!("`{} {}` is not a command.", known.join(" "), line(word));
    let hint = match nearest(word, names.iter().map(String::as_str)) {
        Some(name) => {
            let at = *positions.get(wrong)?;
            let with = |(index, arg): (usize, &String)| if index == at { name.to_owned() } else { arg.clone() };
            format!("use `{}`", super::command(&args.iter().enumerate().map(with).collect::<Vec<_>>()))
        }
        None => format!("list the commands with `{} --help`", known.join(" ")),
    };
    Some(Failure::new(Exit::Usage, message).hint(hint))
}

/// Says how to stop the gateway that runs on the data folder of these arguments.
fn stop(args: &[String]) -> String {
    let running = Home::resolve(home_in(args.iter().map(Into::into))).ok().and_then(|home| home.running().ok());
    match running.flatten() {
        Some(running) => {
            format!("press Ctrl-C in the terminal where the gateway runs, or run `kill {}`", running.pid)
        }
        None => "no gateway is running. Press Ctrl-C in its terminal to stop one".to_owned(),
    }
}
