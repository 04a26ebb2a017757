//! Idempotency keys: a repeated call gets the stored answer, and nothing is sent.
//!
//! A claim is the stored reservation of a key for one agent and tool. It is taken in the transaction that opens the
//! record of the first call, and completed with the answer in the transaction that closes it. A repeat finds the claim
//! and waits for that answer, even if another replica makes the call. If the first call ended without an answer, its
//! outcome is unknown. The repeat is then refused, unless the contract says that the tool is idempotent by nature.

use std::time::Duration;

use mcpproxy_core::decision::{Claim, Repeat};
use mcpproxy_core::json::{members, quote};
use mcpproxy_core::{Denial, Intent, Tool, ToolName};
use mcpproxy_store::{NewClaim, NewRecord, RecordId, Status, Step, StoreError, StoredClaim};
use tokio::time::Instant;

use super::checked_reply::FAILURE_KEY;
use super::{Incoming, failed};
use crate::agents::ConnectedAgent;
use crate::answer::{cancelled, unrecorded, with_own_meta};
use crate::message::{self, Reply, RpcError, member};
use crate::record::{self, now_ms};
use crate::state::SharedState;
use crate::upstream::{Passage, UpstreamError};

/// Key in `_meta` that marks an answer as given before.
const REPLAYED_KEY: &str = "mcpproxy/replayed";
/// Key in `_meta` for the record of the call that was made.
const FIRST_KEY: &str = "mcpproxy/first_record";
/// First and longest pause between looks for the first call's answer. Many repeats may wait for one answer, perhaps of
/// another replica, so they poll instead of waking up for every write.
const POLL_FIRST: Duration = Duration::from_millis(5);
const POLL_MAX: Duration = Duration::from_millis(200);
/// Time that a repeat waits beyond the timeout of the first call.
const GRACE: Duration = Duration::from_secs(5);

/// A call with an idempotency key.
#[derive(Clone, Copy)]
pub(super) struct KeyedCall<'a> {
    pub(super) tool: &'a Tool,
    pub(super) intent: &'a Intent,
    pub(super) claim: &'a Claim,
}

/// The result of the first call with a key, for a repeat.
pub(super) enum FirstCall {
    Answered(Reply),
    Refused(Denial),
    /// The key is free, because the first call was not sent or may be made again. The step releases the old claim.
    Released(Option<Step>),
}

/// The part of a reply that is stored with the claim.
pub(super) enum StoredAnswer<'a> {
    Result {
        result: &'a str,
        is_error: bool,
        failure: Option<String>,
    },
    /// The agent got this in place of a result that violates the output schema.
    Replaced(String),
    Error(Box<RpcError>),
    /// The server asks for more input before it makes the call.
    InputRequired(&'a str),
    /// The server never saw the call.
    NotSent,
    /// The server may have run the call.
    Unknown,
}

impl<'a> StoredAnswer<'a> {
    /// Returns what a dry run has shown: a successful result, or that the server will ask for input.
    pub(super) fn of_dry_run(&self) -> Option<&'a str> {
        match self {
            Self::Result { result, is_error: false, .. } | Self::InputRequired(result) => Some(result),
            Self::Result { .. } | Self::Replaced(_) | Self::Error(_) | Self::NotSent | Self::Unknown => None,
        }
    }
}

/// Builds the step that reserves a key for this agent and tool.
pub(super) fn claim_step(agent: &ConnectedAgent, tool: &ToolName, claim: &Claim) -> Step {
    let now_ms = now_ms();
    Step::Claim(Box::new(NewClaim {
        agent: agent.identity.name.clone(),
        tool: tool.to_string(),
        key: claim.key.clone(),
        args_digest: claim.arguments,
        now_ms,
        expires_ms: now_ms.saturating_add(i64::try_from(claim.ttl.as_millis()).unwrap_or(i64::MAX)),
    }))
}

/// Builds the step that stores the answer, or releases the key if there will be none.
pub(super) fn finish_step(
    agent: &ConnectedAgent,
    tool: &ToolName,
    claim: &Claim,
    answer: &StoredAnswer<'_>,
) -> Option<Step> {
    let (agent, tool, key) = (agent.identity.name.clone(), tool.to_string(), claim.key.clone());
    match answer {
        StoredAnswer::Result { result, failure, .. } => {
            let own = failure.as_ref().map(|failure| (FAILURE_KEY, failure.as_str()));
            let answer = format!("{{\"result\":{result},\"own\":{}}}", message::object(own));
            Some(Step::FinishClaim { agent, tool, key, answer })
        }
        StoredAnswer::Replaced(result) => {
            let own = member(result, "_meta").unwrap_or("{}");
            Some(Step::FinishClaim { agent, tool, key, answer: format!("{{\"result\":{result},\"own\":{own}}}") })
        }
        StoredAnswer::Error(error) => {
            Some(Step::FinishClaim { agent, tool, key, answer: format!("{{\"error\":{}}}", error.object()) })
        }
        StoredAnswer::InputRequired(_) | StoredAnswer::NotSent => {
            Some(Step::DropClaim { agent, tool, key, record: None })
        }
        // The claim stays without an answer, so that a repeat learns that the outcome is unknown.
        StoredAnswer::Unknown => None,
    }
}

