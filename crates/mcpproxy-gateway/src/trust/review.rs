//! Definitions that wait for a user, and the user's decisions.

use std::sync::Arc;

use mcpproxy_core::json;
use mcpproxy_core::trust::scan::scan_server_name;
use mcpproxy_core::trust::{Definition, DefinitionKey, DefinitionKind, Held};
use mcpproxy_core::{ServerName, Untrusted};
use mcpproxy_store::{
    Choice, Decided, Kind, NewRecord, PinDecision, PresenceProof, Status, StoreError, WaitFor, WaitingPin,
};
use serde_json::Value;

use super::{notes, rejected};
use crate::record::{self, now_ms};
use crate::state::SharedState;
use crate::upstream::Server;

/// Decisions in the metadata of a record. The rest is counted.
const RECORDED_MAX: usize = 200;
const NAME_MAX_CHARS: usize = 64;
const REVIEWED: &str = "definitions_reviewed";

/// The definitions of a server that wait for a user.
#[derive(Clone, Debug)]
pub struct Review {
    pub server: ServerName,
    /// True if no definition of the server was ever accepted.
    pub is_first: bool,
    /// Findings about the name of the server, as JSON objects like those of an entry.
    pub findings: Vec<Value>,
    pub entries: Vec<ReviewEntry>,
    /// Definitions that the server lists and that a user rejected. They do not wait.
    pub rejected: usize,
}

/// Selects the definitions of a review.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReviewOf {
    Waiting,
    /// With those that a user rejected, for somebody who wants to take that back.
    WaitingAndRejected,
}

