//! Counts what the writer commits, for metrics.
//!
//! Counting happens in the task of the writer, after a commit and before its callers are woken. So a call pays nothing
//! for it, and the numbers agree with the records: whoever sees a record on disk also finds it counted.
//!
//! The counts have a bound: variants, risk levels, statuses and codes are enums of ours, and of server names only the
//! first [`SERVERS_MAX`] that are in the settings get a row of their own. Text of an agent is never a key.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use mcpproxy_core::meter::{Counter, Histogram, HistogramReading};
use mcpproxy_core::{ErrorCode, RiskLevel, Variant};

use super::operation::{Change, Operation, Stage};
use super::subject::Subject;
use crate::approvals::step::Conflicts;
use crate::{Kind, Status};

/// Servers with a row of their own. All others share [`OTHER`].
const SERVERS_MAX: usize = 50;
/// Servers beyond the bound, and codes that are not in the table of error codes.
const OTHER: &str = "other";
/// A refused call of a forbidden tool. Agents never see this code, so it is not in the table of error codes.
const FORBIDDEN_ATTEMPT: &str = "forbidden_attempt";

pub(crate) struct LogMeter {
    is_on: AtomicBool,
    commits: Histogram,
    committed: Counter,
    failures: Counter,
    counts: Mutex<Counts>,
}

#[derive(Default)]
struct Counts {
    calls: HashMap<CallLabels, u64>,
    refusals: HashMap<&'static str, u64>,
    records: HashMap<(Kind, Status), u64>,
    servers: HashMap<String, ServerCounts>,
}

#[derive(Default)]
struct ServerCounts {
    calls: HashMap<Status, u64>,
    durations: Histogram,
}

/// Calls with the same values are counted together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct CallLabels {
    pub variant: Option<Variant>,
    pub risk: Option<RiskLevel>,
    pub outcome: Status,
}

/// The counts of the log since the start of the process, and its queue now.
#[derive(Clone, Debug, Default)]
pub struct LogReadings {
    /// Calls and refusals that have ended.
    pub calls: Vec<(CallLabels, u64)>,
    /// Refusals by error code.
    pub refusals: Vec<(&'static str, u64)>,
    pub records: Vec<(Kind, Status, u64)>,
    pub servers: Vec<ServerReadings>,
    pub queued: usize,
    pub commits: Option<HistogramReading>,
    pub committed: u64,
    pub failures: u64,
}

/// The calls of one server.
#[derive(Clone, Debug)]
pub struct ServerReadings {
    pub server: String,
    pub calls: Vec<(Status, u64)>,
    pub durations: HistogramReading,
}

impl Default for LogMeter {
    fn default() -> Self {
        Self {
            is_on: AtomicBool::new(true),
            commits: Histogram::default(),
            committed: Counter::default(),
            failures: Counter::default(),
            counts: Mutex::default(),
        }
    }
}

impl LogMeter {
    pub(crate) fn turn(&self, is_on: bool) {
        self.is_on.store(is_on, Ordering::Relaxed);
    }

    /// Counts a batch that was committed.
    pub(crate) fn committed(&self, batch: &[Operation], conflicts: &Conflicts, took: Duration) {
        if !self.is_on.load(Ordering::Relaxed) {
            return;
        }
        self.commits.observe(took);
        self.committed.add(u64::try_from(batch.len().saturating_sub(conflicts.len())).unwrap_or(0));
        let mut counts = self.counts();
        for (_, operation) in batch.iter().enumerate().filter(|(index, _)| !conflicts.contains_key(index)) {
            counts.add(operation);
        }
    }

    /// Counts operations of a batch that turned out to be committed although its acknowledgement was lost.
    pub(crate) fn committed_late(&self, operations: &[Operation]) {
        if self.is_on.load(Ordering::Relaxed) {
            let mut counts = self.counts();
            operations.iter().for_each(|operation| counts.add(operation));
        }
    }

    pub(crate) fn failed(&self) {
        self.failures.add(1);
    }

    pub(crate) fn read(&self, queued: usize) -> LogReadings {
        let counts = self.counts();
        let server = |(server, row): (&String, &ServerCounts)| ServerReadings {
            server: server.clone(),
            calls: row.calls.iter().map(|(status, count)| (*status, *count)).collect(),
            durations: row.durations.read(),
        };
        LogReadings {
            calls: counts.calls.iter().map(|(labels, count)| (*labels, *count)).collect(),
            refusals: counts.refusals.iter().map(|(code, count)| (*code, *count)).collect(),
            records: counts.records.iter().map(|((kind, status), count)| (*kind, *status, *count)).collect(),
            servers: counts.servers.iter().map(server).collect(),
            queued,
            commits: Some(self.commits.read()),
            committed: self.committed.read(),
            failures: self.failures.read(),
        }
    }

