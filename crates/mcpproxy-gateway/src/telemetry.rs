//! Exports spans of calls, and the log of the program, over OTLP.
//!
//! ```text
//!  call ends ─▶ spans as JSON ─▶ bounded queue ─▶ batch ─▶ POST /v1/traces
//!  log event ─▶ record as JSON ─▶ bounded queue ─▶ batch ─▶ POST /v1/logs
//! ```
//!
//! The environment configures it, as for every program with OpenTelemetry ([`OtlpSettings::from_env`]). The encoding is
//! OTLP/HTTP with JSON, which collectors accept at the address of the binary form.
//!
//! Unlike the activity log, spans may be lost: a queue that is full drops them, and counts them. No call waits.

mod otlp;
mod outbox;
mod settings;

use std::sync::Arc;

use mcpproxy_core::json::string_value;

use crate::agents::ConnectedAgent;
use crate::message::{Reply, member};
use crate::meter::{CallTrace, ParentSpan};

use outbox::Signal;
pub use outbox::{EXPORT_TARGET, Outbox};
use settings::Sampler;
pub use settings::{OtlpError, OtlpSettings};

/// The exported signals of a running gateway. Clones share the queues.
#[derive(Clone, Default)]
pub struct Telemetry {
    traces: Option<Arc<Traces>>,
    logs: Option<Outbox>,
}

struct Traces {
    sampler: Sampler,
    outbox: Outbox,
}

impl Telemetry {
    /// Starts to export what the environment asks for. Must be called in a runtime.
    pub fn start(settings: &OtlpSettings) -> Self {
        let outbox = |signal| settings.endpoint(signal).map(|endpoint| Outbox::start(signal, endpoint, settings));
        let traces = outbox(Signal::Traces).map(|outbox| Arc::new(Traces { sampler: settings.sampler, outbox }));
        Self { traces, logs: outbox(Signal::Logs) }
    }

    /// The queue for log records, if they are exported.
    pub fn logs(&self) -> Option<&Outbox> {
        self.logs.as_ref()
    }

    /// Sends what is queued. Gives up after a moment.
    pub async fn flush(&self) {
        for outbox in self.traces.iter().map(|traces| &traces.outbox).chain(&self.logs) {
            outbox.flush().await;
        }
    }

    /// Begins the trace of a call, if its spans are exported. `meta` is the `_meta` of the agent.
    pub(crate) fn begin(&self, meta: Option<&str>) -> Option<Box<CallTrace>> {
        let traces = self.traces.as_ref()?;
        let parent = meta.and_then(|meta| member(meta, "traceparent")).and_then(string_value);
        let parent = parent.and_then(|text| ParentSpan::parse(&text));
        let trace = CallTrace::new(parent);
        traces.sampler.takes(parent, trace.trace).then(|| Box::new(trace))
    }

    /// Exports the spans of a call that has ended.
    pub(crate) fn end(&self, trace: &CallTrace, agent: &ConnectedAgent, reply: &Reply) {
        if let Some(traces) = &self.traces {
            for span in otlp::spans(trace, &agent.identity.name, error_of(reply).as_deref()) {
                traces.outbox.send(span);
            }
        }
    }
}

/// Names the error of a reply: its code, or `tool_error` for a failure that the server has not named.
fn error_of(reply: &Reply) -> Option<String> {
    let result = match reply {
        Ok(result) => result,
        Err(error) => return Some(error.code.to_string()),
    };
    if member(result, "isError") != Some("true") {
        return None;
    }
    let error = member(result, "structuredContent").and_then(|content| member(content, "error"));
    let code = error.and_then(|error| member(error, "code")).and_then(string_value);
    // The text may come from a server. A long or strange one is no name for an error.
    let is_name =
        |code: &str| code.len() <= 64 && code.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
    Some(code.filter(|code| is_name(code)).map_or_else(|| "tool_error".to_owned(), Into::into))
}
