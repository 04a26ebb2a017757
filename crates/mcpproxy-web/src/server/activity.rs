//! The state of one connection, as far as replacing and closing it is concerned.
//!
//! HTTP/1 has one request at a time, so a connection is one [`Activity`]. HTTP/2 has several, and each request has an
//! `Activity` of its own, which reports to that of its connection. So `connections.rs` asks both the same questions: is the
//! gateway waiting for bytes of the peer, since when, and was any answer a success?

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::{Duration, Instant};

/// The time in which the first request of a new connection should arrive.
const NEW_MS: u64 = 250;

/// Reasons to keep a waiting connection. The least one comes first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Worth {
    NeverUseful,
    WasUseful,
    New,
}

/// The state of a connection, as far as replacing it is concerned.
///
/// A connection of HTTP/1 has at most one request at a time, and one `Activity`. With HTTP/2, every request has its own,
/// which tells that of its connection ([`Activity::of_request`]).
pub(super) struct Activity {
    /// True from the last byte of a request to the last byte of its answer.
    is_busy: AtomicBool,
    /// True if any request was answered, so that the connection is not new.
    was_answered: AtomicBool,
    /// True if any request succeeded.
    was_useful: AtomicBool,
    /// The start of the current state, in milliseconds after `began`.
    since_ms: AtomicU64,
    /// True if the body of the current request took too long.
    is_late: AtomicBool,
    /// True if a request has two lengths. Nothing that follows can be trusted, so it stays true.
    is_ambiguous: AtomicBool,
    /// True if the connection ends with the next answer.
    is_closing: AtomicBool,
    /// The time at which HTTP/2 took a part of the answer and waits for the peer to read it, or [`NOT_WAITING`].
    handed_ms: AtomicU64,
    /// The requests of a connection of HTTP/2. The protocol limits their number.
    requests: Mutex<Vec<Weak<Activity>>>,
    /// Requests of `requests` that are busy.
    busy_requests: AtomicUsize,
    /// The connection of a request of HTTP/2.
    connection: Option<Arc<Activity>>,
    began: Instant,
}

const NOT_WAITING: u64 = u64::MAX;

/// The condition of a connection of HTTP/2.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Condition {
    InUse,
    /// No request came for too long.
    Idle,
    /// The peer has read nothing of an answer for too long.
    Stalled,
}

/// Longest times to wait for a peer of HTTP/2.
#[derive(Clone, Copy, Debug)]
pub(super) struct Patience {
    /// For the first request.
    pub(super) first: Duration,
    /// Between two requests.
    pub(super) next: Duration,
    /// For the peer to read a part of an answer.
    pub(super) write: Duration,
}

impl Activity {
    pub(super) fn new(began: Instant) -> Self {
        Self::with(None, began)
    }

    fn with(connection: Option<Arc<Self>>, began: Instant) -> Self {
        let activity = Self {
            is_busy: AtomicBool::new(false),
            was_answered: AtomicBool::new(false),
            was_useful: AtomicBool::new(false),
            since_ms: AtomicU64::new(0),
            is_late: AtomicBool::new(false),
            is_ambiguous: AtomicBool::new(false),
            is_closing: AtomicBool::new(false),
            handed_ms: AtomicU64::new(NOT_WAITING),
            requests: Mutex::default(),
            busy_requests: AtomicUsize::new(0),
            connection,
            began,
        };
        activity.touch();
        activity
    }

    /// Begins a request on a connection that can have several at a time.
    pub(super) fn of_request(connection: &Arc<Self>) -> Arc<Self> {
        let request = Arc::new(Self::with(Some(Arc::clone(connection)), connection.began));
        let mut requests = connection.requests.lock().unwrap_or_else(PoisonError::into_inner);
        requests.retain(|request| request.strong_count() > 0);
        requests.push(Arc::downgrade(&request));
        request
    }

    /// Returns true for a request of HTTP/2.
    pub(super) fn is_one_of_several(&self) -> bool {
        self.connection.is_some()
    }

