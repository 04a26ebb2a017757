//! Retention: removes expired payloads and records in small steps, so that no call waits long for one.
//!
//! The settings limit three things: the age of payloads, the total size of payloads, and the age of records. Every ten
//! minutes a *round* begins and computes one cutoff key for payloads and one for records. A key starts with the time,
//! so "older than" is a range of primary keys. Then each step removes at most 500 rows. The writer runs a step when it
//! is idle, or after a commit if a step is late, because a busy gateway must remove records, too.
//!
//! Payloads are separate from the chain, so removing them breaks nothing. Records are removed from the start of the
//! chain only, with a signed removal (`removal.rs`). A call that has not ended stops the removal, and so does the
//! newest record, which holds the end of the chain.

use std::time::Duration;

use mcpproxy_core::settings::Retention;
use tokio::time::Instant;

use crate::error::with_causes;
use crate::log::sql::{More, RecordWriter};
use crate::log::tally::HOUR_MS;
use crate::record::id::Key;
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
}

/// Cutoffs of one round: everything before these keys is removed.
#[derive(Clone, Copy)]
pub(crate) struct Round {
    pub(crate) payloads: Option<Key>,
    pub(crate) records: Option<Key>,
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
            tracing::warn!(error = with_causes(&error), "could not remove old records");
            More::No
        });
        if more == More::No {
            self.round = None;
        }
        self.due = Instant::now() + if more == More::Yes { STEP_PAUSE } else { PAUSE };
    }

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

    /// Payloads first: they take most of the space.
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
