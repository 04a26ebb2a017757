//! Compares two settings, for a reload.

use super::{ServerSettings, Settings, TransportSettings};
use crate::{Mistake, ServerName};

/// The difference between two settings. Changes that are not listed here take effect with the next snapshot.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Changes {
    pub added: Vec<ServerName>,
    pub removed: Vec<ServerName>,
    pub changed: Vec<ServerName>,
    /// Misconfigured servers that only moved to other lines, because something else in the file changed. They are
    /// replaced too, so that their reason names the new line. But nobody changed them.
    pub moved: Vec<ServerName>,
    /// Keys whose new value takes effect only after a restart.
    pub restart_needed: Vec<&'static str>,
}

/// Compares values, not texts. If the secret behind a reference changes, its server counts as changed.
pub fn diff(old: &Settings, new: &Settings) -> Changes {
    let mut changes = Changes::default();
    for server in &new.servers {
        match old.servers.iter().find(|other| other.name == server.name) {
            None => changes.added.push(server.name.clone()),
            Some(other) if other != server && has_only_moved(other, server) => changes.moved.push(server.name.clone()),
            Some(other) if other != server => changes.changed.push(server.name.clone()),
            Some(_) => {}
        }
    }
    let is_gone = |name: &ServerName| !new.servers.iter().any(|server| server.name == *name);
    changes.removed = old.servers.iter().map(|server| &server.name).filter(|name| is_gone(name)).cloned().collect();
    if old.listen != new.listen {
        changes.restart_needed.push("listen");
    }
    // New files take effect at once. But a listener either speaks TLS or not.
    if old.tls.is_some() != new.tls.is_some() {
        changes.restart_needed.push("tls");
    }
    if old.storage != new.storage {
        changes.restart_needed.push("storage");
    }
    if old.activity.checkpoints_to != new.activity.checkpoints_to {
        changes.restart_needed.push("activity.checkpoints_to");
    }
    if old.activity.retention != new.activity.retention {
        changes.restart_needed.push("activity.retention");
    }
    if old.limits.disk != new.limits.disk {
        changes.restart_needed.push("limits.disk");
    }
    if old.metrics.listen != new.metrics.listen {
        changes.restart_needed.push("metrics.listen");
    }
    if old.export != new.export {
        changes.restart_needed.push("export");
    }
    if old.approvals.public_url != new.approvals.public_url {
        changes.restart_needed.push("approvals.public_url");
    }
    changes
}

/// Returns true for two versions of a misconfigured server that differ only in the places of its mistakes.
fn has_only_moved(old: &ServerSettings, new: &ServerSettings) -> bool {
    match (&old.transport, &new.transport) {
        (
            TransportSettings::Misconfigured { kind: was, mistakes: before },
            TransportSettings::Misconfigured { kind: is, mistakes: after },
        ) => {
            let messages = |mistakes: &[Mistake]| mistakes.iter().map(|one| one.message.clone()).collect::<Vec<_>>();
            let moved = ServerSettings { transport: new.transport.clone(), ..old.clone() };
            was == is && messages(before) == messages(after) && moved == *new
        }
        (
            TransportSettings::Stdio { .. }
            | TransportSettings::Http { .. }
            | TransportSettings::Sse { .. }
            | TransportSettings::Demo
            | TransportSettings::Misconfigured { .. },
            _,
        ) => false,
    }
}

