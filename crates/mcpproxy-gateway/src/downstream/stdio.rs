//! Serves one agent on standard input and output.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures::future::BoxFuture;
use mcpproxy_core::Agent;
use mcpproxy_core::json;
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt};
use tokio::sync::mpsc;
use tokio::time::Instant;

use super::agent_lines::{AgentLine, AgentLines};
use super::dispatch::{self, AgentRequest};
use super::http::{legacy_agent, tool_name};
use super::receive::BODY_MAX_BYTES;
use super::revision::{self, Modern};
use super::{four, handshake, listen};
use crate::agents::{
    Authenticated, Charge, ConnectedAgent, EndpointMode, Event, InFlight, InUse, Lifetime, Listener, Listeners, OnDrop,
    OpenRequest, OverLimit, RetryOf, Session, Step, Topics, subject,
};
use crate::gateway::Gateway;
use crate::in_progress::Working;
use crate::message::{self, INVALID_REQUEST, Message, RpcError, id_of, member};
use crate::protocol::Era;

/// Time after the start in which requests wait for the servers.
const FIRST_WAIT: Duration = Duration::from_secs(5);

/// Serves until the input ends.
pub fn serve_stdio<'a, R, W>(
    gateway: &'a Gateway,
    agent: Agent,
    reader: R,
    writer: W,
) -> BoxFuture<'a, std::io::Result<()>>
where
    R: AsyncRead + Unpin + Send + 'static,
    W: AsyncWrite + Unpin + Send + 'static,
{
    serve(gateway, agent, Box::new(reader), Box::new(writer))
}

/// Serves boxed pipes, so that the path of a call is compiled in this crate and not in the program.
fn serve(
    gateway: &Gateway,
    agent: Agent,
    reader: Box<dyn AsyncRead + Unpin + Send>,
    writer: Box<dyn AsyncWrite + Unpin + Send>,
) -> BoxFuture<'_, std::io::Result<()>> {
    Box::pin(run(gateway, agent, reader, writer))
}

async fn run(
    gateway: &Gateway,
    agent: Agent,
    reader: Box<dyn AsyncRead + Unpin + Send>,
    mut writer: Box<dyn AsyncWrite + Unpin + Send>,
) -> std::io::Result<()> {
    let (out, mut lines) = mpsc::channel::<Outgoing>(64);
    let silent = gateway.state.silent.clone();
    let writing = tokio::spawn(async move {
        let write = async {
            while let Some(Outgoing { text, _working, _charge }) = lines.recv().await {
                let line = format!("{}\n", message::one_line(&text));
                if writer.write_all(line.as_bytes()).await.is_err() || writer.flush().await.is_err() {
                    break;
                }
            }
        };
        tokio::select! {
            () = write => {}
            () = silent.cancelled() => {}
        }
    });
    let agent = Arc::new(agent);
    let usage = gateway.state.usages.of(&agent.name);
    let requests = Session::new(&usage, EndpointMode::Four, None, "{}".into());
    let line = Arc::new(Line {
        began: Instant::now(),
        gateway: gateway.clone(),
        agent,
        out,
        session: Mutex::new(None),
        requests: Arc::new(requests),
    });
    let mut lines = AgentLines::new(reader, BODY_MAX_BYTES);
    while let Some(read) = lines.next().await? {
        match read {
            AgentLine::TooLong => {
                line.reject(None, RpcError::new(INVALID_REQUEST, "message exceeds 4194304 bytes")).await;
            }
            AgentLine::Whole(bytes) if bytes.trim_ascii().is_empty() => {}
            AgentLine::Whole(bytes) => line.incoming(&bytes).await,
        }
    }
    drop(line);
    writing.await.map_err(std::io::Error::other)
}

/// Returns true if the answer depends on several servers. A call waits for its own server, and the four tools are
/// always the same.
fn needs_all_servers(request: &AgentRequest) -> bool {
    match &*request.method {
        "tools/call" => tool_name(request).as_deref() == Some(four::RETRIEVE),
        "tools/list" | "server/discover" | "ping" => false,
        _ => true,
    }
}