/// Returns true if another call holds the key. The decision depends on it.
pub(super) async fn is_taken(
    state: &SharedState,
    agent: &ConnectedAgent,
    tool: &ToolName,
    claim: &Claim,
) -> Result<bool, StoreError> {
    let found = state.store.find_claim(&agent.identity.name, &tool.to_string(), &claim.key, now_ms()).await?;
    // A claim that another call may replace does not count.
    Ok(found.is_some_and(|found| found.was_sent && !(claim.is_natural && is_lost(&found))))
}

/// Waits for the first call with this key and returns its answer.
pub(super) async fn first_call(
    state: &SharedState,
    agent: &ConnectedAgent,
    call: KeyedCall<'_>,
    passage: &Passage<'_>,
    timeout: Duration,
) -> Result<FirstCall, StoreError> {
    let KeyedCall { tool, intent, claim } = call;
    let name = &agent.identity.name;
    let until = Instant::now() + timeout + GRACE;
    let mut pause = POLL_FIRST;
    loop {
        let found = state.store.find_claim(name, &tool.name.to_string(), &claim.key, now_ms()).await?;
        let Some(found) = found.filter(|found| found.was_sent) else { return Ok(FirstCall::Released(None)) };
        if found.args_digest != claim.arguments {
            return Ok(FirstCall::Refused(Denial::IdempotencyConflict {
                tool: tool.name.clone(),
                is_natural: claim.is_natural,
            }));
        }
        if let Some(answer) = &found.answer {
            let record = note_repeat(state, agent, tool, intent, found.record).await;
            return Ok(FirstCall::Answered(replayed(answer, record, found.record)));
        }
        if is_lost(&found) && claim.is_natural {
            let (agent, key) = (name.clone(), claim.key.clone());
            let (tool, record) = (tool.name.to_string(), Some(found.record));
            return Ok(FirstCall::Released(Some(Step::DropClaim { agent, tool, key, record })));
        }
        if is_lost(&found) || Instant::now() >= until {
            let record = found.record.to_string();
            return Ok(FirstCall::Refused(Denial::OutcomeUnknown { tool: tool.name.clone(), record }));
        }
        tokio::select! {
            () = tokio::time::sleep(pause) => pause = (pause * 2).min(POLL_MAX),
            () = passage.cancel.cancelled() => return Ok(FirstCall::Answered(Err(cancelled()))),
        }
    }
}

impl Incoming<'_> {
    /// Answers a repeat with what the first call got.
    pub(super) async fn repeat(&self, repeat: &Repeat) -> Reply {
        let Repeat { tool, intent, claim } = repeat;
        let server = self.snapshot.servers.get(tool.name.server());
        let timeout = server.map_or(Duration::ZERO, |server| server.settings.call_timeout);
        let call = KeyedCall { tool, intent, claim };
        match first_call(self.state, self.agent, call, &self.passage, timeout).await {
            Ok(FirstCall::Answered(reply)) => reply,
            Ok(FirstCall::Refused(denial)) => self.refuse(&denial).await,
            // The key was released in the meantime. As a new call this one needs a decision of its own.
            Ok(FirstCall::Released(_)) => {
                let error =
                    UpstreamError::Unavailable("the first call with this idempotency key was not sent".to_owned());
                let record = NewRecord {
                    status: Status::Error,
                    code: Some(error.code().to_owned()),
                    message: Some(error.to_string()),
                    ..record::of_tool(tool, intent, &self.agent.identity, self.agent.client.as_deref())
                };
                let record = record::note(&self.state.ledger, record).await;
                failed(&tool.name, &error, record)
            }
            Err(error) => unrecorded(&error),
        }
    }
}

/// Checks for a call that ended without an answer, so that its outcome is unknown.
fn is_lost(found: &StoredClaim) -> bool {
    found.answer.is_none() && found.status != Status::Started
}

/// Records a repeat as a call of its own that was not sent.
async fn note_repeat(
    state: &SharedState,
    agent: &ConnectedAgent,
    tool: &Tool,
    intent: &Intent,
    first: RecordId,
) -> Option<RecordId> {
    let record = record::of_tool(tool, intent, &agent.identity, agent.client.as_deref());
    let record = NewRecord {
        code: Some("replayed".to_owned()),
        metadata: message::with_members(&record.metadata, &[("replayed_from", &format!("\"{first}\""))]),
        ..record
    };
    record::note(&state.ledger, record).await
}

fn replayed(answer: &str, record: Option<RecordId>, first: RecordId) -> Reply {
    if let Some(error) = member(answer, "error") {
        let error = RpcError::parse(error).with_record(record.unwrap_or(first));
        return Err(error.with_key(REPLAYED_KEY, "true").with_key(FIRST_KEY, &quote(&first.to_string())));
    }
    let result = member(answer, "result").unwrap_or("{}");
    let own = member(answer, "own").and_then(members).unwrap_or_default();
    let own = own.iter().map(|(key, value)| (key.as_ref(), (*value).to_owned()));
    let mark = [(REPLAYED_KEY, "true".to_owned()), (FIRST_KEY, quote(&first.to_string()))];
    let own: Vec<(&str, String)> = own.chain(mark).collect();
    Ok(with_own_meta(result, record.unwrap_or(first), &[], &own))
}