    pub(super) fn is_busy(&self) -> bool {
        self.is_busy.load(Ordering::Relaxed) || self.busy_requests.load(Ordering::Relaxed) > 0
    }

    /// Returns the start of the current state, in milliseconds after the start of the table.
    pub(super) fn since_ms(&self) -> u64 {
        self.since_ms.load(Ordering::Relaxed)
    }

    #[cfg(test)]
    pub(super) fn waits_since(&self, since_ms: u64) {
        self.since_ms.store(since_ms, Ordering::Relaxed);
    }

    /// The TLS handshake is complete. The time for the first request starts now, because a handshake takes round trips.
    pub(super) fn handshake_ends(&self) {
        self.touch();
    }

    /// The head of a request has arrived.
    pub(super) fn request_begins(&self) {
        self.is_late.store(false, Ordering::Relaxed);
        self.touch();
    }

    /// The whole request has arrived.
    pub(super) fn request_is_complete(&self) {
        let was_busy = self.is_busy.swap(true, Ordering::Relaxed);
        if let Some(connection) = self.connection.as_ref().filter(|_| !was_busy) {
            connection.busy_requests.fetch_add(1, Ordering::Relaxed);
        }
    }

    pub(super) fn request_is_late(&self) {
        self.is_late.store(true, Ordering::Relaxed);
    }

    pub(super) fn is_late(&self) -> bool {
        self.is_late.load(Ordering::Relaxed)
    }

    pub(super) fn request_is_ambiguous(&self) {
        self.is_ambiguous.store(true, Ordering::Relaxed);
    }

    pub(super) fn is_ambiguous(&self) -> bool {
        self.is_ambiguous.load(Ordering::Relaxed)
    }

    /// The server stops. Tells the peer of HTTP/1 with the next answer that it must open another connection.
    pub(super) fn next_answer_is_last(&self) {
        self.is_closing.store(true, Ordering::Relaxed);
    }

    pub(super) fn is_closing(&self) -> bool {
        self.is_closing.load(Ordering::Relaxed)
    }

    /// Returns what is left of `wait`, counted from the last answer.
    pub(super) fn wait_left(&self, wait: Duration) -> Duration {
        let waited = millis(self.began.elapsed()).saturating_sub(self.since_ms());
        wait.saturating_sub(Duration::from_millis(waited))
    }

    pub(super) fn was_useful(&self) {
        self.was_useful.store(true, Ordering::Relaxed);
        if let Some(connection) = &self.connection {
            connection.was_useful();
        }
    }

    /// HTTP/2 took a part of the answer, and asks for the next one when the peer has room for it.
    pub(super) fn part_is_handed(&self) {
        self.handed_ms.store(millis(self.began.elapsed()), Ordering::Relaxed);
    }

    /// The peer has room for the next part of the answer.
    pub(super) fn part_is_wanted(&self) {
        self.handed_ms.store(NOT_WAITING, Ordering::Relaxed);
    }

    pub(super) fn answer_ends(&self) {
        self.was_answered.store(true, Ordering::Relaxed);
        self.touch();
        let was_busy = self.is_busy.swap(false, Ordering::Relaxed);
        if let Some(connection) = &self.connection {
            connection.was_answered.store(true, Ordering::Relaxed);
            if was_busy {
                connection.busy_requests.fetch_sub(1, Ordering::Relaxed);
            }
        }
    }

    /// Returns the condition of a connection of HTTP/2.
    pub(super) fn condition(&self, patience: Patience) -> Condition {
        self.condition_at(patience, millis(self.began.elapsed()))
    }

    fn condition_at(&self, patience: Patience, now_ms: u64) -> Condition {
        let requests = self.requests.lock().unwrap_or_else(PoisonError::into_inner);
        let mut open = requests.iter().filter_map(Weak::upgrade).peekable();
        if open.peek().is_none() {
            let was_answered = self.was_answered.load(Ordering::Relaxed);
            let allowed = if was_answered { patience.next } else { patience.first };
            let waited = now_ms.saturating_sub(self.since_ms.load(Ordering::Relaxed));
            return if waited >= millis(allowed) { Condition::Idle } else { Condition::InUse };
        }
        let is_stalled = |request: Arc<Self>| match request.handed_ms.load(Ordering::Relaxed) {
            NOT_WAITING => false,
            handed_ms => now_ms.saturating_sub(handed_ms) >= millis(patience.write),
        };
        if open.any(is_stalled) { Condition::Stalled } else { Condition::InUse }
    }

