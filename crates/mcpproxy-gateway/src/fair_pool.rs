//! A pool of units that agents share fairly: the slots of a server, or bytes of memory.
//!
//! A semaphore serves whoever came first. So one agent that sends fifty slow calls makes all others wait behind them.
//! Here, callers have a key, and the pool is fair between keys:
//!
//! - **Nobody takes everything.** One key holds at most its `share` of the units. The rest is left for others, so an
//!   agent that comes later need not wait until a slow call of another ends.
//! - **The key that holds least is next.** Of equals, the one whose caller waits longest. Within a key, callers are
//!   served in the order in which they came.
//! - **A large amount is not starved.** If the next caller does not fit yet, the pool saves up units for it instead of
//!   serving smaller amounts behind it.
//! - **A caller that gives up leaves nothing behind.** Dropping the future of [`FairPool::acquire`] removes its place.
//!   If its units were granted in the same moment, they return to the pool.
//!
//! An amount above the share is cut to the share, so every caller is served at some time. [`FairPool::take`] and
//! [`Ticket::set`] do not wait, and may go beyond share and capacity: an answer that has arrived is in memory, and
//! counting it must not wait. New callers of that key then wait until it is within its share again. For other keys,
//! only the share counts. Otherwise an agent that does not read its answers would stop all others.
//!
//! A pool without waiting callers costs one lock and one lookup, and no allocation. The table has a row for each key
//! that holds or waits for something, so the number of agents bounds it. What bounds the number of waiting callers is
//! up to the user of the pool.

#[cfg(test)]
mod tests;

use std::collections::{HashMap, VecDeque};
use std::hash::Hash;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::{Notify, oneshot};

pub(crate) struct FairPool<K: Key> {
    shared: Arc<Shared<K>>,
}

/// Tells agents apart. Small and `Copy`, so that no call allocates for it.
pub(crate) trait Key: Copy + Eq + Hash {}

impl<K: Copy + Eq + Hash> Key for K {}

struct Shared<K: Key> {
    state: Mutex<State<K>>,
    /// Notified when nobody holds or waits for anything.
    emptied: Notify,
}

struct State<K> {
    capacity: usize,
    /// The most that one key may hold. At most the capacity.
    share: usize,
    held: usize,
    /// The units of all keys, each counted up to its share. This sum is compared with the capacity.
    held_in_shares: usize,
    /// Number of waiting callers of all keys.
    waiting: usize,
    next_place: u64,
    keys: HashMap<K, Row>,
}

/// The units that one key holds, and the callers that wait for more. An empty row is removed.
#[derive(Default)]
struct Row {
    held: usize,
    waiting: VecDeque<Waiter>,
}

struct Waiter {
    /// Counts up, so a smaller place came earlier.
    place: u64,
    amount: usize,
    granted: oneshot::Sender<()>,
}

/// Units of the pool. Dropping it gives them back.
pub(crate) struct Ticket<K: Key> {
    pool: FairPool<K>,
    key: K,
    amount: usize,
}

/// A waiting caller. Dropping it gives back its place, or its units if they were granted just now.
struct Place<K: Key> {
    pool: FairPool<K>,
    key: K,
    place: u64,
    amount: usize,
    is_taken: bool,
    granted: oneshot::Receiver<()>,
}

impl<K: Key> Clone for FairPool<K> {
    fn clone(&self) -> Self {
        Self { shared: Arc::clone(&self.shared) }
    }
}

impl<K: Key> FairPool<K> {
    /// Makes a pool of `capacity` units, of which one key may hold at most `share`.
    pub(crate) fn new(capacity: usize, share: usize) -> Self {
        let share = share.min(capacity);
        let state =
            State { capacity, share, held: 0, held_in_shares: 0, waiting: 0, next_place: 0, keys: HashMap::new() };
        Self { shared: Arc::new(Shared { state: Mutex::new(state), emptied: Notify::new() }) }
    }

    /// Waits for units. An amount above the share is cut to it.
    pub(crate) async fn acquire(&self, key: K, amount: usize) -> Ticket<K> {
        let (amount, queued) = self.state().take_or_queue(key, amount);
        if let Some((place, granted)) = queued {
            let pool = self.clone();
            let mut place = Place { pool, key, place, amount, is_taken: false, granted };
            // Fails only if the sender is dropped unused, and the pool keeps it until it grants the units.
            let _granted = (&mut place.granted).await;
            place.is_taken = true;
        }
        Ticket { pool: self.clone(), key, amount }
    }

    /// Takes units without waiting, even beyond share and capacity.
    pub(crate) fn take(&self, key: K, amount: usize) -> Ticket<K> {
        self.change(key, 0, amount);
        Ticket { pool: self.clone(), key, amount }
    }

    /// Returns the units that a key holds or waits for, and the share of one key.
    pub(crate) fn wanted(&self, key: K) -> (usize, usize) {
        let state = self.state();
        let wanted = |row: &Row| row.held + row.waiting.iter().map(|waiter| waiter.amount).sum::<usize>();
        (state.keys.get(&key).map_or(0, wanted), state.share)
    }

