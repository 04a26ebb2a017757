//! Tests for summaries: counts and durations.

#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "a test that cannot go on should stop")]

mod common;

use common::{Place, all, call, refusal, success};
use mcpproxy_core::{RiskLevel, Untrusted, Variant};
use mcpproxy_store::{Durations, Kind, NewRecord, Outcome, Status, Store, Summary, SummaryGroup, WaitFor};

const HOUR_MS: i64 = 3_600_000;
/// The first millisecond of an hour.
const BEGIN_MS: i64 = 472_222 * HOUR_MS;

on_both!(
    nothing_sums_up_to_nothing,
    everything_is_counted_once,
    hours_are_whole,
    a_call_is_counted_while_it_is_open_and_when_it_is_over,
    names_that_agents_make_up_are_not_counted_one_by_one,
    what_is_counted_is_what_is_listed,
    what_did_not_run_is_counted_apart,
    calls_are_counted_by_agent,
);

fn count(name: &str, count: u64, errors: u64, refused: u64, p50: Option<u64>, p95: Option<u64>) -> SummaryGroup {
    let (dry_runs, replayed) = (0, 0);
    SummaryGroup { name: Untrusted::new(name), count, errors, refused, dry_runs, replayed, p50_us: p50, p95_us: p95 }
}

async fn nothing_sums_up_to_nothing(place: &Place) {
    let (store, _ledger) = place.open().await;
    let empty = Summary {
        from_ms: 0,
        to_ms: 0,
        total: 0,
        by_type: vec![],
        by_status: vec![],
        by_intent: vec![],
        by_server: vec![],
        by_tool: vec![],
        by_risk: vec![],
        duration: Durations::default(),
    };
    assert_eq!(store.summary(None, None).await.unwrap(), empty);
    let hour = Summary { from_ms: HOUR_MS, to_ms: 3 * HOUR_MS, ..empty };
    assert_eq!(store.summary(Some(HOUR_MS + 7), Some(2 * HOUR_MS)).await.unwrap(), hour);
}

async fn everything_is_counted_once(place: &Place) {
    let (store, ledger) = place.open().await;
    // Durations up to 15 have a step each. Longer ones are reported as the middle of their step.
    for (n, duration_us) in (0..).zip([1, 2, 3, 4, 1_000]) {
        let record = NewRecord { time_ms: BEGIN_MS, risk: Some(RiskLevel::Low), ..call(n) };
        let open = ledger.open(record, if n % 2 == 0 { WaitFor::Disk } else { WaitFor::Queue }).await.unwrap();
        let status = if n == 0 { Status::Error } else { Status::Success };
        let outcome = Outcome { status, duration_us: Some(duration_us), ..success() };
        ledger.close(open, outcome, WaitFor::Disk).await.unwrap();
    }
    let record = NewRecord { time_ms: BEGIN_MS, intent_type: None, ..refusal(9) };
    ledger.append(NewRecord { tool: None, ..record.clone() }, WaitFor::Disk).await.unwrap();
    ledger
        .append(
            NewRecord { kind: Kind::Auth, status: Status::Success, server: None, tool: None, ..record },
            WaitFor::Disk,
        )
        .await
        .unwrap();
    let expected = Summary {
        from_ms: BEGIN_MS,
        to_ms: BEGIN_MS + HOUR_MS,
        total: 7,
        by_type: vec![("call".into(), 5), ("auth".into(), 1), ("refusal".into(), 1)],
        by_status: vec![
            count("success", 5, 0, 0, Some(3), Some(992)),
            count("error", 1, 1, 0, Some(1), Some(1)),
            count("refused", 1, 0, 1, None, None),
        ],
        by_intent: vec![count("write", 5, 1, 0, Some(3), Some(992))],
        by_server: vec![count("mail", 6, 1, 1, Some(3), Some(992))],
        by_tool: vec![count("mail:send", 5, 1, 0, Some(3), Some(992))],
        by_risk: vec![count("low", 5, 1, 0, Some(3), Some(992))],
        duration: Durations { p50_us: Some(3), p95_us: Some(992) },
    };
    assert_eq!(store.summary(None, None).await.unwrap(), expected);
}

