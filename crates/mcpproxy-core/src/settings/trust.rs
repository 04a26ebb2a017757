//! The `trust` section: what the gateway does with new and changed definitions of servers.

use super::keys;
use super::read::Reader;
use crate::file::Fields;
use crate::trust::{OnChange, Welcome};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TrustSettings {
    /// The rule for the first list of a server that the operator has not chosen by hand. `ServerSettings::first_sight`
    /// wins.
    pub first_sight: Welcome,
    pub changes: OnChange,
}

impl Default for TrustSettings {
    fn default() -> Self {
        Self { first_sight: Welcome::Review, changes: OnChange::Review }
    }
}

pub(super) fn read(reader: &mut Reader<'_>, fields: &Fields<'_>) -> Option<TrustSettings> {
    let fields = reader.fields(&fields.find("trust")?.node, &keys::TRUST)?;
    let default = TrustSettings::default();
    Some(TrustSettings {
        first_sight: reader.choice_of(&fields, "first_sight", keys::FIRST_SIGHT).unwrap_or(default.first_sight),
        changes: reader.choice_of(&fields, "changes", keys::CHANGES).unwrap_or(default.changes),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::tests::bad::check;
    use crate::settings::{Unresolved, parse};

    #[test]
    fn words() {
        let trust = |text: &str| parse(text, &Unresolved).unwrap().trust;
        assert_eq!(trust("{}"), TrustSettings { first_sight: Welcome::Review, changes: OnChange::Review });
        assert_eq!(trust(r#"{"trust": {}}"#), TrustSettings::default());
        assert_eq!(
            trust(r#"{"trust": {"first_sight": "accept", "changes": "warn"}}"#),
            TrustSettings { first_sight: Welcome::Accept, changes: OnChange::Warn }
        );
        assert_eq!(trust(r#"{"trust": {"changes": "accept"}}"#).changes, OnChange::Accept);
    }

    #[test]
    fn words_of_a_server() {
        let of = |fields: &str| {
            let text = format!(r#"{{"mcpServers": {{"a": {{"type": "demo"{fields}}}}}}}"#);
            parse(&text, &Unresolved).unwrap().servers[0].first_sight
        };
        assert_eq!(of(""), None);
        assert_eq!(of(r#", "first_sight": "review""#), Some(Welcome::Review));
        assert_eq!(of(r#", "first_sight": "accept""#), Some(Welcome::Accept));
    }

    #[test]
    fn other_words_are_mistakes() {
        check(
            r#"{"trust": {"first_sight": "never", "changes": true, "first": 1}}"#,
            &[
                "line 1, column 27: unknown value `never`; write one of `review`, `accept`",
                "line 1, column 47: expected one of `review`, `warn`, `accept`, found boolean",
                "line 1, column 53: unknown key `first`; known keys: `first_sight`, `changes`",
            ],
        );
        check(r#"{"trust": true}"#, &["line 1, column 11: expected object, found boolean"]);
    }
}
