//! Tests for verifications that continue the last one: when they may, and what they find.

#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "a test that cannot go on should stop")]

#[macro_use]
#[path = "../common/mod.rs"]
mod common;
mod reading;
mod state;
mod tampering;
mod witnesses;

use std::fs;
use std::path::PathBuf;

use common::tampering::write;
use common::{Place, key, refusal};
use mcpproxy_store::{
    Checkpoint, DamageKind, FullReason, Progress, Store, VERIFIED_FILE, VerifiedLog, VerifyExtent, VerifyOptions,
    VerifyRun, WaitFor,
};

const DAY_MS: i64 = 24 * 60 * 60 * 1000;
const NOW_MS: i64 = 1_800_000_000_000;

/// The data folder and its log.
struct Log<'p> {
    place: &'p Place,
    store: Store,
}

/// A verification.
struct Run {
    now_ms: i64,
    extent: VerifyExtent,
    checkpoints: PathBuf,
    small_lines: i64,
}

impl<'p> Log<'p> {
    /// A log of ten lines, verified in full.
    async fn verified(place: &'p Place) -> Self {
        let log = Self { place, store: write(place).await };
        let found = log.verify().await;
        assert_eq!(
            (found.full.clone(), found.last_full_ms, found.not_kept.clone()),
            (Some(FullReason::NoState), Some(NOW_MS), None)
        );
        assert!(found.is_intact() && log.file().exists());
        log
    }

    fn file(&self) -> PathBuf {
        self.place.folder.path().join(VERIFIED_FILE)
    }

    fn run(&self) -> Run {
        let checkpoints = self.place.newest_checkpoint();
        Run { now_ms: NOW_MS, extent: VerifyExtent::SinceLast, checkpoints, small_lines: 0 }
    }

    async fn verify(&self) -> VerifiedLog {
        self.verify_as(self.run()).await
    }

    async fn verify_as(&self, run: Run) -> VerifiedLog {
        self.verify_watched(run, &mut |_| {}).await
    }

    async fn verify_watched(&self, run: Run, progress: &mut (dyn FnMut(Progress) + Send)) -> VerifiedLog {
        let checkpoints = Checkpoint::notes(&fs::read_to_string(&run.checkpoints).unwrap());
        let evidence = VerifyOptions { checkpoints, trusted: vec![key(1).verifier().clone()] };
        let Run { now_ms, extent, small_lines, .. } = run;
        let run = VerifyRun { evidence, file: Some(self.file()), extent, now_ms, small_lines };
        self.store.verify_log(run, progress).await.unwrap()
    }

    /// Ends the call that is open, and adds refusals. All of it is signed.
    async fn extend(&self, numbers: std::ops::Range<u32>) {
        let ledger = self.place.ledger(&self.store).await;
        for n in numbers {
            ledger.append(refusal(n), WaitFor::Disk).await.unwrap();
        }
        ledger.finish().await.unwrap();
    }

    async fn end(&self) -> i64 {
        self.store.chains().await.unwrap()[0].lines
    }

    /// Replaces a part of the state.
    fn edit(&self, from: &str, to: &str) {
        let text = fs::read_to_string(self.file()).unwrap();
        assert!(text.contains(from), "{from} is not in {text}");
        fs::write(self.file(), text.replace(from, to)).unwrap();
    }
}

fn damage(found: &VerifiedLog) -> Option<(i64, DamageKind)> {
    found.chains.iter().find_map(|chain| chain.damage.clone()).map(|damage| (damage.seq, damage.what))
}
