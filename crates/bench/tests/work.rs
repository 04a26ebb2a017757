//! Compares the work of typical calls with `work.txt`: how often they allocate, and how many bytes.
//!
//! A count does not depend on the speed of the machine, so a change of a few percent is visible. Time is not: it varies
//! by more than that from run to run. Allocations stand for the work as a whole, because text that is copied or parsed
//! once more is allocated once more. They do not show a loop over a table that grows; `growth.rs` covers that.
//!
//! A read and a refusal return when their record is in the queue. The writer's work comes later, and its share per call
//! depends on how many calls share a commit. `log_100_records` counts it, for 100 records in one commit.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test that cannot go on has failed"
)]

mod expected;
#[allow(dead_code, unused_imports, reason = "the other tests use the rest")]
mod rig;

use expected::Figures;
use rig::{CALLS, Work};

const WARM_UP: usize = 20;
const COUNTED: usize = 60;
const BATCH: usize = 100;
const BATCHES: usize = 9;

#[test]
fn calls_do_as_much_work_as_expected() {
    let mut found = Figures::new();
    rig::run(async |rig| {
        for call in &CALLS {
            let mut counts = Vec::new();
            for _ in 0..WARM_UP + COUNTED {
                counts.push(rig.count(call).await);
                rig.flush().await;
            }
            found.push((call.name.to_owned(), Work::median(&counts[WARM_UP..])));
        }
        // The same as `http_read`, for an agent of an identity provider. Its token is checked once.
        rig.use_access_token().await;
        let mut counts = Vec::new();
        for _ in 0..WARM_UP + COUNTED {
            counts.push(rig.count(&CALLS[0]).await);
            rig.flush().await;
        }
        found.push((format!("{}_oauth", CALLS[0].name), Work::median(&counts[WARM_UP..])));
        let mut counts = Vec::new();
        for _ in 0..BATCHES {
            counts.push(rig.count_records(BATCH).await);
        }
        found.push((format!("log_{BATCH}_records"), Work::median(&counts)));
    });
    expected::compare(&found);
}
