//! A record, one line of the activity log: as it is handed in, as it is finished, and as it is read back.

use std::fmt;

use mcpproxy_core::{Untrusted, Variant};
use ulid::Ulid;

/// Of longer arguments and results the beginning is kept, beside their true size.
pub const PAYLOAD_MAX_BYTES: usize = 64 * 1024;
const MESSAGE_MAX_BYTES: usize = 4 * 1024;
const WORD_MAX_BYTES: usize = 256;

/// A record to be written. What it says about time and chance is handed in.
#[derive(Clone, Debug)]
pub struct NewRecord {
    pub id: RecordId,
    pub time_ms: i64,
    pub kind: Kind,
    pub status: Status,
    pub agent: Option<String>,
    /// The program behind the agent, such as `cursor 1.2`.
    pub client: Option<String>,
    pub server: Option<String>,
    pub tool: Option<String>,
    pub intent_type: Option<Variant>,
    pub code: Option<String>,
    pub message: Option<String>,
    pub duration_us: Option<u64>,
    /// A JSON object.
    pub metadata: String,
    pub args: Option<Cut>,
}

/// How an open record ends.
#[derive(Clone, Debug)]
pub struct Outcome {
    pub status: Status,
    pub code: Option<String>,
    pub message: Option<String>,
    pub duration_us: Option<u64>,
    pub result: Option<Cut>,
    /// Takes the place of the metadata the record was opened with.
    pub metadata: Option<String>,
}

/// A record as it was read back. Whatever an agent or a server may have worded is `Untrusted`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    pub seq: i64,
    pub id: RecordId,
    pub time_ms: i64,
    pub kind: Kind,
    pub status: Status,
    pub agent: Option<String>,
    pub client: Option<Untrusted>,
    pub server: Option<Untrusted>,
    pub tool: Option<Untrusted>,
    pub intent_type: Option<Variant>,
    pub code: Option<Untrusted>,
    pub message: Option<Untrusted>,
    pub duration_us: Option<u64>,
    /// A JSON object.
    pub metadata: Untrusted,
    pub args: Option<Untrusted>,
    /// The size before anything was cut.
    pub args_bytes: Option<u64>,
    pub result: Option<Untrusted>,
    pub result_bytes: Option<u64>,
}

/// A ULID: sorts by time, and a beginning of it is enough to name a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct RecordId(Ulid);

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    Call,
    Refusal,
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

/// Text that was cut to what the log keeps, with its true size.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cut {
    text: String,
    bytes: u64,
}

impl RecordId {
    /// Of `random`, 80 bits are used.
    pub fn new(time_ms: i64, random: u128) -> Self {
        Self(Ulid::from_parts(u64::try_from(time_ms).unwrap_or(0), random))
    }

    pub fn parse(text: &str) -> Option<Self> {
        Ulid::from_string(text).ok().map(Self)
    }
}

impl fmt::Display for RecordId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0.array_to_str(&mut [0; ulid::ULID_LEN]))
    }
}

impl Kind {
    pub const ALL: [Self; 5] = [Self::Call, Self::Refusal, Self::Server, Self::Settings, Self::Auth];

    pub fn as_str(self) -> &'static str {
        match self {
            Self::Call => "call",
            Self::Refusal => "refusal",
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

impl Cut {
    pub fn of(text: &str) -> Self {
        let kept = text.get(..text.floor_char_boundary(PAYLOAD_MAX_BYTES)).unwrap_or_default();
        Self { text: kept.to_owned(), bytes: text.len() as u64 }
    }

    pub fn text(&self) -> &str {
        &self.text
    }

    /// The size before anything was cut.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    pub(crate) fn without_text(self) -> Self {
        Self { text: String::new(), bytes: self.bytes }
    }
}

impl From<String> for Cut {
    fn from(mut text: String) -> Self {
        let bytes = text.len() as u64;
        text.truncate(text.floor_char_boundary(PAYLOAD_MAX_BYTES));
        Self { text, bytes }
    }
}

impl NewRecord {
    /// Words from outside have no length of their own; the log gives them one.
    pub(crate) fn bounded(mut self) -> Self {
        for word in [&mut self.agent, &mut self.client, &mut self.server, &mut self.tool, &mut self.code] {
            shorten(word, WORD_MAX_BYTES);
        }
        shorten(&mut self.message, MESSAGE_MAX_BYTES);
        self
    }

    pub(crate) fn text_bytes(&self) -> usize {
        // The short fields are bounded and count as part of the flat cost of a record.
        self.metadata.len() + length(&self.message) + self.args.as_ref().map_or(0, |cut| cut.text.len())
    }
}

impl Outcome {
    pub(crate) fn bounded(mut self) -> Self {
        shorten(&mut self.code, WORD_MAX_BYTES);
        shorten(&mut self.message, MESSAGE_MAX_BYTES);
        self
    }

    pub(crate) fn text_bytes(&self) -> usize {
        length(&self.metadata) + length(&self.message) + self.result.as_ref().map_or(0, |cut| cut.text.len())
    }

    pub(crate) fn cancelled() -> Self {
        Self { status: Status::Cancelled, code: None, message: None, duration_us: None, result: None, metadata: None }
    }
}

fn shorten(text: &mut Option<String>, max_bytes: usize) {
    if let Some(text) = text {
        text.truncate(text.floor_char_boundary(max_bytes));
    }
}

fn length(text: &Option<String>) -> usize {
    text.as_ref().map_or(0, String::len)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_text_is_cut_between_characters() {
        let check = |text: &str, kept: usize| {
            let cut = Cut::of(text);
            assert_eq!((cut.text().len(), cut.bytes()), (kept, text.len() as u64));
            assert_eq!(Cut::from(text.to_owned()), cut);
        };
        check("", 0);
        check("short", 5);
        check(&"a".repeat(PAYLOAD_MAX_BYTES), PAYLOAD_MAX_BYTES);
        check(&"a".repeat(PAYLOAD_MAX_BYTES + 1), PAYLOAD_MAX_BYTES);
        // 65,536 = 3 * 21,845 + 1: one byte of the next character would fit, and is left out.
        check(&"€".repeat(30_000), PAYLOAD_MAX_BYTES - 1);
    }

    #[test]
    fn words_survive_the_way_through_text() {
        assert!(Kind::ALL.iter().all(|kind| Kind::parse(kind.as_str()) == Some(*kind)));
        assert!(Status::ALL.iter().all(|status| Status::parse(status.as_str()) == Some(*status)));
        assert_eq!((Kind::parse("Call"), Status::parse("")), (None, None));
        let id = RecordId::new(1_700_000_000_000, u128::MAX);
        assert_eq!(id.to_string(), "01HF7YAT00ZZZZZZZZZZZZZZZZ");
        assert_eq!(RecordId::parse(&id.to_string()), Some(id));
        assert_eq!(RecordId::parse("01HF7YAT00"), None);
    }
}
