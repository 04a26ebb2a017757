//! Open calls on an HTTP link with sessions, to find the agent of a message outside of any answer.
//!
//! The table holds open calls only, so its size is the number of calls in flight. A finished call still counts for a
//! second, because a message may arrive after the answer. Three facts are enough to remember all finished calls: the last
//! one, and when the last call with another token and in another session ended. So neither memory nor time grows with
//! the call rate.
//!
//! A finished call counts beside an open one too. Otherwise a late message about Anna's call would reach Ben, whose
//! call happens to be open. Two sessions with one token are one reader: a client opens a session for each window. But
//! they are two users to ask, because an answer in one window must not decide what happens in another.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::agents::AgentChannel;

/// Time for which a finished call still counts, because a message may arrive after the answer.
const LINGER: Duration = Duration::from_secs(1);

#[derive(Default)]
pub(crate) struct OpenCalls {
    table: Mutex<Table>,
}

#[derive(Default)]
struct Table {
    open: Vec<(u64, AgentChannel)>,
    last_ended: Option<LastEnded>,
}

struct LastEnded {
    channel: AgentChannel,
    at: Instant,
    /// The end of the last call with another token.
    other_reader_at: Option<Instant>,
    /// The end of the last call in another session.
    other_user_at: Option<Instant>,
}

/// The purpose of a message, which decides who else could be meant.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Purpose {
    Notifies,
    Asks,
}

impl Purpose {
    fn is_for_either(self, one: &AgentChannel, other: &AgentChannel) -> bool {
        match self {
            Self::Notifies => one.is_same_token(other) || one.is_same_agent(other),
            Self::Asks => one.is_same_agent(other),
        }
    }
}

impl LastEnded {
    fn other_at(&self, purpose: Purpose) -> Option<Instant> {
        match purpose {
            Purpose::Notifies => self.other_reader_at,
            Purpose::Asks => self.other_user_at,
        }
    }
}

impl OpenCalls {
    pub(crate) fn begin(&self, id: u64, channel: AgentChannel) {
        self.table().open.push((id, channel));
    }

    pub(crate) fn end(&self, id: u64) {
        self.table().end(id, Instant::now());
    }

    /// Returns the only agent with an open or just finished call, for a notification. In doubt returns none: an agent must
    /// not read what belongs to another.
    pub(crate) fn sole_reader(&self) -> Option<AgentChannel> {
        self.table().sole(Purpose::Notifies, Instant::now())
    }

    /// Returns the only session with an open or just finished call, for a request. In doubt returns none: a user must not
    /// answer for another.
    pub(crate) fn sole_user(&self) -> Option<AgentChannel> {
        self.table().sole(Purpose::Asks, Instant::now())
    }

