//! "Needs attention": each entry says what is wrong and how to fix it, with a link or a command.

use mcpproxy_core::Untrusted;
use mcpproxy_gateway::{Drift, HeldChanges, ServerStatus, StateName, fully_verified_ms};
use mcpproxy_store::{Health, Record, Status};

use crate::ui::pages::amount::{counted, items, one_line};
use crate::visible::Visible;

const DAY_MS: i64 = 86_400_000;
/// A log that was not verified for this time needs attention.
const VERIFY_DAYS: i64 = 7;
/// Servers with an entry. The page of servers has all.
const SERVERS_MAX: usize = 8;
const DETAIL_CHARS: usize = 400;

#[derive(Debug)]
pub(crate) struct Attention {
    /// `bad` if calls fail or rules are not in force, else `warn`.
    pub(crate) class: &'static str,
    pub(crate) title: Visible,
    pub(crate) details: Vec<Detail>,
    pub(crate) link: Option<(String, &'static str)>,
    /// The arguments of a command for the terminal.
    pub(crate) command: Option<&'static str>,
}

#[derive(Debug)]
pub(crate) enum Detail {
    /// Text of a file or a server.
    Quoted(Visible),
    /// A sentence of ours, with names and commands between backticks.
    Said(String),
}

/// Everything that an entry can come from.
pub(crate) struct Facts<'a> {
    pub(crate) log: Health,
    pub(crate) reload_error: Option<String>,
    pub(crate) held: Option<&'a HeldChanges>,
    pub(crate) warnings: Vec<String>,
    /// Differences between the gateways that share the database.
    pub(crate) drift: &'a [Drift],
    pub(crate) servers: &'a [ServerStatus],
    /// The last line of the log of each server that is down, by its position in `servers`.
    pub(crate) last_lines: Vec<(usize, Untrusted)>,
    pub(crate) last_verification: Option<&'a Record>,
    /// The time of the oldest record.
    pub(crate) log_since_ms: Option<i64>,
    pub(crate) now_ms: i64,
}

impl Attention {
    pub(crate) fn all(facts: &Facts<'_>) -> Vec<Self> {
        let mut all = Vec::new();
        all.extend(of_log(&facts.log));
        all.extend(facts.reload_error.as_deref().map(of_reload_error));
        all.extend(facts.held.map(of_held));
        all.extend(facts.drift.iter().map(of_drift));
        all.extend(of_servers(facts));
        all.extend(facts.servers.iter().filter(|server| server.to_review > 0).take(SERVERS_MAX).map(of_review));
        all.extend(of_verification(facts));
        all.extend(of_warnings(&facts.warnings));
        all
    }

    fn new(class: &'static str, title: &str) -> Self {
        Self { class, title: Visible::of(title), details: Vec::new(), link: None, command: None }
    }

    fn says(mut self, text: &str) -> Self {
        self.details.push(Detail::Said(one_line(text, DETAIL_CHARS)));
        self
    }

    fn quotes(mut self, text: &str) -> Self {
        self.details.push(Detail::Quoted(Visible::of(&one_line(text, DETAIL_CHARS))));
        self
    }

    fn fixed_at(mut self, href: impl Into<String>, text: &'static str) -> Self {
        self.link = Some((href.into(), text));
        self
    }
}

fn of_log(log: &Health) -> Option<Attention> {
    match log {
        Health::Well => None,
        Health::Failing { reason, .. } => {
            let entry = Attention::new("bad", "The activity log cannot be written, so no call is sent");
            Some(entry.quotes(reason).fixed_at("/ui/settings#storage", "See the storage"))
        }
    }
}

fn of_reload_error(error: &str) -> Attention {
    let mut lines = error.lines();
    let first = lines.next().unwrap_or_default();
    let entry = Attention::new("bad", "Settings not loaded. The previous settings remain active").quotes(first);
    let entry = match lines.count() {
        0 => entry,
        more => entry.says(&format!("And {}.", counted(items(more), "more mistake"))),
    };
    entry.fixed_at("/ui/settings#reloads", "See all mistakes")
}

fn of_held(held: &HeldChanges) -> Attention {
    let count = held.weaker.lines().len();
    let title = match count {
        1 => "1 change that weakens your rules waits for you".to_owned(),
        count => format!("{} that weaken your rules wait for you", counted(items(count), "change")),
    };
    Attention::new("warn", &title).quotes(&held.summary()).fixed_at("/ui/settings#held", "Review and apply")
}

