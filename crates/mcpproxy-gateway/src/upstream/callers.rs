//! Whose calls are open on an HTTP link with sessions, where a server may speak beside the answers.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::back::Back;

/// What a server says beside an answer may arrive a little after it.
const LINGER: Duration = Duration::from_secs(1);

#[derive(Default)]
pub(crate) struct Callers {
    open: Mutex<Vec<Caller>>,
}

struct Caller {
    id: u64,
    back: Back,
    ended: Option<Instant>,
}

impl Callers {
    pub(crate) fn begin(&self, id: u64, back: Back) {
        self.table().push(Caller { id, back, ended: None });
    }

    pub(crate) fn end(&self, id: u64) {
        let mut table = self.table();
        if let Some(caller) = table.iter_mut().find(|caller| caller.id == id) {
            caller.ended = Some(Instant::now());
        }
        table.retain(|caller| caller.ended.is_none_or(|ended| ended.elapsed() < LINGER));
    }

    /// The one whose call is open, or was just now. In doubt nobody: an agent must not hear what belongs to another.
    pub(crate) fn sole(&self) -> Option<Back> {
        let table = self.table();
        let mut open = table.iter().filter(|caller| caller.ended.is_none());
        if let Some(caller) = open.next() {
            return open.next().is_none().then(|| caller.back.clone());
        }
        let recent = || table.iter().filter(|caller| caller.ended.is_some_and(|ended| ended.elapsed() < LINGER));
        let last = recent().max_by_key(|caller| caller.ended)?;
        recent().all(|caller| caller.back.is_same_agent(&last.back)).then(|| last.back.clone())
    }

    fn table(&self) -> MutexGuard<'_, Vec<Caller>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