/// Names the settings other than servers that differ, those that decide on calls with both values.
pub fn changed_keys(old: &Settings, new: &Settings) -> Vec<String> {
    let word = |flag: bool| if flag { "true" } else { "false" };
    // Every field by name, so that a new one does not compile until it is compared here.
    let Settings {
        servers: _,
        intent: is,
        contracts,
        trust,
        activity,
        approvals,
        people,
        agents,
        listen,
        shutdown_grace,
        ready_timeout,
        direct_mode,
        allow_anonymous_loopback,
        tls,
        tls_terminated_by_proxy,
        allowed_hosts,
        allowed_origins,
        storage,
        operator_files,
        limits,
        metrics,
        export,
        search,
        warnings: _,
        written: _,
    } = new;
    let was = &old.intent;
    let values = [
        ("intent_declaration.two_key", was.two_key.as_str(), is.two_key.as_str()),
        ("intent_declaration.unannotated", was.unannotated.as_str(), is.unannotated.as_str()),
        (
            "intent_declaration.strict_server_validation",
            word(was.strict_server_validation),
            word(is.strict_server_validation),
        ),
        ("contracts.unclassified", old.contracts.unclassified.as_str(), contracts.unclassified.as_str()),
        ("contracts.weakening", old.contracts.weakening.as_str(), contracts.weakening.as_str()),
        ("trust.first_sight", old.trust.first_sight.as_str(), trust.first_sight.as_str()),
        ("trust.changes", old.trust.changes.as_str(), trust.changes.as_str()),
        ("operator_files", old.operator_files.as_str(), operator_files.as_str()),
        ("direct_mode", word(old.direct_mode), word(*direct_mode)),
        ("search.encoder", old.search.encoder.as_str(), search.encoder.as_str()),
        ("allow_anonymous_loopback", word(old.allow_anonymous_loopback), word(*allow_anonymous_loopback)),
    ];
    let sections = [
        ("activity", old.activity != *activity),
        ("approvals", old.approvals != *approvals),
        ("people", old.people != *people),
        ("agents", old.agents != *agents),
        ("listen", old.listen != *listen),
        ("shutdown_grace", old.shutdown_grace != *shutdown_grace),
        ("ready_timeout", old.ready_timeout != *ready_timeout),
        ("tls", old.tls != *tls),
        ("tls_terminated_by_proxy", old.tls_terminated_by_proxy != *tls_terminated_by_proxy),
        ("allowed_hosts", old.allowed_hosts != *allowed_hosts),
        ("allowed_origins", old.allowed_origins != *allowed_origins),
        ("storage", old.storage != *storage),
        ("limits", old.limits != *limits),
        ("metrics", old.metrics != *metrics),
        ("export", old.export != *export),
    ];
    let values = values.into_iter().filter(|(_, was, is)| was != is);
    let values = values.map(|(key, was, is)| format!("{key} {was} → {is}"));
    values.chain(sections.into_iter().filter(|(_, differ)| *differ).map(|(key, _)| key.to_owned())).collect()
}

/// Names the keys of a server that differ. Never shows a value, because each may hold a secret.
pub fn changed_server_keys(old: &ServerSettings, new: &ServerSettings) -> Vec<&'static str> {
    // Every field by name, so that a new one does not compile until it is compared here. Places of secrets follow from
    // the keys of the transport.
    let ServerSettings {
        name: _,
        enabled,
        title,
        description,
        transport,
        oauth,
        call_timeout,
        connect_timeout,
        tools_refresh,
        max_concurrent_calls,
        result_limit_bytes,
        env_passthrough,
        tools,
        first_sight,
        identity,
        secrets_in_file: _,
    } = new;
    let own = [
        ("enabled", old.enabled != *enabled),
        ("title", old.title != *title),
        ("description", old.description != *description),
        ("oauth", old.oauth != *oauth),
        ("call_timeout", old.call_timeout != *call_timeout),
        ("connect_timeout", old.connect_timeout != *connect_timeout),
        ("tools_refresh", old.tools_refresh != *tools_refresh),
        ("max_concurrent_calls", old.max_concurrent_calls != *max_concurrent_calls),
        ("result_limit", old.result_limit_bytes != *result_limit_bytes),
        ("env_passthrough", old.env_passthrough != *env_passthrough),
        ("include_tools", old.tools.include != tools.include),
        ("exclude_tools", old.tools.exclude != tools.exclude),
        ("first_sight", old.first_sight != *first_sight),
    ];
    let own = own.into_iter().filter(|(_, differ)| *differ).map(|(key, _)| key);
    let mut keys = changed_transport_keys(&old.transport, transport);
    if keys.first() != Some(&"type") {
        // Another text with the same value, such as a reference in place of a literal.
        let written: Vec<&str> = identity.changed_keys(&old.identity).filter(|key| !keys.contains(key)).collect();
        keys.extend(written);
    }
    keys.into_iter().chain(own).collect()
}

