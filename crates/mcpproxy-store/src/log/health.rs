//! The health of the log: failing means that nothing is recorded, so nothing is sent.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

use crate::StoreError;
use crate::error::with_causes;

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Health {
    Well,
    /// Nothing can be recorded, so nothing is sent.
    Failing {
        since_ms: i64,
        reason: String,
    },
}

/// The last state that the writer reported. Every call reads it, so reading is a single atomic load.
#[derive(Default)]
pub(crate) struct Pulse {
    is_failing: AtomicBool,
    failure: Mutex<Option<(i64, String)>>,
}

impl Pulse {
    pub(crate) fn is_failing(&self) -> bool {
        self.is_failing.load(Ordering::Relaxed)
    }

    pub(crate) fn health(&self) -> Health {
        match &*self.failure.lock().unwrap_or_else(PoisonError::into_inner) {
            Some((since_ms, reason)) => Health::Failing { since_ms: *since_ms, reason: reason.clone() },
            None => Health::Well,
        }
    }

    /// Returns `true` if the state has changed.
    pub(crate) fn fail(&self, error: &StoreError, now_ms: i64) -> bool {
        let mut failure = self.failure.lock().unwrap_or_else(PoisonError::into_inner);
        let since_ms = failure.as_ref().map_or(now_ms, |(since_ms, _)| *since_ms);
        *failure = Some((since_ms, with_causes(error)));
        !self.is_failing.swap(true, Ordering::Relaxed)
    }

    /// Returns `true` if the state has changed.
    pub(crate) fn recover(&self) -> bool {
        if !self.is_failing() {
            return false;
        }
        *self.failure.lock().unwrap_or_else(PoisonError::into_inner) = None;
        self.is_failing.swap(false, Ordering::Relaxed)
    }
}
