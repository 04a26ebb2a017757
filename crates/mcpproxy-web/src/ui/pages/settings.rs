//! The content of the page `/ui/settings`.

pub(crate) mod effective;
pub(crate) mod gateways;
pub(crate) mod log;
pub(crate) mod reloads;
pub(crate) mod sessions;
pub(crate) mod versions;

use askama::Template;
use mcpproxy_gateway::HeldChanges;
use mcpproxy_store::Account;

use super::Frame;
use super::amount::{counted, grouped, items, part_key};
use super::labels::Time;
use crate::auth::factor::Factors;
use crate::visible::Visible;
use effective::SettingGroup;
use gateways::Gateways;
use log::{Storage, VerifyView};
use reloads::Reloads;
use sessions::Sessions;
use versions::ActiveVersion;

/// Held changes on the page. The rest is counted.
const CHANGES_MAX: usize = 200;

#[derive(Template)]
#[template(path = "settings.html")]
pub(crate) struct Settings {
    pub(crate) frame: Frame,
    pub(crate) error: Option<String>,
    pub(crate) done: Option<&'static str>,
    pub(crate) held: Option<HeldView>,
    pub(crate) held_key: String,
    pub(crate) factors: Factors,
    /// `None` with SQLite.
    pub(crate) published: Option<ActiveVersion>,
    pub(crate) reloads: Reloads,
    pub(crate) published_key: String,
    pub(crate) reloads_key: String,
    pub(crate) verify: VerifyView,
    pub(crate) verify_key: String,
    pub(crate) storage: Storage,
    pub(crate) storage_key: String,
    pub(crate) gateways: Gateways,
    pub(crate) groups: Vec<SettingGroup>,
    pub(crate) users: Vec<UserRow>,
    pub(crate) sessions: Sessions,
}

/// The parts of the page, without the keys that make it live.
pub(crate) struct SettingsParts {
    pub(crate) held: Option<HeldView>,
    pub(crate) factors: Factors,
    /// `None` with SQLite.
    pub(crate) published: Option<ActiveVersion>,
    pub(crate) reloads: Reloads,
    pub(crate) verify: VerifyView,
    pub(crate) storage: Storage,
    pub(crate) gateways: Gateways,
    pub(crate) groups: Vec<SettingGroup>,
    pub(crate) users: Vec<UserRow>,
    pub(crate) sessions: Sessions,
}

impl Settings {
    pub(crate) fn new(frame: Frame, parts: SettingsParts, error: Option<String>, done: Option<&'static str>) -> Self {
        let SettingsParts { held, factors, published, reloads, verify, storage, gateways, groups, users, sessions } =
            parts;
        Self {
            frame,
            error,
            done,
            held_key: part_key(&held),
            published_key: part_key(&published),
            reloads_key: part_key(&reloads),
            verify_key: part_key(&verify),
            storage_key: part_key(&storage),
            held,
            factors,
            published,
            reloads,
            verify,
            storage,
            gateways,
            groups,
            users,
            sessions,
        }
    }
}

impl Settings {
    /// Returns true if settings, contracts and policies come from the database.
    fn takes_versions(&self) -> bool {
        self.published.as_ref().is_some_and(|published| !published.reads_folder)
    }
}

/// Changes that wait for a user.
#[derive(Debug)]
pub(crate) struct HeldView {
    pub(crate) digest: String,
    pub(crate) heading: String,
    pub(crate) lines: Vec<Visible>,
    pub(crate) more: String,
    pub(crate) needs_step_up: bool,
}

impl HeldView {
    pub(crate) fn new(held: &HeldChanges) -> Self {
        let lines = held.weaker.lines();
        let more = lines.len().saturating_sub(CHANGES_MAX);
        let verb = if lines.len() == 1 { "waits" } else { "wait" };
        Self {
            digest: held.digest.clone(),
            heading: format!("{} {verb} for you", counted(items(lines.len()), "change")),
            lines: lines.iter().take(CHANGES_MAX).map(|line| Visible::of(line)).collect(),
            more: if more > 0 { counted(items(more), "more change") } else { String::new() },
            needs_step_up: held.weaker.needs_step_up,
        }
    }
}

#[derive(Debug)]
pub(crate) struct UserRow {
    pub(crate) name: Visible,
    pub(crate) is_you: bool,
    /// How the user signs in.
    pub(crate) kind: &'static str,
    /// Name and address of a user of the identity provider.
    pub(crate) about: Visible,
    pub(crate) is_of_provider: bool,
    pub(crate) is_enrolled: bool,
    pub(crate) since: Time,
    /// The last use of a session, if there is one.
    pub(crate) seen: Option<Time>,
    pub(crate) sessions: String,
}

impl UserRow {
    pub(crate) fn new(account: &Account, own_name: &str, now_ms: i64) -> Self {
        let profile = account.provider.as_ref().map(|provider| &provider.profile);
        let about =
            profile.map(|profile| [&profile.name, &profile.email].map(|text| text.as_deref().unwrap_or_default()));
        let about: Vec<&str> = about.into_iter().flatten().filter(|text| !text.is_empty()).collect();
        Self {
            name: Visible::of(&account.name),
            is_you: account.name == own_name,
            kind: match (&account.provider, account.has_password) {
                (Some(_), _) => "identity provider",
                (None, true) => "password",
                (None, false) => "nothing yet: reset by the operator",
            },
            about: Visible::of(&about.join(", ")),
            is_of_provider: account.provider.is_some(),
            is_enrolled: account.is_enrolled,
            since: Time::new(account.created_ms, now_ms),
            seen: account.seen_ms.map(|seen_ms| Time::new(seen_ms, now_ms)),
            sessions: grouped(account.sessions),
        }
    }
}
