//! Lists that fit the terminal and never break a name, so that names can be copied.
//!
//! This is the one place that decides on the layout of a list:
//!
//! 1. **One line per row** without a terminal, and where everything fits.
//! 2. **Columns with one flexible column**, which is wrapped at spaces ([`table`]) or cut ([`listing`]). In a
//!    [`listing`], a name that is too long for its column gets its own line.
//! 3. **Cards** where columns do not fit: the first cell, and below it `key: value` pairs.
//!
//! ```text
//! demo:delete_user
//!   call with: call_tool_destructive · risk: critical
//!   Deletes a user and leaves their tasks without an assignee.
//! ```
//!
//! Where not everything fits, columns without a single value are left out.
//!
//! No layout cuts a name, an id or a reason. Only a long word, such as a URL, can be wider than the terminal.

use crate::terminal::size;
use crate::terminal::style::{Colours, Tone};
use crate::terminal::wrap::{cut, longest_word, width, wrap, wrap_after};

const GAP: usize = 2;
/// Minimum useful width of the flexible column.
const FLEXIBLE_ENOUGH: usize = 24;
/// Minimum width of the name column.
const NAMES_MIN: usize = 16;
/// Stands for no value. Cards leave it out.
const NONE: &str = "-";
const INDENT: &str = "  ";
const BETWEEN: &str = " · ";

/// A text in a list, with its meaning.
#[derive(Clone, Debug)]
pub(crate) struct Cell {
    text: String,
    tone: Tone,
}

impl Cell {
    pub(crate) fn new(text: impl Into<String>, tone: Tone) -> Self {
        Self { text: text.into(), tone }
    }
}

impl From<String> for Cell {
    fn from(text: String) -> Self {
        Self::new(text, Tone::Plain)
    }
}

/// The flexible column of a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Flexible {
    /// The last one is prose and may be cut.
    LastIsCut,
    /// The widest one is wrapped, and nothing is cut.
    WidestIsWrapped,
}

/// The width and the colours of the output.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Layout {
    /// `None` if rows may have any length.
    pub(crate) room: Option<usize>,
    pub(crate) colours: Colours,
}

impl Layout {
    /// Returns the layout for standard output.
    pub(crate) fn of_stdout() -> Self {
        Self { room: size::columns(), colours: Colours::of(&std::io::stdout()) }
    }
}

/// Formats rows that start with a name and end with prose that may be cut. Without a terminal, nothing is cut.
pub(crate) fn listing<C: Into<Cell>>(header: &[&str], rows: Vec<Vec<C>>) -> String {
    List::new(header, rows).text(Flexible::LastIsCut, Layout::of_stdout())
}

/// Formats rows of which nothing may be cut.
pub(crate) fn table<C: Into<Cell>>(header: &[&str], rows: impl IntoIterator<Item = Vec<C>>) -> String {
    List::new(header, rows).text(Flexible::WidestIsWrapped, Layout::of_stdout())
}

/// Formats rows as whole lines, or returns `None` if they do not fit.
pub(crate) fn whole_lines<C: Into<Cell>>(
    header: &[&str],
    rows: impl IntoIterator<Item = Vec<C>>,
    layout: Layout,
) -> Option<String> {
    let list = List::new(header, rows);
    let fits = layout.room.is_none_or(|room| total(&list.widths()) <= room);
    fits.then(|| list.lines(&list.widths(), layout.colours))
}

struct List {
    header: Vec<Cell>,
    rows: Vec<Vec<Cell>>,
}

impl List {
    fn new<C: Into<Cell>>(header: &[&str], rows: impl IntoIterator<Item = Vec<C>>) -> Self {
        Self {
            header: header.iter().map(|name| Cell::new(*name, Tone::Dim)).collect(),
            rows: rows.into_iter().map(|row| row.into_iter().map(Into::into).collect()).collect(),
        }
    }

    fn text(&self, flexible: Flexible, layout: Layout) -> String {
        let widths = self.widths();
        let Some(room) = layout.room.filter(|room| total(&widths) > *room) else {
            return self.lines(&widths, layout.colours);
        };
        if let Some(list) = self.without_empty_columns() {
            return list.text(flexible, layout);
        }
        let fitted = match flexible {
            Flexible::LastIsCut => self.with_cut_last(widths, room),
            Flexible::WidestIsWrapped => self.with_wrapped_widest(widths, room),
        };
        match fitted {
            Some(widths) => self.columns(&widths, flexible, layout.colours),
            None => self.cards(flexible, room, layout.colours),
        }
    }

