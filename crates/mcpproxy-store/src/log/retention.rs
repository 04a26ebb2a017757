//! Retention: removes expired payloads and records in small steps, so that no call waits long for one.
//!
//! The settings limit three things: the age of payloads, the total size of payloads, and the age of records. Every ten
//! minutes a *round* begins and computes one cutoff key for payloads and one for records. A key starts with the time,
//! so "older than" is a range of primary keys. Then each step removes at most 500 rows. The writer runs a step when it
//! is idle, or after a commit if a step is late, because a busy gateway must remove records, too.
//!
//! With PostgreSQL, payloads and records go as whole partitions, and a step drops one of them. Rows in a partition that has
//! expired in part stay until they are a tenth older, or a tenth more (`partitions.rs`).
//!
//! Payloads are separate from the chain, so removing them breaks nothing. Records are removed from the start of the
//! chain only, with a signed removal (`removal.rs`). A call that has not ended stops the removal, and so does the
//! newest record, which holds the end of the chain.

use std::time::Duration;

use mcpproxy_core::settings::Retention;
use tokio::time::Instant;

use super::partitions;
use crate::error::with_causes;
use crate::log::keeper::RoundWaiter;
use crate::log::sql::{More, RecordWriter};
use crate::log::tally::HOUR_MS;
use crate::record::id::Key;
use crate::sql::Dialect;
use crate::{SigningKey, StoreError};

const PAUSE: Duration = Duration::from_secs(600);
/// The pause between two steps of a round.
const STEP_PAUSE: Duration = Duration::from_millis(50);
/// A step that is this late runs even while calls are coming in.
const LATE: Duration = Duration::from_millis(250);
const FIRST: Duration = Duration::from_secs(2);

pub(crate) struct Retainer {
    retention: Retention,
    due: Instant,
    /// `None` between two rounds.
    round: Option<Round>,
    /// Callers that wait for this round. There are as many as callers of `Ledger::remove_expired`.
    waiters: Vec<RoundWaiter>,
}

/// Cutoffs of one round: everything before these keys is removed.
#[derive(Clone, Copy)]
struct Round {
    /// Whole partitions of payloads. `None` with SQLite, and after the last one that can go.
    partitions: Option<Key>,
    /// Payloads, row by row.
    payloads: Option<Key>,
    /// The same for records.
    record_partitions: Option<Key>,
    records: Option<Key>,
}

/// Rows that are kept beyond the settings, because they may soon go as a whole partition.
#[derive(Clone, Copy)]
enum Spare {
    Nothing,
    Tenth,
}

impl Retainer {
    pub(crate) fn new(retention: Retention) -> Self {
        Self { retention, due: Instant::now() + FIRST, round: None, waiters: Vec::new() }
    }

    pub(crate) fn due(&self) -> Instant {
        self.due
    }

    pub(crate) fn is_late(&self) -> bool {
        self.due.elapsed() >= LATE
    }

    /// Begins a new round as soon as possible. The waiter is answered when it is over, and dropped if it fails.
    pub(crate) fn hurry(&mut self, waiter: RoundWaiter) {
        self.waiters.push(waiter);
        self.round = None;
        self.due = Instant::now();
    }

    /// Creates the partitions that the first records need.
    pub(crate) async fn prepare(&self, database: &mut RecordWriter, now_ms: i64) -> Result<(), StoreError> {
        let sizes = sizes(&self.retention, database).await?;
        create_partitions(&self.retention, &sizes, database, now_ms).await;
        Ok(())
    }

    pub(crate) async fn step(&mut self, database: &mut RecordWriter, key: &SigningKey, now_ms: i64) {
        let more = self.remove_some(database, key, now_ms).await.unwrap_or_else(|error| {
            tracing::warn!(error = with_causes(&error), "could not remove old records");
            self.waiters.clear();
            More::No
        });
        let pause = match more {
            More::Yes if self.waiters.is_empty() => STEP_PAUSE,
            More::Yes => Duration::ZERO,
            More::No => PAUSE,
        };
        self.due = Instant::now() + pause;
        if more == More::No {
            self.round = None;
            // A caller that has left needs no answer.
            for waiter in self.waiters.drain(..) {
                let _left = waiter.send(());
            }
        }
    }

    async fn remove_some(
        &mut self,
        database: &mut RecordWriter,
        key: &SigningKey,
        now_ms: i64,
    ) -> Result<More, StoreError> {
        let mut round = match self.round {
            Some(round) => round,
            None => Round::begin(&self.retention, database, now_ms).await?,
        };
        let more = round.remove_some(database, key, now_ms).await;
        self.round = Some(round);
        more
    }
}

impl Round {
    async fn begin(retention: &Retention, database: &mut RecordWriter, now_ms: i64) -> Result<Self, StoreError> {
        let sizes = sizes(retention, database).await?;
        create_partitions(retention, &sizes, database, now_ms).await;
        let payloads = |spare| payload_cutoff(retention, &sizes, spare, now_ms);
        let records = |spare| retention.records.map(|age| before(spared(age, spare), now_ms));
        Ok(match database.dialect() {
            Dialect::Sqlite => Self {
                partitions: None,
                payloads: payloads(Spare::Nothing),
                record_partitions: None,
                records: records(Spare::Nothing),
            },
            Dialect::Postgres => Self {
                partitions: payloads(Spare::Nothing),
                payloads: payloads(Spare::Tenth),
                record_partitions: records(Spare::Nothing),
                records: records(Spare::Tenth),
            },
        })
    }

