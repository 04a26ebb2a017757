//! Compares what a server lists with what users have accepted.

use std::cell::{Cell, OnceCell};
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use super::change::{self, Candidates, Change};
use super::scan::{Finding, Neighbours, Severity, scan, scan_text};
use super::{Definition, DefinitionKey, DefinitionKind, Pin};
use crate::Digest;
use crate::json::string_value;

/// The stored definitions of one server, under its identity.
#[derive(Clone, Debug, Default)]
pub struct Known {
    /// True once the server was listed before. The first list of a server follows the rule for first sight, and
    /// everything that comes later is a change.
    pub is_known: bool,
    /// True for a server that must be reviewed and has never listed anything, wherever its settings come from now.
    pub is_noted: bool,
    pub definitions: HashMap<DefinitionKey, Pinned>,
    /// Digests of the keys whose stored version cannot be read. Such a definition is held until a user accepts it
    /// again, because nobody knows whether it was accepted or rejected.
    pub damaged: HashSet<Digest>,
}

impl Known {
    /// Returns what is known of a server that a user has chosen just now, to use it without a review. It may have
    /// waited before, under a name that was removed meanwhile. Its next list is a first one again, because an earlier
    /// list that nobody reviewed says nothing against the choice. What users rejected stays rejected. Once anything is
    /// accepted, a list is compared with that.
    #[must_use]
    pub fn just_chosen(&self) -> Self {
        let is_known = self.is_known && (has_accepted(self) || !self.damaged.is_empty());
        Self { is_known, is_noted: self.is_noted && is_known, ..self.clone() }
    }
}

/// The stored versions of one definition.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Pinned {
    pub accepted: Option<Accepted>,
    /// The definition that waits for a user.
    pub waiting: Option<Pin>,
    /// The time at which that definition began to wait.
    pub waiting_since_ms: Option<i64>,
    /// Definitions that a user has refused.
    pub rejected: Vec<Pin>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Accepted {
    pub pin: Pin,
    pub json: Arc<str>,
}

/// The rule for the first list of a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Welcome {
    Accept,
    Review,
}

impl Welcome {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Accept => "accept",
            Self::Review => "review",
        }
    }
}

/// The rule for changes of a known server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnChange {
    #[default]
    Review,
    /// Shown to agents, with a warning to the operator.
    Warn,
    Accept,
}

impl OnChange {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Review => "review",
            Self::Warn => "warn",
            Self::Accept => "accept",
        }
    }
}

/// The rules that apply to one server.
#[derive(Clone, Debug)]
pub enum Rules {
    Settings {
        first_sight: Welcome,
        on_change: OnChange,
    },
    /// Exactly these definitions are accepted, and a user cannot accept others. `None`: the lock file does not name
    /// this server, or names it with another command or address.
    Locked(Option<Arc<HashMap<DefinitionKey, Pin>>>),
}

/// The result for one definition.
#[derive(Clone, Debug, PartialEq)]
pub struct Judgement {
    pub verdict: Verdict,
    /// The difference from the accepted definition, if there is one.
    pub change: Option<Change>,
    /// An accepted tool that a new one resembles. It may be the same tool under another name.
    pub resembles: Option<String>,
    pub findings: Vec<Finding>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Accepted before.
    Same,
    /// Shown to agents from now on. Must be stored first.
    Admitted(Admitted),
    /// Not shown to agents. Must be stored, so that a user can review it.
    Held(Held),
}

/// The reason why a definition is accepted without a user.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Admitted {
    FirstSight,
    /// The change only makes things stricter.
    Stricter,
    /// `trust.changes` is `warn`.
    Warned,
    /// `trust.changes` is `accept`.
    Unasked,
    /// The lock file names it.
    Locked,
}

impl Admitted {
    pub const ALL: [Self; 5] = [Self::FirstSight, Self::Stricter, Self::Warned, Self::Unasked, Self::Locked];

    pub fn as_str(self) -> &'static str {
        match self {
            Self::FirstSight => "first_sight",
            Self::Stricter => "stricter",
            Self::Warned => "warned",
            Self::Unasked => "unasked",
            Self::Locked => "locked",
        }
    }
}

/// The reason why a definition is quarantined.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Held {
    /// It belongs to the first list of a server that a user has not reviewed.
    FirstSight,
    /// A known server has not had it before.
    New,
    Changed,
    /// The scan found something severe.
    Suspicious,
    /// A user has refused it.
    Rejected,
    /// The lock file does not name it, or names another version.
    NotLocked,
    /// Its stored pins could not be read.
    Unreadable,
}

