//! `users`: lists users, invites one, and resets an account.
//!
//! `invite` and `reset` create a link that becomes an approver. They rely on two things. The database of the data folder
//! must be writable, which the admin key and agent tokens do not give. And a person must be at a terminal: the name is
//! typed again, and the link is shown there only. A program that runs as the operator can write to the database anyway,
//! but it cannot do so unseen with these commands: each change stores a record for the activity log in the same
//! transaction.

use clap::Subcommand;
use http::Method;
use mcpproxy_core::nearest;
use mcpproxy_core::settings::PeopleSettings;
use mcpproxy_store::{Account, Location, OperatorInvitation, Reset, Store, StoreError};
use serde::Serialize;
use serde_json::Value;

use crate::client::Rest;
use crate::commands::names;
use crate::commands::token::universal_time;
use crate::database;
use crate::exit::{Exit, Failure};
use crate::home::Home;
use crate::home::secret::random_bytes;
use crate::runtime::own_url;
use crate::terminal::output::{self, Format, line};
use crate::terminal::prompt::{Echo, Terminal};
use crate::terminal::time::{clock, local_time, now_ms};

const INVITATION_MS: i64 = 24 * 60 * 60_000;
/// Shorter than an invitation, because the link takes over an account that exists.
const RESET_MS: i64 = 60 * 60_000;

/// List users, invite one, and reset an account
#[derive(Debug, Subcommand)]
#[command(after_help = "\
Examples:
  mcpproxy users list
  mcpproxy users invite berta
  mcpproxy users reset anna")]
pub(crate) enum UsersCommand {
    /// List users with their kind, second factor and sessions
    #[command(after_help = "\
Examples:
  mcpproxy users list
  mcpproxy users list -o json")]
    List,
    /// Create an invitation link for a new user
    #[command(after_help = "\
Examples:
  mcpproxy users invite berta

The link works once, for this name only, and expires after 24 hours. The command needs a terminal and the database of \
the data folder. The activity log records it.")]
    Invite {
        /// Name of the new user: letters, digits, `.`, `_`, `-`, `@` and `+`
        name: String,
    },
    /// Remove password, factors and sessions of a user, and print a link to set them up again
    #[command(after_help = "\
Examples:
  mcpproxy users reset anna

Use it for a user who has lost the password, or the second factor and all recovery codes. The user keeps the name, and \
the activity log keeps what the user decided. The link works once and expires after an hour. The command needs a \
terminal and the database of the data folder. The activity log records it.

Users of an identity provider have no password here. Reset them at the provider.")]
    Reset {
        /// Name of the user
        #[arg(add = names::users())]
        name: String,
    },
}

pub(crate) async fn run(home: &Home, format: Format, command: UsersCommand) -> anyhow::Result<Exit> {
    match command {
        UsersCommand::List => list(home, format).await,
        UsersCommand::Invite { name } => with_store(home, async |store| invite(home, format, store, &name).await).await,
        UsersCommand::Reset { name } => with_store(home, async |store| reset(home, format, store, &name).await).await,
    }
    .map(|()| Exit::Done)
}

async fn with_store(home: &Home, work: impl AsyncFnOnce(&Store) -> anyhow::Result<()>) -> anyhow::Result<()> {
    home.create()?;
    let store = database::open(home).await?;
    let outcome = work(&store).await;
    store.close().await;
    outcome
}

#[derive(Serialize)]
struct Users {
    users: Vec<User>,
}

#[derive(Serialize)]
struct User {
    name: String,
    /// `local`, or `provider` for users of an identity provider.
    kind: &'static str,
    email: Option<String>,
    display_name: Option<String>,
    /// True if the user can approve calls.
    second_factor: bool,
    /// False for users of a provider, and after a reset until the link is used.
    password: bool,
    created: String,
    last_seen: Option<String>,
    sessions: u64,
}

impl From<&Account> for User {
    fn from(account: &Account) -> Self {
        let profile = account.provider.as_ref().map(|provider| &provider.profile);
        Self {
            name: account.name.clone(),
            kind: if account.provider.is_some() { "provider" } else { "local" },
            email: profile.and_then(|profile| profile.email.clone()),
            display_name: profile.and_then(|profile| profile.name.clone()),
            second_factor: account.is_enrolled,
            password: account.has_password,
            created: universal_time(account.created_ms),
            last_seen: account.seen_ms.map(universal_time),
            sessions: account.sessions,
        }
    }
}

async fn list(home: &Home, format: Format) -> anyhow::Result<()> {
    let location = database::location(home)?;
    let accounts = match Store::open_read_only(&location).await {
        Ok(store) => {
            let session = people(home).await?.session;
            let accounts = store.list_accounts(now_ms(), session.idle_ms(), session.max_ms()).await;
            store.close().await;
            accounts?
        }
        // A data folder that no gateway has used yet has no users.
        Err(StoreError::NotReady { .. }) => Vec::new(),
        Err(_) if matches!(&location, Location::Sqlite(path) if !path.exists()) => Vec::new(),
        Err(error) => return Err(database::not_opened(home, &location, error)),
    };
    let users = Users { users: accounts.iter().map(User::from).collect() };
    format.print(&users, || {
        if accounts.is_empty() {
            return "No users yet.\nOpen the setup link that `mcpproxy serve` prints.\n".to_owned();
        }
        let rows = accounts.iter().zip(&users.users).map(|(account, user)| {
            let factor = match (account.has_password || account.provider.is_some(), account.is_enrolled) {
                (false, _) => "reset, waits for its link",
                (true, true) => "on",
                (true, false) => "off, cannot approve",
            };
            vec![
                line(&user.name),
                user.kind.to_owned(),
                user.email.as_deref().map_or("-".to_owned(), line),
                factor.to_owned(),
                account.seen_ms.map_or("-".to_owned(), local_time),
                user.sessions.to_string(),
            ]
        });
        output::table(&["USER", "KIND", "EMAIL", "SECOND FACTOR", "LAST SEEN", "SESSIONS"], rows)
    })
}

