//! Retention: what was kept long enough is removed, a little at a time, so that no call waits for it.

use std::time::Duration;

use mcpproxy_core::settings::Retention;
use tokio::time::Instant;

use crate::log::sql::RecordWriter;
use crate::log::tally::HOUR_MS;
use crate::record::id::Key;
use crate::{SigningKey, StoreError};

const PAUSE: Duration = Duration::from_secs(600);
/// Between two steps when there is more to remove.
const STEP_PAUSE: Duration = Duration::from_millis(50);
/// So much later than it is due, a step is taken even if calls are coming in.
const LATE: Duration = Duration::from_millis(250);
const FIRST: Duration = Duration::from_secs(2);

pub(crate) struct Retainer {
    retention: Retention,
    due: Instant,
    /// What is removed in the steps of this round. None between two rounds.
    round: Option<Round>,
}

/// Everything before these goes.
#[derive(Clone, Copy)]
pub(crate) struct Round {
    pub(crate) payloads: Option<Key>,
    pub(crate) records: Option<Key>,
}

/// Whether there is more to remove.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum More {
    Yes,
    No,
}

impl Retainer {
    pub(crate) fn new(retention: Retention) -> Self {
        Self { retention, due: Instant::now() + FIRST, round: None }
    }

    pub(crate) fn due(&self) -> Instant {
        self.due
    }

    pub(crate) fn is_late(&self) -> bool {
        self.due.elapsed() >= LATE
    }

    pub(crate) async fn step(&mut self, database: &mut RecordWriter, key: &SigningKey, now_ms: i64) {
        let more = self.remove_some(database, key, now_ms).await.unwrap_or_else(|error| {
            tracing::warn!(error = crate::log::health::chain(&error), "could not remove old records");
            More::No
        });
        if more == More::No {
            self.round = None;
        }
        self.due = Instant::now() + if more == More::Yes { STEP_PAUSE } else { PAUSE };
    }

    /// One small step.
    async fn remove_some(
        &mut self,
        database: &mut RecordWriter,
        key: &SigningKey,
        now_ms: i64,
    ) -> Result<More, StoreError> {
        let round = match self.round {
            Some(round) => round,
            None => Round::begin(&self.retention, database, now_ms).await?,
        };
        self.round = Some(round);
        round.remove_some(database, key, now_ms).await
    }
}

impl Round {
    pub(crate) async fn begin(
        retention: &Retention,
        database: &mut RecordWriter,
        now_ms: i64,
    ) -> Result<Self, StoreError> {
        let before = |age: Duration| Key::at(now_ms - i64::try_from(age.as_millis()).unwrap_or(i64::MAX));
        let mut payloads = retention.payloads.map(before);
        if let Some(max_bytes) = retention.payload_bytes {
            let hours = database.payload_bytes_by_hour().await?;
            payloads = payloads.max(cutoff_for_bytes(&hours, max_bytes, now_ms));
        }
        Ok(Self { payloads, records: retention.records.map(before) })
    }

    /// Payloads first: they are what takes room.
    pub(crate) async fn remove_some(
        &self,
        database: &mut RecordWriter,
        key: &SigningKey,
        now_ms: i64,
    ) -> Result<More, StoreError> {
        if let Some(before) = self.payloads
            && database.remove_payloads(before).await? == More::Yes
        {
            return Ok(More::Yes);
        }
        match self.records {
            Some(before) => database.remove_records(before, key, now_ms).await,
            None => Ok(More::No),
        }
    }
}

/// Where to cut so that about `max_bytes` are left. `hours` come newest first; within the hour in which the limit is
/// passed, bytes are taken to have come evenly.
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
    fn the_oldest_bytes_go_first() {
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
