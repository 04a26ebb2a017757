//! Says in plain words what happened: a headline, and sentences about the approval and the outcome.

use mcpproxy_core::{Assurance, DeniedBy, ErrorCode, Variant};
use mcpproxy_store::{CallMark, Kind, Record, Status, StoredApproval};
use serde_json::Value;

use super::advice::{fact, without_marks};
use super::bounded::line;
use super::events;
use super::words::{NAME_CHARS, code, duration, event, member, tool_name};
use crate::visible::Visible;

/// A part of a sentence. Names are emphasized.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Word {
    pub(crate) text: Visible,
    pub(crate) is_name: bool,
}

pub(crate) struct Story {
    pub(crate) headline: Vec<Word>,
    pub(crate) sentences: Vec<Vec<Word>>,
}

/// Collects the parts of a sentence.
#[derive(Default)]
struct Sentence(Vec<Word>);

impl Sentence {
    fn say(mut self, text: &str) -> Self {
        self.0.push(Word { text: Visible::of(text), is_name: false });
        self
    }

    fn name(mut self, text: &str) -> Self {
        self.0.push(Word { text: line(text, NAME_CHARS), is_name: true });
        self
    }
}

fn say(text: &str) -> Sentence {
    Sentence::default().say(text)
}

impl Story {
    /// `approval` is the request that allowed the call, if it is still stored.
    pub(crate) fn new(record: &Record, metadata: &Value, approval: Option<&StoredApproval>) -> Self {
        let sentences = match record.kind {
            Kind::Call => [approved(metadata, approval), Some(outcome(record))].into_iter().flatten().collect(),
            Kind::Refusal => vec![refused(record)],
            Kind::Approval | Kind::Server | Kind::Settings | Kind::Auth => message(record).into_iter().collect(),
        };
        Self { headline: headline(record, metadata).0, sentences: sentences.into_iter().map(|one| one.0).collect() }
    }
}

fn headline(record: &Record, metadata: &Value) -> Sentence {
    let agent = record.agent.as_deref().unwrap_or("unknown");
    let tool = tool_name(record).unwrap_or_else(|| "an unnamed tool".to_owned());
    let by = |sentence: Sentence| {
        let sentence = say("Agent ").name(agent).say(" ").joined(sentence);
        with_intent(sentence, record.intent_type)
    };
    if let Some(user) = user_of(record, metadata) {
        let verb = if record.kind == Kind::Refusal { " wanted to try out " } else { " tried out " };
        let sentence = with_intent(Sentence::default().name(user).say(verb).name(&tool), record.intent_type);
        return sentence.say(" in the name of agent ").name(agent);
    }
    match record.kind {
        Kind::Call => match record.mark() {
            CallMark::Real => by(say("called ").name(&tool)),
            CallMark::DryRun => by(say("tried out ").name(&tool)),
            CallMark::Replayed => by(say("repeated a call of ").name(&tool)),
        },
        Kind::Refusal => by(say("wanted to call ").name(&tool)),
        Kind::Approval => step(record, metadata, agent, &tool),
        Kind::Server | Kind::Settings | Kind::Auth => {
            let what = Sentence::default().name(&events::subject(record, metadata));
            match events::actor(record, metadata) {
                Some(user) => what.say(" by ").name(user),
                None => what,
            }
        }
    }
}

impl Sentence {
    fn joined(mut self, other: Self) -> Self {
        self.0.extend(other.0);
        self
    }
}

fn with_intent(sentence: Sentence, intent: Option<Variant>) -> Sentence {
    match intent {
        Some(variant) => sentence.say(" as ").name(variant.operation()),
        None => sentence,
    }
}

/// Returns the user who made a dry run in the agent's name.
pub(super) fn user_of<'m>(record: &Record, metadata: &'m Value) -> Option<&'m str> {
    member(metadata, "user").filter(|_| matches!(record.kind, Kind::Call | Kind::Refusal))
}

