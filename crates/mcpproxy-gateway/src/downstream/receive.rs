//! The first part of every HTTP request: finds the agent of its token, and reads its body within the limits.

use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::response::Response;
use bytes::Bytes;
use http::{HeaderMap, HeaderValue, StatusCode, header};
use http_body_util::{BodyExt, Limited};
use hyper::body::Body as _;
use mcpproxy_core::{Agent, Scope};
use mcpproxy_store::is_stored_token;

use super::challenge::{Refusal, Target};
use super::request_head::{self, HeadError};
use super::respond;
use crate::agents::{ANONYMOUS, Authenticated, Charge, Lifetime, Usage, settle};
use crate::message::{PARSE_ERROR, RpcError};
use crate::record;
use crate::state::SharedState;

/// Largest message an agent may send.
pub(crate) const BODY_MAX_BYTES: usize = 4 * 1024 * 1024;
/// Longest time to read a body that is refused.
const DISCARD_MAX: Duration = Duration::from_secs(5);
/// Bytes of refused bodies after which the gateway pauses: at most 64 MB of them are read in a second.
const DISCARD_BURST: usize = 256 * 1024;
const DISCARD_PAUSE: Duration = Duration::from_millis(4);

const NO_TOKEN: &str = "send `Authorization: Bearer TOKEN`; create a token with `mcpproxy token create NAME`\n";
const UNKNOWN_TOKEN: &str = "this token is unknown or was revoked; create one with `mcpproxy token create NAME`\n";

/// Finds the agent of the token. Without a token, the settings may allow a read-only agent.
///
/// Tokens of the gateway have a prefix. Any other token belongs to the identity provider, if the settings name one. So
/// neither kind is ever looked up as the other.
pub(super) async fn authenticate(state: &SharedState, target: Target<'_>) -> Result<Authenticated, Box<Response>> {
    let given = target.headers.get(header::AUTHORIZATION).and_then(|value| value.to_str().ok());
    let token =
        given.and_then(|value| value.split_once(' ')).filter(|(scheme, _)| scheme.eq_ignore_ascii_case("bearer"));
    let Some((_, token)) = token else {
        if !target.headers.contains_key(header::AUTHORIZATION)
            && state.snapshot.load().settings.allow_anonymous_loopback
        {
            let agent = Arc::new(Agent { name: ANONYMOUS.to_owned(), scope: Scope::read_only() });
            return Ok(Authenticated { agent, lifetime: Lifetime::UntilRevoked });
        }
        return Err(refuse(state, Refusal::of_stored(state, target, NO_TOKEN, false)).await);
    };
    let token = token.trim();
    match state.provider_tokens.accepted() {
        Some(accepted) if !is_stored_token(token) => match accepted.find(token).await {
            Ok(found) => Ok(found),
            Err(rejected) => {
                let refusal = Refusal::of_provider(state, target, &accepted.settings, &rejected);
                Err(refuse(state, refusal).await)
            }
        },
        Some(_) | None => match state.tokens.find(token).await {
            Ok(Some(agent)) => Ok(Authenticated { agent, lifetime: Lifetime::UntilRevoked }),
            Ok(None) => Err(refuse(state, Refusal::of_stored(state, target, UNKNOWN_TOKEN, true)).await),
            Err(error) => {
                tracing::error!(%error, "could not look a token up");
                Err(Box::new(respond::plain(
                    StatusCode::SERVICE_UNAVAILABLE,
                    "tokens cannot be checked at the moment\n",
                )))
            }
        },
    }
}

/// Records a refusal, at a bounded rate, and answers with it.
async fn refuse(state: &SharedState, refusal: Refusal) -> Box<Response> {
    if let Some(unrecorded) = state.rejected_tokens.count() {
        let more = if unrecorded > 0 { format!(" ({unrecorded} more since the last record)") } else { String::new() };
        let record = mcpproxy_store::NewRecord {
            message: Some(format!("{}{more}", refusal.text.trim())),
            code: Some("unauthorized".to_owned()),
            ..record::blank(mcpproxy_store::Kind::Auth, mcpproxy_store::Status::Refused)
        };
        record::note(&state.ledger, record).await;
    }
    Box::new(refusal.response())
}

