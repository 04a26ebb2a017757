//! Tests that approvals and claims are used once, with parallel calls and on two gateways.

#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "a test that cannot go on should stop")]

mod common;

use common::asking::{
    EXPIRES, MINUTE, T, approved, ask, calls, claim, consume, find_claim, finish_claim, grant, question, race,
    take_claim, take_steps, tool,
};
use common::{Place, all, call, success, verified};
use mcpproxy_core::Digest;
use mcpproxy_store::{
    Conditional, Ledger, NewClaim, NewDryRun, NewStandingApproval, Outcome, Status, Step, StoredClaim, WaitFor,
};

on_both!(
    of_fifty_that_consume_one_approval_one_wins,
    of_a_hundred_that_claim_one_key_one_wins,
    concurrent_uses_never_exceed_the_limit,
    two_gateways_share_what_may_happen_once,
    a_claim_tells_how_its_call_went,
    a_claim_can_be_taken_again_when_it_expired_or_nothing_was_sent,
    an_answer_belongs_to_the_call_that_claimed,
    grants_are_listed_used_and_revoked,
    dry_runs_replace_each_other_and_are_forgotten,
    more_steps_than_fit_into_one_transaction,
);

async fn of_fifty_that_consume_one_approval_one_wins(place: &Place) {
    let (store, ledger) = place.open().await;
    approved(&ledger, 1).await;
    assert_eq!(race(&[&ledger], 50, || vec![consume(1)]).await, 1);
    approved(&ledger, 2).await;
    assert_eq!(race(&[&ledger], 50, || vec![take_claim("k"), consume(2)]).await, 1);
    assert_eq!(calls(&store).await, [Status::Success; 2]);
    verified(&store).await;
}

async fn of_a_hundred_that_claim_one_key_one_wins(place: &Place) {
    let (store, ledger) = place.open().await;
    assert_eq!(race(&[&ledger], 100, || vec![take_claim("k")]).await, 1);
    assert_eq!(calls(&store).await, [Status::Success]);
    assert_eq!(store.approvals_version().await.unwrap(), 0, "claims are nobody's news");
    verified(&store).await;
}

async fn concurrent_uses_never_exceed_the_limit(place: &Place) {
    let (store, ledger) = place.open().await;
    take_steps(&ledger, vec![Step::CreateStandingApproval(Box::new(grant(1)))]).await.written().unwrap();
    let steps = || vec![Step::UseStandingApproval { id: "grant1".into(), now_ms: T }];
    assert_eq!(race(&[&ledger], 30, steps).await, 3);
    assert_eq!(store.find_standing_approval("grant1").await.unwrap().unwrap().uses_left, 0);
    verified(&store).await;
}

async fn two_gateways_share_what_may_happen_once(place: &Place) {
    let (store, first) = place.open().await;
    let second = Ledger::start(&store, place.options(2)).await.unwrap();
    let both = [&first, &second];
    for n in 1..=5 {
        approved(&first, n).await;
        assert_eq!(race(&both, 20, || vec![consume(n)]).await, 1);
        let key = format!("key {n}");
        // In both orders, so that a deadlock would be possible.
        approved(&second, 100 + n).await;
        approved(&second, 200 + n).await;
        let (forth, back) = tokio::join!(
            race(&both, 10, || vec![consume(100 + n), consume(200 + n), take_claim(&key)]),
            race(&both, 10, || vec![take_claim(&key), consume(200 + n), consume(100 + n)]),
        );
        assert_eq!(forth + back, 1);
    }
    // The same request, and more requests than an agent may have.
    let mut asked = Vec::new();
    for n in 1000..1060_u64 {
        let ledger = both[n as usize % 2].clone();
        asked.push(tokio::spawn(async move { take_steps(&ledger, vec![ask(question(n / 2 * 2))]).await.is_written() }));
    }
    let mut won = 0;
    for asked in asked {
        won += usize::from(asked.await.unwrap());
    }
    assert_eq!((won, store.count_pending().await.unwrap()), (20, 20));
    verified(&store).await;
}

