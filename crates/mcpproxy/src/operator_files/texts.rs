//! Names and texts of all contract and policy files, to identify and to remember them.

use mcpproxy_core::Digest;
use mcpproxy_core::contract::Contracts;
use mcpproxy_core::policy::Policies;
use mcpproxy_core::settings::{Channel, Settings};

use super::folder::{CONTRACTS, POLICIES, Texts};

/// The files as one list. Names begin with the folder, such as `contracts/mail.yaml`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct OperatorTexts {
    all: Texts,
}

impl OperatorTexts {
    pub(super) fn new(contracts: Texts, policies: Texts) -> Self {
        Self { all: contracts.into_iter().chain(policies).collect() }
    }

    /// Takes files that the store remembers.
    pub(crate) fn remembered(all: Texts) -> Self {
        Self { all }
    }

    pub(crate) fn all(&self) -> &[(String, String)] {
        &self.all
    }

    pub(crate) fn names(&self) -> impl Iterator<Item = &str> {
        self.all.iter().map(|(name, _)| name.as_str())
    }

    /// Returns the same files with these texts instead of, or beside, those of the same names.
    pub(crate) fn with(&self, files: &[&(String, String)]) -> Self {
        let is_replaced = |name: &str| files.iter().any(|(new, _)| new == name);
        let kept = self.all.iter().filter(|(name, _)| !is_replaced(name)).cloned();
        let mut all: Texts = kept.chain(files.iter().map(|file| (*file).clone())).collect();
        all.sort();
        Self { all }
    }

    /// Parses the files. Returns `None` if one is invalid, which can only be a file of an older version.
    pub(crate) fn parse(&self) -> Option<(Contracts, Policies)> {
        let of = |folder: &str| -> Texts {
            let prefix = format!("{folder}/");
            self.all.iter().filter(|(name, _)| name.starts_with(&prefix)).cloned().collect()
        };
        let contracts = Contracts::parse(&of(CONTRACTS.name())).ok()?;
        let policies = Policies::parse(&of(POLICIES.name())).ok()?;
        Some((contracts, policies))
    }

    /// Hashes the files, and the settings that can wait for a user. Each text is preceded by its length, so that
    /// different files never give the same bytes.
    pub(crate) fn digest(&self, settings: &Settings) -> String {
        let Settings { contracts, intent, approvals, trust, people, servers, .. } = settings;
        let channel = |channel| match channel {
            Channel::Form => "form",
            Channel::Page => "page",
        };
        let words = [
            contracts.unclassified.as_str(),
            contracts.weakening.as_str(),
            intent.two_key.as_str(),
            intent.unannotated.as_str(),
            if intent.strict_server_validation { "strict" } else { "lenient" },
            channel(approvals.channels.medium),
            channel(approvals.channels.high),
            trust.first_sight.as_str(),
            trust.changes.as_str(),
        ];
        let first_sights = servers.iter().filter_map(|server| Some((&server.name, server.first_sight?)));
        let first_sights: Vec<String> =
            first_sights.map(|(name, welcome)| format!("{name} {}\n", welcome.as_str())).collect();
        // The debug form shows every field but the value of the secret.
        let mut bytes = format!("{}\n{}\n{people:?}\n", words.join(" "), first_sights.concat()).into_bytes();
        for part in self.all.iter().flat_map(|(name, text)| [name, text]) {
            bytes.extend(part.len().to_be_bytes());
            bytes.extend(part.as_bytes());
        }
        Digest::of(&bytes).to_string()
    }
}

#[cfg(test)]
mod tests {
    use mcpproxy_core::settings::IntentSettings;

    use super::*;

    #[test]
    fn every_byte_counts() {
        let texts = |name: &str, text: &str| OperatorTexts::new(vec![(name.to_owned(), text.to_owned())], Vec::new());
        let digest = |texts: &OperatorTexts| texts.digest(&Settings::default());
        let one = texts("contracts/a.yaml", "[]");
        assert_eq!(digest(&one), digest(&one.clone()));
        assert_ne!(digest(&one), digest(&texts("contracts/a.yam", "l[]")));
        assert_ne!(digest(&one), digest(&texts("contracts/a.yaml", "[] ")));
        assert_ne!(digest(&one), digest(&OperatorTexts::default()));
        let intent = IntentSettings { strict_server_validation: false, ..IntentSettings::default() };
        assert_ne!(digest(&one), one.digest(&Settings { intent, ..Settings::default() }));
    }
}
