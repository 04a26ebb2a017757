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
//! | held, because the stored row is damaged, or because the lock file lacks it | | it waits |
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
            let is_rejected = state.rejected.contains_key(&(key, admitted.pin));
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
            let is_decided = now_accepted == Some(&held.pin) || state.rejected.contains_key(&(key, held.pin));
            let is_open_again = match held.reason {
                // Its stored text or name is damaged. The pin beside it may be whole, and proves nothing.
                Held::Unreadable => true,
                // Decisions of users do not count beside a lock file. Without a row it would be news with every list.
                Held::NotLocked => true,
                Held::FirstSight | Held::New | Held::Changed | Held::Suspicious | Held::Rejected => false,
            };
            if (is_decided && !is_open_again) || kept.contains(&key) {
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

#[cfg(test)]
mod tests {
    use mcpproxy_core::trust::DefinitionKind;

    use super::*;
    use crate::pins::rows::{RejectedRow, WaitingRow};

    fn tool(version: u32) -> Definition {
        Definition::new(DefinitionKind::Tool, "send", &format!(r#"{{"version":{version}}}"#))
    }

    /// The stored versions of `send`: the accepted, the waiting and the rejected version, or 0 for none.
    fn state([accepted, waiting, rejected]: [u32; 3]) -> State {
        let key = key_digest(&tool(1).key);
        let mut state = State::default();
        if accepted > 0 {
            state.accepted.insert(key, AcceptedRow { pin: tool(accepted).pin(), is_gone: false, times: 7 });
        }
        if waiting > 0 {
            let (reason, details) = (Held::Changed, "{}".to_owned());
            state.waiting.insert(key, WaitingRow { pin: tool(waiting).pin(), reason, details, times: 3 });
        }
        if rejected > 0 {
            let row = RejectedRow { stored: Vec::new(), has_text: true };
            state.rejected.insert((key, tool(rejected).pin()), row);
        }
        state
    }

    fn words(plan: &Plan<'_>) -> String {
        let mut words = Vec::new();
        words.extend(plan.accept.iter().map(|_| "accept".to_owned()));
        words.extend(plan.wait.iter().map(|(.., times)| format!("wait {times}")));
        words.extend(plan.explain.iter().map(|_| "explain".to_owned()));
        words.extend(plan.withdraw.iter().map(|_| "withdraw".to_owned()));
        words.extend(plan.count.iter().map(|(_, times)| format!("count {times}")));
        words.extend(plan.left.iter().map(|_| "left".to_owned()));
        words.join(", ")
    }

    fn listing<'a>(definition: &'a Definition) -> Listing<'a> {
        let listed = vec![&definition.key];
        let (admitted, held) = (Vec::new(), Vec::new());
        Listing { identity: "", server: "", now_ms: 0, admitted, held, listed, has_news: true }
    }

    /// Lists version 2 of `send`.
    fn check_admitted(reason: Admitted, stored: [u32; 3], expected: &str) {
        let definition = tool(2);
        let mut listing = listing(&definition);
        listing.admitted.push(AdmittedPin { definition: &definition, pin: definition.pin(), reason });
        assert_eq!(words(&Plan::of(&listing, &state(stored))), expected, "{reason:?} {stored:?}");
    }

    fn check_held(reason: Held, stored: [u32; 3], expected: &str) {
        let definition = tool(2);
        let mut listing = listing(&definition);
        let (pin, details) = (definition.pin(), "{}".to_owned());
        listing.held.push(HeldPin { definition: &definition, pin, reason, details });
        assert_eq!(words(&Plan::of(&listing, &state(stored))), expected, "{reason:?} {stored:?}");
    }

    #[test]
    fn rules_accept_only_what_nobody_decided_otherwise() {
        for reason in Admitted::ALL {
            check_admitted(reason, [2, 0, 0], "");
            check_admitted(reason, [2, 3, 0], "withdraw, count 3");
            let is_rejected = if reason == Admitted::Locked { "accept" } else { "" };
            check_admitted(reason, [0, 0, 2], is_rejected);
            check_admitted(reason, [1, 0, 2], is_rejected);
            let is_new = if reason == Admitted::Stricter { "" } else { "accept" };
            check_admitted(reason, [0, 0, 0], is_new);
            check_admitted(reason, [0, 0, 1], is_new);
            let is_other = if reason == Admitted::FirstSight { "" } else { "accept" };
            check_admitted(reason, [1, 0, 0], is_other);
        }
        check_admitted(Admitted::Warned, [1, 2, 0], "accept, withdraw");
        check_admitted(Admitted::Warned, [1, 3, 0], "accept, withdraw");
    }

    #[test]
    fn versions_wait_unless_a_user_has_decided() {
        let others = |reason: &Held| !matches!(reason, Held::Rejected | Held::Unreadable | Held::NotLocked);
        for reason in Held::ALL.into_iter().filter(others) {
            check_held(reason, [0, 0, 0], "wait 1");
            check_held(reason, [1, 0, 0], "wait 8");
            check_held(reason, [1, 3, 0], "wait 4");
            check_held(reason, [1, 2, 0], if reason == Held::Changed { "" } else { "explain" });
            check_held(reason, [2, 0, 0], "");
            check_held(reason, [2, 3, 0], "withdraw, count 3");
            check_held(reason, [1, 0, 2], "");
            check_held(reason, [0, 3, 2], "withdraw");
        }
        // What was decided cannot be read, so a user decides again. Beside a lock file, it does not count.
        for reason in [Held::Unreadable, Held::NotLocked] {
            check_held(reason, [0, 0, 0], "wait 1");
            check_held(reason, [2, 0, 0], "wait 8");
            check_held(reason, [0, 2, 2], "explain");
            check_held(reason, [2, 2, 0], "explain");
        }
        check_held(Held::Rejected, [1, 0, 0], "");
        check_held(Held::Rejected, [1, 2, 0], "withdraw, count 3");
    }

    #[test]
    fn what_is_not_listed_has_left() {
        let definition = tool(1);
        let mut listing = listing(&definition);
        assert_eq!(words(&Plan::of(&listing, &state([1, 0, 0]))), "");
        listing.listed.clear();
        assert_eq!(words(&Plan::of(&listing, &state([1, 2, 0]))), "withdraw, count 3, left");
    }
}
