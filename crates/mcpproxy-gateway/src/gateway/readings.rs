//! Numbers about the running gateway, for metrics.

use mcpproxy_core::meter::HistogramReading;

use super::Gateway;
use crate::export::ExportReadings;

/// Numbers about calls and agents. Counts are since the start, all others are of this moment.
#[derive(Clone, Debug)]
pub struct GatewayReadings {
    /// The time of each stage of a call, by the name of the stage.
    pub stages: Vec<(&'static str, HistogramReading)>,
    /// The time of whole calls, also of refused ones.
    pub calls: HistogramReading,
    /// Bytes of requests that count against `limits.memory`.
    pub request_bytes: usize,
    /// Bytes of answers that count against `limits.memory`.
    pub answer_bytes: usize,
    pub memory_limit_bytes: usize,
    /// Calls that servers are working on, or that wait for one of their slots.
    pub running_calls: usize,
    /// Requests of agents that are not answered yet, streams included.
    pub open_requests: usize,
    pub sessions: usize,
}

/// The state of the encoder for the search.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EncoderReadings {
    /// Tools that have a vector.
    pub encoded: usize,
    /// Tools that can be found.
    pub tools: usize,
}

impl Gateway {
    /// Counts the tools that are ranked with the encoder. `None` if it is off.
    pub fn encoder(&self) -> Option<EncoderReadings> {
        let snapshot = self.state.snapshot.load();
        Some(EncoderReadings { encoded: snapshot.index.encoded()?, tools: snapshot.catalog.tools().count() })
    }

    /// Reads the state of the export. `None` if the settings have none.
    pub fn export(&self) -> Option<ExportReadings> {
        self.export.as_ref().map(|progress| progress.read())
    }

    /// Reads the numbers for metrics.
    pub fn readings(&self) -> GatewayReadings {
        let state = &self.state;
        let (request_bytes, answer_bytes) = state.usages.bytes_in_flight();
        GatewayReadings {
            stages: state.meter.stages(),
            calls: state.meter.total(),
            request_bytes,
            answer_bytes,
            memory_limit_bytes: state.snapshot.load().settings.limits.memory_bytes,
            running_calls: self.servers.running_calls(),
            open_requests: state.in_progress.count(),
            sessions: state.sessions.list().len(),
        }
    }
}
