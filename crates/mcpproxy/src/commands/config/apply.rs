//! `config apply`: lets a user confirm changes that weaken contracts, policies or settings.
//!
//! The user signs in as for an approval, at a terminal, so that an agent with a shell cannot confirm its own edit. The
//! gateway applies exactly the files whose changes were shown: if they change meanwhile, it refuses.

use serde_json::{Value, json};

use crate::client::{Http, Reply, Rest, no_gateway};
use crate::commands::approvals::has_users;
use crate::commands::approvals::sign_in::{Session, TRIES, UserAtTerminal};
use crate::exit::{Exit, Failure};
use crate::home::Home;
use crate::terminal::output::{Format, counted, line, member, tell};
use crate::terminal::prompt::{Echo, Terminal};

const TITLE: &str = "not applied";

pub(super) async fn run(home: &Home, format: Format) -> anyhow::Result<Exit> {
    // Reads the files now, so that the newest edit is shown.
    let answer = Rest::connect(home)?.reload().await?;
    let Some(held) = held(&answer) else {
        let nothing = json!({"applied": []});
        format.print(&nothing, || {
            "Nothing waits. The newest contracts, policies and settings are in force.\n".to_owned()
        })?;
        return Ok(Exit::Done);
    };
    let applied = confirm(home, held).await?;
    format.print(&applied, || "Applied. The newest contracts, policies and settings are in force.\n".to_owned())?;
    Ok(Exit::Done)
}

/// Confirms the part of a reload that waits, for a command that has written contracts itself. `answer` is that of the
/// reload. Returns true if everything is in force.
pub(in crate::commands) async fn confirm_own(home: &Home, answer: &Value) -> anyhow::Result<bool> {
    let Some(held) = held(answer) else { return Ok(true) };
    if Terminal::of_user().is_none() {
        let command = home.command("mcpproxy", "config apply");
        tell("Not applied, because it weakens contracts, policies or settings:");
        changes(held).iter().for_each(|change| tell(change));
        tell(&format!("To confirm, run `{command}` in a terminal."));
        return Ok(false);
    }
    confirm(home, held).await?;
    Ok(true)
}

fn held(answer: &Value) -> Option<&Value> {
    answer.get("held").filter(|held| held.is_object())
}

/// Shows the changes, signs the user in, and applies the changes if the user says so.
async fn confirm(home: &Home, held: &Value) -> anyhow::Result<Value> {
    let shown = changes(held).join("\n");
    let Some(terminal) = Terminal::of_user() else {
        let message = "a user factor is required; changes that weaken contracts, policies or settings cannot be \
                       confirmed non-interactively";
        let hint = "run this command in a terminal, or restart the gateway";
        return Err(Failure::new(Exit::Refused, format!("{message}\n{shown}")).title(TITLE).hint(hint).into());
    };
    let running = home.running()?.ok_or_else(|| no_gateway(home))?;
    if !has_users(home).await {
        let message = "No approver account exists yet, so nobody can confirm the changes.";
        let serve = home.command("mcpproxy", "serve");
        let hint = format!("open the setup link that `{serve}` printed, or restart the gateway to apply the changes");
        return Err(Failure::new(Exit::Refused, message).hint(hint).into());
    }
    let mut user = UserAtTerminal::at(terminal)?;
    user.tell(&format!("These changes allow more than what is in force:\n{shown}\n"))?;
    user.tell("Sign in to apply them. Press Ctrl-C to keep what is in force.")?;
    let session = user.sign_in(&Http::new(&running)?).await?;
    let applied = decide(&mut user, &session, held).await;
    session.close().await;
    applied
}

/// Lists the changes, one per line.
fn changes(held: &Value) -> Vec<String> {
    let all = held.get("changes").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    let more = held.get("more").and_then(Value::as_u64).unwrap_or_default();
    let more = usize::try_from(more).unwrap_or(usize::MAX);
    let rest = (more > 0).then(|| format!("  … {}", counted(more, "more change")));
    all.iter().filter_map(Value::as_str).map(|change| format!("  {}", line(change))).chain(rest).collect()
}

async fn decide(user: &mut UserAtTerminal, session: &Session, held: &Value) -> anyhow::Result<Value> {
    for _ in 0..TRIES {
        match user.ask("Type apply to confirm: ", Echo::Shown).await?.trim() {
            "apply" => return apply(user, session, held).await,
            "" => break,
            _ => user.tell("Type `apply`, or press Enter to keep what is in force.")?,
        }
    }
    Err(Failure::new(Exit::Refused, "You made no decision. The changes still wait.").into())
}

async fn apply(user: &mut UserAtTerminal, session: &Session, held: &Value) -> anyhow::Result<Value> {
    let digest = member(held, "digest");
    let mut needs_code = held.get("needs_step_up") == Some(&Value::Bool(true));
    for left in (0..=TRIES).rev() {
        let body = match needs_code {
            true if !session.has_totp() => return Err(no_app().into()),
            true => {
                let code = user.ask("Code from your authenticator app: ", Echo::Shown).await?.replace(' ', "");
                json!({"digest": digest, "totp": code})
            }
            false => json!({"digest": digest, "page_key": session.page_key()}),
        };
        let reply = session.post("/api/v1/config/apply", &body).await?;
        match reply.code() {
            None => return Ok(reply.answer),
            Some("step_up_required" | "wrong_code") if left > 0 => {
                if std::mem::replace(&mut needs_code, true) {
                    user.tell("The code is wrong or already used. Wait for the next one.")?;
                }
            }
            Some(_) => return Err(refused(&reply).into()),
        }
    }
    Err(Failure::new(Exit::Refused, "The code is wrong.").into())
}

fn refused(reply: &Reply) -> Failure {
    Failure::new(Exit::Refused, reply.failure().to_string()).title(TITLE)
}

fn no_app() -> Failure {
    Failure::new(Exit::Refused, "These changes require a second factor, and your account has no authenticator app.")
        .hint("add an authenticator app on your account page, or restart the gateway to apply the changes")
}
