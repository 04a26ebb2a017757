//! A record, one thing that happened: as it is handed in, as it is finished, and as it is read back.

pub(crate) mod id;
pub(crate) mod payload;

use mcpproxy_core::{RiskLevel, Untrusted, Variant, mask};

use crate::text::storable;
use crate::{Payload, PayloadFacts, RecordId};

const MESSAGE_MAX_BYTES: usize = 4 * 1024;
const WORD_MAX_BYTES: usize = 256;

/// A record to be written. What it says about time and chance is handed in.
#[derive(Clone, Debug)]
pub struct NewRecord {
    pub time_ms: i64,
    /// Becomes part of the id.
    pub random: u64,
    pub kind: Kind,
    pub status: Status,
    pub agent: Option<String>,
    /// The program behind the agent, such as `cursor 1.2`.
    pub client: Option<String>,
    pub server: Option<String>,
    pub tool: Option<String>,
    /// Whether there is such a tool. Names that an agent made up are not counted one by one.
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

/// How an open record ends.
#[derive(Clone, Debug)]
pub struct Outcome {
    pub status: Status,
    pub code: Option<String>,
    pub message: Option<String>,
    pub duration_us: Option<u64>,
    pub result: Option<Payload>,
    /// A JSON object with what became known at the end.
    pub metadata: Option<String>,
}

/// A record as it was read back, without its payloads. Whatever an agent or a server may have worded is `Untrusted`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    pub id: RecordId,
    /// The number of the chain it belongs to, and its position there.
    pub chain: u16,
    pub seq: i64,
    /// The position of its end, if that was written later than its beginning.
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
    /// A JSON object with what became known at the end.
    pub end_metadata: Option<Untrusted>,
    pub args: Option<PayloadFacts>,
    pub result: Option<PayloadFacts>,
}

/// A record with its payloads, as far as they are kept.
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
    /// The gateway stopped before the call was finished; nobody knows what became of it.
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
    /// Words from outside have no length of their own; the log gives them one, and keeps no secret that it knows.
    pub(crate) fn bounded(mut self) -> Self {
        self.client = self.client.map(masked);
        if !self.is_known_tool {
            // An agent can put anything in the place of a name.
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
        // The short fields are bounded and count as part of the flat cost of a record.
        self.metadata.len() + length(&self.message) + self.args.as_ref().map_or(0, |args| args.text().len())
    }
}

impl Outcome {
    /// An end that says nothing but how.
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
    fn words_survive_the_way_through_text() {
        assert!(Kind::ALL.iter().all(|kind| Kind::parse(kind.as_str()) == Some(*kind)));
        assert!(Status::ALL.iter().all(|status| Status::parse(status.as_str()) == Some(*status)));
        assert_eq!((Kind::parse("Call"), Status::parse("")), (None, None));
    }
}
