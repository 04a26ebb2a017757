//! `servers login` and `servers logout`: signs the gateway in to a server that asks for OAuth.
//!
//! The user signs in twice. At the terminal they sign in to the gateway, so that an agent with a shell cannot connect a
//! server to an account of its choice. In the browser they sign in at the server's identity provider. The browser returns
//! to the gateway, and this command waits for the result. Its session stays open meanwhile: the sign-in counts only as long
//! as the session that began it.
//!
//! Users of an identity provider have no password for the terminal. They act on the page of the server instead, and the
//! command waits for them (`login/page.rs`).

mod page;

use std::time::Duration;

use clap::Args;
use http::Method;
use mcpproxy_core::ServerName;
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::client::{Http, Reply, Rest, no_gateway, state};
use crate::commands::approvals::has_users;
use crate::commands::approvals::sign_in::{Session, UserAtTerminal};
use crate::commands::{names, open, users};
use crate::exit::{Exit, Failure};
use crate::home::Home;
use crate::terminal::live_line::LiveLine;
use crate::terminal::output::{Format, counted, line, member};
use crate::terminal::prompt::Terminal;

/// Time between two looks at the sign-in, and at the server that connects after it.
const LOOK: Duration = Duration::from_millis(500);
/// Time for the server to connect after the sign-in.
const CONNECT_WAIT: Duration = Duration::from_secs(30);

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  mcpproxy servers login github
  mcpproxy servers login github --no-browser    Only print the link
  mcpproxy servers login github --device        Sign in on another device

The server must ask for OAuth. `mcpproxy servers list` then shows it as needs_sign_in. You sign in to mcpproxy at the terminal first, or on the page that the command opens if you use an identity provider. Agents and the admin key cannot sign in to servers.")]
pub(crate) struct Login {
    /// Name of the server
    #[arg(value_parser = names::parse_server, add = names::servers())]
    name: ServerName,
    /// Print the link, and do not open a browser
    #[arg(long)]
    no_browser: bool,
    /// Sign in on another device, with a short code
    #[arg(long)]
    device: bool,
}

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  mcpproxy servers logout github

You sign in to mcpproxy at the terminal, or on the page that the command opens if you use an identity provider. The tokens are also revoked at the provider of the server, if it supports that.")]
pub(crate) struct Logout {
    /// Name of the server
    #[arg(value_parser = names::parse_server, add = names::servers())]
    name: ServerName,
    /// Print the link, and do not open a browser
    #[arg(long)]
    no_browser: bool,
}

pub(crate) async fn login(home: &Home, format: Format, args: Login) -> anyhow::Result<Exit> {
    let name = &args.name;
    check_server(home, name).await?;
    let mut user = user(home, "sign in to a server").await?;
    let next = format!("Sign in to mcpproxy. Then you continue at the identity provider of {name}.");
    let session = match place(home, &mut user, &next).await? {
        Place::Terminal { name: typed } => open_session(home, &mut user, name, typed).await?,
        Place::Page => return page::login(home, format, &mut user, &args).await,
    };
    let signed_in = match begin(&session, &user, &args).await {
        Ok(id) => tokio::select! {
            signed_in = wait(&session, name, &id) => signed_in,
            () = user.interrupted() => {
                Err(Failure::new(Exit::Refused, "You stopped the sign-in, so nothing changed.").into())
            }
        },
        Err(error) => Err(error),
    };
    // From here on, the browser cannot finish it.
    session.close().await;
    signed_in?;
    connected(home, format, name).await
}

pub(crate) async fn logout(home: &Home, format: Format, args: Logout) -> anyhow::Result<Exit> {
    let name = &args.name;
    check_server(home, name).await?;
    let mut user = user(home, "sign out of a server").await?;
    let next = format!("Sign in to mcpproxy to remove the tokens of {name}.");
    let session = match place(home, &mut user, &next).await? {
        Place::Terminal { name: typed } => open_session(home, &mut user, name, typed).await?,
        Place::Page => return page::logout(home, format, &mut user, &args).await,
    };
    let reply = session.post(&format!("/api/v1/servers/{name}/logout"), &json!({})).await;
    session.close().await;
    let reply = accepted(reply?)?;
    let is_done = reply.answer.get("signed_out").and_then(Value::as_bool).unwrap_or_default();
    format.print(&reply.answer, || match is_done {
        true => format!("signed out of {name}\n"),
        false => format!("{name} had no sign-in\n"),
    })?;
    Ok(Exit::Done)
}

