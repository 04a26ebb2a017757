//! Messages between gateways that share a database.
//!
//! A request can arrive at any gateway, but some things live in one process: a request that runs, a question that is open on
//! its stream, and the stream for notifications of a session. The bus carries what another gateway has to know.
//!
//! | message | to | meaning |
//! |---|---|---|
//! | `Cancel` | all | the agent no longer waits for a request |
//! | `Changed` | all | a session ended, or its log level, subscriptions or stream changed |
//! | `Answer` | one | the agent's answer to a question that the receiver asked |
//! | `Resume` | one | the retry of a call that the receiver has parked |
//! | `Notify` | one | a notification for a stream that the receiver holds |
//! | `Published` | all | a user published a version of settings, contracts and policies |
//! | `Reply` | one | the outcome of an `Answer` or `Resume` |
//!
//! PostgreSQL delivers (`replica_messages.rs` of the store). With SQLite there is one gateway: [`Bus::is_alone`] is true, and
//! nothing is sent. A gateway that is gone does not reply. [`Bus::ask`] notices that within seconds, because the database
//! server knows who listens.
//!
//! Bounds: `SENDING_MAX` messages are sent at a time, so that floods of one agent do not take all connections to the database.
//! Each waiting question belongs to a request of an agent, and agents have limits for those.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use jiff::Timestamp;
use mcpproxy_store::{Store, StoreError};
use serde_json::{Value, json};
use tokio::sync::{Semaphore, oneshot};

const SENDING_MAX: usize = 2;
/// Interval in which an asking gateway checks that the other one lives.
const LOOK_EVERY: Duration = Duration::from_secs(2);
/// Looks after which a gateway that does not listen counts as gone. It may be reconnecting to the database.
const MISSED_MAX: u32 = 2;
const MISSED_PAUSE: Duration = Duration::from_millis(700);
/// Longest text to forward. Larger answers of servers are rare, and would fill the database.
const TEXT_MAX_BYTES: usize = 16 * 1024 * 1024;

pub(crate) struct Bus {
    store: Store,
    name: Arc<str>,
    sending: Semaphore,
    next: AtomicU64,
    waiting: Mutex<HashMap<u64, oneshot::Sender<String>>>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum BusMessage {
    Cancel { session: String, request: String },
    Changed { session: String, by: String },
    Answer { from: Asker, session: String, request: String, outcome: Result<String, String> },
    Resume { from: Asker, agent: String, params: String },
    Notify { session: String, text: String },
    Published,
    Reply { number: u64, text: String },
}

/// A gateway that waits for a reply.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Asker {
    pub(crate) gateway: String,
    pub(crate) number: u64,
}

#[derive(Debug, thiserror::Error)]
pub(crate) enum NoReply {
    #[error("the gateway that has this request has ended")]
    Gone,
    #[error("the gateway that has this request did not reply in time")]
    Late,
    #[error("the message is too large to pass on to the gateway that has this request")]
    TooLarge,
    #[error("the message could not be passed on to the gateway that has this request")]
    Store(#[from] StoreError),
}

impl Bus {
    pub(crate) fn new(store: Store) -> Self {
        Self {
            store,
            name: format!("{:016x}", rand::random::<u64>()).into(),
            sending: Semaphore::new(SENDING_MAX),
            next: AtomicU64::new(1),
            waiting: Mutex::default(),
        }
    }

    /// Returns the name of this process among the gateways. It is random, so a restarted gateway has another one.
    pub(crate) fn name(&self) -> &Arc<str> {
        &self.name
    }

    /// Returns true if no other gateway can use the database.
    pub(crate) fn is_alone(&self) -> bool {
        !self.store.is_shared()
    }

    /// Sends a message to one gateway, or to all.
    pub(crate) async fn send(&self, to: Option<&str>, message: &BusMessage) -> Result<(), StoreError> {
        if self.is_alone() {
            return Ok(());
        }
        let _turn = self.sending.acquire().await;
        let id = format!("{:032x}", rand::random::<u128>());
        self.store.send_to_replica(to, &id, &message.to_text(), Timestamp::now().as_millisecond()).await
    }

    /// Sends a message that needs a reply, and waits for it.
    pub(crate) async fn ask(
        &self,
        to: &str,
        patience: Duration,
        message: impl FnOnce(Asker) -> BusMessage,
    ) -> Result<String, NoReply> {
        self.is_there(to).await?;
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        let (reply, mut replied) = oneshot::channel();
        self.waiting().insert(number, reply);
        let _forget = Forget { bus: self, number };
        let message = message(Asker { gateway: self.name.to_string(), number });
        if message.text_bytes() > TEXT_MAX_BYTES {
            return Err(NoReply::TooLarge);
        }
        self.send(Some(to), &message).await?;
        let wait = async {
            loop {
                match tokio::time::timeout(LOOK_EVERY, &mut replied).await {
                    Ok(text) => return text.map_err(|_| NoReply::Late),
                    Err(_) => self.is_there(to).await?,
                }
            }
        };
        tokio::time::timeout(patience, wait).await.unwrap_or(Err(NoReply::Late))
    }

    /// Replies to a gateway that asked. If this fails, the other one gives up by itself.
    pub(crate) async fn reply(&self, to: &Asker, text: String) {
        let text = if text.len() > TEXT_MAX_BYTES { String::new() } else { text };
        let message = BusMessage::Reply { number: to.number, text };
        if let Err(error) = self.send(Some(&to.gateway), &message).await {
            tracing::warn!(error = &error as &dyn std::error::Error, "could not reply to another gateway");
        }
    }

