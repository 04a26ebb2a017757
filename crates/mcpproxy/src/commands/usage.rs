//! Advice for command lines that clap refuses.
//!
//! clap explains which argument is wrong. People who type one of these lines need to know what to type instead. Advice
//! replaces clap's message, because clap's own tip names the command with the most similar spelling, which is often
//! another one.

mod add;
mod call;
mod words;

use clap::error::{ContextKind, ContextValue, ErrorKind};
use mcpproxy_store::LIMIT_MAX;

use crate::exit::{Exit, Failure};
use crate::terminal::output::line;
use crate::terminal::shell::plain_word;

/// Options that take a value, so that the value is not mistaken for a command.
const WITH_VALUE: &[&str] = &[
    "--home",
    "-o",
    "--output",
    "--env",
    "--header",
    "--url",
    "--listen",
    "--port",
    "-p",
    "--args",
    "--json-args",
    "--reason",
    "--sensitivity",
    "--idempotency-key",
    "--approval-id",
    "--tool-name",
];
/// Options with which people name a port.
const PORTS: [&str; 3] = ["--listen", "--port", "-p"];

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
        (ErrorKind::UnknownArgument, ["servers", "add", ..]) if add::has_options(args) => add::advice(args),
        (ErrorKind::UnknownArgument, ["servers", "add", name, given, ..]) => {
            let split = *positions.get(3)?;
            Some(without_dashes(name, given, args.get(..split)?, args.get(split..)?))
        }
        (ErrorKind::UnknownArgument | ErrorKind::ValueValidation, [] | ["serve"]) => listen(args),
        (ErrorKind::InvalidSubcommand, ["call", word, ..]) => {
            call::without_variant(word, args).or_else(|| words::misspelled(&words, &positions, args))
        }
        (ErrorKind::UnknownArgument, ["activity", "export", ..]) => export_limit(args),
        (ErrorKind::UnknownArgument, ["call", _, _, _, ..]) => call::without_args(args, positions.get(3..)?),
        (ErrorKind::ValueValidation, ["call", _, tool, ..] | ["tools" | "contract", "show", tool, ..])
            if !tool.contains(':') =>
        {
            Some(call::without_server(tool, args))
        }
        (ErrorKind::InvalidSubcommand, words) => {
            words::advice(words, args).or_else(|| words::misspelled(words, &positions, args))
        }
        _ => None,
    }
}

/// Removes clap's tip to write `-- --option`. People who mistype an option do not mean a value.
pub(crate) fn remove_tip_to_escape(error: &mut clap::Error) {
    let tips = |value: &ContextValue| value.to_string().contains("as a value, use '");
    if error.kind() == ErrorKind::UnknownArgument && error.get(ContextKind::Suggested).is_some_and(tips) {
        error.remove(ContextKind::Suggested);
    }
}

/// Joins arguments to a command line that can be pasted.
fn command(args: &[String]) -> String {
    let words: Vec<String> = args.iter().map(|word| plain_word(word)).collect();
    format!("mcpproxy {}", words.join(" "))
}

fn without_dashes(name: &str, given: &str, before: &[String], rest: &[String]) -> Failure {
    let (given, name) = (line(given), line(name));
    let is_url = given.starts_with("http://") || given.starts_with("https://");
    let (message, option) = match is_url {
        true => (format!("`{given}` is the URL of server `{name}`. Put `--url` in front of it."), "--url"),
        false => (format!("`{given}` starts the command of server `{name}`. Put `--` in front of it."), "--"),
    };
    let all: Vec<String> = before.iter().cloned().chain([option.to_owned()]).chain(rest.iter().cloned()).collect();
    Failure::new(Exit::Usage, message).hint(command(&all))
}

