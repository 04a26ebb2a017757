//! Idempotency keys: a repeated call gets the stored answer, and nothing is sent.
//!
//! A claim is the stored reservation of a key for one agent and tool. It is taken in the transaction that opens the
//! record of the first call, and completed with the answer in the transaction that closes it. A repeat finds the claim
//! and waits for that answer, even if another replica makes the call. If the first call ended without an answer, its
//! outcome is unknown. The repeat is then refused, unless the contract says that the tool is idempotent by nature.
//!
//! Calls that waited while the first one ran share its answer, whatever it is: together they are one call. A later
//! repeat gets only what `Claim::replay` of core allows, because an error of the past may be over:
//!
//! | stored with the claim | a call that waited | a later repeat |
//! |---|---|---|
//! | an answer | the answer | the answer, until the claim expires |
//! | an answer, expired at once | the answer | runs again |
//! | an answer that is not for repeats | the answer | refused: `outcome_unknown` |
//! | no answer, and the record has ended | natural: runs again; else refused | the same |
//!
//! An answer that is too large to be kept is cut to the fact that the call was made (`cut_answer.rs`).
//!
//! A repeat that finds neither an answer nor a reason to be refused is decided again, like a new call.

use std::borrow::Cow;
use std::time::Duration;

use mcpproxy_core::decision::{Answered, Claim, Repeat, Replay};
use mcpproxy_core::json::{members, quote};
use mcpproxy_core::{Declared, Denial, FirstOutcome, Intent, Mode, Tool, ToolName};
use mcpproxy_store::{NewClaim, NewRecord, RecordId, Status, Step, StoreError, StoredClaim};
use tokio::sync::watch;
use tokio::time::Instant;

use super::checked_reply::FAILURE_KEY;
use super::cut_answer;
use super::{CallExtras, Incoming, Stopped, failed, proceed};
use crate::agents::ConnectedAgent;
use crate::answer::{cancelled, with_own_meta};
use crate::message::{self, Reply, RpcError, member};
use crate::record::{self, now_ms};
use crate::state::SharedState;
use crate::upstream::{Passage, UpstreamError};

/// Key in `_meta` that marks an answer as given before.
const REPLAYED_KEY: &str = "mcpproxy/replayed";
/// Key in `_meta` for the record of the call that was made.
const FIRST_KEY: &str = "mcpproxy/first_record";
/// Member of a stored answer that only calls get that waited for it.
pub(super) const NOT_FOR_REPEATS: &str = "not_for_repeats";
/// First and longest pause between looks for the first call's answer. Many repeats may wait for one answer, perhaps of
/// another replica, so they poll instead of waking up for every write.
const POLL_FIRST: Duration = Duration::from_millis(5);
const POLL_MAX: Duration = Duration::from_millis(200);
/// Time that a repeat waits beyond the timeout of the first call, which counts from the start of that call.
const GRACE: Duration = Duration::from_secs(5);

/// A call with an idempotency key.
#[derive(Clone, Copy)]
pub(super) struct KeyedCall<'a> {
    pub(super) tool: &'a Tool,
    pub(super) intent: &'a Intent,
    pub(super) claim: &'a Claim,
    /// True if another call certainly held the key after this one began.
    pub(super) was_held: bool,
}

/// A repeat, with the parameters for the gateway itself, in case it is decided again.
pub(super) struct Repeated {
    pub(super) repeat: Repeat,
    pub(super) extras: CallExtras,
}

/// Counts a call among those that wait for another one, until it is dropped.
struct Waiting<'a>(&'a watch::Sender<usize>);

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
    let (text, answered, valid_until_ms) = match answer {
        StoredAnswer::Result { result, is_error, failure } => {
            let own = failure.as_ref().map(|failure| (FAILURE_KEY, failure.as_str()));
            let text = format!("{{\"result\":{result},\"own\":{}}}", message::object(own));
            match is_error {
                true => (text, Answered::Failed, None),
                false => {
                    let until_ms = claim.valid_until.as_ref().and_then(|until| until.of_result(result));
                    (text, Answered::Success, until_ms)
                }
            }
        }
        StoredAnswer::Replaced(result) => {
            let own = member(result, "_meta").unwrap_or("{}");
            // The server made the call, so with an agent's key it must not run again. The agent gets an error, so a
            // natural one does.
            let answered = if claim.is_natural { Answered::Failed } else { Answered::Success };
            (format!("{{\"result\":{result},\"own\":{own}}}"), answered, None)
        }
        StoredAnswer::Error(error) => {
            (format!("{{\"error\":{}}}", error.object()), Answered::of_error(error.code), None)
        }
        StoredAnswer::InputRequired(_) | StoredAnswer::NotSent => {
            return Some(Step::DropClaim { agent, tool, key, record: None });
        }
        // The claim stays without an answer, so that a repeat learns that the outcome is unknown.
        StoredAnswer::Unknown => return None,
    };
    let (answer, expires_ms) = match claim.replay(answered) {
        Replay::Answer => (text, valid_until_ms),
        // Any clock of any replica is past this time.
        Replay::RunAgain => (text, Some(0)),
        Replay::Refuse => (message::with_members(&text, &[(NOT_FOR_REPEATS, "true")]), None),
    };
    Some(Step::FinishClaim { agent, tool, key, answer, expires_ms })
}

