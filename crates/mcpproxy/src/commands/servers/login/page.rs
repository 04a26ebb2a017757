//! `servers login` and `servers logout` for users of an identity provider, who have no password to type at a terminal.
//!
//! They act on the page of the server, in a browser that is signed in to mcpproxy. This command opens that page, watches
//! the gateway with the admin key, and ends when the gateway says what has happened. It begins nothing itself, so the
//! admin key gains no power by it.
//!
//! The gateway that runs here knows how each sign-in on its own pages goes on (`GET /api/v1/servers/NAME/login`). If a load
//! balancer leads the browser to another gateway, that one stores the tokens, and this one takes them over. So the command
//! also looks at the state of the server.

use std::time::Duration;

use http::Method;
use mcpproxy_core::ServerName;
use serde_json::{Value, json};
use tokio::time::Instant;

use super::{CONNECT_WAIT, LOOK, Login, Logout, connected, find};
use crate::client::Rest;
use crate::commands::approvals::sign_in::UserAtTerminal;
use crate::commands::open;
use crate::exit::{Exit, Failure};
use crate::home::Home;
use crate::terminal::live_line::LiveLine;
use crate::terminal::output::{Format, member};

/// Time for the user to begin on the page. A sign-in that has begun lasts 10 minutes too, and the gateway ends it then.
const BEGIN_WAIT: Duration = Duration::from_secs(10 * 60);

pub(super) async fn login(
    home: &Home,
    format: Format,
    user: &mut UserAtTerminal,
    args: &Login,
) -> anyhow::Result<Exit> {
    let name = &args.name;
    if args.device {
        let message = "`--device` needs a password of mcpproxy, and users of an identity provider have none.";
        let hint = format!("run `{}` without it", home.command("mcpproxy", &format!("servers login {name}")));
        return Err(Failure::new(Exit::Usage, message).hint(hint).into());
    }
    let rest = Rest::connect(home)?;
    let before = Seen::now(&rest, name).await?;
    let button = format!("Sign in to {name}");
    Link::of(&rest, name).await?.show(user, args.no_browser, &button)?;
    tokio::select! {
        signed_in = signed_in(&rest, name, &before) => signed_in?,
        () = user.interrupted() => {
            let message = "You stopped waiting. A sign-in that has begun on the page can still be finished there.";
            let hint = format!("see the result with `{}`", home.command("mcpproxy", "servers list"));
            return Err(Failure::new(Exit::Refused, message).hint(hint).into());
        }
    }
    connected(home, format, name).await
}

pub(super) async fn logout(
    home: &Home,
    format: Format,
    user: &mut UserAtTerminal,
    args: &Logout,
) -> anyhow::Result<Exit> {
    let (rest, name) = (Rest::connect(home)?, &args.name);
    if !has_sign_in(&rest, name).await? {
        format
            .print(&json!({ "signed_out": false }), || format!("{name} has no sign-in that the gateway can use\n"))?;
        return Ok(Exit::Done);
    }
    let button = format!("Sign out of {name}");
    Link::of(&rest, name).await?.show(user, args.no_browser, &button)?;
    tokio::select! {
        signed_out = signed_out(&rest, name) => signed_out?,
        () = user.interrupted() => {
            // It may have happened since the last look.
            if has_token(&server(&rest, name).await?) {
                let message = format!("You stopped waiting. The gateway is still signed in to {name}.");
                return Err(Failure::new(Exit::Refused, message).into());
            }
        }
    }
    format.print(&json!({ "signed_out": true }), || format!("signed out of {name}\n"))?;
    Ok(Exit::Done)
}

/// The link to the page of a server.
struct Link(String);

impl Link {
    async fn of(rest: &Rest, name: &ServerName) -> anyhow::Result<Self> {
        let status = rest.ask(Method::GET, "/api/v1/status").await?;
        Ok(Self(format!("{}servers/{name}", member(&status, "ui_url"))))
    }

