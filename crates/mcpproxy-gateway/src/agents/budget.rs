//! Memory for requests and answers in flight, shared fairly between agents.
//!
//! `limits.memory` has two halves, one for requests and one for answers. One agent may hold half of each.
//!
//! - **A request** is counted before its body is read, so a body that must wait is not in memory. An agent whose
//!   waiting and running requests exceed four times its share gets 429 instead of a place in the queue.
//! - **An answer** has no size before it is there. So a request waits until its agent's answers are within its share,
//!   and counts its own without waiting when it comes. It counts until the agent has read it. What exceeds the share in
//!   between is bounded by the slots of the servers, and does not count against other agents.
//!
//! Why two halves? A request that is counted waits for its answer. If both used one pool, requests could fill it and
//! wait for each other forever. Answers wait for nothing but the agent.
//!
//! Messages of up to `FREE_BYTES` are counted with a flat amount or not at all. The number of open requests bounds
//! them. A larger one counts several times, because the gateway has it in several forms at once: as received, as
//! parameters, for the log, and as sent.

use super::usage::{AgentKey, OverLimit};
use crate::fair_pool::{FairPool, Ticket};

/// Largest message that is not worth counting on its own.
const FREE_BYTES: usize = 16 * 1024;
/// Forms in which the gateway has a message at the same time.
const COPIES: usize = 4;
/// The most bytes that an agent may wait for, as a multiple of its share.
const WAITING_SHARES: usize = 4;

/// Bytes that count for an agent until this is dropped.
pub(crate) type Charge = Ticket<AgentKey>;

#[derive(Clone)]
pub(crate) struct Budget {
    requests: FairPool<AgentKey>,
    answers: FairPool<AgentKey>,
}

impl Budget {
    pub(crate) fn new(memory_bytes: usize) -> Self {
        let (half, share) = halves(memory_bytes);
        Self { requests: FairPool::new(half, share), answers: FairPool::new(half, share) }
    }

    /// Changes the size. What is in flight stays.
    pub(super) fn resize(&self, memory_bytes: usize) {
        let (half, share) = halves(memory_bytes);
        self.requests.resize(half, share);
        self.answers.resize(half, share);
    }

    /// Returns the bytes of requests and of answers that all agents hold.
    pub(super) fn held(&self) -> (usize, usize) {
        (self.requests.held(), self.answers.held())
    }

    /// Waits for room for a request of this size. A small one needs none.
    pub(super) async fn receive(&self, key: AgentKey, bytes: usize) -> Result<Option<Charge>, OverLimit> {
        if bytes <= FREE_BYTES {
            return Ok(None);
        }
        let amount = counted(bytes);
        self.check_wanted(key, amount)?;
        Ok(Some(self.requests.acquire(key, amount).await))
    }

    /// Counts a request that is in memory already, without waiting. A small one is not counted.
    pub(super) fn take_request(&self, key: AgentKey, bytes: usize) -> Result<Option<Charge>, OverLimit> {
        if bytes <= FREE_BYTES {
            return Ok(None);
        }
        let amount = counted(bytes);
        self.check_wanted(key, amount)?;
        Ok(Some(self.requests.take(key, amount)))
    }

    /// Checks that an agent does not wait for too much. Its only request always passes, however small the memory is.
    fn check_wanted(&self, key: AgentKey, amount: usize) -> Result<(), OverLimit> {
        let (wanted, share) = self.requests.wanted(key);
        let is_too_much = wanted > 0 && wanted.saturating_add(amount) > share.saturating_mul(WAITING_SHARES);
        if is_too_much { Err(OverLimit::Bytes) } else { Ok(()) }
    }

    /// Waits until the answers of an agent leave room for one more, and counts a small one.
    pub(super) async fn expect_answer(&self, key: AgentKey) -> Charge {
        self.answers.acquire(key, counted(FREE_BYTES)).await
    }

    /// Counts an answer that is there, without waiting.
    pub(super) fn take_answer(&self, key: AgentKey, bytes: usize) -> Charge {
        self.answers.take(key, counted(bytes))
    }
}