    /// Returns the list without columns that have no value in any row, or `None` if each column has one.
    fn without_empty_columns(&self) -> Option<Self> {
        let is_value = |cell: &Cell| !cell.text.is_empty() && cell.text != NONE;
        let has_value = |index: usize| self.rows.iter().any(|row| row.get(index).is_some_and(is_value));
        // The first and the last column have their own layout.
        let is_outer = |index: usize| index == 0 || index + 1 == self.header.len();
        let kept: Vec<usize> = (0..self.header.len()).filter(|index| is_outer(*index) || has_value(*index)).collect();
        if kept.len() == self.header.len() {
            return None;
        }
        let keep = |row: &Vec<Cell>| kept.iter().filter_map(|index| row.get(*index).cloned()).collect();
        Some(Self { header: keep(&self.header), rows: self.rows.iter().map(keep).collect() })
    }

    /// Returns the width of each column.
    fn widths(&self) -> Vec<usize> {
        let mut widths: Vec<usize> = self.header.iter().map(|cell| width(&cell.text)).collect();
        for row in &self.rows {
            for (widest, cell) in widths.iter_mut().zip(row) {
                *widest = (*widest).max(width(&cell.text));
            }
        }
        widths
    }

    /// Shortens the last column, then the names, which may stand on their own lines.
    fn with_cut_last(&self, mut widths: Vec<usize>, room: usize) -> Option<Vec<usize>> {
        let all = total(&widths);
        let [names, .., last] = widths.as_mut_slice() else { return None };
        let others = all - *names - *last;
        let enough = (*last).min(FLEXIBLE_ENOUGH);
        let left = room.checked_sub(others + enough).filter(|left| *left >= NAMES_MIN.min(*names))?;
        *names = left.min(*names);
        *last = (*last).min(room - others - *names);
        Some(widths)
    }

    /// Shortens the widest column, as long as its words stay whole.
    fn with_wrapped_widest(&self, mut widths: Vec<usize>, room: usize) -> Option<Vec<usize>> {
        let all = total(&widths);
        let (index, widest) = widths.iter().copied().enumerate().max_by_key(|(_, width)| *width)?;
        let left = room.checked_sub(all - widest)?;
        let cells = self.rows.iter().chain([&self.header]).filter_map(|row| row.get(index));
        let needed = cells.map(|cell| longest_word(&cell.text)).max().unwrap_or_default();
        if left < needed.max(FLEXIBLE_ENOUGH) {
            return None;
        }
        *widths.get_mut(index)? = left;
        Some(widths)
    }

    /// Formats every row as one line.
    fn lines(&self, widths: &[usize], colours: Colours) -> String {
        let rows = std::iter::once(&self.header).chain(&self.rows);
        rows.map(|row| line(row, widths, colours)).collect()
    }

    /// Formats rows that may take several lines.
    fn columns(&self, widths: &[usize], flexible: Flexible, colours: Colours) -> String {
        let mut text = line(&self.header, widths, colours);
        for row in &self.rows {
            match flexible {
                Flexible::LastIsCut => text.push_str(&cut_row(row, widths, colours)),
                Flexible::WidestIsWrapped => text.push_str(&wrapped_row(row, widths, colours)),
            }
        }
        text
    }

    fn cards(&self, flexible: Flexible, room: usize, colours: Colours) -> String {
        let cards: Vec<String> = self.rows.iter().map(|row| self.card(row, flexible, room, colours)).collect();
        cards.join("\n")
    }

