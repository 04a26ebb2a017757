//! Times the stages of a call, for metrics and traces.
//!
//! A call reads the clock once at each stop of its path. Two of these readings were there before: the time of the
//! server is part of every record. An observation is two relaxed additions (`mcpproxy_core::meter`), without a lock or an
//! allocation. With `metrics.enabled: false`, no call reads the clock for this, unless it is
//! traced.

mod trace;

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use mcpproxy_core::meter::{Histogram, HistogramReading};

pub(crate) use trace::{CallTrace, ParentSpan};

/// The parts of a call's path that are timed. `call.rs` describes the path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stage {
    /// Declare, resolve and decide.
    Decide,
    /// Wait for a user. Only for calls that need an approval.
    Approve,
    /// Write the beginning of the record.
    Open,
    /// Wait for the server.
    Forward,
    /// Write the end of the record.
    Close,
}

impl Stage {
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Decide => "decide",
            Self::Approve => "approve",
            Self::Open => "open",
            Self::Forward => "forward",
            Self::Close => "close",
        }
    }
}

/// Histograms of all calls since the start.
pub(crate) struct CallMeter {
    is_on: AtomicBool,
    decide: Histogram,
    approve: Histogram,
    open: Histogram,
    forward: Histogram,
    close: Histogram,
    total: Histogram,
}

impl CallMeter {
    pub(crate) fn new(is_on: bool) -> Self {
        Self {
            is_on: AtomicBool::new(is_on),
            decide: Histogram::default(),
            approve: Histogram::default(),
            open: Histogram::default(),
            forward: Histogram::default(),
            close: Histogram::default(),
            total: Histogram::default(),
        }
    }

    pub(crate) fn turn(&self, is_on: bool) {
        self.is_on.store(is_on, Ordering::Relaxed);
    }

    /// Starts to time a call. `trace` is there for a call whose spans are exported.
    pub(crate) fn start(&self, trace: Option<Box<CallTrace>>) -> CallClock<'_> {
        let meter = self.is_on.load(Ordering::Relaxed).then_some(self);
        let began = trace.as_ref().map(|trace| trace.began).or_else(|| meter.map(|_| Instant::now()));
        CallClock { meter, trace, began, last: began }
    }

    /// Returns the time of each stage, by its name.
    pub(crate) fn stages(&self) -> Vec<(&'static str, HistogramReading)> {
        [Stage::Decide, Stage::Approve, Stage::Open, Stage::Forward, Stage::Close]
            .into_iter()
            .map(|stage| (stage.as_str(), self.of(stage).read()))
            .collect()
    }

    /// Returns the time of whole calls, refused ones included.
    pub(crate) fn total(&self) -> HistogramReading {
        self.total.read()
    }

    fn of(&self, stage: Stage) -> &Histogram {
        match stage {
            Stage::Decide => &self.decide,
            Stage::Approve => &self.approve,
            Stage::Open => &self.open,
            Stage::Forward => &self.forward,
            Stage::Close => &self.close,
        }
    }
}

/// The clock of one call. It measures from stop to stop.
pub(crate) struct CallClock<'m> {
    /// `None` if metrics are off.
    meter: Option<&'m CallMeter>,
    /// `None` for a call that is not traced.
    trace: Option<Box<CallTrace>>,
    /// `None` if nobody wants the time.
    began: Option<Instant>,
    /// The end of the last stage.
    last: Option<Instant>,
}

impl CallClock<'_> {
    /// Ends a stage.
    pub(crate) fn lap(&mut self, stage: Stage) {
        if let Some(last) = self.last {
            self.note(stage, last, Instant::now());
        }
    }

    /// Returns the time at which the current stage began, also if nobody wants it.
    pub(crate) fn stage_began(&self) -> Instant {
        self.last.unwrap_or_else(Instant::now)
    }

    /// Ends a stage that began at `began`, and returns its duration, also if nobody else wants it.
    pub(crate) fn lap_since(&mut self, began: Instant, stage: Stage) -> Duration {
        let now = Instant::now();
        if self.last.is_some() {
            self.note(stage, began, now);
        }
        now - began
    }

    /// The trace of this call, if it has one.
    pub(crate) fn trace(&mut self) -> Option<&mut CallTrace> {
        self.trace.as_deref_mut()
    }

    /// Ends the call. Its last stage must have ended. Returns its trace.
    pub(crate) fn finish(&mut self) -> Option<Box<CallTrace>> {
        if let (Some(began), Some(meter)) = (self.began.take(), self.meter) {
            meter.total.observe(began.elapsed());
        }
        self.trace.take()
    }

    fn note(&mut self, stage: Stage, began: Instant, ended: Instant) {
        if let Some(meter) = self.meter {
            meter.of(stage).observe(ended - began);
        }
        if let Some(trace) = &mut self.trace {
            trace.stages.push((stage, began, ended));
        }
        self.last = Some(ended);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stages_are_timed_from_stop_to_stop() {
        let meter = CallMeter::new(true);
        let mut clock = meter.start(None);
        clock.lap(Stage::Decide);
        clock.lap(Stage::Open);
        let began = clock.stage_began();
        let took = clock.lap_since(began, Stage::Forward);
        clock.lap(Stage::Close);
        clock.finish();
        let counts: Vec<_> = meter.stages().into_iter().map(|(stage, reading)| (stage, reading.count)).collect();
        assert_eq!(counts, [("decide", 1), ("approve", 0), ("open", 1), ("forward", 1), ("close", 1)]);
        assert_eq!(meter.total().count, 1);
        let parts: f64 = meter.stages().iter().map(|(_, reading)| reading.sum_seconds).sum();
        assert!(parts <= meter.total().sum_seconds && took.as_secs_f64() <= parts);
    }

    #[test]
    fn nothing_is_counted_when_off() {
        let meter = CallMeter::new(false);
        let mut clock = meter.start(None);
        clock.lap(Stage::Decide);
        let began = clock.stage_began();
        clock.lap_since(began, Stage::Forward);
        clock.finish();
        assert!(meter.stages().iter().all(|(_, reading)| reading.count == 0) && meter.total().count == 0);
    }

    #[test]
    fn a_traced_call_is_timed_without_metrics() {
        let meter = CallMeter::new(false);
        let mut clock = meter.start(Some(Box::new(CallTrace::new(None))));
        clock.lap(Stage::Decide);
        clock.lap(Stage::Open);
        let trace = clock.finish().unwrap();
        let stages: Vec<Stage> = trace.stages.iter().map(|(stage, ..)| *stage).collect();
        assert_eq!(stages, [Stage::Decide, Stage::Open]);
        assert!(trace.stages.iter().all(|(_, began, ended)| trace.began <= *began && began <= ended));
        assert_eq!(meter.total().count, 0);
    }
}
