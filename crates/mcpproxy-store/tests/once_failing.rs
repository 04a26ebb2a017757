//! Tests that approvals and claims are used at most once, even if the log fails or a caller leaves.

#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "a test that cannot go on should stop")]

mod common;

use std::time::Duration;

use common::asking::{
    T, approve, approved, ask, calls, consume, deny, event, find_claim, finish_claim, id, question, race, state,
    stored, take_claim, take_steps,
};
use common::relay::{Relay, Words};
use common::{PATIENCE, Place, all, call, success, until, verified};
use mcpproxy_core::{ApprovalState, Digest};
use mcpproxy_store::{
    Conditional, Health, Ledger, Location, NewDryRun, NewRecord, Status, Step, Store, StoreError, WaitFor,
};

on_both!(
    a_failing_log_consumes_nothing,
    a_claim_survives_a_log_that_fails_in_the_middle,
    steps_of_an_end_come_with_it_however_it_is_written,
    a_caller_that_leaves_may_use_up_an_approval_but_never_sends,
);

async fn a_failing_log_consumes_nothing(place: &Place) {
    let (store, ledger) = place.open().await;
    approved(&ledger, 1).await;
    take_steps(&ledger, vec![ask(question(2))]).await.written().unwrap();
    place.break_log().await;
    ledger.open_if(call(1), vec![consume(1), take_claim("k")]).await.unwrap_err();
    ledger.append_if(event(), vec![approve(2)]).await.unwrap_err();
    // A conflict is reported even while the log fails, and does not mark it as working.
    assert_eq!(take_steps(&ledger, vec![deny(1), approve(3)]).await, Conditional::Conflict { step: 1 });
    assert!(matches!(ledger.health(), Health::Failing { .. }));
    place.mend_log().await;
    until("the log is well", async || ledger.health() == Health::Well).await;
    assert_eq!((state(&store, 1).await, state(&store, 2).await), (ApprovalState::Approved, ApprovalState::Pending));
    assert_eq!(find_claim(&store, "k").await, None);
    assert_eq!(all(&store).await.len(), 3, "what was refused is not written later");
    // Every step can be tried again.
    take_steps(&ledger, vec![approve(2)]).await.written().unwrap();
    assert_eq!(race(&[&ledger], 10, || vec![consume(1), take_claim("k")]).await, 1);
    verified(&store).await;
}

async fn a_claim_survives_a_log_that_fails_in_the_middle(place: &Place) {
    let (store, ledger) = place.open().await;
    let written = ledger.open_if(call(1), vec![take_claim("k")]).await.unwrap().written().unwrap();
    let read = ledger.open(call(2), WaitFor::Disk).await.unwrap();
    place.break_log().await;
    // Both ends are kept, with and without a waiting caller.
    ledger.close_with(written, success(), WaitFor::Disk, vec![finish_claim("k", "sent")]).await.unwrap_err();
    ledger.close_with(read, success(), WaitFor::Queue, vec![finish_claim("k", "not mine")]).await.unwrap();
    assert_eq!(find_claim(&store, "k").await.unwrap().status, Status::Started);
    place.mend_log().await;
    until("the answer is there", async || find_claim(&store, "k").await.unwrap().answer.is_some()).await;
    let found = find_claim(&store, "k").await.unwrap();
    assert_eq!((found.status, found.answer.as_deref()), (Status::Success, Some("sent")));
    ledger.finish().await.unwrap();
    assert_eq!(calls(&store).await, [Status::Success; 2]);
    verified(&store).await;
}

/// A beginning without a waiting caller is merged with its end: in the queue, or after a failure.
async fn steps_of_an_end_come_with_it_however_it_is_written(place: &Place) {
    let (store, ledger) = place.open().await;
    let dry_run = |n: u32| {
        let binding = Digest::of(&n.to_be_bytes());
        let (agent, tool, preview) = ("local".into(), "mail:send".into(), "{}".into());
        vec![Step::SaveDryRun(Box::new(NewDryRun { binding, agent, tool, preview, is_native: true, at_ms: T }))]
    };
    let is_kept = async |n: u32| store.find_dry_run(&Digest::of(&n.to_be_bytes())).await.unwrap().is_some();
    let at_once = ledger.open(call(1), WaitFor::Queue).await.unwrap();
    ledger.close_with(at_once, success(), WaitFor::Disk, dry_run(1)).await.unwrap();
    assert!(is_kept(1).await);
    place.break_log().await;
    let before = ledger.open(call(2), WaitFor::Queue).await.unwrap();
    ledger.append_if(event(), vec![take_claim("k")]).await.unwrap_err();
    ledger.close_with(before, success(), WaitFor::Disk, dry_run(2)).await.unwrap_err();
    place.mend_log().await;
    until("the log is well", async || ledger.health() == Health::Well).await;
    assert_eq!((is_kept(2).await, find_claim(&store, "k").await), (true, None));
    ledger.finish().await.unwrap();
    assert_eq!(calls(&store).await, [Status::Success; 2]);
    assert_eq!(verified(&store).await, 2, "one line each");
}

