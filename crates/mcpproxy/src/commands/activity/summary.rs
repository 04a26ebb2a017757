//! `activity summary`: counts records and measures call durations.

use clap::Args;
use jiff::Timestamp;
use mcpproxy_core::Variant;
use mcpproxy_store::{Summary, SummaryGroup};
use mcpproxy_web::records;

use super::args::{Within, parse_time};
use super::open;
use super::words::{NONE, counted, duration, grouped, intent};
use crate::exit::Exit;
use crate::home::Home;
use crate::terminal::output::Format;
use crate::terminal::size::columns;
use crate::terminal::time::local;
use crate::terminal::wrap::width;

/// Rows per section in the table. JSON and YAML contain all of them.
const ROWS_MAX: usize = 20;
const HOUR_MS: i64 = 3_600_000;
/// Columns of the widest section.
const COLUMNS: usize = 6;
const GAP: usize = 2;
const NAMES_MIN: usize = 8;

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
    marked(&mut rows, &summary.by_tool);
    out + &table(&rows, columns())
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

/// Builds a section of the records that count. Names with dry runs and replayed answers only have a section of their own.
fn many(rows: &mut Vec<Vec<String>>, heading: &str, counts: &[SummaryGroup], name: impl Fn(&SummaryGroup) -> String) {
    let counts: Vec<&SummaryGroup> = counts.iter().filter(|count| count.count > 0).collect();
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
    rows.extend(more(counts.len()));
}

/// Builds the section of dry runs and replayed answers, which do not count as calls.
fn marked(rows: &mut Vec<Vec<String>>, counts: &[SummaryGroup]) {
    let counts: Vec<&SummaryGroup> = counts.iter().filter(|count| count.dry_runs + count.replayed > 0).collect();
    if counts.is_empty() {
        return;
    }
    rows.push(Vec::new());
    rows.push(["TOOL", "DRY RUNS", "REPLAYED"].map(str::to_owned).to_vec());
    rows.extend(counts.iter().take(ROWS_MAX).map(|count| {
        let numbers = [count.dry_runs, count.replayed].map(grouped);
        std::iter::once(name(count)).chain(numbers).collect()
    }));
    rows.extend(more(counts.len()));
}

fn more(count: usize) -> Option<Vec<String>> {
    (count > ROWS_MAX).then(|| vec![format!("and {} more", grouped((count - ROWS_MAX) as u64))])
}

/// Puts all sections into one table, so that their numbers line up. A name without room gets its own line.
fn table(rows: &[Vec<String>], room: Option<usize>) -> String {
    let widest = |index: usize| rows.iter().filter_map(|row| row.get(index)).map(|cell| width(cell)).max();
    let numbers: Vec<usize> = (1..COLUMNS).filter_map(widest).collect();
    let of_numbers: usize = numbers.iter().map(|width| width + GAP).sum();
    let names = widest(0).unwrap_or_default();
    let names = room.map_or(names, |room| names.min(room.saturating_sub(of_numbers)).max(NAMES_MIN));
    let mut text = String::new();
    for row in rows {
        let Some((name, cells)) = row.split_first() else {
            text.push('\n');
            continue;
        };
        text.push_str(name);
        let is_long = width(name) > names && !cells.is_empty();
        if is_long {
            text.push('\n');
        }
        let used = if is_long { 0 } else { width(name) };
        if !cells.is_empty() {
            text.push_str(&" ".repeat(names.saturating_sub(used)));
        }
        for (cell, room) in cells.iter().zip(&numbers) {
            text.push_str(&format!("{:>1$}", cell, GAP + room + cell.chars().count() - width(cell)));
        }
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A tool with dry runs only is no tool with zero records.
    #[test]
    fn dry_runs_and_replayed_answers_have_a_section() {
        let group = |name: &str, [count, dry_runs, replayed]: [u64; 3]| SummaryGroup {
            name: mcpproxy_core::Untrusted::new(name),
            count,
            errors: 0,
            refused: 0,
            dry_runs,
            replayed,
            p50_us: None,
            p95_us: None,
        };
        let counts = [group("fx:a", [1, 0, 0]), group("fx:b", [0, 2, 0]), group("fx:c", [3, 0, 1_000])];
        let mut rows = Vec::new();
        many(&mut rows, "TOOL", &counts, name);
        marked(&mut rows, &counts);
        let expected = "
TOOL   RECORDS    ERRORS  REFUSED  P50  P95
fx:a         1         0        0    -    -
fx:c         3         0        0    -    -

TOOL  DRY RUNS  REPLAYED
fx:b         2         0
fx:c         0     1,000
";
        assert_eq!(table(&rows, None), expected);
        rows.clear();
        marked(&mut rows, &counts[..1]);
        assert!(rows.is_empty());
    }

    #[test]
    fn numbers_line_up_at_every_width() {
        let row = |cells: [&str; 3]| cells.map(str::to_owned).to_vec();
        let rows = [
            row(["TOOL", "RECORDS", "P50"]),
            row(["demo:list", "1,200", "1.8ms"]),
            row(["demo:a_long_name", "3", "-"]),
        ];
        assert_eq!(
            table(&rows, None),
            "TOOL              RECORDS    P50\ndemo:list           1,200  1.8ms\ndemo:a_long_name        3      -\n"
        );
        assert_eq!(
            table(&rows, Some(28)),
            "TOOL          RECORDS    P50\ndemo:list       1,200  1.8ms\ndemo:a_long_name\n                    3      -\n"
        );
    }
}
