//! Advice for command lines of `call`, and for tool names without their server.

use http::Method;
use mcpproxy_core::ToolName;
use serde_json::{Map, Value};

use super::command;
use crate::client::Rest;
use crate::client::quick::quickly;
use crate::commands::names::home_in;
use crate::exit::{Exit, Failure};
use crate::home::Home;
use crate::terminal::output::line;
use crate::terminal::shell::plain_word;

const VARIANTS: [&str; 3] = ["tool-read", "tool-write", "tool-destructive"];
/// Words that people type for a variant.
const WORDS: &[(&str, &str)] = &[
    ("read", "tool-read"),
    ("get", "tool-read"),
    ("write", "tool-write"),
    ("update", "tool-write"),
    ("destructive", "tool-destructive"),
    ("delete", "tool-destructive"),
    ("tool_read", "tool-read"),
    ("tool_write", "tool-write"),
    ("tool_destructive", "tool-destructive"),
    ("call_tool_read", "tool-read"),
    ("call_tool_write", "tool-write"),
    ("call_tool_destructive", "tool-destructive"),
];
/// Tools that one hint names.
const NAMED_MAX: usize = 3;

/// Advises on a call without a variant, or with another word for it.
pub(super) fn without_variant(word: &str, args: &[String]) -> Option<Failure> {
    let failure = Failure::new(Exit::Usage, "`call` needs a variant that declares the effect of the call.");
    let at = args.iter().position(|arg| arg == word)?;
    let (before, rest) = (args.get(..at)?, args.get(at..)?);
    let with = |variant: &str, rest: &[String]| {
        command(&before.iter().cloned().chain([variant.to_owned()]).chain(rest.iter().cloned()).collect::<Vec<_>>())
    };
    if let Some((_, variant)) = WORDS.iter().find(|(known, _)| *known == word) {
        return Some(failure.hint(with(variant, rest.get(1..)?)));
    }
    if !word.contains(':') {
        return None;
    }
    Some(failure.hint(match variant_of(word, args) {
        Some(variant) => with(&variant, rest),
        None => {
            format!("{}, or tool-write or tool-destructive if it changes or deletes data", with("tool-read", rest))
        }
    }))
}

/// Advises on arguments of a tool that are not behind `--args`. `extra` are the positions of words after the tool.
pub(super) fn without_args(args: &[String], extra: &[usize]) -> Option<Failure> {
    let words: Vec<&str> = extra.iter().filter_map(|at| args.get(*at)).map(String::as_str).collect();
    let json = match words.as_slice() {
        [one] if one.starts_with(['{', '@']) => (*one).to_owned(),
        pairs => Value::Object(pairs.iter().map(|pair| member(pair)).collect::<Option<Map<_, _>>>()?).to_string(),
    };
    let at = *extra.first()?;
    let mut all: Vec<String> = args.get(..at)?.to_vec();
    all.extend(["--args".to_owned(), json]);
    all.extend(args.iter().enumerate().skip(at).filter(|(at, _)| !extra.contains(at)).map(|(_, arg)| arg.clone()));
    let message = "The arguments of a tool are one JSON object, after `--args`.";
    Some(Failure::new(Exit::Usage, message).hint(command(&all)))
}

/// Reads `key=value`. A value that is not JSON is a string.
fn member(pair: &str) -> Option<(String, Value)> {
    let (key, value) = pair.split_once('=').filter(|(key, _)| !key.is_empty() && !key.starts_with('-'))?;
    Some((key.to_owned(), serde_json::from_str(value).unwrap_or_else(|_| value.into())))
}

/// Advises on the name of a tool without its server.
pub(super) fn without_server(tool: &str, args: &[String]) -> Failure {
    let message = format!("`{}` is not the full name of a tool. Full names have the form `server:tool`.", line(tool));
    // `server/tool` and the name in direct mode, `server__tool`.
    let respelled = ["/", "__"].into_iter().map(|separator| tool.replacen(separator, ":", 1));
    if let Some(full) = respelled.into_iter().find(|name| ToolName::parse(name).is_ok()) {
        let with = |arg: &String| if arg == tool { full.clone() } else { arg.clone() };
        return Failure::new(Exit::Usage, message).hint(command(&args.iter().map(with).collect::<Vec<_>>()));
    }
    let found = tools_named(tool, args).unwrap_or_default();
    let hint = match found.as_slice() {
        [] => format!("find its full name with `mcpproxy tools search {}`", plain_word(tool)),
        [one] => {
            let with = |arg: &String| if arg == tool { one.clone() } else { arg.clone() };
            command(&args.iter().map(with).collect::<Vec<_>>())
        }
        several => {
            let named: Vec<String> = several.iter().take(NAMED_MAX).map(|name| format!("`{}`", line(name))).collect();
            format!("choose one of {}", named.join(", "))
        }
    };
    Failure::new(Exit::Usage, message).hint(hint)
}

/// Asks the running gateway for tools with this name, of any server.
fn tools_named(tool: &str, args: &[String]) -> Option<Vec<String>> {
    let home = Home::resolve(home_in(args.iter().map(Into::into))).ok()?;
    let answer = quickly(move || async move { Rest::connect(&home)?.ask(Method::GET, "/api/v1/tools").await })?;
    let names = answer.get("tools")?.as_array()?.iter().filter_map(|tool| tool.get("name")?.as_str());
    let is_named = |name: &&str| name.split_once(':').is_some_and(|(_, own)| own == tool);
    Some(names.filter(is_named).map(str::to_owned).collect())
}

/// Asks the running gateway which variant the tool needs.
fn variant_of(tool: &str, args: &[String]) -> Option<String> {
    let home = Home::resolve(home_in(args.iter().map(Into::into))).ok()?;
    let (server, name) = tool.split_once(':')?;
    let path = format!("/api/v1/tools/{server}/{name}");
    let answer = quickly(move || async move { Rest::connect(&home)?.ask(Method::GET, &path).await })?;
    let variant = answer.get("call_with")?.as_str()?.strip_prefix("call_")?.replace('_', "-");
    VARIANTS.contains(&variant.as_str()).then_some(variant)
}
