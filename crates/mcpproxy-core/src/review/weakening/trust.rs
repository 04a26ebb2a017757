//! Compares the settings about trust in servers, and keeps the stricter values.
//!
//! `first_sight` of a server counts together with `trust.first_sight`. From the strictest: `review`, then nothing while
//! `trust.first_sight` is `review`, then `accept`. A server that was not in the file before had nothing. So a new server
//! with `"first_sight": "accept"` is weaker: whoever can write the file could bring any server past the quarantine.

use std::collections::BTreeMap;

use super::SettingChange;
use crate::ServerName;
use crate::settings::{ServerSettings, Settings, TrustSettings};
use crate::trust::{OnChange, Welcome};

/// `trust`, and `first_sight` of each server.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TrustRules {
    settings: TrustSettings,
    /// Bounded by the number of servers in a file.
    first_sight: BTreeMap<ServerName, Option<Welcome>>,
}

impl TrustRules {
    pub fn of(settings: &Settings) -> Self {
        let of_server = |server: &ServerSettings| (server.name.clone(), server.first_sight);
        Self { settings: settings.trust, first_sight: settings.servers.iter().map(of_server).collect() }
    }

    /// Writes these rules into settings.
    pub fn apply_to(&self, settings: &mut Settings) {
        settings.trust = self.settings;
        for server in &mut settings.servers {
            server.first_sight = self.of_server(&server.name);
        }
    }

    /// Lists what is weaker than before.
    pub(super) fn weaker(&self, old: &Self) -> Vec<SettingChange> {
        let (was, is, held) = (old.settings, self.settings, self.held(old).settings);
        let change = |key: &str, before, after| SettingChange { key: key.to_owned(), before, after };
        let mut changes = Vec::new();
        if held.first_sight != is.first_sight {
            let (before, after) = (was.first_sight.as_str(), is.first_sight.as_str());
            changes.push(change("trust.first_sight", Some(before), Some(after)));
        }
        if held.changes != is.changes {
            changes.push(change("trust.changes", Some(was.changes.as_str()), Some(is.changes.as_str())));
        }
        for name in self.weaker_servers(old) {
            let word = |rules: &Self| rules.of_server(name).map(Welcome::as_str);
            changes.push(change(&format!("mcpServers.{name}.first_sight"), word(old), word(self)));
        }
        changes
    }

    /// Returns the stricter value of each setting.
    pub(super) fn held(&self, old: &Self) -> Self {
        let settings = TrustSettings {
            first_sight: match (old.settings.first_sight, self.settings.first_sight) {
                (Welcome::Accept, Welcome::Accept) => Welcome::Accept,
                (Welcome::Review, _) | (_, Welcome::Review) => Welcome::Review,
            },
            changes: if rank(self.settings.changes) < rank(old.settings.changes) {
                old.settings.changes
            } else {
                self.settings.changes
            },
        };
        let mut first_sight = self.first_sight.clone();
        for name in self.weaker_servers(old) {
            first_sight.insert(name.clone(), old.of_server(name));
        }
        Self { settings, first_sight }
    }

    fn weaker_servers<'a>(&'a self, old: &'a Self) -> impl Iterator<Item = &'a ServerName> {
        // A weaker `trust.first_sight` is listed by itself, so both sides are compared under the old one.
        let rank = move |rules: &Self, name: &ServerName| match (rules.of_server(name), old.settings.first_sight) {
            (Some(Welcome::Review), _) => 2_u8,
            (None, Welcome::Review) => 1,
            (None, Welcome::Accept) | (Some(Welcome::Accept), _) => 0,
        };
        self.first_sight.keys().filter(move |name| rank(self, name) < rank(old, name))
    }

    /// Returns the rule of a server. One that is not in the file has none.
    fn of_server(&self, name: &ServerName) -> Option<Welcome> {
        self.first_sight.get(name).copied().flatten()
    }
}

/// A warning holds nothing back. An operator reads it, so it still ranks above `accept`.
fn rank(changes: OnChange) -> u8 {
    match changes {
        OnChange::Accept => 0,
        OnChange::Warn => 1,
        OnChange::Review => 2,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::{Unresolved, parse};

    fn rules(trust: &str, servers: &str) -> TrustRules {
        let text = format!(r#"{{"trust": {{{trust}}}, "mcpServers": {{{servers}}}}}"#);
        TrustRules::of(&parse(&text, &Unresolved).unwrap())
    }

    /// Checks the lines of a change, and that the stricter values stay.
    fn check(old: &TrustRules, new: &TrustRules, expected: &[&str]) {
        let lines: Vec<String> = new.weaker(old).iter().map(SettingChange::words).collect();
        assert_eq!(lines, expected);
        let held = new.held(old);
        assert!(held.weaker(old).is_empty(), "{held:?}");
        assert_eq!(held == *new, expected.is_empty(), "{held:?}");
    }

    #[test]
    fn trust_in_all_servers() {
        let (strict, lax) = (rules("", ""), rules(r#""first_sight": "accept", "changes": "accept""#, ""));
        check(&strict, &lax, &["trust.first_sight review → accept", "trust.changes review → accept"]);
        check(&lax, &strict, &[]);
        check(&strict, &strict, &[]);
        let warn = rules(r#""changes": "warn""#, "");
        check(&strict, &warn, &["trust.changes review → warn"]);
        check(&warn, &rules(r#""changes": "accept""#, ""), &["trust.changes warn → accept"]);
        check(&warn, &strict, &[]);
    }

    #[test]
    fn trust_in_one_server() {
        let server = |first_sight: &str| match first_sight {
            "" => r#""a": {"type": "demo"}"#.to_owned(),
            word => format!(r#""a": {{"type": "demo", "first_sight": "{word}"}}"#),
        };
        let with = |first_sight: &str| rules("", &server(first_sight));
        check(&with("review"), &with("accept"), &["mcpServers.a.first_sight review → accept"]);
        check(&with("review"), &with(""), &["mcpServers.a.first_sight review → none"]);
        check(&with(""), &with("accept"), &["mcpServers.a.first_sight none → accept"]);
        check(&with(""), &with("review"), &[]);
        check(&with("accept"), &with(""), &[]);
        check(&rules("", ""), &with("accept"), &["mcpServers.a.first_sight none → accept"]);
        check(&rules("", ""), &with("review"), &[]);
        check(&rules("", ""), &with(""), &[]);
        let lax = |servers: &str| rules(r#""first_sight": "accept""#, servers);
        check(&lax(""), &lax(&server("accept")), &[]);
        check(&lax(&server("review")), &lax(&server("")), &["mcpServers.a.first_sight review → none"]);
    }

    /// A server that leaves the file takes its rule along. If it comes back, it is a new one.
    #[test]
    fn a_server_that_is_gone_is_not_weaker() {
        let both = rules("", r#""a": {"type": "demo", "first_sight": "review"}, "b": {"type": "demo"}"#);
        check(&both, &rules("", r#""b": {"type": "demo"}"#), &[]);
    }

    #[test]
    fn held_rules_are_written_into_settings() {
        let text =
            r#"{"trust": {"changes": "accept"}, "mcpServers": {"a": {"type": "demo", "first_sight": "accept"}}}"#;
        let mut settings = parse(text, &Unresolved).unwrap();
        let held = TrustRules::of(&settings).held(&rules("", ""));
        held.apply_to(&mut settings);
        assert_eq!(settings.trust, TrustSettings::default());
        assert_eq!(settings.servers[0].first_sight, None);
    }
}
