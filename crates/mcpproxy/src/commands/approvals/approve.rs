//! `approvals approve`: a human's yes, given at the terminal.

use mcpproxy_core::ApprovalState;
use serde_json::{Value, json};

use super::person::{Person, Session, TRIES};
use super::words::{now_ms, state, text, time_ms};
use super::{find, show};
use crate::client::{Http, Rest, no_gateway};
use crate::commands::activity::clock;
use crate::exit::{Exit, Failure};
use crate::home::Home;
use crate::output::Format;
use crate::terminal::{Echo, Terminal};

pub(super) async fn run(home: &Home, format: Format, given: &str) -> anyhow::Result<Exit> {
    let Some(terminal) = Terminal::of_a_person() else { return Err(nobody(home, given).await.into()) };
    let running = home.running()?.ok_or_else(|| no_gateway(home))?;
    // The admin key reads the question. It opens nothing that follows.
    let view = find::approval(&Rest::connect(home)?, given).await?;
    let approval = &view.value;
    let id = text(approval, "id");
    if state(approval) != Some(ApprovalState::Pending) {
        return Err(Failure::new(Exit::Refused, format!("{id} is {} already", text(approval, "state"))).into());
    }
    let mut person = Person::at(terminal)?;
    person.tell(&show::text(&view, now_ms()))?;
    person.tell("\nSign in to approve this call, once. Ctrl-C leaves it undecided.")?;
    let session = person.sign_in(&Http::new(&running)?).await?;
    let approved = say_yes(&mut person, &session, approval).await;
    session.close().await;
    let approved = approved?;
    format.print(&approved, || {
        let until = time_ms(&approved, "expires").map(|until| format!(", until {}", clock(until, now_ms())));
        format!("approved {id}: the call can be made once{}\n", until.unwrap_or_default())
    })?;
    Ok(Exit::Done)
}

/// A program cannot approve. What a person can do instead is open the page.
async fn nobody(home: &Home, given: &str) -> Failure {
    let failure =
        Failure::new(Exit::Refused, "a human factor is required; approvals cannot be given non-interactively");
    let view = match Rest::connect(home) {
        Ok(rest) => find::approval(&rest, given).await.ok(),
        Err(_) => None,
    };
    match view.as_ref().and_then(|view| view.value.get("url")).and_then(Value::as_str) {
        Some(url) => failure.hint(format!("a person can decide at {}", crate::output::line(url))),
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
            Some("NOT_ENROLLED") => {
                return Err(Failure::new(Exit::Refused, "you have no second factor yet, and deciding takes one")
                    .hint(format!("add one on your account page: {}", account(approval)))
                    .into());
            }
            Some(_) => return Err(Failure::new(Exit::Refused, reply.failure().to_string()).into()),
        }
    }
    Err(Failure::new(Exit::Refused, "the code is wrong").into())
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
