//! The calls of one agent around a record, in order.
//!
//! A record has no id of a session, because agents of the stateless revision have none. So a session is what the same
//! agent did with the same client, without a longer pause. The page says so.

use askama::Template;
use mcpproxy_core::Variant;
use mcpproxy_store::{Kind, Record};

use super::bounded::line;
use super::list::Row;
use super::payload::counted;
use super::words::{NAME_CHARS, fill, span};
use crate::ui::pages::{Frame, filters};
use crate::visible::Visible;

/// A longer pause ends a session.
pub(crate) const PAUSE_MS: i64 = 30 * 60_000;
/// Records that are read on either side.
pub(crate) const SIDE_MAX: usize = 100;
/// The width of the drawing, and its margin.
const WIDTH: i64 = 1_000;
const MARGIN: i64 = 10;

#[derive(Template)]
#[template(path = "session.html")]
pub(crate) struct SessionPage {
    pub(crate) frame: Frame,
    pub(crate) id: String,
    pub(crate) agent: Visible,
    pub(crate) client: Visible,
    pub(crate) summary: String,
    pub(crate) calls: Vec<Call>,
    pub(crate) dots: Vec<Dot>,
    /// The record to continue from, if there are more than fit.
    pub(crate) earlier: Option<String>,
    pub(crate) later: Option<String>,
    pub(crate) pause_minutes: i64,
}

pub(crate) struct Call {
    pub(crate) row: Row,
    /// The time since the call before, if it is worth mentioning.
    pub(crate) gap: Option<Gap>,
    pub(crate) is_here: bool,
}

pub(crate) struct Gap {
    pub(crate) words: String,
    pub(crate) class: &'static str,
}

/// A call in the drawing.
pub(crate) struct Dot {
    pub(crate) x: i64,
    pub(crate) fill: &'static str,
    pub(crate) is_here: bool,
    pub(crate) is_refused: bool,
    pub(crate) title: String,
}

/// The records around one record, oldest first.
pub(crate) struct Around {
    pub(crate) earlier: Vec<Record>,
    pub(crate) here: Record,
    pub(crate) later: Vec<Record>,
}

impl Around {
    /// Takes what belongs to the session. `earlier` and `later` are newest first, as the store lists them.
    pub(crate) fn of(here: Record, earlier: Vec<Record>, later: Vec<Record>) -> Self {
        let is_same =
            |record: &Record| here.client.is_none() || record.client.is_none() || record.client == here.client;
        let near = |records: &mut dyn Iterator<Item = Record>| -> Vec<Record> {
            let mut last_ms = here.time_ms();
            let mut kept = Vec::new();
            for record in records.filter(|record| is_same(record)) {
                if last_ms.abs_diff(record.time_ms()) > PAUSE_MS.unsigned_abs() {
                    break;
                }
                last_ms = record.time_ms();
                kept.push(record);
            }
            kept
        };
        let mut before = near(&mut earlier.into_iter());
        before.reverse();
        let after = near(&mut later.into_iter().rev());
        Self { earlier: before, here, later: after }
    }

    fn all(&self) -> impl Iterator<Item = &Record> {
        self.earlier.iter().chain([&self.here]).chain(&self.later)
    }
}

impl SessionPage {
    pub(crate) fn new(frame: Frame, around: &Around, now_ms: i64) -> Self {
        let here = &around.here;
        let first_ms = around.all().next().unwrap_or(here).time_ms();
        let last_ms = around.all().last().unwrap_or(here).time_ms();
        let mut before: Option<&Record> = None;
        let mut calls = Vec::new();
        for record in around.all() {
            let gap = before.and_then(|before| Gap::between(before, record));
            calls.push(Call { row: Row::new(record, now_ms), gap, is_here: record.id == here.id });
            before = Some(record);
        }
        let count = |kind: Kind| around.all().filter(|record| record.kind == kind).count() as u64;
        let summary = format!(
            "{} and {} in {}",
            counted(count(Kind::Call), "call"),
            counted(count(Kind::Refusal), "refusal"),
            span(last_ms - first_ms)
        );
        let edge = |records: &[Record], at: Option<&Record>| {
            at.filter(|_| records.len() >= SIDE_MAX).map(|record| format!("/ui/activity/{}/session", record.id))
        };
        Self {
            frame,
            id: here.id.to_string(),
            agent: here.agent.as_deref().map(|agent| line(agent, NAME_CHARS)).unwrap_or_default(),
            client: here.client.as_ref().map(|client| line(client.for_json(), NAME_CHARS)).unwrap_or_default(),
            summary,
            dots: around.all().map(|record| Dot::new(record, here, (first_ms, last_ms))).collect(),
            calls,
            earlier: edge(&around.earlier, around.earlier.first()),
            later: edge(&around.later, around.later.last()),
            pause_minutes: PAUSE_MS / 60_000,
        }
    }
}

impl Gap {
    /// Measures from the end of a call to the start of the next one.
    fn between(before: &Record, after: &Record) -> Option<Self> {
        let took_ms = i64::try_from(before.duration_us.unwrap_or(0) / 1_000).unwrap_or(i64::MAX);
        let ms = after.time_ms().saturating_sub(before.time_ms()).saturating_sub(took_ms);
        let class = match ms {
            ..1_000 => return None,
            1_000..10_000 => "short",
            10_000..120_000 => "mid",
            _ => "long",
        };
        Some(Self { words: format!("{} later", span(ms)), class })
    }
}

impl Dot {
    fn new(record: &Record, here: &Record, (first_ms, last_ms): (i64, i64)) -> Self {
        let share = (record.time_ms() - first_ms).saturating_mul(WIDTH - 2 * MARGIN) / (last_ms - first_ms).max(1);
        let tool = record.tool.as_ref().map_or("", |tool| tool.for_json());
        let tool: String = crate::visible::plain(tool).chars().take(NAME_CHARS).collect();
        let intent = record.intent_type.map_or("", Variant::operation);
        Self {
            x: MARGIN + share,
            fill: fill(record.intent_type),
            is_here: record.id == here.id,
            is_refused: record.kind == Kind::Refusal,
            title: format!("{} {tool} {intent}", span(record.time_ms() - first_ms)).trim_end().to_owned(),
        }
    }
}
