//! HTTP responses: one JSON message, or an event stream if there is more to send.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::response::Response;
use bytes::Bytes;
use futures::Stream;
use http::{HeaderValue, StatusCode, header};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use crate::agents::{Charge, Event, InFlight, InUse, Lifetime, Parked, Session, Step};
use crate::message::{
    self, AGENT_LIMIT, HEADER_MISMATCH, INVALID_PARAMS, METHOD_NOT_FOUND, MISSING_CAPABILITY, Reply, RpcError,
    UNSUPPORTED_VERSION,
};
use crate::protocol::Era;

/// Interval of comments that keep proxies from closing an idle stream.
const KEEP_ALIVE: Duration = Duration::from_secs(15);
/// Seconds after which an agent at one of its limits may try again.
const RETRY_AFTER_S: &str = "1";

pub(crate) fn json(status: StatusCode, text: String) -> Response {
    json_of(status, text.into())
}

fn json_of(status: StatusCode, text: Bytes) -> Response {
    let mut response = Response::new(Body::from(text));
    *response.status_mut() = status;
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}

/// A message that counts for its agent until it is written to the connection.
struct Held {
    text: String,
    _charge: Charge,
}

impl AsRef<[u8]> for Held {
    fn as_ref(&self) -> &[u8] {
        self.text.as_bytes()
    }
}

fn held(text: String, charge: Option<Charge>) -> Bytes {
    match charge {
        Some(charge) => Bytes::from_owner(Held { text, _charge: charge }),
        None => text.into(),
    }
}

pub(crate) fn plain(status: StatusCode, text: &'static str) -> Response {
    let mut response = Response::new(Body::from(text));
    *response.status_mut() = status;
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("text/plain; charset=utf-8"));
    response
}

/// As [`plain`], for a text that is put together.
pub(crate) fn plain_text(status: StatusCode, text: String) -> Response {
    let mut response = plain(status, "");
    *response.body_mut() = Body::from(text);
    response
}

pub(crate) fn empty(status: StatusCode) -> Response {
    let mut response = Response::new(Body::empty());
    *response.status_mut() = status;
    response
}

/// Rejects an invalid message. Repeats its id if it could be read.
pub(crate) fn rejected(id: Option<&str>, error: RpcError) -> Response {
    if error.code == AGENT_LIMIT {
        return too_many(id, error);
    }
    let status = match error.code {
        METHOD_NOT_FOUND => StatusCode::NOT_FOUND,
        _ => StatusCode::BAD_REQUEST,
    };
    json(status, message::response(id.unwrap_or("null"), &Err(error)))
}

/// Refuses a request of an agent that is at one of its limits.
pub(crate) fn too_many(id: Option<&str>, error: RpcError) -> Response {
    let mut response = json(StatusCode::TOO_MANY_REQUESTS, message::response(id.unwrap_or("null"), &Err(error)));
    response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from_static(RETRY_AFTER_S));
    response
}

/// Answers a request that was processed.
pub(crate) fn answer(id: &str, reply: &Reply, era: Era, has_session: bool, charge: Option<Charge>) -> Response {
    if let Err(error) = reply
        && error.code == AGENT_LIMIT
    {
        return too_many(Some(id), error.clone());
    }
    let status = match (reply, era) {
        (Err(error), Era::Modern) => match error.code {
            METHOD_NOT_FOUND => StatusCode::NOT_FOUND,
            HEADER_MISMATCH | MISSING_CAPABILITY | UNSUPPORTED_VERSION => StatusCode::BAD_REQUEST,
            _ => StatusCode::OK,
        },
        // Inside a session, a 404 would mean that the session is gone.
        (Err(error), Era::Legacy) if !has_session => match error.code {
            METHOD_NOT_FOUND => StatusCode::NOT_FOUND,
            INVALID_PARAMS => StatusCode::BAD_REQUEST,
            _ => StatusCode::OK,
        },
        (Err(_), Era::Legacy) | (Ok(_), Era::Modern | Era::Legacy) => StatusCode::OK,
    };
    json_of(status, held(message::response(id, reply), charge))
}

