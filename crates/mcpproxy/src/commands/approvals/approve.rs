//! `approvals approve`: lets a user approve a call at the terminal.

use mcpproxy_core::ApprovalState;
use mcpproxy_store::Store;
use serde_json::{Value, json};

use super::sign_in::{Session, TRIES, UserAtTerminal};
use super::view::View;
use super::words::{now_ms, state, text, time_ms};
use super::{find, show};
use crate::client::{Http, Reply, Rest, no_gateway};
use crate::commands::users;
use crate::database::location;
use crate::exit::{Exit, Failure};
use crate::home::Home;
use crate::terminal::output::Format;
use crate::terminal::prompt::{Echo, Terminal};
use crate::terminal::time::clock;

/// Longer output gets a reminder to scroll up.
const SCREEN_LINES: usize = 60;

pub(super) async fn run(home: &Home, format: Format, given: &str) -> anyhow::Result<Exit> {
    let Some(terminal) = Terminal::of_user() else { return Err(no_terminal(home, given).await.into()) };
    let running = home.running()?.ok_or_else(|| no_gateway(home))?;
    // The admin key only finds the request. It cannot approve, and it cannot see masked values.
    let found = find::approval(&Rest::connect(home)?, given).await?.value;
    let id = text(&found, "id");
    if state(&found) != Some(ApprovalState::Pending) {
        return Err(Failure::new(Exit::Refused, format!("{id} is already {}", text(&found, "state"))).into());
    }
    if !has_users(home).await {
        let message = "No approver account exists yet, so nobody can approve a call.";
        let serve = home.command("mcpproxy", "serve");
        let hint =
            format!("open the setup link that `{serve}` printed with the request. After a restart, it prints another");
        return Err(Failure::new(Exit::Refused, message).hint(hint).into());
    }
    // The settings in the file may be newer than those in force. The gateway has the last word.
    let people = users::people(home).await.unwrap_or_default();
    if !people.password {
        let message =
            "This gateway does not accept passwords (`people.password`), so nobody can sign in at the terminal.";
        let hint = format!("open {} and sign in with the identity provider", text(&found, "url"));
        return Err(Failure::new(Exit::Refused, message).hint(hint).into());
    }
    let mut user = UserAtTerminal::at(terminal)?;
    if let Some(oidc) = &people.oidc {
        let name = crate::terminal::output::line(&oidc.name);
        user.tell_prose(&format!("Users of {name} decide on the page: {}", text(&found, "url")))?;
    }
    let (tool, agent) = (text(&found, "tool"), text(&found, "agent"));
    user.tell_prose(&format!(
        "Agent {agent} wants to run {tool}. Sign in to see the call. Press Ctrl-C to leave it undecided."
    ))?;
    let session = user.sign_in(&Http::new(&running)?).await?;
    let decided = decide(&mut user, &session, &found).await;
    session.close().await;
    match decided? {
        UserDecision::Approved(approved) => {
            format.print(&approved, || {
                let until = time_ms(&approved, "expires").map(|until| format!(" until {}", clock(until, now_ms())));
                format!("Approved {id}. The agent can make this call once{}.\n", until.unwrap_or_default())
            })?;
            Ok(Exit::Done)
        }
        UserDecision::Denied(denied) => {
            format.print(&denied, || format!("Denied {id}. The call does not run.\n"))?;
            Ok(Exit::Refused)
        }
    }
}

/// Returns false only if the database answers and has no user. Signing in explains every other problem.
pub(in crate::commands) async fn has_users(home: &Home) -> bool {
    let asked = async {
        let store = Store::open_read_only(&location(home)?).await?;
        let has_users = store.has_users().await;
        store.close().await;
        anyhow::Ok(has_users?)
    };
    asked.await.unwrap_or(true)
}

/// The user's decision, with the answer of the gateway.
enum UserDecision {
    Approved(Value),
    Denied(Value),
}