fn of_drift(drift: &Drift) -> Attention {
    let message = drift.message();
    let (title, members) = message.split_once(": ").unwrap_or((&message, ""));
    Attention::new("bad", title)
        .quotes(members)
        .says(drift.next())
        .fixed_at("/ui/settings#gateways", "See the gateways")
}

fn of_servers(facts: &Facts<'_>) -> Vec<Attention> {
    let is_down = |server: &ServerStatus| match server.state {
        StateName::Waiting | StateName::Misconfigured | StateName::NeedsSignIn => true,
        StateName::Connecting | StateName::Ready | StateName::Disabled => false,
    };
    let down = facts.servers.iter().enumerate().filter(|(_, server)| is_down(server));
    let mut entries: Vec<Attention> = down
        .clone()
        .take(SERVERS_MAX)
        .map(|(at, server)| {
            let title = match server.state {
                StateName::Misconfigured => format!("Server {} has a mistake in its settings", server.name),
                StateName::NeedsSignIn => format!("Server {} needs a sign-in", server.name),
                StateName::Waiting | StateName::Connecting | StateName::Ready | StateName::Disabled => {
                    format!("Server {} is not connected", server.name)
                }
            };
            let mut entry = Attention::new("bad", &title);
            if let Some(reason) = &server.reason {
                entry = entry.quotes(reason);
            }
            // The log repeats the reason if the process wrote nothing before it exited.
            let repeats =
                |line: &Untrusted| server.reason.as_ref().is_some_and(|reason| line.for_json().contains(reason));
            if let Some((_, line)) = facts.last_lines.iter().find(|(of, line)| *of == at && !repeats(line)) {
                entry = entry.quotes(line.for_json());
            }
            if let Some(hint) = &server.hint {
                entry = entry.says(hint);
            }
            entry.fixed_at(format!("/ui/servers/{}", server.name), "Open the server")
        })
        .collect();
    let more = down.count().saturating_sub(SERVERS_MAX);
    if more > 0 {
        let title = format!("{} are not connected either", counted(items(more), "more server"));
        entries.push(Attention::new("bad", &title).fixed_at("/ui/servers", "See all servers"));
    }
    entries
}

fn of_review(server: &ServerStatus) -> Attention {
    let count = counted(items(server.to_review), "definition");
    let (verb, them) = if server.to_review == 1 { ("waits", "it") } else { ("wait", "them") };
    Attention::new("warn", &format!("{count} of {} {verb} for a review. Agents do not see {them}", server.name))
        .fixed_at(format!("/ui/servers/{}/review", server.name), "Review")
}

fn of_verification(facts: &Facts<'_>) -> Option<Attention> {
    let days = |since_ms: i64| (facts.now_ms - since_ms) / DAY_MS;
    // Only a verification of every line counts.
    let full_ms = |last: &Record| fully_verified_ms(last).unwrap_or_default();
    let mut entry = match (facts.last_verification, facts.log_since_ms) {
        (Some(last), _) if last.status != Status::Success => {
            let entry = Attention::new("bad", "The last verification found damage in the activity log");
            entry.quotes(last.message.as_ref().map(Untrusted::for_json).unwrap_or_default())
        }
        (Some(last), _) if days(full_ms(last)) >= VERIFY_DAYS => Attention::new(
            "warn",
            &format!("The activity log was not verified in full for {} days", days(full_ms(last))),
        ),
        (None, Some(since_ms)) if days(since_ms) >= VERIFY_DAYS => {
            let title = format!("The activity log was never verified here, in {} days", days(since_ms));
            Attention::new("warn", &title)
        }
        (Some(_) | None, _) => return None,
    };
    entry.command = Some("activity verify");
    Some(entry.fixed_at("/ui/settings#verify", "Verify now"))
}

fn of_warnings(warnings: &[String]) -> Option<Attention> {
    let first = warnings.first()?;
    let entry = Attention::new("warn", &format!("The settings file has {}", counted(items(warnings.len()), "warning")));
    Some(entry.quotes(first).fixed_at("/ui/settings#reloads", "See the settings"))
}
