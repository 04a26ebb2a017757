//! The routes as one connection sees them: requests carry the peer of their connection and a body with a deadline.

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use axum::body::Body;
use axum::response::{IntoResponse as _, Response};
use http::Request;
use http::header::{CONNECTION, HeaderValue};
use tower::Service;

use super::body::{AnswerBody, BodyDeadline, TimedBody};
use super::connections::Activity;
use crate::peer::Peer;
use crate::problem::Problem;

/// Adds the peer to every request, and keeps the connection's activity up to date.
#[derive(Clone)]
pub(super) struct ConnectionService<S> {
    app: S,
    peer: Peer,
    activity: Arc<Activity>,
}

impl<S> ConnectionService<S> {
    pub(super) fn new(app: S, peer: Peer, activity: Arc<Activity>) -> Self {
        Self { app, peer, activity }
    }
}

impl<S, B> Service<Request<B>> for ConnectionService<S>
where
    S: Service<Request<TimedBody<B>>, Response = Response, Error = Infallible>,
    S::Future: Unpin,
    B: hyper::body::Body,
{
    type Response = Response<AnswerBody<Body>>;
    type Error = Infallible;
    type Future = Answering<S::Future>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        self.app.poll_ready(context)
    }

    fn call(&mut self, mut request: Request<B>) -> Self::Future {
        self.activity.request_begins();
        request.extensions_mut().insert(self.peer);
        if self.activity.is_ambiguous() {
            return Answering { inner: None, activity: Arc::clone(&self.activity) };
        }
        let request = request.map(|body| TimedBody::new(body, Arc::clone(&self.activity), BodyDeadline::OF_STRANGERS));
        Answering { inner: Some(self.app.call(request)), activity: Arc::clone(&self.activity) }
    }
}

/// An answer in the making. A named type, because a boxed future would be an allocation for every request.
pub(super) struct Answering<F> {
    /// `None` if the request is refused.
    inner: Option<F>,
    activity: Arc<Activity>,
}

impl<F: Future<Output = Result<Response, Infallible>> + Unpin> Future for Answering<F> {
    type Output = Result<Response<AnswerBody<Body>>, Infallible>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let mut answer = match &mut self.inner {
            Some(inner) => match ready!(Pin::new(inner).poll(context)) {
                Ok(answer) => answer,
            },
            None => closing(Problem::AMBIGUOUS_LENGTH),
        };
        // Routes report a late body as one that is incomplete or too large. Only we know better.
        if self.activity.is_late() {
            answer = closing(Problem::BODY_TOO_SLOW);
        }
        if answer.status().is_success() {
            self.activity.was_useful();
        }
        Poll::Ready(Ok(answer.map(|body| AnswerBody::new(body, Arc::clone(&self.activity)))))
    }
}

/// An answer after which the connection is closed, because the rest of the request cannot be read.
fn closing(problem: Problem) -> Response {
    let mut answer = problem.into_response();
    answer.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
    answer
}