/// A message on its way to the agent. A stopping gateway waits until it is written.
struct Outgoing {
    text: String,
    _working: Working,
    /// Memory of a large answer.
    _charge: Option<Charge>,
}

struct Line {
    began: Instant,
    gateway: Gateway,
    agent: Arc<Agent>,
    out: mpsc::Sender<Outgoing>,
    /// After an `initialize`.
    session: Mutex<Option<Arc<Session>>>,
    /// Tracks open requests, also before and without a handshake.
    requests: Arc<Session>,
}

impl Line {
    async fn incoming(self: &Arc<Self>, bytes: &[u8]) {
        let text = match json::read(bytes) {
            Ok(text) => text,
            Err(error) => {
                let id = std::str::from_utf8(bytes).ok().filter(|_| !error.kind.is_syntax()).and_then(id_of);
                return self.reject(id, RpcError::from_read(&error)).await;
            }
        };
        match Message::parse(text) {
            Err(error) => self.reject(id_of(text), error).await,
            Ok(Message::Request { id, method, params }) => {
                let read = AgentRequest::new(&method, params).and_then(|request| {
                    let modern = revision::of_line(&request.params())?;
                    let charge = self.gateway.state.usages.of(&self.agent.name).take_request(bytes.len())?;
                    Ok((request.charged(charge), modern))
                });
                match read {
                    Err(error) => self.reject(Some(id), error).await,
                    Ok((request, Some(modern))) => self.take_modern(id, modern, request).await,
                    Ok((request, None)) => self.take_legacy(id, request).await,
                }
            }
            Ok(Message::Notification { method, params }) => {
                if let ("notifications/cancelled", Some(id)) =
                    (method.as_ref(), params.and_then(|params| member(params, "requestId")))
                {
                    self.requests.cancel(id);
                }
            }
            Ok(Message::Response { id, outcome }) => {
                if let Some(session) = self.session() {
                    session.answer(id, outcome);
                }
            }
        }
    }

    async fn take_modern(self: &Arc<Self>, id: &str, modern: Modern, request: AgentRequest) {
        let Modern { client, capabilities, log_level } = modern;
        let agent = Arc::clone(&self.agent);
        let agent = ConnectedAgent {
            identity: agent,
            lifetime: Lifetime::UntilRevoked,
            client,
            era: Era::Modern,
            endpoint_mode: EndpointMode::Four,
            capabilities: capabilities.into(),
            log_level,
            session: None,
            user: None,
        };
        if &*request.method == "subscriptions/listen" {
            match listen::listen(&self.gateway.state, &agent, id, &request) {
                Err(error) => self.reject(Some(id), error).await,
                Ok((acknowledged, receive, in_use)) => {
                    self.say(acknowledged).await;
                    self.pass_on(receive, in_use);
                }
            }
            return;
        }
        let needs_all = needs_all_servers(&request);
        let kept = request.clone();
        let params = kept.params();
        let in_flight = match self.gateway.state.parked.retry_of(&params) {
            RetryOf::Nothing => Some(dispatch::begin(&self.gateway.state, agent, request, OnDrop::Cancel, None)),
            RetryOf::Here => self.gateway.state.parked.resume(&params, &self.agent.name),
            // A process on standard input gets all requests of its agent, so another gateway cannot have one.
            RetryOf::Elsewhere(_) => None,
        };
        match in_flight {
            Some(in_flight) => self.follow(id, in_flight, Some(subject(&params)), needs_all),
            None => {
                self.reject(
                    Some(id),
                    RpcError::new(message::INVALID_PARAMS, "this requestState is unknown, used or expired"),
                )
                .await
            }
        }
    }

