//! The open connections: how many there may be, and which one is closed to make room.
//!
//! Every connection takes a file descriptor, and a process that has none left can neither accept agents nor start
//! servers. So the number of connections is limited: in total, below the limit of open files, and for each peer to half of
//! that.
//!
//! A limit alone would help an attacker: whoever opens enough connections and sends half a request on each keeps everyone
//! else out. So a new connection replaces another one that is *waiting*, which means that the gateway waits for bytes of
//! its peer. Connections that never got a successful answer are replaced first, and the one that waits longest among them.
//! A flood of half requests thus replaces itself. Next come connections that are idle between two requests, which HTTP
//! clients open again by themselves. A connection whose request is complete is never replaced.
//!
//! The request of a new connection is still under way, so a connection comes last in its first moments. Otherwise an
//! attacker could fill the table with idle connections that got an answer once, and every new connection would be replaced
//! before its request arrives.
//!
//! If all connections are busy, a new one waits in the queue of the operating system. If all connections of one peer are,
//! its next one is closed.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_util::sync::CancellationToken;

use crate::peer::Peer;

/// Files for everything but connections of agents and users: servers, the database, logs.
const OTHER_FILES: u64 = 256;
/// Limits the memory of connections, however many files may be open.
const CONNECTIONS_MAX: u64 = 4096;
const CONNECTIONS_MIN: u64 = 16;
/// The time in which the first request of a new connection should arrive.
const NEW_MS: u64 = 250;
/// Pause before another attempt to make room, while all connections are busy.
const FULL_PAUSE: Duration = Duration::from_millis(50);

/// The number of connections, in total and of one peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ConnectionLimits {
    total: usize,
    of_one_peer: usize,
}

impl ConnectionLimits {
    /// Returns the limits for a process that may open this many files.
    pub fn for_open_files(files: u64) -> Self {
        let total = files.saturating_sub(OTHER_FILES).max(files / 2).clamp(CONNECTIONS_MIN, CONNECTIONS_MAX);
        let total = usize::try_from(total).unwrap_or(usize::MAX);
        Self { total, of_one_peer: total / 2 }
    }
}

/// All open connections.
pub(super) struct Connections {
    limits: ConnectionLimits,
    slots: Arc<Semaphore>,
    open: Mutex<Table>,
    began: Instant,
}

/// At most `limits.total` connections.
#[derive(Default)]
struct Table {
    next: u64,
    rows: HashMap<u64, Row>,
}

struct Row {
    peer: Peer,
    activity: Arc<Activity>,
    close: CancellationToken,
}

/// Room for one connection.
pub(super) struct Slot {
    _permit: OwnedSemaphorePermit,
}

/// An open connection. Dropping it makes room for another one.
pub(super) struct Connection {
    pub(super) activity: Arc<Activity>,
    /// Cancelled if the connection is replaced.
    pub(super) close: CancellationToken,
    connections: Arc<Connections>,
    id: u64,
    _slot: Slot,
}

/// Reasons to keep a waiting connection. The least one comes first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Worth {
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

impl Connections {
    pub(super) fn new(limits: ConnectionLimits) -> Arc<Self> {
        Self::since(limits, Instant::now())
    }

    fn since(limits: ConnectionLimits, began: Instant) -> Arc<Self> {
        let slots = Arc::new(Semaphore::new(limits.total));
        Arc::new(Self { limits, slots, open: Mutex::default(), began })
    }

    /// Waits for room, and replaces a waiting connection if there is none.
    pub(super) async fn slot(&self) -> Slot {
        loop {
            if let Ok(permit) = Arc::clone(&self.slots).try_acquire_owned() {
                return Slot { _permit: permit };
            }
            self.close_one(None);
            let freed = Arc::clone(&self.slots).acquire_owned();
            if let Ok(Ok(permit)) = tokio::time::timeout(FULL_PAUSE, freed).await {
                return Slot { _permit: permit };
            }
        }
    }

    /// Adds a connection. Returns `None` if all connections of this peer are busy.
    pub(super) fn add(self: &Arc<Self>, peer: Peer, slot: Slot) -> Option<Connection> {
        let of_peer = self.table().rows.values().filter(|row| row.peer == peer && !row.close.is_cancelled()).count();
        if of_peer >= self.limits.of_one_peer && !self.close_one(Some(peer)) {
            return None;
        }
        let activity = Arc::new(Activity::new(self.began));
        let close = CancellationToken::new();
        let mut table = self.table();
        let id = table.next;
        table.next += 1;
        table.rows.insert(id, Row { peer, activity: Arc::clone(&activity), close: close.clone() });
        drop(table);
        Some(Connection { activity, close, connections: Arc::clone(self), id, _slot: slot })
    }

    /// Closes the waiting connection that is most likely useless. Returns false if there is none.
    pub(super) fn close_one(&self, of: Option<Peer>) -> bool {
        let table = self.table();
        let now_ms = millis(self.began.elapsed());
        let rows = table.rows.iter().filter(|(_, row)| of.is_none_or(|peer| peer == row.peer));
        let waiting = rows.filter(|(_, row)| !row.close.is_cancelled() && !row.activity.is_busy());
        // Ids grow, so that of two connections of the same millisecond the older one is closed.
        let worst = waiting.min_by_key(|(id, row)| {
            let since_ms = row.activity.since_ms.load(Ordering::Relaxed);
            (row.activity.worth(since_ms, now_ms), since_ms, **id)
        });
        worst.inspect(|(_, row)| row.close.cancel()).is_some()
    }