/// Returns the largest size that a body may have.
pub(super) fn expected_bytes(body: &Body) -> usize {
    // A body of unknown length may become as long as the limit.
    body.size_hint().upper().and_then(|bytes| usize::try_from(bytes).ok()).unwrap_or(BODY_MAX_BYTES).min(BODY_MAX_BYTES)
}

/// Reads the body, after checking the headers and within the size limit. A large one waits until there is memory for it.
pub(super) async fn receive(
    state: &SharedState,
    agent: &Agent,
    headers: &HeaderMap,
    body: Body,
) -> Result<(Bytes, Option<Charge>), Box<Response>> {
    request_head::check(headers, BODY_MAX_BYTES).map_err(refusal)?;
    let usage = state.usages.of(&agent.name);
    let charge = match usage.receive(expected_bytes(&body)).await {
        Ok(charge) => charge,
        Err(limit) => {
            discard(&usage, body).await;
            return Err(Box::new(respond::too_many(None, limit.into())));
        }
    };
    match Limited::new(body, BODY_MAX_BYTES).collect().await {
        Ok(collected) => {
            let bytes = collected.to_bytes();
            let charge = settle(charge, bytes.len());
            Ok((bytes, charge))
        }
        Err(error) if error.is::<http_body_util::LengthLimitError>() => Err(too_large()),
        Err(_) => Err(Box::new(respond::rejected(None, RpcError::new(PARSE_ERROR, "the request ended early")))),
    }
}

/// Reads a refused body without keeping it. Many clients read no answer before they have sent everything.
///
/// One body of an agent after the other, and with pauses. Otherwise an agent that sends as fast as it can would keep the
/// CPU busy with bytes that nobody wants, and the requests of other agents would wait.
async fn discard(usage: &Usage, body: Body) {
    let mut body = Limited::new(body, BODY_MAX_BYTES);
    let read = async {
        let _turn = usage.discard_turn().await;
        let mut since_pause = 0;
        while let Some(Ok(frame)) = body.frame().await {
            since_pause += frame.data_ref().map_or(0, Bytes::len);
            if since_pause >= DISCARD_BURST {
                tokio::time::sleep(DISCARD_PAUSE).await;
                since_pause = 0;
            }
        }
    };
    let _late = tokio::time::timeout(DISCARD_MAX, read).await;
}

fn refusal(error: HeadError) -> Box<Response> {
    let (status, text) = match error {
        HeadError::NotJson => (StatusCode::UNSUPPORTED_MEDIA_TYPE, "Content-Type must be application/json\n"),
        HeadError::NotAcceptable => {
            (StatusCode::NOT_ACCEPTABLE, "Accept must name application/json and text/event-stream\n")
        }
        HeadError::TooLarge => return too_large(),
    };
    Box::new(respond::plain(status, text))
}

fn too_large() -> Box<Response> {
    let mut response = respond::plain(StatusCode::PAYLOAD_TOO_LARGE, "request body exceeds 4194304 bytes\n");
    response.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
    Box::new(response)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::agents::Usages;
    use tokio::time::Instant;

    #[tokio::test]
    async fn refused_bodies_of_an_agent_are_read_one_after_the_other_with_pauses() {
        let usages = Usages::default();
        let (greedy, other) = (usages.of("greedy"), usages.of("other"));
        let chunks = |count: usize| {
            let chunk = || Ok::<_, std::convert::Infallible>(Bytes::from(vec![b'x'; DISCARD_BURST]));
            Body::from_stream(futures::stream::iter((0..count).map(move |_| chunk())))
        };
        let began = Instant::now();
        let both = async { tokio::join!(discard(&greedy, chunks(8)), discard(&greedy, chunks(8))) };
        let small = async {
            discard(&other, chunks(1)).await;
            began.elapsed()
        };
        let (_, of_other) = tokio::join!(both, small);
        let of_both = began.elapsed();
        assert!(of_both >= DISCARD_PAUSE * 16, "{of_both:?}");
        assert!(of_other < of_both, "another agent does not wait: {of_other:?} of {of_both:?}");
    }
}