    /// Prints the link, opens it in a browser unless the user wants none, and names the button to press there.
    fn show(&self, user: &UserAtTerminal, no_browser: bool, button: &str) -> anyhow::Result<()> {
        let Self(url) = self;
        let is_opened = !no_browser && open::launch(url);
        let tail = if is_opened { "\nYour browser opens it now. If it does not, open the link yourself." } else { "" };
        let text = format!("\nSign in to mcpproxy there, and press `{button}`.");
        user.tell(&format!("Open this link within 10 minutes:\n  {url}{tail}{text}"))
    }
}

/// The sign-in of a server, at one moment.
struct Seen {
    /// The newest sign-in, if it has ended. One that is under way may be the user's own.
    ended: Option<String>,
    is_satisfied: bool,
}

impl Seen {
    async fn now(rest: &Rest, name: &ServerName) -> anyhow::Result<Self> {
        let newest = newest(rest, name).await?;
        let ended = newest.filter(|newest| member(newest, "state") != "waiting").map(|newest| member(&newest, "id"));
        Ok(Self { ended, is_satisfied: is_satisfied(&server(rest, name).await?) })
    }
}

async fn signed_in(rest: &Rest, name: &ServerName, before: &Seen) -> anyhow::Result<()> {
    let mut progress = LiveLine::new();
    let begun = Instant::now();
    loop {
        progress.show(&format!("waiting for the sign-in on the page … {} s", begun.elapsed().as_secs()));
        let newest = newest(rest, name).await?.filter(|newest| before.ended.as_ref() != Some(&member(newest, "id")));
        let state = newest.as_ref().map(|newest| member(newest, "state"));
        match (state.as_deref(), &newest) {
            (Some("signed_in"), _) => return Ok(()),
            (Some("failed"), Some(newest)) => {
                let message = format!("Not signed in: {}.", member(newest, "reason"));
                return Err(Failure::new(Exit::Failed, message).into());
            }
            _ if !before.is_satisfied && is_satisfied(&server(rest, name).await?) => return Ok(()),
            (None, _) if begun.elapsed() >= BEGIN_WAIT => return Err(nothing_happened("sign-in").into()),
            _ => tokio::time::sleep(LOOK).await,
        }
    }
}

async fn signed_out(rest: &Rest, name: &ServerName) -> anyhow::Result<()> {
    let mut progress = LiveLine::new();
    let begun = Instant::now();
    while has_token(&server(rest, name).await?) {
        if begun.elapsed() >= BEGIN_WAIT {
            return Err(nothing_happened("sign-out").into());
        }
        progress.show(&format!("waiting for the sign-out on the page … {} s", begun.elapsed().as_secs()));
        tokio::time::sleep(LOOK).await;
    }
    Ok(())
}

fn nothing_happened(what: &str) -> Failure {
    Failure::new(Exit::Failed, format!("This gateway saw no {what} within 10 minutes."))
        .hint("see the state with `mcpproxy servers list`, or run the command again and open the link that it prints")
}

/// Returns whether the gateway has a token. A server that connects may be about to load it.
async fn has_sign_in(rest: &Rest, name: &ServerName) -> anyhow::Result<bool> {
    let begun = Instant::now();
    loop {
        let server = server(rest, name).await?;
        if has_token(&server) || member(&server, "state") != "connecting" || begun.elapsed() >= CONNECT_WAIT {
            return Ok(has_token(&server));
        }
        tokio::time::sleep(LOOK).await;
    }
}

/// Returns the newest sign-in at a server that began on this gateway.
async fn newest(rest: &Rest, name: &ServerName) -> anyhow::Result<Option<Value>> {
    rest.find(&format!("/api/v1/servers/{name}/login"), "sign_in_not_found").await
}

async fn server(rest: &Rest, name: &ServerName) -> anyhow::Result<Value> {
    let servers = rest.ask(Method::GET, "/api/v1/servers").await?;
    find(&servers, name).cloned()
}

fn has_token(server: &Value) -> bool {
    server.get("signed_in").and_then(Value::as_bool).unwrap_or_default()
}

/// Returns true if the server has a token and asks for nothing more.
fn is_satisfied(server: &Value) -> bool {
    has_token(server) && member(server, "state") != "needs_sign_in"
}
