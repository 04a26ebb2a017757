//! Calls that were made before: the same answer again, and nothing sent.

use std::time::Duration;

use mcpproxy_core::decision::Claim;
use mcpproxy_core::json::{members, quote};
use mcpproxy_core::{Denial, Intent, Tool, ToolName};
use mcpproxy_store::{NewClaim, NewRecord, RecordId, Status, Step, StoreError, StoredClaim};
use tokio::time::Instant;

use crate::call::with_own_words;
use crate::downstream::Caller;
use crate::gateway::Inner;
use crate::judge::FAILURE_KEY;
use crate::message::{self, INTERNAL_ERROR, RpcError, member};
use crate::record::{self, now_ms};
use crate::upstream::{Passage, Reply};

/// Under this key an answer says that it was given before.
pub(crate) const REPLAYED_KEY: &str = "mcpproxy/replayed";
/// Under this key such an answer names the record of the call that was made.
const FIRST_KEY: &str = "mcpproxy/first_record";
/// How soon a repeat looks for the answer to the first one, and how often at last. Many may wait for one answer, perhaps of
/// another replica's call, so they are not woken by everything that is written.
const LOOK_FIRST: Duration = Duration::from_millis(5);
const LOOK_EVERY: Duration = Duration::from_millis(200);
/// How much longer than a call may take its repeat waits for the answer.
const GRACE: Duration = Duration::from_secs(5);

/// A call that may have been made before.
#[derive(Clone, Copy)]
pub(crate) struct Asked<'a> {
    pub(crate) tool: &'a Tool,
    pub(crate) intent: &'a Intent,
    pub(crate) claim: &'a Claim,
}

/// What became of a claim.
pub(crate) enum Earlier {
    Reply(Reply),
    Refused(Denial),
    /// There is no answer to give, and the call may be made: again, if its contract says that this does no harm.
    Free(Option<Step>),
}

/// The step that takes the name of a call for this agent.
pub(crate) fn claim_step(caller: &Caller, tool: &ToolName, claim: &Claim) -> Step {
    let now_ms = now_ms();
    Step::Claim(Box::new(NewClaim {
        agent: caller.agent.name.clone(),
        tool: tool.to_string(),
        key: claim.key.clone(),
        args_digest: claim.arguments,
        now_ms,
        expires_ms: now_ms.saturating_add(i64::try_from(claim.ttl.as_millis()).unwrap_or(i64::MAX)),
    }))
}

/// The step that keeps the answer, or gives the name back if there is none yet and will be none.
pub(crate) fn end_step(caller: &Caller, tool: &ToolName, claim: &Claim, kept: &Kept<'_>) -> Option<Step> {
    let (agent, tool, key) = (caller.agent.name.clone(), tool.to_string(), claim.key.clone());
    match kept {
        Kept::Result { result, failure, .. } => {
            let own = failure.as_ref().map(|failure| (FAILURE_KEY, failure.as_str()));
            let answer = format!("{{\"result\":{result},\"own\":{}}}", message::object(own));
            Some(Step::FinishClaim { agent, tool, key, answer })
        }
        Kept::Withheld(result) => {
            let own = member(result, "_meta").unwrap_or("{}");
            Some(Step::FinishClaim { agent, tool, key, answer: format!("{{\"result\":{result},\"own\":{own}}}") })
        }
        Kept::Error(error) => {
            Some(Step::FinishClaim { agent, tool, key, answer: format!("{{\"error\":{}}}", error.object()) })
        }
        Kept::Asks(_) | Kept::NotYet => Some(Step::DropClaim { agent, tool, key, record: None }),
        // Nobody knows what happened, and a repeat is told so.
        Kept::Unknown => None,
    }
}

/// What there is to keep of an answer.
pub(crate) enum Kept<'a> {
    Result {
        result: &'a str,
        is_error: bool,
        failure: Option<String>,
    },
    /// What the agent got in place of the result.
    Withheld(String),
    Error(Box<RpcError>),
    /// The server wants to know more before it makes the call.
    Asks(&'a str),
    /// The server never saw the call.
    NotYet,
    Unknown,
}

