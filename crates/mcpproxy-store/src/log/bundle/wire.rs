//! The lines of a bundle: their JSON, for writing and reading.

use mcpproxy_core::json::quote;
use mcpproxy_core::{RiskLevel, Variant};
use serde::Deserialize;

use super::Selection;
use crate::log::line::Hash;
use crate::text::{from_hex, hex, rfc3339};
use crate::{Kind, RecordId, Status, Verifier};

pub(super) const FORMAT: &str = "mcpproxy activity";
pub(super) const VERSION: u32 = 1;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Header {
    pub(super) bundle: String,
    pub(super) version: u32,
    pub(super) chain: String,
    pub(super) verifier: String,
    pub(super) exported: String,
    #[serde(rename = "filter")]
    pub(super) _filter: FilterRow,
    /// Notes with which each key of this log signed the next, oldest first. Absent if the key was never rotated.
    #[serde(default)]
    pub(super) succession: Vec<String>,
}

/// The selection. It proves nothing, and is there for readers only.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct FilterRow {
    #[serde(rename = "id")]
    _id: Option<String>,
    #[serde(rename = "intent_type")]
    _intent_type: Option<String>,
    #[serde(rename = "type")]
    _kind: Option<String>,
    #[serde(rename = "status")]
    _status: Option<String>,
    #[serde(rename = "server")]
    _server: Option<String>,
    #[serde(rename = "tool")]
    _tool: Option<String>,
    #[serde(rename = "agent")]
    _agent: Option<String>,
    #[serde(rename = "risk")]
    _risk: Option<String>,
    #[serde(rename = "since")]
    _since: Option<String>,
    #[serde(rename = "until")]
    _until: Option<String>,
    #[serde(rename = "q")]
    _text: Option<String>,
}

/// Any line except the first. Each has exactly these members.
#[derive(Deserialize)]
#[serde(untagged, deny_unknown_fields)]
pub(super) enum BundleLine {
    Line { line: String, hash: String },
    Digest { digest: String, hash: String },
    Payload { payload: Payload },
    Checkpoint { checkpoint: String },
    Start { start: Start },
    Seal { seal: String },
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Start {
    pub(super) seq: i64,
    pub(super) hash: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Payload {
    pub(super) id: String,
    pub(super) part: String,
    pub(super) text: String,
}

/// The members of a chain line that the check needs.
#[derive(Deserialize)]
pub(super) struct ChainLine {
    pub(super) seq: i64,
    pub(super) id: String,
    pub(super) line: LineForm,
    pub(super) args: Option<PayloadDigest>,
    pub(super) result: Option<PayloadDigest>,
}

#[derive(Clone, Copy, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
pub(super) enum LineForm {
    Begin,
    Whole,
    End,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct PayloadDigest {
    #[serde(rename = "bytes")]
    _bytes: u64,
    pub(super) sha256: String,
    pub(super) kept_sha256: Option<String>,
}

pub(super) fn header(chain: &str, verifier: &Verifier, succession: &[String], selection: &Selection<'_>) -> String {
    let notes: Vec<String> = succession.iter().map(|note| quote(note)).collect();
    let succession = if notes.is_empty() { String::new() } else { format!(",\"succession\":[{}]", notes.join(",")) };
    format!(
        "{{\"bundle\":{},\"version\":{VERSION},\"chain\":{},\"verifier\":{},\"exported\":\"{}\",\"filter\":{{{}}}{succession}}}\n",
        quote(FORMAT),
        quote(chain),
        quote(&verifier.to_string()),
        rfc3339(selection.now_ms),
        filter(selection),
    )
}

fn filter(selection: &Selection<'_>) -> String {
    if let Some(id) = selection.id {
        return format!("\"id\":\"{id}\"");
    }
    let filter = &selection.filter;
    let members = [
        ("intent_type", filter.intent_type.map(|variant| Variant::operation(variant).to_owned())),
        ("type", filter.kind.map(|kind| Kind::as_str(kind).to_owned())),
        ("status", filter.status.map(|status| Status::as_str(status).to_owned())),
        ("server", filter.server.clone()),
        ("tool", filter.tool.clone()),
        ("agent", filter.agent.clone()),
        ("risk", filter.risk.map(|risk| RiskLevel::as_str(risk).to_owned())),
        ("since", filter.since_ms.map(rfc3339)),
        ("until", filter.until_ms.map(rfc3339)),
        ("q", filter.text.clone()),
    ];
    let members = members.into_iter().filter_map(|(name, word)| Some(format!("\"{name}\":{}", quote(&word?))));
    members.collect::<Vec<_>>().join(",")
}

pub(super) fn start(seq: i64, hash: &Hash) -> String {
    format!("{{\"start\":{{\"seq\":{seq},\"hash\":\"{}\"}}}}\n", hex(hash))
}

pub(super) fn line(text: &str, hash: &Hash) -> String {
    format!("{{\"line\":{},\"hash\":\"{}\"}}\n", quote(text), hex(hash))
}

pub(super) fn digest(digest: &Hash, hash: &Hash) -> String {
    format!("{{\"digest\":\"{}\",\"hash\":\"{}\"}}\n", hex(digest), hex(hash))
}

pub(super) fn payload(id: RecordId, part: &str, text: &str) -> String {
    format!("{{\"payload\":{{\"id\":\"{id}\",\"part\":\"{part}\",\"text\":{}}}}}\n", quote(text))
}

pub(super) fn checkpoint(note: &str) -> String {
    format!("{{\"checkpoint\":{}}}\n", quote(note))
}

pub(super) fn seal(note: &str) -> String {
    format!("{{\"seal\":{}}}\n", quote(note))
}

/// Accepts lower-case digits only, so that each hash has one spelling.
pub(super) fn hash(text: &str) -> Option<Hash> {
    let hash: Hash = from_hex(text)?.try_into().ok()?;
    (hex(&hash) == text).then_some(hash)
}
