//! The room that `limits.disk` leaves for the log.
//!
//! | used | the log |
//! |---|---|
//! | up to 80 % | accepts everything |
//! | from 80 % | accepts everything, and warns once |
//! | from the reserve on | refuses new records, and still ends open ones |
//!
//! A call that was sent must get its end in the log, so the last part of the limit is a *reserve* for ends. While the
//! reserve is in use, ends are written without the text of their results, and then each takes about a kilobyte.
//!
//! Used space is the number of pages with content, not the size of the file: SQLite keeps the pages of removed rows in the
//! file and fills them again. So retention makes room, although the file does not shrink.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use crate::{Health, StoreError};

const MIB: u64 = 1024 * 1024;
/// The smallest reserve: room for the ends of some thousand calls.
const RESERVE_MIN_BYTES: u64 = 8 * MIB;
/// The reserve of a large limit, as a part of it.
const RESERVE_PART: u64 = 20;
const WARN_PERCENT: u64 = 80;
/// No limit.
const UNLIMITED: u64 = u64::MAX;

/// The limit, and what the last measurement found. Every call reads `used`, so that is a single atomic load.
pub(crate) struct DiskRoom {
    limit: AtomicU64,
    used: AtomicU64,
    told: Mutex<Told>,
}

/// The state that the operator was told last.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Told {
    Enough,
    Scarce,
    Full { since_ms: i64 },
}

/// The room that is left, for work that can wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Room {
    Enough,
    /// From 80 % on.
    Scarce,
    /// New records are refused.
    Full,
}

impl Default for DiskRoom {
    fn default() -> Self {
        Self { limit: AtomicU64::new(UNLIMITED), used: AtomicU64::new(0), told: Mutex::new(Told::Enough) }
    }
}

impl DiskRoom {
    pub(crate) fn set_limit(&self, bytes: u64) {
        self.limit.store(bytes, Ordering::Relaxed);
    }

    pub(crate) fn is_limited(&self) -> bool {
        self.limit.load(Ordering::Relaxed) != UNLIMITED
    }

    /// Tells if only ends may be written.
    pub(crate) fn is_full(&self) -> bool {
        self.used.load(Ordering::Relaxed) >= begin_of_reserve(self.limit.load(Ordering::Relaxed))
    }

    /// Takes over a measurement, and tells the operator about a change.
    pub(crate) fn measured(&self, used: u64, now_ms: i64) {
        self.used.store(used, Ordering::Relaxed);
        let limit = self.limit.load(Ordering::Relaxed);
        let mut told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
        let is_scarce = used / 100 >= limit / 100 / 100 * WARN_PERCENT;
        let now = match *told {
            Told::Full { since_ms } if self.is_full() => Told::Full { since_ms },
            Told::Enough | Told::Scarce if self.is_full() => Told::Full { since_ms: now_ms },
            Told::Enough | Told::Scarce | Told::Full { .. } if is_scarce => Told::Scarce,
            Told::Enough | Told::Scarce | Told::Full { .. } => Told::Enough,
        };
        let (used_mib, limit_mib) = (used / MIB, limit / MIB);
        match (*told, now) {
            (Told::Enough, Told::Scarce) => {
                tracing::warn!("the database uses {used_mib} MiB of the {limit_mib} MiB that `limits.disk` allows");
            }
            (Told::Enough | Told::Scarce, Told::Full { .. }) => {
                tracing::error!("the database has reached `limits.disk` ({limit_mib} MiB); calls are refused");
            }
            (Told::Full { .. }, Told::Enough | Told::Scarce) => {
                tracing::info!("the database has room again");
            }
            (Told::Enough | Told::Scarce, Told::Enough) | (Told::Scarce, Told::Scarce) => {}
            (Told::Full { .. }, Told::Full { .. }) => {}
        }
        *told = now;
    }

    /// A full database makes the log unavailable.
    pub(crate) fn health(&self) -> Health {
        match *self.told.lock().unwrap_or_else(PoisonError::into_inner) {
            Told::Enough | Told::Scarce => Health::Well,
            Told::Full { since_ms } => Health::Failing { since_ms, reason: StoreError::DiskLimit.to_string() },
        }
    }

    /// Tells how much the search index may take. What it takes must not be missing for records.
    pub(crate) fn room(&self) -> Room {
        match *self.told.lock().unwrap_or_else(PoisonError::into_inner) {
            Told::Enough => Room::Enough,
            Told::Scarce => Room::Scarce,
            Told::Full { .. } => Room::Full,
        }
    }
}

fn begin_of_reserve(limit: u64) -> u64 {
    match limit {
        UNLIMITED => UNLIMITED,
        // Not zero, which is what nobody has measured.
        limit => limit.saturating_sub((limit / RESERVE_PART).max(RESERVE_MIN_BYTES)).max(1),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_reserve_begins_before_the_limit() {
        let room = DiskRoom::default();
        room.measured(u64::MAX - 1, 1);
        assert!(!room.is_full(), "without a limit");
        room.set_limit(100 * MIB);
        let check = |used_mib: u64, told: Told, is_full: bool| {
            room.measured(used_mib * MIB, 7);
            assert_eq!((*room.told.lock().unwrap(), room.is_full()), (told, is_full), "{used_mib} MiB");
            assert_eq!(room.health() == Health::Well, !is_full);
        };
        check(79, Told::Enough, false);
        check(81, Told::Scarce, false);
        check(92, Told::Full { since_ms: 7 }, true);
        check(91, Told::Scarce, false);
        check(10, Told::Enough, false);
        assert_eq!(
            begin_of_reserve(1024 * 1024 * MIB),
            1024 * 1024 * MIB / 20 * 19 + 16,
            "a twentieth of a large limit"
        );
    }
}