/// The place where the user signs in to mcpproxy.
enum Place {
    /// With a password. The name may be typed already.
    Terminal { name: Option<String> },
    /// In the browser, with the identity provider.
    Page,
}

/// Chooses the place by the settings. If they allow both, the user does.
async fn place(home: &Home, user: &mut UserAtTerminal, next: &str) -> anyhow::Result<Place> {
    // The settings in the file may be newer than those in force. The gateway has the last word.
    let people = users::people(home).await.unwrap_or_default();
    let Some(oidc) = people.oidc.filter(|_| people.password) else {
        if !people.password {
            return Ok(Place::Page);
        }
        user.tell(next)?;
        return Ok(Place::Terminal { name: None });
    };
    user.tell(&format!(
        "{next}\nUsers of {} press Enter without a name, and continue in the browser.",
        line(&oidc.name)
    ))?;
    match user.ask_freely("Name: ").await?.as_deref().map(str::trim) {
        None => Err(Failure::new(Exit::Refused, "You made no decision, so nothing changed.").into()),
        Some("") => Ok(Place::Page),
        Some(name) => Ok(Place::Terminal { name: Some(name.to_owned()) }),
    }
}

/// Fails before the user types a password, if there is no such server.
async fn check_server(home: &Home, name: &ServerName) -> anyhow::Result<()> {
    let servers = Rest::connect(home)?.ask(Method::GET, "/api/v1/servers").await?;
    find(&servers, name).map(drop)
}

fn find<'a>(servers: &'a Value, name: &ServerName) -> anyhow::Result<&'a Value> {
    let mut all = servers.get("servers").and_then(Value::as_array).into_iter().flatten();
    let found = all.find(|server| member(server, "name") == name.as_str());
    found.ok_or_else(|| {
        let hint = "list all servers with `mcpproxy servers list`";
        Failure::new(Exit::Failed, format!("The gateway has no server {name}.")).hint(hint).into()
    })
}

async fn user(home: &Home, what: &str) -> anyhow::Result<UserAtTerminal> {
    let Some(terminal) = Terminal::of_user() else {
        let message = format!("a user factor is required; nobody can {what} non-interactively");
        return Err(Failure::new(Exit::Refused, message).hint("run this command in a terminal").into());
    };
    if !has_users(home).await {
        let serve = home.command("mcpproxy", "serve");
        let hint = format!("open the setup link that `{serve}` printed. After a restart, it prints another");
        let message = format!("No approver account exists yet, so nobody can {what}.");
        return Err(Failure::new(Exit::Refused, message).hint(hint).into());
    }
    UserAtTerminal::at(terminal)
}

/// Signs the user in. Accounts of an identity provider have no password, so a refusal names the page of the server.
async fn open_session(
    home: &Home,
    user: &mut UserAtTerminal,
    name: &ServerName,
    typed: Option<String>,
) -> anyhow::Result<Session> {
    let running = home.running()?.ok_or_else(|| no_gateway(home))?;
    let refused = match user.sign_in_as(&Http::new(&running)?, typed).await {
        Ok(session) => return Ok(session),
        Err(error) => error.downcast::<Failure>()?,
    };
    let status = Rest::connect(home)?.ask(Method::GET, "/api/v1/status").await?;
    let pages = member(&status, "ui_url");
    let hint = format!("if you sign in with an identity provider, use the page of the server: {pages}servers/{name}");
    Err(refused.hint(hint).into())
}

/// Begins the sign-in, and shows what it asks for. Returns its id.
async fn begin(session: &Session, user: &UserAtTerminal, args: &Login) -> anyhow::Result<String> {
    let path = format!("/api/v1/servers/{}/login", args.name);
    let body = json!({ "device": args.device, "page_key": session.page_key() });
    let started = accepted(session.post(&path, &body).await?)?.answer;
    user.tell(&offer(&started))?;
    let url = member(&started, "url");
    let is_opened = !args.no_browser && !args.device && open::launch(&url);
    let tail = if is_opened { "\nYour browser opens it now. If it does not, open the link yourself." } else { "" };
    user.tell(&format!("\nOpen this link within 10 minutes:\n  {url}{tail}"))?;
    if let Some(code) = started.get("user_code").and_then(Value::as_str) {
        user.tell(&format!("and confirm this code: {}", line(code)))?;
    }
    Ok(member(&started, "id"))
}

