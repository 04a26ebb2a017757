//! Shared fixtures for approval tests: a server with a tool that needs approval, its calls, and users who decide.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use mcpproxy_core::settings::{ApprovalSettings, Channel, Channels, Settings};
use mcpproxy_core::{ApprovalId, ApprovalState};
use mcpproxy_gateway::{Decider, DecisionResult, Files, NotDecided};
use mcpproxy_store::{Kind, NewRecord, PresenceProof, Status, Step, StepUpProof, StoredApproval, User};
use serde_json::Value;

use crate::agent::Agent;
use crate::contracts::contracts;
use crate::peer::{Peer, Script, Speaks, text_result};
use crate::rig::{Rig, settings, within};

/// A tool without annotations.
pub(crate) const SEND: &str = r#"{"name":"send","description":"Sends.","inputSchema":{"type":"object","properties":{"to":{"type":"string"},"body":{"type":"string"},"n":{"type":"integer"},"dryRun":{"type":"boolean"}}}}"#;
/// Longer than any test takes.
pub(crate) const HOUR: Duration = Duration::from_secs(3600);
pub(crate) const HIGH: &str = "riskLevel: high\nsideEffects: [A mail leaves.]";
pub(crate) const ARGS: &str = r#"{"to":"ada","body":"hello"}"#;
/// The same arguments with other whitespace and key order.
pub(crate) const SAME_ARGS: &str = r#"{ "body" : "hello", "to":"ada" }"#;
pub(crate) const OTHER_ARGS: &str = r#"{"to":"eve","body":"hello"}"#;

pub(crate) fn never_held() -> ApprovalSettings {
    ApprovalSettings { wait: Duration::ZERO, ..with_forms() }
}

/// Holds calls for longer than any test takes.
pub(crate) fn held() -> ApprovalSettings {
    ApprovalSettings { wait: Duration::from_secs(60), ..with_forms() }
}

/// Lets agents show approval forms for high-risk calls too. A form that is declined at once counts as shown, because
/// tests answer at once.
pub(crate) fn with_forms() -> ApprovalSettings {
    let channels = Channels { high: Channel::Form, ..Channels::default() };
    ApprovalSettings { channels, shown_after: Duration::ZERO, ..ApprovalSettings::default() }
}

/// A server whose calls succeed.
fn sending() -> Script {
    let mut script = Script::new(Speaks::Legacy, &format!("[{SEND}]"));
    script.call = |_| Some(text_result("sent"));
    script
}

async fn start(script: Script, contract: &str, approvals: ApprovalSettings) -> (Peer, Rig) {
    let peer = Peer::new(script).await;
    let rig = Rig::start(files(&peer, contract, approvals)).await;
    (peer, rig)
}

/// Starts a gateway on which nobody has an account.
pub(crate) async fn without_account(contract: &str, approvals: ApprovalSettings) -> (Peer, Rig) {
    start(sending(), contract, approvals).await
}

/// The server `fx` with the tool `send`, and a gateway in front of it.
pub(crate) struct Stage {
    pub(crate) peer: Peer,
    pub(crate) rig: Rig,
    pub(crate) ada: Person,
}

impl Stage {
    pub(crate) async fn new(contract: &str, approvals: ApprovalSettings) -> Self {
        Self::with(sending(), contract, approvals).await
    }

    pub(crate) async fn with(script: Script, contract: &str, approvals: ApprovalSettings) -> Self {
        let (peer, rig) = start(script, contract, approvals).await;
        let ada = Person::first(&rig, "ada").await;
        Self { peer, rig, ada }
    }