/// Returns true if another call holds the key. The decision depends on it.
pub(super) async fn is_taken(
    state: &SharedState,
    agent: &ConnectedAgent,
    tool: &ToolName,
    claim: &Claim,
) -> Result<bool, StoreError> {
    let found = state.store.find_claim(&agent.identity.name, &tool.to_string(), &claim.key).await?;
    // A claim that another call may replace does not count.
    let is_held = |found: StoredClaim| found.was_sent && !(claim.is_natural && is_lost(&found));
    Ok(found.is_some_and(|found| found.expires_ms > now_ms() && is_held(found)))
}

/// Waits for the first call with this key and returns its answer. If the key was held after this call began, the two
/// calls overlap, so the answer counts even if it has expired since.
pub(super) async fn first_call(
    state: &SharedState,
    agent: &ConnectedAgent,
    call: KeyedCall<'_>,
    passage: &Passage<'_>,
    timeout: Duration,
) -> Result<FirstCall, StoreError> {
    let KeyedCall { tool, claim, was_held, .. } = call;
    let name = &agent.identity.name;
    let until = Instant::now() + timeout + GRACE;
    let mut pause = POLL_FIRST;
    // The call that this one has seen running. Its answer counts, even if no later call may get it.
    let mut awaited = None;
    let mut waiting = None;
    loop {
        let found = state.store.find_claim(name, &tool.name.to_string(), &claim.key).await?;
        let is_shared = |found: &StoredClaim| {
            was_held && found.args_digest == claim.arguments && found.answer.as_deref().is_some_and(is_for_repeats)
        };
        let is_open =
            |found: &StoredClaim| found.expires_ms > now_ms() || awaited == Some(found.record) || is_shared(found);
        let Some(found) = found.filter(|found| found.was_sent && is_open(found)) else {
            return Ok(FirstCall::Released(None));
        };
        if found.args_digest != claim.arguments {
            return Ok(FirstCall::Refused(Denial::IdempotencyConflict {
                tool: tool.name.clone(),
                is_natural: claim.is_natural,
            }));
        }
        let answer = found.answer.as_ref().filter(|answer| awaited == Some(found.record) || is_for_repeats(answer));
        if let Some(answer) = answer {
            let record = note_repeat(state, agent, call, answer, found.record).await;
            return Ok(FirstCall::Answered(replayed(answer, record, found.record)));
        }
        if is_lost(&found) && claim.is_natural {
            let (agent, key) = (name.clone(), claim.key.clone());
            let (tool, record) = (tool.name.to_string(), Some(found.record));
            return Ok(FirstCall::Released(Some(Step::DropClaim { agent, tool, key, record })));
        }
        if is_lost(&found) || Instant::now() >= until || now_ms() >= gives_up_ms(found.expires_ms, claim.ttl, timeout) {
            let first = if found.answer.is_some() { FirstOutcome::Failed } else { FirstOutcome::Lost };
            let (tool, record) = (tool.name.clone(), found.record.to_string());
            return Ok(FirstCall::Refused(Denial::OutcomeUnknown { tool, record, first }));
        }
        awaited = Some(found.record);
        if waiting.is_none() {
            waiting = Some(Waiting::new(&state.sharing));
        }
        tokio::select! {
            () = tokio::time::sleep(pause) => pause = (pause * 2).min(POLL_MAX),
            () = passage.cancel.cancelled() => return Ok(FirstCall::Answered(Err(cancelled()))),
        }
    }
}

