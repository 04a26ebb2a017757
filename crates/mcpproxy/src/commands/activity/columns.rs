//! Formats records as rows: a list with fitted columns, and a stream with fixed columns.

use comfy_table::{ColumnConstraint, ContentArrangement, Row, Table, Width, presets};
use mcpproxy_core::{RiskLevel, Variant};
use mcpproxy_store::{Kind, Record};

use super::words::{NONE, duration, intent, word};
use crate::terminal::output::line;
use crate::terminal::time::{local, local_time};

const HEADER: [&str; 7] = ["ID", "TIME", "SERVER", "TOOL", "INTENT", "STATUS", "DURATION"];
const SERVER: usize = 2;
const TOOL: usize = 3;
/// Position of the risk column, which is shown if there is room.
const RISK: usize = 5;
/// Characters of an id that are unique. The rest is random.
const ID_CHARS: usize = 15;
const GAP: u16 = 2;
/// Column widths of the stream. Names of servers and tools can be cut.
const STEADY: [u16; 7] = [15, 19, 16, 32, 13, 11, 8];
/// Narrow column widths. They cut the word `interrupted`.
const STEADY_SHORT: [u16; 7] = [15, 8, 16, 32, 7, 9, 8];
/// Widths that are enough for most names of servers and tools.
const SERVER_ENOUGH: u16 = 12;
const TOOL_ENOUGH: u16 = 24;
/// Minimum width of a name.
const NAME_MIN: u16 = 4;

/// The amount of detail in a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Wording {
    Full,
    /// No year, no seconds, and `destr` for `destructive`.
    Short,
    /// Like `Short`, with the time of day instead of the date.
    Live,
}

/// Returns the width of the terminal, if standard output is one.
pub(super) fn terminal_width() -> Option<u16> {
    Table::new().width()
}

pub(super) fn list(records: &[Record], terminal: Option<u16>) -> String {
    if records.is_empty() {
        return "No records.\n".to_owned();
    }
    let room = terminal.unwrap_or(u16::MAX);
    let has_risks = records.iter().any(|record| record.risk.is_some());
    let mut table = if has_risks { with_risks(records) } else { rows(records, Wording::Full) };
    // One long name is no reason to shorten everything else.
    let is_too_wide = |table: &Table| {
        let mut needed = widths(table);
        if let [_, _, server, tool, ..] = needed.as_mut_slice() {
            (*server, *tool) = ((*server).min(SERVER_ENOUGH), (*tool).min(TOOL_ENOUGH));
        }
        total(&needed) > room
    };
    if has_risks && is_too_wide(&table) {
        table = rows(records, Wording::Full);
    }
    if is_too_wide(&table) {
        table = rows(records, Wording::Short);
    }
    let fitted = fitted(widths(&table), room);
    fix(&mut table, &fitted);
    text(&table)
}

fn rows(records: &[Record], wording: Wording) -> Table {
    let header = HEADER.map(str::to_owned).to_vec();
    table(std::iter::once(header).chain(records.iter().map(|record| cells(record, wording))).collect())
}

/// Adds the risk column.
fn with_risks(records: &[Record]) -> Table {
    let risk = |record: &Record| record.risk.map_or(NONE, RiskLevel::as_str).to_owned();
    let with = |mut cells: Vec<String>, risk: String| {
        cells.insert(RISK.min(cells.len()), risk);
        cells
    };
    let header = with(HEADER.map(str::to_owned).to_vec(), "RISK".to_owned());
    let rows = records.iter().map(|record| with(cells(record, Wording::Full), risk(record)));
    table(std::iter::once(header).chain(rows).collect())
}

/// Formats rows one at a time, with fixed columns.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Stream {
    /// `None` without a terminal. Then nothing is cut.
    widths: Option<[u16; 7]>,
    wording: Wording,
}

impl Stream {
    pub(super) fn new(terminal: Option<u16>) -> Self {
        let Some(room) = terminal else { return Self { widths: None, wording: Wording::Full } };
        let mut enough = STEADY;
        (enough[SERVER], enough[TOOL]) = (SERVER_ENOUGH, TOOL_ENOUGH);
        let fits = total(&enough) <= room;
        let (mut widths, wording) = if fits { (STEADY, Wording::Full) } else { (STEADY_SHORT, Wording::Live) };
        // Tools have longer names than servers.
        let names = room.saturating_sub(total(&widths) - widths[SERVER] - widths[TOOL]);
        widths[SERVER] = widths[SERVER].min(names / 3).max(NAME_MIN);
        widths[TOOL] = widths[TOOL].min(names.saturating_sub(widths[SERVER])).max(NAME_MIN);
        Self { widths: Some(widths), wording }
    }

    pub(super) fn header(&self) -> String {
        self.line(HEADER.map(str::to_owned).to_vec())
    }

    pub(super) fn row(&self, record: &Record) -> String {
        self.line(cells(record, self.wording))
    }

    fn line(&self, cells: Vec<String>) -> String {
        let Some(widths) = self.widths else {
            let padded = cells.iter().zip(STEADY).map(|(cell, width)| format!("{cell:<0$}", usize::from(width)));
            return padded.collect::<Vec<String>>().join("  ").trim_end().to_owned() + "\n";
        };
        let mut table = table(vec![cells]);
        fix(&mut table, &widths);
        text(&table)
    }
}

