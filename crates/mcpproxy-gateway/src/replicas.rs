//! Sessions, answers and cancellations across gateways that share a database.
//!
//! Behind a load balancer, each request of a session can arrive at another gateway. The gateway that gets it does this:
//!
//! 1. It opens the sealed id, without a lookup (`agents/session_id.rs`).
//! 2. If the session is not in memory, it reads once what changed after the handshake, and rebuilds the session.
//! 3. What belongs to another process goes there over the bus (`bus.rs`): the agent's answer to a question, a cancellation,
//!    the retry of a parked call, a notification for a stream.
//!
//! A session that is in memory costs nothing more: no statement, and no message. Other gateways say when something about it
//! changed. After a lost connection to the database such messages may be missing, so [`keep_listening`] forgets quiet
//! sessions and reads the others again.
//!
//! A gateway that ends takes its running requests and streams with it, and nothing else. Whoever answers one of its questions
//! is told so.

use std::sync::Arc;
use std::time::Duration;

use mcpproxy_core::json::{members, quote};
use mcpproxy_core::{Agent, Digest};
use mcpproxy_store::{SessionChange, StoreError};
use tokio_util::sync::CancellationToken;

use crate::agents::{AgentChannel, EndpointMode, Event, LIFETIME_MS, OverLimit, RetryOf, Session, Step, subject};
use crate::bus::{BusMessage, NoReply};
use crate::message::{INTERNAL_ERROR, INVALID_PARAMS, Reply, RpcError};
use crate::protocol::Era;
use crate::record::now_ms;
use crate::state::SharedState;
use crate::upstream::{Passage, Relayed, relay};

const SECRET: &str = "replicas";
/// Domain separation for the tag. Changing this text makes parked calls of other gateways unknown.
const TAG_OF: &[u8] = b"the name of gateways that share a database";
const TAG_CHARS: usize = 16;
/// Pause before the next try to listen.
const LISTEN_PAUSE: Duration = Duration::from_secs(1);
const FORGET_EVERY: Duration = Duration::from_secs(600);
/// Time for another gateway to take an answer.
const ANSWER_PATIENCE: Duration = Duration::from_secs(10);
/// Time for another gateway to finish a parked call. The limits of its server end the call earlier.
const RESUME_PATIENCE: Duration = Duration::from_secs(3600);
const UNKNOWN_STATE: &str = "this requestState is unknown, used or expired; call again without it";
/// Reply to an answer that was taken.
const TAKEN: &str = "taken";

/// The reason why a session cannot be used.
pub(crate) enum NoSession {
    /// There is none with this id for this agent, or it has ended.
    Ended,
    OverLimit(OverLimit),
    /// The database cannot be read.
    Unknown,
}

/// Finds the session of an id, and rebuilds it if this gateway does not have it.
pub(crate) async fn find(
    state: &SharedState,
    id: &str,
    agent: &Agent,
    endpoint_mode: &EndpointMode,
) -> Result<Arc<Session>, NoSession> {
    match state.sessions.find(id, &agent.name, endpoint_mode) {
        Some(session) => Ok(session),
        // Boxed, because nearly every request finds its session in memory.
        None => Box::pin(rebuild(state, id, agent, endpoint_mode)).await,
    }
}

async fn rebuild(
    state: &SharedState,
    id: &str,
    agent: &Agent,
    endpoint_mode: &EndpointMode,
) -> Result<Arc<Session>, NoSession> {
    let opened = state.session_ids.open(id, &agent.name, endpoint_mode, now_ms()).await.map_err(unknown)?;
    let content = opened.filter(|content| state.sessions.may_return(&agent.name, content.began_ms));
    let content = content.ok_or(NoSession::Ended)?;
    let news = state.sessions.news();
    let changes = state.store.session_changes(&content.uid).await.map_err(unknown)?;
    if changes.is_ended {
        return Err(NoSession::Ended);
    }
    let usage = state.usages.of(&agent.name);
    let bus = (!state.bus.is_alone()).then(|| Arc::clone(&state.bus));
    let session = Session::of(&usage, endpoint_mode.clone(), id.to_owned(), content, bus);
    session.take_over(&changes, state.bus.name());
    let session = state.sessions.open(session).map_err(NoSession::OverLimit)?;
    // A message that came before the session was in the table could not end it.
    let has_missed = state.sessions.news() != news;
    if has_missed && state.store.session_changes(&session.uid).await.map_err(unknown)?.is_ended {
        state.sessions.close(&session);
        return Err(NoSession::Ended);
    }
    Ok(session)
}

