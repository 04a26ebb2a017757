//! Limits what a server may send without being asked: notifications, and requests to the agent of a call.
//!
//! The gateway reads as fast as a server writes, and it must not stop reading: the answer to a call may come next. So
//! whatever a server causes here needs a limit of its own. Two things cost memory or time:
//!
//! - **A request of the server** stays in memory until the agent has answered it and the server has read the answer. A
//!   server that asks and never reads would fill the memory. [`Allowance::begin`] counts such requests and their bytes.
//! - **Every message** takes time to read and to pass on. [`Allowance::take`] is a token bucket for messages and one for
//!   their bytes. A burst is fine, such as the log of a build. A flood is not.
//!
//! Beyond a limit the gateway disconnects the server, and names the limit as the reason. Dropping messages instead would
//! hide the trouble, and would still cost the time to read them. Each connection has its own allowance, so a server pays
//! for its own messages and no other server does.
//!
//! Answers to requests of the gateway do not count here: `result_limit` and `max_concurrent_calls` limit those.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

/// Messages that a server may send at once, and how many more each second.
const MESSAGES_BURST: u32 = 20_000;
const MESSAGES_PER_SECOND: u32 = 2_000;
/// MiB of messages that a server may send at once, and how many more each second.
const MIB_BURST: u32 = 32;
const MIB_PER_SECOND: u32 = 4;
/// Requests of a server that are not answered yet.
const REQUESTS_MAX: usize = 100;
const REQUESTS_MAX_MIB: usize = 16;
/// Cancellations that a server has not read yet. Agents can cancel faster than a busy server reads. Further ones are
/// not sent, and the server finishes those calls for nothing.
pub(super) const CANCELLATIONS_MAX: usize = 256;
/// Largest notification that the gateway passes on. Messages wait for a slow agent, so each has a limit.
pub(super) const PASSED_ON_MAX_BYTES: usize = 64 * 1024;

const MIB: usize = 1024 * 1024;

/// The limit that a server exceeded, worded as the reason why the gateway disconnected it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Excess {
    #[error("it sent more than {MESSAGES_BURST} messages at once and more than {MESSAGES_PER_SECOND} per second")]
    Messages,
    #[error("it sent more than {MIB_BURST} MiB of messages at once and more than {MIB_PER_SECOND} MiB per second")]
    Bytes,
    #[error("more than {REQUESTS_MAX} of its requests were unanswered")]
    Requests,
    #[error("its unanswered requests had more than {REQUESTS_MAX_MIB} MiB")]
    RequestBytes,
    /// The limit of one message, in bytes.
    #[error("it sent a message of more than {0} bytes without an end")]
    Endless(usize),
}

/// The allowance of one connection.
pub(crate) struct Allowance {
    spent: Mutex<Spent>,
}

struct Spent {
    messages: Bucket,
    bytes: Bucket,
    requests: usize,
    request_bytes: usize,
}

/// A request of the server that is not answered yet. Dropping it makes room for another.
pub(crate) struct Unanswered {
    allowance: Arc<Allowance>,
    bytes: usize,
}

impl Allowance {
    pub(crate) fn new(now: Instant) -> Arc<Self> {
        let messages = Bucket::new(MESSAGES_BURST.into(), MESSAGES_PER_SECOND.into(), now);
        let mib = |count: u32| f64::from(count) * 1024.0 * 1024.0;
        let bytes = Bucket::new(mib(MIB_BURST), mib(MIB_PER_SECOND), now);
        Arc::new(Self { spent: Mutex::new(Spent { messages, bytes, requests: 0, request_bytes: 0 }) })
    }

    /// Counts a message that no request of the gateway asked for.
    pub(crate) fn take(&self, bytes: usize, now: Instant) -> Result<(), Excess> {
        self.spent().take(bytes, now)
    }