    async fn take_legacy(self: &Arc<Self>, id: &str, request: AgentRequest) {
        if &*request.method == "initialize" {
            match handshake::initialize(&self.gateway.state, &EndpointMode::Four, &self.agent, &request) {
                Err(error) => self.reject(Some(id), error).await,
                Ok((session, result)) => {
                    let session = Arc::new(session);
                    if let Err(limit) = self.listen(&session) {
                        return self.reject(Some(id), limit.into()).await;
                    }
                    *self.session.lock().unwrap_or_else(PoisonError::into_inner) = Some(session);
                    self.say(message::response(id, &Ok(result))).await;
                }
            }
            return;
        }
        let sender = Authenticated { agent: Arc::clone(&self.agent), lifetime: Lifetime::UntilRevoked };
        let agent = legacy_agent(sender, EndpointMode::Four, self.session());
        let needs_all = needs_all_servers(&request);
        self.follow(id, dispatch::begin(&self.gateway.state, agent, request, OnDrop::Cancel, None), None, needs_all);
    }

    /// Runs a request to its end, in parallel with others. `subject` is set for stateless requests.
    fn follow(self: &Arc<Self>, id: &str, mut in_flight: InFlight, subject: Option<String>, needs_all: bool) {
        let (line, id) = (Arc::clone(self), id.to_owned());
        let _noted: OpenRequest = self.requests.begin(&id, in_flight.cancel_token());
        // Until the answer is on its way, which then counts itself.
        let working = self.gateway.state.in_progress.begin();
        tokio::spawn(async move {
            let (_noted, _working) = (_noted, working);
            if needs_all && !line.gateway.is_ready() {
                // The gateway started with the agent, so the first search may come before the servers are connected.
                let _late = tokio::time::timeout_at(line.began + FIRST_WAIT, line.gateway.ready()).await;
            }
            loop {
                match in_flight.next().await {
                    Step::Event(Event::Notify(text)) => line.say(text).await,
                    Step::Event(Event::Ask(asked)) => match (&subject, line.session()) {
                        (Some(subject), _) => {
                            let result =
                                line.gateway.state.parked.park(in_flight, asked, &line.agent.name, subject.clone());
                            return line.say(message::response(&id, &Ok(result))).await;
                        }
                        (None, Some(session)) => line.say(session.ask(asked)).await,
                        (None, None) => {}
                    },
                    Step::Done(reply) => {
                        let charge = in_flight.take_charge(&reply);
                        return line.say_held(message::response(&id, &reply), charge).await;
                    }
                }
            }
        });
    }

    /// Sends change notifications to an agent with a session.
    fn listen(self: &Arc<Self>, session: &Session) -> Result<(), OverLimit> {
        let in_use = self.gateway.state.usages.of(&self.agent.name).open_stream()?;
        let (send, receive) = Listeners::channel();
        let topics = Topics { tools: true, prompts: true, resources: true, uris: Arc::clone(&session.uris) };
        self.gateway.state.listeners.join(Listener {
            agent: Arc::clone(&self.agent),
            endpoint_mode: EndpointMode::Four,
            topics,
            subscription: None,
            send,
        });
        self.pass_on(receive, in_use);
        Ok(())
    }

    /// Writes notifications until there are no more. `in_use` counts the stream.
    fn pass_on(self: &Arc<Self>, mut receive: mpsc::Receiver<String>, in_use: InUse) {
        let (out, in_progress) = (self.out.downgrade(), self.gateway.state.in_progress.clone());
        tokio::spawn(async move {
            let _in_use = in_use;
            while let Some(text) = receive.recv().await {
                let Some(out) = out.upgrade() else { return };
                let _gone = out.send(Outgoing { text, _working: in_progress.begin(), _charge: None }).await;
            }
        });
    }

    async fn reject(&self, id: Option<&str>, error: RpcError) {
        self.say(message::response(id.unwrap_or("null"), &Err(error))).await;
    }

    async fn say(&self, text: String) {
        self.say_held(text, None).await;
    }

    /// Sends a message that counts for the agent until it is written.
    async fn say_held(&self, text: String, charge: Option<Charge>) {
        let outgoing = Outgoing { text, _working: self.gateway.state.in_progress.begin(), _charge: charge };
        let _gone = self.out.send(outgoing).await;
    }

    fn session(&self) -> Option<Arc<Session>> {
        self.session.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}
