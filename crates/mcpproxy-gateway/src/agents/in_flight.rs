//! A request in progress: its future, and the events for the agent before the answer.
//!
//! Dropping it does not stop the work. A call that began is carried to its end and recorded, even if its agent hangs
//! up.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use super::budget::Charge;
use super::channel::{Event, Progress};
use super::session::OpenRequest;
use crate::message::Reply;

type Work = Pin<Box<dyn Future<Output = Reply> + Send>>;

pub(crate) struct InFlight {
    work: Option<Work>,
    done: Option<Reply>,
    events: mpsc::Receiver<Box<Event>>,
    on_drop: OnDrop,
    cancel: CancellationToken,
    _open_request: Option<OpenRequest>,
    progress: Option<Arc<Progress>>,
}

/// The meaning of a lost connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OnDrop {
    /// Without sessions, closing the stream cancels the request.
    Cancel,
    /// With sessions, only `notifications/cancelled` cancels. A lost connection means nothing.
    Finish,
}

pub(crate) enum Step {
    Event(Event),
    Done(Reply),
}

impl InFlight {
    pub(crate) fn new(
        work: Work,
        events: mpsc::Receiver<Box<Event>>,
        on_drop: OnDrop,
        cancel: CancellationToken,
        open_request: Option<OpenRequest>,
    ) -> Self {
        Self { work: Some(work), done: None, events, on_drop, cancel, _open_request: open_request, progress: None }
    }

    /// A request that is answered already.
    pub(crate) fn answered(reply: Reply) -> Self {
        let (events, cancel) = (mpsc::channel(1).1, CancellationToken::new());
        Self {
            work: None,
            done: Some(reply),
            events,
            on_drop: OnDrop::Finish,
            cancel,
            _open_request: None,
            progress: None,
        }
    }

    /// Sets where the request counts its answer.
    pub(crate) fn counted_by(self, progress: Arc<Progress>) -> Self {
        let mut counted = self;
        counted.progress = Some(progress);
        counted
    }

    /// Takes the memory of the answer. Whoever sends the answer keeps it until the agent has read it.
    pub(crate) fn take_charge(&self, reply: &Reply) -> Option<Charge> {
        self.progress.as_ref()?.take_charge(reply.as_ref().map_or(0, String::len))
    }

    pub(crate) fn cancel_token(&self) -> CancellationToken {
        self.cancel.clone()
    }

    /// Returns the next event for the agent. The answer comes last.
    pub(crate) async fn next(&mut self) -> Step {
        loop {
            if let Ok(event) = self.events.try_recv() {
                return Step::Event(*event);
            }
            if let Some(reply) = self.done.take() {
                return Step::Done(reply);
            }
            let Some(work) = self.work.as_mut() else { std::future::pending().await };
            tokio::select! {
                biased;
                Some(event) = self.events.recv() => return Step::Event(*event),
                reply = work => {
                    self.work = None;
                    self.done = Some(reply);
                }
            }
        }
    }
}

impl Drop for InFlight {
    /// Lets the work finish in the background. Nobody sends its answer, so the answer stops counting. Otherwise a
    /// channel that outlives the request would keep the memory.
    fn drop(&mut self) {
        let progress = self.progress.take();
        let forget = move || drop(progress.and_then(|progress| progress.take_charge(0)));
        let Some(work) = self.work.take() else { return forget() };
        if self.on_drop == OnDrop::Cancel {
            self.cancel.cancel();
        }
        tokio::spawn(async move {
            let _unsent = work.await;
            forget();
        });
    }
}

#[cfg(test)]
mod tests {
    use super::super::channel::AgentChannel;
    use super::super::usage::Usages;
    use super::*;
    use futures::FutureExt as _;
    use mcpproxy_core::{Agent, Scope};

    /// The channel of a call can outlive it: a connection remembers the agent of its last call.
    #[tokio::test]
    async fn an_answer_that_nobody_sends_stops_counting() {
        let usage = Usages::default().of("anna");
        let agent = Arc::new(Agent { name: "anna".to_owned(), scope: Scope::everything() });
        let (channel, events) = AgentChannel::new(None, None, "{}".into(), (agent, Arc::clone(&usage)), None);
        let working = channel.clone();
        let work = Box::pin(async move {
            working.expect_answer().await;
            working.count_answer(100 * 1024 * 1024);
            Ok("{}".to_owned())
        });
        let in_flight = InFlight::new(work, events, OnDrop::Finish, CancellationToken::new(), None);
        drop(in_flight.counted_by(channel.progress()));
        let metrics = tokio::runtime::Handle::current().metrics();
        while metrics.num_alive_tasks() > 0 {
            tokio::task::yield_now().await;
        }
        assert!(usage.expect_answer().now_or_never().is_some());
        drop(channel);
    }
}