async fn a_claim_tells_how_its_call_went(place: &Place) {
    let (store, ledger) = place.open().await;
    assert_eq!(find_claim(&store, "k").await, None);
    let open = ledger.open_if(call(1), vec![take_claim("k")]).await.unwrap().written().unwrap();
    let expected = StoredClaim {
        args_digest: Digest::of(b"arguments"),
        record: open.id(),
        status: Status::Started,
        was_sent: true,
        answer: None,
        expires_ms: EXPIRES,
    };
    assert_eq!(find_claim(&store, "k").await.unwrap(), expected);
    let steps = vec![finish_claim("k", "{\"sent\":\"\0 €\"}")];
    ledger.close_with(open, success(), WaitFor::Disk, steps).await.unwrap();
    let answer = Some("{\"sent\":\"\0 €\"}".to_owned());
    let finished = StoredClaim { status: Status::Success, answer, ..expected };
    assert_eq!(find_claim(&store, "k").await.unwrap(), finished);
    for (agent, tool, key) in [("other", "mail:send", "k"), ("local", "mail:read", "k"), ("local", "mail:send", "K")] {
        assert_eq!(store.find_claim(agent, tool, key).await.unwrap(), None);
    }
    // An answer can shorten the life of its claim, and never prolong it.
    for (n, key, ends_ms, expected_ms) in [(3, "k3", T + 5, T + 5), (4, "k4", EXPIRES + 5, EXPIRES)] {
        let open = ledger.open_if(call(n), vec![take_claim(key)]).await.unwrap().written().unwrap();
        let mut finish = finish_claim(key, "{}");
        if let Step::FinishClaim { expires_ms, .. } = &mut finish {
            *expires_ms = Some(ends_ms);
        }
        ledger.close_with(open, success(), WaitFor::Disk, vec![finish]).await.unwrap();
        assert_eq!(find_claim(&store, key).await.unwrap().expires_ms, expected_ms, "{key}");
    }
    // A call that is running when the gateway stops.
    let _open = ledger.open_if(call(2), vec![take_claim("k2")]).await.unwrap().written().unwrap();
    ledger.finish().await.unwrap();
    let again = place.ledger(&store).await;
    assert_eq!(again.interrupted(), 1);
    let interrupted = find_claim(&store, "k2").await.unwrap();
    assert_eq!((interrupted.status, interrupted.answer, interrupted.was_sent), (Status::Interrupted, None, true));
    assert_eq!(race(&[&again], 5, || vec![take_claim("k2")]).await, 0, "nobody knows what became of it");
    verified(&store).await;
}

async fn a_claim_can_be_taken_again_when_it_expired_or_nothing_was_sent(place: &Place) {
    let (store, ledger) = place.open().await;
    // The outcome of the first call, the time of the second, and whether the second may take the claim.
    let ended = |status: Status, code: Option<&str>| Outcome { code: code.map(Into::into), ..Outcome::bare(status) };
    let table = [
        (ended(Status::Cancelled, Some("not_sent")), T, true),
        (ended(Status::Cancelled, None), T, false),
        (ended(Status::Error, Some("not_sent")), T, false),
        (success(), T, false),
        (success(), EXPIRES - 1, false),
        (success(), EXPIRES, true),
    ];
    for (n, (outcome, now_ms, may)) in table.into_iter().enumerate() {
        let key = format!("key {n}");
        let open = ledger.open_if(call(1), vec![take_claim(&key)]).await.unwrap().written().unwrap();
        let first = open.id();
        let what = format!("{outcome:?} at {now_ms}");
        ledger.close_with(open, outcome, WaitFor::Disk, vec![finish_claim(&key, "first")]).await.unwrap();
        let expires_ms = now_ms + 10 * MINUTE;
        let again = NewClaim { args_digest: Digest::of(b"others"), now_ms, expires_ms, ..claim(&key) };
        let second = ledger.open_if(call(2), vec![Step::Claim(Box::new(again))]).await.unwrap();
        assert_eq!(second.is_written(), may, "{what}");
        let found = find_claim(&store, &key).await.unwrap();
        match second {
            Conditional::Written(open) => {
                assert_eq!((found.record, found.answer.as_deref()), (open.id(), None), "{what}");
                assert_eq!((found.args_digest, found.expires_ms), (Digest::of(b"others"), expires_ms), "{what}");
            }
            Conditional::Conflict { step } => {
                assert_eq!((step, found.record, found.answer.as_deref()), (0, first, Some("first")), "{what}");
            }
        }
    }
    assert_eq!(store.remove_expired(EXPIRES).await.unwrap(), 5, "one was made anew, later");
    verified(&store).await;
}

async fn an_answer_belongs_to_the_call_that_claimed(place: &Place) {
    let (store, ledger) = place.open().await;
    let slow = ledger.open_if(call(1), vec![take_claim("k")]).await.unwrap().written().unwrap();
    let later = NewClaim { now_ms: EXPIRES, expires_ms: EXPIRES + MINUTE, ..claim("k") };
    let next = ledger.open_if(call(2), vec![Step::Claim(Box::new(later))]).await.unwrap().written().unwrap();
    ledger.close_with(slow, success(), WaitFor::Disk, vec![finish_claim("k", "late")]).await.unwrap();
    assert_eq!(find_claim(&store, "k").await.unwrap().answer, None);
    ledger.close_with(next, success(), WaitFor::Disk, vec![finish_claim("k", "in time")]).await.unwrap();
    assert_eq!(find_claim(&store, "k").await.unwrap().answer.as_deref(), Some("in time"));
    // A claim that does not exist cannot be finished, but the end is still written.
    let open = ledger.open(call(3), WaitFor::Queue).await.unwrap();
    ledger.close_with(open, success(), WaitFor::Disk, vec![finish_claim("other", "x")]).await.unwrap();
    assert_eq!(calls(&store).await, [Status::Success; 3]);
    verified(&store).await;
}

