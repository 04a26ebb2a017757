//! The path of a tool call. There is no other way to a server's tool.
//!
//! [`run`] and [`proceed`] are the whole path, one line or two per stop:
//!
//! ```text
//!  1 receive   bytes            → CallRequest        downstream
//!  2 declare   parameters       → intent, arguments  target.rs, core
//!  3 resolve   name             → tool, or nothing   core catalog
//!  4 decide    all of the above → Decision           core decision
//!  5 approve   approval request → Permit             approval.rs, only if a user must agree
//!  6 open      Permit           → open record        permitted.rs
//!  7 forward   Permit, spent    → the server's reply upstream/forward.rs, checked_reply.rs
//!  8 close     outcome          → finished record    permitted.rs
//! ```
//!
//! A call that ends early leaves `run` with a [`Stopped`], which [`answer`] turns into a reply and, for a refusal, a
//! record. So `?` is all that a stop needs to end the call. The repeat of a call that left no answer continues with
//! `proceed`.
//!
//! Invariants:
//!
//! - **No record, no call.** `open` is awaited before `forward`. For a write it returns when the record is on disk.
//! - **One permit, one call.** `forward` takes the permit by value. The transaction that opens the record also spends
//!   the approval and the idempotency key, and counts the call in its rate limit. So two gateways on one database cannot
//!   both send the call.
//! - **One snapshot.** A call keeps the snapshot it began with. Only an approval replaces it, because a user may take
//!   hours: the call is then decided again on the newest one.
//! - **A call that began is finished.** An agent that hangs up does not cancel the record (`agents/in_flight.rs`).
//!
//! Why not a chain of middleware? The order is the security property. Here it can be read, and the types enforce it:
//! only `decide` or an approval makes a `Permit`, and only `forward` spends one.
//!
//! Most calls need no approval, no idempotency key and no dry run. The parts for calls that do are boxed, so that the
//! common future stays small.

mod approval;
mod checked_reply;
mod claims;
mod cut_answer;
mod dry_run;
mod permitted;
mod prior_state;
mod rate_limit;
mod target;

use std::sync::Arc;

use mcpproxy_core::decision::Repeat;
use mcpproxy_core::{Decision, Declared, Denial, Mode, Moment, Tool, ToolName, decide};
use mcpproxy_store::{RecordId, StoreError};
use serde_json::json;

use crate::agents::ConnectedAgent;
use crate::answer::{cancelled, error_result, unrecorded};
use crate::message::{INVALID_PARAMS, Reply, RpcError};
use crate::meter::{CallClock, Stage};
use crate::offload::offload;
use crate::record::{self, RequestedCall};
use crate::snapshot::Snapshot;
use crate::state::SharedState;
use crate::upstream::{Passage, UpstreamError};
use claims::Repeated;
use permitted::PermittedCall;
use prior_state::CallExtras;

pub(crate) use target::Target;

/// Advice for an agent whose call may have run, although there is no reply.
const UNKNOWN_OUTCOME: &str = " The server may have run it, so check before you repeat the call.";

/// Rounds in which a call waits for another with the same idempotency key, and gets no answer.
const REPEATS_MAX: usize = 5;

/// A call as it was received, which is the first stop.
pub(crate) struct CallRequest<'a> {
    pub(crate) target: Target<'a>,
    pub(crate) passage: Passage<'a>,
}

/// A call on its path, before it is permitted.
struct Incoming<'a> {
    state: &'a SharedState,
    agent: &'a ConnectedAgent,
    passage: Passage<'a>,
    /// The one snapshot of this call. Only an approval replaces it.
    snapshot: Arc<Snapshot>,
    /// Data for the record of a refusal.
    requested: RequestedCall<'a>,
    clock: CallClock<'a>,
}

/// A call that ended before it was sent.
enum Stopped {
    Denied(Box<Denial>),
    /// The answer is known without asking the server.
    Answered(Reply),
    /// An earlier call with the same idempotency key was sent. Its answer is given again.
    Repeated(Box<Repeated>),
    /// The store failed, so nothing was sent.
    Unrecorded(StoreError),
}

