//! Checks that calls leave nothing behind: after 20,000 calls, the gateway holds as little memory as after a few, and
//! the next call does as much work as before.
//!
//! A table that keeps finished calls, even for a second only, makes every call slower if each call walks over it. The
//! walk allocates nothing, so `work.rs` cannot see it. The entries do: they are memory that is not freed. So this test
//! compares the number of live allocations and their bytes. SQLite allocates by itself and is not counted.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::print_stdout,
    reason = "a test that cannot go on has failed"
)]

#[allow(dead_code, unused_imports, reason = "the other tests use the rest")]
mod rig;

use std::time::Duration;

use rig::{CALLS, Call, Live, Rig, Work};

/// Calls before the first look. They fill caches, connect to the servers and cause a checkpoint of the log.
const WARM_UP: usize = 1_500;
/// Pause before the first look. A table that keeps finished calls for a moment is empty then, and full at later looks.
const PAUSE: Duration = Duration::from_millis(2_500);
/// Calls after the pause, because a table may drop old entries at the next call only.
const FEW: usize = 8;
/// Calls from the first look to each further one.
const LOOKS: [usize; 2] = [1_000, 20_000];
/// Most live allocations that a look may find more than the first. One kept entry per call would add thousands.
const ALLOCATIONS_MAX: usize = 500;
/// The same for bytes. On a slow disk, batches are larger: the queue keeps room for one of them, and the database keeps
/// its statements.
const BYTES_MAX: usize = 256 * 1024;
/// Largest difference of the work per call, in percent.
const WORK_MAX: usize = 10;
const COUNTED: usize = 20;

#[test]
fn calls_leave_nothing_behind() {
    rig::run(async |rig| {
        rig.make(&mix(WARM_UP)).await;
        tokio::time::sleep(PAUSE).await;
        rig.make(&mix(FEW)).await;
        let first = look(rig).await;
        let mut made = 0;
        for calls in LOOKS {
            rig.make(&mix(calls - made)).await;
            made = calls;
            let now = look(rig).await;
            report(calls, &first, &now);
            compare(calls, &first, &now);
        }
    });
}

/// The state of the gateway at one moment: the memory it holds, and the work of its next calls.
struct Look {
    live: Live,
    work: Vec<(&'static str, Work)>,
}

async fn look(rig: &mut Rig) -> Look {
    rig.flush().await;
    let live = Live::now();
    let mut work = Vec::new();
    for call in CALLS.iter().filter(|call| is_frequent(call)) {
        let mut counts = Vec::new();
        for _ in 0..COUNTED {
            counts.push(rig.count(call).await);
            rig.flush().await;
        }
        work.push((call.name, Work::median(&counts)));
    }
    Look { live, work }
}

/// Prints the figures, which a test runner shows only after a failure.
fn report(calls: usize, first: &Look, now: &Look) {
    println!("after {calls} calls: {:?} {:?}\nat first: {:?} {:?}", now.live, now.work, first.live, first.work);
}

fn compare(calls: usize, first: &Look, now: &Look) {
    let (before, after) = (first.live, now.live);
    assert!(
        after.allocations <= before.allocations + ALLOCATIONS_MAX && after.bytes <= before.bytes + BYTES_MAX,
        "after {calls} calls, something keeps memory of finished calls: from {before:?} to {after:?}. Find the table \
         that grows, and remove entries when their call ends"
    );
    for ((name, before), (_, after)) in first.work.iter().zip(&now.work) {
        let is_close = |before: usize, after: usize| before.abs_diff(after) * 100 <= before * WORK_MAX;
        assert!(
            is_close(before.allocations, after.allocations) && is_close(before.bytes, after.bytes),
            "after {calls} calls, {name} does other work than at first: from {before:?} to {after:?}"
        );
    }
}

/// Mostly reads over both transports, and some of every other kind.
fn mix(calls: usize) -> Vec<&'static Call> {
    static MIX: [Call; 6] = CALLS;
    let frequent: Vec<&Call> = MIX.iter().filter(|call| is_frequent(call)).collect();
    let pick = |number: usize| match number % 200 {
        0 => &MIX[number / 200 % MIX.len()],
        _ => frequent[number % frequent.len()],
    };
    (0..calls).map(pick).collect()
}

fn is_frequent(call: &Call) -> bool {
    matches!(call.name, "http_read" | "stdio_read")
}