/// Sets the size of a request once it is known. A small one no longer counts.
pub(crate) fn settle(charge: Option<Charge>, bytes: usize) -> Option<Charge> {
    let mut charge = charge.filter(|_| is_large(bytes))?;
    recount(&mut charge, bytes);
    Some(charge)
}

/// Sets the size of a message that is counted already.
pub(super) fn recount(charge: &mut Charge, bytes: usize) {
    charge.set(counted(bytes));
}

/// Returns true if a message is worth counting until it is sent.
pub(super) fn is_large(bytes: usize) -> bool {
    bytes > FREE_BYTES
}

fn counted(bytes: usize) -> usize {
    bytes.saturating_mul(COPIES)
}

/// Returns the bytes for requests, which are those for answers too, and the share of one agent.
fn halves(memory_bytes: usize) -> (usize, usize) {
    (memory_bytes / 2, memory_bytes / 4)
}

#[cfg(test)]
mod tests {
    use super::super::usage::Usages;
    use super::*;
    use futures::FutureExt;

    const MIB: usize = 1024 * 1024;

    #[test]
    fn one_agent_gets_half_and_then_429_and_another_is_not_affected() {
        let usages = Usages::new(256 * MIB);
        let (greedy, other) = (usages.of("greedy"), usages.of("other"));
        let receive = |usage: &super::super::usage::Usage, mib: usize| usage.receive(mib * MIB).now_or_never();
        // Four requests of 4 MiB count as 64 MiB, which is the share of one agent.
        let held: Vec<_> = (0..4).map(|_| receive(&greedy, 4).unwrap().unwrap()).collect();
        let mut waiting: Vec<_> = (0..12).map(|_| Box::pin(greedy.receive(4 * MIB))).collect();
        assert!(waiting.iter_mut().all(|one| one.as_mut().now_or_never().is_none()));
        assert!(matches!(receive(&greedy, 4), Some(Err(OverLimit::Bytes))));
        assert!(matches!(greedy.receive(FREE_BYTES).now_or_never(), Some(Ok(None))), "a small one is not counted");
        assert!(matches!(receive(&other, 4), Some(Ok(Some(_)))));
        drop(held);
        let served = waiting.iter_mut().filter_map(|one| one.as_mut().now_or_never());
        assert_eq!(served.filter(|one| matches!(one, Ok(Some(_)))).count(), 12, "each ends before the next is polled");
    }

    #[test]
    fn a_request_that_is_in_memory_is_counted_at_once() {
        let usage = Usages::new(256 * MIB).of("greedy");
        let held: Vec<_> = (0..16).map(|_| usage.take_request(4 * MIB).unwrap()).collect();
        assert_eq!(usage.take_request(4 * MIB).err(), Some(OverLimit::Bytes));
        assert!(matches!(usage.take_request(FREE_BYTES), Ok(None)), "a small one is not counted");
        drop(held);
        assert!(usage.take_request(4 * MIB).is_ok());
        let small = Usages::new(MIB).of("agent");
        assert!(matches!(small.receive(4 * MIB).now_or_never(), Some(Ok(Some(_)))), "it is the only one");
    }

    #[test]
    fn answers_that_are_not_read_hold_up_their_own_agent_only() {
        let usages = Usages::new(256 * MIB);
        let (greedy, other) = (usages.of("greedy"), usages.of("other"));
        let mut answer = greedy.expect_answer().now_or_never().unwrap();
        recount(&mut answer, 100 * MIB);
        assert!(greedy.expect_answer().now_or_never().is_none(), "it has 400 of 64 MiB");
        assert!(other.expect_answer().now_or_never().is_some());
        recount(&mut answer, MIB);
        assert!(greedy.expect_answer().now_or_never().is_some());
        drop(greedy.take_answer(100 * MIB));
        drop(answer);
        assert!(greedy.expect_answer().now_or_never().is_some());
    }
}