fn changed_transport_keys(old: &TransportSettings, new: &TransportSettings) -> Vec<&'static str> {
    type Transport = TransportSettings;
    let differing = |keys: &[(&'static str, bool)]| {
        keys.iter().filter(|(_, differ)| *differ).map(|(key, _)| *key).collect::<Vec<_>>()
    };
    match (old, new) {
        (
            Transport::Stdio { command, args, env, cwd },
            Transport::Stdio { command: new_command, args: new_args, env: new_env, cwd: new_cwd },
        ) => differing(&[
            ("command", command != new_command),
            ("args", args != new_args),
            ("env", env != new_env),
            ("cwd", cwd != new_cwd),
        ]),
        (Transport::Http { url, headers }, Transport::Http { url: new_url, headers: new_headers })
        | (Transport::Sse { url, headers }, Transport::Sse { url: new_url, headers: new_headers }) => {
            differing(&[("url", url != new_url), ("headers", headers != new_headers)])
        }
        // The mistakes differ. The keys that were written differently are named from the texts.
        (Transport::Misconfigured { kind, .. }, Transport::Misconfigured { kind: new_kind, .. }) => {
            differing(&[("type", kind != new_kind)])
        }
        (
            Transport::Stdio { .. }
            | Transport::Http { .. }
            | Transport::Sse { .. }
            | Transport::Demo
            | Transport::Misconfigured { .. },
            _,
        ) => differing(&[("type", old != new)]),
    }
}