/// Makes a call and returns what its agent gets.
pub(crate) async fn answer(state: &SharedState, agent: &ConnectedAgent, request: CallRequest<'_>) -> Reply {
    let CallRequest { target, passage } = request;
    let clock = state.meter.start(state.telemetry.begin(passage.meta));
    let snapshot = state.snapshot_for(target.server().as_ref()).await;
    let mut incoming = Incoming { state, agent, passage, snapshot, requested: target.requested(), clock };
    let reply = match run(&mut incoming, target).await {
        Ok(reply) => reply,
        Err(stopped) => Box::pin(incoming.end(stopped)).await,
    };
    if let Some(trace) = incoming.clock.finish() {
        state.telemetry.end(&trace, agent, &reply);
    }
    reply
}

/// Runs the path of a call, from declaration to answer.
async fn run(incoming: &mut Incoming<'_>, target: Target<'_>) -> Result<Reply, Stopped> {
    let (state, agent) = (incoming.state, incoming.agent);
    // 2 declare: the parameters become an intent and the exact arguments.
    let mut declared = target.declare(&incoming.snapshot, &agent.identity)?;
    if agent.user.is_some() {
        // Users make dry runs and nothing else, whatever the parameters say.
        declared.mode = Mode::DryRun;
    }
    // 3 resolve: the name becomes a tool, or nothing.
    let tool = incoming.resolve(&declared).await?;
    // The parameters for the gateway itself leave the call.
    let extras = CallExtras::take(state, agent, &mut declared, &mut incoming.passage).await?;
    proceed(incoming, declared, tool, extras).await
}

/// Decides on a declared call and makes it.
async fn proceed(
    incoming: &mut Incoming<'_>,
    declared: Declared,
    tool: Option<Arc<Tool>>,
    extras: CallExtras,
) -> Result<Reply, Stopped> {
    let (state, agent) = (incoming.state, incoming.agent);
    if let (Some(trace), Some(tool)) = (incoming.clock.trace(), &tool) {
        trace.tool = Some((tool.name.server().to_string(), tool.name.tool().to_owned()));
    }
    // 4 decide: allow, ask a user, preview, repeat or deny.
    let decision = incoming.decide(declared, tool.as_ref(), &extras).await?;
    incoming.clock.lap(Stage::Decide);
    // 5 approve: a user's approval becomes a permit, decided on the newest snapshot.
    let (permit, approved_by) = match decision {
        Decision::Allow(permit) => (permit, None),
        Decision::Ask(request) => {
            let approved = Box::pin(approval::obtain(incoming, request, extras)).await?;
            incoming.snapshot = approved.snapshot;
            incoming.clock.lap(Stage::Approve);
            (approved.permit, approved.by)
        }
        Decision::Preview(preview) => return Ok(Box::pin(dry_run::preview(state, agent, &preview)).await),
        Decision::Repeat(repeat) => return Err(Stopped::Repeated(Box::new(Repeated { repeat, extras }))),
        Decision::Deny(denial) => return Err(denial.into()),
    };
    // 6 open: no record, no call.
    let mut call = PermittedCall::new(&incoming.snapshot, agent, &permit)?.approved_by(approved_by);
    let record = call.open(state, &permit, &incoming.passage).await?;
    incoming.clock.lap(Stage::Open);
    // 7 forward: the permit is spent, and the server's reply is checked against the contract.
    let reply = call.forward(permit, &incoming.passage, &mut incoming.clock).await;
    // 8 close: the outcome finishes the record.
    let id = record.id();
    if let Some(trace) = incoming.clock.trace() {
        trace.record = Some(id);
    }
    call.close(state, record, &reply).await;
    incoming.clock.lap(Stage::Close);
    Ok(call.answer(reply, id))
}

