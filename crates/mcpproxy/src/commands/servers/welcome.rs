//! Decides if the tools of a new server need a review.
//!
//! A person at a terminal who adds a server has just chosen it, so its first definitions need no review. An agent with
//! a shell can run the same command. It can even read `admin.key`, and open a terminal of its own. So the running
//! gateway believes only a user who signs in. Without a gateway, or before the first user exists, nobody can be asked:
//! then the terminal has to do.
//!
//! A server that must be reviewed gets `"first_sight": "review"`. Otherwise, a restart would accept it as one that the
//! operator wrote into the file.

use anyhow::Context as _;
use mcpproxy_core::ServerName;
use mcpproxy_core::settings::Settings;
use mcpproxy_core::trust::Welcome;
use serde_json::{Value, json};

use crate::client::{Http, Rest};
use crate::commands::approvals::has_users;
use crate::commands::approvals::sign_in::UserAtTerminal;
use crate::exit::{Exit, Failure};
use crate::home::Home;
use crate::terminal::prompt::Terminal;

/// The rule for the first definitions of a new server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FirstSight {
    /// The settings or the user say that they need no review.
    Accepted,
    /// No user is at a terminal.
    Unattended,
    /// The user at the terminal did not sign in.
    Later,
}

impl FirstSight {
    pub(super) fn is_reviewed(self) -> bool {
        match self {
            Self::Accepted => false,
            Self::Unattended | Self::Later => true,
        }
    }

    /// Writes the rule into the definition of the server.
    pub(super) fn write_into(self, server: &mut Value) {
        if let (true, Some(members)) = (self.is_reviewed(), server.as_object_mut()) {
            members.insert("first_sight".to_owned(), Welcome::Review.as_str().into());
        }
    }

    /// Says what waits, with the command that reviews it.
    pub(super) fn sentence(self, command: &str) -> Option<String> {
        match self {
            Self::Accepted => None,
            Self::Unattended => {
                Some(format!("Added without a terminal, so its tools wait for your review:\n  {command}"))
            }
            Self::Later => Some(format!("Its tools wait for your review:\n  {command}")),
        }
    }
}

/// Finds the rule for a server that is about to be added. `settings` are those with the server.
pub(super) async fn first_sight(home: &Home, name: &ServerName, settings: &Settings) -> anyhow::Result<FirstSight> {
    if settings.trust.first_sight == Welcome::Accept {
        return Ok(FirstSight::Accepted);
    }
    let Some(terminal) = Terminal::of_user() else { return Ok(FirstSight::Unattended) };
    if home.running()?.is_none() {
        return Ok(FirstSight::Accepted);
    }
    let server = settings.servers.iter().find(|server| server.name == *name);
    let identity = server.context("the new settings do not have the server")?.identity.key();
    let (path, body) = (format!("/api/v1/servers/{name}/announce"), json!({ "identity": identity }));
    if !has_users(home).await {
        // If this fails, the definitions wait for a review. That is safe, and the next lines say so.
        let _reviewed_otherwise = Rest::connect(home)?.post(&path, body.to_string()).await;
        return Ok(FirstSight::Accepted);
    }
    ask(home, UserAtTerminal::at(terminal)?, &path, body).await
}

/// Asks the user, who signs in to say yes.
async fn ask(home: &Home, mut user: UserAtTerminal, path: &str, mut body: Value) -> anyhow::Result<FirstSight> {
    let question = "Let agents use its tools without a review?\nYou sign in to confirm. [y/N] ";
    let Some(answer) = user.ask_freely(question).await? else {
        return Err(Failure::new(Exit::Refused, "You made no decision, so nothing changed.").into());
    };
    if !matches!(answer.trim().to_ascii_lowercase().as_str(), "y" | "yes") {
        return Ok(FirstSight::Later);
    }
    let Some(running) = home.running()? else { return Ok(FirstSight::Later) };
    let session = user.sign_in(&Http::new(&running)?).await?;
    if let Some(members) = body.as_object_mut() {
        members.insert("page_key".to_owned(), session.page_key().into());
    }
    let reply = session.post(path, &body).await;
    session.close().await;
    let reply = reply?;
    match reply.code() {
        None => Ok(FirstSight::Accepted),
        Some(_) => Err(reply.failure().hint("the settings file was not changed").into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_reviewed_says_so_in_the_file() {
        let check = |rule: FirstSight, expected: Value| {
            let mut server = json!({"command": "fx"});
            rule.write_into(&mut server);
            assert_eq!(server, expected, "{rule:?}");
        };
        check(FirstSight::Accepted, json!({"command": "fx"}));
        check(FirstSight::Unattended, json!({"command": "fx", "first_sight": "review"}));
        check(FirstSight::Later, json!({"command": "fx", "first_sight": "review"}));
    }
}