    pub(super) fn worth(&self, now_ms: u64) -> Worth {
        let is_young = now_ms.saturating_sub(self.since_ms()) < NEW_MS;
        if self.was_useful.load(Ordering::Relaxed) {
            Worth::WasUseful
        } else if is_young && !self.was_answered.load(Ordering::Relaxed) {
            Worth::New
        } else {
            Worth::NeverUseful
        }
    }

    fn touch(&self) {
        self.since_ms.store(millis(self.began.elapsed()), Ordering::Relaxed);
        if let Some(connection) = &self.connection {
            connection.touch();
        }
    }
}

/// A request of HTTP/2 can be reset before it has an answer. Its connection must not stay busy because of it.
impl Drop for Activity {
    fn drop(&mut self) {
        if let Some(connection) = self.connection.as_ref().filter(|_| *self.is_busy.get_mut()) {
            connection.busy_requests.fetch_sub(1, Ordering::Relaxed);
        }
    }
}

pub(super) fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn long_ago() -> Instant {
        Instant::now().checked_sub(Duration::from_secs(1000)).unwrap()
    }

    #[test]
    fn a_connection_is_new_until_its_first_answer() {
        let activity = Activity::new(long_ago());
        activity.waits_since(0);
        assert_eq!((activity.worth(NEW_MS - 1), activity.worth(NEW_MS)), (Worth::New, Worth::NeverUseful));
        activity.handshake_ends();
        let now_ms = activity.since_ms();
        assert_eq!((now_ms >= 1_000_000, activity.worth(now_ms)), (true, Worth::New), "a handshake takes its time");
        activity.answer_ends();
        assert_eq!(activity.worth(activity.since_ms()), Worth::NeverUseful, "after a refusal");
    }

    #[test]
    fn a_connection_is_busy_while_one_of_its_requests_is() {
        let connection = Arc::new(Activity::new(long_ago()));
        let (first, second) = (Activity::of_request(&connection), Activity::of_request(&connection));
        for request in [&first, &second] {
            request.request_is_complete();
            request.request_is_complete();
        }
        first.answer_ends();
        assert!(connection.is_busy());
        // The peer reset it before it was answered.
        drop(second);
        assert!(!connection.is_busy());
        first.answer_ends();
        drop(first);
        assert!(!connection.is_busy(), "the end of an answer counts once");
        Activity::of_request(&connection).was_useful();
        assert_eq!(connection.worth(0), Worth::WasUseful);
    }

    #[test]
    fn idle_and_stalled_connections() {
        let patience =
            Patience { first: Duration::from_secs(10), next: Duration::from_secs(75), write: Duration::from_secs(30) };
        let connection = Arc::new(Activity::new(long_ago()));
        let check = |now_ms: u64, expected: Condition| {
            assert_eq!(connection.condition_at(patience, now_ms), expected, "{now_ms}");
        };
        connection.since_ms.store(0, Ordering::Relaxed);
        check(9_999, Condition::InUse);
        check(10_000, Condition::Idle);
        let request = Activity::of_request(&connection);
        check(u64::MAX - 1, Condition::InUse);
        request.part_is_handed();
        request.handed_ms.store(5_000, Ordering::Relaxed);
        check(34_999, Condition::InUse);
        check(35_000, Condition::Stalled);
        request.part_is_wanted();
        check(35_000, Condition::InUse);
        request.answer_ends();
        drop(request);
        connection.since_ms.store(0, Ordering::Relaxed);
        check(74_999, Condition::InUse);
        check(75_000, Condition::Idle);
    }
}
