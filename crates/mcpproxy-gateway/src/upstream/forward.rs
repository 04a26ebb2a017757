//! Sends requests to servers. [`forward`] is the only code that sends `tools/call`, and it takes a [`Permit`] by value.
//!
//! The permit owns the bytes that were decided on: name, arguments and what the agent attached. `forward` sends exactly
//! these, so nothing between decision and server can change the call. Requests that call no tool, such as
//! `prompts/get`, go through [`relay`] without a permit.
//!
//! Both share [`bounded`], which keeps a server within its limits:
//!
//! 1. It waits for memory for the answer (`agents/budget.rs`), and then for a slot (`max_concurrent_calls`). Agents
//!    share both fairly (`fair_pool.rs`). Without a slot nothing is sent, so running out of time here is
//!    `upstream_busy` or `agent_limit`, and the agent may safely retry.
//! 2. It sends the request and waits for at most `call_timeout`. From here on a timeout means that the outcome is
//!    unknown. The clock pauses while the agent's user answers a request of the server.
//! 3. If the server lost the session, it did not look at the request. So it is sent again on a new session, once. The
//!    same holds for a connection that ended before the request was written.
//!
//! A server of which nothing is accepted gets no request at all: while it answers, it could send an agent messages and
//! requests of its own.
//!
//! A server of the stateless kind may ask for input with an `input_required` result. A stateless agent gets that result
//! as it is. For an agent with a session, [`exchange`] asks its client and repeats the request with the answers, for at
//! most `ROUNDS_MAX` rounds.
//!
//! `cargo xtask` checks that the text `tools/call` stands in no other file that sends to a server.

use std::borrow::Cow;
use std::pin::pin;
use std::sync::atomic::{AtomicBool, Ordering};

use http::{HeaderName, HeaderValue};
use mcpproxy_core::json::{members, quote, string_value};
use mcpproxy_core::{Attached, Permit};
use tokio_util::sync::CancellationToken;

use super::connection::{Connection, Request, passed_meta};
use super::duplex::ask_agent;
use super::error::UpstreamError;
use super::server::Server;
use crate::agents::AgentChannel;
use crate::headers;
use crate::message::{Members, Reply, field, member, object};
use crate::protocol::Era;

/// Limit on rounds in which a server asks for input before it answers.
const ROUNDS_MAX: usize = 8;

/// Everything that accompanies a request: members of `params` for the server, and the channel to the agent.
pub(crate) struct Passage<'a> {
    pub(crate) era: Era,
    /// The agent's `_meta`, as raw JSON.
    pub(crate) meta: Option<&'a str>,
    /// Members of `params` that the gateway passes on unread.
    pub(crate) others: Vec<(&'a str, &'a str)>,
    pub(crate) channel: &'a AgentChannel,
    pub(crate) cancel: &'a CancellationToken,
}

impl Passage<'_> {
    /// Takes out what the agent attached for the server, so that from here on only a permit can send it. `carried` is
    /// what an earlier round of the same call had for the server.
    pub(crate) fn detach(&mut self, carried: &Members<'_>) -> Attached {
        let (others, meta) = (std::mem::take(&mut self.others), self.meta.take().and_then(passed_meta));
        let carried = carried.iter().map(|(key, value)| (key.as_ref(), *value));
        let meta = meta.as_deref().map(|meta| (META, meta));
        Attached::of(others.into_iter().chain(carried).chain(meta))
    }
}

const META: &str = "_meta";

/// Requests that need no permit, because they call no tool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Relayed {
    ReadResource,
    GetPrompt,
    Complete,
    Subscribe,
    Unsubscribe,
    SetLevel,
}

impl Relayed {
    fn method(self) -> &'static str {
        match self {
            Self::ReadResource => "resources/read",
            Self::GetPrompt => "prompts/get",
            Self::Complete => "completion/complete",
            Self::Subscribe => "resources/subscribe",
            Self::Unsubscribe => "resources/unsubscribe",
            Self::SetLevel => "logging/setLevel",
        }
    }
}

/// Spends a permit: sends exactly the call that it permits, once. `trace` is this gateway's own place in the trace of
/// the call, which the server gets instead of the agent's.
pub(crate) async fn forward(
    server: &Server,
    permit: Permit,
    passage: &Passage<'_>,
    trace: Option<&str>,
) -> Result<Reply, UpstreamError> {
    let tool = permit.tool();
    let attached = permit.attached().as_str().and_then(members).unwrap_or_default();
    let others = attached.iter().filter(|(key, _)| key != META);
    let subject = Subject {
        method: "tools/call",
        name: Some(tool.name.tool()),
        params: vec![("name", quote(tool.name.tool()).into()), ("arguments", permit.arguments().as_str().into())],
        headers: headers::parameter_headers(&tool.offered, permit.arguments().as_str()),
        others: others.map(|(key, value)| (key.as_ref(), *value)).collect(),
        meta: field(&attached, META),
        trace,
    };
    bounded(server, subject, passage).await
}

/// Passes on a request that calls no tool. `name` is the value of the `Mcp-Name` header.
pub(crate) async fn relay(
    server: &Server,
    relayed: Relayed,
    params: Vec<(&str, String)>,
    name: Option<&str>,
    passage: &Passage<'_>,
) -> Result<Reply, UpstreamError> {
    let params = params.into_iter().map(|(key, value)| (key, value.into())).collect();
    let (others, meta) = (passage.others.clone(), passage.meta);
    let subject = Subject { method: relayed.method(), name, params, headers: Vec::new(), others, meta, trace: None };
    bounded(server, subject, passage).await
}

