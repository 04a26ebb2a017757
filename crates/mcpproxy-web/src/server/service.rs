//! The routes as one connection sees them: requests carry the peer of their connection.

use std::task::{Context, Poll};

use http::Request;
use tower::Service;

use crate::peer::Peer;

/// Adds the peer to every request.
#[derive(Clone)]
pub(super) struct ConnectionService<S> {
    app: S,
    peer: Peer,
}

impl<S> ConnectionService<S> {
    pub(super) fn new(app: S, peer: Peer) -> Self {
        Self { app, peer }
    }
}

impl<S: Service<Request<B>>, B> Service<Request<B>> for ConnectionService<S> {
    type Response = S::Response;
    type Error = S::Error;
    type Future = S::Future;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.app.poll_ready(context)
    }

    fn call(&mut self, mut request: Request<B>) -> Self::Future {
        request.extensions_mut().insert(self.peer);
        self.app.call(request)
    }
}