fn unknown(error: StoreError) -> NoSession {
    tracing::error!(error = &error as &dyn std::error::Error, "could not look a session up");
    NoSession::Unknown
}

/// Seals the id of a new session, and connects the session with other gateways. Returns `None` if no id could be sealed.
pub(crate) async fn seal(state: &SharedState, session: Session) -> Result<Option<Session>, StoreError> {
    let content = session.content();
    let id = state.session_ids.seal(&session.agent, &session.endpoint_mode, &content, now_ms()).await?;
    let bus = (!state.bus.is_alone()).then(|| Arc::clone(&state.bus));
    let usage = state.usages.of(&session.agent);
    Ok(id.map(|id| Session::of(&usage, session.endpoint_mode.clone(), id, content, bus)))
}

/// Stores a change of a session, and tells other gateways.
pub(crate) async fn share(state: &SharedState, session: &Session, change: SessionChange<'_>) -> Result<(), StoreError> {
    if !session.is_sealed() {
        return Ok(());
    }
    state.store.change_session(&session.uid, &session.agent, change, now_ms()).await?;
    let by = state.bus.name().to_string();
    state.bus.send(None, &BusMessage::Changed { session: session.uid.clone(), by }).await
}

/// As [`share`], where the agent's request succeeds on this gateway in any case.
pub(crate) async fn share_if_possible(state: &SharedState, session: &Session, change: SessionChange<'_>) {
    if let Err(error) = share(state, session, change).await {
        let error = &error as &dyn std::error::Error;
        tracing::warn!(error, "could not store a change of a session, so other gateways do not know it");
    }
}

/// Cancels a request that is not open here, on whichever gateway it is.
pub(crate) async fn cancel(state: &SharedState, session: &Session, request: &str) -> Result<(), OverLimit> {
    if state.bus.is_alone() {
        return Ok(());
    }
    let _forwarding = state.usages.of(&session.agent).begin_forwarding()?;
    let message = BusMessage::Cancel { session: session.uid.clone(), request: request.to_owned() };
    if let Err(error) = state.bus.send(None, &message).await {
        tracing::warn!(error = &error as &dyn std::error::Error, "could not tell other gateways of a cancellation");
    }
    Ok(())
}

/// Passes an answer of the agent on to the gateway that asked. Returns false if that gateway has no such question.
pub(crate) async fn answer(
    state: &SharedState,
    session: &Session,
    (gateway, request): (&str, &str),
    outcome: Result<&str, &str>,
) -> Result<bool, RpcError> {
    let _forwarding = state.usages.of(&session.agent).begin_forwarding()?;
    let asked = state.bus.ask(gateway, ANSWER_PATIENCE, |from| BusMessage::Answer {
        from,
        session: session.uid.clone(),
        request: request.to_owned(),
        outcome: outcome.map(str::to_owned).map_err(str::to_owned),
    });
    asked.await.map(|reply| reply == TAKEN).map_err(|error| no_reply(&error))
}

/// Lets another gateway continue a call that it has parked, and returns its answer.
pub(crate) async fn resume(state: &SharedState, agent: &str, gateway: &str, params: String) -> Reply {
    let usage = state.usages.of(agent);
    let (_request, _forwarding) = (usage.begin_request()?, usage.begin_forwarding()?);
    let _working = state.in_progress.begin();
    let asked =
        state.bus.ask(gateway, RESUME_PATIENCE, |from| BusMessage::Resume { from, agent: agent.to_owned(), params });
    read_reply(&asked.await.map_err(|error| no_reply(&error))?)
}

