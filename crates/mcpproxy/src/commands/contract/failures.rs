//! `contract failures`: compares declared failure modes with the failures in the activity log.

use std::collections::HashMap;

use clap::Args;
use jiff::Timestamp;
use mcpproxy_core::review::failures::{FailedCall, FailureCounts, Seen, ToolFailures};
use mcpproxy_core::{Catalog, Untrusted};
use mcpproxy_gateway::rules;
use mcpproxy_store::{Filter, Kind, LIMIT_MAX, Status, Store, StoreError};
use serde::Serialize;

use crate::commands::activity;
use crate::home::Home;
use crate::known_tools;
use crate::terminal::output::{Format, counted, line, table};
use crate::terminal::time::local_time;

#[derive(Debug, Args)]
pub(crate) struct Failures {
    /// Start of the period: `2h`, `7d`, `2026-01-31` or `2026-01-31T10:00:00Z`
    #[arg(long, value_name = "TIME", default_value = "30d", value_parser = activity::parse_time)]
    since: Timestamp,
}

pub(super) async fn run(home: &Home, format: Format, asked: &Failures) -> anyhow::Result<()> {
    let files = known_tools::files(home)?;
    let offers = known_tools::offers(&home.tools(), &[&files.settings]);
    let catalog = rules(&files, &offers).catalog;
    let since_ms = asked.since.as_millisecond();
    let (counts, records) = match activity::open(home).await? {
        Some(store) => (count(&store, &catalog, since_ms).await?, records(&store, since_ms).await?),
        None => (FailureCounts::new(&catalog), HashMap::new()),
    };
    let tools: Vec<Row> = counts.compare().into_iter().map(|tool| Row::new(tool, &records)).collect();
    let all = All { since: asked.since.to_string(), tools };
    format.print(&all, || told(&all, since_ms))
}

/// Counts failed and refused calls. An answer that was given again is not a new failure. Pages of the log keep memory
/// flat.
async fn count<'c>(store: &Store, catalog: &'c Catalog, since_ms: i64) -> Result<FailureCounts<'c>, StoreError> {
    let mut counts = FailureCounts::new(catalog);
    for (kind, status) in [(Kind::Call, Status::Error), (Kind::Refusal, Status::Refused)] {
        let (kind, status, since_ms) = (Some(kind), Some(status), Some(since_ms));
        let filter = Filter { kind, status, since_ms, replayed: Some(false), ..Filter::default() };
        let mut cursor = None;
        loop {
            let page = store.list(&filter, cursor, LIMIT_MAX).await?;
            for record in &page.records {
                let (Some(server), Some(tool)) = (&record.server, &record.tool) else { continue };
                counts.add(FailedCall {
                    id: &record.id.to_string(),
                    server: server.for_json(),
                    tool: tool.for_json(),
                    code: record.code.as_ref().map(Untrusted::for_json),
                    end_metadata: record.end_metadata.as_ref().map(Untrusted::for_json),
                });
            }
            cursor = page.next;
            if cursor.is_none() {
                break;
            }
        }
    }
    Ok(counts)
}

/// Counts all records of each tool, in whole hours.
async fn records(store: &Store, since_ms: i64) -> Result<HashMap<String, u64>, StoreError> {
    let summary = store.summary(Some(since_ms), None).await?;
    Ok(summary.by_tool.into_iter().map(|group| (group.name.for_json().to_owned(), group.count)).collect())
}

#[derive(Serialize)]
struct All {
    since: String,
    tools: Vec<Row>,
}

/// The failures of one tool.
#[derive(Serialize)]
struct Row {
    /// The tool, as `server:tool`.
    tool: String,
    /// All records of the tool, approvals included, in whole hours.
    records: u64,
    declared: bool,
    never_seen: Vec<String>,
    undeclared: Vec<Failure>,
    seen: Vec<Failure>,
}

#[derive(Serialize)]
struct Failure {
    code: String,
    calls: u64,
    /// The newest record with this failure.
    example: String,
}

impl Row {
    fn new(failures: ToolFailures, records: &HashMap<String, u64>) -> Self {
        let each = |seen: Vec<Seen>| -> Vec<Failure> {
            seen.into_iter().map(|Seen { code, calls, example, .. }| Failure { code, calls, example }).collect()
        };
        let tool = failures.tool.to_string();
        Self {
            records: records.get(&tool).copied().unwrap_or(0),
            tool,
            declared: failures.has_declared,
            never_seen: failures.never_seen,
            undeclared: each(failures.undeclared),
            seen: each(failures.declared_seen),
        }
    }
}

fn told(all: &All, since_ms: i64) -> String {
    let (called, idle): (Vec<&Row>, Vec<&Row>) = all.tools.iter().partition(|row| row.records > 0);
    let since = local_time(since_ms);
    let mut text = if called.is_empty() {
        format!("No tool that declares failure modes was called\nsince {since}.\n")
    } else {
        let rows = called.into_iter().map(|row| {
            let undeclared = row.undeclared.iter().map(|one| format!("{} ({})", line(&one.code), one.calls));
            let words = |words: Vec<String>| if words.is_empty() { "-".to_owned() } else { words.join(", ") };
            vec![
                row.tool.clone(),
                row.records.to_string(),
                words(row.never_seen.iter().map(|code| line(code)).collect()),
                words(undeclared.collect()),
            ]
        });
        let table = table(&["TOOL", "RECORDS", "DECLARED, NEVER SEEN", "SEEN, NOT DECLARED"], rows);
        format!(
            "{table}\nSince {since}. To declare a failure mode, add it\nto `failureModes` of the tool's contract.\n"
        )
    };
    if !idle.is_empty() {
        text.push_str(&format!("{} with declared failure modes have no records.\n", counted(idle.len(), "tool")));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_line_fits() {
        let row = |tool: &str, records: u64| Row {
            tool: tool.to_owned(),
            records,
            declared: true,
            never_seen: Vec::new(),
            undeclared: Vec::new(),
            seen: Vec::new(),
        };
        for tools in [Vec::new(), vec![row("fx:idle", 0)]] {
            let text = told(&All { since: String::new(), tools }, 0);
            assert!(text.lines().all(|line| line.chars().count() <= 60), "{text}");
        }
        let text = told(&All { since: String::new(), tools: vec![row("fx:act", 1), row("fx:idle", 0)] }, 0);
        let footer = text.lines().skip_while(|line| !line.starts_with("Since"));
        assert!(footer.clone().count() == 3 && footer.into_iter().all(|line| line.chars().count() <= 60), "{text}");
    }
}