/// The way of a server's request to the agent of a stream.
pub(crate) enum ServerRequestRoute {
    /// Send it on the stream. The answer comes in a request of its own.
    OnStream(Arc<Session>),
    /// End the stream with it. The agent sends its request again with the answer.
    ByReturn { parked: Parked, agent: String, subject: String },
    /// The agent cannot answer.
    Never,
}

/// Streams a request to its end, beginning with the first event.
pub(crate) fn stream(first: String, in_flight: InFlight, id: String, route: ServerRequestRoute) -> Response {
    let following = futures::stream::unfold(
        (Some(first), Some(in_flight), id, route),
        |(first, in_flight, id, route)| async move {
            if let Some(first) = first {
                return Some((event(&first), (None, in_flight, id, route)));
            }
            let mut in_flight = in_flight?;
            loop {
                let step = tokio::select! {
                    step = in_flight.next() => step,
                    () = tokio::time::sleep(KEEP_ALIVE) => return Some((keep_alive(), (None, Some(in_flight), id, route))),
                };
                match step {
                    Step::Event(Event::Notify(text)) => {
                        return Some((event(&text), (None, Some(in_flight), id, route)));
                    }
                    Step::Event(Event::Ask(question)) => match route {
                        ServerRequestRoute::OnStream(ref session) => {
                            return Some((event(&session.ask(question)), (None, Some(in_flight), id, route)));
                        }
                        ServerRequestRoute::ByReturn { parked, agent, subject } => {
                            let reply = Ok(parked.park(in_flight, question, &agent, subject));
                            return Some((
                                event(&message::response(&id, &reply)),
                                (None, None, id, ServerRequestRoute::Never),
                            ));
                        }
                        // Dropping the request tells the server that there is no answer.
                        ServerRequestRoute::Never => {}
                    },
                    Step::Done(reply) => {
                        let charge = in_flight.take_charge(&reply);
                        let last = held(event_text(&message::response(&id, &reply)), charge);
                        return Some((Ok(last), (None, None, id, route)));
                    }
                }
            }
        },
    );
    events(following)
}

/// Streams notifications until either side closes, the session ends, the token expires or the gateway stops. The stream
/// counts for its agent until then.
pub(crate) fn standing(
    first: Option<String>,
    (receive, in_use): (mpsc::Receiver<String>, InUse),
    lifetime: Lifetime,
    ended: CancellationToken,
    stopping: CancellationToken,
) -> Response {
    let state = (first, (receive, in_use), ended, stopping);
    let following = futures::stream::unfold(state, move |(first, (mut receive, in_use), ended, stopping)| async move {
        if let Some(first) = first {
            return Some((event(&first), (None, (receive, in_use), ended, stopping)));
        }
        tokio::select! {
            () = ended.cancelled() => None,
            () = stopping.cancelled() => None,
            () = lifetime.expired() => None,
            text = receive.recv() => text.map(|text| (event(&text), (None, (receive, in_use), ended, stopping))),
            () = tokio::time::sleep(KEEP_ALIVE) => Some((keep_alive(), (None, (receive, in_use), ended, stopping))),
        }
    });
    events(following)
}

fn events(stream: impl Stream<Item = Result<Bytes, Infallible>> + Send + 'static) -> Response {
    let mut response = Response::new(Body::from_stream(stream));
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    headers.insert("x-accel-buffering", HeaderValue::from_static("no"));
    response
}

fn event(text: &str) -> Result<Bytes, Infallible> {
    Ok(event_text(text).into())
}

fn event_text(text: &str) -> String {
    format!("event: message\ndata: {}\n\n", message::one_line(text))
}

fn keep_alive() -> Result<Bytes, Infallible> {
    Ok(Bytes::from_static(b": keep-alive\n\n"))
}