#[derive(Serialize)]
struct Link<'a> {
    name: &'a str,
    url: String,
    expires: String,
}

async fn invite(home: &Home, format: Format, store: &Store, name: &str) -> anyhow::Result<()> {
    let terminal = terminal("invite")?;
    terminal.say(&format!("Whoever opens the link can approve and deny every call, as user `{}`.\n", line(name)))?;
    confirm(&terminal, name, "invite the user").await?;
    let now_ms = now_ms();
    let invited = store.invite_by_operator(random_bytes()?, name, now_ms, INVITATION_MS).await;
    let secret = match invited {
        Ok(OperatorInvitation::Invited { secret }) => secret,
        Ok(OperatorInvitation::NameTaken) => {
            return Err(Failure::new(Exit::Failed, format!("A user named `{}` already exists.", line(name)))
                .hint(
                    "list all users with `mcpproxy users list`, or reset the account with `mcpproxy users reset NAME`",
                )
                .into());
        }
        Err(error @ StoreError::UserName) => return Err(Failure::new(Exit::Usage, error.to_string()).into()),
        Err(error) => return Err(error.into()),
    };
    show(home, format, name, &secret, now_ms + INVITATION_MS).await
}

async fn reset(home: &Home, format: Format, store: &Store, name: &str) -> anyhow::Result<()> {
    let terminal = terminal("reset")?;
    let shown = line(name);
    match store.find_user(name).await? {
        None => return Err(unknown(store, name).await?),
        Some(user) if user.provider.is_some() => return Err(of_provider(name)),
        Some(_) => {}
    }
    terminal.say(&format!(
        "This removes password, second factors, recovery codes and sessions of `{shown}`. The link that follows sets up \
         the account again.\n"
    ))?;
    confirm(&terminal, name, "reset the account").await?;
    let now_ms = now_ms();
    match store.reset_user(random_bytes()?, name, now_ms, RESET_MS).await? {
        Reset::Done { secret } => show(home, format, name, &secret, now_ms + RESET_MS).await,
        Reset::NoSuchUser => Err(unknown(store, name).await?),
        Reset::OfProvider => Err(of_provider(name)),
    }
}

fn terminal(command: &str) -> anyhow::Result<Terminal> {
    Terminal::of_user().ok_or_else(|| {
        Failure::new(Exit::Refused, format!("`mcpproxy users {command}` needs a person at a terminal."))
            .hint("run it in a terminal, without a pipe; in a container, use `docker exec -it`")
            .into()
    })
}

/// Asks for the name once more. A question for `y` is answered by habit.
async fn confirm(terminal: &Terminal, name: &str, action: &str) -> anyhow::Result<()> {
    let answer = terminal.ask(&format!("Type the name to {action}: "), Echo::Shown).await?;
    if answer.as_deref().map(str::trim) == Some(name) {
        return Ok(());
    }
    Err(Failure::new(Exit::Refused, "You did not type the name, so nothing changed.").into())
}

async fn unknown(store: &Store, name: &str) -> anyhow::Result<anyhow::Error> {
    let users = store.list_users().await?;
    let hint = match nearest(name, users.iter().map(String::as_str)) {
        Some(near) => format!("did you mean `{}`?", line(near)),
        None => "list all users with `mcpproxy users list`".to_owned(),
    };
    Ok(Failure::new(Exit::Failed, format!("No user is named `{}`.", line(name))).hint(hint).into())
}

fn of_provider(name: &str) -> anyhow::Error {
    let message = format!("`{}` signs in with the identity provider and has no password here.", line(name));
    Failure::new(Exit::Failed, message)
        .hint("reset the user at the provider; to keep the user out, change `people.oidc.allowed` in the settings")
        .into()
}

async fn show(home: &Home, format: Format, name: &str, secret: &str, expires_ms: i64) -> anyhow::Result<()> {
    let (base_url, is_running) = base_url(home).await?;
    let link = Link { name, url: format!("{base_url}/ui/setup/{secret}"), expires: universal_time(expires_ms) };
    format.print(&link, || {
        let until = clock(expires_ms, now_ms());
        format!("Send this link to the user. It works once, until {until}, and is not shown again:\n\n  {}\n", link.url)
    })?;
    if is_running {
        output::tell("The running gateway records this in the activity log.");
    } else {
        output::tell("No gateway is running. Start it with `mcpproxy serve`: it records this in the activity log.");
    }
    Ok(())
}

/// Returns the base of links for users, and if a gateway is running.
async fn base_url(home: &Home) -> anyhow::Result<(String, bool)> {
    if home.running()?.is_some() {
        let status = Rest::connect(home)?.ask(Method::GET, "/api/v1/status").await?;
        let url = status.get("ui_url").and_then(Value::as_str).and_then(|url| url.strip_suffix("/ui/"));
        if let Some(url) = url {
            return Ok((url.to_owned(), true));
        }
    }
    let settings = database::settings(home).await?;
    Ok((settings.approvals.public_url.clone().unwrap_or_else(|| own_url(&settings, settings.listen)), false))
}

/// Reads the settings about users, without resolving references.
pub(super) async fn people(home: &Home) -> anyhow::Result<PeopleSettings> {
    database::settings(home).await.map(|settings| settings.people)
}