    /// Returns the arguments of every call that reached the server, as raw JSON.
    pub(crate) fn sent(&self) -> Vec<String> {
        let arguments = |params: &String| {
            let end = params.split_once(r#""arguments":"#).unwrap().1;
            let end = end.split_once(r#","_meta""#).map_or(end, |(arguments, _)| arguments);
            end.strip_suffix('}').filter(|_| !params.contains(r#","_meta""#)).unwrap_or(end).to_owned()
        };
        self.peer.calls().iter().map(arguments).collect()
    }

    pub(crate) async fn find(&self, id: &ApprovalId) -> StoredApproval {
        self.rig.store.find_approval(id).await.unwrap().unwrap()
    }

    pub(crate) async fn state(&self, id: &ApprovalId) -> ApprovalState {
        self.find(id).await.state
    }

    pub(crate) async fn approve(&self, id: &ApprovalId) -> Result<StoredApproval, NotDecided> {
        decided(self.rig.gateway.approvals().approve(id, &self.ada.present, None).await.unwrap())
    }

    pub(crate) async fn deny(&self, id: &ApprovalId, comment: Option<&str>) -> Result<StoredApproval, NotDecided> {
        let ada = Decider::User(self.ada.user.clone());
        decided(self.rig.gateway.approvals().deny(id, &ada, comment).await.unwrap())
    }

    /// Waits for a pending approval request.
    pub(crate) async fn pending(&self) -> StoredApproval {
        let filter = mcpproxy_store::ApprovalFilter { state: Some(ApprovalState::Pending), ..Default::default() };
        let mut changed = self.rig.gateway.approvals().changed();
        let found = async {
            loop {
                let page = self.rig.gateway.approvals().list(&filter, None, 10).await.unwrap();
                match page.approvals.into_iter().next() {
                    Some(found) => return found,
                    None => changed.changed().await.unwrap(),
                }
            }
        };
        within(found).await
    }

    /// Waits for a record with this code.
    pub(crate) async fn noted(&self, code: &str) {
        let is_it =
            |record: &mcpproxy_store::Record| record.code.as_ref().is_some_and(|found| found.for_json() == code);
        let mut committed = self.rig.ledger.committed();
        let found = async {
            loop {
                let page = self.rig.store.list(&mcpproxy_store::Filter::default(), None, 100).await.unwrap();
                if page.records.iter().any(is_it) {
                    return;
                }
                committed.changed().await.unwrap();
            }
        };
        within(found).await;
    }

    /// Returns the newest approval request, whatever its state.
    pub(crate) async fn latest(&self) -> StoredApproval {
        let page = self.rig.gateway.approvals().list(&Default::default(), None, 1).await.unwrap();
        page.approvals.into_iter().next().unwrap()
    }

    /// Writes a step into the store directly, for states that a test cannot wait for.
    pub(crate) async fn write(&self, step: Step) {
        self.rig.ledger.append_if(blank(), vec![step]).await.unwrap().written().unwrap();
    }
}

/// Turns the result of a decision into one that a test can unwrap.
pub(crate) fn decided(result: DecisionResult) -> Result<StoredApproval, NotDecided> {
    match result {
        DecisionResult::Decided(approval) => Ok(*approval),
        DecisionResult::NotDecided(reason) => Err(reason),
    }
}

fn blank() -> NewRecord {
    NewRecord::blank(Kind::Settings, Status::Success, now_ms(), 1)
}

/// Builds settings, and a contract for `fx:send` with these lines.
pub(crate) fn files(peer: &Peer, contract: &str, approvals: ApprovalSettings) -> Files {
    let settings = Settings { approvals, ..settings([peer.settings("fx")]) };
    let contracts = match contract {
        "" => Arc::default(),
        lines => contracts(&format!("tool: fx:send\n{lines}\n")),
    };
    Files { settings: Arc::new(settings), contracts, policies: Arc::default() }
}

pub(crate) fn now_ms() -> i64 {
    i64::try_from(SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_millis()).unwrap()
}

/// Builds the parameters of a call of `fx:send`. Each further parameter in `more` starts with a comma.
pub(crate) fn send(args: &str, more: &str) -> String {
    format!(r#"{{"name":"call_tool_write","arguments":{{"name":"fx:send","args":{args}{more}}}}}"#)
}

pub(crate) fn with_approval(id: &ApprovalId) -> String {
    format!(r#","approval_id":"{id}""#)
}

/// A whole answer, as JSON.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Got(pub(crate) Value);

impl Got {
    pub(crate) async fn of(agent: &mut Agent, rig: &Rig, params: &str) -> Self {
        Self(serde_json::from_str(&agent.ask(rig, "tools/call", params).await).unwrap())
    }

    pub(crate) fn result(&self) -> &Value {
        &self.0["result"]
    }

    pub(crate) fn details(&self) -> &Value {
        &self.0["result"]["structuredContent"]["error"]["details"]
    }

    /// Returns the code of a refusal, or the first text of the result.
    pub(crate) fn code(&self) -> String {
        let result = self.result();
        let text = || result["content"][0]["text"].as_str().unwrap_or("nothing");
        match (&self.0["error"], &result["resultType"]) {
            (Value::Object(error), _) => format!("{} {}", error["code"], error["message"].as_str().unwrap()),
            (_, Value::String(word)) if word == "input_required" => word.clone(),
            _ => result["_meta"]["mcpproxy/error"].as_str().unwrap_or_else(text).to_owned(),
        }
    }

    pub(crate) fn text(&self) -> &str {
        self.result()["content"][0]["text"].as_str().unwrap()
    }

    pub(crate) fn id(&self) -> ApprovalId {
        let id = self.details()["approval_id"].as_str();
        ApprovalId::parse(id.unwrap_or_else(|| panic!("no approval: {}", self.0))).unwrap()
    }
}

/// A user who can sign in.
pub(crate) struct Person {
    pub(crate) user: User,
    pub(crate) present: PresenceProof,
    step: AtomicI64,
}

impl Person {
    pub(crate) async fn first(rig: &Rig, name: &str) -> Self {
        Self::invited(rig, name, None).await
    }

    pub(crate) async fn invited(rig: &Rig, name: &str, by: Option<&User>) -> Self {
        let (store, now) = (&rig.store, now_ms());
        let begin = name.as_bytes()[0];
        let invitation = store.invite([begin; 32], by, now, 60_000).await.unwrap();
        assert!(store.create_user(&invitation, name, "no hash", now).await.unwrap());
        let new = store.open_session(name, [[begin; 32], [!begin; 32]], now).await.unwrap();
        let session = store.find_session(&new.secret, now, 60_000, 60_000).await.unwrap().unwrap();
        store.set_totp(&session.user, b"secret", 0).await.unwrap();
        let present = session.present(&new.page_key).unwrap();
        Self { user: session.user, present, step: AtomicI64::new(1) }
    }

    /// Proves a second factor for this purpose.
    pub(crate) async fn fresh(&self, rig: &Rig, purpose: &ApprovalId) -> StepUpProof {
        let step = self.step.fetch_add(1, Ordering::Relaxed);
        rig.store.use_totp_step(&self.user, step, purpose.as_str()).await.unwrap().unwrap()
    }
}
