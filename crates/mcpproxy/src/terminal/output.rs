//! What goes to standard output: a table for people, JSON or YAML for programs.

use std::io::{self, IsTerminal as _, Write as _};

use anyhow::Context as _;
use clap::ValueEnum;
use comfy_table::{ContentArrangement, Table, presets};
use mcpproxy_core::Untrusted;
use serde::Serialize;
use serde_json::Value;

use crate::terminal::visible;

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    Table,
    Json,
    Yaml,
}

impl Format {
    /// Prints `value` for programs, or what `text` makes of it for people.
    pub(crate) fn print(self, value: &impl Serialize, text: impl FnOnce() -> String) -> anyhow::Result<()> {
        match self {
            Self::Table => print(&text()),
            Self::Json => print(&visible::json_pretty(value)?),
            Self::Yaml => print(&visible::yaml(value)?),
        }
    }
}

/// Writes one text to standard output, ended by a line break.
pub(crate) fn print(text: &str) -> anyhow::Result<()> {
    let mut out = io::stdout().lock();
    out.write_all(text.as_bytes())?;
    if !text.is_empty() && !text.ends_with('\n') {
        out.write_all(b"\n")?;
    }
    out.flush().context("could not print")
}

/// Says something to the user, on standard error. A closed standard error is nobody's problem.
pub(crate) fn tell(text: &str) {
    let _nobody_listens = writeln!(io::stderr().lock(), "{}", text.trim_end_matches('\n'));
}

/// Makes a sound, where standard error is a terminal.
pub(crate) fn ring() {
    let mut terminal = io::stderr().lock();
    if terminal.is_terminal() {
        let _nobody_listens = terminal.write_all(b"\x07").and_then(|()| terminal.flush());
    }
}

/// A table that fits the terminal; without a terminal every row is one line.
pub(crate) fn table(header: &[&str], rows: impl IntoIterator<Item = Vec<String>>) -> String {
    let mut table = Table::new();
    table.load_style(presets::NOTHING).set_header(header.to_vec());
    table.set_content_arrangement(if io::stdout().is_terminal() {
        ContentArrangement::Dynamic
    } else {
        ContentArrangement::Disabled
    });
    for row in rows {
        table.add_row(row);
    }
    for (index, column) in table.column_iter_mut().enumerate() {
        column.set_padding((u16::from(index > 0), 1));
    }
    table.lines().map(|line| line.trim_end().to_owned() + "\n").collect()
}

/// Words of others as one line for the terminal.
pub(crate) fn line(text: &str) -> String {
    Untrusted::new(text).for_terminal().into_owned()
}

/// Words of others, on as many lines as they have.
pub(crate) fn lines(text: &str) -> String {
    Untrusted::new(text).for_terminal_lines().into_owned()
}

/// A member of a JSON object as one line; a dash when it is not there.
pub(crate) fn member(value: &Value, name: &str) -> String {
    match value.get(name) {
        None | Some(Value::Null) => "-".to_owned(),
        Some(Value::String(text)) => line(text),
        Some(other) => line(&other.to_string()),
    }
}

/// A count with its noun: `1 file`, `2 files`, `2 policies`.
pub(crate) fn counted(count: usize, noun: &str) -> String {
    match (count, noun.strip_suffix('y')) {
        (1, _) => format!("1 {noun}"),
        (count, Some(stem)) => format!("{count} {stem}ies"),
        (count, None) => format!("{count} {noun}s"),
    }
}

/// At most so many characters, with an ellipsis in place of the rest.
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
    fn tables_are_plain_lines() {
        let rows = [vec!["a".to_owned(), "ready".to_owned()], vec!["longer".to_owned(), "waiting".to_owned()]];
        assert_eq!(table(&["NAME", "STATE"], rows), "NAME    STATE\na       ready\nlonger  waiting\n");
    }

    #[test]
    fn words_of_others() {
        assert_eq!(member(&serde_json::json!({"a": "x\u{1b}[2J"}), "a"), "x\\u{1b}[2J");
        assert_eq!(member(&serde_json::json!({"a": null}), "a"), "-");
        assert_eq!(shorten("abcdef", 4), "abc…");
        assert_eq!(shorten("abcd", 4), "abcd");
        assert_eq!((counted(0, "file"), counted(1, "file")), ("0 files".to_owned(), "1 file".to_owned()));
        assert_eq!((counted(1, "policy"), counted(2, "policy")), ("1 policy".to_owned(), "2 policies".to_owned()));
    }
}
