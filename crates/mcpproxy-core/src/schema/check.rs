//! Walks a schema and a value together, in a bounded number of steps.
//!
//! A schema is a graph of nodes, and each node has conditions. The walker starts at the root node with the whole value.
//! Some conditions apply another node to the same value (`$ref`, `anyOf`, `if`), others descend into it (`properties`,
//! `items`), and the rest look at the value alone (`type`, `minimum`).
//!
//! Why count steps? Limits on the size of schema and value are not enough, because branching recursion costs 2^depth:
//!
//! ```text
//! {"$defs":{"a":{"anyOf":[{"items":{"$ref":"#/$defs/a"}}, {"items":{"$ref":"#/$defs/a"}, "minItems":2}]}}, …}
//! [[[[[[[[[[[[[[[[[[[[[[[[[[[[[[]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]
//! ```
//!
//! Each of the 30 levels is checked twice for each time the level above is checked: a billion checks for 60 bytes. A
//! time limit would not do either, since the same call must not pass on one machine and fail on another. So every node
//! costs a step, and so does every comparison that grows with the value. A check has 100,000 steps, and 8 more for each
//! part of a long value. A value that needs more is refused.
//!
//! Invariants:
//! - Every loop whose length the schema or the value decides spends steps.
//! - `frames` bounds the recursion, so that no schema overflows the stack.
//! - A value is accepted only if it was checked completely: [`OutOfSteps`] ends the whole check.
//!
//! A check runs in one of two modes. `Verdict` stops at the first mismatch and allocates nothing. Only if it fails does
//! `Mismatches` walk again to collect what is wrong. Most values fit, so the common case stays cheap.

use serde_json::Value;

use super::build::Graph;
use super::condition::{BranchCondition, Condition, Node, NodeId};
use super::mismatch::{Mismatch, MismatchKind, Outcome, PathStep, nearest_branch};
use super::values::parts;
use crate::json::{ExactValue, LongNumbers};

/// Steps that every check has.
const STEPS: usize = 100_000;
/// Additional steps for each part of a long value.
const STEPS_PER_PART: usize = 8;
/// Maximum recursion depth. Each level takes a part of the stack.
const FRAMES_MAX: usize = 400;

/// The error that ends a check which takes too many steps.
#[derive(Debug)]
pub(super) struct OutOfSteps;

/// The purpose of a walk: to know whether the value fits, or to collect all mismatches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CheckMode {
    Verdict,
    Mismatches,
}

pub(super) struct Walker<'s, 'v> {
    pub(super) nodes: &'s [Node],
    pub(super) mode: CheckMode,
    pub(super) path: Vec<PathStep<'v>>,
    pub(super) has_unevaluated: bool,
    steps: usize,
    frames: usize,
    /// The whole value, until the additional steps for its length were added.
    whole: Option<&'v Value>,
    /// The numbers of the value that 64 bits cannot hold.
    pub(super) long: &'v LongNumbers,
}

/// A value that is being checked, in JSON Schema terms an instance.
#[derive(Clone, Copy)]
pub(super) struct Instance<'v> {
    pub(super) value: &'v Value,
    /// The node that is applied to it.
    pub(super) node: NodeId,
    /// The last node that describes the value, for messages.
    pub(super) described: Option<NodeId>,
}

impl<'v> Instance<'v> {
    pub(super) fn of(value: &'v Value) -> Self {
        Self { value, node: 0, described: None }
    }
}

/// The properties and items that some condition has evaluated. `unevaluatedProperties` and `unevaluatedItems` apply to
/// the others.
#[derive(Default)]
pub(super) struct Evaluated<'v> {
    pub(super) properties: Vec<&'v str>,
    pub(super) items: Vec<usize>,
}

pub(super) fn check<'s, 'v>(
    graph: &'s Graph,
    exact: &'v ExactValue,
    mode: CheckMode,
) -> Result<Outcome<'s, 'v>, OutOfSteps> {
    let value = exact.value();
    let is_last = |node: &Node| node.conditions.last().is_some_and(Condition::is_last);
    let mut walk = Walker {
        nodes: &graph.nodes,
        mode,
        path: Vec::new(),
        has_unevaluated: graph.nodes.iter().any(is_last),
        steps: STEPS,
        frames: 0,
        whole: Some(value),
        long: exact.long(),
    };
    let mut outcome = Outcome::default();
    walk.node(0, Instance::of(value), &mut Evaluated::default(), &mut outcome)?;
    Ok(outcome)
}