/// Waits until the user has returned from the provider.
async fn wait(session: &Session, name: &ServerName, id: &str) -> anyhow::Result<()> {
    let path = format!("/api/v1/servers/{name}/login");
    let mut progress = LiveLine::new();
    let begun = Instant::now();
    loop {
        progress.show(&format!("waiting for the sign-in in the browser … {} s", begun.elapsed().as_secs()));
        let now = accepted(session.get(&path).await?)?.answer;
        if member(&now, "id") != id {
            return Err(Failure::new(Exit::Failed, "Another sign-in at this server replaced this one.").into());
        }
        match member(&now, "state").as_str() {
            "waiting" => tokio::time::sleep(LOOK).await,
            "signed_in" => return Ok(()),
            _ => return Err(Failure::new(Exit::Failed, format!("Not signed in: {}.", member(&now, "reason"))).into()),
        }
    }
}

/// Words what the user is about to allow.
fn offer(started: &Value) -> String {
    let scopes: Vec<String> = started
        .get("scopes")
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
        .map(|scope| format!("  {}\n", line(scope)))
        .collect();
    let asks = match scopes.is_empty() {
        true => "The server names no scopes. The provider shows what it allows.".to_owned(),
        false => format!("Requested scopes:\n{}", scopes.concat()),
    };
    let returns = match started.get("redirect_uri").and_then(Value::as_str) {
        Some(address) => format!("Redirect URI: {}\n", line(address)),
        None => String::new(),
    };
    let (issuer, recipient) = (member(started, "issuer"), member(started, "recipient"));
    format!("\nIdentity provider: {issuer}\nThe access token goes to: {recipient}\n{returns}{asks}")
}

/// Waits until the server is connected with its new token, and prints the truth about it.
async fn connected(home: &Home, format: Format, name: &ServerName) -> anyhow::Result<Exit> {
    let rest = Rest::connect(home)?;
    let mut progress = LiveLine::new();
    let begun = Instant::now();
    loop {
        let servers = rest.ask(Method::GET, "/api/v1/servers").await?;
        let server = find(&servers, name)?.clone();
        let state = member(&server, "state");
        let is_settled = !matches!(state.as_str(), "connecting") && begun.elapsed() > LOOK;
        if !is_settled && begun.elapsed() < CONNECT_WAIT {
            progress.show(&format!("signed in, connecting {name} …"));
            tokio::time::sleep(LOOK).await;
            continue;
        }
        progress.clear();
        let tools = server.get("tools").and_then(Value::as_u64).and_then(|count| usize::try_from(count).ok());
        let is_ready = state == "ready";
        format.print(&server, || match is_ready {
            true => format!("signed in, {}\n", counted(tools.unwrap_or_default(), "tool")),
            false => format!("signed in, but {}\n", state::describe(home, &servers, name.as_str())),
        })?;
        if let Some(waiting) = state::waiting(home, &server) {
            crate::terminal::output::tell(&waiting);
        }
        return Ok(if is_ready { Exit::Done } else { Exit::Failed });
    }
}

/// Turns a refusal of the gateway into a failure with a next step.
fn accepted(reply: Reply) -> anyhow::Result<Reply> {
    match reply.code() {
        None => Ok(reply),
        Some("not_enrolled") => Err(Failure::new(Exit::Refused, reply.failure().to_string())
            .hint("add one on your account page: mcpproxy open")
            .into()),
        Some(_) => Err(reply.failure().into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_offer_lists_every_scope() {
        let started = json!({"issuer": "https://id.example", "recipient": "https://a.example", "scopes": ["repo", "read:user"], "redirect_uri": "https://gw.example/x"});
        assert_eq!(
            offer(&started),
            "\nIdentity provider: https://id.example\nThe access token goes to: https://a.example\nRedirect URI: https://gw.example/x\nRequested scopes:\n  repo\n  read:user\n"
        );
        let none = json!({"issuer": "https://id.example\u{1b}[2J", "recipient": "https://a.example", "scopes": []});
        assert_eq!(
            offer(&none),
            "\nIdentity provider: https://id.example\\u{1b}[2J\nThe access token goes to: https://a.example\nThe server names \
             no scopes. The provider shows what it allows."
        );
    }
}
