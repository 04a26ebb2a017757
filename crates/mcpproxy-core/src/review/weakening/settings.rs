//! Compares the settings that decide on calls, and keeps the stricter values.

use super::Rules;
use crate::settings::{
    Channel, Channels, ContractSettings, IntentSettings, TwoKey, Unannotated, Unclassified, Weakening,
};

/// A setting that is weaker. `None` means that nobody set it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SettingChange {
    /// The key in the file, such as `contracts.unclassified`.
    pub key: String,
    pub before: Option<&'static str>,
    pub after: Option<&'static str>,
}

impl SettingChange {
    /// Words the change, such as `contracts.unclassified deny → allow`.
    pub fn words(&self) -> String {
        let Self { key, before, after } = self;
        format!("{key} {} → {}", before.unwrap_or("none"), after.unwrap_or("none"))
    }
}

/// Lists the settings that are weaker after the change.
pub(super) fn weaker_settings(old: &Rules, new: &Rules) -> Vec<SettingChange> {
    let (held, held_intent) = (held_settings(old.settings, new.settings), held_intent(&old.intent, &new.intent));
    let held_channels = held_channels(old.channels, new.channels);
    let (was, is) = (old.settings, new.settings);
    let (was_intent, is_intent) = (&old.intent, &new.intent);
    let word = |flag: bool| if flag { "true" } else { "false" };
    let changes = [
        (
            held.unclassified != is.unclassified,
            "contracts.unclassified",
            was.unclassified.as_str(),
            is.unclassified.as_str(),
        ),
        (held.weakening != is.weakening, "contracts.weakening", was.weakening.as_str(), is.weakening.as_str()),
        (
            held_intent.strict_server_validation != is_intent.strict_server_validation,
            "intent_declaration.strict_server_validation",
            word(was_intent.strict_server_validation),
            word(is_intent.strict_server_validation),
        ),
        (
            held_intent.two_key != is_intent.two_key,
            "intent_declaration.two_key",
            was_intent.two_key.as_str(),
            is_intent.two_key.as_str(),
        ),
        (
            held_intent.unannotated != is_intent.unannotated,
            "intent_declaration.unannotated",
            was_intent.unannotated.as_str(),
            is_intent.unannotated.as_str(),
        ),
        (
            held_channels.medium != new.channels.medium,
            "approvals.channels.medium",
            channel_word(old.channels.medium),
            channel_word(new.channels.medium),
        ),
        (
            held_channels.high != new.channels.high,
            "approvals.channels.high",
            channel_word(old.channels.high),
            channel_word(new.channels.high),
        ),
    ];
    let weaker = changes.into_iter().filter(|(is_weaker, ..)| *is_weaker);
    let change = |(_, key, before, after): (bool, &str, &'static str, &'static str)| SettingChange {
        key: key.to_owned(),
        before: Some(before),
        after: Some(after),
    };
    let people = new.people.weaker_than(&old.people).into_iter();
    let people = people.map(|(key, before, after)| change((true, key, before, after)));
    weaker.map(change).chain(new.trust.weaker(&old.trust)).chain(people).collect()
}

/// As `held_settings`.
pub(super) fn held_channels(old: Channels, new: Channels) -> Channels {
    Channels { medium: old.medium.max(new.medium), high: old.high.max(new.high) }
}

fn channel_word(channel: Channel) -> &'static str {
    match channel {
        Channel::Form => "form",
        Channel::Page => "page",
    }
}

/// As `held_settings`. A warning refuses nothing, so `warn` is no stricter than `trust`.
pub(super) fn held_intent(old: &IntentSettings, new: &IntentSettings) -> IntentSettings {
    IntentSettings {
        strict_server_validation: old.strict_server_validation || new.strict_server_validation,
        two_key: match old.two_key {
            TwoKey::Required => TwoKey::Required,
            TwoKey::Optional => new.two_key,
        },
        unannotated: match old.unannotated {
            Unannotated::RequireWrite => Unannotated::RequireWrite,
            Unannotated::Trust | Unannotated::Warn => new.unannotated,
        },
    }
}

/// Returns the stricter value of each setting.
pub(super) fn held_settings(old: ContractSettings, new: ContractSettings) -> ContractSettings {
    let rank = |unclassified: Unclassified| match unclassified {
        Unclassified::Allow => 0,
        Unclassified::ConfirmDestructive => 1,
        Unclassified::Deny => 2,
    };
    let is_lower = rank(new.unclassified) < rank(old.unclassified);
    ContractSettings {
        unclassified: if is_lower { old.unclassified } else { new.unclassified },
        weakening: match (old.weakening, new.weakening) {
            (Weakening::Apply, Weakening::Apply) => Weakening::Apply,
            (Weakening::Confirm, _) | (_, Weakening::Confirm) => Weakening::Confirm,
        },
    }
}
