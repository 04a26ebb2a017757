//! The JSON of records.

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
    /// The search went back to this time and stopped because it had looked at enough; `next` goes on from there.
    #[schema(format = DateTime)]
    searched_to: Option<String>,
}

/// One thing that happened.
#[derive(Serialize, ToSchema)]
pub struct Activity {
    /// A ULID: it sorts by time, and its beginning is enough to find the record.
    pub id: String,
    /// When it began; UTC, with milliseconds.
    #[schema(format = DateTime)]
    pub time: String,
    #[serde(rename = "type")]
    #[schema(schema_with = super::kinds)]
    pub kind: &'static str,
    #[schema(schema_with = super::statuses)]
    pub status: &'static str,
    /// Whose token was used.
    pub agent: Option<String>,
    /// The program behind the agent, in its own words.
    pub client: Option<String>,
    /// The server it is about.
    pub server: Option<String>,
    /// The tool, without its server.
    pub tool: Option<String>,
    #[schema(schema_with = super::operations_or_null)]
    pub intent_type: Option<&'static str>,
    #[schema(schema_with = super::risks_or_null)]
    pub risk: Option<&'static str>,
    /// Of an error or a refusal, for programs.
    pub code: Option<String>,
    /// The same for people, in the words of whoever gave it.
    pub message: Option<String>,
    /// From the moment it was taken to its end.
    pub duration_ms: Option<f64>,
    /// `intent`, `tool_variant` and what else is known.
    #[schema(value_type = Object)]
    pub metadata: Box<RawValue>,
    /// The number of the chain of hashes it belongs to.
    pub chain: u16,
    /// Its position in the chain.
    pub seq: i64,
    /// The position of its end, if that was written later.
    pub end_seq: Option<i64>,
    /// The size before anything was masked or cut.
    pub arguments_bytes: Option<u64>,
    /// Of the whole text, masked.
    pub arguments_sha256: Option<String>,
    /// As of the arguments.
    pub result_bytes: Option<u64>,
    /// As of the arguments.
    pub result_sha256: Option<String>,
}

/// A record with its arguments and result, as far as they are kept.
#[derive(Serialize, ToSchema)]
pub struct WholeActivity {
    #[serde(flatten)]
    pub activity: Activity,
    /// As the agent sent them, masked; a text if they were cut, null if there are none or they were erased.
    #[schema(value_type = Value)]
    pub arguments: Option<Box<RawValue>>,
    /// As the server answered, masked; a text if it was cut, null if there is none or it was erased.
    #[schema(value_type = Value)]
    pub result: Option<Box<RawValue>>,
    /// Whether only the beginning is kept.
    pub arguments_cut: bool,
    /// As of the arguments.
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

/// JSON as it was recorded, digit for digit. What was cut is a text, also if it happens to look like JSON.
fn payload(text: &Untrusted, is_cut: bool) -> Box<RawValue> {
    if is_cut { quoted(text) } else { json(text) }
}

fn json(text: &Untrusted) -> Box<RawValue> {
    RawValue::from_string(text.for_json().to_owned()).unwrap_or_else(|_| quoted(text))
}

fn quoted(text: &Untrusted) -> Box<RawValue> {
    to_raw_value(text.for_json()).unwrap_or_else(|_| RawValue::NULL.to_owned())
}

/// What was known at the beginning, and what became known at the end.
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
