//! A connection on which both sides send at any time: standard input and output, or the old HTTP with SSE.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use mcpproxy_core::json::string_value;
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;

use super::Notice;
use super::allowance::{Allowance, CANCELLATIONS_MAX, PASSED_ON_MAX_BYTES};
use super::error::UpstreamError;
use super::lines_out::LinesOut;
use super::notices::Notices;
use super::pending::{Answered, Belongs, Pending};
use crate::agents::{AgentChannel, LogLevel};
use crate::message::{self, INTERNAL_ERROR, Message, Reply, RpcError, member};

pub(crate) struct Duplex {
    outlet: Outlet,
    pending: Pending,
    next_id: AtomicU64,
    notices: Arc<Notices>,
    allowance: Arc<Allowance>,
    cancellations: Arc<Semaphore>,
    /// Cancelled when the line is down.
    pub(crate) ended: CancellationToken,
}

/// The way of the gateway's messages to the server.
pub(crate) enum Outlet {
    Stdin(LinesOut),
    Post(super::http_sse::Poster),
}

impl Duplex {
    pub(crate) fn new(outlet: Outlet, notices: Arc<Notices>) -> Arc<Self> {
        let (pending, ended) = (Pending::default(), CancellationToken::new());
        let allowance = Allowance::new(Instant::now());
        let cancellations = Arc::new(Semaphore::new(CANCELLATIONS_MAX));
        Arc::new(Self { outlet, pending, next_id: AtomicU64::new(1), notices, allowance, cancellations, ended })
    }

    pub(crate) fn next_id(&self) -> u64 {
        self.next_id.fetch_add(1, Ordering::Relaxed)
    }

    /// Sends a request. If the gateway stops waiting, it cancels the request at the server.
    pub(crate) async fn request(
        self: &Arc<Self>,
        id: u64,
        text: String,
        channel: Option<AgentChannel>,
    ) -> Result<Reply, UpstreamError> {
        // A call on a connection that has ended was never sent, and must not look as if it was. During the handshake the
        // reason itself matters.
        let is_call = channel.is_some();
        let answered: Answered =
            self.pending.open(id, channel).map_err(|reason| if is_call { UpstreamError::Unsent } else { reason })?;
        let mut guard = Abandon { line: Some(Arc::clone(self)), id };
        if let Err(error) = self.send(text).await {
            guard.line = None;
            self.pending.forget(id);
            return Err(error);
        }
        let answer = answered.await.unwrap_or(Err(UpstreamError::Closed));
        guard.line = None;
        answer
    }

    pub(crate) async fn send(&self, text: String) -> Result<(), UpstreamError> {
        let sent = match &self.outlet {
            Outlet::Stdin(stdin) => stdin.send(text, &self.ended).await,
            Outlet::Post(poster) => poster.post(text).await,
        };
        // The server takes no messages any more. The supervisor should know at once.
        match &sent {
            Err(UpstreamError::Unsent) => self.end(&UpstreamError::Closed),
            Err(error @ UpstreamError::SignIn(required)) if required.need.ends_connection() => self.end(error),
            Ok(()) | Err(_) => {}
        }
        sent
    }

    /// Closes the input of a child process, which asks it to exit.
    pub(crate) async fn close(&self) {
        self.end(&UpstreamError::Closed);
        if let Outlet::Stdin(stdin) = &self.outlet {
            stdin.close().await;
        }
    }

    /// Ends the connection.
    pub(crate) fn end(&self, reason: &UpstreamError) {
        self.pending.end(reason);
        self.ended.cancel();
    }

    /// Returns why the connection has ended.
    pub(crate) fn end_reason(&self) -> UpstreamError {
        self.pending.end_reason().unwrap_or(UpstreamError::Closed)
    }

    /// Fails the call of a message over the size limit, as soon as the limit is reached. The call is found by the id at
    /// the start of the message. Many servers write the id last. Then the answer is that of the only open request.
    pub(crate) fn overflows(&self, head: &[u8], limit: usize) {
        let ids = self.pending.ids();
        // The result may have an `id` of its own.
        let end = memchr::memmem::find(head, b"\"result\"").unwrap_or(head.len());
        let start = head.get(..end).unwrap_or(head);
        let named = ids.iter().copied().find(|id| has_id(start, *id));
        let is_answer = memchr::memmem::find(head, b"\"method\"").is_none();
        let only = || if let ([id], true) = (ids.as_slice(), is_answer) { Some(*id) } else { None };
        if let Some(id) = named.or_else(only) {
            self.pending.answer(id, Err(UpstreamError::TooLarge(limit)));
        }
    }

    /// Fails the call of a message over the size limit that has ended. It is found by the id at the end of the message.
    pub(crate) fn oversized(&self, tail: &[u8], limit: usize) {
        for id in self.pending.ids() {
            if has_id(tail, id) {
                self.pending.answer(id, Err(UpstreamError::TooLarge(limit)));
            }
        }
    }