impl<'s, 'v> Walker<'s, 'v> {
    pub(super) fn spend(&mut self, steps: usize) -> Result<(), OutOfSteps> {
        if steps > self.steps {
            let Some(whole) = self.whole.take() else { return Err(OutOfSteps) };
            self.steps = self.steps.saturating_add(parts(whole).saturating_mul(STEPS_PER_PART));
        }
        self.steps = self.steps.checked_sub(steps).ok_or(OutOfSteps)?;
        Ok(())
    }

    pub(super) fn node(
        &mut self,
        id: NodeId,
        mut instance: Instance<'v>,
        evaluated: &mut Evaluated<'v>,
        outcome: &mut Outcome<'s, 'v>,
    ) -> Result<(), OutOfSteps> {
        self.spend(1)?;
        let nodes = self.nodes;
        let Some(node) = nodes.get(id as usize) else { return Ok(()) };
        if self.frames >= FRAMES_MAX {
            return Err(OutOfSteps);
        }
        instance.node = id;
        if node.description.is_some() {
            instance.described = Some(id);
        }
        self.frames += 1;
        if node.conditions.last().is_some_and(Condition::is_last) {
            // Here only the properties that this node itself has evaluated count.
            let mut own = Evaluated::default();
            self.conditions(&node.conditions, instance, &mut own, outcome)?;
            self.merge(evaluated, own)?;
        } else {
            self.conditions(&node.conditions, instance, evaluated, outcome)?;
        }
        self.frames -= 1;
        Ok(())
    }

    fn conditions(
        &mut self,
        conditions: &'s [Condition],
        instance: Instance<'v>,
        evaluated: &mut Evaluated<'v>,
        outcome: &mut Outcome<'s, 'v>,
    ) -> Result<(), OutOfSteps> {
        for condition in conditions {
            self.condition(condition, instance, evaluated, outcome)?;
            if outcome.failed && self.mode == CheckMode::Verdict {
                break;
            }
        }
        Ok(())
    }

    /// Checks a part of the value, one level down.
    pub(super) fn part(
        &mut self,
        id: NodeId,
        step: PathStep<'v>,
        value: &'v Value,
        outcome: &mut Outcome<'s, 'v>,
    ) -> Result<(), OutOfSteps> {
        self.path.push(step);
        self.node(id, Instance::of(value), &mut Evaluated::default(), outcome)?;
        self.path.pop();
        Ok(())
    }

    /// Returns `true` if the instance fits a node, without collecting mismatches.
    pub(super) fn fits(
        &mut self,
        id: NodeId,
        instance: Instance<'v>,
        evaluated: &mut Evaluated<'v>,
    ) -> Result<bool, OutOfSteps> {
        let mode = std::mem::replace(&mut self.mode, CheckMode::Verdict);
        let mut outcome = Outcome::default();
        self.node(id, instance, evaluated, &mut outcome)?;
        self.mode = mode;
        Ok(!outcome.failed)
    }

    /// Returns `true` if a property name fits a node. The name is not a part of the value, so it has a walker of its
    /// own, with the remaining steps.
    pub(super) fn name_fits(&mut self, id: NodeId, name: &str) -> Result<bool, OutOfSteps> {
        let value = Value::String(name.to_owned());
        let mut walk = Walker {
            nodes: self.nodes,
            mode: CheckMode::Verdict,
            path: Vec::new(),
            has_unevaluated: self.has_unevaluated,
            steps: self.steps,
            frames: self.frames,
            whole: None,
            long: self.long,
        };
        let mut outcome = Outcome::default();
        walk.node(id, Instance::of(&value), &mut Evaluated::default(), &mut outcome)?;
        let (steps, failed) = (walk.steps, outcome.failed);
        self.steps = steps;
        Ok(!failed)
    }

    pub(super) fn report(&self, instance: Instance<'v>, kind: MismatchKind<'s, 'v>, outcome: &mut Outcome<'s, 'v>) {
        outcome.failed = true;
        if self.mode == CheckMode::Mismatches && outcome.has_room() {
            outcome.mismatches.push(Mismatch { path: self.path.clone(), instance, kind });
        }
    }

