//! Counts for charts: the calls of each hour by intent, and the reasons of the newest refusals.
//!
//! Calls come from the counts that are written with the records: one row for each hour and intent, and the newest ones,
//! which have not moved into series yet. Those are usually a few minutes old, and older while an update converts a log.
//! So the cost follows the number of hours, and neither that of calls nor of tools.
//! Counts have no error codes, because agents can cause many. Reasons therefore come from the records themselves, up to
//! [`REFUSALS_MAX`] of them.

use mcpproxy_core::{Untrusted, Variant};

use crate::log::tally::HOUR_MS;
use crate::{Store, StoreError};

/// The most hours that one query covers: 31 days.
const HOURS_MAX: i64 = 31 * 24;
/// The most refusals that one query reads.
pub const REFUSALS_MAX: usize = 2_000;

/// The number of calls with one intent in one hour.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HourlyCount {
    /// The first millisecond of the hour.
    pub from_ms: i64,
    pub intent: Variant,
    /// Calls that were sent and have ended. Dry runs and replayed answers are not among them.
    pub calls: u64,
    /// The calls among them that failed.
    pub failed: u64,
}

/// The number of refusals with one error code.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RefusalCount {
    pub code: Untrusted,
    pub count: u64,
}

/// The reasons of the newest refusals, the most frequent first.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RefusalCounts {
    pub reasons: Vec<RefusalCount>,
    /// The number of refusals that were read.
    pub read: u64,
    /// True if there are older refusals in this time, which were not read.
    pub is_cut: bool,
}

impl Store {
    /// Counts the calls of each hour by intent, for the hours that contain these times, both included. Hours without a call
    /// are left out. If there are more than 31 days, only the last ones are counted.
    pub async fn hourly_calls(&self, since_ms: i64, until_ms: i64) -> Result<Vec<HourlyCount>, StoreError> {
        let last = until_ms.max(0) / HOUR_MS;
        let first = (since_ms.max(0) / HOUR_MS).max(last - HOURS_MAX + 1);
        self.database().hourly_calls(first, last).await
    }

    /// Counts the newest refusals since this time by error code.
    pub async fn refusal_reasons(&self, since_ms: i64) -> Result<RefusalCounts, StoreError> {
        let reasons = self.database().refusal_reasons(since_ms.max(0), REFUSALS_MAX + 1).await?;
        let read = reasons.iter().map(|reason| reason.count).sum();
        Ok(RefusalCounts { reasons, read, is_cut: usize::try_from(read).is_ok_and(|read| read > REFUSALS_MAX) })
    }
}