/// Advises on the number of records of an export, which has everything that matches.
fn export_limit(args: &[String]) -> Option<Failure> {
    let at = args.iter().position(|arg| arg == "--limit" || arg.starts_with("--limit="))?;
    let given = args.get(at)?.split_once('=').map(|(_, value)| value).or_else(|| args.get(at + 1).map(String::as_str));
    let given: usize = given?.parse().ok()?;
    // `activity list` refuses a larger limit.
    let list = format!("mcpproxy activity list --limit {} -o json", given.clamp(1, LIMIT_MAX));
    let message = "An export has all records that match, so it has no `--limit`.";
    Some(
        Failure::new(Exit::Usage, message)
            .hint(format!("export the records of a time with `--since`, or list the newest with `{list}`")),
    )
}

/// Advises on a port without an address.
fn listen(args: &[String]) -> Option<Failure> {
    let (at, option) = args.iter().enumerate().find_map(|(at, arg)| {
        let option = PORTS.into_iter().find(|option| arg == option || arg.starts_with(&format!("{option}=")))?;
        Some((at, option))
    })?;
    let given = args.get(at)?.split_once('=').map(|(_, value)| value).or_else(|| args.get(at + 1).map(String::as_str));
    let port: u16 = given?.trim_start_matches(':').parse().ok()?;
    let message = match option {
        "--listen" => "`--listen` needs an address and a port.".to_owned(),
        other => format!("`serve` has no option `{other}`. The option `--listen` takes an address and a port."),
    };
    Some(Failure::new(Exit::Usage, message).hint(format!("mcpproxy serve --listen 127.0.0.1:{port}")))
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

    /// Returns the hint for a command line that clap refuses, or `None` if clap's own message is better.
    fn hint(given: &str) -> Option<String> {
        use clap::Parser as _;
        let args = words(given);
        let error = crate::commands::Cli::try_parse_from(words("mcpproxy").iter().chain(&args)).unwrap_err();
        let advice = advice(error.kind(), &args)?;
        let text = crate::exit::report(&Err(advice.into())).1.unwrap();
        Some(text.lines().last().unwrap().to_owned())
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
    fn command_lines_that_people_type() {
        let check = |given: &str, expected: Option<&str>| assert_eq!(hint(given).as_deref(), expected, "{given}");
        check("servers add foo npx -y pkg", Some("hint: mcpproxy servers add foo -- npx -y pkg"));
        check("servers add foo --env A=b npx -y pkg", Some("hint: mcpproxy servers add foo --env A=b -- npx -y pkg"));
        check("--home /d servers add foo npx $X", Some("hint: mcpproxy --home /d servers add foo -- npx '$X'"));
        check(
            "servers add web https://a.example/mcp",
            Some("hint: mcpproxy servers add web --url https://a.example/mcp"),
        );
        check("servers add foo --nonsense", None);
        check("servers add --name foo --command npx", Some("hint: mcpproxy servers add foo -- npx"));
        check(
            "--home /d servers add foo --env A=b --command=npx --args -y --args pkg",
            Some("hint: mcpproxy --home /d servers add foo --env A=b -- npx -y pkg"),
        );
        check("servers add --name web --url http://h/mcp", Some("hint: mcpproxy servers add web --url http://h/mcp"));
        check("servers add foo --transport stdio --command npx", Some("hint: mcpproxy servers add foo -- npx"));
        check("servers add --command npx", Some("hint: mcpproxy servers add NAME -- npx"));
        // The suggested command must be valid.
        for (given, limit) in [("1", 1), ("500", 500), ("501", 500), ("10000", 500), ("0", 1)] {
            let list = format!("mcpproxy activity list --limit {limit} -o json");
            let hint = format!("hint: export the records of a time with `--since`, or list the newest with `{list}`");
            check(&format!("activity export --limit {given}"), Some(hint.as_str()));
        }
        check("activity export --nonsense", None);
        check("tools list foo", None);
        check("serve --port 9000", Some("hint: mcpproxy serve --listen 127.0.0.1:9000"));
        check("serve -p=9000", Some("hint: mcpproxy serve --listen 127.0.0.1:9000"));
        check("--port 9000", Some("hint: mcpproxy serve --listen 127.0.0.1:9000"));
        check("serve --listen 9000", Some("hint: mcpproxy serve --listen 127.0.0.1:9000"));
        check("serve --listen :9000", Some("hint: mcpproxy serve --listen 127.0.0.1:9000"));
        check("serve --listen nowhere", None);
        check("serve --nonsense", None);
        check("start", Some("hint: use `mcpproxy serve`"));
        check("--home /d ui", Some("hint: use `mcpproxy open`"));
        check("servers delete docs", Some("hint: use `mcpproxy servers remove docs`"));
        check("servers delete", Some("hint: use `mcpproxy servers remove NAME`"));
        check("token rm ci", Some("hint: use `mcpproxy token revoke ci`"));
        check("serv", Some("hint: use `mcpproxy serve`"));
        check("server list", Some("hint: use `mcpproxy servers list`"));
        check("server logs x --lines 5", Some("hint: use `mcpproxy servers logs x --lines 5`"));
        check("--home /d tools serch foo", Some("hint: use `mcpproxy --home /d tools search foo`"));
        check("servers lst -o json", Some("hint: use `mcpproxy servers list -o json`"));
        check("nonsense", Some("hint: list the commands with `mcpproxy --help`"));
        check("policy nonsense", Some("hint: list the commands with `mcpproxy policy --help`"));
    }

    #[test]
    fn no_tip_says_that_an_option_is_a_value() {
        use clap::Parser as _;
        for given in ["activity export --nonsense", "tools show --nonsense"] {
            let args = words(given);
            let mut error = crate::commands::Cli::try_parse_from(words("mcpproxy").iter().chain(&args)).unwrap_err();
            assert!(error.to_string().contains("-- --nonsense"), "clap gives this tip: {error}");
            remove_tip_to_escape(&mut error);
            assert!(error.to_string().contains("--nonsense") && !error.to_string().contains("-- --"), "{error}");
        }
    }

    #[test]
    fn calls_that_people_type() {
        let check = |given: &str, expected: Option<&str>| assert_eq!(hint(given).as_deref(), expected, "{given}");
        check("--home /none call read demo:x", Some("hint: mcpproxy --home /none call tool-read demo:x"));
        check("--home /none call delete demo:x", Some("hint: mcpproxy --home /none call tool-destructive demo:x"));
        check("--home /none call tool_read demo:x", Some("hint: mcpproxy --home /none call tool-read demo:x"));
        check("call tool-raed demo:x", Some("hint: use `mcpproxy call tool-read demo:x`"));
        check("call nonsense demo:x", Some("hint: list the commands with `mcpproxy call --help`"));
        check(
            "--home /none call demo:x --reason why",
            Some(
                "hint: mcpproxy --home /none call tool-read demo:x --reason why, or tool-write or tool-destructive if it \
                 changes or deletes data",
            ),
        );
        check(
            "--home /none call tool-read demo:x {\"a\":1} --reason why",
            Some("hint: mcpproxy --home /none call tool-read demo:x --args '{\"a\":1}' --reason why"),
        );
        check(
            "call tool-read demo:x id=5 name=ada on=true",
            Some("hint: mcpproxy call tool-read demo:x --args '{\"id\":5,\"name\":\"ada\",\"on\":true}'"),
        );
        check("call tool-read demo:x y z", None);
        check(
            "--home /none call tool-read list_projects",
            Some("hint: find its full name with `mcpproxy tools search list_projects`"),
        );
        check("call tool-read demo/list_projects", Some("hint: mcpproxy call tool-read demo:list_projects"));
        check("tools show demo__list_projects", Some("hint: mcpproxy tools show demo:list_projects"));
        check(
            "--home /none tools show list_projects",
            Some("hint: find its full name with `mcpproxy tools search list_projects`"),
        );
    }
}