async fn calls_are_counted_by_agent(place: &Place) {
    let (store, ledger) = place.open().await;
    let calls =
        [("a", Variant::Read, 0), ("a", Variant::Read, 5), ("a", Variant::Write, 5), ("b", Variant::Destructive, 5)];
    for (n, (agent, intent, hour)) in (0..).zip(calls) {
        let time_ms = BEGIN_MS + hour * HOUR_MS;
        let record = NewRecord { time_ms, agent: Some(agent.to_owned()), intent_type: Some(intent), ..call(n) };
        let open = ledger.open(record, WaitFor::Disk).await.unwrap();
        ledger.close(open, success(), WaitFor::Disk).await.unwrap();
    }
    let later = |n| NewRecord { time_ms: BEGIN_MS + 5 * HOUR_MS, agent: Some("a".to_owned()), ..call(n) };
    for (n, metadata) in (20..).zip([r#"{"dry_run":"server"}"#, r#"{"replayed_from":"01X"}"#]) {
        let record = NewRecord { metadata: metadata.to_owned(), ..later(n) };
        let open = ledger.open(record, WaitFor::Disk).await.unwrap();
        ledger.close(open, success(), WaitFor::Disk).await.unwrap();
    }
    let _still_running = ledger.open(later(30), WaitFor::Disk).await.unwrap();
    // A refusal is no call.
    let refused = NewRecord { time_ms: BEGIN_MS + 5 * HOUR_MS, agent: Some("a".to_owned()), ..refusal(9) };
    ledger.append(refused, WaitFor::Disk).await.unwrap();
    let check = async |since_ms: i64, expected: &[(&str, Variant, u64)]| {
        let mut found = store.calls_by_agent(since_ms).await.unwrap();
        found.sort_by(|a, b| (&a.agent, a.intent_type).cmp(&(&b.agent, b.intent_type)));
        let found: Vec<_> = found.iter().map(|one| (one.agent.as_str(), one.intent_type, one.count)).collect();
        assert_eq!(found, expected);
    };
    let [read, write, destructive] = Variant::ALL;
    check(i64::MIN, &[("a", read, 2), ("a", write, 1), ("b", destructive, 1)]).await;
    check(BEGIN_MS + HOUR_MS, &[("a", read, 1), ("a", write, 1), ("b", destructive, 1)]).await;
    check(BEGIN_MS + 9 * HOUR_MS, &[]).await;
}

async fn hours_are_whole(place: &Place) {
    let (store, ledger) = place.open().await;
    for (n, hour) in (0..).zip([0, 1, 1, 3]) {
        ledger.append(NewRecord { time_ms: BEGIN_MS + hour * HOUR_MS + 5, ..refusal(n) }, WaitFor::Disk).await.unwrap();
    }
    let check = async |since: Option<i64>, until: Option<i64>, from: i64, to: i64, total: u64| {
        let at = |hours: Option<i64>| hours.map(|ms| BEGIN_MS + ms);
        let summary = store.summary(at(since), at(until)).await.unwrap();
        assert_eq!((summary.from_ms, summary.to_ms, summary.total), (BEGIN_MS + from, BEGIN_MS + to, total));
    };
    check(None, None, 0, 4 * HOUR_MS, 4).await;
    check(Some(HOUR_MS - 1), None, 0, 4 * HOUR_MS, 4).await;
    check(Some(HOUR_MS), None, HOUR_MS, 4 * HOUR_MS, 3).await;
    check(Some(HOUR_MS + 7), Some(2 * HOUR_MS - 1), HOUR_MS, 2 * HOUR_MS, 2).await;
    check(None, Some(0), 0, HOUR_MS, 1).await;
    check(Some(2 * HOUR_MS), Some(2 * HOUR_MS), 2 * HOUR_MS, 3 * HOUR_MS, 0).await;
    // Reversed and extreme times are no errors.
    check(Some(3 * HOUR_MS), Some(0), 3 * HOUR_MS, 3 * HOUR_MS, 0).await;
    assert_eq!(store.summary(Some(i64::MIN), Some(i64::MAX)).await.unwrap().total, 4);
}

async fn a_call_is_counted_while_it_is_open_and_when_it_is_over(place: &Place) {
    let (store, ledger) = place.open().await;
    let open = ledger.open(NewRecord { time_ms: BEGIN_MS, ..call(1) }, WaitFor::Disk).await.unwrap();
    let summary = store.summary(Some(BEGIN_MS), Some(BEGIN_MS)).await.unwrap();
    assert_eq!(summary.by_status, [count("started", 1, 0, 0, None, None)]);
    assert_eq!(summary.by_tool, [count("mail:send", 1, 0, 0, None, None)]);
    assert_eq!(store.summary(Some(BEGIN_MS + HOUR_MS), None).await.unwrap().total, 0);
    ledger.close(open, Outcome { duration_us: Some(7), ..success() }, WaitFor::Disk).await.unwrap();
    let summary = store.summary(Some(BEGIN_MS), Some(BEGIN_MS)).await.unwrap();
    assert_eq!(summary.by_status, [count("success", 1, 0, 0, Some(7), Some(7))]);
}

async fn names_that_agents_make_up_are_not_counted_one_by_one(place: &Place) {
    let (store, ledger) = place.open().await;
    for n in 0..20 {
        let record = NewRecord { tool: Some(format!("made-up-{n}")), is_known_tool: false, ..refusal(n) };
        ledger.append(record, WaitFor::Disk).await.unwrap();
    }
    let summary = store.summary(None, None).await.unwrap();
    assert_eq!((summary.total, summary.by_tool, summary.by_server), (20, vec![], vec![]));
}

async fn what_is_counted_is_what_is_listed(place: &Place) {
    let (store, ledger) = place.open().await;
    for n in 0..300 {
        let record = NewRecord {
            server: Some(format!("server{}", n % 3)),
            tool: Some(format!("tool{}", n % 5)),
            intent_type: Variant::ALL.get(n as usize % 4).copied(),
            risk: RiskLevel::ALL.get(n as usize % 7).copied(),
            // About ten calls per hour.
            time_ms: BEGIN_MS + i64::from(n) * HOUR_MS / 10,
            ..call(n)
        };
        let open = ledger.open(record, if n % 4 == 0 { WaitFor::Disk } else { WaitFor::Queue }).await.unwrap();
        let statuses = [Status::Success, Status::Error, Status::Cancelled];
        let outcome = Outcome { status: statuses[n as usize % 3], ..success() };
        if n % 50 != 0 {
            ledger.close(open, outcome, WaitFor::Queue).await.unwrap();
        }
    }
    ledger.finish().await.unwrap();
    let records = all(&store).await;
    let summary = store.summary(None, None).await.unwrap();
    assert_eq!(summary.total, 300);
    let listed = |name: &dyn Fn(&mcpproxy_store::Record) -> Option<String>| {
        let mut counts = std::collections::BTreeMap::<String, u64>::new();
        records.iter().filter_map(name).for_each(|name| *counts.entry(name).or_default() += 1);
        let mut counts: Vec<_> = counts.into_iter().collect();
        counts.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
        counts
    };
    let counted = |counts: &[SummaryGroup]| {
        counts.iter().map(|count| (count.name.for_json().to_owned(), count.count)).collect::<Vec<_>>()
    };
    let word = |word: &Option<Untrusted>| word.as_ref().map(|word| word.for_json().to_owned());
    assert_eq!(counted(&summary.by_status), listed(&|record| Some(record.status.as_str().to_owned())));
    assert_eq!(counted(&summary.by_server), listed(&|record| word(&record.server)));
    assert_eq!(counted(&summary.by_intent), listed(&|record| record.intent_type.map(|intent| intent.to_string())));
    assert_eq!(counted(&summary.by_risk), listed(&|record| record.risk.map(|risk| risk.as_str().to_owned())));
    assert_eq!(
        counted(&summary.by_tool),
        listed(&|record| Some(format!("{}:{}", word(&record.server)?, word(&record.tool)?)))
    );
    assert_eq!(is_within(&store, 1_234_567).await, Some(true));
}

/// Returns `true` if the median is the duration of all calls, within the precision of a step.
async fn is_within(store: &Store, duration_us: u64) -> Option<bool> {
    let p50_us = store.summary(None, None).await.unwrap().duration.p50_us?;
    Some(p50_us.abs_diff(duration_us) <= duration_us / 16)
}

/// A dry run and a replayed answer are records, but nothing happened.
async fn what_did_not_run_is_counted_apart(place: &Place) {
    let (store, ledger) = place.open().await;
    let marks = [
        r#"{"tool_variant":"call_tool_write"}"#,
        r#"{"tool_variant":"call_tool_write","dry_run":"server"}"#,
        r#"{"dry_run":"preview"}"#,
        r#"{"replayed_from":"01X"}"#,
    ];
    for (n, metadata) in (0..).zip(marks) {
        let record = NewRecord { time_ms: BEGIN_MS, metadata: metadata.to_owned(), ..call(n) };
        let open = ledger.open(record, WaitFor::Disk).await.unwrap();
        ledger.close(open, Outcome { duration_us: Some(7), ..success() }, WaitFor::Disk).await.unwrap();
    }
    let summary = store.summary(None, None).await.unwrap();
    assert_eq!(summary.total, 4);
    let by_status: Vec<(String, u64)> =
        summary.by_status.iter().map(|group| (group.name.for_json().to_owned(), group.count)).collect();
    let expected = [("dry_run", 2), ("replayed", 1), ("success", 1)];
    assert_eq!(by_status, expected.map(|(name, count)| (name.to_owned(), count)));
    let expected = SummaryGroup { dry_runs: 2, replayed: 1, ..count("mail:send", 1, 0, 0, Some(7), Some(7)) };
    assert_eq!(summary.by_tool, [expected]);
}
