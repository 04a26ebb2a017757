//! Compares a judged list with what is stored, and says which rows have to change.
//!
//! The gateway judged the list with what it had read before. Meanwhile, a user may have decided at another gateway, or
//! another gateway may have stored a list of the same server. So nothing is taken from the list without a look at the
//! rows as they are now, under the lock of the server:
//!
//! | the list says | stored now | result |
//! |---|---|---|
//! | admitted, any reason | the same pin is accepted | nothing: who accepted it stays |
//! | admitted, not by the lock file | a user rejected this pin | nothing |
//! | admitted at first sight | another pin is accepted | nothing: somebody was faster |
//! | admitted as stricter | nothing is accepted | nothing: there is nothing to compare with |
//! | admitted otherwise | | accepted; the version before becomes a former one |
//! | held | the same pin is accepted or rejected | nothing: a user decided meanwhile |
//! | held | the same pin waits | it goes on waiting |
//! | held | another pin waits, or none | it waits, and `times` rises |
//! | not held | something waits | it is withdrawn |

use std::collections::{HashMap, HashSet};

use mcpproxy_core::trust::{Admitted, Definition, Held};

use super::bounds::WAITING_MAX_BYTES;
use super::rows::{AcceptedRow, KeyDigest, State, key_digest};
use super::{AdmittedPin, HeldPin, Listing};

/// The rows to change. A key is in a list once at most, because PostgreSQL changes a row once per statement.
#[derive(Default)]
pub(super) struct Plan<'a> {
    /// Definitions to accept. The accepted version of the same key, if there is one, becomes a former one first.
    pub(super) accept: Vec<(KeyDigest, &'a AdmittedPin<'a>)>,
    pub(super) wait: Vec<(KeyDigest, &'a HeldPin<'a>, i64)>,
    pub(super) explain: Vec<(KeyDigest, &'a HeldPin<'a>)>,
    pub(super) withdraw: Vec<KeyDigest>,
    /// Accepted versions whose rival was withdrawn, with its `times`.
    pub(super) count: Vec<(KeyDigest, i64)>,
    /// Accepted definitions that are no longer listed, and those that are listed again.
    pub(super) left: Vec<KeyDigest>,
    pub(super) back: Vec<KeyDigest>,
}

impl<'a> Plan<'a> {
    pub(super) fn of(listing: &'a Listing<'a>, state: &State) -> Self {
        let mut plan = Self::default();
        plan.admit(listing, state);
        let kept = plan.hold(listing, state);
        plan.withdraw_others(state, &kept);
        plan.note_absence(listing, state);
        plan
    }

    fn admit(&mut self, listing: &'a Listing<'a>, state: &State) {
        let mut done = HashSet::new();
        for admitted in &listing.admitted {
            let key = key_digest(&admitted.definition.key);
            let is_rejected = state.rejected.contains(&(key, admitted.pin));
            if done.insert(key) && is_accepted_now(admitted, state.accepted.get(&key), is_rejected) {
                self.accept.push((key, admitted));
            }
        }
    }

    /// Returns the keys that wait afterwards.
    fn hold(&mut self, listing: &'a Listing<'a>, state: &State) -> HashSet<KeyDigest> {
        let accepted: HashMap<_, _> = self.accept.iter().map(|(key, admitted)| (*key, admitted.pin)).collect();
        let mut kept = HashSet::new();
        let mut bytes = 0;
        for held in listing.held.iter().filter(|held| held.reason != Held::Rejected) {
            let key = key_digest(&held.definition.key);
            let now_accepted = accepted.get(&key).or(state.accepted.get(&key).map(|row| &row.pin));
            if now_accepted == Some(&held.pin) || state.rejected.contains(&(key, held.pin)) || kept.contains(&key) {
                continue;
            }
            let more = size(held.definition) + held.details.len();
            if bytes + more > WAITING_MAX_BYTES {
                continue;
            }
            bytes += more;
            kept.insert(key);
            match state.waiting.get(&key) {
                Some(row) if row.pin == held.pin => {
                    if row.reason != held.reason || row.details != held.details {
                        self.explain.push((key, held));
                    }
                }
                Some(row) => self.wait.push((key, held, row.times.saturating_add(1))),
                None => {
                    let times = state.accepted.get(&key).map_or(0, |row| row.times);
                    self.wait.push((key, held, times.saturating_add(1)));
                }
            }
        }
        kept
    }

    fn withdraw_others(&mut self, state: &State, kept: &HashSet<KeyDigest>) {
        let replaced: HashSet<KeyDigest> = self.accept.iter().map(|(key, _)| *key).collect();
        for (key, row) in state.waiting.iter().filter(|(key, _)| !kept.contains(*key)) {
            self.withdraw.push(*key);
            // A server that shows another version from time to time must not look as if it did so for the first time.
            if state.accepted.contains_key(key) && !replaced.contains(key) {
                self.count.push((*key, row.times));
            }
        }
    }

    fn note_absence(&mut self, listing: &Listing<'_>, state: &State) {
        let listed: HashSet<KeyDigest> = listing.listed.iter().map(|key| key_digest(key)).collect();
        for (key, row) in &state.accepted {
            match (listed.contains(key), row.is_gone) {
                (false, false) => self.left.push(*key),
                (true, true) => self.back.push(*key),
                (true, false) | (false, true) => {}
            }
        }
    }
}

fn is_accepted_now(admitted: &AdmittedPin<'_>, accepted: Option<&AcceptedRow>, is_rejected: bool) -> bool {
    if accepted.is_some_and(|row| row.pin == admitted.pin) {
        return false;
    }
    match admitted.reason {
        // The operator's lock file names exactly this pin.
        Admitted::Locked => true,
        Admitted::FirstSight => !is_rejected && accepted.is_none(),
        Admitted::Stricter => !is_rejected && accepted.is_some(),
        Admitted::Warned | Admitted::Unasked => !is_rejected,
    }
}

fn size(definition: &Definition) -> usize {
    definition.key.name.len() + definition.json.len()
}
