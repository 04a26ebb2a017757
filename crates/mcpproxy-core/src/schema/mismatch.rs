//! Where a value does not fit, before it is put into words.

use super::PROBLEMS_MAX;
use super::check::Spot;
use super::rule::{Id, Properties, Rule};

/// One step into a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step<'v> {
    Key(&'v str),
    Item(usize),
}

pub(super) struct Fault<'s, 'v> {
    pub(super) path: Vec<Step<'v>>,
    pub(super) spot: Spot<'v>,
    pub(super) what: What<'s, 'v>,
}

pub(super) enum What<'s, 'v> {
    /// The value does not keep this rule.
    Rule(&'s Rule),
    /// A property that is required.
    Missing(&'s str),
    /// A property that the schema does not have, and those it has as far as they are known.
    Unknown(Option<&'s Properties>),
    /// A property whose name does not fit.
    Name(&'v str, Id),
    /// More branches fit than the one that should.
    Several { fitted: usize, of: usize },
    /// It is none of these.
    Choice(Vec<Fault<'s, 'v>>),
}

#[derive(Default)]
pub(super) struct Out<'s, 'v> {
    pub(super) failed: bool,
    pub(super) faults: Vec<Fault<'s, 'v>>,
}

impl<'s, 'v> Out<'s, 'v> {
    pub(super) fn has_room(&self) -> bool {
        self.faults.len() < PROBLEMS_MAX
    }

    pub(super) fn take(&mut self, faults: Vec<Fault<'s, 'v>>) {
        self.failed = true;
        self.faults.extend(faults);
        self.faults.truncate(PROBLEMS_MAX);
    }
}

/// Of several branches that all failed, what is wrong with the one that was meant.
pub(super) fn nearest_branch<'s, 'v>(
    mut tried: Vec<Vec<Fault<'s, 'v>>>,
    here: &[Step<'v>],
    spot: Spot<'v>,
) -> Vec<Fault<'s, 'v>> {
    let is_simple = |faults: &Vec<Fault<'_, '_>>| match faults.as_slice() {
        [only] => only.path.len() == here.len() && is_about_kind(&only.what),
        _ => false,
    };
    if tried.len() > 1 && tried.iter().all(is_simple) {
        let choice = tried.into_iter().flatten().collect();
        return vec![Fault { path: here.to_vec(), spot, what: What::Choice(choice) }];
    }
    let rank = |faults: &Vec<Fault<'_, '_>>| {
        let at = |depth: usize| {
            faults.iter().any(|fault| fault.path.len() == here.len() + depth && is_about_kind(&fault.what))
        };
        // A branch for another kind of value was not meant, nor one with another tag.
        (at(0), faults.iter().any(|fault| fault.path.len() == here.len() + 1 && is_tag(&fault.what)), faults.len())
    };
    let best = (0..tried.len()).min_by_key(|position| tried.get(*position).map(rank)).unwrap_or_default();
    if best < tried.len() { tried.swap_remove(best) } else { Vec::new() }
}

/// Whether the value is of another kind altogether.
fn is_about_kind(what: &What<'_, '_>) -> bool {
    match what {
        What::Rule(rule) => matches!(rule, Rule::Type(_) | Rule::Enum(_) | Rule::Const(_) | Rule::Never),
        What::Choice(_) => true,
        What::Missing(_) | What::Unknown(_) | What::Name(..) | What::Several { .. } => false,
    }
}

fn is_tag(what: &What<'_, '_>) -> bool {
    matches!(what, What::Rule(Rule::Const(_) | Rule::Enum(_)))
}
