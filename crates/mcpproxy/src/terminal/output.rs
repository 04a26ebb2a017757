//! Prints data on standard output and messages on standard error.

use std::io::{self, IsTerminal as _, Write as _};
use std::sync::OnceLock;

use anyhow::Context as _;
use clap::ValueEnum;
use mcpproxy_core::Untrusted;
use serde::Serialize;
use serde_json::Value;

use crate::terminal::listing::{self, Cell};
use crate::terminal::size::{columns, message_columns};
use crate::terminal::style::{Colours, Tone};
use crate::terminal::visible;
use crate::terminal::wrap::{self, hanging};

/// The format of data on standard output.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// Tables and text for people
    Table,
    /// JSON for programs
    Json,
    /// YAML for programs
    Yaml,
}

impl Format {
    /// Prints `value` as JSON or YAML, or the result of `text` as a table.
    pub(crate) fn print(self, value: &impl Serialize, text: impl FnOnce() -> String) -> anyhow::Result<()> {
        match self {
            Self::Table => print(&text()),
            Self::Json => print(&visible::json_pretty(value)?),
            Self::Yaml => print(&visible::yaml(value)?),
        }
    }
}

/// Prints a text on standard output and ends it with a line break.
pub(crate) fn print(text: &str) -> anyhow::Result<()> {
    let mut out = io::stdout().lock();
    out.write_all(text.as_bytes())?;
    if !text.is_empty() && !text.ends_with('\n') {
        out.write_all(b"\n")?;
    }
    out.flush().context("could not print")
}

/// Changes commands in messages, so that they can be copied. Set once, at the start of the program.
static COMMANDS: OnceLock<Rewrite> = OnceLock::new();

type Rewrite = Box<dyn Fn(&str) -> String + Send + Sync>;

/// Makes every message pass through `rewrite`. Messages name commands in many places, and most of these places do not
/// know the data folder that the commands need.
pub(crate) fn rewrite_commands(rewrite: impl Fn(&str) -> String + Send + Sync + 'static) {
    let _set_before = COMMANDS.set(Box::new(rewrite));
}

/// Prints a message on standard error, wrapped if that is a terminal. A closed standard error is not an error.
pub(crate) fn tell(text: &str) {
    write_error(&fitted_message(text));
}

/// Makes the commands of a message complete, and wraps it. Commands come first, because they make it longer.
fn fitted_message(text: &str) -> String {
    let text = text.trim_end_matches('\n');
    let text = COMMANDS.get().map_or_else(|| text.to_owned(), |rewrite| rewrite(text));
    message_columns().map_or_else(|| text.clone(), |columns| wrap::message(&text, columns))
}

/// Wraps a line of data to the width of the terminal, and indents every line but the first. In a pipe, it stays whole.
pub(crate) fn fitted(text: &str, indent: usize) -> String {
    columns().map_or_else(|| text.to_owned(), |columns| hanging(text, columns, indent))
}

fn write_error(text: &str) {
    let _stderr_is_closed = writeln!(io::stderr().lock(), "{text}");
}

/// Prints an error on standard error: `error:` and `hint:` stand out.
pub(crate) fn tell_error(text: &str) {
    let colours = Colours::of(&io::stderr());
    let lines: Vec<String> = fitted_message(&format!("error: {text}"))
        .lines()
        .map(|line| {
            let label = [("error:", Tone::Bad), ("hint:", Tone::Strong), ("warning:", Tone::Warning)];
            let found = label.into_iter().find_map(|(label, tone)| Some((label, tone, line.strip_prefix(label)?)));
            found.map_or_else(|| line.to_owned(), |(label, tone, rest)| format!("{}{rest}", colours.paint(tone, label)))
        })
        .collect();
    write_error(&lines.join("\n"));
}

/// Prints a warning on standard error, wrapped if that is a terminal.
pub(crate) fn warn(text: &str) {
    let text = fitted_message(&format!("{WARNING} {text}"));
    write_error(&text.replacen(WARNING, &Colours::of(&io::stderr()).paint(Tone::Warning, WARNING), 1));
}

const WARNING: &str = "warning:";

/// Rings the terminal bell if standard error is a terminal.
pub(crate) fn ring() {
    let mut terminal = io::stderr().lock();
    if terminal.is_terminal() {
        let _stderr_is_closed = terminal.write_all(b"\x07").and_then(|()| terminal.flush());
    }
}

/// Formats a table that fits the terminal and cuts nothing. See [`listing`] for the layouts.
pub(crate) fn table<C: Into<Cell>>(header: &[&str], rows: impl IntoIterator<Item = Vec<C>>) -> String {
    listing::table(header, rows)
}

/// Escapes untrusted text for one line of the terminal.
pub(crate) fn line(text: &str) -> String {
    Untrusted::new(text).for_terminal().into_owned()
}

/// Escapes untrusted text for the terminal and keeps its line breaks.
pub(crate) fn lines(text: &str) -> String {
    Untrusted::new(text).for_terminal_lines().into_owned()
}

/// Returns a member of a JSON object as one escaped line, or a dash if it is missing.
pub(crate) fn member(value: &Value, name: &str) -> String {
    match value.get(name) {
        None | Some(Value::Null) => "-".to_owned(),
        Some(Value::String(text)) => line(text),
        Some(other) => line(&other.to_string()),
    }
}

/// Ends a text with a full stop, unless it already ends like a sentence.
pub(crate) fn sentence(text: &str) -> String {
    let text = text.trim_end();
    if text.ends_with(['.', '?', '!', '…']) { text.to_owned() } else { format!("{text}.") }
}

/// Formats a number with separators: `12,345`.
pub(crate) fn grouped(number: impl TryInto<u64>) -> String {
    let digits = number.try_into().unwrap_or_default().to_string();
    let mut out = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

/// Formats a count with its noun: `1 server`, `2 servers`.
pub(crate) fn counted(count: usize, word: &str) -> String {
    counted_as(count, word, &format!("{word}s"))
}

/// Formats a count with a noun whose plural is irregular: `1 policy`, `2 policies`.
pub(crate) fn counted_as(count: usize, one: &str, many: &str) -> String {
    format!("{count} {}", if count == 1 { one } else { many })
}

/// Shortens a text to `max_chars` characters, the last of which is an ellipsis.
pub(crate) fn shorten(text: &str, max_chars: usize) -> String {
    if text.chars().count() <= max_chars {
        return text.to_owned();
    }
    text.chars().take(max_chars.saturating_sub(1)).chain(['…']).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_of_others() {
        assert_eq!(member(&serde_json::json!({"a": "x\u{1b}[2J"}), "a"), "x\\u{1b}[2J");
        assert_eq!(member(&serde_json::json!({"a": null}), "a"), "-");
        assert_eq!(shorten("abcdef", 4), "abc…");
        assert_eq!([sentence("gone"), sentence("gone."), sentence("gone? ")], ["gone.", "gone.", "gone?"]);
        assert_eq!(shorten("abcd", 4), "abcd");
        assert_eq!((counted(0, "server"), counted(1, "server")), ("0 servers".to_owned(), "1 server".to_owned()));
    }
}
