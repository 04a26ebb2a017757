//! `activity summary`: counts records and measures call durations.

use clap::Args;
use comfy_table::{CellAlignment, ContentArrangement, Row, Table, presets};
use jiff::Timestamp;
use mcpproxy_core::Variant;
use mcpproxy_store::{Summary, SummaryGroup};
use mcpproxy_web::records;

use super::args::{Within, parse_time};
use super::columns::terminal_width;
use super::open;
use super::words::{NONE, counted, duration, grouped, intent};
use crate::exit::Exit;
use crate::home::Home;
use crate::terminal::output::Format;
use crate::terminal::time::local;

/// Rows per section in the table. JSON and YAML contain all of them.
const ROWS_MAX: usize = 20;
const HOUR_MS: i64 = 3_600_000;

#[derive(Debug, Args)]
pub(crate) struct Summarize {
    /// Start of the period: `2h`, `7d`, `2026-01-31` or `2026-01-31T10:00:00Z`
    #[arg(long, value_name = "TIME", value_parser = parse_time, default_value = "24h")]
    since: Timestamp,
    /// End of the period [default: now]
    #[arg(long, value_name = "TIME", value_parser = parse_time)]
    until: Option<Timestamp>,
}

pub(super) async fn run(home: &Home, format: Format, summarize: &Summarize) -> anyhow::Result<Exit> {
    let until = summarize.until.unwrap_or_else(Timestamp::now);
    Within { since: Some(summarize.since), until: Some(until) }.check()?;
    let (since_ms, until_ms) = (summarize.since.as_millisecond(), until.as_millisecond());
    let summary = match open(home).await? {
        Some(store) => store.summary(Some(since_ms), Some(until_ms)).await?,
        None => empty(since_ms, until_ms),
    };
    let text = text(&summary);
    format.print(&records::Summary::from(summary), || text)?;
    Ok(Exit::Done)
}

/// Returns the summary of a folder without a log.
fn empty(since_ms: i64, until_ms: i64) -> Summary {
    let hour = |time_ms: i64| time_ms - time_ms.rem_euclid(HOUR_MS);
    Summary {
        from_ms: hour(since_ms),
        to_ms: hour(until_ms) + HOUR_MS,
        total: 0,
        by_type: Vec::new(),
        by_status: Vec::new(),
        by_intent: Vec::new(),
        by_server: Vec::new(),
        by_tool: Vec::new(),
        by_risk: Vec::new(),
        duration: mcpproxy_store::Durations::default(),
    }
}

fn text(summary: &Summary) -> String {
    let hour = "%Y-%m-%d %H:%M";
    let (from, to) = (local(summary.from_ms, hour), local(summary.to_ms, hour));
    let mut out = format!("{} from {from} to {to}\n", counted(summary.total, "record"));
    if let (Some(p50_us), Some(p95_us)) = (summary.duration.p50_us, summary.duration.p95_us) {
        out.push_str(&format!("call duration: {} (p50), {} (p95)\n", duration(p50_us), duration(p95_us)));
    }
    let icon = |count: &SummaryGroup| {
        let variant = [Variant::Read, Variant::Write, Variant::Destructive];
        let variant = variant.into_iter().find(|variant| variant.operation() == count.name.for_json());
        variant.map_or_else(|| name(count), |variant| intent(variant).to_owned())
    };
    let mut rows = Vec::new();
    few(&mut rows, "STATUS", summary.by_status.iter().map(|count| (name(count), count.count)).collect());
    few(&mut rows, "TYPE", summary.by_type.clone());
    many(&mut rows, "INTENT", &summary.by_intent, icon);
    many(&mut rows, "RISK", &summary.by_risk, name);
    many(&mut rows, "SERVER", &summary.by_server, name);
    many(&mut rows, "TOOL", &summary.by_tool, name);
    out + &table(rows)
}

fn name(count: &SummaryGroup) -> String {
    count.name.for_terminal().into_owned()
}

/// Builds a section that has only names and counts.
fn few(rows: &mut Vec<Vec<String>>, heading: &str, counts: Vec<(String, u64)>) {
    if counts.is_empty() {
        return;
    }
    rows.push(Vec::new());
    rows.push(vec![heading.to_owned(), "RECORDS".to_owned()]);
    rows.extend(counts.into_iter().map(|(name, count)| vec![name, grouped(count)]));
}

fn many(rows: &mut Vec<Vec<String>>, heading: &str, counts: &[SummaryGroup], name: impl Fn(&SummaryGroup) -> String) {
    if counts.is_empty() {
        return;
    }
    let time = |us: Option<u64>| us.map_or(NONE.to_owned(), duration);
    rows.push(Vec::new());
    rows.push([heading, "RECORDS", "ERRORS", "REFUSED", "P50", "P95"].map(str::to_owned).to_vec());
    rows.extend(counts.iter().take(ROWS_MAX).map(|count| {
        let numbers = [count.count, count.errors, count.refused].map(grouped);
        let times = [count.p50_us, count.p95_us].map(time);
        std::iter::once(name(count)).chain(numbers).chain(times).collect()
    }));
    if counts.len() > ROWS_MAX {
        rows.push(vec![format!("and {} more", grouped((counts.len() - ROWS_MAX) as u64))]);
    }
}

/// Puts all sections into one table, so that their numbers line up.
fn table(rows: Vec<Vec<String>>) -> String {
    let mut table = Table::new();
    let is_terminal = terminal_width().is_some();
    let arrangement = if is_terminal { ContentArrangement::Dynamic } else { ContentArrangement::Disabled };
    table.load_style(presets::NOTHING).set_content_arrangement(arrangement);
    for cells in rows {
        let mut row = Row::from(cells);
        row.max_height(1);
        table.add_row(row);
    }
    for (index, column) in table.column_iter_mut().enumerate() {
        column.set_padding((if index > 0 { 2 } else { 0 }, 0));
        column.set_cell_alignment(if index > 0 { CellAlignment::Right } else { CellAlignment::Left });
    }
    table.lines().map(|line| line.trim_end().to_owned() + "\n").collect()
}