    /// Hands a reply to the request that waits for it.
    pub(crate) fn replied(&self, number: u64, text: String) {
        let waiting = self.waiting().remove(&number);
        if let Some(waiting) = waiting {
            let _gave_up = waiting.send(text);
        }
    }

    async fn is_there(&self, gateway: &str) -> Result<(), NoReply> {
        for _ in 0..MISSED_MAX {
            if self.store.is_replica_listening(gateway).await? {
                return Ok(());
            }
            tokio::time::sleep(MISSED_PAUSE).await;
        }
        Err(NoReply::Gone)
    }

    fn waiting(&self) -> MutexGuard<'_, HashMap<u64, oneshot::Sender<String>>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Removes a waiting question, also if its request is dropped.
struct Forget<'a> {
    bus: &'a Bus,
    number: u64,
}

impl Drop for Forget<'_> {
    fn drop(&mut self) {
        self.bus.waiting().remove(&self.number);
    }
}

impl BusMessage {
    fn text_bytes(&self) -> usize {
        match self {
            Self::Cancel { request, .. } => request.len(),
            Self::Changed { .. } | Self::Published => 0,
            Self::Answer { outcome: Ok(text) | Err(text), .. } => text.len(),
            Self::Resume { params, .. } => params.len(),
            Self::Notify { text, .. } | Self::Reply { text, .. } => text.len(),
        }
    }

    fn to_text(&self) -> String {
        let value = match self {
            Self::Cancel { session, request } => json!({"kind": "cancel", "session": session, "request": request}),
            Self::Changed { session, by } => json!({"kind": "changed", "session": session, "by": by}),
            Self::Answer { from, session, request, outcome } => {
                let (is_error, text) = match outcome {
                    Ok(text) => (false, text),
                    Err(text) => (true, text),
                };
                json!({
                    "kind": "answer", "gateway": from.gateway, "number": from.number, "session": session,
                    "request": request, "is_error": is_error, "text": text,
                })
            }
            Self::Resume { from, agent, params } => json!({
                "kind": "resume", "gateway": from.gateway, "number": from.number, "agent": agent, "text": params,
            }),
            Self::Notify { session, text } => json!({"kind": "notify", "session": session, "text": text}),
            Self::Published => json!({"kind": "published"}),
            Self::Reply { number, text } => json!({"kind": "reply", "number": number, "text": text}),
        };
        value.to_string()
    }

    /// Reads a message. Returns `None` for one of another version of mcpproxy.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let value: Value = serde_json::from_str(text).ok()?;
        let word = |name: &str| value.get(name).and_then(Value::as_str).map(str::to_owned);
        let number = || value.get("number").and_then(Value::as_u64);
        let from = || Some(Asker { gateway: word("gateway")?, number: number()? });
        Some(match word("kind")?.as_str() {
            "cancel" => Self::Cancel { session: word("session")?, request: word("request")? },
            "changed" => Self::Changed { session: word("session")?, by: word("by")? },
            "answer" => {
                let text = word("text")?;
                let is_error = value.get("is_error").and_then(Value::as_bool)?;
                let outcome = if is_error { Err(text) } else { Ok(text) };
                Self::Answer { from: from()?, session: word("session")?, request: word("request")?, outcome }
            }
            "resume" => Self::Resume { from: from()?, agent: word("agent")?, params: word("text")? },
            "notify" => Self::Notify { session: word("session")?, text: word("text")? },
            "published" => Self::Published,
            "reply" => Self::Reply { number: number()?, text: word("text")? },
            _ => return None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_find_their_way_back() {
        let (session, request) = ("s".to_owned(), "\"a\\n1\"".to_owned());
        let from = Asker { gateway: "g".to_owned(), number: 7 };
        for message in [
            BusMessage::Cancel { session: session.clone(), request: request.clone() },
            BusMessage::Changed { session: session.clone(), by: "g".to_owned() },
            BusMessage::Answer {
                from: from.clone(),
                session: session.clone(),
                request: request.clone(),
                outcome: Ok("{\"a\": 1.0}".to_owned()),
            },
            BusMessage::Answer { from: from.clone(), session: session.clone(), request, outcome: Err("{}".to_owned()) },
            BusMessage::Resume { from, agent: "anna".to_owned(), params: "{}".to_owned() },
            BusMessage::Notify { session, text: "{\"method\":\"\u{1f600}\"}".to_owned() },
            BusMessage::Published,
            BusMessage::Reply { number: 9, text: String::new() },
        ] {
            assert_eq!(BusMessage::parse(&message.to_text()), Some(message));
        }
        for bad in ["", "{}", r#"{"kind":"other"}"#, r#"{"kind":"reply","text":""}"#, r#"{"kind":"cancel"}"#] {
            assert_eq!(BusMessage::parse(bad), None, "{bad}");
        }
    }

    #[tokio::test]
    async fn with_sqlite_nothing_is_sent() {
        let folder = tempfile::tempdir().unwrap();
        let location = mcpproxy_store::Location::Sqlite(folder.path().join("mcpproxy.db"));
        let bus = Bus::new(Store::open(&location).await.unwrap());
        assert!(bus.is_alone());
        bus.send(None, &BusMessage::Changed { session: "s".to_owned(), by: "g".to_owned() }).await.unwrap();
        let asked = bus.ask("other", Duration::from_secs(5), |from| BusMessage::Resume {
            from,
            agent: "a".to_owned(),
            params: "{}".to_owned(),
        });
        assert!(matches!(asked.await, Err(NoReply::Gone)));
        assert!(bus.waiting().is_empty());
    }
}
