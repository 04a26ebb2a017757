//! The settings in force with the source of each value, for the console.
//!
//! Values come from [`Settings`] and not from the file: while changes wait for a user, the two differ. The file only tells
//! where a value is written. So [`parse`](super::parse) keeps the places of all keys in [`Written`].
//!
//! Secrets are never shown: a value that may contain one is described instead, such as `set, not shown`.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use super::machine::is_of_machine;
use super::reference::has_reference;
use super::{AgentOAuth, Channel, Durability, ExportTo, OidcSettings, Settings, StorageUrl};
use crate::file::amount::duration_text;
use crate::file::{Node, NodeValue};
use crate::mask;

/// Servers have a page of their own.
const SERVERS: &str = "mcpServers";
const HIDDEN: &str = "set, not shown";

/// A setting in force.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EffectiveSetting {
    /// The path of the key, such as `approvals.wait`.
    pub key: &'static str,
    /// The value for people, without secrets. Empty if there is none.
    pub value: String,
    pub source: SettingSource,
}

impl EffectiveSetting {
    /// Returns true if each gateway may have another value. Gateways with `operator_files: "database"` have all other
    /// settings from a published version.
    pub fn is_of_machine(&self) -> bool {
        is_of_machine(self.key)
    }
}

/// The source of a value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SettingSource {
    Default,
    File {
        line: usize,
    },
    /// The file refers to an environment variable.
    Environment {
        line: usize,
        variable: String,
    },
    /// The file refers to another file.
    OtherFile {
        line: usize,
        path: String,
    },
}

/// The places of the keys in the settings file. Two settings with the same values are equal, wherever they are written.
#[derive(Clone, Default)]
pub struct Written {
    places: BTreeMap<String, Place>,
}

#[derive(Clone)]
struct Place {
    source: SettingSource,
    /// The value as it is written, for the keys that every server takes over and [`Settings`] does not keep.
    text: String,
}

impl PartialEq for Written {
    fn eq(&self, _other: &Self) -> bool {
        true
    }
}

impl fmt::Debug for Written {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} keys", self.places.len())
    }
}

impl Written {
    /// Finds the keys of a parsed settings file.
    pub(super) fn of(root: &Node) -> Self {
        let mut written = Self::default();
        written.add("", root);
        written
    }

    fn add(&mut self, path: &str, node: &Node) {
        let NodeValue::Object(members) = &node.value else { return };
        for member in members {
            let line = member.position.line;
            if path.is_empty() && member.name == SERVERS {
                let source = SettingSource::File { line };
                self.places.insert(SERVERS.to_owned(), Place { source, text: String::new() });
                continue;
            }
            let path = if path.is_empty() { member.name.clone() } else { format!("{path}.{}", member.name) };
            let source = source_of(line, &member.node);
            let text = member.node.to_json().map(|value| words(&value)).unwrap_or_default();
            self.add(&path, &member.node);
            self.places.insert(path, Place { source, text });
        }
    }

    /// Returns the line of a key, such as `tls.key`. `None` if the file does not have it.
    pub fn line(&self, key: &str) -> Option<usize> {
        match self.places.get(key)?.source {
            SettingSource::Default => None,
            SettingSource::File { line }
            | SettingSource::Environment { line, .. }
            | SettingSource::OtherFile { line, .. } => Some(line),
        }
    }

    /// Returns the keys of the file, sorted: also those of objects.
    pub(super) fn keys(&self) -> impl Iterator<Item = &str> {
        self.places.keys().map(String::as_str)
    }

    /// Takes these keys from another file, and all others from this one.
    pub(super) fn with_keys_of(mut self, other: &Self, is_theirs: impl Fn(&str) -> bool) -> Self {
        self.places.retain(|key, _| !is_theirs(key));
        let theirs = other.places.iter().filter(|(key, _)| is_theirs(key));
        self.places.extend(theirs.map(|(key, place)| (key.clone(), place.clone())));
        self
    }

    fn source(&self, key: &str) -> SettingSource {
        self.places.get(key).map_or(SettingSource::Default, |place| place.source.clone())
    }

    fn text(&self, key: &str) -> Option<String> {
        self.places.get(key).map(|place| place.text.clone())
    }
}

/// A value with a reference comes from where the reference points.
fn source_of(line: usize, node: &Node) -> SettingSource {
    let between = |start: &str| {
        let text = node.text().filter(|text| has_reference(text))?;
        text.split_once(start)?.1.split_once('}').map(|(name, _)| name.to_owned())
    };
    if let Some(variable) = between("${env:") {
        return SettingSource::Environment { line, variable };
    }
    match between("${file:") {
        Some(path) => SettingSource::OtherFile { line, path },
        None => SettingSource::File { line },
    }
}

