//! Asks the user at the terminal to confirm a change of settings, contracts or policies.

use serde_json::Value;

use crate::client::{Http, Reply, no_gateway};
use crate::commands::approvals::has_users;
use crate::commands::approvals::sign_in::{Session, TRIES, UserAtTerminal};
use crate::exit::{Exit, Failure};
use crate::home::Home;
use crate::terminal::prompt::{Echo, Terminal};

/// A change to confirm, and the request that makes it.
pub(super) struct Question {
    /// The first line of a failure.
    pub(super) title: &'static str,
    /// The text that the user reads before signing in.
    pub(super) shown: String,
    /// The failure without a terminal.
    pub(super) unattended: String,
    /// The other way to make the change.
    pub(super) otherwise: &'static str,
    pub(super) invitation: &'static str,
    /// The word to type.
    pub(super) word: &'static str,
    pub(super) undecided: &'static str,
    pub(super) path: &'static str,
    /// An object. The proof of the user is added.
    pub(super) body: Value,
    pub(super) needs_step_up: bool,
}

/// Shows the change, signs the user in, and sends the request if the user says so. Returns the gateway's answer.
pub(super) async fn answered(home: &Home, question: &Question) -> anyhow::Result<Value> {
    let Some(terminal) = Terminal::of_user() else {
        let hint = format!("run this command in a terminal, or {}", question.otherwise);
        return Err(Failure::new(Exit::Refused, question.unattended.clone()).title(question.title).hint(hint).into());
    };
    let running = home.running()?.ok_or_else(|| no_gateway(home))?;
    if !has_users(home).await {
        let message = "No approver account exists yet, so nobody can confirm the changes.";
        let serve = home.command("mcpproxy", "serve");
        let hint = format!("open the setup link that `{serve}` printed, or {}", question.otherwise);
        return Err(Failure::new(Exit::Refused, message).hint(hint).into());
    }
    let mut user = UserAtTerminal::at(terminal)?;
    user.tell(&question.shown)?;
    user.tell(question.invitation)?;
    let session = user.sign_in(&Http::new(&running)?).await?;
    let decided = decide(&mut user, &session, question).await;
    session.close().await;
    decided
}

async fn decide(user: &mut UserAtTerminal, session: &Session, question: &Question) -> anyhow::Result<Value> {
    let word = question.word;
    for _ in 0..TRIES {
        match user.ask(&format!("Type {word} to confirm: "), Echo::Shown).await?.trim() {
            typed if typed == word => return send(user, session, question).await,
            "" => break,
            _ => user.tell(&format!("Type `{word}`, or press Enter to keep what is in force."))?,
        }
    }
    Err(Failure::new(Exit::Refused, question.undecided).into())
}

async fn send(user: &mut UserAtTerminal, session: &Session, question: &Question) -> anyhow::Result<Value> {
    let mut needs_code = question.needs_step_up;
    for left in (0..=TRIES).rev() {
        let (name, proof) = match needs_code {
            true if !session.has_totp() => return Err(no_app(question).into()),
            true => ("totp", user.ask("Code from your authenticator app: ", Echo::Shown).await?.replace(' ', "")),
            false => ("page_key", session.page_key().to_owned()),
        };
        let mut body = question.body.clone();
        if let Some(members) = body.as_object_mut() {
            members.insert(name.to_owned(), proof.into());
        }
        let reply = session.post(question.path, &body).await?;
        match reply.code() {
            None => return Ok(reply.answer),
            Some("step_up_required" | "wrong_code") if left > 0 => {
                if std::mem::replace(&mut needs_code, true) {
                    user.tell("The code is wrong or already used. Wait for the next one.")?;
                }
            }
            Some(_) => return Err(refused(question, &reply).into()),
        }
    }
    Err(Failure::new(Exit::Refused, "The code is wrong.").into())
}

fn refused(question: &Question, reply: &Reply) -> Failure {
    Failure::new(Exit::Refused, reply.failure().to_string()).title(question.title)
}

fn no_app(question: &Question) -> Failure {
    Failure::new(Exit::Refused, "These changes require a second factor, and your account has no authenticator app.")
        .hint(format!("add an authenticator app on your account page, or {}", question.otherwise))
}
