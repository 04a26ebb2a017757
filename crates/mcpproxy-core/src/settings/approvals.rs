//! The `approvals` section: time limits, the places to approve, and notifications.

use std::time::Duration;

use super::read::Reader;
use super::{Secret, address, amount, keys};
use crate::contract::Effective;
use crate::file::amount::DAY;
use crate::file::{Fields, Node, NodeValue};
use crate::{Assurance, RiskLevel};

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ApprovalSettings {
    /// The time that a call waits for an approval. Zero means that it does not wait.
    pub wait: Duration,
    /// The time that an approval request stays open and an approval is valid.
    pub expire: Duration,
    /// The time that an approval request of an unattended agent stays open.
    pub headless_expire: Duration,
    /// The URL at which users reach the gateway, without a slash at the end. `None` means `localhost`.
    pub public_url: Option<String>,
    pub channels: Channels,
    pub notify: Notify,
    /// A client that declines a prompt faster than this has not shown it. Not in the settings file: only tests change it.
    pub shown_after: Duration,
}

/// The weakest place to approve a call in, by risk level.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Channels {
    /// Also for `low`, if something else requires an approval.
    pub medium: Channel,
    /// Also for tools without a risk level.
    pub high: Channel,
}

/// A place to approve a call. Greater is stricter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Channel {
    /// In a form that the agent's own client draws, or on the page.
    Form,
    /// On the gateway's own page or command line only.
    Page,
}

/// The ways to notify users of a new approval request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Notify {
    pub webhook: Option<Webhook>,
    /// A program and its arguments, such as a desktop notification.
    pub command: Option<Vec<String>>,
    /// The bell of the terminal in which the gateway runs.
    pub bell: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Webhook {
    /// A secret, because many services put a key into the URL.
    pub url: Secret,
    /// The key that signs its messages.
    pub secret: Secret,
}

const SECRET_MIN_CHARS: usize = 16;

impl ApprovalSettings {
    pub const WAIT: Duration = Duration::from_secs(45);
    pub const EXPIRE: Duration = Duration::from_secs(10 * 60);
    pub const HEADLESS_EXPIRE: Duration = DAY;
    /// Nobody reads a prompt and declines it within a second.
    pub const SHOWN_AFTER: Duration = Duration::from_secs(1);

    /// Returns where users may approve a call under this contract. Critical calls are never approved in a form.
    pub fn channel(&self, contract: &Effective) -> Channel {
        contract.strictest_by_risk(|risk| match risk {
            Some(RiskLevel::Low | RiskLevel::Medium) => self.channels.medium,
            None | Some(RiskLevel::High) => self.channels.high,
            Some(RiskLevel::Critical | RiskLevel::Forbidden) => Channel::Page,
        })
    }
}

impl Channel {
    /// Returns the weakest approval that can be given there.
    pub fn least(self) -> Assurance {
        match self {
            Self::Form => Assurance::Form,
            Self::Page => Assurance::Session,
        }
    }
}

impl Default for ApprovalSettings {
    fn default() -> Self {
        Self {
            wait: Self::WAIT,
            expire: Self::EXPIRE,
            headless_expire: Self::HEADLESS_EXPIRE,
            public_url: None,
            channels: Channels::default(),
            notify: Notify::default(),
            shown_after: Self::SHOWN_AFTER,
        }
    }
}

impl Default for Channels {
    fn default() -> Self {
        // Anyone who has an agent's token can answer a form. From `high` on, a form counts only if the operator allows
        // it.
        Self { medium: Channel::Form, high: Channel::Page }
    }
}

impl Default for Notify {
    fn default() -> Self {
        Self { webhook: None, command: None, bell: true }
    }
}