struct Subject<'a> {
    method: &'a str,
    name: Option<&'a str>,
    params: Vec<(&'a str, Cow<'a, str>)>,
    headers: Vec<(HeaderName, HeaderValue)>,
    /// Members of `params` that the agent attached.
    others: Vec<(&'a str, &'a str)>,
    meta: Option<&'a str>,
    trace: Option<&'a str>,
}

/// Sends within the limits of the server: concurrent calls, time, and until the agent cancels.
async fn bounded(server: &Server, subject: Subject<'_>, passage: &Passage<'_>) -> Result<Reply, UpstreamError> {
    let limit = server.settings.call_timeout;
    let (has_memory, has_slot) = (AtomicBool::new(false), AtomicBool::new(false));
    let sent = async {
        passage.channel.expect_answer().await;
        has_memory.store(true, Ordering::Relaxed);
        let _slot = server.slots.acquire(passage.channel.key(), 1).await;
        has_slot.store(true, Ordering::Relaxed);
        let connection = server.connection(passage.era).await?;
        // Resources and completions have no judgement of their own, and the connection may be a first one.
        server.opened().await?;
        let reply = match exchange(&connection, &subject, passage).await {
            // A server that lost the session did not process the request, so sending it again is safe.
            Err(UpstreamError::SessionLost) => {
                server.reconnected().await;
                Box::pin(exchange(&*server.connection(passage.era).await?, &subject, passage)).await
            }
            // The connection ended while it was idle. The server never saw the request.
            Err(UpstreamError::Unsent) => {
                connection.ended().cancelled().await;
                Box::pin(exchange(&*server.connection(passage.era).await?, &subject, passage)).await
            }
            answered => answered,
        };
        // Before the slot is free again, so that the next answer waits if this one is too much.
        if let Ok(Ok(result)) = &reply {
            passage.channel.count_answer(result.len());
        }
        reply
    };
    let mut sent = pin!(sent);
    loop {
        let answered = tokio::select! {
            answered = tokio::time::timeout(limit, &mut sent) => answered,
            () = passage.cancel.cancelled() => return Err(UpstreamError::Cancelled),
        };
        match answered {
            Ok(reply) => return reply,
            // The timeout is for the server, not for a user who answers its request.
            Err(_) if passage.channel.is_asking() => {}
            // Without a slot nothing was sent. With one, the server may have run the call.
            Err(_) if has_slot.load(Ordering::Relaxed) => return Err(UpstreamError::Timeout(limit)),
            Err(_) if has_memory.load(Ordering::Relaxed) => {
                return Err(UpstreamError::Busy(server.settings.max_concurrent_calls));
            }
            Err(_) => return Err(UpstreamError::NoMemory),
        }
    }
}

async fn exchange(
    connection: &Connection,
    subject: &Subject<'_>,
    passage: &Passage<'_>,
) -> Result<Reply, UpstreamError> {
    let own: Vec<(&str, &str)> = subject.params.iter().map(|(key, value)| (*key, value.as_ref())).collect();
    let mut others = subject.others.clone();
    let mut answers;
    for _ in 0..ROUNDS_MAX {
        let request = Request {
            method: subject.method,
            params: own.iter().copied().chain(others.iter().copied()).collect(),
            meta: subject.meta,
            trace: subject.trace,
            name: subject.name,
            headers: subject.headers.clone(),
            channel: Some(passage.channel),
        };
        let reply = connection.request(request).await?;
        let must_bridge = passage.era == Era::Legacy && connection.era == Era::Modern;
        match &reply {
            Ok(result) if must_bridge && wants_input(result) => {
                // A client with a session cannot answer this result. Ask it by request, then send the call again.
                answers = Box::pin(ask_all(passage.channel, result)).await;
                others = answers.iter().map(|(key, value)| (*key, value.as_str())).collect();
            }
            Ok(_) | Err(_) => return Ok(reply),
        }
    }
    Err(UpstreamError::Protocol("the server keeps asking for input".to_owned()))
}

fn wants_input(result: &str) -> bool {
    member(result, "resultType") == Some("\"input_required\"")
}

/// Asks the agent for all input that a server requires.
async fn ask_all(channel: &AgentChannel, result: &str) -> Vec<(&'static str, String)> {
    let mut responses: Vec<(String, String)> = Vec::new();
    for (key, request) in member(result, "inputRequests").and_then(members).unwrap_or_default() {
        let method = member(request, "method").and_then(string_value).unwrap_or_default();
        let params = member(request, "params").unwrap_or("{}");
        let answer = ask_agent(channel, &method, params).await;
        let declined = || "{\"action\":\"decline\"}".to_owned();
        responses.push((key.into_owned(), answer.unwrap_or_else(|_| declined())));
    }
    let responses = object(responses.iter().map(|(key, value)| (key.as_str(), value.as_str())));
    let mut params = vec![("inputResponses", responses)];
    if let Some(state) = member(result, "requestState") {
        params.push(("requestState", state.to_owned()));
    }
    params
}