    /// Formats a row as its name and `key: value` pairs. Short pairs share a line.
    fn card(&self, row: &[Cell], flexible: Flexible, room: usize, colours: Colours) -> String {
        let Some((name, rest)) = row.split_first() else { return String::new() };
        let mut text = format!("{}\n", colours.paint(Tone::Strong, &name.text));
        let keys = self.header.iter().skip(1).map(|cell| cell.text.to_lowercase());
        let pairs: Vec<(String, &Cell)> =
            keys.zip(rest).filter(|(_, cell)| !cell.text.is_empty() && cell.text != NONE).collect();
        let is_prose = |index: usize| flexible == Flexible::LastIsCut && index + 1 == pairs.len();
        let last_key = self.header.last().map(|cell| cell.text.to_lowercase());
        let mut line = (String::new(), 0);
        for (index, (key, cell)) in pairs.iter().enumerate() {
            if is_prose(index) && last_key.as_ref() == Some(key) {
                end(&mut text, &mut line);
                text.push_str(&format!("{INDENT}{}\n", cut(&cell.text, room - INDENT.len())));
                continue;
            }
            let needed = width(key) + 2 + width(&cell.text);
            if line.1 > 0 && line.1 + width(BETWEEN) + needed > room {
                end(&mut text, &mut line);
            }
            if INDENT.len() + needed > room {
                end(&mut text, &mut line);
                text.push_str(&wrapped_pair(key, cell, room, colours));
                continue;
            }
            let (start, at) = if line.1 == 0 { (INDENT, INDENT.len()) } else { (BETWEEN, line.1 + width(BETWEEN)) };
            let key = colours.paint(Tone::Dim, &format!("{key}:"));
            line.0.push_str(&format!("{start}{key} {}", colours.paint(cell.tone, &cell.text)));
            line.1 = at + needed;
        }
        end(&mut text, &mut line);
        text
    }
}

/// Ends a line of pairs.
fn end(text: &mut String, line: &mut (String, usize)) {
    if line.1 > 0 {
        text.push_str(&line.0);
        text.push('\n');
    }
    *line = (String::new(), 0);
}

/// Formats a pair that takes several lines.
fn wrapped_pair(key: &str, cell: &Cell, room: usize, colours: Colours) -> String {
    // The key takes room on the first line only.
    let inner = INDENT.len() * 2;
    let mut lines =
        wrap_after(&cell.text, room.saturating_sub(INDENT.len() + width(key) + 2), room - inner).into_iter();
    let head = lines.next().map(|head| colours.paint(cell.tone, &head)).unwrap_or_default();
    let key = colours.paint(Tone::Dim, &format!("{key}:"));
    let mut text = format!("{INDENT}{key} {head}").trim_end().to_owned() + "\n";
    for part in lines {
        text.push_str(&format!("{:inner$}{}\n", "", colours.paint(cell.tone, &part)));
    }
    text
}

/// Formats one line. Its last cell is not padded.
pub(crate) fn line(row: &[Cell], widths: &[usize], colours: Colours) -> String {
    let mut text = String::new();
    let last = row.iter().rposition(|cell| !cell.text.is_empty()).unwrap_or_default();
    for (index, (cell, room)) in row.iter().zip(widths).enumerate() {
        if index > last {
            break;
        }
        text.push_str(&colours.paint(cell.tone, &cell.text));
        if index < last {
            let padding = room.saturating_sub(width(&cell.text)) + GAP;
            text.push_str(&" ".repeat(padding));
        }
    }
    text + "\n"
}

/// Formats a row with a cut last cell. A name that is wider than its column gets its own line.
fn cut_row(row: &[Cell], widths: &[usize], colours: Colours) -> String {
    let mut row = row.to_vec();
    if let (Some(cell), Some(room)) = (row.last_mut(), widths.last()) {
        cell.text = cut(&cell.text, *room);
    }
    let mut text = String::new();
    if let (Some(name), Some(room)) = (row.first_mut(), widths.first())
        && width(&name.text) > *room
    {
        text.push_str(&format!("{}\n", colours.paint(name.tone, &name.text)));
        name.text = String::new();
    }
    text + &line(&row, widths, colours)
}

/// Formats a row whose cells are wrapped at spaces.
fn wrapped_row(row: &[Cell], widths: &[usize], colours: Colours) -> String {
    let columns: Vec<Vec<String>> = row.iter().zip(widths).map(|(cell, room)| wrap(&cell.text, *room)).collect();
    let height = columns.iter().map(Vec::len).max().unwrap_or_default();
    let lines = (0..height).map(|at| {
        let cells: Vec<Cell> = columns
            .iter()
            .zip(row)
            .map(|(lines, cell)| Cell::new(lines.get(at).cloned().unwrap_or_default(), cell.tone))
            .collect();
        line(&cells, widths, colours)
    });
    lines.collect()
}

/// Returns the width of a line with these columns.
fn total(widths: &[usize]) -> usize {
    widths.iter().sum::<usize>() + GAP * widths.len().saturating_sub(1)
}

#[cfg(test)]
mod tests;
