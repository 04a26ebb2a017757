//! The account page: factors, password, and other approvers.

use askama::Template;
use askama::filters::HtmlSafe;
use mcpproxy_store::{Profile, UserRow};

use super::Frame;
use super::labels::Time;
use super::lists::waiting;
use crate::auth::factor::Factors;
use crate::auth::totp;
use crate::visible::Visible;

#[derive(Template)]
#[template(path = "account.html")]
pub(crate) struct Account {
    pub(crate) frame: Frame,
    pub(crate) error: Option<String>,
    pub(crate) done: Option<&'static str>,
    /// Calls that wait for a decision.
    pub(crate) waiting: Option<WaitingCalls>,
    pub(crate) is_enrolled: bool,
    pub(crate) factors: Factors,
    pub(crate) setup: Option<SetupView>,
    pub(crate) passkeys: Vec<PasskeyView>,
    pub(crate) passkeys_possible: bool,
    /// The last factor cannot be removed.
    pub(crate) can_remove: bool,
    pub(crate) base_url: String,
    /// The new invitation link.
    pub(crate) invitation: Option<String>,
    pub(crate) others: Vec<ApproverView>,
    /// The number of recovery codes that are not used yet.
    pub(crate) recovery_left: u32,
    /// New recovery codes, shown once.
    pub(crate) recovery_codes: Vec<String>,
    /// Statements of the identity provider about its user.
    pub(crate) profile: Option<ProfileView>,
    /// False if the user may not invite or remove others.
    pub(crate) may_manage: bool,
}

/// Statements of the identity provider about its user.
pub(crate) struct ProfileView {
    pub(crate) name: Visible,
    pub(crate) email: Visible,
    pub(crate) is_verified: bool,
    pub(crate) groups: Visible,
}

impl ProfileView {
    pub(crate) fn new(profile: &Profile) -> Self {
        Self {
            name: Visible::of(profile.name.as_deref().unwrap_or_default()),
            email: Visible::of(profile.email.as_deref().unwrap_or_default()),
            is_verified: profile.email_verified,
            groups: Visible::of(&profile.groups.join(", ")),
        }
    }
}

/// Another approver.
pub(crate) struct ApproverView {
    pub(crate) name: String,
    /// Keeps the ids of form fields unique.
    pub(crate) prefix: String,
    /// The path of the form, which is also the purpose of a second factor.
    pub(crate) path: String,
}

pub(crate) fn approvers(names: Vec<String>) -> Vec<ApproverView> {
    let views = names.into_iter().zip(1..);
    let view = |(name, number)| ApproverView {
        prefix: format!("person-{number}-"),
        path: format!("/ui/account/persons/{name}/remove"),
        name,
    };
    views.map(view).collect()
}

pub(crate) struct SetupView {
    pub(crate) qr: Picture,
    pub(crate) secret: String,
    pub(crate) uri: String,
}

/// An SVG of our own, safe to embed.
pub(crate) struct Picture(String);

impl std::fmt::Display for Picture {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl HtmlSafe for Picture {}

impl From<totp::Setup> for SetupView {
    fn from(setup: totp::Setup) -> Self {
        Self { qr: Picture(setup.qr_svg), secret: setup.secret, uri: setup.uri }
    }
}

pub(crate) struct PasskeyView {
    pub(crate) id: String,
    pub(crate) label: Visible,
    pub(crate) added: Time,
    /// Keeps the ids of form fields unique.
    pub(crate) prefix: String,
}

/// The number of waiting calls in words, and where to decide.
pub(crate) struct WaitingCalls {
    pub(crate) words: String,
    pub(crate) href: String,
}

impl WaitingCalls {
    /// Leads to the request itself if there is only one. `first` is the id of one that waits.
    pub(crate) fn new(pending: u64, first: Option<&str>) -> Option<Self> {
        let href = match (pending, first) {
            (0, _) => return None,
            (1, Some(id)) => format!("/ui/approvals/{id}"),
            _ => "/ui/approvals".to_owned(),
        };
        Some(Self { words: waiting(pending), href })
    }
}

pub(crate) fn passkeys(user: &UserRow, now_ms: i64) -> Vec<PasskeyView> {
    let views = user.passkeys.iter().zip(1..).map(|(passkey, number)| PasskeyView {
        id: passkey.id.clone(),
        label: Visible::of(&passkey.label),
        added: Time::new(passkey.created_ms, now_ms),
        prefix: format!("remove-{number}-"),
    });
    views.collect()
}
