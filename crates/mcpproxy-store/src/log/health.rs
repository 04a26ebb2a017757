//! Whether the log can be written at the moment.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

use crate::StoreError;

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Health {
    Well,
    /// Nothing is recorded, so nothing is sent.
    Failing {
        since_ms: i64,
        reason: String,
    },
}

/// What the writer last saw. Asked on the way of every call, so the answer is one load.
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

    /// Returns whether this is news.
    pub(crate) fn fail(&self, error: &StoreError, now_ms: i64) -> bool {
        let mut failure = self.failure.lock().unwrap_or_else(PoisonError::into_inner);
        let since_ms = failure.as_ref().map_or(now_ms, |(since_ms, _)| *since_ms);
        *failure = Some((since_ms, chain(error)));
        !self.is_failing.swap(true, Ordering::Relaxed)
    }

    /// Returns whether this is news.
    pub(crate) fn recover(&self) -> bool {
        if !self.is_failing() {
            return false;
        }
        *self.failure.lock().unwrap_or_else(PoisonError::into_inner) = None;
        self.is_failing.swap(false, Ordering::Relaxed)
    }
}

/// An error and all its causes, as one line.
pub(crate) fn chain(error: &dyn std::error::Error) -> String {
    let causes = std::iter::successors(error.source(), |cause| cause.source());
    causes.fold(error.to_string(), |text, cause| format!("{text}: {cause}"))
}
