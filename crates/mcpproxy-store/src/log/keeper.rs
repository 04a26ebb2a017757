//! The keeper: work between two batches. It signs checkpoints, lets retention remove expired records, and moves counts
//! into series.
//!
//! It runs in the task of the writer, because this work needs the head of the chain and the only connection that writes
//! it. A checkpoint is due after 1000 new lines, or a minute after the last one if there are new lines.
//! When the gateway stops, the keeper signs the rest, so that a clean shutdown leaves nothing unsigned.
//!
//! A failure here fails no call. The next checkpoint covers everything that a failed one would have covered.

use std::time::Duration;

use tokio::sync::oneshot;
use tokio::time::Instant;

use crate::error::with_causes;
use crate::log::copies::Copies;
use crate::log::retention::Retainer;
use crate::log::rollup::Roller;
use crate::log::sql::RecordWriter;
use crate::{Checkpoint, SigningKey};

const CHECKPOINT_LINES: i64 = 1000;
const CHECKPOINT_PAUSE: Duration = Duration::from_secs(60);

/// A round that a caller wants now. Without a caller, it begins by itself after some minutes.
pub(crate) enum RoundNow {
    Retention(RoundWaiter),
    RollUp(RoundWaiter),
}

/// Answers a caller that waits for a round.
pub(crate) type RoundWaiter = oneshot::Sender<()>;

pub(crate) struct Keeper {
    key: SigningKey,
    copies: Copies,
    retainer: Retainer,
    roller: Roller,
    signed_seq: i64,
    signed_at: Instant,
}

impl Keeper {
    pub(crate) fn new(key: SigningKey, copies: Copies, retainer: Retainer, signed_seq: i64) -> Self {
        Self { key, copies, retainer, roller: Roller::new(), signed_seq, signed_at: Instant::now() }
    }

    /// The time at which there is work even if nothing is written.
    pub(crate) fn due(&self, database: &RecordWriter) -> Instant {
        let is_signed = database.head().seq <= self.signed_seq;
        let signing = if is_signed { None } else { Some(self.signed_at + CHECKPOINT_PAUSE) };
        let due = self.retainer.due().min(self.roller.due());
        signing.map_or(due, |signing| signing.min(due))
    }

    /// Begins a round as soon as possible, and answers the waiter at its end.
    pub(crate) fn hurry(&mut self, round: RoundNow) {
        match round {
            RoundNow::Retention(waiter) => self.retainer.hurry(waiter),
            RoundNow::RollUp(waiter) => self.roller.hurry(waiter),
        }
    }

    pub(crate) async fn after_commit(&mut self, database: &mut RecordWriter, now_ms: i64) {
        let unsigned = database.head().seq - self.signed_seq;
        if unsigned >= CHECKPOINT_LINES || (unsigned > 0 && self.signed_at.elapsed() >= CHECKPOINT_PAUSE) {
            self.sign(database, now_ms).await;
        }
        // A gateway that is never idle must do this, too. One step at a time, because callers wait for it.
        if self.retainer.is_late() {
            self.retainer.step(database, &self.key, now_ms).await;
        } else if self.roller.is_late() {
            self.roller.step(database).await;
        }
    }

    pub(crate) async fn when_idle(&mut self, database: &mut RecordWriter, now_ms: i64) {
        if database.head().seq > self.signed_seq && self.signed_at.elapsed() >= CHECKPOINT_PAUSE {
            self.sign(database, now_ms).await;
        }
        if self.retainer.due() <= Instant::now() {
            self.retainer.step(database, &self.key, now_ms).await;
        } else if self.roller.due() <= Instant::now() {
            self.roller.step(database).await;
        }
    }

    /// Signs everything that is not signed yet, and waits for the copies.
    pub(crate) async fn finish(&mut self, database: &mut RecordWriter, now_ms: i64) {
        if database.head().seq > self.signed_seq {
            self.sign(database, now_ms).await;
        }
        self.copies.finish().await;
    }

    async fn sign(&mut self, database: &mut RecordWriter, now_ms: i64) {
        let head = *database.head();
        let note = Checkpoint::sign(&self.key, head.seq, &head.hash, now_ms);
        self.signed_at = Instant::now();
        match database.write_checkpoint(head.seq, &note).await {
            Ok(()) => {
                self.signed_seq = head.seq;
                self.copies.send(note);
            }
            Err(error) => tracing::warn!(error = with_causes(&error), "could not write a checkpoint"),
        }
    }
}
