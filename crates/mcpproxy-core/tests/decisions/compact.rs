//! The decision table in a form that a person can read: combinations with the same outcome share a row.
//!
//! A cell of a row is one value (`read`), alternatives (`read|write`), or `any`. A row matches a combination if each of
//! its cells contains the value of the combination. The rows of a section overlap nowhere: exactly one row matches each
//! combination. Therefore each row is true on its own, the order of rows has no meaning, and `grep` shows no row that
//! another row overrides. A table in which the first match wins would be shorter, but only readable from the top.
//!
//! [`merge`] makes the rows and [`mistakes`] checks them. The check knows nothing about the merge. It compares the text
//! with the combinations, so an error in the merge cannot hide a decision.

use std::collections::{BTreeSet, HashMap};
use std::fmt::Write as _;

use super::generator::Section;

const PREAMBLE: &str = "\
# Every decision. Combinations with the same outcome share a row.
# A cell is a value, alternatives (`read|write`), or `any` value of the column. `-` means that nothing is given.
# Exactly one row of a section matches each combination. The order of rows has no meaning.
";

const ANY: &str = "any";

/// Returns all sections as text.
pub(crate) fn table(sections: &[Section]) -> String {
    let mut text = PREAMBLE.to_owned();
    for section in sections {
        let (name, title, count) = (section.name, section.title, section.rows.len());
        let _infallible = write!(text, "\n# {name}: {title} ({count} combinations)\n");
        let values = values(section);
        for (column, values) in section.columns.iter().zip(&values) {
            let _infallible = writeln!(text, "#   {column}: {}", values.join("|"));
        }
        write_aligned(&mut text, section.columns, &merge(section, &values));
    }
    text
}

/// Returns the values of each column but the last, in the order in which the generator first uses them.
fn values(section: &Section) -> Vec<Vec<&str>> {
    let mut values = vec![Vec::new(); section.columns.len() - 1];
    for row in &section.rows {
        for (known, cell) in values.iter_mut().zip(row) {
            if !known.contains(&cell.as_str()) {
                known.push(cell);
            }
        }
    }
    values
}

/// A row during the merge: the positions of each cell's values in the list of its column, and the outcome.
type Merged<'s> = (Vec<BTreeSet<usize>>, &'s str);

/// Merges rows until no column merges any more. Each step takes the column that saves most rows, the first of equals.
fn merge(section: &Section, values: &[Vec<&str>]) -> Vec<Vec<String>> {
    let position = |column: usize, cell: &str| values[column].iter().position(|value| *value == cell).unwrap();
    let mut rows: Vec<Merged<'_>> = Vec::new();
    for row in &section.rows {
        let (outcome, cells) = row.split_last().unwrap();
        let cells = cells.iter().enumerate().map(|(column, cell)| BTreeSet::from([position(column, cell)]));
        rows.push((cells.collect(), outcome));
    }
    loop {
        let steps = (0..values.len()).map(|column| merge_column(&rows, column));
        let best = steps.min_by_key(Vec::len).unwrap();
        if best.len() == rows.len() {
            break;
        }
        rows = best;
    }
    rows.sort();
    let text = |(column, cell): (usize, &BTreeSet<usize>)| match &values[column] {
        all if all.len() == cell.len() && all.len() > 1 => ANY.to_owned(),
        all => cell.iter().map(|&at| all[at]).collect::<Vec<_>>().join("|"),
    };
    let line = |(cells, outcome): Merged<'_>| {
        cells.iter().enumerate().map(text).chain([outcome.to_owned()]).collect::<Vec<String>>()
    };
    rows.into_iter().map(line).collect()
}

/// Joins the rows that differ in this column only.
fn merge_column<'s>(rows: &[Merged<'s>], column: usize) -> Vec<Merged<'s>> {
    let mut at: HashMap<Merged<'s>, usize> = HashMap::new();
    let mut merged: Vec<Merged<'s>> = Vec::new();
    for (cells, outcome) in rows {
        let mut others = cells.clone();
        let cell = std::mem::take(&mut others[column]);
        let index = *at.entry((others, outcome)).or_insert(merged.len());
        match merged.get_mut(index) {
            Some((cells, _)) => cells[column].extend(cell),
            None => merged.push((cells.clone(), outcome)),
        }
    }
    merged
}

