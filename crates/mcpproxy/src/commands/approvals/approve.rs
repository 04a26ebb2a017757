//! `approvals approve`: a user's yes, given at the terminal.

use mcpproxy_core::ApprovalState;
use serde_json::{Value, json};

use super::person::{Person, Session, TRIES};
use super::view::View;
use super::words::{now_ms, state, text, time_ms};
use super::{find, show};
use crate::client::{Http, Reply, Rest, no_gateway};
use crate::exit::{Exit, Failure};
use crate::home::Home;
use crate::terminal::output::Format;
use crate::terminal::prompt::{Echo, Terminal};
use crate::terminal::time::clock;

/// What fits on most screens.
const SCREEN_LINES: usize = 60;

pub(super) async fn run(home: &Home, format: Format, given: &str) -> anyhow::Result<Exit> {
    let Some(terminal) = Terminal::of_a_person() else { return Err(nobody(home, given).await.into()) };
    let running = home.running()?.ok_or_else(|| no_gateway(home))?;
    // The admin key finds the question. It opens nothing that follows, and shows nothing that is masked.
    let found = find::approval(&Rest::connect(home)?, given).await?.value;
    let id = text(&found, "id");
    if state(&found) != Some(ApprovalState::Pending) {
        return Err(Failure::new(Exit::Refused, format!("{id} is {} already", text(&found, "state"))).into());
    }
    let mut person = Person::at(terminal)?;
    let (tool, agent) = (text(&found, "tool"), text(&found, "agent"));
    person.tell(&format!("Agent {agent} wants to run {tool}. Sign in to see the call. Ctrl-C leaves it undecided."))?;
    let session = person.sign_in(&Http::new(&running)?).await?;
    let decided = decide(&mut person, &session, &found).await;
    session.close().await;
    match decided? {
        Decided::Yes(approved) => {
            format.print(&approved, || {
                let until = time_ms(&approved, "expires").map(|until| format!(", until {}", clock(until, now_ms())));
                format!("approved {id}: the call can be made once{}\n", until.unwrap_or_default())
            })?;
            Ok(Exit::Done)
        }
        Decided::No(denied) => {
            format.print(&denied, || format!("denied {id}: the call does not run\n"))?;
            Ok(Exit::Refused)
        }
    }
}

enum Decided {
    Yes(Value),
    No(Value),
}

/// Shows the call as it is, with nothing masked, and asks for a word on it.
async fn decide(person: &mut Person, session: &Session, found: &Value) -> anyhow::Result<Decided> {
    let path = format!("/api/v1/approvals/{}", text(found, "id"));
    let reply = session.get(&format!("{path}/whole")).await?;
    if reply.code().is_some() {
        return Err(refused(&reply, found).into());
    }
    let view = View::of(reply)?;
    let shown = show::text(&view, now_ms());
    person.tell(&format!("\n{shown}"))?;
    let count = shown.lines().count();
    if count > SCREEN_LINES {
        let url = text(&view.value, "url");
        person.tell(&format!("\nThese were {count} lines: scroll up, or read the arguments at {url}/whole"))?;
    }
    person.tell("\nExactly this call may run, once, if you approve it. An empty line leaves it undecided.")?;
    for _ in 0..TRIES {
        match person.ask("approve or deny? ", Echo::Shown).await?.trim() {
            "approve" => return say_yes(person, session, &view.value).await.map(Decided::Yes),
            "deny" => {
                let reply = session.post(&format!("{path}/deny"), &json!({})).await?;
                return if reply.code().is_none() {
                    Ok(Decided::No(reply.answer))
                } else {
                    Err(refused(&reply, found).into())
                };
            }
            _ => person.tell("Type `approve` or `deny`.")?,
        }
    }
    Err(Failure::new(Exit::Refused, "nothing was decided").into())
}

/// A program cannot approve. What a person can do instead is open the page.
async fn nobody(home: &Home, given: &str) -> Failure {
    let failure = Failure::new(Exit::Refused, "a user factor is required; approvals cannot be given non-interactively");
    let view = match Rest::connect(home) {
        Ok(rest) => find::approval(&rest, given).await.ok(),
        Err(_) => None,
    };
    match view.as_ref().and_then(|view| view.value.get("url")).and_then(Value::as_str) {
        Some(url) => failure.hint(format!("a person can decide at {}", crate::terminal::output::line(url))),
        None => failure.hint("run it in a terminal, or open the gateway's page in a browser"),
    }
}

async fn say_yes(person: &mut Person, session: &Session, approval: &Value) -> anyhow::Result<Value> {
    let path = format!("/api/v1/approvals/{}/approve", text(approval, "id"));
    let mut needs_code = approval.get("needs_step_up") == Some(&Value::Bool(true));
    for left in (0..=TRIES).rev() {
        let body = match needs_code {
            true if !session.has_totp() => return Err(page_only(approval).into()),
            true => json!({"totp": person.ask("Code of your authenticator: ", Echo::Shown).await?.replace(' ', "")}),
            false => json!({"page_key": session.page_key()}),
        };
        let reply = session.post(&path, &body).await?;
        match reply.code() {
            None => return Ok(reply.answer),
            Some("step_up_required" | "wrong_code") if left > 0 => {
                if std::mem::replace(&mut needs_code, true) {
                    person.tell("That code is wrong, or was used before; wait for the next one.")?;
                }
            }
            Some(_) => return Err(refused(&reply, approval).into()),
        }
    }
    Err(Failure::new(Exit::Refused, "the code is wrong").into())
}

fn refused(reply: &Reply, approval: &Value) -> Failure {
    match reply.code() {
        Some("not_enrolled") => Failure::new(Exit::Refused, "you have no second factor yet, and deciding takes one")
            .hint(format!("add one on your account page: {}", account(approval))),
        _ => Failure::new(Exit::Refused, reply.failure().to_string()),
    }
}

/// Beside the page of the approval.
fn account(approval: &Value) -> String {
    let url = text(approval, "url");
    url.split_once("/ui/").map_or("/ui/account".to_owned(), |(base, _)| format!("{base}/ui/account"))
}

fn page_only(approval: &Value) -> Failure {
    Failure::new(Exit::Refused, "this call takes a fresh factor, and you have no authenticator that shows codes")
        .hint(format!("use your passkey at {}", text(approval, "url")))
}