    fn table(&self) -> MutexGuard<'_, Table> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.connections.table().rows.remove(&self.id);
    }
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

    fn is_busy(&self) -> bool {
        self.is_busy.load(Ordering::Relaxed) || self.busy_requests.load(Ordering::Relaxed) > 0
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

    fn worth(&self, since_ms: u64, now_ms: u64) -> Worth {
        let is_young = now_ms.saturating_sub(since_ms) < NEW_MS;
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

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use std::net::IpAddr;

    use super::*;

    fn peer(last: u8) -> Peer {
        Peer::of(IpAddr::from([192, 0, 2, last]))
    }

    /// Opens a connection that began to wait at this time.
    async fn open(connections: &Arc<Connections>, of: u8, since_ms: u64) -> Connection {
        let slot = connections.slot().await;
        let connection = connections.add(peer(of), slot).unwrap();
        connection.activity.since_ms.store(since_ms, Ordering::Relaxed);
        connection
    }

    fn closed(connections: &[&Connection]) -> Vec<bool> {
        connections.iter().map(|one| one.close.is_cancelled()).collect()
    }

    #[test]
    fn there_are_fewer_connections_than_files() {
        let check = |files, total, of_one_peer| {
            assert_eq!(ConnectionLimits::for_open_files(files), ConnectionLimits { total, of_one_peer }, "{files}");
        };
        check(64, 32, 16);
        check(256, 128, 64);
        check(1024, 768, 384);
        check(4096, 3840, 1920);
        check(1_048_576, 4096, 2048);
        check(u64::MAX, 4096, 2048);
    }

    /// Connections that wait for much longer than new ones do.
    fn long_ago(total: usize, of_one_peer: usize) -> Arc<Connections> {
        let began = Instant::now().checked_sub(Duration::from_secs(10)).unwrap();
        Connections::since(ConnectionLimits { total, of_one_peer }, began)
    }

    #[tokio::test]
    async fn the_least_useful_connection_is_replaced() {
        let connections = long_ago(4, 4);
        let (busy, idle) = (open(&connections, 1, 0).await, open(&connections, 2, 1).await);
        let (older, newer) = (open(&connections, 3, 2).await, open(&connections, 4, 3).await);
        busy.activity.request_is_complete();
        idle.activity.was_useful();
        let all = [&busy, &idle, &older, &newer];
        for expected in [[false, false, true, false], [false, false, true, true], [false, true, true, true]] {
            assert!(connections.close_one(None));
            assert_eq!(closed(&all), expected);
        }
        assert!(!connections.close_one(None), "a busy connection stays");
    }

    #[tokio::test]
    async fn a_new_connection_has_time_for_its_request() {
        let connections = long_ago(4, 4);
        let (half, idle) = (open(&connections, 1, 0).await, open(&connections, 2, 1).await);
        let slot = connections.slot().await;
        let new = connections.add(peer(3), slot).unwrap();
        idle.activity.was_useful();
        for expected in [[true, false, false], [true, true, false], [true, true, true]] {
            assert!(connections.close_one(None));
            assert_eq!(closed(&[&half, &idle, &new]), expected);
        }
        let (now_ms, activity) = (0, Activity::new(Instant::now()));
        assert_eq!(activity.worth(now_ms, now_ms), Worth::New);
        activity.answer_ends();
        assert_eq!(activity.worth(now_ms, now_ms), Worth::NeverUseful, "after a refusal");
    }

    #[tokio::test]
    async fn a_new_connection_waits_for_room() {
        let connections = Connections::new(ConnectionLimits { total: 1, of_one_peer: 1 });
        let first = open(&connections, 1, 0).await;
        first.activity.request_is_complete();
        let (next, ends) = (
            tokio::spawn({
                let connections = Arc::clone(&connections);
                async move { connections.slot().await }
            }),
            first.close.clone(),
        );
        tokio::task::yield_now().await;
        assert!(!ends.is_cancelled());
        first.activity.answer_ends();
        ends.cancelled().await;
        drop(first);
        next.await.unwrap();
    }

    #[tokio::test]
    async fn a_peer_replaces_its_own_connections() {
        let connections = Connections::new(ConnectionLimits { total: 8, of_one_peer: 2 });
        let stranger = open(&connections, 1, 0).await;
        let (first, second) = (open(&connections, 2, 1).await, open(&connections, 2, 2).await);
        let third = open(&connections, 2, 3).await;
        assert_eq!(closed(&[&stranger, &first, &second, &third]), [false, true, false, false]);
        second.activity.request_is_complete();
        third.activity.request_is_complete();
        let slot = connections.slot().await;
        assert!(connections.add(peer(2), slot).is_none());
        drop(second);
        let slot = connections.slot().await;
        assert!(connections.add(peer(2), slot).is_some());
    }
    #[tokio::test]
    async fn a_connection_is_busy_while_one_of_its_requests_is() {
        let connections = long_ago(1, 1);
        let connection = open(&connections, 1, 0).await;
        let (first, second) = (Activity::of_request(&connection.activity), Activity::of_request(&connection.activity));
        for request in [&first, &second] {
            request.request_is_complete();
            request.request_is_complete();
        }
        first.answer_ends();
        assert!(connection.activity.is_busy());
        // The peer reset it before it was answered.
        drop(second);
        assert!(!connection.activity.is_busy());
        first.answer_ends();
        drop(first);
        assert!(!connection.activity.is_busy(), "the end of an answer counts once");
        Activity::of_request(&connection.activity).was_useful();
        assert_eq!(connection.activity.worth(0, 0), Worth::WasUseful);
    }

    #[test]
    fn idle_and_stalled_connections() {
        let patience =
            Patience { first: Duration::from_secs(10), next: Duration::from_secs(75), write: Duration::from_secs(30) };
        let began = Instant::now().checked_sub(Duration::from_secs(1000)).unwrap();
        let connection = Arc::new(Activity::new(began));
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
