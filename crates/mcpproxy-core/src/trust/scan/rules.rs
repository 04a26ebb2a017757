//! The rules about wording: which concepts, close to each other, are a sign of an instruction to the model.
//!
//! A lone word is no sign: hundreds of honest tools say "must" and "always". Each rule has a weight. The weights of the
//! rules that match in three consecutive sentences add up, and the sum is the severity.

mod data;
mod instructions;
mod secrecy;
mod tools;

use super::concept::Concept::{self, *};
use super::concept::Concepts;

/// A sum of at least this is severity low, medium or high.
pub(super) const LOW: u16 = 2;
pub(super) const MEDIUM: u16 = 4;
pub(super) const HIGH: u16 = 12;

/// A concept that must follow, or stand near, the first one.
#[derive(Clone, Copy)]
pub(super) struct Step {
    pub(super) any: Concepts,
    /// Bytes between this word and the previous one, or the first one.
    pub(super) gap: usize,
    /// May also stand before the first word.
    pub(super) is_around: bool,
}

pub(super) struct Rule {
    pub(super) id: &'static str,
    pub(super) weight: u16,
    pub(super) first: Concepts,
    pub(super) steps: &'static [Step],
    /// Does not match in a sentence with one of these.
    pub(super) unless: Concepts,
    /// Does not match right after a negation: "never reads ~/.ssh".
    pub(super) is_positive: bool,
    /// Matches only in the values of a schema, where no honest text gives orders.
    pub(super) is_for_values: bool,
    /// Continues "The text …".
    pub(super) reason: &'static str,
}

const fn any(concepts: &'static [Concept]) -> Concepts {
    Concepts::of(concepts)
}

/// The concept follows within this many bytes.
const fn then(gap: usize, concepts: &'static [Concept]) -> Step {
    Step { any: Concepts::of(concepts), gap, is_around: false }
}

/// The concept stands within this many bytes before or after the first word.
const fn near(gap: usize, concepts: &'static [Concept]) -> Step {
    Step { any: Concepts::of(concepts), gap, is_around: true }
}

const fn rule(id: &'static str, weight: u16, first: Concepts, steps: &'static [Step], reason: &'static str) -> Rule {
    Rule { id, weight, first, steps, unless: Concepts::NONE, is_positive: false, is_for_values: false, reason }
}

impl Rule {
    const fn unless(mut self, concepts: &'static [Concept]) -> Self {
        self.unless = Concepts::of(concepts);
        self
    }

    const fn in_values(mut self) -> Self {
        self.is_for_values = true;
        self
    }

    const fn positive(mut self) -> Self {
        self.is_positive = true;
        self
    }
}

/// Data that nobody hands to a tool without reason.
const PRIVATE: &[Concept] =
    &[Conversation, SystemPrompt, Secret, SecretPath, Environment, ToolData, Personal, SecretCommand];

/// Private data that no honest tool has a parameter for.
const LEAKS: &[Concept] = &[Conversation, SystemPrompt, ToolData, Personal, SecretPath, SecretCommand];

/// All rules about English wording.
pub(super) const RULES: [&[Rule]; 4] = [instructions::RULES, secrecy::RULES, data::RULES, tools::RULES];

/// Concepts that, in one sentence of another language than English, are a sign. Word order differs, so only their
/// company counts.
pub(super) const FOREIGN: &[(&str, u16, Concepts, &str)] = &[
    ("ignore-instructions", 12, any(&[Ignore, Prior, Rules]), "tells the model to ignore its instructions"),
    ("ignore-instructions", 5, any(&[Ignore, Rules]), "tells the model to ignore its instructions"),
    ("hides-from-user", 5, any(&[Negation, Tell, User]), "keeps something from the user"),
    ("hides-from-user", 5, any(&[Hide, User]), "hides something from the user"),
    ("acts-secretly", 4, any(&[Hide, Send]), "asks for something to happen unseen"),
    ("not-mentioned", 4, any(&[Negation, Tell]), "asks the model not to mention something"),
    ("reads-secrets", 5, any(&[Read, SecretPath]), "asks to read files with secrets"),
    ("reads-secrets", 4, any(&[Read, Secret]), "asks to read secrets"),
    ("sends-private", 5, any(&[Send, Secret]), "sends private data"),
    ("sends-private", 5, any(&[Send, Conversation]), "sends the conversation"),
    ("sends-private", 4, any(&[Supply, Conversation, Always]), "asks for the conversation"),
    ("sends-private", 4, any(&[Supply, Secret]), "asks for a secret"),
    ("collects-private", 4, any(&[Before, Read, File]), "asks to read a file before the call"),
    ("comes-first", 5, any(&[Call, ThisTool, First]), "wants to be called before all others"),
    ("comes-first", 5, any(&[Call, OtherTools, Before]), "wants to be called before all others"),
    ("comes-first", 4, any(&[Call, ThisTool, Always]), "wants to be called always"),
    ("approves-alone", 4, any(&[NoAsk, Send]), "acts without the user's approval"),
    ("approves-alone", 4, any(&[NoAsk, User]), "acts without the user's approval"),
    ("approves-alone", 4, any(&[NoAsk, Call]), "acts without the user's approval"),
    ("collects-private", 4, any(&[Supply, SecretPath]), "asks for files with secrets"),
    ("adds-recipient", 5, any(&[Recipient, Supply]), "adds a recipient"),
];