/// One definition that waits, with the accepted version before it.
#[derive(Clone, Debug)]
pub struct ReviewEntry {
    pub kind: DefinitionKind,
    pub name: Arc<str>,
    /// Names the version that is shown. A decision must repeat it.
    pub pin: String,
    pub reason: Held,
    /// The accepted version, as the server's own JSON.
    pub old: Option<Arc<str>>,
    pub new: Arc<str>,
    /// One sentence for each difference.
    pub changes: Vec<String>,
    pub kinds: Vec<String>,
    /// An accepted definition that this one resembles.
    pub resembles: Option<String>,
    /// The findings of the scan, as JSON objects with `rule`, `severity`, `where` and `reason`.
    pub findings: Vec<Value>,
    pub first_seen_ms: i64,
    pub last_seen_ms: i64,
    /// How many versions the server has shown while this waited.
    pub times: u64,
    /// The decision of a user who rejected it. It does not wait then.
    pub rejection: Option<Rejection>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rejection {
    /// The name of the user.
    pub by: String,
    pub at_ms: i64,
}

#[derive(Debug, thiserror::Error)]
pub enum ReviewError {
    #[error("there is no such server")]
    NoServer,
    #[error("the gateway runs with a lock file, so nothing can be accepted; write the lock file again instead")]
    Locked,
    #[error("the pins cannot be read or written")]
    Store(#[from] StoreError),
}

/// Returns what waits for a user at a server.
pub(crate) async fn review(state: &SharedState, server: &Server, of: ReviewOf) -> Result<Review, ReviewError> {
    let waiting = state.store.waiting_pins(server.identity()).await?;
    let known = state.store.known_pins(server.identity()).await?;
    let has_accepted = !known.damaged.is_empty() || known.definitions.values().any(|one| one.accepted.is_some());
    let mut entries: Vec<ReviewEntry> = waiting.into_iter().map(|waiting| entry(server.name(), waiting)).collect();
    let rejected = server.admission().rejected();
    if of == ReviewOf::WaitingAndRejected {
        entries.extend(rejected::entries(state, server, known).await?);
    }
    let findings = of_name(state, server.name());
    Ok(Review { server: server.name().clone(), is_first: !has_accepted, findings, entries, rejected })
}

/// Looks for another server whose name looks the same.
fn of_name(state: &SharedState, name: &ServerName) -> Vec<Value> {
    let snapshot = state.snapshot.load();
    let others = snapshot.settings.servers.iter().map(|server| server.name.as_str());
    scan_server_name(name.as_str(), others).iter().map(notes::finding).collect()
}

pub(super) fn entry(server: &ServerName, waiting: WaitingPin) -> ReviewEntry {
    let WaitingPin { key, pin, json: new, reason, details, first_seen_ms, last_seen_ms, times, accepted } = waiting;
    let words = |name: &str| -> Vec<String> {
        json::member(&details, name).and_then(|list| serde_json::from_str(list).ok()).unwrap_or_default()
    };
    let (mut changes, kinds) = (words("changes"), words("kinds"));
    if reason == Held::Unreadable {
        changes.insert(0, unreadable(server, &key));
    }
    if (Definition { key: key.clone(), json: Arc::clone(&new) }).is_resources_only() {
        let resources = "The server lists resources and nothing else. If you accept it, agents can list and read them.";
        changes.insert(0, resources.to_owned());
    }
    let findings = json::member(&details, "findings").and_then(|list| serde_json::from_str(list).ok());
    ReviewEntry {
        kind: key.kind,
        name: key.name,
        pin: pin.to_string(),
        reason,
        old: accepted.map(|accepted| accepted.json),
        new,
        changes,
        kinds,
        resembles: json::member(&details, "resembles").and_then(json::string_value).map(Into::into),
        findings: findings.unwrap_or_default(),
        first_seen_ms,
        last_seen_ms,
        times,
        rejection: None,
    }
}

fn unreadable(server: &ServerName, key: &DefinitionKey) -> String {
    let name = match key.kind {
        DefinitionKind::Tool => format!("{server}:{}", key.name),
        DefinitionKind::Prompt | DefinitionKind::Template | DefinitionKind::Instructions => {
            format!("{key} of {server}")
        }
    };
    let name = Untrusted::shortened(&name, 2 * NAME_MAX_CHARS).for_terminal().into_owned();
    format!("The stored definition of {name} cannot be read, so nothing is compared. Your decision replaces it.")
}

/// Stores the decisions of a user. Each concerns exactly the version that the user saw.
pub(crate) async fn decide(
    state: &SharedState,
    server: &Server,
    decisions: &[PinDecision],
    user: &PresenceProof,
) -> Result<Vec<Decided>, ReviewError> {
    if state.trust.lock.is_some() {
        return Err(ReviewError::Locked);
    }
    // Recorded first: an acceptance without a record must not exist.
    state.ledger.append(of_decisions(server.name(), decisions, user.user().name()), WaitFor::Disk).await?;
    let decided = state.store.decide_pins(server.identity(), decisions, user, now_ms()).await?;
    let void: Vec<PinDecision> = decisions
        .iter()
        .zip(&decided)
        .filter(|(_, result)| **result != Decided::Done)
        .map(|(decision, _)| decision.clone())
        .collect();
    if !void.is_empty() {
        let record = of_decisions(server.name(), &void, user.user().name());
        let message = "without effect, because the definitions changed or somebody else decided: ";
        let message = record.message.map(|words| format!("{message}{words}"));
        record::note(&state.ledger, NewRecord { message, status: Status::Refused, ..record }).await;
    }
    Ok(decided)
}

fn of_decisions(server: &ServerName, decisions: &[PinDecision], user: &str) -> NewRecord {
    let of = |choice: Choice| decisions.iter().filter(move |one| one.choice == choice);
    let list = |choice: Choice| -> Vec<Value> {
        let described = |one: &PinDecision| {
            let name = Untrusted::shortened(&one.key.name, NAME_MAX_CHARS);
            serde_json::json!({
                "kind": one.key.kind.as_str(), "name": name.for_json(), "pin": one.pin.to_string(),
            })
        };
        of(choice).take(RECORDED_MAX).map(described).collect()
    };
    let counts = [Choice::Accept, Choice::AcceptRejected, Choice::Reject].map(|choice| of(choice).count());
    let left_out: usize = counts.iter().map(|count| count.saturating_sub(RECORDED_MAX)).sum();
    let metadata = serde_json::json!({
        "user": user,
        "accepted": list(Choice::Accept),
        "rejected": list(Choice::Reject),
        "accepted_after_rejection": list(Choice::AcceptRejected),
        "left_out": left_out,
    });
    let [accepted, restored, rejected] = counts;
    let after = if restored > 0 { format!(", {restored} of them after a rejection") } else { String::new() };
    NewRecord {
        server: Some(server.to_string()),
        code: Some(REVIEWED.to_owned()),
        message: Some(format!("{user} accepted {} and rejected {rejected} definitions{after}", accepted + restored)),
        metadata: metadata.to_string(),
        ..record::blank(Kind::Server, Status::Success)
    }
}
