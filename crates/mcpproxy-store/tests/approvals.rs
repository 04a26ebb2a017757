//! Tests for approvals: every step from every state, stored fields, and queries.

#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "a test that cannot go on should stop")]

mod common;

use common::asking::{
    EXPIRES, MINUTE, T, approve, approved, ask, consume, deny, grant, id, question, state, stored, take_steps, tool,
};
use common::{Place, all, call, success, verified};
use mcpproxy_core::{Approval, ApprovalState, Assurance, Digest, ToolName};
use mcpproxy_store::{ApprovalFilter, Conditional, Ledger, NewApproval, Status, Step, Store, StoreError, WaitFor};

on_both!(
    an_approval_is_asked_given_and_used_with_the_records_of_it,
    every_step_from_every_state,
    an_approval_has_its_own_expiry,
    approval_and_standing_approval_are_written_together,
    an_agent_has_no_more_pending_than_it_may,
    identical_requests_are_created_once,
    steps_that_belong_together_win_or_lose_together,
    pages_go_through_all_newest_first,
    what_is_over_long_enough_is_forgotten,
    odd_words_are_taken_as_they_are,
);

async fn an_approval_is_asked_given_and_used_with_the_records_of_it(place: &Place) {
    let (store, ledger) = place.open().await;
    assert_eq!(store.approvals_version().await.unwrap(), 0);
    take_steps(&ledger, vec![ask(question(1))]).await.written().unwrap();
    let pending = stored(&store, 1).await;
    assert_eq!(pending.args.as_deref(), Some(r#"{"to":"1"}"#));
    let binding = question(1).binding;
    let expected = Approval { id: id(1), binding, state: ApprovalState::Pending, given: None, expires_ms: EXPIRES };
    assert_eq!(pending.approval(), expected);
    assert_eq!(store.count_pending().await.unwrap(), 1);

    take_steps(&ledger, vec![approve(1)]).await.written().unwrap();
    let given = stored(&store, 1).await;
    assert_eq!((given.state, given.given), (ApprovalState::Approved, Some(Assurance::Session)));
    assert_eq!((given.decided_by.as_deref(), given.decided_ms), (Some("anna"), Some(T + 1)));
    assert_eq!(given.args, pending.args, "it is still to be sent");
    assert_eq!(store.find_open_approval(&binding, T).await.unwrap().unwrap(), given);
    assert_eq!(store.find_open_approval(&binding, EXPIRES).await.unwrap(), None);

    let open = ledger.open_if(call(1), vec![consume(1)]).await.unwrap().written().unwrap();
    let used = stored(&store, 1).await;
    assert_eq!((used.state, used.record, used.consumed_ms), (ApprovalState::Consumed, Some(open.id()), Some(T + 2)));
    assert_eq!((used.args.as_deref(), used.shown_args.for_json()), (None, r#"{"to":"1"}"#));
    assert_eq!(store.find_open_approval(&binding, T).await.unwrap(), None);
    assert_eq!(store.last_approved(&tool(), "local", None).await.unwrap().unwrap().id, id(1));
    assert_eq!(store.last_approved(&tool(), "local", Some(&id(1))).await.unwrap(), None);
    assert_eq!(store.last_approved(&tool(), "other", None).await.unwrap(), None);
    let again = ledger.open_if(call(2), vec![consume(1)]).await.unwrap();
    assert!(matches!(again, Conditional::Conflict { step: 0 }));
    ledger.close(open, success(), WaitFor::Disk).await.unwrap();
    assert_eq!(store.approvals_version().await.unwrap(), 3);
    let statuses: Vec<_> = all(&store).await.iter().map(|record| record.status).collect();
    assert_eq!(statuses, [Status::Success; 3], "what lost left no record");
    assert_eq!(verified(&store).await, 4);
}

/// Brings an approval into a state.
async fn bring(ledger: &Ledger, n: u64, to: ApprovalState) {
    let attached = Some(r#"{"inputResponses":{}}"#.to_owned());
    take_steps(ledger, vec![ask(NewApproval { attached, ..question(n) })]).await.written().unwrap();
    let steps = match to {
        ApprovalState::Pending => vec![],
        ApprovalState::Approved => vec![approve(n)],
        ApprovalState::Consumed => vec![approve(n), consume(n)],
        ApprovalState::Denied => vec![deny(n)],
        ApprovalState::Expired => vec![Step::Expire { id: id(n), now_ms: EXPIRES }],
        ApprovalState::Cancelled => vec![Step::Cancel { id: id(n), now_ms: T }],
    };
    if !steps.is_empty() {
        take_steps(ledger, steps).await.written().unwrap();
    }
}

async fn every_step_from_every_state(place: &Place) {
    use ApprovalState::{Approved, Cancelled, Consumed, Denied, Expired, Pending};
    type Make = fn(u64, i64) -> Step;
    let steps: [(&str, Make); 5] = [
        ("approve", |n, now_ms| Step::Approve {
            id: id(n),
            by: "b".into(),
            given: Assurance::Factor,
            now_ms,
            until_ms: EXPIRES,
        }),
        ("deny", |n, now_ms| Step::Deny { id: id(n), by: "b".into(), comment: None, now_ms }),
        ("consume", |n, now_ms| Step::Consume { id: id(n), now_ms }),
        ("expire", |n, now_ms| Step::Expire { id: id(n), now_ms }),
        ("cancel", |n, now_ms| Step::Cancel { id: id(n), now_ms }),
    ];
    // For each state, just before and at its expiry: the new state after each of the five steps, or `None` for a
    // conflict.
    let table: [(ApprovalState, [[Option<ApprovalState>; 5]; 2]); 6] = [
        (
            Pending,
            [
                [Some(Approved), Some(Denied), None, None, Some(Cancelled)],
                [None, Some(Denied), None, Some(Expired), Some(Cancelled)],
            ],
        ),
        (
            Approved,
            [
                [None, Some(Denied), Some(Consumed), None, Some(Cancelled)],
                [None, Some(Denied), None, Some(Expired), Some(Cancelled)],
            ],
        ),
        (Consumed, [[None; 5]; 2]),
        (Denied, [[None; 5]; 2]),
        (Expired, [[None; 5]; 2]),
        (Cancelled, [[None; 5]; 2]),
    ];
    let (store, ledger) = place.open().await;
    let mut n = 0;
    for (from, moments) in table {
        for (now_ms, expected) in [EXPIRES - 1, EXPIRES].into_iter().zip(moments) {
            for ((name, step), expected) in steps.into_iter().zip(expected) {
                n += 1;
                bring(&ledger, n, from).await;
                let before = stored(&store, n).await;
                let outcome = take_steps(&ledger, vec![step(n, now_ms)]).await;
                let after = stored(&store, n).await;
                let what = format!("{name} {from:?} at {now_ms}");
                match expected {
                    Some(to) => assert_eq!((outcome, after.state), (Conditional::Written(()), to), "{what}"),
                    None => assert_eq!((outcome, &after), (Conditional::Conflict { step: 0 }, &before), "{what}"),
                }
                let is_open = matches!(after.state, Pending | Approved);
                assert_eq!(after.args.is_some(), is_open, "{what}");
                assert_eq!(after.attached.is_some(), is_open, "{what}");
                assert_eq!(after.record.is_some(), after.state == Consumed, "{what}");
                take_steps(&ledger, vec![Step::Cancel { id: id(n), now_ms: T }]).await.written();
            }
        }
    }
    // Every step on an approval that does not exist conflicts.
    for (_, step) in steps {
        assert_eq!(take_steps(&ledger, vec![step(9999, T)]).await, Conditional::Conflict { step: 0 });
    }
    verified(&store).await;
}

async fn an_approval_has_its_own_expiry(place: &Place) {
    let (store, ledger) = place.open().await;
    for (n, until_ms, expected) in [(1, T + 5, T + 5), (2, EXPIRES, EXPIRES), (3, EXPIRES + 1, EXPIRES + 1)] {
        take_steps(&ledger, vec![ask(question(n))]).await.written().unwrap();
        let approve =
            Step::Approve { id: id(n), by: "anna".into(), given: Assurance::Session, now_ms: T + 1, until_ms };
        take_steps(&ledger, vec![approve]).await.written().unwrap();
        assert_eq!(stored(&store, n).await.expires_ms, expected);
        let consume = |now_ms| Step::Consume { id: id(n), now_ms };
        assert_eq!(take_steps(&ledger, vec![consume(expected)]).await, Conditional::Conflict { step: 0 });
        take_steps(&ledger, vec![consume(expected - 1)]).await.written().unwrap();
    }
}

async fn approval_and_standing_approval_are_written_together(place: &Place) {
    let (store, ledger) = place.open().await;
    let states = [ApprovalState::Approved, ApprovalState::Consumed, ApprovalState::Denied, ApprovalState::Expired];
    for (n, state) in (1..).zip(states) {
        bring(&ledger, n, state).await;
        let steps = vec![approve(n), Step::CreateStandingApproval(Box::new(grant(n)))];
        assert_eq!(take_steps(&ledger, steps).await, Conditional::Conflict { step: 0 }, "{state:?}");
        assert_eq!(store.find_standing_approval(&grant(n).id).await.unwrap(), None, "{state:?}");
    }
    take_steps(&ledger, vec![ask(question(9))]).await.written().unwrap();
    let late =
        Step::Approve { id: id(9), by: "anna".into(), given: Assurance::Factor, now_ms: EXPIRES, until_ms: i64::MAX };
    assert_eq!(
        take_steps(&ledger, vec![late, Step::CreateStandingApproval(Box::new(grant(9)))]).await,
        Conditional::Conflict { step: 0 }
    );
    take_steps(&ledger, vec![approve(9), Step::CreateStandingApproval(Box::new(grant(9)))]).await.written().unwrap();
    assert_eq!(
        (state(&store, 9).await, store.list_standing_approvals(true, T).await.unwrap().len()),
        (ApprovalState::Approved, 1)
    );
    verified(&store).await;
}

async fn an_agent_has_no_more_pending_than_it_may(place: &Place) {
    let (store, ledger) = place.open().await;
    // In parallel, so that they share a batch.
    let asked = (1..=50).map(|n| {
        let ledger = ledger.clone();
        tokio::spawn(async move { take_steps(&ledger, vec![ask(question(n))]).await })
    });
    let mut won = 0;
    for asked in asked.collect::<Vec<_>>() {
        won += u64::from(asked.await.unwrap().is_written());
    }
    assert_eq!((won, store.count_pending().await.unwrap()), (20, 20));
    let other = NewApproval { agent: "other".into(), ..question(51) };
    take_steps(&ledger, vec![ask(other)]).await.written().unwrap();
    // A decided request makes room for one more, and so does an expired one.
    let pending = ApprovalFilter {
        state: Some(ApprovalState::Pending),
        agent: Some("local".into()),
        ..ApprovalFilter::default()
    };
    let last = store.list_approvals(&pending, None, 1).await.unwrap().approvals.remove(0);
    let decide = Step::Approve { id: last.id, by: "anna".into(), given: Assurance::Form, now_ms: T, until_ms: EXPIRES };
    take_steps(&ledger, vec![decide]).await.written().unwrap();
    take_steps(&ledger, vec![ask(question(60))]).await.written().unwrap();
    assert_eq!(take_steps(&ledger, vec![ask(question(61))]).await, Conditional::Conflict { step: 0 });
    let later = NewApproval { created_ms: EXPIRES, expires_ms: EXPIRES + MINUTE, ..question(61) };
    take_steps(&ledger, vec![ask(later)]).await.written().unwrap();
}

async fn identical_requests_are_created_once(place: &Place) {
    let (_store, ledger) = place.open().await;
    let again = |n: u64, created_ms: i64| {
        let binding = question(1).binding;
        vec![ask(NewApproval { binding, created_ms, expires_ms: created_ms + MINUTE, ..question(n) })]
    };
    let asked = (1..=20).map(|n| {
        let (ledger, steps) = (ledger.clone(), again(n, T));
        tokio::spawn(async move { take_steps(&ledger, steps).await.is_written().then_some(n) })
    });
    let mut won = Vec::new();
    for asked in asked.collect::<Vec<_>>() {
        won.extend(asked.await.unwrap());
    }
    let [first] = won[..] else { panic!("{won:?}") };
    // Only one request with this binding can be open.
    take_steps(&ledger, vec![approve(first)]).await.written().unwrap();
    assert_eq!(take_steps(&ledger, again(30, T + 1)).await, Conditional::Conflict { step: 0 });
    take_steps(&ledger, vec![consume(first)]).await.written().unwrap();
    take_steps(&ledger, again(31, T + 1)).await.written().unwrap();
    take_steps(&ledger, again(32, T + 1 + MINUTE)).await.written().unwrap();
    // The id is unique, too.
    let same_id = NewApproval { binding: Digest::of(b"other"), ..question(32) };
    assert_eq!(take_steps(&ledger, vec![ask(same_id)]).await, Conditional::Conflict { step: 0 });
}

async fn steps_that_belong_together_win_or_lose_together(place: &Place) {
    let (store, ledger) = place.open().await;
    approved(&ledger, 1).await;
    approved(&ledger, 2).await;
    let version = store.approvals_version().await.unwrap();
    let steps = vec![deny(1), consume(2), consume(3), consume(2)];
    assert_eq!(take_steps(&ledger, steps).await, Conditional::Conflict { step: 2 });
    assert_eq!((state(&store, 1).await, state(&store, 2).await), (ApprovalState::Approved, ApprovalState::Approved));
    assert_eq!(store.approvals_version().await.unwrap(), version, "nothing is new");
    assert_eq!(take_steps(&ledger, vec![consume(1), consume(1)]).await, Conditional::Conflict { step: 1 });
    take_steps(&ledger, vec![deny(1), consume(2)]).await.written().unwrap();
    assert_eq!((state(&store, 1).await, state(&store, 2).await), (ApprovalState::Denied, ApprovalState::Consumed));
    verified(&store).await;
}

async fn read_all(store: &Store, filter: &ApprovalFilter, limit: usize) -> Vec<String> {
    let mut ids = Vec::new();
    let mut before: Option<String> = None;
    loop {
        let page = store.list_approvals(filter, before.as_deref(), limit).await.unwrap();
        assert!(page.approvals.len() <= limit);
        assert!(page.approvals.iter().all(|approval| approval.args.is_none()));
        ids.extend(page.approvals.iter().map(|approval| approval.id.to_string()));
        match page.next {
            Some(next) => before = Some(next),
            None => return ids,
        }
    }
}

async fn pages_go_through_all_newest_first(place: &Place) {
    let (store, ledger) = place.open().await;
    for n in 1..=60 {
        let agent = if n % 2 == 0 { "even" } else { "odd" };
        let name = if n % 3 == 0 { "mail:send" } else { "files:write" };
        let tool = ToolName::parse(name).unwrap();
        take_steps(&ledger, vec![ask(NewApproval { agent: agent.into(), tool, most: 100, ..question(n) })])
            .await
            .written()
            .unwrap();
        if n % 5 == 0 {
            take_steps(&ledger, vec![deny(n)]).await.written().unwrap();
        }
    }
    for limit in [1, 7, 60, 1000] {
        for choice in 0..8_u8 {
            let has = |bit: u8| choice & (1 << bit) != 0;
            let filter = ApprovalFilter {
                agent: has(0).then(|| "even".into()),
                tool: has(1).then(|| "mail:send".into()),
                state: has(2).then_some(ApprovalState::Pending),
            };
            let fits = |n: &u64| {
                (!has(0) || n.is_multiple_of(2))
                    && (!has(1) || n.is_multiple_of(3))
                    && (!has(2) || !n.is_multiple_of(5))
            };
            let expected: Vec<_> = (1..=60).filter(fits).rev().map(|n| id(n).to_string()).collect();
            assert_eq!(read_all(&store, &filter, limit).await, expected, "{filter:?}");
        }
    }
    let bad = store.list_approvals(&ApprovalFilter::default(), Some("' OR 1"), 1).await;
    assert!(matches!(bad, Err(StoreError::Cursor)));
    assert_eq!(store.overdue_approvals(EXPIRES - 1, 100).await.unwrap(), []);
    assert_eq!(store.overdue_approvals(EXPIRES, 7).await.unwrap().len(), 7);
    assert_eq!(store.overdue_approvals(EXPIRES, 100).await.unwrap().len(), 48);
}

async fn what_is_over_long_enough_is_forgotten(place: &Place) {
    let (store, ledger) = place.open().await;
    for n in 1..=3 {
        approved(&ledger, n).await;
        take_steps(&ledger, vec![consume(n)]).await.written().unwrap();
    }
    take_steps(&ledger, vec![ask(question(4)), deny(4)]).await.written().unwrap();
    take_steps(&ledger, vec![ask(question(5))]).await.written().unwrap();
    approved(&ledger, 6).await;
    let month = 30 * 24 * 60 * MINUTE;
    assert_eq!(store.remove_expired(T + month - 1).await.unwrap(), 0);
    assert_eq!(store.remove_expired(T + month).await.unwrap(), 3);
    let left = read_all(&store, &ApprovalFilter::default(), 10).await;
    assert_eq!(left, [id(6), id(5), id(3)].map(|id| id.to_string()), "open ones, and the last that was used");
    assert_eq!(store.remove_expired(T + 2 * month).await.unwrap(), 0);
}

async fn odd_words_are_taken_as_they_are(place: &Place) {
    let (store, ledger) = place.open().await;
    let args = "{\"a\":\"\\u0000 \u{202e}'; DROP TABLE approvals; -- \0 €\"}";
    let odd = NewApproval {
        args: args.into(),
        shown_args: "nul \0".into(),
        attached: Some(args.into()),
        shown_attached: Some("nul \0".into()),
        about: "\0".into(),
        client: Some("\0\u{1b}[2J".into()),
        ..question(1)
    };
    take_steps(&ledger, vec![ask(odd)]).await.written().unwrap();
    let found = stored(&store, 1).await;
    assert_eq!(found.args.as_deref(), Some(args), "to the byte");
    assert_eq!(found.attached.as_deref(), Some(args), "to the byte");
    assert_eq!(found.shown_args.for_json(), "nul \u{fffd}");
    assert_eq!(found.shown_attached.unwrap().for_json(), "nul \u{fffd}");
    let comment = Some("no\0\u{1b}".to_owned());
    take_steps(&ledger, vec![Step::Deny { id: id(1), by: "an\0na".into(), comment, now_ms: T }])
        .await
        .written()
        .unwrap();
    assert_eq!(stored(&store, 1).await.comment.unwrap().for_json(), "no\u{fffd}\u{1b}");
    let _open = ledger.open_if(call(9), vec![]).await.unwrap().written().unwrap();
    verified(&store).await;
}
