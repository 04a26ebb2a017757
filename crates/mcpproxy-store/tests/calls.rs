//! Tests for reading recorded calls oldest first, with their arguments.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test that cannot go on should stop")]

mod common;

use common::{Place, call};
use mcpproxy_core::mask;
use mcpproxy_store::{CallsFrom, Kind, NewRecord, Payload, RecordedCall, Status, Store, WaitFor};

const COUNT: u32 = 1_203;
const BEGIN_MS: i64 = 1_700_000_000_000;

on_both!(calls_come_oldest_first_and_once, only_whole_arguments_are_returned);

async fn all(store: &Store, since_ms: Option<i64>, until_ms: Option<i64>) -> Vec<RecordedCall> {
    let mut all = Vec::new();
    let mut from = CallsFrom::period(since_ms, until_ms);
    loop {
        let (calls, next) = store.calls(from).await.unwrap();
        if calls.is_empty() {
            return all;
        }
        all.extend(calls);
        from = next;
    }
}

fn record(n: u32, kind: Kind, args: &str) -> NewRecord {
    let args = Some(Payload::of(mask(args, &[]), args.len()));
    NewRecord { time_ms: BEGIN_MS + i64::from(n), random: n.into(), kind, status: Status::Success, args, ..call(n) }
}

async fn calls_come_oldest_first_and_once(place: &Place) {
    let (store, ledger) = place.open().await;
    let kinds = [Kind::Call, Kind::Refusal, Kind::Server];
    for n in 0..COUNT {
        let args = format!(r#"{{"n":{n}}}"#);
        ledger.append(record(n, kinds[n as usize % 3], &args), WaitFor::Queue).await.unwrap();
    }
    ledger.finish().await.unwrap();
    let found = all(&store, None, None).await;
    let numbers: Vec<String> = found.iter().map(|call| call.args.as_ref().unwrap().for_json().to_owned()).collect();
    let expected: Vec<String> = (0..COUNT).filter(|n| n % 3 != 2).map(|n| format!(r#"{{"n":{n}}}"#)).collect();
    assert_eq!(numbers, expected, "calls and refusals, and nothing else");
    let some = all(&store, Some(BEGIN_MS + 30), Some(BEGIN_MS + 39)).await;
    let times: Vec<i64> = some.iter().map(|call| call.id.time_ms() - BEGIN_MS).collect();
    assert_eq!(times, [30, 31, 33, 34, 36, 37, 39]);
    assert!(all(&store, Some(BEGIN_MS + 2_000), None).await.is_empty());
}

async fn only_whole_arguments_are_returned(place: &Place) {
    let (store, ledger) = place.open().await;
    let long = format!(r#"{{"text":"{}"}}"#, "a".repeat(70_000));
    ledger.append(record(1, Kind::Call, &long), WaitFor::Queue).await.unwrap();
    ledger.append(record(2, Kind::Call, r#"{"password":"x y z"}"#), WaitFor::Queue).await.unwrap();
    let failed = NewRecord { args: None, status: Status::Error, ..record(3, Kind::Call, "{}") };
    ledger.append(failed, WaitFor::Queue).await.unwrap();
    ledger.finish().await.unwrap();
    let found = all(&store, None, None).await;
    let statuses: Vec<Status> = found.iter().map(|call| call.status).collect();
    assert_eq!(statuses, [Status::Success, Status::Success, Status::Error]);
    let args: Vec<Option<String>> =
        found.into_iter().map(|call| call.args.map(|args| args.for_json().to_owned())).collect();
    assert_eq!(args, [None, Some(r#"{"password":"***"}"#.to_owned()), None]);
}
