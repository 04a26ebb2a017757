//! The routes as one connection sees them: requests carry the peer of their connection and a body with a deadline.
//!
//! A request of HTTP/2 is brought into the form of HTTP/1, so that everything behind this sees one form: the host is in the
//! header `Host`, and the URI has only a path.

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use axum::body::Body;
use axum::response::{IntoResponse as _, Response};
use http::header::{CONNECTION, HOST, HeaderValue};
use http::{Request, Uri};
use tower::Service;

use super::activity::Activity;
use super::body::{AnswerBody, BodyDeadline, TimedBody};
use crate::peer::Peer;
use crate::problem::Problem;

/// Adds the peer to every request, and keeps the connection's activity up to date.
#[derive(Clone)]
pub(super) struct ConnectionService<S> {
    app: S,
    peer: Peer,
    activity: Arc<Activity>,
    has_concurrent_requests: bool,
}

impl<S> ConnectionService<S> {
    pub(super) fn new(app: S, peer: Peer, activity: Arc<Activity>) -> Self {
        Self { app, peer, activity, has_concurrent_requests: false }
    }

    /// Serves HTTP/2, which can have several requests at a time.
    pub(super) fn with_concurrent_requests(self) -> Self {
        Self { has_concurrent_requests: true, ..self }
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
        let activity = if self.has_concurrent_requests {
            name_host(&mut request);
            Activity::of_request(&self.activity)
        } else {
            Arc::clone(&self.activity)
        };
        activity.request_begins();
        request.extensions_mut().insert(self.peer);
        if activity.is_ambiguous() {
            return Answering { inner: None, activity };
        }
        let request = request.map(|body| TimedBody::new(body, Arc::clone(&activity), BodyDeadline::OF_STRANGERS));
        Answering { inner: Some(self.app.call(request)), activity }
    }
}

/// Moves the host of HTTP/2 from the URI to the header. If the request has both and they differ, it keeps both, and the
/// guard accepts it only if it knows both.
fn name_host<B>(request: &mut Request<B>) {
    let Some(authority) = request.uri().authority().cloned() else { return };
    let Ok(host) = HeaderValue::from_str(authority.as_str()) else { return };
    if *request.headers_mut().entry(HOST).or_insert_with(|| host.clone()) == host
        && let Some(path) = request.uri().path_and_query().cloned()
    {
        *request.uri_mut() = Uri::from(path);
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
            None => closing(Problem::AMBIGUOUS_LENGTH, &self.activity),
        };
        // Routes report a late body as one that is incomplete or too large. Only we know better.
        if self.activity.is_late() {
            answer = closing(Problem::BODY_TOO_SLOW, &self.activity);
        }
        if answer.status().is_success() {
            self.activity.was_useful();
        }
        Poll::Ready(Ok(answer.map(|body| AnswerBody::new(body, Arc::clone(&self.activity)))))
    }
}

/// An answer after which the connection is closed, because the rest of the request cannot be read. HTTP/2 only ends the
/// request.
fn closing(problem: Problem, activity: &Activity) -> Response {
    let mut answer = problem.into_response();
    if !activity.is_one_of_several() {
        answer.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
    }
    answer
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_host_is_in_the_header() {
        let check = |uri: &'static str, host: Option<&str>, expected: (&str, Option<&str>)| {
            let mut request = Request::new(());
            *request.uri_mut() = Uri::from_static(uri);
            if let Some(host) = host {
                request.headers_mut().insert(HOST, host.parse().unwrap());
            }
            name_host(&mut request);
            let named = request.headers().get(HOST).map(|host| host.to_str().unwrap());
            assert_eq!((request.uri().to_string().as_str(), named), expected);
        };
        check("https://localhost:1/a?b", None, ("/a?b", Some("localhost:1")));
        check("https://localhost:1/", Some("localhost:1"), ("/", Some("localhost:1")));
        check("https://evil.example/", Some("localhost:1"), ("https://evil.example/", Some("localhost:1")));
        check("/a", Some("localhost:1"), ("/a", Some("localhost:1")));
        check("/a", None, ("/a", None));
    }
}