impl Incoming<'_> {
    /// Answers a repeat with what the first call got. If the key was released in the meantime, this is a new call, which
    /// needs a decision of its own.
    pub(super) async fn repeat(&mut self, repeated: Repeated) -> Result<Reply, Stopped> {
        let Repeated { repeat: Repeat { tool, intent, arguments, attached, claim }, extras } = repeated;
        let server = self.snapshot.servers.get(tool.name.server());
        let timeout = server.map_or(Duration::ZERO, |server| server.settings.call_timeout);
        let call = KeyedCall { tool: &tool, intent: &intent, claim: &claim, was_held: true };
        match first_call(self.state, self.agent, call, &self.passage, timeout).await? {
            FirstCall::Answered(reply) => Ok(reply),
            FirstCall::Refused(denial) => Err(denial.into()),
            // The step that releases the key is found again when the call opens its record.
            FirstCall::Released(_) => {
                let declared = Declared {
                    name: tool.name.clone(),
                    intent,
                    arguments,
                    attached,
                    mode: Mode::Real,
                    idempotency_key: extras.idempotency_key.clone(),
                    approval: extras.approval.clone(),
                    masked: Vec::new(),
                };
                Box::pin(proceed(self, declared, Some(tool), extras)).await
            }
        }
    }
}

impl<'a> Waiting<'a> {
    fn new(count: &'a watch::Sender<usize>) -> Self {
        count.send_modify(|count| *count += 1);
        Self(count)
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.send_modify(|count| *count -= 1);
    }
}

/// Records and words the end of a call that waited for others with the same key, and got no answer from them.
pub(super) async fn nothing_to_share(
    state: &SharedState,
    agent: &ConnectedAgent,
    tool: &Tool,
    intent: &Intent,
) -> Reply {
    let error =
        UpstreamError::Unavailable("the first call with this idempotency key has no result to share".to_owned());
    let record = NewRecord {
        status: Status::Error,
        code: Some(error.code().to_owned()),
        message: Some(error.to_string()),
        ..record::of_tool(tool, intent, agent)
    };
    let record = record::note(&state.ledger, record).await;
    failed(&tool.name, &error, record)
}

/// Returns the time until which repeats wait for the first call. It counts from the start of that call, not from that of
/// the repeat: otherwise every repeat of a call that was lost would wait for the whole timeout again.
fn gives_up_ms(expires_ms: i64, ttl: Duration, timeout: Duration) -> i64 {
    let ms = |duration: Duration| i64::try_from(duration.as_millis()).unwrap_or(i64::MAX);
    // `claim_step` made the time of expiry from the start.
    let started_ms = expires_ms.saturating_sub(ms(ttl));
    started_ms.saturating_add(ms(timeout + GRACE))
}

/// Checks for a call that ended without an answer for repeats, so that its outcome is unknown to them.
fn is_lost(found: &StoredClaim) -> bool {
    !found.answer.as_deref().is_some_and(is_for_repeats) && found.status != Status::Started
}

fn is_for_repeats(answer: &str) -> bool {
    member(answer, NOT_FOR_REPEATS).is_none()
}

/// Records a repeat as a call of its own that was not sent. It succeeded if the first call did.
async fn note_repeat(
    state: &SharedState,
    agent: &ConnectedAgent,
    call: KeyedCall<'_>,
    answer: &str,
    first: RecordId,
) -> Option<RecordId> {
    let record = record::of_tool(call.tool, call.intent, agent);
    let result = cut_answer::result_of(answer, first);
    let is_success = result.is_some_and(|result| member(&result, "isError") != Some("true"));
    let record = NewRecord {
        status: if is_success { Status::Success } else { Status::Error },
        code: Some("replayed".to_owned()),
        metadata: message::with_members(&record.metadata, &[(record::REPLAYED_FROM, &format!("\"{first}\""))]),
        ..record
    };
    record::note(&state.ledger, record).await
}

fn replayed(answer: &str, record: Option<RecordId>, first: RecordId) -> Reply {
    if let Some(error) = member(answer, "error") {
        let error = RpcError::parse(error).with_record(record.unwrap_or(first));
        return Err(error.with_key(REPLAYED_KEY, "true").with_key(FIRST_KEY, &quote(&first.to_string())));
    }
    let result = cut_answer::result_of(answer, first).unwrap_or(Cow::Borrowed("{}"));
    let own = member(answer, "own").and_then(members).unwrap_or_default();
    let own = own.iter().map(|(key, value)| (key.as_ref(), (*value).to_owned()));
    let mark = [(REPLAYED_KEY, "true".to_owned()), (FIRST_KEY, quote(&first.to_string()))];
    let own: Vec<(&str, String)> = own.chain(mark).collect();
    Ok(with_own_meta(result.into_owned(), record.unwrap_or(first), &[], &own))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_repeat_waits_from_the_start_of_the_first_call() {
        let (ttl, timeout) = (Duration::from_secs(24 * 3600), Duration::from_secs(60));
        let started_ms = 1_000_000;
        let expires_ms = started_ms + 24 * 3600 * 1000;
        assert_eq!(gives_up_ms(expires_ms, ttl, timeout), started_ms + 65_000);
        assert_eq!(gives_up_ms(i64::MAX, Duration::MAX, Duration::ZERO), 5_000);
    }
}
