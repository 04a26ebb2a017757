//! One record: in plain words first, then who, why, what decided, arguments, result, and its place in the chain.

use std::borrow::Cow;

use askama::Template;
use mcpproxy_core::{Assurance, ErrorCode, Untrusted, Variant};
use mcpproxy_store::{ChainPlace, Kind, Record, RecordId, StoredApproval, WholeRecord};
use serde_json::Value;

use super::advice;
use super::bounded::{line, lines};
use super::links::Filters;
use super::payload::{ShownPayload, counted};
use super::steps::{Step, approval_of, steps};
use super::story::{FORBIDDEN_ATTEMPT, Story, assurance, decider, meaning, user_of};
use super::words::{self, code, member, tool_name};
use crate::ui::pages::labels::{Risk, State, Time};
use crate::ui::pages::{Frame, filters};
use crate::visible::Visible;

const VALUE_CHARS: usize = 300;
const REASON_CHARS: usize = 1_200;
const DETAILS_HTML: usize = 12_000;

#[derive(Template)]
#[template(path = "record.html")]
pub(crate) struct RecordPage {
    pub(crate) frame: Frame,
    pub(crate) id: String,
    pub(crate) story: Story,
    pub(crate) status: State,
    pub(crate) risk: Option<Risk>,
    pub(crate) intent: &'static str,
    pub(crate) fill: &'static str,
    pub(crate) time: Time,
    pub(crate) clock: String,
    /// The intent that the agent declared. `None` for records that are not about a call.
    pub(crate) said: Option<Said>,
    pub(crate) decision: Vec<Fact>,
    /// The message of a refusal or an error.
    pub(crate) message: Option<Visible>,
    /// True if the message tells the agent what to do. It is folded, and marked as the answer to the agent.
    pub(crate) is_for_agent: bool,
    /// The next step for a user. Names and commands are between backticks.
    pub(crate) next_step: Option<Cow<'static, str>>,
    pub(crate) facts: Vec<Fact>,
    pub(crate) payloads: Vec<ShownPayload>,
    pub(crate) place: Vec<Fact>,
    /// False until a signed checkpoint covers the record. `None` if the chain is unknown.
    pub(crate) is_signed: Option<bool>,
    pub(crate) links: Vec<Link>,
    /// The records of the same approved call, in order. Empty if there is only this one.
    pub(crate) steps: Vec<Step>,
    /// All details of the record that no other part shows in full.
    pub(crate) details: Option<Visible>,
}

/// Statements of the agent about its call.
pub(crate) struct Said {
    pub(crate) reason: Option<Visible>,
    pub(crate) sensitivity: Option<Visible>,
    /// False if the agent named no operation, and the variant stands for it.
    pub(crate) is_declared: bool,
}

pub(crate) struct Fact {
    pub(crate) name: &'static str,
    pub(crate) value: Visible,
    pub(crate) href: Option<String>,
    pub(crate) is_code: bool,
    pub(crate) is_unverified: bool,
    /// A time after the value, as RFC 3339.
    pub(crate) time: Option<String>,
}

pub(crate) struct Link {
    pub(crate) word: &'static str,
    pub(crate) href: String,
}

/// Everything that the store knows about a record.
pub(crate) struct Known {
    pub(crate) whole: WholeRecord,
    pub(crate) approval: Option<StoredApproval>,
    pub(crate) place: Option<ChainPlace>,
    /// The records of the same approval request, newest first.
    pub(crate) steps: Vec<Record>,
}