impl Held {
    pub const ALL: [Self; 7] = [
        Self::FirstSight,
        Self::New,
        Self::Changed,
        Self::Suspicious,
        Self::Rejected,
        Self::NotLocked,
        Self::Unreadable,
    ];

    pub fn as_str(self) -> &'static str {
        match self {
            Self::FirstSight => "first_sight",
            Self::New => "new",
            Self::Changed => "changed",
            Self::Suspicious => "suspicious",
            Self::Rejected => "rejected",
            Self::NotLocked => "not_locked",
            Self::Unreadable => "unreadable",
        }
    }

    pub fn parse(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|held| held.as_str() == word)
    }
}

impl Judgement {
    fn same() -> Self {
        Self { verdict: Verdict::Same, change: None, resembles: None, findings: Vec::new() }
    }

    /// The result when nothing is known because the store cannot be read.
    pub fn unreadable() -> Self {
        Self { verdict: Verdict::Held(Held::Unreadable), ..Self::same() }
    }
}

/// Judges everything that a server lists, in the same order.
pub fn judge(listed: &[Definition], known: &Known, rules: &Rules, neighbours: &Neighbours) -> Vec<Judgement> {
    let judge = Judge {
        known,
        rules,
        neighbours,
        is_first: is_unreviewed(known, rules),
        has_accepted: has_accepted(known),
        candidates: OnceCell::new(),
        compared: Cell::new(0),
    };
    listed.iter().map(|definition| judge.one(definition)).collect()
}

/// Returns true if agents may use what is not judged piece by piece: the resources of a server, and everything that the
/// server sends while it answers. `verdicts` are the results for its newest list.
///
/// A server of which nothing was ever accepted is closed, unless it may be accepted at first sight and nothing of it is
/// held. A lock file opens exactly the servers that it names.
pub fn is_open(known: &Known, rules: &Rules, mut verdicts: impl Iterator<Item = Verdict> + Clone) -> bool {
    let first_sight = match rules {
        Rules::Locked(lock) => return lock.is_some(),
        Rules::Settings { first_sight, .. } => *first_sight,
    };
    let is_held = |verdict: Verdict| matches!(verdict, Verdict::Held(_));
    has_accepted(known)
        || verdicts.clone().any(|verdict| !is_held(verdict))
        || (first_sight == Welcome::Accept && !known.is_noted && !verdicts.any(is_held))
}

fn has_accepted(known: &Known) -> bool {
    known.definitions.values().any(|pinned| pinned.accepted.is_some())
}

/// Returns true for a server of which nothing was ever accepted. One that must be reviewed stays so while nothing of it
/// waits: otherwise it could withdraw its first list and send it again as a change.
fn is_unreviewed(known: &Known, rules: &Rules) -> bool {
    let must_be_reviewed = matches!(rules, Rules::Settings { first_sight: Welcome::Review, .. });
    let definitions = &known.definitions;
    let has_accepted = !known.damaged.is_empty() || has_accepted(known);
    (must_be_reviewed || known.is_noted || !definitions.is_empty()) && !has_accepted
}

/// New definitions that are compared with all accepted ones. A server that renames ten thousand tools would take long.
const COMPARED_MAX: usize = 200;

struct Judge<'a> {
    known: &'a Known,
    rules: &'a Rules,
    neighbours: &'a Neighbours,
    /// True for a server of which nothing was ever accepted. It still waits for its first review.
    is_first: bool,
    has_accepted: bool,
    /// The accepted definitions of each kind, made for the first new definition.
    candidates: OnceCell<HashMap<DefinitionKind, Candidates<'a>>>,
    compared: Cell<usize>,
}

impl<'a> Judge<'a> {
    fn one(&self, definition: &Definition) -> Judgement {
        if let Rules::Locked(lock) = self.rules {
            return self.by_lock(definition, lock.as_deref());
        }
        if self.is_damaged(definition) {
            return Judgement { findings: self.findings(definition), ..Judgement::unreadable() };
        }
        if definition.is_resources_only() && self.has_accepted {
            // A server that was reviewed once, and no longer lists anything else. That is no news to review.
            return Judgement::same();
        }
        let pinned = self.known.definitions.get(&definition.key);
        let accepted = pinned.and_then(|pinned| pinned.accepted.as_ref());
        // Most lists are the same, byte for byte. Hashing ten thousand tools takes longer than this whole comparison.
        if accepted.is_some_and(|accepted| accepted.json == definition.json) {
            return Judgement::same();
        }
        let pin = definition.pin();
        if accepted.is_some_and(|accepted| accepted.pin == pin) {
            // Only the form differs. Storing it would cost a write for each list of a server that shuffles keys.
            return Judgement::same();
        }
        let change = accepted.map(|accepted| change::compare(definition.key.kind, &accepted.json, &definition.json));
        let findings = self.findings(definition);
        let is_rejected = pinned.is_some_and(|pinned| pinned.rejected.contains(&pin));
        let is_severe = findings.iter().any(|finding| finding.severity == Severity::High);
        let verdict = if is_rejected {
            Verdict::Held(Held::Rejected)
        } else if is_severe {
            Verdict::Held(Held::Suspicious)
        } else {
            self.by_settings(change.as_ref())
        };
        let resembles = if change.is_none() && self.known.is_known { self.resembles(definition) } else { None };
        Judgement { verdict, change, resembles, findings }
    }