impl Changes {
    /// Returns true if there is nothing to connect, disconnect or restart.
    pub fn is_empty(&self) -> bool {
        let Self { added, removed, changed, moved, restart_needed } = self;
        let servers = [added, removed, changed, moved];
        servers.iter().all(|names| names.is_empty()) && restart_needed.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::settings::{
        Durability, EncoderUse, Secret, StorageUrl, TlsSettings, TwoKey, Unannotated, Unclassified, Unresolved,
        Weakening, demo, parse,
    };
    use crate::trust::{OnChange, Welcome};

    #[test]
    fn every_key_is_named() {
        let check = |change: fn(&mut Settings), expected: &str| {
            let mut new = Settings::default();
            change(&mut new);
            assert_eq!(changed_keys(&Settings::default(), &new), [expected]);
        };
        check(|new| new.intent.two_key = TwoKey::Required, "intent_declaration.two_key optional → required");
        check(|new| new.intent.unannotated = Unannotated::Warn, "intent_declaration.unannotated trust → warn");
        check(
            |new| new.intent.strict_server_validation = false,
            "intent_declaration.strict_server_validation true → false",
        );
        check(|new| new.contracts.unclassified = Unclassified::Deny, "contracts.unclassified allow → deny");
        check(|new| new.contracts.weakening = Weakening::Apply, "contracts.weakening confirm → apply");
        check(|new| new.trust.first_sight = Welcome::Accept, "trust.first_sight review → accept");
        check(|new| new.trust.changes = OnChange::Warn, "trust.changes review → warn");
        check(|new| new.direct_mode = false, "direct_mode true → false");
        check(|new| new.search.encoder = EncoderUse::Off, "search.encoder auto → off");
        check(|new| new.shutdown_grace *= 2, "shutdown_grace");
        check(|new| new.ready_timeout *= 2, "ready_timeout");
        check(|new| new.allow_anonymous_loopback = true, "allow_anonymous_loopback false → true");
        check(
            |new| {
                new.activity.durability = match new.activity.durability {
                    Durability::All => Durability::Writes,
                    Durability::Writes => Durability::All,
                };
            },
            "activity",
        );
        check(|new| new.approvals.wait += Duration::from_secs(1), "approvals");
        check(|new| new.people.password = false, "people");
        check(
            |new| {
                let text = r#"{"agents": {"oauth": {"issuer": "https://id.example.com", "audience": "a"}}}"#;
                new.agents = parse(text, &Unresolved).unwrap().agents;
            },
            "agents",
        );
        check(|new| new.limits.disk = None, "limits");
        check(|new| new.listen.set_port(1), "listen");
        check(|new| new.tls = Some(TlsSettings { certificate: "a".to_owned(), key: "b".to_owned() }), "tls");
        check(|new| new.tls_terminated_by_proxy = true, "tls_terminated_by_proxy");
        check(|new| new.allowed_hosts.push("a".to_owned()), "allowed_hosts");
        check(|new| new.allowed_origins.push("http://a".to_owned()), "allowed_origins");
        check(|new| new.storage.url = Some(StorageUrl::Sqlite("a".to_owned())), "storage");
        check(|new| new.limits.memory_bytes *= 2, "limits");
        check(|new| new.metrics.enabled = false, "metrics");
        check(|new| new.export = parse(r#"{"export": {"to": "file:/a"}}"#, &Unresolved).unwrap().export, "export");
        assert!(changed_keys(&Settings::default(), &demo()).is_empty(), "servers are compared by `diff`");
    }

    #[test]
    fn every_key_of_a_server_is_named() {
        let http = |url: &str, token: &str| TransportSettings::Http {
            url: url.to_owned(),
            headers: vec![("Authorization".to_owned(), Secret::new(token))],
        };
        let stdio = |command: &str, argument: &str, value: &str, cwd: Option<&str>| TransportSettings::Stdio {
            command: command.to_owned(),
            args: vec![argument.to_owned()],
            env: vec![("KEY".to_owned(), Secret::new(value))],
            cwd: cwd.map(str::to_owned),
        };
        let server = |transport| ServerSettings::new(ServerName::parse("fx").unwrap(), transport);
        let check = |old: TransportSettings, new: TransportSettings, expected: &[&str]| {
            assert_eq!(changed_server_keys(&server(old), &server(new)), expected);
        };
        check(http("a", "b"), http("a", "b"), &[]);
        check(http("a", "b"), http("c", "b"), &["url"]);
        check(http("a", "b"), http("a", "c"), &["headers"]);
        check(http("a", "b"), stdio("a", "b", "c", None), &["type"]);
        check(stdio("a", "b", "c", None), stdio("x", "b", "c", None), &["command"]);
        check(stdio("a", "b", "c", None), stdio("a", "x", "x", Some("/")), &["args", "env", "cwd"]);
        let own = |change: fn(&mut ServerSettings), expected: &[&str]| {
            let mut new = server(TransportSettings::Demo);
            change(&mut new);
            assert_eq!(changed_server_keys(&server(TransportSettings::Demo), &new), expected);
        };
        own(|new| new.enabled = false, &["enabled"]);
        own(|new| new.title = Some("Fx".to_owned()), &["title"]);
        own(|new| new.description = Some("Fx".to_owned()), &["description"]);
        own(|new| new.oauth.scopes.push("a".to_owned()), &["oauth"]);
        own(|new| new.call_timeout *= 2, &["call_timeout"]);
        own(|new| new.connect_timeout *= 2, &["connect_timeout"]);
        own(|new| new.tools_refresh *= 2, &["tools_refresh"]);
        own(|new| new.max_concurrent_calls = 1, &["max_concurrent_calls"]);
        own(|new| new.result_limit_bytes = 1, &["result_limit"]);
        own(|new| new.env_passthrough.push("A".to_owned()), &["env_passthrough"]);
        own(|new| new.tools.include = Some(Vec::new()), &["include_tools"]);
        own(|new| new.tools.exclude.push("a".to_owned()), &["exclude_tools"]);
        own(|new| new.first_sight = Some(Welcome::Review), &["first_sight"]);
        let mut literal = server(http("a", "b"));
        literal.identity = server(http("${env:A}", "b")).identity;
        assert_eq!(changed_server_keys(&server(http("a", "b")), &literal), ["url"]);
    }

    /// A line that was added above a misconfigured server moves its mistake, and changes nothing of it.
    #[test]
    fn a_misconfigured_server_that_moved_is_not_changed() {
        let of = |before: &str, server: &str| {
            let text = format!(r#"{{{before}"mcpServers": {{"bad": {server}, "fx": {{"command": "x"}}}}}}"#);
            parse(&text, &Unresolved).unwrap()
        };
        let owned = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
        let check = |new: &Settings, changed: &[&str], moved: &[&str]| {
            let found = diff(&of("", r#"{"comand": "x"}"#), new);
            let names = |all: &[ServerName]| all.iter().map(ToString::to_string).collect::<Vec<_>>();
            assert_eq!((names(&found.changed), names(&found.moved)), (owned(changed), owned(moved)));
        };
        check(&of("", r#"{"comand": "x"}"#), &[], &[]);
        check(&of("\n\"direct_mode\": false,\n", r#"{"comand": "x"}"#), &[], &["bad"]);
        check(&of("", r#"{"comand": "x", "enabled": false}"#), &["bad"], &[]);
        check(&of("", r#"{"commmand": "x"}"#), &["bad"], &[]);
        check(&of("", r#"{"command": "x"}"#), &["bad"], &[]);
        let [old, new] = [of("", r#"{"comand": "x"}"#), of("", r#"{"commmand": "x"}"#)];
        let keys = changed_server_keys(&old.servers[0], &new.servers[0]);
        assert!(keys.is_empty(), "a mistake is no change of the type: {keys:?}");
    }
}
