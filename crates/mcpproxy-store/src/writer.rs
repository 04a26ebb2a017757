//! The writer: one task that turns whatever has queued up into one commit.

use std::sync::Arc;
use std::time::Duration;

use crate::queue::{Change, Intake, Operation, Queue, Stage};
use crate::sql::RecordWriter;
use crate::{Outcome, StoreError};

const PAUSE_FIRST: Duration = Duration::from_millis(50);
const PAUSE_MAX: Duration = Duration::from_secs(5);
/// When the store is closed, a log that does not recover is given up.
const LAST_TRIES: u32 = 3;

/// Runs until the queue is closed and everything in it is written, or cannot be.
pub(crate) async fn run(queue: Arc<Queue>, mut database: RecordWriter) -> Result<(), StoreError> {
    let mut kept: Vec<Operation> = Vec::new();
    let mut pause = None;
    let mut last_tries = 0;
    loop {
        // What is left over from a success is written at once; after a failure there is a pause.
        let intake = if kept.is_empty() || pause.is_some() { queue.ready(pause).await } else { queue.intake() };
        let mut batch = kept;
        batch.append(&mut queue.take());
        drop_abandoned(&queue, &mut batch);
        if batch.is_empty() {
            if intake == Intake::Closed {
                return database.close().await;
            }
            (kept, pause) = (batch, None);
            continue;
        }
        match database.write(batch.iter().map(|operation| &operation.change)).await {
            Ok(()) => {
                if pause.take().is_some() {
                    tracing::info!(records = batch.len(), "the activity log can be written again");
                }
                kept = acknowledge(&queue, batch);
            }
            Err(error) => {
                if pause.is_none() {
                    tracing::error!(error = chain(&error), "the activity log cannot be written; trying again");
                }
                kept = refuse(&queue, batch, &error);
                pause = Some(pause.map_or(PAUSE_FIRST, |pause: Duration| (pause * 2).min(PAUSE_MAX)));
                if intake == Intake::Closed {
                    last_tries += 1;
                }
                if last_tries == LAST_TRIES {
                    return Err(error);
                }
            }
        }
    }
}

/// Beginnings of calls whose caller has left before they were written: these calls will not be sent.
fn drop_abandoned(queue: &Queue, batch: &mut Vec<Operation>) {
    batch.retain(|operation| {
        let abandoned = operation.begins() && operation.waiter.as_ref().is_some_and(|waiter| waiter.is_closed());
        if abandoned {
            queue.give_room(operation.room);
        }
        !abandoned
    });
}

/// Tells all who wait, and returns what is still to be written.
fn acknowledge(queue: &Queue, batch: Vec<Operation>) -> Vec<Operation> {
    let mut kept = Vec::new();
    for operation in batch {
        queue.give_room(operation.room);
        let begins = operation.begins();
        let told = operation.waiter.is_none_or(|waiter| waiter.send(Ok(())).is_ok());
        // The caller left while its call was being written: the call will not be sent, and the log should say so.
        if let (false, true, Change::Insert(row)) = (told, begins, operation.change) {
            let change = Change::Close(row.record.id, Outcome::cancelled());
            kept.push(Operation { change, waiter: None, room: 0 });
        }
    }
    kept
}

/// Tells all who wait that it failed. A call whose caller was told so will not be sent, and its record is dropped;
/// everything else did happen, and is kept.
fn refuse(queue: &Queue, batch: Vec<Operation>, error: &StoreError) -> Vec<Operation> {
    let mut kept = Vec::with_capacity(batch.len());
    for mut operation in batch {
        let begins = operation.begins();
        match operation.waiter.take() {
            None => kept.push(operation),
            Some(waiter) => {
                // Who has left needs no answer.
                let _left = waiter.send(Err(error.clone()));
                if begins {
                    queue.give_room(operation.room);
                } else {
                    kept.push(operation);
                }
            }
        }
    }
    kept
}

impl Operation {
    fn begins(&self) -> bool {
        matches!(&self.change, Change::Insert(row) if row.stage == Stage::Begun)
    }
}

fn chain(error: &dyn std::error::Error) -> String {
    let causes = std::iter::successors(error.source(), |cause| cause.source());
    causes.fold(error.to_string(), |text, cause| format!("{text}: {cause}"))
}