/// Shows the whole call without masking, and asks for a decision.
async fn decide(user: &mut UserAtTerminal, session: &Session, found: &Value) -> anyhow::Result<UserDecision> {
    let path = format!("/api/v1/approvals/{}", text(found, "id"));
    let reply = session.get(&format!("{path}/whole")).await?;
    if reply.code().is_some() {
        return Err(refused(&reply, found).into());
    }
    let view = View::of(reply)?;
    let shown = show::text(&view, now_ms());
    user.tell(&format!("\n{shown}"))?;
    let count = shown.lines().count();
    if count > SCREEN_LINES {
        let url = text(&view.value, "url");
        user.tell_prose(&format!("\nThe call has {count} lines. Scroll up, or read the arguments at {url}/whole"))?;
    }
    user.tell_prose("\nIf you approve, exactly this call can run once. Press Enter to leave it undecided.")?;
    for _ in 0..TRIES {
        match user.ask("Type approve or deny: ", Echo::Shown).await?.trim() {
            "approve" => return approve(user, session, &view.value).await.map(UserDecision::Approved),
            "deny" => {
                let reply = session.post(&format!("{path}/deny"), &json!({})).await?;
                return if reply.code().is_none() {
                    Ok(UserDecision::Denied(reply.answer))
                } else {
                    Err(refused(&reply, found).into())
                };
            }
            _ => user.tell("Type `approve` or `deny`.")?,
        }
    }
    Err(Failure::new(Exit::Refused, "You made no decision. The request stays open.").into())
}

/// Explains that a program cannot approve, and where a user can.
async fn no_terminal(home: &Home, given: &str) -> Failure {
    let failure = Failure::new(Exit::Refused, "a user factor is required; approvals cannot be given non-interactively");
    let view = match Rest::connect(home) {
        Ok(rest) => find::approval(&rest, given).await.ok(),
        Err(_) => None,
    };
    match view.as_ref().and_then(|view| view.value.get("url")).and_then(Value::as_str) {
        Some(url) => failure.hint(format!("open {} to decide", crate::terminal::output::line(url))),
        None => failure.hint("run this command in a terminal, or open the approval page in a browser"),
    }
}

async fn approve(user: &mut UserAtTerminal, session: &Session, approval: &Value) -> anyhow::Result<Value> {
    let path = format!("/api/v1/approvals/{}/approve", text(approval, "id"));
    let mut needs_code = approval.get("needs_step_up") == Some(&Value::Bool(true));
    for left in (0..=TRIES).rev() {
        let body = match needs_code {
            true if !session.has_totp() => return Err(page_only(approval).into()),
            true => {
                json!({"totp": user.ask("Code from your authenticator app: ", Echo::Shown).await?.replace(' ', "")})
            }
            false => json!({"page_key": session.page_key()}),
        };
        let reply = session.post(&path, &body).await?;
        match reply.code() {
            None => return Ok(reply.answer),
            Some("step_up_required" | "wrong_code") if left > 0 => {
                if std::mem::replace(&mut needs_code, true) {
                    user.tell("The code is wrong or already used. Wait for the next one.")?;
                }
            }
            Some(_) => return Err(refused(&reply, approval).into()),
        }
    }
    Err(Failure::new(Exit::Refused, "The code is wrong.").into())
}

fn refused(reply: &Reply, approval: &Value) -> Failure {
    match reply.code() {
        Some("not_enrolled") => {
            Failure::new(Exit::Refused, "Your account has no second factor, and approving requires one.")
                .hint(format!("add a second factor on your account page: {}", account(approval)))
        }
        _ => Failure::new(Exit::Refused, reply.failure().to_string()),
    }
}

/// Returns the URL of the account page, which is on the same host as the approval page.
fn account(approval: &Value) -> String {
    let url = text(approval, "url");
    url.split_once("/ui/").map_or("/ui/account".to_owned(), |(base, _)| format!("{base}/ui/account"))
}

fn page_only(approval: &Value) -> Failure {
    Failure::new(Exit::Refused, "This call requires a second factor, and your account has no authenticator app.")
        .hint(format!("use your passkey at {}", text(approval, "url")))
}
