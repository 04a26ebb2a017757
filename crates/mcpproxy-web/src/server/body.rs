//! Bodies of requests that have to arrive in time, and bodies of answers that tell when they end.
//!
//! A sender has ten seconds, and one more for every 16 KiB that arrived. Without a minimum rate, a byte every nine seconds
//! would hold a connection and its buffers for days. Only the time counts in which the gateway waits for bytes: while a
//! request waits for its turn, nobody reads its body, and its sender can do nothing about that.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use axum::BoxError;
use axum::body::Bytes;
use hyper::body::{Body, Frame, SizeHint};
use tokio::time::{Instant, Sleep};

use super::activity::Activity;

/// The time that a body may take.
#[derive(Clone, Copy)]
pub(super) struct BodyDeadline {
    grace: Duration,
    min_bytes_per_second: u64,
}

impl BodyDeadline {
    pub(super) const OF_STRANGERS: Self = Self { grace: Duration::from_secs(10), min_bytes_per_second: 16 * 1024 };

    /// Returns the time that a sender has who has sent this many bytes.
    fn after(self, received: u64) -> Duration {
        self.grace + Duration::from_millis(received.saturating_mul(1000) / self.min_bytes_per_second)
    }
}

#[derive(Debug, thiserror::Error)]
#[error("the request body did not arrive in time")]
struct Late;

/// The body of a request, with a deadline.
pub(super) struct TimedBody<B> {
    inner: B,
    activity: Arc<Activity>,
    deadline: BodyDeadline,
    received: u64,
    wait: Option<Wait>,
}

/// Made when the first bytes are missing. Most bodies arrive together with the head.
struct Wait {
    began: Instant,
    sleep: Pin<Box<Sleep>>,
}

impl<B: Body> TimedBody<B> {
    pub(super) fn new(inner: B, activity: Arc<Activity>, deadline: BodyDeadline) -> Self {
        if inner.is_end_stream() {
            activity.request_is_complete();
        }
        Self { inner, activity, deadline, received: 0, wait: None }
    }
}

impl<B> TimedBody<B> {
    /// Waits until the sender is late.
    fn poll_late(&mut self, context: &mut Context<'_>) -> Poll<()> {
        let allowed = self.deadline.after(self.received);
        let wait = self.wait.get_or_insert_with(|| {
            let began = Instant::now();
            Wait { began, sleep: Box::pin(tokio::time::sleep_until(began + allowed)) }
        });
        let deadline = wait.began + allowed;
        if wait.sleep.deadline() != deadline {
            wait.sleep.as_mut().reset(deadline);
        }
        wait.sleep.as_mut().poll(context)
    }
}

