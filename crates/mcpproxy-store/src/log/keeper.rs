//! What the writer does between batches: it signs checkpoints, and removes what is kept long enough.

use std::path::PathBuf;
use std::time::Duration;

use tokio::time::Instant;

use crate::log::copies::Copies;
use crate::log::retention::Retainer;
use crate::log::sql::RecordWriter;
use crate::{Checkpoint, SigningKey};

const CHECKPOINT_LINES: i64 = 1000;
const CHECKPOINT_PAUSE: Duration = Duration::from_secs(60);

pub(crate) struct Keeper {
    key: SigningKey,
    copies: Copies,
    retainer: Retainer,
    signed_seq: i64,
    signed_at: Instant,
}

impl Keeper {
    pub(crate) fn new(key: SigningKey, copies: Copies, retainer: Retainer, signed_seq: i64) -> Self {
        Self { key, copies, retainer, signed_seq, signed_at: Instant::now() }
    }

    /// When there is something to do even if nothing is written.
    pub(crate) fn due(&self, database: &RecordWriter) -> Instant {
        let is_signed = database.head().seq <= self.signed_seq;
        let signing = if is_signed { None } else { Some(self.signed_at + CHECKPOINT_PAUSE) };
        signing.map_or(self.retainer.due(), |signing| signing.min(self.retainer.due()))
    }

    pub(crate) async fn after_commit(&mut self, database: &mut RecordWriter, now_ms: i64) {
        let unsigned = database.head().seq - self.signed_seq;
        if unsigned >= CHECKPOINT_LINES || (unsigned > 0 && self.signed_at.elapsed() >= CHECKPOINT_PAUSE) {
            self.sign(database, now_ms).await;
        }
        // A gateway that is never idle must remove things, too.
        if self.retainer.is_late() {
            self.retainer.step(database, &self.key, now_ms).await;
        }
    }

    pub(crate) async fn when_idle(&mut self, database: &mut RecordWriter, now_ms: i64) {
        if database.head().seq > self.signed_seq && self.signed_at.elapsed() >= CHECKPOINT_PAUSE {
            self.sign(database, now_ms).await;
        }
        if self.retainer.due() <= Instant::now() {
            self.retainer.step(database, &self.key, now_ms).await;
        }
    }

    /// At the end, everything that was written is signed.
    pub(crate) async fn last(&mut self, database: &mut RecordWriter, now_ms: i64) {
        if database.head().seq > self.signed_seq {
            self.sign(database, now_ms).await;
        }
        self.copies.finish().await;
    }

    /// A checkpoint that cannot be written is made again later: it says nothing that the next one does not.
    async fn sign(&mut self, database: &mut RecordWriter, now_ms: i64) {
        let head = *database.head();
        let note = Checkpoint::sign(&self.key, head.seq, &head.hash, now_ms);
        self.signed_at = Instant::now();
        match database.write_checkpoint(head.seq, &note).await {
            Ok(()) => {
                self.signed_seq = head.seq;
                self.copies.send(note);
            }
            Err(error) => tracing::warn!(error = crate::log::health::chain(&error), "could not write a checkpoint"),
        }
    }
}

/// Where checkpoints are copied to.
#[derive(Clone, Debug, Default)]
pub(crate) struct CopyPaths {
    /// Holds the newest alone.
    pub(crate) newest: Option<PathBuf>,
    /// Holds all, one after the other.
    pub(crate) all: Option<PathBuf>,
}