    /// Takes a message of the server. Returns an error for text that is no message.
    pub(crate) async fn incoming(self: &Arc<Self>, text: &str) -> Result<(), RpcError> {
        match Message::parse(text)? {
            Message::Response { id, outcome } => {
                if let Ok(id) = id.parse() {
                    self.pending.answer(id, Ok(message::owned_reply(outcome)));
                }
            }
            Message::Notification { method, params } => match self.allowance.take(text.len(), Instant::now()) {
                Ok(()) => self.notified(&method, params.unwrap_or("{}")).await,
                Err(excess) => self.end(&UpstreamError::Excess(excess)),
            },
            Message::Request { id, method, params } => {
                let unanswered = match self.allowance.begin(text.len(), Instant::now()) {
                    Ok(unanswered) => unanswered,
                    Err(excess) => {
                        self.end(&UpstreamError::Excess(excess));
                        return Ok(());
                    }
                };
                let (line, id) = (Arc::clone(self), id.to_owned());
                let (method, params) = (method.into_owned(), params.unwrap_or("{}").to_owned());
                // The reader must go on reading while the agent answers.
                tokio::spawn(async move {
                    let _unanswered = unanswered;
                    let answer = async {
                        let outcome = line.asked(&method, &params).await;
                        let _down = line.send(message::response(&id, &outcome)).await;
                    };
                    tokio::select! {
                        () = answer => {}
                        // Nobody is left to read the answer.
                        () = line.ended.cancelled() => {}
                    }
                });
            }
        }
        Ok(())
    }

    async fn notified(&self, method: &str, params: &str) {
        if let Some(notice) = Notice::parse(method, params) {
            self.notices.add(notice);
            return;
        }
        match method {
            "notifications/progress" => {
                let token = member(params, "progressToken").and_then(|token| token.parse().ok());
                if let Some(channel) = token.and_then(|token| self.pending.channel(token)) {
                    say_progress(&channel, params).await;
                }
            }
            "notifications/message" => {
                if let Belongs::To(channel) = self.pending.belongs() {
                    say_log(&channel, params).await;
                }
            }
            _ => {}
        }
    }

    async fn asked(&self, method: &str, params: &str) -> Result<String, RpcError> {
        match method {
            "ping" => Ok("{}".to_owned()),
            "elicitation/create" | "sampling/createMessage" => match self.pending.belongs() {
                Belongs::To(channel) => ask_agent(&channel, method, params).await,
                Belongs::ToNobody => {
                    Err(RpcError::new(INTERNAL_ERROR, "no call is running, so there is no agent to ask"))
                }
                Belongs::ToSeveral => {
                    Err(RpcError::new(INTERNAL_ERROR, "several calls are running, so it is unclear which agent to ask"))
                }
            },
            _ => Err(RpcError::method_not_found(method)),
        }
    }
}

/// Passes progress on, with the agent's own token. A message that is too large is dropped.
pub(crate) async fn say_progress(channel: &AgentChannel, params: &str) {
    if let Some(token) = channel.progress_token().filter(|_| params.len() <= PASSED_ON_MAX_BYTES) {
        let params = message::with_members(params, &[("progressToken", token)]);
        channel.notify(message::notification("notifications/progress", &params)).await;
    }
}

/// Passes a log message on, if the agent wants its level. A message that is too large is dropped.
pub(crate) async fn say_log(channel: &AgentChannel, params: &str) {
    let level = member(params, "level").and_then(string_value).and_then(|word| LogLevel::parse(&word));
    if let (Some(level), Some(wanted)) = (level, channel.log_level())
        && level >= wanted
        && params.len() <= PASSED_ON_MAX_BYTES
    {
        channel.notify(message::notification("notifications/message", params)).await;
    }
}

/// Passes a server's request on to the agent whose call is open.
pub(crate) async fn ask_agent(channel: &AgentChannel, method: &str, params: &str) -> Result<String, RpcError> {
    let capability = if method == "elicitation/create" { "elicitation" } else { "sampling" };
    if member(channel.capabilities(), capability).is_none() {
        return Err(RpcError::new(
            message::METHOD_NOT_FOUND,
            format!("the agent of this call does not support {capability}"),
        ));
    }
    channel.ask(method, params).await
}

/// Cancels a request at the server when the gateway stops waiting for it.
struct Abandon {
    line: Option<Arc<Duplex>>,
    id: u64,
}

impl Drop for Abandon {
    fn drop(&mut self) {
        if let Some(line) = self.line.take() {
            let id = self.id;
            line.pending.forget(id);
            let Ok(waiting) = Arc::clone(&line.cancellations).try_acquire_owned() else { return };
            tokio::spawn(async move {
                let _waiting = waiting;
                let params = format!("{{\"requestId\":{id},\"reason\":\"the agent no longer waits for the result\"}}");
                tokio::select! {
                    _down = line.send(message::notification("notifications/cancelled", &params)) => {}
                    () = line.ended.cancelled() => {}
                }
            });
        }
    }
}

fn has_id(part: &[u8], id: u64) -> bool {
    let part = String::from_utf8_lossy(part);
    let compact = part.replace(' ', "");
    [format!("\"id\":{id},"), format!("\"id\":{id}}}")].iter().any(|needle| compact.contains(needle.as_str()))
}
