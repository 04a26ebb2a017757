//! A record of the activity log: as it is passed in, as it ends, and as it is read back.

pub(crate) mod id;
pub(crate) mod mark;
pub(crate) mod payload;

use mcpproxy_core::{RiskLevel, Untrusted, Variant, mask};

use crate::text::storable;
use crate::{Payload, PayloadFacts, RecordId};

const MESSAGE_MAX_BYTES: usize = 4 * 1024;
const WORD_MAX_BYTES: usize = 256;

/// A record to write. The caller passes in the time and the random number.
#[derive(Clone, Debug)]
pub struct NewRecord {
    pub time_ms: i64,
    /// Part of the id.
    pub random: u64,
    pub kind: Kind,
    pub status: Status,
    pub agent: Option<String>,
    /// The program behind the agent, such as `cursor 1.2`.
    pub client: Option<String>,
    pub server: Option<String>,
    pub tool: Option<String>,
    /// `true` if the tool exists. Names that an agent invented are masked and not counted.
    pub is_known_tool: bool,
    pub intent_type: Option<Variant>,
    pub risk: Option<RiskLevel>,
    pub code: Option<String>,
    pub message: Option<String>,
    pub duration_us: Option<u64>,
    /// A JSON object.
    pub metadata: String,
    pub args: Option<Payload>,
}

/// The end of an open record.
#[derive(Clone, Debug)]
pub struct Outcome {
    pub status: Status,
    pub code: Option<String>,
    pub message: Option<String>,
    pub duration_us: Option<u64>,
    pub result: Option<Payload>,
    /// A JSON object with details known only at the end.
    pub metadata: Option<String>,
}

/// A record as stored, without its payloads. Text that may come from an agent or a server is `Untrusted`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    pub id: RecordId,
    /// The number of its chain, and its position there.
    pub chain: u16,
    pub seq: i64,
    /// The position of its end, if its beginning has a line of its own.
    pub end_seq: Option<i64>,
    pub kind: Kind,
    pub status: Status,
    pub agent: Option<String>,
    pub client: Option<Untrusted>,
    pub server: Option<Untrusted>,
    pub tool: Option<Untrusted>,
    pub intent_type: Option<Variant>,
    pub risk: Option<RiskLevel>,
    pub code: Option<Untrusted>,
    pub message: Option<Untrusted>,
    pub duration_us: Option<u64>,
    /// A JSON object.
    pub metadata: Untrusted,
    /// A JSON object with details known only at the end.
    pub end_metadata: Option<Untrusted>,
    pub args: Option<PayloadFacts>,
    pub result: Option<PayloadFacts>,
}

/// A record with its payloads, as far as they are stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WholeRecord {
    pub record: Record,
    pub args: Option<Untrusted>,
    pub result: Option<Untrusted>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    Call,
    Refusal,
    Approval,
    Server,
    Settings,
    Auth,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Status {
    Started,
    Success,
    Error,
    Refused,
    Cancelled,
    /// The gateway stopped before the call ended. Its outcome is unknown.
    Interrupted,
}

impl Record {
    pub fn time_ms(&self) -> i64 {
        self.id.time_ms()
    }
}

impl Kind {
    pub const ALL: [Self; 6] = [Self::Call, Self::Refusal, Self::Approval, Self::Server, Self::Settings, Self::Auth];

    pub fn as_str(self) -> &'static str {
        match self {
            Self::Call => "call",
            Self::Refusal => "refusal",
            Self::Approval => "approval",
            Self::Server => "server",
            Self::Settings => "settings",
            Self::Auth => "auth",
        }
    }

    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.as_str() == text)
    }
}

impl Status {
    pub const ALL: [Self; 6] =
        [Self::Started, Self::Success, Self::Error, Self::Refused, Self::Cancelled, Self::Interrupted];

    pub fn as_str(self) -> &'static str {
        match self {
            Self::Started => "started",
            Self::Success => "success",
            Self::Error => "error",
            Self::Refused => "refused",
            Self::Cancelled => "cancelled",
            Self::Interrupted => "interrupted",
        }
    }

    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|status| status.as_str() == text)
    }
}

impl NewRecord {
    /// Builds a record of which nothing else is known.
    pub fn blank(kind: Kind, status: Status, time_ms: i64, random: u64) -> Self {
        Self {
            time_ms,
            random,
            kind,
            status,
            agent: None,
            client: None,
            server: None,
            tool: None,
            is_known_tool: false,
            intent_type: None,
            risk: None,
            code: None,
            message: None,
            duration_us: None,
            metadata: "{}".to_owned(),
            args: None,
        }
    }

    /// Masks secrets and truncates text from outside.
    pub(crate) fn bounded(mut self) -> Self {
        self.client = self.client.map(masked);
        if !self.is_known_tool {
            // An agent can send anything as a name.
            self.server = self.server.map(masked);
            self.tool = self.tool.map(masked);
        }
        for word in [&mut self.agent, &mut self.client, &mut self.server, &mut self.tool, &mut self.code] {
            shorten(word, WORD_MAX_BYTES);
        }
        self.message = self.message.map(masked);
        shorten(&mut self.message, MESSAGE_MAX_BYTES);
        self.metadata = storable(masked(self.metadata));
        self
    }

    pub(crate) fn text_bytes(&self) -> usize {
        // Short fields are part of the flat cost of a record.
        self.metadata.len() + length(&self.message) + self.args.as_ref().map_or(0, |args| args.text().len())
    }
}

impl Outcome {
    /// An end with only a status.
    pub fn bare(status: Status) -> Self {
        Self { status, code: None, message: None, duration_us: None, result: None, metadata: None }
    }

    pub(crate) fn bounded(mut self) -> Self {
        shorten(&mut self.code, WORD_MAX_BYTES);
        self.message = self.message.map(masked);
        shorten(&mut self.message, MESSAGE_MAX_BYTES);
        self.metadata = self.metadata.map(masked).map(storable);
        self
    }

    pub(crate) fn text_bytes(&self) -> usize {
        let result = self.result.as_ref().map_or(0, |result| result.text().len());
        length(&self.metadata) + length(&self.message) + result
    }
}

fn masked(text: String) -> String {
    let masked = mask(&text, &[]);
    if masked.is_changed() { masked.into_owned() } else { text }
}

fn shorten(text: &mut Option<String>, max_bytes: usize) {
    if let Some(long) = text.take() {
        let mut long = storable(long);
        long.truncate(long.floor_char_boundary(max_bytes));
        *text = Some(long);
    }
}

fn length(text: &Option<String>) -> usize {
    text.as_ref().map_or(0, String::len)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_and_statuses_round_trip_through_text() {
        assert!(Kind::ALL.iter().all(|kind| Kind::parse(kind.as_str()) == Some(*kind)));
        assert!(Status::ALL.iter().all(|status| Status::parse(status.as_str()) == Some(*status)));
        assert_eq!((Kind::parse("Call"), Status::parse("")), (None, None));
    }
}