impl<'a> Kept<'a> {
    /// What a dry run has shown: a result that is not a failure, or that the server will ask first.
    pub(crate) fn of_dry_run(&self) -> Option<&'a str> {
        match self {
            Self::Result { result, is_error: false, .. } | Self::Asks(result) => Some(result),
            Self::Result { .. } | Self::Withheld(_) | Self::Error(_) | Self::NotYet | Self::Unknown => None,
        }
    }
}

/// Whether the name of a call is taken, for the decision.
pub(crate) async fn is_taken(
    gateway: &Inner,
    caller: &Caller,
    tool: &ToolName,
    claim: &Claim,
) -> Result<bool, StoreError> {
    let found = gateway.store.find_claim(&caller.agent.name, &tool.to_string(), &claim.key, now_ms()).await?;
    // One that may be taken again is none.
    Ok(found.is_some_and(|found| found.was_sent && !(claim.is_natural && is_lost(&found))))
}

/// Waits for the first call of this name, and gives its answer.
pub(crate) async fn earlier(
    gateway: &Inner,
    caller: &Caller,
    asked: Asked<'_>,
    passage: &Passage<'_>,
    longest: Duration,
) -> Result<Earlier, StoreError> {
    let Asked { tool, intent, claim } = asked;
    let until = Instant::now() + longest + GRACE;
    let mut pause = LOOK_FIRST;
    loop {
        let found = gateway.store.find_claim(&caller.agent.name, &tool.name.to_string(), &claim.key, now_ms()).await?;
        let Some(found) = found.filter(|found| found.was_sent) else { return Ok(Earlier::Free(None)) };
        if found.args_digest != claim.arguments {
            return Ok(Earlier::Refused(Denial::IdempotencyConflict {
                tool: tool.name.clone(),
                is_natural: claim.is_natural,
            }));
        }
        if let Some(answer) = &found.answer {
            let record = note_repeat(gateway, caller, tool, intent, found.record).await;
            return Ok(Earlier::Reply(replayed(answer, record, found.record)));
        }
        if is_lost(&found) && claim.is_natural {
            let (agent, key) = (caller.agent.name.clone(), claim.key.clone());
            let (tool, record) = (tool.name.to_string(), Some(found.record));
            return Ok(Earlier::Free(Some(Step::DropClaim { agent, tool, key, record })));
        }
        if is_lost(&found) || Instant::now() >= until {
            let record = found.record.to_string();
            return Ok(Earlier::Refused(Denial::OutcomeUnknown { tool: tool.name.clone(), record }));
        }
        tokio::select! {
            () = tokio::time::sleep(pause) => pause = (pause * 2).min(LOOK_EVERY),
            () = passage.cancel.cancelled() => {
                return Ok(Earlier::Reply(Err(RpcError::new(INTERNAL_ERROR, "the call was cancelled"))));
            }
        }
    }
}

/// It is over, and there is no answer: nobody knows what became of it.
fn is_lost(found: &StoredClaim) -> bool {
    found.answer.is_none() && found.status != Status::Started
}

/// A repeat is a call of its own on the record, which was not sent.
async fn note_repeat(
    gateway: &Inner,
    caller: &Caller,
    tool: &Tool,
    intent: &Intent,
    first: RecordId,
) -> Option<RecordId> {
    let record = record::of_tool(tool, intent, &caller.agent, caller.client.as_deref());
    let record = NewRecord {
        code: Some("replayed".to_owned()),
        metadata: message::with_members(&record.metadata, &[("replayed_from", &format!("\"{first}\""))]),
        ..record
    };
    record::note(&gateway.ledger, record).await
}

fn replayed(answer: &str, record: Option<RecordId>, first: RecordId) -> Reply {
    if let Some(error) = member(answer, "error") {
        let error = RpcError::parse(error).with_record(record.unwrap_or(first));
        return Err(error.with_word(REPLAYED_KEY, "true").with_word(FIRST_KEY, &quote(&first.to_string())));
    }
    let result = member(answer, "result").unwrap_or("{}");
    let own = member(answer, "own").and_then(members).unwrap_or_default();
    let own = own.iter().map(|(key, value)| (key.as_ref(), (*value).to_owned()));
    let mark = [(REPLAYED_KEY, "true".to_owned()), (FIRST_KEY, quote(&first.to_string()))];
    let own: Vec<(&str, String)> = own.chain(mark).collect();
    Ok(with_own_words(result, record.unwrap_or(first), &[], &own))
}