    /// Changes the size of the pool. Units that are held stay.
    pub(crate) fn resize(&self, capacity: usize, share: usize) {
        let mut state = self.state();
        state.capacity = capacity;
        state.share = share.min(capacity);
        state.held_in_shares = state.keys.values().map(|row| row.held.min(state.share)).sum();
        state.serve();
    }

    /// Returns the units that all keys hold.
    pub(crate) fn held(&self) -> usize {
        self.state().held
    }

    /// Waits until nobody holds or waits for units.
    pub(crate) async fn emptied(&self) {
        loop {
            let emptied = self.shared.emptied.notified();
            if self.state().keys.is_empty() {
                return;
            }
            emptied.await;
        }
    }

    /// Gives back a place, or the units of a place that was granted.
    fn leave(&self, key: K, place: u64, amount: usize) {
        let is_empty = {
            let mut state = self.state();
            if state.remove_place(key, place) {
                // Somebody behind it may fit.
                state.serve();
            } else {
                state.change(key, amount, 0);
            }
            state.keys.is_empty()
        };
        if is_empty {
            self.shared.emptied.notify_waiters();
        }
    }

    fn change(&self, key: K, from: usize, to: usize) {
        let is_empty = {
            let mut state = self.state();
            state.change(key, from, to);
            state.keys.is_empty()
        };
        if is_empty {
            self.shared.emptied.notify_waiters();
        }
    }

    fn state(&self) -> MutexGuard<'_, State<K>> {
        self.shared.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<K: Key> State<K> {
    /// Takes units at once if nobody waits, or else a place in the queue. Returns the amount cut to the share.
    fn take_or_queue(&mut self, key: K, amount: usize) -> (usize, Option<(u64, oneshot::Receiver<()>)>) {
        let amount = amount.min(self.share);
        let held = self.keys.get(&key).map_or(0, |row| row.held);
        if self.waiting == 0 && self.fits_share(held, amount) && self.fits(amount) {
            self.count(key, 0, amount);
            return (amount, None);
        }
        let (granted, receiver) = oneshot::channel();
        let place = self.next_place;
        self.next_place += 1;
        self.keys.entry(key).or_default().waiting.push_back(Waiter { place, amount, granted });
        self.waiting += 1;
        // Those who wait may all be at their share, and then this one need not.
        self.serve();
        (amount, Some((place, receiver)))
    }

    /// Grants units to waiting callers, until the next one does not fit.
    fn serve(&mut self) {
        while self.waiting > 0 {
            let candidates = self.keys.iter().filter_map(|(key, row)| {
                let first = row.waiting.front()?;
                self.fits_share(row.held, first.amount).then_some((row.held, first.place, first.amount, *key))
            });
            let Some((_, _, amount, key)) = candidates.min_by_key(|(held, place, ..)| (*held, *place)) else { return };
            if !self.fits(amount) {
                return;
            }
            let Some(row) = self.keys.get_mut(&key) else { return };
            let Some(waiter) = row.waiting.pop_front() else { return };
            self.waiting -= 1;
            self.count(key, 0, amount);
            // A caller that is gone gives the units back when its place is dropped.
            let _gone = waiter.granted.send(());
        }
    }

    /// Returns true if a key may hold this much more. A key that holds nothing may, whatever the share is now.
    fn fits_share(&self, held: usize, amount: usize) -> bool {
        held == 0 || held.saturating_add(amount) <= self.share
    }

    fn fits(&self, amount: usize) -> bool {
        self.held_in_shares == 0 || self.held_in_shares.saturating_add(amount) <= self.capacity
    }

    /// Changes the units that a key holds, and serves those who wait.
    fn change(&mut self, key: K, from: usize, to: usize) {
        self.count(key, from, to);
        if self.keys.get(&key).is_some_and(|row| row.held == 0 && row.waiting.is_empty()) {
            self.keys.remove(&key);
        }
        self.serve();
    }

    fn count(&mut self, key: K, from: usize, to: usize) {
        let row = self.keys.entry(key).or_default();
        let before = row.held.min(self.share);
        row.held = (row.held + to).saturating_sub(from);
        let after = row.held.min(self.share);
        self.held = (self.held + to).saturating_sub(from);
        self.held_in_shares = (self.held_in_shares + after).saturating_sub(before);
    }

    /// Removes a waiting caller. Returns false if its units were granted.
    fn remove_place(&mut self, key: K, place: u64) -> bool {
        let Some(row) = self.keys.get_mut(&key) else { return false };
        let Some(at) = row.waiting.iter().position(|waiter| waiter.place == place) else { return false };
        row.waiting.remove(at);
        self.waiting -= 1;
        if row.held == 0 && row.waiting.is_empty() {
            self.keys.remove(&key);
        }
        true
    }
}

impl<K: Key> Ticket<K> {
    /// Changes the amount without waiting, even beyond share and capacity.
    pub(crate) fn set(&mut self, amount: usize) {
        self.pool.change(self.key, self.amount, amount);
        self.amount = amount;
    }
}

impl<K: Key> Drop for Ticket<K> {
    fn drop(&mut self) {
        self.pool.change(self.key, self.amount, 0);
    }
}

impl<K: Key> Drop for Place<K> {
    fn drop(&mut self) {
        if !self.is_taken {
            self.pool.leave(self.key, self.place, self.amount);
        }
    }
}
