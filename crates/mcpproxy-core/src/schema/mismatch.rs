//! Mismatches between a value and a schema, before `messages` puts them into words.

use super::PROBLEMS_MAX;
use super::check::Instance;
use super::condition::{CountLimit, NodeId, Properties, ValueCondition};

/// One step of the path into a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PathStep<'v> {
    Key(&'v str),
    Item(usize),
}

pub(super) struct Mismatch<'s, 'v> {
    pub(super) path: Vec<PathStep<'v>>,
    pub(super) instance: Instance<'v>,
    pub(super) kind: MismatchKind<'s, 'v>,
}

pub(super) enum MismatchKind<'s, 'v> {
    /// The value fails this condition.
    Value(&'s ValueCondition),
    /// An array has too few or too many items.
    ItemCount(CountLimit, u64),
    /// Two items of an array are equal.
    NotUnique,
    /// Too few or too many items of an array match `contains`.
    Contains { min: u64, max: Option<u64> },
    /// An object has too few or too many properties.
    PropertyCount(CountLimit, u64),
    /// The value matches the schema in `not`.
    Not,
    /// A required property is missing.
    Missing(&'s str),
    /// The schema does not have this property. Carries the properties that it has, if known.
    Unknown(Option<&'s Properties>),
    /// The name of a property does not fit.
    Name(&'v str, NodeId),
    /// More than one branch of `oneOf` fits.
    Several { fitted: usize, of: usize },
    /// No branch fits, and each expects a different kind of value.
    Choice(Vec<Mismatch<'s, 'v>>),
}

#[derive(Default)]
pub(super) struct Outcome<'s, 'v> {
    pub(super) failed: bool,
    pub(super) mismatches: Vec<Mismatch<'s, 'v>>,
}

impl<'s, 'v> Outcome<'s, 'v> {
    pub(super) fn has_room(&self) -> bool {
        self.mismatches.len() < PROBLEMS_MAX
    }

    pub(super) fn take(&mut self, mismatches: Vec<Mismatch<'s, 'v>>) {
        self.failed = true;
        self.mismatches.extend(mismatches);
        self.mismatches.truncate(PROBLEMS_MAX);
    }
}

/// Picks the branch that the sender most likely meant, after all failed, and returns its mismatches.
pub(super) fn nearest_branch<'s, 'v>(
    mut tried: Vec<Vec<Mismatch<'s, 'v>>>,
    here: &[PathStep<'v>],
    instance: Instance<'v>,
) -> Vec<Mismatch<'s, 'v>> {
    let is_simple = |mismatches: &Vec<Mismatch<'_, '_>>| match mismatches.as_slice() {
        [only] => only.path.len() == here.len() && is_about_kind(&only.kind),
        _ => false,
    };
    if tried.len() > 1 && tried.iter().all(is_simple) {
        let choice = tried.into_iter().flatten().collect();
        return vec![Mismatch { path: here.to_vec(), instance, kind: MismatchKind::Choice(choice) }];
    }
    let rank = |mismatches: &Vec<Mismatch<'_, '_>>| {
        let at = |depth: usize| {
            mismatches.iter().any(|mismatch| mismatch.path.len() == here.len() + depth && is_about_kind(&mismatch.kind))
        };
        // A branch for another type of value was not meant, nor one with another tag.
        (
            at(0),
            mismatches.iter().any(|mismatch| mismatch.path.len() == here.len() + 1 && is_tag(&mismatch.kind)),
            mismatches.len(),
        )
    };
    let best = (0..tried.len()).min_by_key(|position| tried.get(*position).map(rank)).unwrap_or_default();
    if best < tried.len() { tried.swap_remove(best) } else { Vec::new() }
}

/// Returns `true` if the value has another type, or another fixed value, than expected.
fn is_about_kind(kind: &MismatchKind<'_, '_>) -> bool {
    match kind {
        MismatchKind::Value(condition) => match condition {
            ValueCondition::Never | ValueCondition::Type(_) | ValueCondition::Enum(_) | ValueCondition::Const(_) => {
                true
            }
            ValueCondition::Bound(..)
            | ValueCondition::MultipleOf(_)
            | ValueCondition::Length(..)
            | ValueCondition::Pattern(_)
            | ValueCondition::Format(_) => false,
        },
        MismatchKind::Choice(_) => true,
        MismatchKind::ItemCount(..)
        | MismatchKind::NotUnique
        | MismatchKind::Contains { .. }
        | MismatchKind::PropertyCount(..)
        | MismatchKind::Not
        | MismatchKind::Missing(_)
        | MismatchKind::Unknown(_)
        | MismatchKind::Name(..)
        | MismatchKind::Several { .. } => false,
    }
}

fn is_tag(kind: &MismatchKind<'_, '_>) -> bool {
    matches!(kind, MismatchKind::Value(ValueCondition::Const(_) | ValueCondition::Enum(_)))
}