fn words(value: &serde_json::Value) -> String {
    match value {
        serde_json::Value::String(text) => text.clone(),
        serde_json::Value::Array(values) => values.iter().map(words).collect::<Vec<_>>().join(", "),
        other => other.to_string(),
    }
}

impl Settings {
    /// Lists every setting but the servers, with its value in force and its source, in the order of the reference page.
    pub fn effective(&self) -> Vec<EffectiveSetting> {
        let setting = |(key, value): (&'static str, String)| {
            let value = mask(&value, &[]).into_owned();
            EffectiveSetting { key, value, source: self.written.source(key) }
        };
        self.values().into_iter().map(setting).collect()
    }

    fn values(&self) -> Vec<(&'static str, String)> {
        let (intent, contracts, trust) = (&self.intent, &self.contracts, &self.trust);
        let mut values = vec![
            ("listen", self.listen.to_string()),
            ("tls.certificate", self.tls.as_ref().map(|tls| tls.certificate.clone()).unwrap_or_default()),
            ("tls.key", self.tls.as_ref().map(|tls| tls.key.clone()).unwrap_or_default()),
            ("tls_terminated_by_proxy", self.tls_terminated_by_proxy.to_string()),
            ("allowed_hosts", self.allowed_hosts.join(", ")),
            ("allowed_origins", self.allowed_origins.join(", ")),
            ("allow_anonymous_loopback", self.allow_anonymous_loopback.to_string()),
            ("direct_mode", self.direct_mode.to_string()),
            ("shutdown_grace", duration_text(self.shutdown_grace)),
            ("ready_timeout", duration_text(self.ready_timeout)),
            ("env_passthrough", self.written.text("env_passthrough").unwrap_or_default()),
            ("tools_refresh", self.written.text("tools_refresh").unwrap_or_else(|| "60s".to_owned())),
            ("intent_declaration.strict_server_validation", intent.strict_server_validation.to_string()),
            ("intent_declaration.two_key", intent.two_key.as_str().to_owned()),
            ("intent_declaration.unannotated", intent.unannotated.as_str().to_owned()),
            ("contracts.unclassified", contracts.unclassified.as_str().to_owned()),
            ("contracts.weakening", contracts.weakening.as_str().to_owned()),
            ("trust.first_sight", trust.first_sight.as_str().to_owned()),
            ("trust.changes", trust.changes.as_str().to_owned()),
            ("search.encoder", self.search.encoder.as_str().to_owned()),
        ];
        values.extend(self.agent_values());
        values.extend(self.approval_values());
        values.extend(self.people_values());
        values.extend(self.log_values());
        values.extend(self.metrics_values());
        values
    }