pub(super) fn read(reader: &mut Reader<'_>, fields: &Fields<'_>) -> Option<ApprovalSettings> {
    let fields = reader.fields(&fields.find("approvals")?.node, &keys::APPROVALS)?;
    let default = ApprovalSettings::default();
    let headless_expire = reader.parsed_of(&fields, "headless_expire", amount::parse_headless_expiry);
    Some(ApprovalSettings {
        wait: reader.parsed_of(&fields, "wait", amount::parse_wait).unwrap_or(default.wait),
        expire: reader.parsed_of(&fields, "expire", amount::parse_expiry).unwrap_or(default.expire),
        headless_expire: headless_expire.unwrap_or(default.headless_expire),
        public_url: reader.parsed_of(&fields, "public_url", address::parse_public_url),
        channels: read_channels(reader, &fields).unwrap_or_default(),
        notify: read_notify(reader, &fields).unwrap_or_default(),
        shown_after: ApprovalSettings::SHOWN_AFTER,
    })
}

fn read_channels(reader: &mut Reader<'_>, fields: &Fields<'_>) -> Option<Channels> {
    let fields = reader.fields(&fields.find("channels")?.node, &keys::CHANNELS)?;
    let default = Channels::default();
    if let Some(field) = fields.find("critical")
        && reader.choice(&field.node, keys::CHANNEL) == Some(Channel::Form)
    {
        reader
            .report(field.node.position, "critical calls are never approved in a form; write `page` or remove the key");
    }
    Some(Channels {
        medium: reader.choice_of(&fields, "medium", keys::CHANNEL).unwrap_or(default.medium),
        high: reader.choice_of(&fields, "high", keys::CHANNEL).unwrap_or(default.high),
    })
}

fn read_notify(reader: &mut Reader<'_>, fields: &Fields<'_>) -> Option<Notify> {
    let fields = reader.fields(&fields.find("notify")?.node, &keys::NOTIFY)?;
    let default = Notify::default();
    Some(Notify {
        webhook: fields.find("webhook").and_then(|field| read_webhook(reader, &field.node)),
        command: fields.find("command").and_then(|field| read_command(reader, &field.node)),
        bell: reader.boolean_of(&fields, "bell").unwrap_or(default.bell),
    })
}

fn read_webhook(reader: &mut Reader<'_>, node: &Node) -> Option<Webhook> {
    let fields = reader.fields(node, &keys::WEBHOOK)?;
    for key in keys::WEBHOOK.known {
        if fields.find(key).is_none() {
            reader.report(node.position, format!("a webhook needs `{key}`; add it"));
        }
    }
    let url = fields.find("url").and_then(|field| read_secret(reader, &field.node, address::check_webhook_url));
    let secret = fields.find("secret").and_then(|field| read_secret(reader, &field.node, check_secret));
    Some(Webhook { url: url?, secret: secret? })
}

/// Reads a value with its references resolved. A value with an unresolved reference is not checked.
pub(super) fn read_secret(
    reader: &mut Reader<'_>,
    node: &Node,
    check: fn(&str) -> Result<(), String>,
) -> Option<Secret> {
    let expanded = reader.expanded(node)?;
    let is_left = reader.context.stand_in().is_some_and(|stand_in| expanded.text.contains(stand_in));
    if !is_left {
        reader.checked(node, check(&expanded.text))?;
    }
    Some(if expanded.has_reference { Secret::new(expanded.text) } else { Secret::written_in_file(expanded.text) })
}

pub(super) fn check_secret(text: &str) -> Result<(), String> {
    if text.chars().count() >= SECRET_MIN_CHARS {
        return Ok(());
    }
    Err(format!("a secret of fewer than {SECRET_MIN_CHARS} characters can be guessed; use a longer, random one"))
}

fn read_command(reader: &mut Reader<'_>, node: &Node) -> Option<Vec<String>> {
    if let NodeValue::Text(_) = &node.value {
        return reader.wrong_type_but(node, "array", "; write each argument by itself (no shell is used)");
    }
    let words = reader.array(node)?;
    let Some((program, arguments)) = words.split_first() else {
        reader.report(node.position, "`command` is empty; write a program and its arguments, or remove the key");
        return None;
    };
    let program = reader.path(program, "command");
    let arguments: Vec<Option<String>> =
        arguments.iter().map(|word| reader.expanded(word).map(|expanded| expanded.text)).collect();
    let arguments: Option<Vec<String>> = arguments.into_iter().collect();
    Some([vec![program?], arguments?].concat())
}
