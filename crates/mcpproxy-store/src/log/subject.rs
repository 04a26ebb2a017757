//! The fields of a record by which it is counted.

use mcpproxy_core::{RiskLevel, Variant};

use crate::log::tally::{HOUR_MS, NO_STEP, Tally, step_of};
use crate::{CallMark, Kind, NewRecord, Status};

/// Stays with an open call, so that counting its end does not need its beginning.
#[derive(Debug)]
pub(crate) struct Subject {
    pub(crate) hour: i64,
    pub(crate) kind: Kind,
    pub(crate) intent_type: Option<Variant>,
    pub(crate) server: String,
    pub(crate) tool: String,
    pub(crate) risk: Option<RiskLevel>,
    pub(crate) mark: CallMark,
}

impl Subject {
    pub(crate) fn of(record: &NewRecord) -> Self {
        // An agent can invent names without end, so only known names are counted.
        let name = |name: &Option<String>| {
            let is_counted = record.is_known_tool || record.kind == Kind::Server;
            name.as_deref().filter(|_| is_counted).unwrap_or_default().to_owned()
        };
        Self {
            hour: record.time_ms / HOUR_MS,
            kind: record.kind,
            intent_type: record.intent_type,
            server: name(&record.server),
            tool: name(&record.tool),
            risk: record.risk,
            mark: CallMark::of(&record.metadata),
        }
    }

    pub(crate) fn tally(&self, status: Status, duration_us: Option<u64>) -> Tally<'_> {
        Tally {
            hour: self.hour,
            kind: self.kind,
            status,
            intent_type: self.intent_type,
            server: &self.server,
            tool: &self.tool,
            risk: self.risk,
            mark: self.mark,
            step: duration_us.map_or(NO_STEP, step_of),
        }
    }
}
