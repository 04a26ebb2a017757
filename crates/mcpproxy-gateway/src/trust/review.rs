//! What waits for a user, and the user's decisions.

use std::sync::Arc;

use mcpproxy_core::json;
use mcpproxy_core::trust::{DefinitionKind, Held};
use mcpproxy_core::{ServerName, Untrusted};
use mcpproxy_store::{
    Choice, Decided, Kind, NewRecord, PinDecision, PresenceProof, Status, StoreError, WaitFor, WaitingPin,
};
use serde_json::Value;

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
    pub entries: Vec<ReviewEntry>,
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
pub(crate) async fn review(state: &SharedState, server: &Server) -> Result<Review, ReviewError> {
    let waiting = state.store.waiting_pins(server.identity()).await?;
    let has_accepted = !state.store.accepted_pins(server.identity()).await?.is_empty();
    let entries = waiting.into_iter().map(entry).collect();
    Ok(Review { server: server.name().clone(), is_first: !has_accepted, entries })
}

fn entry(waiting: WaitingPin) -> ReviewEntry {
    let WaitingPin { key, pin, json: new, reason, details, first_seen_ms, last_seen_ms, times, accepted } = waiting;
    let words = |name: &str| -> Vec<String> {
        json::member(&details, name).and_then(|list| serde_json::from_str(list).ok()).unwrap_or_default()
    };
    let (changes, kinds) = (words("changes"), words("kinds"));
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
    }
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
    let counts = [Choice::Accept, Choice::Reject].map(|choice| of(choice).count());
    let left_out: usize = counts.iter().map(|count| count.saturating_sub(RECORDED_MAX)).sum();
    let metadata = serde_json::json!({
        "user": user,
        "accepted": list(Choice::Accept),
        "rejected": list(Choice::Reject),
        "left_out": left_out,
    });
    let [accepted, rejected] = counts;
    NewRecord {
        server: Some(server.to_string()),
        code: Some(REVIEWED.to_owned()),
        message: Some(format!("{user} accepted {accepted} and rejected {rejected} definitions")),
        metadata: metadata.to_string(),
        ..record::blank(Kind::Server, Status::Success)
    }
}