fn write_aligned(text: &mut String, columns: &[&str], rows: &[Vec<String>]) {
    let names: Vec<String> = columns.iter().map(|&name| name.to_owned()).collect();
    let mut widths: Vec<usize> = names.iter().map(String::len).collect();
    for row in rows {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = (*width).max(cell.len());
        }
    }
    for row in std::iter::once(&names).chain(rows) {
        let mut line = String::new();
        for (cell, &width) in row.iter().zip(&widths) {
            let _infallible = write!(line, "{cell:<width$}  ");
        }
        text.push_str(line.trim_end());
        text.push('\n');
    }
}

/// The rows of one section, read from the text.
pub(crate) struct Written<'t> {
    name: &'t str,
    columns: Vec<&'t str>,
    pub(crate) rows: Vec<Vec<&'t str>>,
}

/// Reads the sections of the text. Ignores comments, except for the names of sections.
pub(crate) fn read(text: &str) -> Vec<Written<'_>> {
    let mut sections = Vec::new();
    for block in text.split("\n\n").skip(1) {
        let (title, rest) = block.split_once('\n').unwrap();
        let name = title.strip_prefix("# ").and_then(|title| title.split_once(':')).unwrap().0;
        let lines = rest.lines().filter(|line| !line.starts_with('#'));
        let mut rows = lines.map(cells);
        sections.push(Written { name, columns: rows.next().unwrap(), rows: rows.collect() });
    }
    sections
}

/// Splits a line at two or more spaces. A cell can contain single spaces.
fn cells(line: &str) -> Vec<&str> {
    line.split("  ").map(str::trim).filter(|cell| !cell.is_empty()).collect()
}

/// Compares the text with the combinations and describes each difference.
pub(crate) fn mistakes(text: &str, sections: &[Section]) -> Vec<String> {
    let written = read(text);
    let names = |text: Vec<&str>| text.join(" ");
    let (found, expected) = (written.iter().map(|it| it.name).collect(), sections.iter().map(|it| it.name).collect());
    let mut mistakes = Vec::new();
    if names(found) != names(expected) {
        mistakes.push("the sections differ".to_owned());
    }
    for (written, section) in written.iter().zip(sections) {
        compare(written, section, &mut mistakes);
    }
    mistakes
}

fn compare(written: &Written<'_>, section: &Section, mistakes: &mut Vec<String>) {
    let name = section.name;
    if written.columns != section.columns {
        mistakes.push(format!("{name}: the columns differ"));
        return;
    }
    if let Some(row) = written.rows.iter().find(|row| row.len() != section.columns.len()) {
        mistakes.push(format!("{name}: a cell is missing or additional: {row:?}"));
        return;
    }
    let mut is_used = vec![false; written.rows.len()];
    for combination in &section.rows {
        let (outcome, values) = combination.split_last().unwrap();
        let matching: Vec<usize> = (0..written.rows.len()).filter(|&at| matches(&written.rows[at], values)).collect();
        matching.iter().for_each(|&at| is_used[at] = true);
        match matching.as_slice() {
            [] => mistakes.push(format!("{name}: no row matches {values:?}")),
            [at] if written.rows[*at].last() == Some(&outcome.as_str()) => {}
            [at] => mistakes.push(format!("{name}: {values:?} is `{outcome}`, not {:?}", written.rows[*at].last())),
            more => mistakes.push(format!("{name}: {} rows match {values:?}", more.len())),
        }
    }
    let unused = written.rows.iter().zip(is_used).filter(|(_, is_used)| !is_used);
    mistakes.extend(unused.map(|(row, _)| format!("{name}: no combination matches {row:?}")));
}

fn matches(row: &[&str], values: &[String]) -> bool {
    row.iter().zip(values).all(|(cell, value)| *cell == ANY || cell.split('|').any(|word| word == value))
}
