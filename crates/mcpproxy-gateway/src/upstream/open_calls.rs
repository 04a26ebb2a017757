//! Open calls on an HTTP link with sessions, to find the agent of a message outside of any answer.
//!
//! The table holds open calls only, so its size is the number of calls in flight. A finished call still counts for a
//! second, because a message may arrive after the answer. Two facts are enough to remember all finished calls: the last
//! one, and when the last call of any *other* agent ended. So neither memory nor time grows with the call rate.
//!
//! A finished call counts beside an open one too. Otherwise a late message about Anna's call would reach Ben, whose
//! call happens to be open.

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
    /// The end of the last call by an agent other than this one.
    other_agent_at: Option<Instant>,
}

impl OpenCalls {
    pub(crate) fn begin(&self, id: u64, channel: AgentChannel) {
        self.table().open.push((id, channel));
    }

    pub(crate) fn end(&self, id: u64) {
        self.table().end(id, Instant::now());
    }

    /// Returns the only agent with an open or just finished call. In doubt returns none: an agent must not read what
    /// belongs to another.
    pub(crate) fn sole(&self) -> Option<AgentChannel> {
        self.table().sole(Instant::now())
    }

    fn table(&self) -> MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Table {
    fn end(&mut self, id: u64, now: Instant) {
        let Some(index) = self.open.iter().position(|(open, _)| *open == id) else { return };
        let (_, channel) = self.open.swap_remove(index);
        let other_agent_at = self.last_ended.as_ref().and_then(|last| match last.channel.is_same_agent(&channel) {
            true => last.other_agent_at,
            false => Some(last.at),
        });
        self.last_ended = Some(LastEnded { channel, at: now, other_agent_at });
    }

    fn sole(&self, now: Instant) -> Option<AgentChannel> {
        let counts = |at: Instant| now.saturating_duration_since(at) < LINGER;
        let last = self.last_ended.as_ref().filter(|last| counts(last.at));
        let channel = match (self.open.as_slice(), last) {
            ([], None) | ([_, _, ..], _) => return None,
            // After its answer, only a standing stream reaches an agent.
            ([], Some(last)) => Some(&last.channel).filter(|channel| channel.is_reached_later())?,
            ([(_, channel)], _) => channel,
        };
        let is_doubtful =
            last.is_some_and(|last| !last.channel.is_same_agent(channel) || last.other_agent_at.is_some_and(counts));
        (!is_doubtful).then(|| channel.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    use crate::agents::{ANONYMOUS, EndpointMode, Session};
    use mcpproxy_core::Scope;
    use tokio::sync::mpsc;

    /// An agent with a session and, unless stated otherwise, a standing stream. Every call of it has its own channel.
    struct Agent(Arc<Session>);

    impl Agent {
        fn without_stream() -> Self {
            Self(Arc::new(Session::new("agent".to_owned(), EndpointMode::Four, None, "{}".into())))
        }

        fn new() -> Self {
            let agent = Self::without_stream();
            agent.0.stands_on(mpsc::channel(1).0);
            agent
        }

        fn call(&self) -> AgentChannel {
            call_of("agent", Some(Arc::clone(&self.0)))
        }

        fn is(&self, found: Option<AgentChannel>) -> bool {
            found.is_some_and(|found| found.is_same_agent(&self.call()))
        }
    }

    fn call_of(name: &str, session: Option<Arc<Session>>) -> AgentChannel {
        let agent = mcpproxy_core::Agent { name: name.to_owned(), scope: Scope::everything() };
        AgentChannel::new(None, None, "{}".into(), Arc::new(agent), session).0
    }

    fn run(table: &mut Table, id: u64, agent: &Agent, ended: Instant) {
        table.open.push((id, agent.call()));
        table.end(id, ended);
    }

    #[test]
    fn finds_the_only_agent_with_an_open_or_just_finished_call() {
        let (anna, ben) = (Agent::new(), Agent::new());
        let mut table = Table::default();
        let start = Instant::now();
        assert!(table.sole(start).is_none());
        table.open.push((1, anna.call()));
        assert!(anna.is(table.sole(start)));
        table.open.push((2, ben.call()));
        assert!(table.sole(start).is_none(), "two calls are open");
        table.end(1, start);
        assert!(table.sole(start).is_none(), "the message may be about the call that just finished");
        assert!(ben.is(table.sole(start + LINGER)), "only one call is left that it can be about");
        table.end(2, start);
        assert!(table.sole(start).is_none(), "two agents just finished");
        let later = start + LINGER / 2;
        run(&mut table, 3, &anna, later);
        run(&mut table, 4, &anna, later);
        assert!(table.sole(later).is_none(), "the other agent's call ended less than a second ago");
        assert!(anna.is(table.sole(start + LINGER)));
        assert!(table.sole(later + LINGER).is_none());
    }

    #[test]
    fn keeps_open_calls_only() {
        let agents = [Agent::new(), Agent::new()];
        let mut table = Table::default();
        for (id, agent) in (0..20_000).zip(agents.iter().cycle()) {
            run(&mut table, id, agent, Instant::now());
        }
        assert_eq!((table.open.len(), table.open.capacity() < 16), (0, true));
    }

    #[test]
    fn an_agents_own_finished_call_casts_no_doubt_on_its_next() {
        for agent in [Agent::new(), Agent::without_stream()] {
            let (mut table, now) = (Table::default(), Instant::now());
            run(&mut table, 1, &agent, now);
            table.open.push((2, agent.call()));
            assert!(agent.is(table.sole(now)));
            let other = Agent::without_stream();
            run(&mut table, 3, &other, now);
            run(&mut table, 4, &agent, now);
            assert!(table.sole(now).is_none(), "another agent's call ended before the agent's last one");
        }
    }

    #[test]
    fn agents_without_a_session_are_told_apart_by_their_tokens() {
        for (first, second, is_found) in [("a", "a", true), ("a", "b", false), (ANONYMOUS, ANONYMOUS, false)] {
            let (mut table, now) = (Table::default(), Instant::now());
            table.open.push((1, call_of(first, None)));
            assert!(table.sole(now).is_some());
            table.end(1, now);
            table.open.push((2, call_of(second, None)));
            assert_eq!(table.sole(now).is_some(), is_found, "{first} {second}");
            assert!(table.sole(now + LINGER).is_some());
        }
    }

    #[test]
    fn a_session_is_another_agent_than_a_request_without_one() {
        let (mut table, now) = (Table::default(), Instant::now());
        run(&mut table, 1, &Agent::new(), now);
        table.open.push((2, call_of("agent", None)));
        assert!(table.sole(now).is_none());
    }

    #[test]
    fn sends_nothing_to_an_agent_without_a_stream_after_its_answer() {
        let (mut table, now) = (Table::default(), Instant::now());
        let agent = Agent::without_stream();
        table.open.push((1, agent.call()));
        assert!(table.sole(now).is_some());
        table.end(1, now);
        assert!(table.sole(now).is_none());
    }
}