impl RecordPage {
    pub(crate) fn new(frame: Frame, known: &Known, now_ms: i64) -> Self {
        let record = &known.whole.record;
        let metadata = words::metadata(record);
        let status = words::status(record);
        let is_signed = known.place.as_ref().map(|place| place.checkpoint.is_some());
        let payloads = [
            ShownPayload::arguments(known.whole.args.as_ref(), record.args),
            ShownPayload::result(known.whole.result.as_ref(), record.result),
        ];
        let steps = steps(known.steps.iter(), &record.id.to_string(), now_ms);
        let is_event = matches!(record.kind, Kind::Server | Kind::Settings | Kind::Auth | Kind::Approval);
        let message = record.message.as_ref().map(Untrusted::for_json).filter(|text| !is_event || text.len() > 300);
        Self {
            // Changes when the call ends, a checkpoint covers it, or another step follows.
            frame: Frame { key: format!("{}:{}:{is_signed:?}:{}", record.id, status.word, steps.len()), ..frame },
            id: record.id.to_string(),
            story: Story::new(record, &metadata, known.approval.as_ref()),
            status,
            risk: words::risk(record, &metadata),
            intent: record.intent_type.map_or("", Variant::operation),
            fill: words::fill(record.intent_type),
            time: Time::new(record.time_ms(), now_ms),
            clock: words::clock(record.time_ms(), now_ms),
            said: said(record, &metadata),
            decision: decision(record, &metadata, known.approval.as_ref()),
            message: message.map(|text| lines(text, DETAILS_HTML).0),
            is_for_agent: is_for_agent(record, &metadata),
            next_step: own_code(record, &metadata).map(|code| {
                let step = match user_of(record, &metadata) {
                    None => advice::next_step(code),
                    Some(_) => advice::next_step_of_dry_run(code),
                };
                advice::at_server(step, record.server.as_ref().map(Untrusted::for_json))
            }),
            facts: facts(record, &metadata),
            payloads: payloads.into_iter().flatten().collect(),
            place: place(record, known.place.as_ref()),
            is_signed,
            links: links(record, &metadata),
            steps: if steps.len() > 1 { steps } else { Vec::new() },
            details: details(&metadata),
        }
    }
}

impl Fact {
    fn new(name: &'static str, value: &str) -> Self {
        Self { name, value: line(value, VALUE_CHARS), href: None, is_code: false, is_unverified: false, time: None }
    }

    fn code(name: &'static str, value: &str) -> Self {
        Self { is_code: true, ..Self::new(name, value) }
    }

    fn at(self, href: String) -> Self {
        Self { href: Some(href), ..self }
    }
}

fn said(record: &Record, metadata: &Value) -> Option<Said> {
    let intent = metadata.get("intent")?;
    let is_about_a_call = matches!(record.kind, Kind::Call | Kind::Refusal | Kind::Approval);
    is_about_a_call.then(|| Said {
        reason: member(intent, "reason").map(|text| line(text, REASON_CHARS)),
        sensitivity: member(intent, "data_sensitivity").map(|text| line(text, VALUE_CHARS)),
        is_declared: metadata.get("intent_declared").and_then(Value::as_bool).unwrap_or(true),
    })
}