impl Incoming<'_> {
    /// Finds the tool of a call. If the server was never reached, its tools are unknown, but they may exist. Such a
    /// call ends with the server's state.
    async fn resolve(&self, declared: &Declared) -> Result<Option<Arc<Tool>>, Stopped> {
        let (snapshot, agent) = (&self.snapshot, &self.agent.identity);
        let tool = snapshot.catalog.resolve(&declared.name);
        if tool.is_some() || !agent.scope.sees(declared.name.server()) {
            return Ok(tool.cloned());
        }
        let Some(server) = snapshot.unreached(declared.name.server()) else { return Ok(None) };
        let error = server.unavailable();
        let record = record::of_unavailable(declared, &error, self.agent, snapshot);
        let record = Box::pin(record::note(&self.state.ledger, record)).await;
        Err(Stopped::Answered(failed(&declared.name, &error, record)))
    }

    async fn decide(
        &self,
        declared: Declared,
        tool: Option<&Arc<Tool>>,
        extras: &CallExtras,
    ) -> Result<Decision, StoreError> {
        let prior = prior_state::look_up(self.state, self.agent, &declared, extras, tool).await?;
        let session_began_ms = self.agent.session_began_ms();
        let moment = Moment { clock: self.snapshot.clock(), limits: &self.state.limits, prior, session_began_ms };
        let size = declared.arguments.as_str().len();
        let inputs = self.snapshot.decision_inputs();
        Ok(offload(size, || decide(inputs, &self.agent.identity, declared, tool, moment)))
    }

    /// Answers a call that was not sent. A repeat of a call that left no answer is decided again, and may be sent.
    async fn end(&mut self, mut stopped: Stopped) -> Reply {
        for _ in 0..REPEATS_MAX {
            let Stopped::Repeated(repeated) = stopped else { break };
            match self.repeat(*repeated).await {
                Ok(reply) => return reply,
                Err(again) => stopped = again,
            }
        }
        match stopped {
            Stopped::Denied(denial) => self.refuse(&denial).await,
            Stopped::Answered(reply) => reply,
            Stopped::Repeated(repeated) => {
                let Repeat { tool, intent, .. } = &repeated.repeat;
                claims::nothing_to_share(self.state, self.agent, tool, intent).await
            }
            Stopped::Unrecorded(error) => unrecorded(&error),
        }
    }

    /// Records a refusal and words it. A malformed call gets a JSON-RPC error, because its client is at fault. Any
    /// other refusal is a result that the agent's model reads and can act on.
    async fn refuse(&self, denial: &Denial) -> Reply {
        let named = self.agent.endpoint_mode.named(denial);
        let denial: &Denial = &named;
        let record = record::of_denial(denial, self.agent, &self.requested, &self.snapshot);
        let record = record::note(&self.state.ledger, record).await;
        let place = self.agent.endpoint_mode.parameters();
        let (message, details) = (denial.message_in(place), denial.details_in(place));
        if denial.is_malformed() {
            return Err(RpcError::new(INVALID_PARAMS, message).with_data(&details).with_record_if(record));
        }
        Ok(error_result(denial.code(), &message, &details, record))
    }
}

impl From<Denial> for Stopped {
    fn from(denial: Denial) -> Self {
        Self::Denied(Box::new(denial))
    }
}

impl From<StoreError> for Stopped {
    fn from(error: StoreError) -> Self {
        Self::Unrecorded(error)
    }
}

/// Refuses a name that this endpoint does not offer. It never becomes a call, and is recorded all the same.
pub(crate) async fn refuse_unknown(
    state: &SharedState,
    agent: &ConnectedAgent,
    name: &str,
    requested: RequestedCall<'_>,
    error: RpcError,
) -> Reply {
    let record = record::of_unknown(name, &requested, &error.message, agent, &state.snapshot.load());
    let record = record::note(&state.ledger, record).await;
    Err(error.with_record_if(record))
}

/// Words the failure of a call that reached no server, or got no reply from it.
fn failed(name: &ToolName, error: &UpstreamError, record: Option<RecordId>) -> Reply {
    if matches!(error, UpstreamError::Cancelled) {
        return Err(cancelled());
    }
    let advice = if error.outcome_is_unknown() { UNKNOWN_OUTCOME } else { "" };
    let message = format!("The call to '{name}' failed: {}.{advice}", error.for_agent());
    Ok(error_result(error.code(), &message, &json!({"tool": name.to_string()}), record))
}