/// Says which step of an approval the record is about.
fn step(record: &Record, metadata: &Value, agent: &str, tool: &str) -> Sentence {
    let by = |what: &str| {
        let sentence = match decider(member(metadata, "by")) {
            Some((name, _)) => Sentence::default().name(&name),
            None => say("A user"),
        };
        sentence.say(what).name(tool).say(" by agent ").name(agent)
    };
    match code(record) {
        "approval_requested" => say("Agent ").name(agent).say(" asked for approval to call ").name(tool),
        "approval_approved" => by(" approved a call of "),
        "approval_denied" => by(" denied a call of "),
        "approval_expired" => say("The approval request for ").name(tool).say(" by agent ").name(agent).say(" expired"),
        "approval_cancelled" => {
            say("The approval request for ").name(tool).say(" by agent ").name(agent).say(" was cancelled")
        }
        "approval_not_shown" => say("The client of agent ").name(agent).say(" did not show the prompt for ").name(tool),
        "grant_created" => by(" created a standing approval of "),
        "grant_revoked" => by(" revoked the standing approval of "),
        other => say(&event(other)).say(": ").name(tool).say(" by agent ").name(agent),
    }
}

/// Returns who decided, and whether it was a user of the gateway.
pub(crate) fn decider(stored: Option<&str>) -> Option<(String, bool)> {
    match DeniedBy::read(stored) {
        DeniedBy::User(name) => Some((name, true)),
        DeniedBy::AdminKey => Some(("The admin key".to_owned(), false)),
        DeniedBy::Client(client) => Some((format!("The {}", client.for_json()), false)),
        DeniedBy::Unknown => None,
    }
}

pub(crate) fn assurance(given: Assurance) -> &'static str {
    match given {
        Assurance::Form => "in a prompt of the agent’s client",
        Assurance::Session => "while signed in",
        Assurance::Factor => "with a second factor",
    }
}

fn approved(metadata: &Value, approval: Option<&StoredApproval>) -> Option<Sentence> {
    let stored = member(metadata, "approved_by").or(approval.and_then(|approval| approval.decided_by.as_deref()));
    if let Some((name, _)) = decider(stored) {
        let how = approval.and_then(|approval| approval.given).map(|given| format!(" {}", assurance(given)));
        return Some(Sentence::default().name(&name).say(" approved it").say(&how.unwrap_or_default()).say("."));
    }
    metadata.get("grant_id").map(|_| say("A standing approval allowed it."))
}

fn outcome(record: &Record) -> Sentence {
    let took = |before: &str| match record.duration_us {
        Some(duration_us) => say(&format!("{before} {}.", duration(duration_us))),
        None => say(before.trim_end_matches(" in").trim_end_matches(" after")).say("."),
    };
    match (record.status, record.mark()) {
        (Status::Success, CallMark::DryRun) => say("It was a dry run, so nothing was changed."),
        (Status::Success, CallMark::Replayed) => {
            say("The same call ran before. The agent got that answer again, and nothing ran.")
        }
        (Status::Success, CallMark::Real) if code(record) == ErrorCode::OutputMismatch.as_str() => {
            took("It ran, and its result does not match the contract. It took")
        }
        (Status::Success, CallMark::Real) => took("It ran in"),
        (Status::Error, CallMark::DryRun) => took("It was a dry run, so nothing was changed. It failed after"),
        (Status::Error, _) => took("It failed after"),
        (Status::Started, _) => say("It is still running."),
        (Status::Cancelled, _) => say("The agent cancelled it. The server may have run it."),
        (Status::Interrupted, _) => say("The gateway stopped before the call ended, so the outcome is unknown."),
        (Status::Refused, _) => say("The gateway refused it."),
    }
}

fn refused(record: &Record) -> Sentence {
    if code(record) == ErrorCode::ConfirmationRequired.as_str() {
        return say("A user must approve it first. Nothing was sent to the server.");
    }
    let message = record.message.as_ref().map_or("", |message| message.for_json());
    let sentence = match fact(code(record), message).filter(|fact| !fact.is_empty()) {
        // A user's comment can be long.
        Some(fact) => Sentence(vec![Word { text: line(fact, 400), is_name: false }]),
        None => say(&without_marks(meaning(code(record)).unwrap_or("The gateway refused it."))),
    };
    sentence.say(" Nothing was sent to the server.")
}

/// The code in the log for a call of a forbidden tool.
pub(crate) const FORBIDDEN_ATTEMPT: &str = "forbidden_attempt";

/// Returns a sentence that says what a code means.
pub(crate) fn meaning(code: &str) -> Option<&'static str> {
    if code == FORBIDDEN_ATTEMPT {
        return Some("The contract forbids this tool to every agent. The agent only learned that no such tool exists.");
    }
    ErrorCode::parse(code).map(ErrorCode::meaning)
}

fn message(record: &Record) -> Option<Sentence> {
    let message = record.message.as_ref()?.for_json();
    Some(Sentence(vec![Word { text: line(message, 400), is_name: false }]))
}
