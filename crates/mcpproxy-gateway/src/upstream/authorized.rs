//! Sends requests with the access token of a server that asks for OAuth.
//!
//! A 401 means that the server did not process the request. So the request is sent again, once, with a renewed token. A
//! server without a sign-in, and one with an `Authorization` header in the settings, get the request as it is.

use std::sync::Arc;

use bytes::Bytes;
use http::{HeaderMap, Method, StatusCode, header};
use url::Url;

use super::client::{Answer, Client};
use super::error::UpstreamError;
use crate::oauth::{SignInNeed, Tokens};

/// A request that may be sent twice.
pub(super) struct Outgoing<'a> {
    pub(super) method: Method,
    pub(super) url: &'a Url,
    pub(super) headers: HeaderMap,
    pub(super) body: Bytes,
}

pub(super) async fn send(
    client: &Arc<Client>,
    tokens: Option<&Arc<Tokens>>,
    outgoing: Outgoing<'_>,
) -> Result<Answer, UpstreamError> {
    let Outgoing { method, url, mut headers, body } = outgoing;
    let Some(tokens) = tokens else { return client.send(method, url, headers, body).await };
    let needed = |need: SignInNeed| UpstreamError::SignIn(Box::new(tokens.required(need)));
    let token = tokens.authorization().await.map_err(needed)?;
    // Without a token there is nothing to renew, and no reason to copy the headers.
    let spare =
        (token.is_some() || tokens.signs_in_by_itself()).then(|| (method.clone(), headers.clone(), body.clone()));
    if let Some(token) = &token {
        headers.insert(header::AUTHORIZATION, token.clone());
    }
    let answer = client.send(method, url, headers, body).await?;
    if answer.status != StatusCode::UNAUTHORIZED || !tokens.is_asked(&answer.headers) {
        return scoped(tokens, answer);
    }
    let renewed = Box::pin(tokens.after_401(token.as_ref(), &answer.headers)).await.map_err(needed)?;
    drop(answer);
    let Some((method, mut headers, body)) = spare else { return Err(needed(tokens.reject())) };
    headers.insert(header::AUTHORIZATION, renewed);
    let again = client.send(method, url, headers, body).await?;
    if again.status == StatusCode::UNAUTHORIZED {
        return Err(needed(tokens.reject()));
    }
    scoped(tokens, again)
}

/// Refuses an answer that asks for a larger scope. A user has to agree to it.
fn scoped(tokens: &Tokens, answer: Answer) -> Result<Answer, UpstreamError> {
    if answer.status == StatusCode::FORBIDDEN
        && let Some(need) = tokens.after_403(&answer.headers)
    {
        return Err(UpstreamError::SignIn(Box::new(tokens.required(need))));
    }
    Ok(answer)
}