    fn agent_values(&self) -> [(&'static str, String); 9] {
        let oauth = self.agents.oauth.as_ref();
        let text = |read: fn(&AgentOAuth) -> String| oauth.map(read).unwrap_or_default();
        let listed = |read: fn(&AgentOAuth) -> Option<&String>| oauth.and_then(read).cloned().unwrap_or_default();
        [
            ("agents.oauth.issuer", text(|oauth| oauth.issuer.clone())),
            ("agents.oauth.audience", text(|oauth| oauth.audience.clone())),
            ("agents.oauth.scopes", text(|oauth| oauth.scopes.join(", "))),
            ("agents.oauth.claims.name", text(|oauth| oauth.claims.name.clone())),
            ("agents.oauth.claims.servers", listed(|oauth| oauth.claims.granted.listed()[0])),
            ("agents.oauth.claims.operations", listed(|oauth| oauth.claims.granted.listed()[1])),
            ("agents.oauth.claims.permissions", listed(|oauth| oauth.claims.granted.listed()[2])),
            ("agents.oauth.claims.allow", text(|oauth| oauth.claims.granted.allowed())),
            ("agents.oauth.blocked", text(|oauth| oauth.blocked.join(", "))),
        ]
    }

    fn approval_values(&self) -> [(&'static str, String); 11] {
        let approvals = &self.approvals;
        let channel = |channel: Channel| match channel {
            Channel::Form => "form".to_owned(),
            Channel::Page => "page".to_owned(),
        };
        let webhook = approvals.notify.webhook.as_ref().map(|_| HIDDEN.to_owned()).unwrap_or_default();
        [
            ("approvals.wait", duration_text(approvals.wait)),
            ("approvals.expire", duration_text(approvals.expire)),
            ("approvals.headless_expire", duration_text(approvals.headless_expire)),
            ("approvals.public_url", approvals.public_url.clone().unwrap_or_default()),
            ("approvals.channels.medium", channel(approvals.channels.medium)),
            ("approvals.channels.high", channel(approvals.channels.high)),
            ("approvals.channels.critical", channel(Channel::Page)),
            ("approvals.notify.webhook.url", webhook.clone()),
            ("approvals.notify.webhook.secret", webhook),
            // Its arguments may hold a token, as those of a server.
            (
                "approvals.notify.command",
                approvals.notify.command.as_ref().and_then(|words| words.first()).cloned().unwrap_or_default(),
            ),
            ("approvals.notify.bell", approvals.notify.bell.to_string()),
        ]
    }

    fn people_values(&self) -> Vec<(&'static str, String)> {
        let (people, oidc) = (&self.people, self.people.oidc.as_ref());
        let text = |value: fn(&OidcSettings) -> String| oidc.map(value).unwrap_or_default();
        let secret = oidc.and_then(|oidc| oidc.client_secret.as_ref()).map(|_| HIDDEN.to_owned()).unwrap_or_default();
        vec![
            ("people.password", people.password.to_string()),
            ("people.session.idle", duration_text(people.session.idle)),
            ("people.session.max", duration_text(people.session.max)),
            ("people.oidc.issuer", text(|oidc| oidc.issuer.clone())),
            ("people.oidc.client_id", text(|oidc| oidc.client_id.clone())),
            ("people.oidc.client_secret", secret),
            ("people.oidc.scopes", text(|oidc| oidc.scopes.join(", "))),
            ("people.oidc.allowed.emails", text(|oidc| oidc.allowed.emails.join(", "))),
            ("people.oidc.allowed.domains", text(|oidc| oidc.allowed.domains.join(", "))),
            ("people.oidc.allowed.groups", text(|oidc| oidc.allowed.groups.join(", "))),
            ("people.oidc.admins.emails", text(|oidc| oidc.admins.emails.join(", "))),
            ("people.oidc.admins.domains", text(|oidc| oidc.admins.domains.join(", "))),
            ("people.oidc.admins.groups", text(|oidc| oidc.admins.groups.join(", "))),
            ("people.oidc.groups_claim", text(|oidc| oidc.groups_claim.clone())),
            ("people.oidc.name", text(|oidc| oidc.name.clone())),
            ("people.oidc.acr", text(|oidc| oidc.acr.clone().unwrap_or_default())),
        ]
    }

    fn log_values(&self) -> [(&'static str, String); 9] {
        let (activity, retention) = (&self.activity, &self.activity.retention);
        let durability = match activity.durability {
            Durability::All => "all",
            Durability::Writes => "writes",
        };
        let age = |age: Option<Duration>| age.map_or_else(forever, duration_text);
        let size = |bytes: Option<u64>| bytes.map_or_else(forever, size_text);
        let storage = match &self.storage.url {
            None => String::new(),
            Some(StorageUrl::Sqlite(path)) => format!("sqlite:{path}"),
            Some(StorageUrl::Postgres(_)) => format!("PostgreSQL, URL {HIDDEN}"),
        };
        [
            ("activity.durability", durability.to_owned()),
            ("activity.checkpoints_to", activity.checkpoints_to.clone().unwrap_or_default()),
            ("activity.retention.payloads", age(retention.payloads)),
            ("activity.retention.payload_bytes", size(retention.payload_bytes)),
            ("activity.retention.records", age(retention.records)),
            ("storage.url", storage),
            ("operator_files", self.operator_files.as_str().to_owned()),
            ("limits.memory", size_text(u64::try_from(self.limits.memory_bytes).unwrap_or(u64::MAX))),
            ("limits.disk", size(self.limits.disk)),
        ]
    }

    fn metrics_values(&self) -> [(&'static str, String); 5] {
        let (metrics, export) = (&self.metrics, self.export.as_ref());
        let to = export.map(|export| match &export.to {
            ExportTo::File(path) => format!("file:{path}"),
            ExportTo::Http(_) => format!("HTTP, URL {HIDDEN}"),
        });
        let token = export.and_then(|export| export.token.as_ref());
        [
            ("metrics.enabled", metrics.enabled.to_string()),
            ("metrics.listen", metrics.listen.map(|listen| listen.to_string()).unwrap_or_default()),
            ("metrics.token", metrics.token.as_ref().map(|_| HIDDEN.to_owned()).unwrap_or_default()),
            ("export.to", to.unwrap_or_default()),
            ("export.token", token.map(|_| HIDDEN.to_owned()).unwrap_or_default()),
        ]
    }
}

fn forever() -> String {
    "forever".to_owned()
}

/// Writes a size in the largest unit that divides it.
fn size_text(bytes: u64) -> String {
    let units = [(1 << 40, "TiB"), (1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")];
    match units.into_iter().find(|(unit, _)| bytes > 0 && bytes.is_multiple_of(*unit)) {
        Some((unit, name)) => format!("{}{name}", bytes / unit),
        None => format!("{bytes}B"),
    }
}