    /// Counts a request of the server, until the result is dropped.
    pub(crate) fn begin(self: &Arc<Self>, bytes: usize, now: Instant) -> Result<Unanswered, Excess> {
        let mut spent = self.spent();
        spent.take(bytes, now)?;
        if spent.requests >= REQUESTS_MAX {
            return Err(Excess::Requests);
        }
        if spent.request_bytes.saturating_add(bytes) > REQUESTS_MAX_MIB * MIB {
            return Err(Excess::RequestBytes);
        }
        spent.requests += 1;
        spent.request_bytes += bytes;
        Ok(Unanswered { allowance: Arc::clone(self), bytes })
    }

    fn spent(&self) -> MutexGuard<'_, Spent> {
        self.spent.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Spent {
    fn take(&mut self, bytes: usize, now: Instant) -> Result<(), Excess> {
        if !self.messages.take(1.0, now) {
            return Err(Excess::Messages);
        }
        // A message is far smaller than 2^32 bytes, because its size was limited when it was read.
        if !self.bytes.take(u32::try_from(bytes).unwrap_or(u32::MAX).into(), now) {
            return Err(Excess::Bytes);
        }
        Ok(())
    }
}

impl Drop for Unanswered {
    fn drop(&mut self) {
        let mut spent = self.allowance.spent();
        spent.requests = spent.requests.saturating_sub(1);
        spent.request_bytes = spent.request_bytes.saturating_sub(self.bytes);
    }
}

/// A token bucket: full at first, and refilled as time passes.
struct Bucket {
    left: f64,
    burst: f64,
    per_second: f64,
    at: Instant,
}

impl Bucket {
    fn new(burst: f64, per_second: f64, now: Instant) -> Self {
        Self { left: burst, burst, per_second, at: now }
    }

    fn take(&mut self, amount: f64, now: Instant) -> bool {
        let passed = now.saturating_duration_since(self.at).as_secs_f64();
        self.left = (self.left + passed * self.per_second).min(self.burst);
        self.at = now;
        let is_enough = self.left >= amount;
        if is_enough {
            self.left -= amount;
        }
        is_enough
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn a_burst_is_fine_and_a_flood_is_not() {
        let start = Instant::now();
        let allowance = Allowance::new(start);
        for _ in 0..MESSAGES_BURST {
            assert_eq!(allowance.take(100, start), Ok(()));
        }
        assert_eq!(allowance.take(100, start), Err(Excess::Messages));
        let later = start + Duration::from_secs(1);
        for _ in 0..MESSAGES_PER_SECOND {
            assert_eq!(allowance.take(100, later), Ok(()));
        }
        assert_eq!(allowance.take(100, later), Err(Excess::Messages));
        // An hour of silence earns one burst and no more.
        let much_later = start + Duration::from_secs(3600);
        assert_eq!((0..).take_while(|_| allowance.take(1, much_later).is_ok()).count(), MESSAGES_BURST as usize);
    }

    #[test]
    fn bytes_have_a_limit_of_their_own() {
        let start = Instant::now();
        let allowance = Allowance::new(start);
        for _ in 0..MIB_BURST {
            assert_eq!(allowance.take(MIB, start), Ok(()));
        }
        assert_eq!(allowance.take(1, start), Err(Excess::Bytes));
        assert_eq!(allowance.take(MIB, start + Duration::from_secs(1)), Ok(()));
    }

    #[test]
    fn unanswered_requests_are_limited_in_number_and_bytes() {
        let start = Instant::now();
        let allowance = Allowance::new(start);
        let mut open: Vec<Unanswered> = (0..REQUESTS_MAX).map(|_| allowance.begin(10, start).unwrap()).collect();
        assert_eq!(allowance.begin(10, start).err(), Some(Excess::Requests));
        open.pop();
        assert!(allowance.begin(10, start).is_ok(), "an answered request makes room");
        open.clear();
        let large = allowance.begin(REQUESTS_MAX_MIB * MIB, start).unwrap();
        assert_eq!(allowance.begin(1, start).err(), Some(Excess::RequestBytes));
        drop(large);
        assert!(allowance.begin(1, start).is_ok());
    }
}