fn no_reply(error: &NoReply) -> RpcError {
    match error {
        NoReply::Gone => RpcError::new(
            INVALID_PARAMS,
            "the gateway that held this call has ended, and the call with it; check what it did, then call again",
        ),
        NoReply::Late | NoReply::TooLarge => RpcError::new(INTERNAL_ERROR, error.to_string()),
        NoReply::Store(cause) => {
            tracing::error!(error = cause as &dyn std::error::Error, "could not reach another gateway");
            RpcError::new(INTERNAL_ERROR, error.to_string())
        }
    }
}

/// Receives messages of other gateways, and removes old rows, until the gateway has stopped.
pub(crate) async fn keep_listening(state: Arc<SharedState>) {
    let silent = state.silent.clone();
    tokio::select! {
        () = silent.cancelled() => {}
        () = forget_old(&state) => {}
        () = listen(&state) => {}
    }
}

async fn forget_old(state: &SharedState) {
    loop {
        tokio::time::sleep(FORGET_EVERY).await;
        let now_ms = now_ms();
        if let Err(error) = state.store.remove_old_session_changes(now_ms - LIFETIME_MS, now_ms).await {
            tracing::debug!(%error, "could not remove old sessions");
        }
    }
}

async fn listen(state: &Arc<SharedState>) {
    if state.bus.is_alone() {
        std::future::pending().await
    }
    loop {
        if let Err(error) = receive(state).await {
            tracing::warn!(error = &error as &dyn std::error::Error, "could not listen for other gateways");
        }
        tokio::time::sleep(LISTEN_PAUSE).await;
    }
}

async fn receive(state: &Arc<SharedState>) -> Result<(), StoreError> {
    let secret = state.store.shared_secret(SECRET, rand::random()).await?;
    let tag = Digest::of(&[TAG_OF, &secret].concat()).to_string();
    state.parked.set_tag(tag.chars().take(TAG_CHARS).collect());
    let Some(mut listener) = state.store.listen(state.bus.name()).await? else { return Ok(()) };
    loop {
        look_again(state).await;
        while let Some(text) = listener.next().await? {
            match BusMessage::parse(&text) {
                Some(message) => take(state, message),
                None => tracing::debug!("another gateway sent a message that this version does not know"),
            }
        }
    }
}

/// Looks at all sessions again, and for a new version of the settings, after messages may have been missed.
async fn look_again(state: &Arc<SharedState>) {
    state.versions.news.notify_one();
    for session in state.sessions.forget_quiet() {
        reload(state, &session).await;
    }
}

fn take(state: &Arc<SharedState>, message: BusMessage) {
    match message {
        BusMessage::Cancel { session, request } => {
            if let Some(session) = state.sessions.find_uid(&session) {
                session.cancel(&request);
            }
        }
        BusMessage::Changed { session, by } => {
            state.sessions.count_news();
            let known = state.sessions.find_uid(&session).filter(|_| by != **state.bus.name());
            if let Some(session) = known {
                let state = Arc::clone(state);
                tokio::spawn(async move { reload(&state, &session).await });
            }
        }
        BusMessage::Answer { from, session, request, outcome } => {
            let session = state.sessions.find_uid(&session);
            let outcome = outcome.as_deref().map_err(String::as_str);
            let is_taken = session.is_some_and(|session| session.answer(&request, outcome));
            let (bus, reply) = (Arc::clone(&state.bus), if is_taken { TAKEN } else { "" });
            tokio::spawn(async move { bus.reply(&from, reply.to_owned()).await });
        }
        BusMessage::Resume { from, agent, params } => {
            let state = Arc::clone(state);
            let working = state.in_progress.begin();
            tokio::spawn(async move {
                let reply = resume_here(&state, &agent, &params).await;
                state.bus.reply(&from, reply_text(&reply)).await;
                drop(working);
            });
        }
        BusMessage::Notify { session, text } => {
            if let Some(session) = state.sessions.find_uid(&session) {
                session.say(text);
            }
        }
        BusMessage::Published => state.versions.news.notify_one(),
        BusMessage::Reply { number, text } => state.bus.replied(number, text),
    }
}