    /// Payloads first: they take most of the space.
    async fn remove_some(
        &mut self,
        database: &mut RecordWriter,
        key: &SigningKey,
        now_ms: i64,
    ) -> Result<More, StoreError> {
        // Not again in this round if there are no more, or if the next one is in use.
        if let Some(before) = self.partitions.take()
            && database.drop_partition(before).await? == More::Yes
        {
            self.partitions = Some(before);
            return Ok(More::Yes);
        }
        if let Some(before) = self.payloads
            && database.remove_payloads(before).await? == More::Yes
        {
            return Ok(More::Yes);
        }
        if let Some(before) = self.record_partitions.take()
            && database.drop_record_partition(before, key, now_ms).await? == More::Yes
        {
            self.record_partitions = Some(before);
            return Ok(More::Yes);
        }
        match self.records {
            Some(before) => database.remove_records(before, key, now_ms).await,
            None => Ok(More::No),
        }
    }
}

/// The bytes of payloads of each hour, newest first, if their total is limited.
async fn sizes(retention: &Retention, database: &mut RecordWriter) -> Result<Vec<(i64, u64)>, StoreError> {
    match retention.payload_bytes {
        Some(_) => database.payload_bytes_by_hour().await,
        None => Ok(Vec::new()),
    }
}

/// A failure is only logged. Payloads without a partition go to the default one, and records to the last one.
async fn create_partitions(retention: &Retention, sizes: &[(i64, u64)], database: &mut RecordWriter, now_ms: i64) {
    let width = partitions::width(retention, sizes, now_ms.div_euclid(HOUR_MS));
    if let Err(error) = database.create_partitions(width, now_ms).await {
        tracing::warn!(error = with_causes(&error), "could not create partitions of payloads");
    }
    if let Err(error) = database.create_record_partitions(partitions::record_width(retention), now_ms).await {
        tracing::warn!(error = with_causes(&error), "could not create partitions of records");
    }
}

fn payload_cutoff(retention: &Retention, sizes: &[(i64, u64)], spare: Spare, now_ms: i64) -> Option<Key> {
    let (age, max_bytes) = (retention.payloads, retention.payload_bytes);
    let (age, max_bytes) = match spare {
        Spare::Nothing => (age, max_bytes),
        Spare::Tenth => {
            (age.map(|age| spared(age, spare)), max_bytes.map(|max_bytes| max_bytes.saturating_add(max_bytes / 10)))
        }
    };
    let by_size = max_bytes.and_then(|max_bytes| cutoff_for_bytes(sizes, max_bytes, now_ms));
    age.map(|age| before(age, now_ms)).max(by_size)
}

fn spared(age: Duration, spare: Spare) -> Duration {
    match spare {
        Spare::Nothing => age,
        Spare::Tenth => age.saturating_add(age / 10),
    }
}

fn before(age: Duration, now_ms: i64) -> Key {
    Key::at(now_ms.saturating_sub(i64::try_from(age.as_millis()).unwrap_or(i64::MAX)))
}

/// The cutoff that leaves about `max_bytes`. `hours` are ordered newest first. Within the hour that exceeds the limit,
/// bytes are assumed to have arrived evenly.
fn cutoff_for_bytes(hours: &[(i64, u64)], max_bytes: u64, now_ms: i64) -> Option<Key> {
    let mut left = max_bytes;
    for (hour, bytes) in hours {
        if *bytes > left {
            let begin_ms = hour * HOUR_MS;
            let length_ms = (now_ms - begin_ms).clamp(1, HOUR_MS);
            let removed = i128::from(*bytes - left) * i128::from(length_ms) / i128::from(*bytes);
            return Some(Key::at(begin_ms + i64::try_from(removed).unwrap_or(length_ms)));
        }
        left -= bytes;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_bytes_are_removed_first() {
        let now_ms = 100 * HOUR_MS + HOUR_MS / 2;
        let check = |hours: &[(i64, u64)], max_bytes: u64, expected_ms: Option<i64>| {
            assert_eq!(cutoff_for_bytes(hours, max_bytes, now_ms), expected_ms.map(Key::at), "{hours:?} {max_bytes}");
        };
        check(&[], 0, None);
        check(&[(100, 50), (99, 50)], 100, None);
        check(&[(100, 50), (99, 50)], 99, Some(99 * HOUR_MS + HOUR_MS / 50));
        check(&[(100, 50), (99, 50)], 50, Some(100 * HOUR_MS));
        check(&[(100, 50), (99, 50)], 25, Some(100 * HOUR_MS + HOUR_MS / 4));
        check(&[(100, 50), (99, 50)], 0, Some(now_ms));
    }
}
