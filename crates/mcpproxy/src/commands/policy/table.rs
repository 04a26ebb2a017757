//! `policy table`: prints the checked-in decision table, as text or as JSON.

use mcpproxy_core::decision::TABLE;
use serde_json::{Map, Value};

use crate::exit::Exit;
use crate::terminal::output::Format;

pub(super) fn run(format: Format) -> anyhow::Result<Exit> {
    format.print(&json(TABLE), || TABLE.to_owned())?;
    Ok(Exit::Done)
}

/// Keys of `decisions` in JSON that differ from the short names of the columns.
const KEYS: [(&str, &str); 3] =
    [("readOnly", "readOnlyHint"), ("destructive", "destructiveHint"), ("strict", "strict_server_validation")];

/// Returns the table as JSON: a list of rows for each section.
///
/// A cell with alternatives is a list. `any` stays a word. The section `intent` has the key `decisions`, and its cells
/// have the types of the settings and annotations that they stand for.
fn json(table: &str) -> Value {
    let mut sections = Map::new();
    for block in table.split("\n\n") {
        let name = block.strip_prefix("# ").and_then(|title| title.split_once(':')).map_or("", |(name, _)| name);
        let mut lines = block.lines().filter(|line| !line.starts_with('#'));
        // The first block has no rows. It explains the notation.
        let Some(columns) = lines.next().map(cells) else { continue };
        let is_intent = name == "intent";
        let row = |line: &str| -> Value {
            let named = columns.iter().zip(cells(line));
            named.map(|(column, cell)| (key(column, is_intent), value(cell, is_intent))).collect::<Map<_, _>>().into()
        };
        sections.insert(if is_intent { "decisions" } else { name }.to_owned(), lines.map(row).collect());
    }
    sections.into()
}

/// Splits a line at two or more spaces. A cell can contain single spaces.
fn cells(line: &str) -> Vec<&str> {
    line.split("  ").map(str::trim).filter(|cell| !cell.is_empty()).collect()
}

fn key(column: &str, is_intent: bool) -> String {
    let long = KEYS.iter().find(|(short, _)| is_intent && *short == column);
    long.map_or(column, |(_, long)| long).to_owned()
}

fn value(cell: &str, is_typed: bool) -> Value {
    let typed = |word: &str| match word {
        "-" if is_typed => Value::Null,
        "true" if is_typed => true.into(),
        "false" if is_typed => false.into(),
        word => word.into(),
    };
    if cell.contains('|') { cell.split('|').map(typed).collect() } else { typed(cell) }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::{TABLE, json};

    #[test]
    fn cells_become_values_lists_and_any() {
        let table = "\
# How to read it.

# intent: declarations (6 combinations)
#   variant: read|write
variant     declared  readOnly  destructive  strict  outcome
read|write  -         -|true    any          true    deny A, use b

# user: approvals (2 combinations)
by  seen                   autonomous  outcome
-   10 min ago|ahead       true        ask confirmation + step_up
";
        let expected = json!({
            "decisions": [{
                "variant": ["read", "write"],
                "declared": null,
                "readOnlyHint": [null, true],
                "destructiveHint": "any",
                "strict_server_validation": true,
                "outcome": "deny A, use b",
            }],
            "user": [{
                "by": "-",
                "seen": ["10 min ago", "ahead"],
                "autonomous": "true",
                "outcome": "ask confirmation + step_up",
            }],
        });
        assert_eq!(json(table), expected);
    }

    #[test]
    fn every_line_is_a_row_with_an_outcome() {
        let json = json(TABLE);
        let sections = json.as_object().unwrap();
        let names: Vec<&str> = sections.keys().map(String::as_str).collect();
        assert_eq!(names, ["decisions", "contract", "user", "dry_run", "permissions"]);
        let rows: Vec<&serde_json::Value> = sections.values().flat_map(|rows| rows.as_array().unwrap()).collect();
        let lines = TABLE.lines().filter(|line| !line.is_empty() && !line.starts_with('#')).count();
        assert_eq!(rows.len(), lines - sections.len(), "one line of each section has the names of its columns");
        for row in rows {
            let outcome = row["outcome"].as_str().unwrap();
            let is_known = ["allow", "ask", "deny", "preview", "repeat"].iter().any(|word| outcome.starts_with(word));
            assert!(is_known, "{row}");
        }
    }
}