/// Lists what decided about the call: the check, the contract, the approval, and warnings.
fn decision(record: &Record, metadata: &Value, approval: Option<&StoredApproval>) -> Vec<Fact> {
    let mut facts = Vec::new();
    if !code(record).is_empty() {
        let filters = Filters::of(&[("status", record.status.as_str()), ("code", code(record))]);
        facts.push(Fact::code("Code", code(record)).at(filters.list()));
        // The story of a refusal says this already.
        let meaning = match is_servers_code(metadata) {
            true => Some("The server answered with this code. The gateway had allowed the call."),
            false => meaning(code(record)).filter(|_| record.kind != Kind::Refusal),
        };
        facts.extend(meaning.map(|meaning| Fact::new("Meaning", &advice::without_marks(meaning))));
    }
    if record.kind == Kind::Call {
        facts.push(Fact::new("Checks", passed(metadata)));
        let verified = metadata.get("intent_verified").and_then(Value::as_bool);
        facts.extend(verified.map(|is_verified| Fact::new("Intent", confirmed(is_verified))));
    }
    let warnings = metadata.get("warnings").and_then(Value::as_array);
    for warning in warnings.into_iter().flatten().take(5) {
        facts.extend(member(warning, "message").map(|text| Fact::new("Warning", text)));
    }
    if let Some(contract) = metadata.get("contract") {
        facts.extend(member(contract, "version").map(|version| Fact::new("Contract version", version)));
        facts.extend(member(contract, "digest").map(|digest| Fact::code("Contract hash", digest)));
    }
    if let Some(id) = approval_of(metadata) {
        facts.push(Fact::code("Approval request", id.as_str()).at(format!("/ui/approvals/{id}")));
    }
    if let Some(id) = member(metadata, "grant_id") {
        facts.push(Fact::code("Standing approval", id).at("/ui/grants".to_owned()));
    }
    let by = member(metadata, "approved_by").or(member(metadata, "by"));
    let by = by.or(approval.and_then(|approval| approval.decided_by.as_deref()));
    if let Some((name, is_user)) = decider(by) {
        facts.push(Fact { is_unverified: !is_user, ..Fact::new("Decided by", &name) });
    }
    let given = approval.and_then(|approval| approval.given).or(member(metadata, "given").and_then(Assurance::parse));
    facts.extend(given.map(|given| Fact::new("Approved", assurance(given))));
    facts.extend(member(metadata, "comment").map(|text| Fact::new("Comment", text)));
    facts.extend(member(metadata, "least").and_then(needed).map(|words| Fact::new("Needs", words)));
    if let Some(dry_run) = member(metadata, "dry_run") {
        let words = match dry_run {
            "server" => "made by the server",
            _ => "derived from the contract, nothing was sent",
        };
        facts.push(Fact::new("Dry run", words));
    }
    facts.extend(failure(metadata));
    facts
}

fn passed(metadata: &Value) -> &'static str {
    match (metadata.get("approval_id").is_some(), metadata.get("grant_id").is_some()) {
        (true, _) => "allowed, because a user approved this call",
        (false, true) => "allowed by a standing approval",
        (false, false) => "allowed, no approval was needed",
    }
}

fn confirmed(is_verified: bool) -> &'static str {
    match is_verified {
        true => "fits what the contract or the server says about the tool",
        false => "not confirmed, because neither contract nor server says what the tool does",
    }
}

fn needed(word: &str) -> Option<&'static str> {
    Assurance::parse(word).map(|least| match least {
        Assurance::Form => "an approval in any place",
        Assurance::Session => "an approval of a signed-in user",
        Assurance::Factor => "an approval with a second factor",
    })
}

/// Returns true if the code is the server's word for its error. It may be spelled like a code of the gateway.
fn is_servers_code(metadata: &Value) -> bool {
    metadata.get("failure").is_some()
}

/// Returns the code, if it is one of the gateway's own.
fn own_code(record: &Record, metadata: &Value) -> Option<ErrorCode> {
    ErrorCode::parse(code(record)).filter(|_| !is_servers_code(metadata))
}

/// Returns true if the message of the record tells the agent what to do.
fn is_for_agent(record: &Record, metadata: &Value) -> bool {
    code(record) == FORBIDDEN_ATTEMPT || own_code(record, metadata).is_some_and(advice::speaks_to_agent)
}

/// Says how a server's error fits the tool's contract.
fn failure(metadata: &Value) -> Option<Fact> {
    let failure = metadata.get("failure")?;
    let code = member(failure, "code")?;
    let is_declared = failure.get("declared").and_then(Value::as_bool).unwrap_or(false);
    let known = if is_declared { "declared in the contract" } else { "not declared in the contract" };
    Some(Fact::new("Failure", &format!("{code}, {known}")))
}

