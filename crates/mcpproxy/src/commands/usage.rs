//! Advice for command lines that clap refuses.
//!
//! clap explains which argument is wrong. People who type one of these lines need to know what to type instead.

use clap::error::ErrorKind;

use crate::client::Rest;
use crate::client::quick::quickly;
use crate::commands::names::home_in;
use crate::exit::{Exit, Failure};
use crate::home::Home;
use crate::terminal::output::line;
use crate::terminal::shell::plain_word;

/// Words that people type, and the command that they mean.
const SYNONYMS: &[(&str, &str)] = &[
    ("start", "mcpproxy serve"),
    ("run", "mcpproxy serve"),
    ("up", "mcpproxy serve"),
    ("ls", "mcpproxy servers list"),
    ("list", "mcpproxy servers list"),
    ("add", "mcpproxy servers add NAME -- COMMAND"),
    ("remove", "mcpproxy servers remove NAME"),
    ("search", "mcpproxy tools search QUERY"),
    ("log", "mcpproxy activity list"),
    ("logs", "mcpproxy servers logs NAME"),
    ("history", "mcpproxy activity list"),
    ("approve", "mcpproxy approvals approve ID"),
    ("deny", "mcpproxy approvals deny ID"),
    ("agents", "mcpproxy token list"),
    ("ui", "mcpproxy open"),
    ("console", "mcpproxy open"),
    ("check", "mcpproxy doctor"),
    ("health", "mcpproxy status"),
    ("info", "mcpproxy status"),
    ("version", "mcpproxy --version"),
];
/// Options of `servers add` and global options that take a value.
const WITH_VALUE: &[&str] = &["--home", "-o", "--output", "--env", "--header", "--url"];

/// Returns the arguments, with `help COMMAND` as `COMMAND --help`.
pub(crate) fn with_help(args: Vec<String>) -> Vec<String> {
    let mut args = args;
    let Some(at) = positions(&args).first().copied().filter(|at| args.get(*at).is_some_and(|arg| arg == "help")) else {
        return args;
    };
    args.remove(at);
    if !args.iter().any(|arg| arg == "--help" || arg == "-h") {
        args.push("--help".to_owned());
    }
    args
}

/// Returns better advice than clap's own message, where there is one.
pub(crate) fn advice(kind: ErrorKind, args: &[String]) -> Option<Failure> {
    let positions = positions(args);
    let words: Vec<&str> = positions.iter().filter_map(|at| args.get(*at)).map(String::as_str).collect();
    match (kind, words.as_slice()) {
        (ErrorKind::UnknownArgument, ["servers", "add", name, program, ..]) => {
            let split = *positions.get(3)?;
            Some(without_dashes(name, program, args.get(..split)?, args.get(split..)?))
        }
        (ErrorKind::InvalidSubcommand, ["call", tool, ..]) if tool.contains(':') => Some(without_variant(tool, args)),
        _ => None,
    }
}

/// Returns a hint to print below clap's message.
pub(crate) fn hint(kind: ErrorKind, args: &[String]) -> Option<String> {
    let first = positions(args).first().and_then(|at| args.get(*at))?;
    let command = SYNONYMS.iter().find(|(word, _)| word == first).map(|(_, command)| command)?;
    (kind == ErrorKind::InvalidSubcommand).then(|| format!("use `{command}`"))
}

fn without_dashes(name: &str, program: &str, before: &[String], command: &[String]) -> Failure {
    let quoted = |words: &[String]| words.iter().map(|word| plain_word(word)).collect::<Vec<_>>().join(" ");
    if program.starts_with("http://") || program.starts_with("https://") {
        let message = format!("`{}` is the URL of server `{}`. Put `--url` in front of it.", line(program), line(name));
        return Failure::new(Exit::Usage, message).hint(format!(
            "mcpproxy {} --url {}",
            quoted(before),
            quoted(command)
        ));
    }
    let message =
        format!("`{}` starts the command of server `{}`. Put `--` in front of it.", line(program), line(name));
    Failure::new(Exit::Usage, message).hint(format!("mcpproxy {} -- {}", quoted(before), quoted(command)))
}