    fn condition(
        &mut self,
        condition: &'s Condition,
        instance: Instance<'v>,
        evaluated: &mut Evaluated<'v>,
        outcome: &mut Outcome<'s, 'v>,
    ) -> Result<(), OutOfSteps> {
        match (condition, instance.value) {
            (Condition::Branch(branch), _) => self.branch(branch, instance, evaluated, outcome)?,
            (Condition::Value(on_value), value) => {
                if !self.value(on_value, value)? {
                    self.report(instance, MismatchKind::Value(on_value), outcome);
                }
            }
            (Condition::Object(on_object), Value::Object(members)) => {
                self.object(on_object, instance, members, evaluated, outcome)?;
            }
            (Condition::Array(on_array), Value::Array(items)) => {
                self.array(on_array, instance, items, evaluated, outcome)?;
            }
            (Condition::Object(_) | Condition::Array(_), _) => {}
        }
        Ok(())
    }

    fn branch(
        &mut self,
        condition: &'s BranchCondition,
        instance: Instance<'v>,
        evaluated: &mut Evaluated<'v>,
        outcome: &mut Outcome<'s, 'v>,
    ) -> Result<(), OutOfSteps> {
        match condition {
            BranchCondition::Ref(node) => self.node(*node, instance, evaluated, outcome)?,
            BranchCondition::All(branches) => {
                for branch in branches {
                    self.node(*branch, instance, evaluated, outcome)?;
                    if outcome.failed && self.mode == CheckMode::Verdict {
                        break;
                    }
                }
            }
            BranchCondition::Any(branches) => self.any(branches, instance, evaluated, outcome)?,
            BranchCondition::One(branches) => self.one(branches, instance, evaluated, outcome)?,
            BranchCondition::Not(node) => {
                if self.fits(*node, instance, &mut Evaluated::default())? {
                    self.report(instance, MismatchKind::Not, outcome);
                }
            }
            BranchCondition::If { test, then, otherwise } => {
                let mut looked = Evaluated::default();
                let next = if self.fits(*test, instance, &mut looked)? {
                    self.merge(evaluated, looked)?;
                    then
                } else {
                    otherwise
                };
                if let Some(next) = next {
                    self.node(*next, instance, evaluated, outcome)?;
                }
            }
        }
        Ok(())
    }

    fn any(
        &mut self,
        branches: &'s [NodeId],
        instance: Instance<'v>,
        evaluated: &mut Evaluated<'v>,
        outcome: &mut Outcome<'s, 'v>,
    ) -> Result<(), OutOfSteps> {
        let mut fitted = false;
        for branch in branches {
            let mut looked = Evaluated::default();
            if self.fits(*branch, instance, &mut looked)? {
                fitted = true;
                if !self.has_unevaluated {
                    return Ok(());
                }
                self.merge(evaluated, looked)?;
            }
        }
        if fitted { Ok(()) } else { self.explain(branches, instance, outcome) }
    }

    fn one(
        &mut self,
        branches: &'s [NodeId],
        instance: Instance<'v>,
        evaluated: &mut Evaluated<'v>,
        outcome: &mut Outcome<'s, 'v>,
    ) -> Result<(), OutOfSteps> {
        let mut fitted = 0;
        for branch in branches {
            let mut looked = Evaluated::default();
            if self.fits(*branch, instance, &mut looked)? {
                fitted += 1;
                self.merge(evaluated, looked)?;
            }
            if fitted > 1 && self.mode == CheckMode::Verdict {
                break;
            }
        }
        match fitted {
            0 => self.explain(branches, instance, outcome)?,
            1 => {}
            _ => self.report(instance, MismatchKind::Several { fitted, of: branches.len() }, outcome),
        }
        Ok(())
    }

    /// Reports why the nearest branch does not fit, after none did.
    fn explain(
        &mut self,
        branches: &'s [NodeId],
        instance: Instance<'v>,
        outcome: &mut Outcome<'s, 'v>,
    ) -> Result<(), OutOfSteps> {
        outcome.failed = true;
        if self.mode == CheckMode::Verdict || !outcome.has_room() {
            return Ok(());
        }
        let mut tried = Vec::new();
        for branch in branches {
            let mut branch_out = Outcome::default();
            self.node(*branch, instance, &mut Evaluated::default(), &mut branch_out)?;
            tried.push(branch_out.mismatches);
        }
        outcome.take(nearest_branch(tried, &self.path, instance));
        Ok(())
    }

    pub(super) fn merge(&mut self, evaluated: &mut Evaluated<'v>, mut more: Evaluated<'v>) -> Result<(), OutOfSteps> {
        self.spend((more.properties.len() + more.items.len()) / 8)?;
        evaluated.properties.append(&mut more.properties);
        evaluated.items.append(&mut more.items);
        Ok(())
    }
}
