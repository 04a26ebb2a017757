//! The user at the terminal: asked for what only they know, and signed in with it.

use anyhow::Context as _;
use bytes::Bytes;
use http::header::{CONTENT_TYPE, COOKIE, HeaderMap, HeaderName, HeaderValue, SET_COOKIE};
use http::{Method, StatusCode};
use serde_json::{Value, json};

use super::words::array;
use crate::client::{Http, Reply};
use crate::exit::{Exit, Failure};
use crate::runtime::EndSignal;
use crate::terminal::prompt::{Echo, Terminal};

const CSRF: HeaderName = HeaderName::from_static("x-csrf-token");
/// Whoever mistypes may try again; the gateway counts too.
pub(super) const TRIES: usize = 3;

pub(super) struct Person {
    terminal: Terminal,
    end: EndSignal,
}

impl Person {
    /// From here on a signal does not end us by itself, which would leave the terminal without echo.
    pub(super) fn at(terminal: Terminal) -> anyhow::Result<Self> {
        Ok(Self { terminal, end: EndSignal::listen()? })
    }

    pub(super) fn tell(&self, text: &str) -> anyhow::Result<()> {
        self.terminal.say(&format!("{}\n", text.trim_end_matches('\n')))
    }

    /// One answer. Ctrl-C, the end of input and an empty line all mean that nothing is to be decided.
    pub(super) async fn ask(&mut self, question: &str, echo: Echo) -> anyhow::Result<String> {
        let answer = tokio::select! {
            answer = self.terminal.ask(question, echo) => answer?,
            () = self.end.next() => None,
        };
        match answer.filter(|answer| !answer.is_empty()) {
            Some(answer) => Ok(answer),
            None => Err(Failure::new(Exit::Refused, "nothing was decided").into()),
        }
    }

    /// A session of this user, to be ended with `close`.
    pub(super) async fn sign_in(&mut self, http: &Http) -> anyhow::Result<Session> {
        for left in (0..TRIES).rev() {
            let name = self.ask("Name: ", Echo::Shown).await?;
            let password = self.ask("Password: ", Echo::Hidden).await?;
            let body = json!({"name": name.trim(), "password": password});
            let reply = http.ask(Method::POST, "/api/v1/login", json_headers(), Bytes::from(body.to_string())).await?;
            match reply.status {
                StatusCode::OK => return Session::open(http.clone(), &reply),
                StatusCode::UNAUTHORIZED if left > 0 => self.tell("Name or password is wrong.")?,
                StatusCode::UNAUTHORIZED => {
                    return Err(Failure::new(Exit::Refused, "name or password is wrong").into());
                }
                StatusCode::TOO_MANY_REQUESTS => {
                    let why = reply.failure().to_string();
                    return Err(Failure::new(Exit::Refused, why).hint("try again in a minute").into());
                }
                _ => return Err(reply.failure().into()),
            }
        }
        Err(Failure::new(Exit::Refused, "name or password is wrong").into())
    }
}

/// A user who is signed in, for as long as one decision takes.
pub(super) struct Session {
    http: Http,
    headers: HeaderMap,
    page_key: String,
    has_totp: bool,
}

impl Session {
    fn open(http: Http, reply: &Reply) -> anyhow::Result<Self> {
        let set = reply.headers.get(SET_COOKIE).and_then(|value| value.to_str().ok());
        let cookie = set.and_then(|set| set.split(';').next()).context("the gateway opened no session")?;
        let csrf = reply.answer.get("csrf").and_then(Value::as_str).context("the gateway opened no session")?;
        let mut headers = json_headers();
        for (name, value) in [(COOKIE, cookie), (CSRF, csrf)] {
            let mut value = HeaderValue::from_str(value).context("the gateway opened no session")?;
            value.set_sensitive(true);
            headers.insert(name, value);
        }
        let page_key = reply.answer.get("page_key").and_then(Value::as_str).context("the gateway opened no session")?;
        let has_totp = array(&reply.answer, "factors").iter().any(|factor| factor == "totp");
        Ok(Self { http, headers, page_key: page_key.to_owned(), has_totp })
    }

    /// What a yes takes beside the session, where it takes no code.
    pub(super) fn page_key(&self) -> &str {
        &self.page_key
    }

    /// Whether a code can be asked for. A passkey works in a browser only.
    pub(super) fn has_totp(&self) -> bool {
        self.has_totp
    }

    pub(super) async fn get(&self, path: &str) -> anyhow::Result<Reply> {
        self.http.ask(Method::GET, path, self.headers.clone(), Bytes::new()).await
    }

    pub(super) async fn post(&self, path: &str, body: &Value) -> anyhow::Result<Reply> {
        self.http.ask(Method::POST, path, self.headers.clone(), Bytes::from(body.to_string())).await
    }

    /// Ends it. If that fails it ends by itself, a quarter of an hour later.
    pub(super) async fn close(self) {
        let _ends_by_itself = self.post("/api/v1/logout", &json!({})).await;
    }
}

fn json_headers() -> HeaderMap {
    HeaderMap::from_iter([(CONTENT_TYPE, HeaderValue::from_static("application/json"))])
}
