//! Limits the sign-ins that are under way at the same time, for each address and in total.
//!
//! A sign-in waits for others: to be counted, in the slow lane, and for a place to hash (`slow_lane.rs`, `password.rs`).
//! Without a limit, one address could fill these queues, and everyone else would wait behind it.
//!
//! The limit of an address is far above what one user needs, because users behind a proxy share its address. With a lower
//! one, a stranger behind the same proxy could keep all of them out with a handful of connections.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::peer::Peer;

/// The last one waits for about two seconds.
pub(crate) const OF_ONE_ADDRESS: usize = 32;
const IN_TOTAL: usize = 1024;

/// The sign-ins under way, for each address. It has at most [`IN_TOTAL`] rows.
#[derive(Default)]
pub(crate) struct SignIns {
    under_way: Mutex<HashMap<Peer, usize>>,
}

/// The right to sign in. Dropping it makes room for another sign-in.
pub(crate) struct Place<'a> {
    sign_ins: &'a SignIns,
    peer: Peer,
}

impl SignIns {
    /// Returns `None` if too many sign-ins are under way.
    pub(crate) fn enter(&self, peer: Peer) -> Option<Place<'_>> {
        let mut under_way = self.under_way();
        let total: usize = under_way.values().sum();
        let of_peer = under_way.get(&peer).copied().unwrap_or_default();
        if total >= IN_TOTAL || of_peer >= OF_ONE_ADDRESS {
            return None;
        }
        under_way.insert(peer, of_peer + 1);
        Some(Place { sign_ins: self, peer })
    }

    fn under_way(&self) -> MutexGuard<'_, HashMap<Peer, usize>> {
        self.under_way.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        let mut under_way = self.sign_ins.under_way();
        match under_way.get_mut(&self.peer) {
            Some(more) if *more > 1 => *more -= 1,
            Some(_) | None => drop(under_way.remove(&self.peer)),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::net::IpAddr;

    use super::*;

    fn peer(number: u32) -> Peer {
        Peer::of(IpAddr::from(number.to_be_bytes()))
    }

    #[test]
    fn an_address_uses_up_its_own_places_only() {
        let sign_ins = SignIns::default();
        let mut places: Vec<_> = (0..OF_ONE_ADDRESS).map(|_| sign_ins.enter(peer(1)).unwrap()).collect();
        assert!(sign_ins.enter(peer(1)).is_none());
        assert!(sign_ins.enter(peer(2)).is_some());
        places.pop();
        assert!(sign_ins.enter(peer(1)).is_some());
        places.clear();
        assert!(sign_ins.under_way().is_empty(), "nothing is left behind");
    }

    #[test]
    fn all_addresses_together_are_limited() {
        let sign_ins = SignIns::default();
        let addresses = u32::try_from(IN_TOTAL).unwrap();
        let _places: Vec<_> = (0..addresses).map(|number| sign_ins.enter(peer(number)).unwrap()).collect();
        assert!(sign_ins.enter(peer(addresses)).is_none());
    }
}
