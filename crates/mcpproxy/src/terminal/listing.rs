//! Formats lists that fit the terminal and never break a name, so that names can be copied.

use comfy_table::{ColumnConstraint, ContentArrangement, Row, Table, Width, presets};

use crate::terminal::output::{shorten, table};

const GAP: u16 = 2;
/// Minimum useful width of the last column.
const LAST_ENOUGH: u16 = 24;
/// Minimum width of the name column.
const NAMES_MIN: u16 = 16;

/// Formats rows that start with a name and end with text that may be cut. Without a terminal, nothing is cut.
pub(crate) fn listing(header: &[&str], rows: Vec<Vec<String>>) -> String {
    fitted(header, rows, Table::new().width())
}

fn fitted(header: &[&str], rows: Vec<Vec<String>>, terminal: Option<u16>) -> String {
    let Some(room) = terminal else { return table(header, rows) };
    let header = header.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
    let widths = plain(std::iter::once(&header).chain(&rows)).column_max_content_widths();
    let [name, middle @ .., last] = widths.as_slice() else { return table(&[], rows) };
    let between: u16 = middle.iter().fold(GAP, |sum, width| sum.saturating_add(*width).saturating_add(GAP));
    let least = (*last).min(LAST_ENOUGH);
    let Some(names) = room.checked_sub(between.saturating_add(least)).filter(|left| *left >= NAMES_MIN.min(*name))
    else {
        return rows.iter().map(|row| block(row, room)).collect();
    };
    let names = names.min(*name);
    let last = (*last).min(room.saturating_sub(between).saturating_sub(names));
    let widths: Vec<u16> = [&[names][..], middle, &[last]].concat();
    columns(&header, rows, &widths)
}

/// Formats columns. A name that is wider than its column gets its own line.
fn columns(header: &[String], rows: Vec<Vec<String>>, widths: &[u16]) -> String {
    let names = widths.first().copied().unwrap_or_default();
    let split: Vec<(Option<String>, Vec<String>)> = rows
        .into_iter()
        .map(|mut row| match row.first_mut() {
            Some(name) if plain([&vec![name.clone()]]).column_max_content_widths() > vec![names] => {
                (Some(std::mem::take(name)), row)
            }
            _ => (None, row),
        })
        .collect();
    let header = header.to_vec();
    let mut table = plain(std::iter::once(&header).chain(split.iter().map(|(_, row)| row)));
    for (column, width) in table.column_iter_mut().zip(widths) {
        let width = width + column.padding_width();
        column.set_constraint(ColumnConstraint::Absolute(Width::Fixed(width)));
    }
    let alone = std::iter::once(None).chain(split.iter().map(|(name, _)| name.as_ref()));
    let mut text = String::new();
    for (line, name) in table.lines().zip(alone) {
        if let Some(name) = name {
            text.push_str(&format!("{name}\n"));
        }
        text.push_str(&format!("{}\n", line.trim_end()));
    }
    text
}

/// Builds a table in which each row is one line.
fn plain<'r>(rows: impl IntoIterator<Item = &'r Vec<String>>) -> Table {
    let mut table = Table::new();
    table.load_style(presets::NOTHING).set_content_arrangement(ContentArrangement::Disabled);
    for cells in rows {
        let mut row = Row::from(cells.clone());
        row.max_height(1);
        table.add_row(row);
    }
    for (index, column) in table.column_iter_mut().enumerate() {
        column.set_padding((if index > 0 { GAP } else { 0 }, 0));
    }
    table
}

/// Formats a row as a block, for terminals that are too narrow for columns.
fn block(row: &[String], room: u16) -> String {
    let [name, middle @ .., last] = row else { return row.concat() + "\n" };
    let middle: Vec<&str> = middle.iter().map(String::as_str).filter(|cell| *cell != "-").collect();
    let last = shorten(last, usize::from(room.saturating_sub(4)));
    let lines = [middle.join(" · "), last];
    let below = lines.iter().filter(|line| !line.is_empty() && *line != "-").map(|line| format!("    {line}\n"));
    format!("{name}\n{}", below.collect::<String>())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_never_broken() {
        let check = |terminal: Option<u16>, expected: &str| {
            let row = |cells: [&str; 4]| cells.map(str::to_owned).to_vec();
            let rows = vec![
                row(["demo:list", "low", "-", "Lists everything there is to list."]),
                row(["demo:export_all_without_asking", "critical", "confirmation", "Exports."]),
            ];
            let text = fitted(&["TOOL", "RISK", "NEEDS", "DESCRIPTION"], rows, terminal);
            assert_eq!(text, expected, "{terminal:?}");
            let widest = text.lines().map(|line| line.chars().count()).max().unwrap_or_default();
            assert!(terminal.is_none_or(|room| widest <= usize::from(room).max(30)), "{terminal:?} {widest}");
        };
        check(
            None,
            "TOOL                            RISK      NEEDS         DESCRIPTION\n\
             demo:list                       low       -             Lists everything there is to list.\n\
             demo:export_all_without_asking  critical  confirmation  Exports.\n",
        );
        check(
            Some(80),
            "TOOL                            RISK      NEEDS         DESCRIPTION\n\
             demo:list                       low       -             Lists everything there…\n\
             demo:export_all_without_asking  critical  confirmation  Exports.\n",
        );
        check(
            Some(70),
            "TOOL                  RISK      NEEDS         DESCRIPTION\n\
             demo:list             low       -             Lists everything there…\n\
             demo:export_all_without_asking\n                      critical  confirmation  Exports.\n",
        );
        check(
            Some(40),
            "demo:list\n    low\n    Lists everything there is to list.\n\
             demo:export_all_without_asking\n    critical · confirmation\n    Exports.\n",
        );
    }
}