async fn grants_are_listed_used_and_revoked(place: &Place) {
    let (store, ledger) = place.open().await;
    let make = |new: NewStandingApproval| vec![Step::CreateStandingApproval(Box::new(new))];
    let using = |n: u64, now_ms: i64| vec![Step::UseStandingApproval { id: format!("grant{n}"), now_ms }];
    take_steps(&ledger, make(grant(1))).await.written().unwrap();
    assert_eq!(take_steps(&ledger, make(grant(1))).await, Conditional::Conflict { step: 0 }, "one id, one grant");
    take_steps(&ledger, make(NewStandingApproval { uses: 1, created_ms: T + 1, ..grant(2) })).await.written().unwrap();
    take_steps(&ledger, make(NewStandingApproval { agent: "other".into(), created_ms: T + 2, ..grant(3) }))
        .await
        .written()
        .unwrap();
    let ids = |grants: Vec<mcpproxy_store::StoredStandingApproval>| {
        grants.into_iter().map(|grant| grant.id).collect::<Vec<_>>()
    };
    assert_eq!(ids(store.list_standing_approvals(false, T).await.unwrap()), ["grant3", "grant2", "grant1"]);
    assert_eq!(ids(store.standing_approvals_for("local", &tool(), T).await.unwrap()).len(), 2);
    take_steps(&ledger, using(1, EXPIRES - 1)).await.written().unwrap();
    assert_eq!(take_steps(&ledger, using(1, EXPIRES)).await, Conditional::Conflict { step: 0 }, "expired");
    take_steps(&ledger, using(2, T)).await.written().unwrap();
    assert_eq!(take_steps(&ledger, using(2, T)).await, Conditional::Conflict { step: 0 }, "used up");
    let revoke = || vec![Step::RevokeStandingApproval { id: "grant1".into(), by: "admin key".into(), now_ms: T + 5 }];
    take_steps(&ledger, revoke()).await.written().unwrap();
    assert_eq!(take_steps(&ledger, revoke()).await, Conditional::Conflict { step: 0 });
    assert_eq!(take_steps(&ledger, using(1, T)).await, Conditional::Conflict { step: 0 }, "revoked");
    let revoked = store.find_standing_approval("grant1").await.unwrap().unwrap();
    assert_eq!((revoked.uses, revoked.uses_left, revoked.revoked_ms), (3, 2, Some(T + 5)));
    assert_eq!((revoked.revoked_by.as_deref(), revoked.schema.as_str()), (Some("admin key"), r#"{"type":"object"}"#));
    assert_eq!(ids(store.list_standing_approvals(false, T).await.unwrap()), ["grant3"]);
    assert_eq!(ids(store.list_standing_approvals(true, T).await.unwrap()), ["grant3", "grant2", "grant1"]);
    assert_eq!(store.standing_approvals_for("local", &tool(), T).await.unwrap(), []);
    assert_eq!(store.standing_approvals_for("other", &tool(), EXPIRES).await.unwrap(), []);
    assert_eq!(store.find_standing_approval("grant9").await.unwrap(), None);
    assert_eq!(store.approvals_version().await.unwrap(), 6);
}

async fn dry_runs_replace_each_other_and_are_forgotten(place: &Place) {
    let (store, ledger) = place.open().await;
    let binding = Digest::of(b"this very call");
    let dry_run = |preview: &str, is_native: bool, at_ms: i64| {
        let (agent, tool) = ("local".into(), "mail:send".into());
        vec![Step::SaveDryRun(Box::new(NewDryRun { binding, agent, tool, preview: preview.into(), is_native, at_ms }))]
    };
    assert_eq!(store.find_dry_run(&binding).await.unwrap(), None);
    take_steps(&ledger, dry_run("{}", false, T)).await.written().unwrap();
    let open = ledger.open(call(1), WaitFor::Disk).await.unwrap();
    ledger.close_with(open, success(), WaitFor::Disk, dry_run("\"\0\"", true, T + 1)).await.unwrap();
    let found = store.find_dry_run(&binding).await.unwrap().unwrap();
    assert_eq!((found.preview.for_json(), found.is_native, found.at_ms), ("\"\u{fffd}\"", true, T + 1));
    let week = 7 * 24 * 60 * MINUTE;
    assert_eq!(store.remove_expired(T + week).await.unwrap(), 0);
    assert_eq!(store.remove_expired(T + 1 + week).await.unwrap(), 1);
    assert_eq!(store.find_dry_run(&binding).await.unwrap(), None);
}

async fn more_steps_than_fit_into_one_transaction(place: &Place) {
    let (store, ledger) = place.open().await;
    let opened = (0..300).map(|n| {
        let ledger = ledger.clone();
        let steps = vec![take_claim(&format!("{n} a")), take_claim(&format!("{n} b"))];
        tokio::spawn(async move {
            let open = ledger.open_if(call(n), steps).await.unwrap().written().unwrap();
            ledger.close(open, success(), WaitFor::Queue).await.unwrap();
        })
    });
    for opened in opened.collect::<Vec<_>>() {
        opened.await.unwrap();
    }
    let many = (0..200).map(|n| take_claim(&format!("many {n}"))).collect();
    take_steps(&ledger, many).await.written().unwrap();
    ledger.finish().await.unwrap();
    assert_eq!(all(&store).await.len(), 301);
    verified(&store).await;
}