/// Lists who called what, and how.
fn facts(record: &Record, metadata: &Value) -> Vec<Fact> {
    let mut facts = Vec::new();
    if let Some(agent) = record.agent.as_deref() {
        facts.push(Fact::new("Agent", agent).at(Filters::of(&[("agent", agent)]).list()));
    }
    facts.extend(user_of(record, metadata).map(|user| Fact::new("Made by", user)));
    if let Some(client) = &record.client {
        facts.push(Fact { is_unverified: true, ..Fact::new("Client", client.for_json()) });
    }
    if let Some(server) = &record.server {
        let server = server.for_json();
        facts.push(Fact::new("Server", server).at(Filters::of(&[("server", server)]).list()));
    }
    if let Some(tool) = &record.tool {
        let href = Filters::of(&[("tool", &tool_name(record).unwrap_or_default())]).list();
        facts.push(Fact::new("Tool", tool.for_json()).at(href));
    }
    facts.extend(member(metadata, "category").map(|category| Fact::new("Category", category)));
    facts.extend(member(metadata, "tool_variant").map(|variant| Fact::code("Called with", variant)));
    let mode = member(metadata, "endpoint_mode").filter(|mode| *mode != "console");
    facts.extend(mode.map(|mode| Fact::code("Address", endpoint(mode))));
    if let Some(expected) = metadata.get("expected").and_then(|expected| member(expected, "operation_type")) {
        facts.push(Fact::new("Expected intent", expected));
    }
    facts.extend(record.duration_us.map(|duration_us| Fact::new("Duration", &words::duration(duration_us))));
    facts.extend(member(metadata, "idempotency_key").map(|key| Fact::code("Idempotency key", key)));
    facts.extend(member(metadata, "audit_event").map(|event| Fact::code("Audit event", event)));
    facts
}

fn endpoint(mode: &str) -> &'static str {
    match mode {
        "server" => "/mcp/s/NAME",
        "direct" => "/mcp/direct",
        _ => "/mcp",
    }
}

fn place(record: &Record, place: Option<&ChainPlace>) -> Vec<Fact> {
    let position = match record.end_seq {
        Some(end) => format!("{} (start), {end} (end)", record.seq),
        None => record.seq.to_string(),
    };
    let mut facts = vec![Fact::new("Position", &position)];
    let Some(place) = place else { return facts };
    facts.insert(0, Fact::code("Chain", &place.chain));
    facts.push(Fact::code("Hash", &place.hash));
    facts.extend(place.end_hash.as_deref().map(|hash| Fact::code("Hash of the end", hash)));
    if let Some((seq, time)) = &place.checkpoint {
        let signed = Fact::new("Signed", &format!("by the checkpoint at position {seq},"));
        facts.push(Fact { time: Some(time.clone()), ..signed });
    }
    facts
}

fn links(record: &Record, metadata: &Value) -> Vec<Link> {
    let mut links = Vec::new();
    let mut add = |word, href| links.push(Link { word, href });
    if let (Some(agent), Some(tool)) = (record.agent.as_deref(), tool_name(record)) {
        add("Similar calls: same tool and agent", Filters::of(&[("agent", agent), ("tool", &tool)]).list());
    }
    if record.agent.is_some() {
        add("This session: what the agent did before and after", format!("/ui/activity/{}/session", record.id));
    }
    if let Some(id) = member(metadata, "replayed_from").and_then(RecordId::parse) {
        add("The call whose answer was repeated", format!("/ui/activity/{id}"));
    }
    if let Some(id) = member(metadata, "approval_id").or(member(metadata, "grant_id")) {
        add("All records of this approval", Filters::of(&[("q", id)]).list());
    }
    add("This record as JSON", format!("/api/v1/activity/{}", record.id));
    links
}

fn details(metadata: &Value) -> Option<Visible> {
    let is_empty = metadata.as_object().is_none_or(serde_json::Map::is_empty);
    let text = serde_json::to_string_pretty(metadata).unwrap_or_default();
    let (shown, bytes) = lines(&text, DETAILS_HTML);
    let rest = text.len() - bytes;
    match (is_empty, rest) {
        (true, _) => None,
        (false, 0) => Some(shown),
        (false, rest) => {
            let begin = text.get(..bytes).unwrap_or_default();
            Some(Visible::lines(&format!("{begin}… {} more", counted(rest as u64, "byte"))))
        }
    }
}