async fn a_caller_that_leaves_may_use_up_an_approval_but_never_sends(place: &Place) {
    let (store, ledger) = place.open().await;
    for n in 1..=50 {
        approved(&ledger, n).await;
        let steps = vec![consume(n), take_claim(&n.to_string())];
        // The last caller stays, however slow the machine is.
        let patience = if n == 50 { PATIENCE } else { Duration::from_micros(n * 60) };
        let leaving = tokio::time::timeout(patience, ledger.open_if(call(0), steps));
        if let Ok(opened) = leaving.await {
            ledger.close(opened.unwrap().written().unwrap(), success(), WaitFor::Queue).await.unwrap();
        }
    }
    ledger.finish().await.unwrap();
    let again = place.ledger(&store).await;
    assert_eq!(again.interrupted(), 0);
    let mut seen = [0; 3];
    for n in 1..=50 {
        let approval = stored(&store, n).await;
        let claim = find_claim(&store, &n.to_string()).await;
        assert_eq!(approval.record, claim.as_ref().map(|claim| claim.record), "both or neither");
        let now = claim.as_ref().map(|claim| (claim.status, claim.was_sent));
        seen[match now {
            None => 0,
            Some((Status::Success, true)) => 1,
            Some((Status::Cancelled, false)) => 2,
            other => panic!("{n}: {other:?}"),
        }] += 1;
        // A call that was not sent may be tried again, with a new approval.
        let retry = again.open_if(call(0), vec![take_claim(&n.to_string())]).await.unwrap();
        assert_eq!(retry.is_written(), now.is_none_or(|(_, was_sent)| !was_sent));
        if let Conditional::Written(open) = retry {
            again.close(open, success(), WaitFor::Queue).await.unwrap();
        }
    }
    assert!(seen[1] > 0, "{seen:?}");
    verified(&store).await;
}

/// A store whose connection to the database can be cut.
async fn wired() -> (Place, Relay, Store, Ledger) {
    let mut place = Place::postgres();
    let relay = Relay::start(place.cluster.as_ref().unwrap().port).await;
    let direct = place.store().await;
    let Location::Postgres(url) = &place.location else { panic!("an address") };
    let port = place.cluster.as_ref().unwrap().port;
    place.location = Location::Postgres(url.replace(&format!(":{port}/"), &format!(":{}/", relay.port)));
    let ledger = place.ledger(&place.store().await).await;
    (place, relay, direct, ledger)
}

/// Cuts the connection during one batch: two calls that need the same approval, an approval, and an end with an answer.
/// Returns the results of the two calls.
async fn cut_in_a_batch(relay: &Relay, store: &Store, ledger: &Ledger, at: &'static [u8]) -> Vec<String> {
    approved(ledger, 1).await;
    take_steps(ledger, vec![ask(question(2))]).await.written().unwrap();
    let running = ledger.open_if(call(1), vec![take_claim("running")]).await.unwrap().written().unwrap();
    assert_eq!(store.count_pending().await.unwrap(), 1);
    relay.cut_at(Words::FromServer(at));
    let spawn = |record: NewRecord, steps: Vec<Step>| {
        let ledger = ledger.clone();
        tokio::spawn(async move {
            match ledger.open_if(record, steps).await {
                Ok(Conditional::Written(_open)) => "won".to_owned(),
                Ok(Conditional::Conflict { step }) => format!("conflict {step}"),
                Err(StoreError::LogUnavailable | StoreError::Database { .. } | StoreError::NoAnswer) => {
                    "error".to_owned()
                }
                Err(error) => error.to_string(),
            }
        })
    };
    let (first, second) = {
        // Queued together, without letting the writer run in between.
        let steps = || vec![consume(1), take_claim("k")];
        (spawn(call(2), steps()), spawn(call(3), steps()))
    };
    let answering = ledger.close_with(running, success(), WaitFor::Queue, vec![finish_claim("running", "done")]);
    answering.await.unwrap();
    let approving = ledger.append_if(event(), vec![approve(2)]).await;
    assert!(approving.is_err());
    assert!(relay.is_cut());
    relay.mend();
    until("the log is well", async || ledger.health() == Health::Well).await;
    vec![first.await.unwrap(), second.await.unwrap()]
}

#[tokio::test]
async fn an_unconfirmed_commit_stays_consumed_and_is_not_sent() {
    let (_place, relay, store, ledger) = wired().await;
    let heard = cut_in_a_batch(&relay, &store, &ledger, b"COMMIT\0").await;
    ledger.finish().await.unwrap();
    assert_eq!(heard, ["error", "error"], "also who had lost: against whom, nobody could tell");
    let approval = stored(&store, 1).await;
    let found = find_claim(&store, "k").await.unwrap();
    assert_eq!(approval.state, ApprovalState::Consumed);
    assert_eq!(approval.record, Some(found.record));
    assert_eq!((found.status, found.was_sent), (Status::Cancelled, false));
    let record = store.find(&found.record.to_string()).await.unwrap().unwrap().record;
    assert_eq!(record.code.unwrap().for_json(), "not_sent");
    assert_eq!(find_claim(&store, "running").await.unwrap().answer.as_deref(), Some("done"));
    assert_eq!(calls(&store).await, [Status::Success, Status::Cancelled], "who lost left nothing behind");
    verified(&store).await;
}

#[tokio::test]
async fn what_was_cut_off_before_it_was_committed_consumed_nothing() {
    for at in [&b"SAVEPOINT\0"[..], b"RELEASE\0", b"INSERT 0 ", b"pg_advisory_xact_lock"] {
        let (_place, relay, store, ledger) = wired().await;
        let heard = cut_in_a_batch(&relay, &store, &ledger, at).await;
        ledger.finish().await.unwrap();
        assert_eq!(heard, ["error", "error"]);
        assert_eq!((state(&store, 1).await, state(&store, 2).await), (ApprovalState::Approved, ApprovalState::Pending));
        assert_eq!(find_claim(&store, "k").await, None);
        assert_eq!(find_claim(&store, "running").await.unwrap().answer.as_deref(), Some("done"));
        assert_eq!(calls(&store).await, [Status::Success]);
        assert_eq!(store.find_approval(&id(1)).await.unwrap().unwrap().record, None);
        verified(&store).await;
    }
}
