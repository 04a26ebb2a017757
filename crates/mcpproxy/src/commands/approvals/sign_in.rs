//! Signs in the user at the terminal.

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
use crate::terminal::size::prose_columns;
use crate::terminal::wrap;

const CSRF: HeaderName = HeaderName::from_static("x-csrf-token");
/// Attempts for a name, password or code. The gateway has its own limit.
pub(in crate::commands) const TRIES: usize = 3;

pub(in crate::commands) struct UserAtTerminal {
    terminal: Terminal,
    end: EndSignal,
}

impl UserAtTerminal {
    /// Takes over signal handling, so that Ctrl-C during a password prompt does not leave the terminal without echo.
    pub(in crate::commands) fn at(terminal: Terminal) -> anyhow::Result<Self> {
        Ok(Self { terminal, end: EndSignal::listen()? })
    }

    pub(in crate::commands) fn tell(&self, text: &str) -> anyhow::Result<()> {
        self.terminal.say(&format!("{}\n", text.trim_end_matches('\n')))
    }

    /// Asks for one line. Ctrl-C, the end of input and an empty line all mean that the user decides nothing.
    pub(in crate::commands) async fn ask(&mut self, question: &str, echo: Echo) -> anyhow::Result<String> {
        match self.next_line(question, echo).await?.filter(|answer| !answer.is_empty()) {
            Some(answer) => Ok(answer),
            None => Err(Failure::new(Exit::Refused, "You made no decision, so nothing changed.").into()),
        }
    }

    /// Asks for one line, which may be empty. Returns `None` after Ctrl-C and at the end of the input.
    pub(in crate::commands) async fn ask_freely(&mut self, question: &str) -> anyhow::Result<Option<String>> {
        self.next_line(question, Echo::Shown).await
    }

    async fn next_line(&mut self, question: &str, echo: Echo) -> anyhow::Result<Option<String>> {
        tokio::select! {
            answer = self.terminal.ask(question, echo) => answer,
            () = self.end.next() => {
                // The cursor is behind the question.
                self.terminal.say("\n")?;
                Ok(None)
            }
        }
    }

    /// Prints prose, wrapped to the width of the terminal.
    pub(in crate::commands) fn tell_prose(&self, text: &str) -> anyhow::Result<()> {
        self.tell(&wrap::message(text, prose_columns()))
    }

    /// Completes when the user presses Ctrl-C.
    pub(in crate::commands) async fn interrupted(&mut self) {
        self.end.next().await;
    }

    /// Signs the user in. End the session with `close`.
    pub(in crate::commands) async fn sign_in(&mut self, http: &Http) -> anyhow::Result<Session> {
        self.sign_in_as(http, None).await
    }

    /// Works like `sign_in`, for a user who may have typed the name already.
    pub(in crate::commands) async fn sign_in_as(
        &mut self,
        http: &Http,
        mut typed: Option<String>,
    ) -> anyhow::Result<Session> {
        for left in (0..TRIES).rev() {
            let name = match typed.take() {
                Some(name) => name,
                None => self.ask("Name: ", Echo::Shown).await?,
            };
            let password = self.ask("Password: ", Echo::Hidden).await?;
            let body = json!({"name": name.trim(), "password": password});
            let reply = http.ask(Method::POST, "/api/v1/login", json_headers(), Bytes::from(body.to_string())).await?;
            match reply.status {
                StatusCode::OK => return Session::open(http.clone(), &reply),
                StatusCode::UNAUTHORIZED if left > 0 => self.tell("Wrong name or password.")?,
                StatusCode::UNAUTHORIZED => {
                    return Err(Failure::new(Exit::Refused, "Wrong name or password.").into());
                }
                StatusCode::TOO_MANY_REQUESTS => {
                    let why = reply.failure().to_string();
                    return Err(Failure::new(Exit::Refused, why).hint("try again in a minute").into());
                }
                _ => return Err(reply.failure().into()),
            }
        }
        Err(Failure::new(Exit::Refused, "Wrong name or password.").into())
    }
}

/// The session of a signed-in user, for one decision.
pub(in crate::commands) struct Session {
    http: Http,
    headers: HeaderMap,
    page_key: String,
    has_totp: bool,
}

impl Session {
    fn open(http: Http, reply: &Reply) -> anyhow::Result<Self> {
        let set = reply.headers.get(SET_COOKIE).and_then(|value| value.to_str().ok());
        let cookie = set.and_then(|set| set.split(';').next()).context("the gateway did not open a session")?;
        let csrf = reply.answer.get("csrf").and_then(Value::as_str).context("the gateway did not open a session")?;
        let mut headers = json_headers();
        for (name, value) in [(COOKIE, cookie), (CSRF, csrf)] {
            let mut value = HeaderValue::from_str(value).context("the gateway did not open a session")?;
            value.set_sensitive(true);
            headers.insert(name, value);
        }
        let page_key =
            reply.answer.get("page_key").and_then(Value::as_str).context("the gateway did not open a session")?;
        let has_totp = array(&reply.answer, "factors").iter().any(|factor| factor == "totp");
        Ok(Self { http, headers, page_key: page_key.to_owned(), has_totp })
    }

    /// Returns the key that an approval without a code needs besides the session cookie.
    pub(in crate::commands) fn page_key(&self) -> &str {
        &self.page_key
    }

    /// Returns whether the account has an authenticator app. Passkeys work in a browser only.
    pub(in crate::commands) fn has_totp(&self) -> bool {
        self.has_totp
    }

    pub(in crate::commands) async fn get(&self, path: &str) -> anyhow::Result<Reply> {
        self.http.ask(Method::GET, path, self.headers.clone(), Bytes::new()).await
    }

    pub(in crate::commands) async fn post(&self, path: &str, body: &Value) -> anyhow::Result<Reply> {
        self.http.ask(Method::POST, path, self.headers.clone(), Bytes::from(body.to_string())).await
    }

    /// Ends the session. If this fails, the session expires after 15 minutes.
    pub(in crate::commands) async fn close(self) {
        let _ends_by_itself = self.post("/api/v1/logout", &json!({})).await;
    }
}

fn json_headers() -> HeaderMap {
    HeaderMap::from_iter([(CONTENT_TYPE, HeaderValue::from_static("application/json"))])
}
