//! The state of the export, for status and metrics.

use std::sync::{Mutex, MutexGuard, PoisonError};

/// Shared between the task of the export and its readers.
pub(crate) struct ExportProgress {
    destination: String,
    readings: Mutex<ExportReadings>,
}

/// The export at one moment. Counts are since the start of the process.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ExportReadings {
    /// The destination without secrets: a path, or the scheme and host of a URL.
    pub destination: String,
    pub exported: u64,
    /// Lines that retention removed before they were exported.
    pub missed: u64,
    /// Lines of the log that are not exported yet.
    pub behind: u64,
    pub failures: u64,
    /// The time of the last batch that arrived.
    pub last_ms: Option<i64>,
    /// The reason why the last attempt failed, and the time of the first failure in a row.
    pub failing: Option<(i64, String)>,
}

impl ExportProgress {
    pub(super) fn new(destination: String) -> Self {
        Self { destination, readings: Mutex::default() }
    }

    pub(super) fn destination(&self) -> &str {
        &self.destination
    }

    /// Returns the state now.
    pub(crate) fn read(&self) -> ExportReadings {
        ExportReadings { destination: self.destination.clone(), ..self.readings().clone() }
    }

    pub(super) fn look(&self, behind: i64) {
        self.readings().behind = lines(behind);
    }

    /// Returns true if the export works again after a failure.
    pub(super) fn exported(&self, records: u64, missed: u64, behind: i64, now_ms: i64) -> bool {
        let mut readings = self.readings();
        readings.exported += records;
        readings.missed += missed;
        readings.behind = lines(behind);
        readings.last_ms = Some(now_ms);
        readings.failing.take().is_some()
    }

    /// Returns true for the first failure in a row.
    pub(super) fn failed(&self, reason: &str, now_ms: i64) -> bool {
        let mut readings = self.readings();
        readings.failures += 1;
        let since = readings.failing.as_ref().map(|(since, _)| *since);
        readings.failing = Some((since.unwrap_or(now_ms), reason.to_owned()));
        since.is_none()
    }

    fn readings(&self) -> MutexGuard<'_, ExportReadings> {
        self.readings.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn lines(behind: i64) -> u64 {
    behind.max(0).unsigned_abs()
}