    fn by_settings(&self, change: Option<&Change>) -> Verdict {
        let Rules::Settings { first_sight, on_change } = self.rules else { return Verdict::Held(Held::NotLocked) };
        if !self.known.is_known {
            return match first_sight {
                Welcome::Accept => Verdict::Admitted(Admitted::FirstSight),
                Welcome::Review => Verdict::Held(Held::FirstSight),
            };
        }
        if change.is_some_and(|change| change.is_stricter) {
            return Verdict::Admitted(Admitted::Stricter);
        }
        match (on_change, change) {
            _ if self.is_first => Verdict::Held(Held::FirstSight),
            (OnChange::Warn, _) => Verdict::Admitted(Admitted::Warned),
            (OnChange::Accept, _) => Verdict::Admitted(Admitted::Unasked),
            (OnChange::Review, Some(_)) => Verdict::Held(Held::Changed),
            (OnChange::Review, None) => Verdict::Held(Held::New),
        }
    }

    fn by_lock(&self, definition: &Definition, lock: Option<&HashMap<DefinitionKey, Pin>>) -> Judgement {
        let pin = definition.pin();
        if lock.and_then(|lock| lock.get(&definition.key)) == Some(&pin) {
            let is_same = self.accepted(&definition.key).is_some_and(|accepted| accepted.pin == pin);
            let verdict = if is_same { Verdict::Same } else { Verdict::Admitted(Admitted::Locked) };
            return Judgement { verdict, ..Judgement::same() };
        }
        if definition.is_resources_only() && lock.is_some() {
            // The file names the server, and this has no text that could differ from the file.
            return Judgement::same();
        }
        let accepted = self.accepted(&definition.key);
        let change = accepted.map(|accepted| change::compare(definition.key.kind, &accepted.json, &definition.json));
        let findings = self.findings(definition);
        Judgement { verdict: Verdict::Held(Held::NotLocked), change, resembles: None, findings }
    }

    /// Damage is rare, and computing ten thousand digests is not free.
    fn is_damaged(&self, definition: &Definition) -> bool {
        !self.known.damaged.is_empty() && self.known.damaged.contains(&definition.key.digest())
    }

    fn accepted(&self, key: &DefinitionKey) -> Option<&Accepted> {
        self.known.definitions.get(key)?.accepted.as_ref()
    }

    fn findings(&self, definition: &Definition) -> Vec<Finding> {
        match definition.key.kind {
            DefinitionKind::Instructions => {
                let text = string_value(&definition.json).unwrap_or_default();
                scan_text(&text, "instructions", self.neighbours)
            }
            DefinitionKind::Tool | DefinitionKind::Prompt | DefinitionKind::Template => {
                scan(&definition.json, self.neighbours)
            }
        }
    }

    fn resembles(&self, definition: &Definition) -> Option<String> {
        if self.compared.replace(self.compared.get() + 1) >= COMPARED_MAX {
            return None;
        }
        let candidates = self.candidates.get_or_init(|| {
            let of_kind = |kind: DefinitionKind| (kind, Candidates::new(self.accepted_of(kind)));
            DefinitionKind::ALL.into_iter().map(of_kind).collect()
        });
        candidates.get(&definition.key.kind)?.most_alike(&definition.json)
    }

    fn accepted_of(&self, kind: DefinitionKind) -> impl Iterator<Item = (&'a str, &'a str)> {
        let known: &'a Known = self.known;
        let same_kind = known.definitions.iter().filter(move |(key, _)| key.kind == kind);
        same_kind.filter_map(|(key, pinned)| Some((&*key.name, &*pinned.accepted.as_ref()?.json)))
    }
}

#[cfg(test)]
mod tests;