    fn counts(&self) -> MutexGuard<'_, Counts> {
        self.counts.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Counts {
    /// Counts a record that is over. The beginning of a call is not.
    fn add(&mut self, operation: &Operation) {
        match &operation.change {
            Change::Insert(row) if row.stage == Stage::Begun => {}
            Change::Insert(row) => {
                let record = &row.record;
                self.add_ended(&row.subject, record.status, record.code.as_deref(), record.duration_us);
            }
            Change::Close(end) => {
                let outcome = &end.outcome;
                self.add_ended(&end.subject, outcome.status, outcome.code.as_deref(), outcome.duration_us);
            }
        }
    }

    fn add_ended(&mut self, subject: &Subject, status: Status, code: Option<&str>, duration_us: Option<u64>) {
        *self.records.entry((subject.kind, status)).or_default() += 1;
        match subject.kind {
            Kind::Call => {}
            Kind::Refusal => *self.refusals.entry(code.map_or(OTHER, label_of_code)).or_default() += 1,
            Kind::Approval | Kind::Server | Kind::Settings | Kind::Auth => return,
        }
        let labels = CallLabels { variant: subject.intent_type, risk: subject.risk, outcome: status };
        *self.calls.entry(labels).or_default() += 1;
        // A name that is not counted in the log's own counts is empty: an agent may have invented it.
        if subject.server.is_empty() {
            return;
        }
        let is_listed = self.servers.contains_key(&subject.server) || self.servers.len() < SERVERS_MAX;
        let name = if is_listed { subject.server.as_str() } else { OTHER };
        // Not `entry`, which would allocate the name for every call.
        if let Some(row) = self.servers.get_mut(name) {
            row.add(status, duration_us);
            return;
        }
        self.servers.entry(name.to_owned()).or_default().add(status, duration_us);
    }
}

impl ServerCounts {
    fn add(&mut self, status: Status, duration_us: Option<u64>) {
        *self.calls.entry(status).or_default() += 1;
        if let Some(duration_us) = duration_us {
            self.durations.observe(Duration::from_micros(duration_us));
        }
    }
}

fn label_of_code(code: &str) -> &'static str {
    match ErrorCode::parse(code) {
        Some(known) => known.as_str(),
        None if code == FORBIDDEN_ATTEMPT => FORBIDDEN_ATTEMPT,
        None => OTHER,
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::NewRecord;
    use crate::approvals::step::Steps;
    use crate::log::operation::{EarlyEnd, NewRow};
    use crate::record::id::{Key, RecordId};

    fn operation(record: NewRecord, stage: Stage) -> Operation {
        let id = RecordId::new(Key::at(1), 1);
        let subject = Arc::new(Subject::of(&record));
        let row = NewRow { id, record, early_end: EarlyEnd::default(), stage, subject };
        Operation { change: Change::Insert(Box::new(row)), steps: Steps::None, waiter: None, space: 0 }
    }

    fn record(kind: Kind, status: Status, server: &str) -> NewRecord {
        NewRecord {
            server: Some(server.to_owned()),
            is_known_tool: true,
            intent_type: Some(Variant::Read),
            risk: Some(RiskLevel::Low),
            ..NewRecord::blank(kind, status, 1, 1)
        }
    }

    fn measured(operations: &[Operation]) -> LogReadings {
        let meter = LogMeter::default();
        meter.committed(operations, &Conflicts::new(), Duration::from_millis(1));
        meter.read(0)
    }

    #[test]
    fn counts_ends_and_no_beginnings() {
        let readings = measured(&[
            operation(record(Kind::Call, Status::Started, "fx"), Stage::Begun),
            operation(record(Kind::Call, Status::Success, "fx"), Stage::Complete),
            operation(record(Kind::Server, Status::Error, "fx"), Stage::Complete),
        ]);
        let (variant, risk) = (Some(Variant::Read), Some(RiskLevel::Low));
        assert_eq!(readings.calls, [(CallLabels { variant, risk, outcome: Status::Success }, 1)]);
        assert_eq!((readings.records.len(), readings.committed), (2, 3));
    }

    #[test]
    fn labels_have_a_bound() {
        let many: Vec<Operation> = (0..500)
            .map(|n| operation(record(Kind::Call, Status::Success, &format!("server-{n}")), Stage::Complete))
            .collect();
        let readings = measured(&many);
        assert_eq!(readings.servers.len(), SERVERS_MAX + 1);
        let total: u64 = readings.servers.iter().flat_map(|row| &row.calls).map(|(_, count)| count).sum();
        assert_eq!(total, 500);
        let invented = NewRecord {
            is_known_tool: false,
            code: Some("an agent's own word".to_owned()),
            ..record(Kind::Refusal, Status::Refused, "invented")
        };
        let readings = measured(&[operation(invented, Stage::Complete)]);
        assert_eq!((readings.refusals, readings.servers.len()), (vec![(OTHER, 1)], 0));
    }

    #[test]
    fn off_counts_nothing() {
        let meter = LogMeter::default();
        meter.turn(false);
        let one = [operation(record(Kind::Call, Status::Success, "fx"), Stage::Complete)];
        meter.committed(&one, &Conflicts::new(), Duration::from_millis(1));
        assert!(meter.read(0).calls.is_empty());
    }
}
