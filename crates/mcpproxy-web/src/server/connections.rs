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
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_util::sync::CancellationToken;

use super::activity::{Activity, millis};
use crate::peer::Peer;

/// Files for everything but connections of agents and users: servers, the database, logs.
const OTHER_FILES: u64 = 256;
/// Limits the memory of connections, however many files may be open.
const CONNECTIONS_MAX: u64 = 4096;
const CONNECTIONS_MIN: u64 = 16;
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
        let worst = waiting.min_by_key(|(id, row)| (row.activity.worth(now_ms), row.activity.since_ms(), **id));
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
        connection.activity.waits_since(since_ms);
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
}
