//! The JSON types of records.

use mcpproxy_core::{RiskLevel, Untrusted, Variant};
use mcpproxy_store::{Page, PayloadFacts, Record, WholeRecord};
use serde::Serialize;
use serde_json::value::{RawValue, to_raw_value};
use serde_json::{Map, Value};
use utoipa::ToSchema;

use crate::time;

/// A page of the log, newest first.
#[derive(Serialize, ToSchema)]
pub struct Activities {
    /// At most `limit` records.
    activities: Vec<Activity>,
    /// The `cursor` of the next page, if there is one.
    next: Option<String>,
    /// The search stopped at this time because it had read many records. `next` continues from there.
    #[schema(format = DateTime)]
    searched_to: Option<String>,
}

/// A record of the activity log.
#[derive(Serialize, ToSchema)]
pub struct Activity {
    /// A ULID. Ids sort by time, and a unique prefix is enough to find a record.
    pub id: String,
    /// The start time in UTC, with milliseconds.
    #[schema(format = DateTime)]
    pub time: String,
    #[serde(rename = "type")]
    #[schema(schema_with = super::kinds)]
    pub kind: &'static str,
    #[schema(schema_with = super::statuses)]
    pub status: &'static str,
    /// The agent whose token was used.
    pub agent: Option<String>,
    /// The name that the client program reported. Not verified.
    pub client: Option<String>,
    /// The name of the server.
    pub server: Option<String>,
    /// The name of the tool, without its server.
    pub tool: Option<String>,
    #[schema(schema_with = super::operations_or_null)]
    pub intent_type: Option<&'static str>,
    #[schema(schema_with = super::risks_or_null)]
    pub risk: Option<&'static str>,
    /// The code of an error or a refusal.
    pub code: Option<String>,
    /// The message of an error or a refusal. It may come from the server.
    pub message: Option<String>,
    /// The time from accepting the call to its end.
    pub duration_ms: Option<f64>,
    /// `intent`, `tool_variant` and other details.
    #[schema(value_type = Object)]
    pub metadata: Box<RawValue>,
    /// The number of the hash chain of this record.
    pub chain: u16,
    /// The position in the hash chain.
    pub seq: i64,
    /// The position of the end of the call, if it was written later.
    pub end_seq: Option<i64>,
    /// The size before masking and truncation.
    pub arguments_bytes: Option<u64>,
    /// The SHA-256 of the full text after masking.
    pub arguments_sha256: Option<String>,
    /// The size before masking and truncation.
    pub result_bytes: Option<u64>,
    /// The SHA-256 of the full text after masking.
    pub result_sha256: Option<String>,
}

/// A record with its arguments and result, while they are kept.
#[derive(Serialize, ToSchema)]
pub struct WholeActivity {
    #[serde(flatten)]
    pub activity: Activity,
    /// The masked arguments. A string if they were truncated, null if there are none or they were deleted.
    #[schema(value_type = Value)]
    pub arguments: Option<Box<RawValue>>,
    /// The masked result. A string if it was truncated, null if there is none or it was deleted.
    #[schema(value_type = Value)]
    pub result: Option<Box<RawValue>>,
    /// True if the arguments were truncated.
    pub arguments_cut: bool,
    /// True if the result was truncated.
    pub result_cut: bool,
}

impl From<Page> for Activities {
    fn from(page: Page) -> Self {
        Self {
            activities: page.records.into_iter().map(Into::into).collect(),
            next: page.next.map(|next| next.to_string()),
            searched_to: page.searched_to_ms.map(time::format),
        }
    }
}

impl From<Record> for Activity {
    fn from(record: Record) -> Self {
        let word = |word: Option<Untrusted>| word.map(|word| word.for_json().to_owned());
        Self {
            id: record.id.to_string(),
            time: time::format(record.time_ms()),
            kind: record.kind.as_str(),
            status: record.status.as_str(),
            agent: record.agent,
            client: word(record.client),
            server: word(record.server),
            tool: word(record.tool),
            intent_type: record.intent_type.map(Variant::operation),
            risk: record.risk.map(RiskLevel::as_str),
            code: word(record.code),
            message: word(record.message),
            duration_ms: record.duration_us.map(super::milliseconds),
            metadata: merged(&record.metadata, record.end_metadata.as_ref()),
            chain: record.chain,
            seq: record.seq,
            end_seq: record.end_seq,
            arguments_bytes: record.args.map(|facts| facts.bytes),
            arguments_sha256: record.args.map(digest),
            result_bytes: record.result.map(|facts| facts.bytes),
            result_sha256: record.result.map(digest),
        }
    }
}

impl From<WholeRecord> for WholeActivity {
    fn from(whole: WholeRecord) -> Self {
        let is_cut = |facts: Option<PayloadFacts>| facts.is_some_and(|facts| facts.digests.kept.is_some());
        let (arguments_cut, result_cut) = (is_cut(whole.record.args), is_cut(whole.record.result));
        Self {
            arguments: whole.args.map(|text| payload(&text, arguments_cut)),
            result: whole.result.map(|text| payload(&text, result_cut)),
            activity: whole.record.into(),
            arguments_cut,
            result_cut,
        }
    }
}

/// Returns JSON exactly as recorded. A truncated text becomes a string, even if it happens to be valid JSON.
fn payload(text: &Untrusted, is_cut: bool) -> Box<RawValue> {
    if is_cut { quoted(text) } else { json(text) }
}

fn json(text: &Untrusted) -> Box<RawValue> {
    RawValue::from_string(text.for_json().to_owned()).unwrap_or_else(|_| quoted(text))
}

fn quoted(text: &Untrusted) -> Box<RawValue> {
    to_raw_value(text.for_json()).unwrap_or_else(|_| RawValue::NULL.to_owned())
}

/// Merges the metadata from the start and from the end of a call.
fn merged(first: &Untrusted, last: Option<&Untrusted>) -> Box<RawValue> {
    let Some(last) = last else { return json(first) };
    let members = |text: &Untrusted| serde_json::from_str::<Map<String, Value>>(text.for_json());
    match (members(first), members(last)) {
        (Ok(mut first), Ok(last)) => {
            first.extend(last);
            to_raw_value(&first).unwrap_or_else(|_| RawValue::NULL.to_owned())
        }
        _ => json(first),
    }
}

fn digest(facts: PayloadFacts) -> String {
    let digits = facts.digests.whole.iter().flat_map(|byte| [byte >> 4, byte & 0xf]);
    digits.filter_map(|digit| char::from_digit(digit.into(), 16)).collect()
}