fn without_variant(tool: &str, args: &[String]) -> Failure {
    let at = args.iter().position(|arg| arg == tool).unwrap_or_default();
    let rest: Vec<String> = args.iter().skip(at + 1).map(|word| plain_word(word)).collect();
    let rest = if rest.is_empty() { String::new() } else { format!(" {}", rest.join(" ")) };
    let tool_word = plain_word(tool);
    let message = "`call` needs a variant that declares the effect of the call.";
    let variant = variant_of(tool, args);
    let hint = match variant {
        Some(variant) => format!("mcpproxy call {variant} {tool_word}{rest}"),
        None => format!(
            "mcpproxy call tool-read {tool_word}{rest}, or tool-write or tool-destructive if it changes or deletes data"
        ),
    };
    Failure::new(Exit::Usage, message).hint(hint)
}

/// Asks the running gateway which variant the tool needs.
fn variant_of(tool: &str, args: &[String]) -> Option<String> {
    let home = Home::resolve(home_in(args.iter().map(Into::into))).ok()?;
    let (server, name) = tool.split_once(':')?;
    let path = format!("/api/v1/tools/{server}/{name}");
    let answer = quickly(move || async move { Rest::connect(&home)?.ask(http::Method::GET, &path).await })?;
    let variant = answer.get("call_with")?.as_str()?.strip_prefix("call_")?.replace('_', "-");
    ["tool-read", "tool-write", "tool-destructive"].contains(&variant.as_str()).then_some(variant)
}

/// Returns the positions of words that are neither options nor their values, up to `--`.
fn positions(args: &[String]) -> Vec<usize> {
    let mut found = Vec::new();
    let mut is_value = false;
    for (at, arg) in args.iter().enumerate() {
        if arg == "--" {
            break;
        }
        if is_value {
            is_value = false;
        } else if arg.starts_with('-') && arg.len() > 1 {
            is_value = WITH_VALUE.contains(&arg.as_str());
        } else {
            found.push(at);
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str) -> Vec<String> {
        text.split(' ').filter(|word| !word.is_empty()).map(str::to_owned).collect()
    }

    #[test]
    fn help_is_an_option() {
        let check = |given: &str, expected: &str| assert_eq!(with_help(words(given)), words(expected), "{given}");
        check("help", "--help");
        check("help servers add", "servers add --help");
        check("--home /data help servers", "--home /data servers --help");
        check("help servers --help", "servers --help");
        check("servers list", "servers list");
        check("servers logs help", "servers logs help");
        check("servers add x -- help", "servers add x -- help");
    }

    #[test]
    fn a_command_without_dashes() {
        let check = |given: &str, expected: &str| {
            let advice = advice(ErrorKind::UnknownArgument, &words(given)).unwrap();
            let text = crate::exit::report(&Err(advice.into())).1.unwrap();
            assert_eq!(text.lines().last().unwrap(), expected, "{given}");
        };
        check("servers add foo npx -y pkg", "hint: mcpproxy servers add foo -- npx -y pkg");
        check("servers add foo --env A=b npx -y pkg", "hint: mcpproxy servers add foo --env A=b -- npx -y pkg");
        check("--home /d servers add foo npx $X", "hint: mcpproxy --home /d servers add foo -- npx '$X'");
        let http = "hint: mcpproxy servers add web --url https://h/mcp";
        check("servers add web https://h/mcp", http);
        check("servers add web https://h/mcp --header A=b", &format!("{http} --header A=b"));
        check("servers add foo httpie -y", "hint: mcpproxy servers add foo -- httpie -y");
        assert!(advice(ErrorKind::UnknownArgument, &words("servers add foo --nonsense")).is_none());
        assert!(advice(ErrorKind::UnknownArgument, &words("tools list foo")).is_none());
    }

    #[test]
    fn words_that_people_type() {
        let hint = |given: &str| hint(ErrorKind::InvalidSubcommand, &words(given));
        assert_eq!(hint("start").as_deref(), Some("use `mcpproxy serve`"));
        assert_eq!(hint("--home /d ui").as_deref(), Some("use `mcpproxy open`"));
        assert_eq!(hint("nonsense"), None);
    }
}
