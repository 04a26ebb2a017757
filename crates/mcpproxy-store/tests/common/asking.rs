//! Approval requests, standing approvals and claims for tests, and the records that carry them.

use mcpproxy_core::{ApprovalId, ApprovalState, Assurance, Digest, RiskLevel, ToolName, Variant};
use mcpproxy_store::{
    Conditional, Kind, Ledger, NewApproval, NewClaim, NewRecord, NewStandingApproval, Record, Status, Step, Store,
    StoredApproval, StoredClaim, WaitFor,
};

use super::{all, call, success};

/// The time at which every test starts.
pub(crate) const T: i64 = 1_700_000_000_000;
pub(crate) const MINUTE: i64 = 60_000;
pub(crate) const EXPIRES: i64 = T + 10 * MINUTE;

pub(crate) fn id(n: u64) -> ApprovalId {
    ApprovalId::parse(&format!("01HF{n:022}")).unwrap()
}

pub(crate) fn tool() -> ToolName {
    ToolName::parse("mail:send").unwrap()
}

/// Every request has its own binding.
pub(crate) fn question(n: u64) -> NewApproval {
    let args = format!(r#"{{"to":"{n}"}}"#);
    NewApproval {
        id: id(n),
        binding: Digest::of(&n.to_be_bytes()),
        agent: "local".into(),
        client: Some("cursor 1.2".into()),
        tool: tool(),
        pin: Digest::of(b"pin"),
        contract: Digest::of(b"contract"),
        variant: Variant::Write,
        risk: Some(RiskLevel::High),
        least: Assurance::Session,
        args_digest: Digest::of(args.as_bytes()),
        shown_args: args.clone(),
        args,
        attached: None,
        attached_digest: Digest::of(b""),
        shown_attached: None,
        about: "{}".into(),
        created_ms: T,
        expires_ms: EXPIRES,
        most: 20,
    }
}

pub(crate) fn grant(n: u64) -> NewStandingApproval {
    NewStandingApproval {
        id: format!("grant{n}"),
        agent: "local".into(),
        tool: tool(),
        pin: Digest::of(b"pin"),
        contract: Digest::of(b"contract"),
        schema: r#"{"type":"object"}"#.into(),
        by: "anna".into(),
        reason: Some("a batch of letters".into()),
        intent: Some(r#"{"operation_type":"write"}"#.into()),
        created_ms: T,
        expires_ms: EXPIRES,
        uses: 3,
    }
}

pub(crate) fn claim(key: &str) -> NewClaim {
    NewClaim {
        agent: "local".into(),
        tool: "mail:send".into(),
        key: key.into(),
        args_digest: Digest::of(b"arguments"),
        now_ms: T,
        expires_ms: EXPIRES,
    }
}

pub(crate) fn ask(new: NewApproval) -> Step {
    Step::RequestApproval(Box::new(new))
}

pub(crate) fn approve(n: u64) -> Step {
    Step::Approve { id: id(n), by: "anna".into(), given: Assurance::Session, now_ms: T + 1, until_ms: EXPIRES }
}

pub(crate) fn deny(n: u64) -> Step {
    Step::Deny { id: id(n), by: "anna".into(), comment: Some("not today".into()), now_ms: T + 1 }
}

pub(crate) fn consume(n: u64) -> Step {
    Step::Consume { id: id(n), now_ms: T + 2 }
}

pub(crate) fn take_claim(key: &str) -> Step {
    Step::Claim(Box::new(claim(key)))
}

pub(crate) fn finish_claim(key: &str, answer: &str) -> Step {
    let (agent, tool, key, answer) = ("local".into(), "mail:send".into(), key.into(), answer.into());
    Step::FinishClaim { agent, tool, key, answer, expires_ms: None }
}

/// The record of a step that is not a call.
pub(crate) fn event() -> NewRecord {
    NewRecord { kind: Kind::Approval, status: Status::Success, code: Some("step".into()), args: None, ..call(0) }
}

/// Takes steps with a record of their own.
pub(crate) async fn take_steps(ledger: &Ledger, steps: Vec<Step>) -> Conditional<()> {
    ledger.append_if(event(), steps).await.unwrap().map(drop)
}

/// Requests and approves a call.
pub(crate) async fn approved(ledger: &Ledger, n: u64) {
    take_steps(ledger, vec![ask(question(n))]).await.written().unwrap();
    take_steps(ledger, vec![approve(n)]).await.written().unwrap();
}

pub(crate) async fn stored(store: &Store, n: u64) -> StoredApproval {
    store.find_approval(&id(n)).await.unwrap().unwrap()
}

pub(crate) async fn state(store: &Store, n: u64) -> ApprovalState {
    stored(store, n).await.state
}

pub(crate) async fn find_claim(store: &Store, key: &str) -> Option<StoredClaim> {
    store.find_claim("local", "mail:send", key).await.unwrap()
}

/// Runs all calls at once. Returns the number without a conflict.
pub(crate) async fn race(ledgers: &[&Ledger], count: u32, steps: impl Fn() -> Vec<Step>) -> usize {
    let run = |n: u32| {
        let ledger = Ledger::clone(ledgers.iter().cycle().nth(n as usize).unwrap());
        let steps = steps();
        tokio::spawn(async move {
            let opened = ledger.open_if(call(n), steps).await.unwrap();
            match opened {
                Conditional::Written(open) => ledger.close(open, success(), WaitFor::Disk).await.map(|()| 1).unwrap(),
                Conditional::Conflict { step: _ } => 0,
            }
        })
    };
    let mut won = 0;
    for task in (0..count).map(run).collect::<Vec<_>>() {
        won += task.await.unwrap();
    }
    won
}

pub(crate) async fn calls(store: &Store) -> Vec<Status> {
    let is_call = |record: &&Record| record.kind == Kind::Call;
    all(store).await.iter().filter(is_call).map(|record| record.status).collect()
}
