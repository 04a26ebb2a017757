//! The trace of one call: its place in the agent's trace, and the times of its stages.
//!
//! The ids follow the W3C recommendation "Trace Context". An agent sends them as `traceparent` in `_meta`, and the server
//! gets them there too, with the span of this gateway as its parent.

use std::time::{Instant, SystemTime};

use mcpproxy_store::RecordId;

use super::Stage;

/// Length of `00-<32 digits>-<16 digits>-<2 digits>`.
const LENGTH: usize = 55;

/// The span of the agent that made the call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ParentSpan {
    pub(crate) trace: u128,
    pub(crate) span: u64,
    /// The agent exports its own span.
    pub(crate) is_sampled: bool,
}

/// The ids and times of a call whose spans are exported.
#[derive(Debug)]
pub(crate) struct CallTrace {
    pub(crate) trace: u128,
    pub(crate) parent: Option<u64>,
    /// The span of the whole call.
    pub(crate) span: u64,
    /// The span in which the server has the call.
    pub(crate) forward: u64,
    pub(crate) began: Instant,
    pub(crate) began_at: SystemTime,
    pub(crate) stages: Vec<(Stage, Instant, Instant)>,
    /// The server and the tool, if the agent may know of them.
    pub(crate) tool: Option<(String, String)>,
    pub(crate) record: Option<RecordId>,
}

impl ParentSpan {
    /// Reads a `traceparent`. Returns `None` if it is malformed, because a receiver must then ignore it.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let mut parts = text.split('-');
        let (version, trace, span, flags) = (parts.next()?, parts.next()?, parts.next()?, parts.next()?);
        // A later version may append parts, and keeps the first four.
        let has_form = if version == "00" { text.len() == LENGTH } else { text.len() >= LENGTH && version != "ff" };
        let is_hex = |part: &str, length: usize| {
            part.len() == length && part.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
        };
        if !has_form || ![(version, 2), (trace, 32), (span, 16), (flags, 2)].iter().all(|(part, n)| is_hex(part, *n)) {
            return None;
        }
        let trace = u128::from_str_radix(trace, 16).ok().filter(|id| *id != 0)?;
        let span = u64::from_str_radix(span, 16).ok().filter(|id| *id != 0)?;
        let is_sampled = u8::from_str_radix(flags, 16).ok()? & 1 == 1;
        Some(Self { trace, span, is_sampled })
    }
}

impl CallTrace {
    /// Begins the trace of a call, or continues that of its agent.
    pub(crate) fn new(parent: Option<ParentSpan>) -> Self {
        Self {
            // An id of zero is invalid.
            trace: parent.map_or_else(|| rand::random::<u128>().max(1), |parent| parent.trace),
            parent: parent.map(|parent| parent.span),
            span: rand::random::<u64>().max(1),
            forward: rand::random::<u64>().max(1),
            began: Instant::now(),
            began_at: SystemTime::now(),
            stages: Vec::new(),
            tool: None,
            record: None,
        }
    }

    /// Returns the `traceparent` for the server.
    pub(crate) fn for_server(&self) -> String {
        format!("00-{:032x}-{:016x}-01", self.trace, self.forward)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_parent_is_read_or_ignored() {
        let trace = "4bf92f3577b34da6a3ce929d0e0e4736";
        let span = "00f067aa0ba902b7";
        let parent = ParentSpan::parse(&format!("00-{trace}-{span}-01")).unwrap();
        assert_eq!((format!("{:032x}", parent.trace), format!("{:016x}", parent.span)), (trace.into(), span.into()));
        assert!(parent.is_sampled);
        assert!(!ParentSpan::parse(&format!("00-{trace}-{span}-00")).unwrap().is_sampled);
        assert!(ParentSpan::parse(&format!("01-{trace}-{span}-01-more")).is_some());
        for bad in [
            String::new(),
            "00".to_owned(),
            format!("ff-{trace}-{span}-01"),
            format!("00-{trace}-{span}-01-more"),
            format!("00-{trace}-{span}-1"),
            format!("00-{}-{span}-01", trace.to_uppercase()),
            format!("00-{}-{span}-01", "0".repeat(32)),
            format!("00-{trace}-{}-01", "0".repeat(16)),
            format!("00-+{}-{span}-01", "1".repeat(31)),
        ] {
            assert_eq!(ParentSpan::parse(&bad), None, "{bad:?}");
        }
    }

    #[test]
    fn the_server_continues_the_agents_trace() {
        let parent = ParentSpan { trace: 7, span: 8, is_sampled: true };
        let trace = CallTrace::new(Some(parent));
        let for_server = ParentSpan::parse(&trace.for_server()).unwrap();
        assert_eq!(for_server, ParentSpan { trace: 7, span: trace.forward, is_sampled: true });
        assert!(trace.span != 8 && trace.forward != trace.span);
    }
}
