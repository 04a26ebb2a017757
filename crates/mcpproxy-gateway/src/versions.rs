//! The version of settings, contracts and policies that a gateway has from the database, and the news of another one.
//!
//! News is a hint: a message of the gateway at which a user published, or a connection to the database that was lost
//! meanwhile. The task that reloads files looks at the database then, and every few seconds in any case.

use std::sync::{Mutex, PoisonError};

use tokio::sync::Notify;

#[derive(Default)]
pub(crate) struct Versions {
    /// Notified when there may be a new version.
    pub(crate) news: Notify,
    in_force: Mutex<Option<i64>>,
}

impl Versions {
    pub(crate) fn set_in_force(&self, number: i64) {
        *self.in_force.lock().unwrap_or_else(PoisonError::into_inner) = Some(number);
    }

    pub(crate) fn in_force(&self) -> Option<i64> {
        *self.in_force.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
