//! Settings that belong to one machine, and settings that gateways share.
//!
//! With `operator_files: "database"`, each setting has one place. The settings of one machine are in `mcp_config.json` of its
//! data folder. All others are in the version that a user published. [`Settings::on_machine`] joins the two. A setting in
//! the wrong place would have no effect, so it is a mistake: [`Settings::shared_keys`] and [`Settings::machine_keys`].
//!
//! The digest for the comparison of gateways leaves the settings of one machine out.

use super::Settings;
use crate::file::Mistake;

/// Settings that may differ between gateways. The address decides which settings around TLS are valid, so they are
/// together in one file.
const OF_MACHINE: [&str; 9] = [
    "listen",
    "tls",
    "tls_terminated_by_proxy",
    "allow_anonymous_loopback",
    "storage",
    "operator_files",
    "activity.checkpoints_to",
    "limits",
    "metrics",
];
/// Only editors read it.
const NEUTRAL: &str = "$schema";

/// The place of contracts, policies and settings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FilesSource {
    /// The folder of the settings file.
    Folder,
    /// The newest version that a user published in the database.
    Database,
}

impl FilesSource {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Folder => "folder",
            Self::Database => "database",
        }
    }
}

/// Returns true if gateways may have other values of this setting, or of the object of this name.
pub(super) fn is_of_machine(key: &str) -> bool {
    OF_MACHINE.iter().any(|own| is_below(key, own))
}

fn is_below(key: &str, object: &str) -> bool {
    key.strip_prefix(object).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
}

/// Returns true if every value of this key is of the machine or shared: `activity` has both kinds.
fn is_one_kind(key: &str) -> bool {
    key != NEUTRAL && !OF_MACHINE.iter().any(|own| *own != key && is_below(own, key))
}

impl Settings {
    /// Returns these shared settings with those of one machine.
    pub fn on_machine(self, machine: &Self) -> Self {
        let mut all = Self {
            listen: machine.listen,
            tls: machine.tls.clone(),
            tls_terminated_by_proxy: machine.tls_terminated_by_proxy,
            allow_anonymous_loopback: machine.allow_anonymous_loopback,
            storage: machine.storage.clone(),
            operator_files: machine.operator_files,
            limits: machine.limits,
            metrics: machine.metrics.clone(),
            written: self.written.with_keys_of(&machine.written, is_of_machine),
            ..self
        };
        all.activity.checkpoints_to.clone_from(&machine.activity.checkpoints_to);
        all
    }

    /// Returns a mistake for every key of the file that gateways share.
    pub fn shared_keys(&self, message: impl Fn(&str) -> String) -> Vec<Mistake> {
        self.misplaced(|key| !is_of_machine(key), message)
    }

    /// Returns a mistake for every key of the file that belongs to one machine.
    pub fn machine_keys(&self, message: impl Fn(&str) -> String) -> Vec<Mistake> {
        self.misplaced(is_of_machine, message)
    }

    fn misplaced(&self, is_wrong: impl Fn(&str) -> bool, message: impl Fn(&str) -> String) -> Vec<Mistake> {
        let is_wrong = |key: &str| is_one_kind(key) && is_wrong(key);
        // One mistake for an object, and not one for each of its keys.
        let is_told = |key: &str| key.rsplit_once('.').is_some_and(|(object, _)| is_one_kind(object));
        let keys = self.written.keys().filter(|key| is_wrong(key) && !is_told(key));
        let mut mistakes: Vec<Mistake> = keys
            .map(|key| Mistake { line: self.written.line(key).unwrap_or(1), column: 1, message: message(key) })
            .collect();
        mistakes.sort_by_key(|mistake| mistake.line);
        mistakes
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::{Unresolved, parse};

    fn settings(text: &str) -> Settings {
        parse(text, &Unresolved).unwrap()
    }

    fn told(mistakes: &[Mistake]) -> Vec<String> {
        mistakes.iter().map(|mistake| format!("{}: {}", mistake.line, mistake.message)).collect()
    }

    #[test]
    fn every_setting_has_one_place() {
        let both = settings(
            "{\n\"$schema\": \"x\",\n\"listen\": \"127.0.0.1:1\",\n\"activity\": {\n\"checkpoints_to\": \"a\",\n\
             \"retention\": {\n\"records\": \"900d\"}},\n\"limits\": {\"memory\": \"1GiB\"},\n\
             \"mcpServers\": {\"a\": {\"type\": \"demo\"}},\n\"metrics\": {\"enabled\": true}}",
        );
        let name = |key: &str| key.to_owned();
        assert_eq!(
            told(&both.machine_keys(name)),
            ["3: listen", "5: activity.checkpoints_to", "8: limits", "10: metrics"]
        );
        assert_eq!(told(&both.shared_keys(name)), ["6: activity.retention", "9: mcpServers"]);
        assert_eq!(told(&settings("{}").machine_keys(name)), Vec::<String>::new());
        assert_eq!(settings(r#"{"operator_files": "database"}"#).operator_files, FilesSource::Database);
    }

    #[test]
    fn shared_settings_run_on_a_machine() {
        let shared = settings(r#"{"approvals": {"wait": "1s"}, "activity": {"durability": "all"}}"#);
        let machine = settings(
            "{\"listen\": \"127.0.0.1:1\",\n \"limits\": {\"memory\": \"1GiB\"}, \"metrics\": {\"enabled\": false}, \
             \"activity\": {\"checkpoints_to\": \"a\"}, \"operator_files\": \"database\"}",
        );
        let all = shared.clone().on_machine(&machine);
        let expected = settings(
            r#"{"approvals": {"wait": "1s"}, "metrics": {"enabled": false},
                "activity": {"durability": "all", "checkpoints_to": "a"}, "listen": "127.0.0.1:1",
                "limits": {"memory": "1GiB"}, "operator_files": "database"}"#,
        );
        assert_eq!(all, expected);
        assert_eq!(all.digest(), shared.digest());
        assert_eq!((all.written.line("limits.memory"), all.written.line("approvals.wait")), (Some(2), Some(1)));
    }
}
