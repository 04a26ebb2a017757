//! The state of the log for work that can wait, such as the search index.

use super::Ledger;
use crate::log::disk::Room;

impl Ledger {
    /// Tells if the log can be written. A full database counts as one that can: ends are written, and rows removed.
    pub(crate) fn is_writable(&self) -> bool {
        !self.shared.pulse.is_failing()
    }

    /// Returns the room that `limits.disk` leaves.
    pub(crate) fn room(&self) -> Room {
        self.shared.disk.room()
    }
}
