//! The list of records.

use askama::Template;
use mcpproxy_core::{Digest, Variant};
use mcpproxy_store::{Cursor, Record};

use super::bounded::line;
use super::form::{FilterForm, Names};
use super::links::Filters;
use super::steps::{Step, approval_of, steps};
use super::words::{self, NAME_CHARS, Reason};
use crate::ui::pages::labels::{Risk, State, Time};
use crate::ui::pages::{Frame, filters};
use crate::visible::Visible;

/// The parameter of the page before the newest one that a user has seen.
pub(crate) const NEWER: &str = "newer";

#[derive(Template)]
#[template(path = "activity.html")]
pub(crate) struct ActivityList {
    pub(crate) frame: Frame,
    pub(crate) error: Option<String>,
    pub(crate) form: FilterForm,
    pub(crate) has_filters: bool,
    pub(crate) rows: Vec<Row>,
    /// Changes with the rows, so that an open page replaces them.
    pub(crate) key: String,
    /// True if new records appear by themselves.
    pub(crate) is_live: bool,
    pub(crate) exports: Vec<Export>,
    pub(crate) newer: Option<String>,
    pub(crate) older: Option<String>,
    /// The time at which the search stopped before it had found enough.
    pub(crate) searched_to: Option<Time>,
}

pub(crate) struct Export {
    pub(crate) word: &'static str,
    pub(crate) href: String,
}

pub(crate) struct Row {
    pub(crate) id: String,
    pub(crate) iso: String,
    pub(crate) clock: String,
    pub(crate) subject: Visible,
    pub(crate) agent: Visible,
    pub(crate) client: Visible,
    pub(crate) reason: Reason,
    pub(crate) intent: &'static str,
    pub(crate) fill: &'static str,
    pub(crate) risk: Option<Risk>,
    pub(crate) status: State,
    pub(crate) duration: String,
    /// The approval request that the record belongs to. Empty if there is none.
    pub(crate) approval: String,
    /// The other records of this page about the same approved call. Empty if there are none.
    pub(crate) steps: Vec<Step>,
}

/// The records of a page, and what lies before and after them.
#[derive(Clone, Debug, Default)]
pub(crate) struct Found {
    pub(crate) records: Vec<Record>,
    pub(crate) older: Option<Cursor>,
    /// True unless the page begins with the newest record.
    pub(crate) has_newer: bool,
    pub(crate) searched_to_ms: Option<i64>,
}

impl ActivityList {
    pub(crate) fn new(
        frame: Frame,
        filters: &Filters,
        names: &Names,
        found: Result<Found, String>,
        now_ms: i64,
    ) -> Self {
        let (found, error) = match found {
            Ok(found) => (found, None),
            Err(error) => (Found::default(), Some(error)),
        };
        let rows = rows(&found.records, now_ms);
        let newer = found.records.first().filter(|_| found.has_newer).map(Cursor::after);
        let is_live = error.is_none() && !found.has_newer;
        let exports = match error {
            None => exports(filters),
            Some(_) => Vec::new(),
        };
        Self {
            frame: Frame { key: String::new(), ..frame },
            error,
            form: FilterForm::new(filters, names),
            has_filters: !filters.is_empty(),
            key: key(&rows, found.older.is_some()),
            rows,
            is_live,
            exports,
            newer: newer.map(|newer| filters.with(NEWER, &newer.to_string()).list()),
            older: found.older.map(|older| filters.with("cursor", &older.to_string()).list()),
            searched_to: found.searched_to_ms.map(|time_ms| Time::new(time_ms, now_ms)),
        }
    }
}

/// Makes the rows, and joins the records of one approved call.
fn rows(records: &[Record], now_ms: i64) -> Vec<Row> {
    let mut rows: Vec<Row> = records.iter().map(|record| Row::new(record, now_ms)).collect();
    let approvals: Vec<String> = rows.iter().map(|row| row.approval.clone()).collect();
    for row in rows.iter_mut().filter(|row| !row.approval.is_empty()) {
        let same = records.iter().zip(&approvals).filter(|(_, approval)| **approval == row.approval);
        let found = steps(same.map(|(record, _)| record), &row.id, now_ms);
        row.steps = if found.len() > 1 { found } else { Vec::new() };
    }
    rows
}

fn key(rows: &[Row], has_older: bool) -> String {
    let parts: Vec<String> = rows.iter().map(|row| format!("{}{}{}", row.id, row.status.word, row.duration)).collect();
    Digest::of(format!("{} {has_older}", parts.join(" ")).as_bytes()).to_string()
}

fn exports(filters: &Filters) -> Vec<Export> {
    let export = |word, format, with_payloads| Export { word, href: filters.export(format, with_payloads) };
    vec![
        export("JSON Lines", "jsonl", false),
        export("CSV", "csv", false),
        export("JSON Lines with arguments and results", "jsonl", true),
        export("CSV with arguments and results", "csv", true),
    ]
}

impl Row {
    pub(crate) fn new(record: &Record, now_ms: i64) -> Self {
        let metadata = words::metadata(record);
        Self {
            id: record.id.to_string(),
            iso: crate::time::format(record.time_ms()),
            clock: words::clock(record.time_ms(), now_ms),
            subject: words::subject(record, &metadata),
            agent: record.agent.as_deref().map(|agent| line(agent, NAME_CHARS)).unwrap_or_default(),
            client: record.client.as_ref().map(|client| line(client.for_json(), NAME_CHARS)).unwrap_or_default(),
            reason: words::reason(record, &metadata),
            intent: record.intent_type.map_or("", Variant::operation),
            fill: words::fill(record.intent_type),
            risk: words::risk(record, &metadata),
            status: words::status(record),
            duration: record.duration_us.map(words::duration).unwrap_or_default(),
            approval: approval_of(&metadata).map(|id| id.to_string()).unwrap_or_default(),
            steps: Vec::new(),
        }
    }
}