/// Takes over what another gateway stored about a session.
async fn reload(state: &Arc<SharedState>, session: &Arc<Session>) {
    match state.store.session_changes(&session.uid).await {
        Ok(changes) if changes.is_ended => state.sessions.close(session),
        Ok(changes) => {
            session.take_over(&changes, state.bus.name());
            subscribe_here(state, session);
        }
        Err(error) => tracing::warn!(error = &error as &dyn std::error::Error, "could not read a changed session"),
    }
}

/// Continues a parked call for another gateway. Notifications in between are not passed on.
async fn resume_here(state: &SharedState, agent: &str, params: &str) -> Reply {
    let unknown_state = || RpcError::new(INVALID_PARAMS, UNKNOWN_STATE);
    let params = members(params).ok_or_else(unknown_state)?;
    if state.parked.retry_of(&params) != RetryOf::Here {
        return Err(unknown_state());
    }
    let mut in_flight = state.parked.resume(&params, agent).ok_or_else(unknown_state)?;
    loop {
        match in_flight.next().await {
            Step::Event(Event::Notify(_)) => {}
            Step::Event(Event::Ask(asked)) => {
                return Ok(state.parked.park(in_flight, asked, agent, subject(&params)));
            }
            Step::Done(reply) => return reply,
        }
    }
}

/// Writes a reply for another gateway. The first character tells a result from an error.
fn reply_text(reply: &Reply) -> String {
    match reply {
        Ok(result) => format!("+{result}"),
        Err(error) => format!("-{}", error.object()),
    }
}

fn read_reply(text: &str) -> Reply {
    match (text.strip_prefix('+'), text.strip_prefix('-')) {
        (Some(result), _) => Ok(result.to_owned()),
        (None, Some(error)) => Err(RpcError::parse(error)),
        (None, None) => Err(RpcError::new(INTERNAL_ERROR, "the answer is too large to pass on between gateways")),
    }
}

/// Tells servers of subscriptions that another gateway took, once the session has its stream here.
pub(crate) fn subscribe_here(state: &Arc<SharedState>, session: &Arc<Session>) {
    let Some((agent, uris)) = session.take_untold_uris() else { return };
    let (state, session) = (Arc::clone(state), Arc::clone(session));
    tokio::spawn(async move {
        for uri in uris {
            subscribe_to(&state, &session, &agent, &uri).await;
        }
    });
}

async fn subscribe_to(state: &SharedState, session: &Arc<Session>, agent: &Arc<Agent>, uri: &str) {
    let Some((name, own)) = session.endpoint_mode.uri_in(uri) else { return };
    let snapshot = state.snapshot.load_full();
    let server = snapshot.servers.get(&name).filter(|server| server.settings.enabled && agent.scope.sees(&name));
    let Some(server) = server.filter(|server| server.offers().can_subscribe) else { return };
    let identity = (Arc::clone(agent), state.usages.of(&agent.name));
    let capabilities = Arc::clone(&session.capabilities);
    let (channel, _events) = AgentChannel::new(None, None, capabilities, identity, Some(Arc::clone(session)));
    let cancel = CancellationToken::new();
    let passage = Passage { era: Era::Legacy, meta: None, others: Vec::new(), channel: &channel, cancel: &cancel };
    match relay(server, Relayed::Subscribe, vec![("uri", quote(own))], None, &passage).await {
        Ok(Ok(_)) => {}
        Ok(Err(error)) => tracing::debug!(server = %name, error = %error.message, "a server refused a subscription"),
        Err(error) => tracing::debug!(server = %name, %error, "could not subscribe at a server"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn replies_find_their_way_back() {
        let error = RpcError::new(-7, "no \"way\"").with_data(&serde_json::json!({"a": 1}));
        for reply in [Ok("{\"a\":1.0}".to_owned()), Err(error)] {
            assert_eq!(read_reply(&reply_text(&reply)), reply);
        }
        assert!(read_reply("").is_err());
    }
}
