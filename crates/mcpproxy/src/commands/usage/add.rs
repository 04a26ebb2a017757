//! Advice for `servers add` with options that other programs have, such as `--name`, `--command` and `--args`.

use super::{WITH_VALUE, command};
use crate::exit::{Exit, Failure};

const NAME: &str = "--name";
const COMMAND: &str = "--command";
const ARGS: &str = "--args";
/// Says how to connect, which follows from the command or URL here.
const TRANSPORT: &str = "--transport";
const TYPE: &str = "--type";
/// The options of other programs. The first two words that are no options stand for the first two of them.
const FOREIGN: [&str; 5] = [NAME, COMMAND, ARGS, TRANSPORT, TYPE];

/// Returns whether the line uses one of the options.
pub(super) fn has_options(args: &[String]) -> bool {
    let own = args.iter().take_while(|arg| *arg != "--");
    own.into_iter().any(|arg| FOREIGN.iter().any(|option| option_value(arg, option).is_some()))
}

/// Rebuilds the line with the name and the command where this program expects them.
pub(super) fn advice(args: &[String]) -> Option<Failure> {
    let (mut options, mut words) = (Vec::new(), Vec::new());
    let (mut name, mut program, mut rest) = (None, None, Vec::new());
    let mut left = args.iter();
    while let Some(arg) = left.next() {
        if arg == "--" {
            rest.extend(left.by_ref().cloned());
            break;
        }
        let foreign = FOREIGN.into_iter().find_map(|option| Some((option, option_value(arg, option)?)));
        if let Some((option, value)) = foreign {
            let value = value.map_or_else(|| left.next().cloned(), |value| Some(value.to_owned()))?;
            match option {
                NAME => name = Some(value),
                COMMAND => program = Some(value),
                TRANSPORT | TYPE => {}
                _ => rest.push(value),
            }
        } else if arg.starts_with('-') && arg.len() > 1 {
            options.push(arg.clone());
            if WITH_VALUE.contains(&arg.as_str()) {
                options.extend(left.next().cloned());
            }
        } else {
            words.push(arg.clone());
        }
    }
    // `servers` and `add`.
    let mut words = words.into_iter().skip(2);
    let name = name.or_else(|| words.next()).unwrap_or_else(|| "NAME".to_owned());
    // People put the whole command line into one argument.
    let mut started: Vec<String> = program.iter().flat_map(|line| line.split_whitespace()).map(str::to_owned).collect();
    started.extend(words.chain(rest));
    let (global, own): (Vec<_>, Vec<_>) = split_home(options);
    let mut all: Vec<String> = global;
    all.extend(["servers".to_owned(), "add".to_owned(), name]);
    all.extend(own);
    if !started.is_empty() {
        all.push("--".to_owned());
        all.extend(started);
    }
    let message = "The name of a server is the first argument of `servers add`. Its command follows `--`.";
    Some(Failure::new(Exit::Usage, message).hint(command(&all)))
}

/// Returns the value of `--option=VALUE`, `Some(None)` for `--option`, and `None` for something else.
fn option_value<'a>(arg: &'a str, option: &str) -> Option<Option<&'a str>> {
    let rest = arg.strip_prefix(option)?;
    if rest.is_empty() { Some(None) } else { rest.strip_prefix('=').map(Some) }
}

/// Puts `--home DIR` in front, where other hints have it.
fn split_home(options: Vec<String>) -> (Vec<String>, Vec<String>) {
    let mut options = options.into_iter();
    let (mut home, mut others) = (Vec::new(), Vec::new());
    while let Some(option) = options.next() {
        match option.as_str() {
            "--home" => home.extend(std::iter::once(option).chain(options.next())),
            _ => others.push(option),
        }
    }
    (home, others)
}