    fn table(&self) -> MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Table {
    fn end(&mut self, id: u64, now: Instant) {
        let Some(index) = self.open.iter().position(|(open, _)| *open == id) else { return };
        let (_, channel) = self.open.swap_remove(index);
        let other_at = |purpose: Purpose| {
            let last = self.last_ended.as_ref()?;
            if purpose.is_for_either(&last.channel, &channel) { last.other_at(purpose) } else { Some(last.at) }
        };
        let (other_reader_at, other_user_at) = (other_at(Purpose::Notifies), other_at(Purpose::Asks));
        self.last_ended = Some(LastEnded { channel, at: now, other_reader_at, other_user_at });
    }

    fn sole(&self, purpose: Purpose, now: Instant) -> Option<AgentChannel> {
        let counts = |at: Instant| now.saturating_duration_since(at) < LINGER;
        let last = self.last_ended.as_ref().filter(|last| counts(last.at));
        let channel = match (self.open.as_slice(), last) {
            ([], None) | ([_, _, ..], _) => return None,
            // After its answer, only a standing stream reaches an agent.
            ([], Some(last)) => Some(&last.channel).filter(|channel| channel.is_reached_later())?,
            ([(_, channel)], _) => channel,
        };
        let is_doubtful = last.is_some_and(|last| {
            !purpose.is_for_either(&last.channel, channel) || last.other_at(purpose).is_some_and(counts)
        });
        (!is_doubtful).then(|| channel.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    use crate::agents::{ANONYMOUS, EndpointMode, Session, Usages};
    use mcpproxy_core::Scope;
    use tokio::sync::mpsc;

    const BOTH: [Purpose; 2] = [Purpose::Notifies, Purpose::Asks];

    /// An agent with a session and, unless stated otherwise, a standing stream. Every call of it has its own channel.
    struct Agent(&'static str, Arc<Session>);

    impl Agent {
        fn without_stream(token: &'static str) -> Self {
            let usage = Usages::default().of(token);
            Self(token, Arc::new(Session::new(&usage, EndpointMode::Four, None, "{}".into())))
        }

        fn new(token: &'static str) -> Self {
            let agent = Self::without_stream(token);
            let (send, receive) = mpsc::channel(1);
            // A stream whose receiver is dropped is closed.
            std::mem::forget(receive);
            let identity = mcpproxy_core::Agent { name: token.to_owned(), scope: mcpproxy_core::Scope::everything() };
            agent.1.stands_on(send, Arc::new(identity));
            agent
        }

        fn call(&self) -> AgentChannel {
            call_of(self.0, Some(Arc::clone(&self.1)))
        }

        fn is(&self, found: Option<AgentChannel>) -> bool {
            found.is_some_and(|found| found.is_same_agent(&self.call()))
        }
    }

    fn call_of(token: &str, session: Option<Arc<Session>>) -> AgentChannel {
        let agent = mcpproxy_core::Agent { name: token.to_owned(), scope: Scope::everything() };
        let usage = Usages::default().of(token);
        AgentChannel::new(None, None, "{}".into(), (Arc::new(agent), usage), session).0
    }

    fn run(table: &mut Table, id: u64, agent: &Agent, ended: Instant) {
        table.open.push((id, agent.call()));
        table.end(id, ended);
    }

    #[test]
    fn finds_the_only_agent_with_an_open_or_just_finished_call() {
        for purpose in BOTH {
            let (anna, ben) = (Agent::new("anna"), Agent::new("ben"));
            let mut table = Table::default();
            let start = Instant::now();
            assert!(table.sole(purpose, start).is_none());
            table.open.push((1, anna.call()));
            assert!(anna.is(table.sole(purpose, start)));
            table.open.push((2, ben.call()));
            assert!(table.sole(purpose, start).is_none(), "two calls are open");
            table.end(1, start);
            assert!(table.sole(purpose, start).is_none(), "the message may be about the call that just finished");
            assert!(ben.is(table.sole(purpose, start + LINGER)), "only one call is left that it can be about");
            table.end(2, start);
            assert!(table.sole(purpose, start).is_none(), "two agents just finished");
            let later = start + LINGER / 2;
            run(&mut table, 3, &anna, later);
            run(&mut table, 4, &anna, later);
            assert!(table.sole(purpose, later).is_none(), "the other agent's call ended less than a second ago");
            assert!(anna.is(table.sole(purpose, start + LINGER)));
            assert!(table.sole(purpose, later + LINGER).is_none());
        }
    }

    /// Anna has two windows. Each may read what belongs to the other, but answers only for itself.
    #[test]
    fn sessions_with_one_token_are_one_reader_and_two_users() {
        let (one, two, ben) = (Agent::new("anna"), Agent::new("anna"), Agent::new("ben"));
        let (mut table, now) = (Table::default(), Instant::now());
        run(&mut table, 1, &one, now);
        table.open.push((2, two.call()));
        assert!(two.is(table.sole(Purpose::Notifies, now)));
        assert!(table.sole(Purpose::Asks, now).is_none());
        table.end(2, now);
        assert!(two.is(table.sole(Purpose::Notifies, now)));
        assert!(table.sole(Purpose::Asks, now).is_none());
        run(&mut table, 3, &ben, now);
        table.open.push((4, two.call()));
        assert!(BOTH.iter().all(|purpose| table.sole(*purpose, now).is_none()));
    }

    #[test]
    fn keeps_open_calls_only() {
        let agents = [Agent::new("anna"), Agent::new("ben")];
        let mut table = Table::default();
        for (id, agent) in (0..20_000).zip(agents.iter().cycle()) {
            run(&mut table, id, agent, Instant::now());
        }
        assert_eq!((table.open.len(), table.open.capacity() < 16), (0, true));
    }

    #[test]
    fn an_agents_own_finished_call_casts_no_doubt_on_its_next() {
        for (agent, purpose) in [Agent::new("anna"), Agent::without_stream("anna")].iter().zip(BOTH) {
            let (mut table, now) = (Table::default(), Instant::now());
            run(&mut table, 1, agent, now);
            table.open.push((2, agent.call()));
            assert!(agent.is(table.sole(purpose, now)));
            run(&mut table, 3, &Agent::without_stream("ben"), now);
            run(&mut table, 4, agent, now);
            assert!(table.sole(purpose, now).is_none(), "another agent's call ended before the agent's last one");
        }
    }

    #[test]
    fn agents_without_a_session_are_told_apart_by_their_tokens() {
        for (first, second, is_found) in [("a", "a", true), ("a", "b", false), (ANONYMOUS, ANONYMOUS, false)] {
            for purpose in BOTH {
                let (mut table, now) = (Table::default(), Instant::now());
                table.open.push((1, call_of(first, None)));
                assert!(table.sole(purpose, now).is_some());
                table.end(1, now);
                table.open.push((2, call_of(second, None)));
                assert_eq!(table.sole(purpose, now).is_some(), is_found, "{first} {second}");
                assert!(table.sole(purpose, now + LINGER).is_some());
            }
        }
    }

    #[test]
    fn a_session_is_another_user_than_a_request_without_one() {
        let (mut table, now) = (Table::default(), Instant::now());
        run(&mut table, 1, &Agent::new("anna"), now);
        table.open.push((2, call_of("anna", None)));
        assert!(table.sole(Purpose::Asks, now).is_none());
        assert!(table.sole(Purpose::Notifies, now).is_some());
    }

    #[test]
    fn sends_nothing_to_an_agent_without_a_stream_after_its_answer() {
        let (mut table, now) = (Table::default(), Instant::now());
        let agent = Agent::without_stream("anna");
        table.open.push((1, agent.call()));
        assert!(BOTH.iter().all(|purpose| table.sole(*purpose, now).is_some()));
        table.end(1, now);
        assert!(BOTH.iter().all(|purpose| table.sole(*purpose, now).is_none()));
    }
}