impl<B: Body<Data = Bytes> + Unpin> Body for TimedBody<B>
where
    B::Error: Into<BoxError>,
{
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        let this = &mut *self;
        match Pin::new(&mut this.inner).poll_frame(context) {
            Poll::Ready(Some(Ok(frame))) => {
                let bytes = frame.data_ref().map_or(0, Bytes::len);
                this.received = this.received.saturating_add(u64::try_from(bytes).unwrap_or(u64::MAX));
                if this.inner.is_end_stream() {
                    this.activity.request_is_complete();
                }
                Poll::Ready(Some(Ok(frame)))
            }
            Poll::Ready(Some(Err(error))) => Poll::Ready(Some(Err(error.into()))),
            Poll::Ready(None) => {
                this.activity.request_is_complete();
                Poll::Ready(None)
            }
            Poll::Pending => {
                ready!(this.poll_late(context));
                this.activity.request_is_late();
                Poll::Ready(Some(Err(Late.into())))
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        self.inner.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.inner.size_hint()
    }
}

/// The body of an answer. The connection is busy until it is dropped.
///
/// HTTP/2 takes a part of the body when the peer has room for at least one byte, and keeps the rest of that part itself. So
/// parts are small there. A peer that makes no room for a whole part does not read its answer (`activity.rs`).
pub(super) struct AnswerBody<B> {
    inner: B,
    activity: Arc<Activity>,
    /// The rest of a part that was too large.
    rest: Bytes,
    has_begun: bool,
}

/// Largest part of an answer for HTTP/2, which is also its usual frame.
const PART_MAX_BYTES: usize = 16 * 1024;

impl<B> AnswerBody<B> {
    pub(super) fn new(inner: B, activity: Arc<Activity>) -> Self {
        Self { inner, activity, rest: Bytes::new(), has_begun: false }
    }

    /// Keeps what is too much for one part of HTTP/2.
    fn part_of(&mut self, frame: Frame<Bytes>) -> Frame<Bytes> {
        let mut bytes = match frame.into_data() {
            Ok(bytes) => bytes,
            Err(trailers) => return trailers,
        };
        if bytes.len() > PART_MAX_BYTES {
            self.rest = bytes.split_off(PART_MAX_BYTES);
        }
        self.has_begun = true;
        self.activity.part_is_handed();
        Frame::data(bytes)
    }
}

impl<B> Drop for AnswerBody<B> {
    fn drop(&mut self) {
        self.activity.answer_ends();
    }
}

impl<B: Body<Data = Bytes> + Unpin> Body for AnswerBody<B> {
    type Data = Bytes;
    type Error = B::Error;

    fn poll_frame(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, B::Error>>> {
        let this = &mut *self;
        if !this.activity.is_one_of_several() {
            return Pin::new(&mut this.inner).poll_frame(context);
        }
        this.activity.part_is_wanted();
        let frame = if this.rest.is_empty() {
            match ready!(Pin::new(&mut this.inner).poll_frame(context)) {
                Some(Ok(frame)) => frame,
                ended_or_failed => return Poll::Ready(ended_or_failed),
            }
        } else {
            Frame::data(std::mem::take(&mut this.rest))
        };
        Poll::Ready(Some(Ok(this.part_of(frame))))
    }

    /// With HTTP/2, the last part does not end the body. This value lives until the peer has room for more, so that an
    /// answer that nobody reads is noticed however short it is.
    fn is_end_stream(&self) -> bool {
        !self.has_begun && self.inner.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.inner.size_hint()
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt as _;
    use http_body_util::BodyExt as _;

    use super::*;

    /// A body of which nothing more arrives.
    struct Stuck;

    impl Body for Stuck {
        type Data = Bytes;
        type Error = BoxError;

        fn poll_frame(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
            Poll::Pending
        }
    }

    #[test]
    fn a_sender_gets_more_time_with_every_byte() {
        let check = |received, seconds| {
            assert_eq!(BodyDeadline::OF_STRANGERS.after(received), Duration::from_secs(seconds), "{received}");
        };
        check(0, 10);
        check(16 * 1024, 11);
        check(4 * 1024 * 1024, 266);
    }

    #[tokio::test]
    async fn a_body_that_does_not_arrive_is_late() {
        for (grace, is_late) in [(Duration::ZERO, true), (Duration::from_secs(3600), false)] {
            let activity = Arc::new(Activity::new(std::time::Instant::now()));
            let deadline = BodyDeadline { grace, ..BodyDeadline::OF_STRANGERS };
            let mut body = TimedBody::new(Stuck, Arc::clone(&activity), deadline);
            let frame = if is_late { body.frame().await } else { body.frame().now_or_never().flatten() };
            assert_eq!((frame.is_some_and(|frame| frame.is_err()), activity.is_late()), (is_late, is_late));
        }
    }

    #[tokio::test]
    async fn an_answer_of_http2_comes_in_small_parts() {
        let text = vec![b'x'; 2 * PART_MAX_BYTES + 1];
        let connection = Arc::new(Activity::new(std::time::Instant::now()));
        let whole = |activity: Arc<Activity>| AnswerBody::new(axum::body::Body::from(text.clone()), activity);
        let mut body = whole(Activity::of_request(&connection));
        let mut sizes = Vec::new();
        while let Some(frame) = body.frame().await {
            sizes.push(frame.unwrap().into_data().unwrap().len());
            assert!(!body.is_end_stream());
        }
        assert_eq!(sizes, [PART_MAX_BYTES, PART_MAX_BYTES, 1]);
        let mut body = whole(connection);
        assert_eq!(body.frame().await.unwrap().unwrap().into_data().unwrap().len(), text.len());
        assert!(body.is_end_stream(), "with HTTP/1, nothing changes");
    }
}
