//! Measures the speed of verifying a log, on both databases.

#![allow(clippy::unwrap_used, clippy::print_stderr, reason = "this is for people")]

#[path = "../tests/common/mod.rs"]
mod common;

use std::time::Instant;

use common::{Place, call, payload, refusal, success};
use mcpproxy_store::{NewRecord, Outcome, VerifyOptions, WaitFor};

const CALLS: u32 = 100_000;

fn main() {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    for (name, place) in [("SQLite", Place::sqlite()), ("PostgreSQL", Place::postgres())] {
        eprintln!("{name}:");
        runtime.block_on(measure(&place));
    }
}

async fn measure(place: &Place) {
    let (store, ledger) = place.open().await;
    let mut open = Vec::new();
    for n in 0..CALLS {
        let args = payload(r#"{"to":"somebody@example.com","subject":"a letter","body":"a few words, and no more"}"#);
        let record = NewRecord { args: Some(args), ..call(n) };
        // Waiting at every hundredth record lets the writer keep up. The ends come later, as lines of their own.
        let wait = if n % 100 == 0 { WaitFor::Disk } else { WaitFor::Queue };
        open.push(ledger.open(record, wait).await.unwrap());
        if open.len() == 500 {
            ledger.append(refusal(n), WaitFor::Disk).await.unwrap();
            for (index, open) in open.drain(..).enumerate() {
                let end =
                    Outcome { result: Some(payload(r#"{"content":[{"type":"text","text":"sent"}]}"#)), ..success() };
                let wait = if index % 100 == 99 { WaitFor::Disk } else { WaitFor::Queue };
                ledger.close(open, end, wait).await.unwrap();
            }
        }
    }
    ledger.finish().await.unwrap();
    for _ in 0..3 {
        let (begin, cpu_before) = (Instant::now(), cpu_seconds());
        let verdict = store.verify(VerifyOptions::default(), &mut |_| {}).await.unwrap().remove(0);
        let seconds = begin.elapsed().as_secs_f64();
        assert_eq!(verdict.damage, None);
        let rate = verdict.lines as f64 / seconds;
        let cpu = cpu_seconds() - cpu_before;
        eprintln!("{} lines in {seconds:.2} s ({cpu:.2} s of CPU): {rate:.0} lines/s", verdict.lines);
    }
}

/// Returns the CPU time of this process on all threads. On a busy machine it is more precise than the wall clock.
fn cpu_seconds() -> f64 {
    let text = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let fields = text.rsplit(')').next().unwrap_or_default().split_whitespace();
    let ticks: f64 = fields.skip(11).take(2).filter_map(|ticks| ticks.parse::<f64>().ok()).sum();
    ticks / 100.0
}