fn cells(record: &Record, wording: Wording) -> Vec<String> {
    let intent = |variant: Variant| match (wording, variant) {
        (Wording::Short | Wording::Live, Variant::Destructive) => "✖ destr",
        (Wording::Full | Wording::Short | Wording::Live, variant) => intent(variant),
    };
    vec![
        record.id.to_string().chars().take(ID_CHARS).collect(),
        match wording {
            Wording::Full => local_time(record.time_ms()),
            Wording::Short => local(record.time_ms(), "%m-%d %H:%M"),
            Wording::Live => local(record.time_ms(), "%H:%M:%S"),
        },
        word(&record.server),
        subject(record),
        record.intent_type.map_or(NONE, intent).to_owned(),
        record.status.as_str().to_owned(),
        record.duration_us.map_or(NONE.to_owned(), duration),
    ]
}

/// Returns the tool, or the subject of a record that has no tool.
fn subject(record: &Record) -> String {
    match record.kind {
        Kind::Call | Kind::Refusal => word(&record.tool),
        // An approval request is not a call, and must not look like a successful one.
        Kind::Approval if record.tool.is_some() => format!("{} ({})", word(&record.tool), step(record)),
        Kind::Auth if record.code.is_some() => format!("({})", who_did(record)),
        Kind::Approval | Kind::Server | Kind::Settings | Kind::Auth => format!("({})", record.kind.as_str()),
    }
}

/// Returns an authentication event and its user: `login failed: anna`.
fn who_did(record: &Record) -> String {
    let what = word(&record.code).replace('_', " ");
    let metadata: serde_json::Value = serde_json::from_str(record.metadata.for_json()).unwrap_or_default();
    match metadata.get("user").and_then(serde_json::Value::as_str) {
        Some(user) => format!("{what}: {}", line(user)),
        None => what,
    }
}

/// Returns the step of an approval: `requested`, `denied`, `grant used`.
fn step(record: &Record) -> String {
    let code = word(&record.code);
    let step = code.strip_prefix("approval_").unwrap_or(&code).replace('_', " ");
    if step == NONE { record.kind.as_str().to_owned() } else { step }
}

/// Builds a table whose first row holds the names of the columns.
fn table(rows: Vec<Vec<String>>) -> Table {
    let mut table = Table::new();
    table.load_style(presets::NOTHING).set_content_arrangement(ContentArrangement::Disabled);
    for cells in rows {
        let mut row = Row::from(cells);
        row.max_height(1);
        table.add_row(row);
    }
    for (index, column) in table.column_iter_mut().enumerate() {
        column.set_padding((if index > 0 { GAP } else { 0 }, 0));
    }
    table
}

fn fix(table: &mut Table, widths: &[u16]) {
    for (column, width) in table.column_iter_mut().zip(widths) {
        let width = width + column.padding_width();
        column.set_constraint(ColumnConstraint::Absolute(Width::Fixed(width)));
    }
}

fn text(table: &Table) -> String {
    table.lines().map(|line| line.trim_end().to_owned() + "\n").collect()
}

fn widths(table: &Table) -> Vec<u16> {
    table.column_max_content_widths()
}

fn total(widths: &[u16]) -> u16 {
    let gaps = u16::try_from(widths.len().saturating_sub(1)).unwrap_or(u16::MAX).saturating_mul(GAP);
    widths.iter().fold(gaps, |sum, width| sum.saturating_add(*width))
}

/// Shortens the name columns until the row fits, the longer one first.
fn fitted(mut widths: Vec<u16>, room: u16) -> Vec<u16> {
    while total(&widths) > room {
        let [_, _, server, tool, ..] = widths.as_mut_slice() else { break };
        let longer = if *tool >= *server { tool } else { server };
        if *longer <= NAME_MIN {
            break;
        }
        *longer -= 1;
    }
    widths
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_cut_where_there_is_no_room() {
        let check = |room: u16, expected: ([u16; 7], Wording)| {
            let stream = Stream::new(Some(room));
            assert_eq!((stream.widths.unwrap(), stream.wording), expected, "{room}");
        };
        check(200, ([15, 19, 16, 32, 13, 11, 8], Wording::Full));
        check(120, ([15, 19, 14, 28, 13, 11, 8], Wording::Full));
        check(114, ([15, 19, 12, 24, 13, 11, 8], Wording::Full));
        check(113, ([15, 8, 16, 32, 7, 9, 8], Wording::Live));
        check(80, ([15, 8, 7, 14, 7, 9, 8], Wording::Live));
        check(20, ([15, 8, 4, 4, 7, 9, 8], Wording::Live));
    }

    #[test]
    fn a_row_is_one_line_whatever_is_in_it() {
        let stream = Stream::new(Some(80));
        let cells = [
            "01HF7YAT00ZZW1Z",
            "10:00:00",
            "a server with words",
            "日本語のツールの名前",
            "✖ destr",
            "success",
            "0.1ms",
        ];
        let line = stream.line(cells.map(str::to_owned).to_vec());
        assert_eq!(line, "01HF7YAT00ZZW1Z  10:00:00  a…       日本語のツー…   ✖ destr  success    0.1ms\n");
        let wide = Stream::new(None).line(cells.map(str::to_owned).to_vec());
        assert!(wide.contains("a server with words  日本語のツールの名前"), "{wide}");
    }
}
