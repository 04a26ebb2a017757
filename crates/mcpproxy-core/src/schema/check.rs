//! Holds a value against a schema, in a bounded number of steps.

use std::cmp::Ordering;

use serde_json::Value;

use super::build::Graph;
use super::equal::{compare, equal, is_multiple};
use super::fault::{Fault, Out, Step, What, nearest_branch};
use super::rule::{Bound, Id, Limit, Node, Rule};

/// Steps that every check may take.
const STEPS: usize = 100_000;
/// Steps that it may take for each part of a long value.
const STEPS_PER_PART: usize = 8;
/// What it costs to divide numbers by their digits.
const DIVISION: usize = 8;
/// How deep rules may lead into each other: each takes its part of the stack.
const FRAMES_MAX: usize = 400;

/// The check took too many steps.
#[derive(Debug)]
pub(super) struct Spent;

/// Whether a mistake ends the check, or all of them are wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wanted {
    Verdict,
    Faults,
}

pub(super) struct Walk<'s, 'v> {
    pub(super) nodes: &'s [Node],
    pub(super) wanted: Wanted,
    pub(super) path: Vec<Step<'v>>,
    pub(super) has_unevaluated: bool,
    steps: usize,
    frames: usize,
    /// The whole value, until the steps for its length were granted.
    whole: Option<&'v Value>,
}

/// A value, and the node that last said something about it in words.
#[derive(Clone, Copy)]
pub(super) struct Spot<'v> {
    pub(super) value: &'v Value,
    /// The node it is held against.
    pub(super) node: Id,
    pub(super) described: Option<Id>,
}

impl<'v> Spot<'v> {
    pub(super) fn of(value: &'v Value) -> Self {
        Self { value, node: 0, described: None }
    }
}

/// Which parts of a value some rule has looked at.
#[derive(Default)]
pub(super) struct Seen<'v> {
    pub(super) properties: Vec<&'v str>,
    pub(super) items: Vec<usize>,
}

pub(super) fn check<'s, 'v>(graph: &'s Graph, value: &'v Value, wanted: Wanted) -> Result<Out<'s, 'v>, Spent> {
    let is_last = |node: &Node| node.rules.last().is_some_and(Rule::is_last);
    let mut walk = Walk {
        nodes: &graph.nodes,
        wanted,
        path: Vec::new(),
        has_unevaluated: graph.nodes.iter().any(is_last),
        steps: STEPS,
        frames: 0,
        whole: Some(value),
    };
    let mut out = Out::default();
    walk.node(0, Spot::of(value), &mut Seen::default(), &mut out)?;
    Ok(out)
}

impl<'s, 'v> Walk<'s, 'v> {
    pub(super) fn spend(&mut self, steps: usize) -> Result<(), Spent> {
        if steps > self.steps {
            let Some(whole) = self.whole.take() else { return Err(Spent) };
            self.steps = self.steps.saturating_add(parts(whole).saturating_mul(STEPS_PER_PART));
        }
        self.steps = self.steps.checked_sub(steps).ok_or(Spent)?;
        Ok(())
    }

    pub(super) fn node(
        &mut self,
        id: Id,
        mut spot: Spot<'v>,
        seen: &mut Seen<'v>,
        out: &mut Out<'s, 'v>,
    ) -> Result<(), Spent> {
        self.spend(1)?;
        let nodes = self.nodes;
        let Some(node) = nodes.get(id as usize) else { return Ok(()) };
        if self.frames >= FRAMES_MAX {
            return Err(Spent);
        }
        spot.node = id;
        if node.description.is_some() {
            spot.described = Some(id);
        }
        self.frames += 1;
        if node.rules.last().is_some_and(Rule::is_last) {
            // What others have looked at does not count here, only what this node has.
            let mut own = Seen::default();
            self.rules(&node.rules, spot, &mut own, out)?;
            self.merge(seen, own)?;
        } else {
            self.rules(&node.rules, spot, seen, out)?;
        }
        self.frames -= 1;
        Ok(())
    }

    fn rules(
        &mut self,
        rules: &'s [Rule],
        spot: Spot<'v>,
        seen: &mut Seen<'v>,
        out: &mut Out<'s, 'v>,
    ) -> Result<(), Spent> {
        for rule in rules {
            self.rule(rule, spot, seen, out)?;
            if out.failed && self.wanted == Wanted::Verdict {
                break;
            }
        }
        Ok(())
    }

    /// A part of the value, one step further down.
    pub(super) fn part(
        &mut self,
        id: Id,
        step: Step<'v>,
        value: &'v Value,
        out: &mut Out<'s, 'v>,
    ) -> Result<(), Spent> {
        self.path.push(step);
        self.node(id, Spot::of(value), &mut Seen::default(), out)?;
        self.path.pop();
        Ok(())
    }

    /// Whether a part fits, without saying why not.
    pub(super) fn fits(&mut self, id: Id, spot: Spot<'v>, seen: &mut Seen<'v>) -> Result<bool, Spent> {
        let wanted = std::mem::replace(&mut self.wanted, Wanted::Verdict);
        let mut out = Out::default();
        self.node(id, spot, seen, &mut out)?;
        self.wanted = wanted;
        Ok(!out.failed)
    }

    /// Whether a name fits. It is no part of the value, so it is walked on its own, with the steps that are left.
    pub(super) fn name_fits(&mut self, id: Id, name: &str) -> Result<bool, Spent> {
        let value = Value::String(name.to_owned());
        let mut walk = Walk {
            nodes: self.nodes,
            wanted: Wanted::Verdict,
            path: Vec::new(),
            has_unevaluated: self.has_unevaluated,
            steps: self.steps,
            frames: self.frames,
            whole: None,
        };
        let mut out = Out::default();
        walk.node(id, Spot::of(&value), &mut Seen::default(), &mut out)?;
        let (steps, failed) = (walk.steps, out.failed);
        self.steps = steps;
        Ok(!failed)
    }

    pub(super) fn fault(&self, spot: Spot<'v>, what: What<'s, 'v>, out: &mut Out<'s, 'v>) {
        out.failed = true;
        if self.wanted == Wanted::Faults && out.has_room() {
            out.faults.push(Fault { path: self.path.clone(), spot, what });
        }
    }

    fn rule(
        &mut self,
        rule: &'s Rule,
        spot: Spot<'v>,
        seen: &mut Seen<'v>,
        out: &mut Out<'s, 'v>,
    ) -> Result<(), Spent> {
        match rule {
            Rule::Ref(node) => self.node(*node, spot, seen, out)?,
            Rule::All(branches) => {
                for branch in branches {
                    self.node(*branch, spot, seen, out)?;
                    if out.failed && self.wanted == Wanted::Verdict {
                        break;
                    }
                }
            }
            Rule::Any(branches) => self.any(branches, spot, seen, out)?,
            Rule::One(branches) => self.one(branches, spot, seen, out)?,
            Rule::Not(node) => {
                if self.fits(*node, spot, &mut Seen::default())? {
                    self.fault(spot, What::Rule(rule), out);
                }
            }
            Rule::If { condition, then, otherwise } => {
                let mut looked = Seen::default();
                let next = if self.fits(*condition, spot, &mut looked)? {
                    self.merge(seen, looked)?;
                    then
                } else {
                    otherwise
                };
                if let Some(next) = next {
                    self.node(*next, spot, seen, out)?;
                }
            }
            _ => match spot.value {
                Value::Object(members) => self.object(rule, spot, members, seen, out)?,
                Value::Array(items) => self.array(rule, spot, items, seen, out)?,
                _ if !self.plain(rule, spot.value)? => self.fault(spot, What::Rule(rule), out),
                _ => {}
            },
        }
        Ok(())
    }

    /// Rules about a value as a whole.
    pub(super) fn plain(&mut self, rule: &'s Rule, value: &Value) -> Result<bool, Spent> {
        Ok(match (rule, value) {
            (Rule::Never, _) => false,
            (Rule::Type(types), _) => types.admit(value),
            (Rule::Enum(options), _) => {
                self.spend_comparing(options, value)?;
                options.iter().any(|option| equal(option, value))
            }
            (Rule::Const(option), _) => {
                self.spend_comparing(std::slice::from_ref(option), value)?;
                equal(option, value)
            }
            (Rule::Bound(bound, limit), Value::Number(number)) => match (bound, compare(number, limit)) {
                (_, None) => false,
                (Bound::Least, Some(order)) => order != Ordering::Less,
                (Bound::Most, Some(order)) => order != Ordering::Greater,
                (Bound::Above, Some(order)) => order == Ordering::Greater,
                (Bound::Below, Some(order)) => order == Ordering::Less,
            },
            (Rule::MultipleOf(divisor), Value::Number(number)) => {
                self.spend(DIVISION)?;
                is_multiple(number, divisor)
            }
            (Rule::Length(limit, count), Value::String(text)) => {
                self.spend(text.len() / 64)?;
                within(*limit, *count, text.chars().count())
            }
            (Rule::Pattern(leaf) | Rule::Format(leaf), Value::String(text)) => {
                self.spend(leaf.cost(text))?;
                leaf.admits(value)
            }
            _ => true,
        })
    }

    fn spend_comparing(&mut self, options: &[Value], value: &Value) -> Result<(), Spent> {
        let is_deep = |value: &&Value| value.is_array() || value.is_object();
        let deep = if is_deep(&value) { options.iter().filter(is_deep).count() } else { 0 };
        let each = if deep > 0 { parts(value) / 4 } else { 0 };
        self.spend(options.len() / 8 + deep.saturating_mul(each))
    }

    fn any(
        &mut self,
        branches: &'s [Id],
        spot: Spot<'v>,
        seen: &mut Seen<'v>,
        out: &mut Out<'s, 'v>,
    ) -> Result<(), Spent> {
        let mut fitted = false;
        for branch in branches {
            let mut looked = Seen::default();
            if self.fits(*branch, spot, &mut looked)? {
                fitted = true;
                if !self.has_unevaluated {
                    return Ok(());
                }
                self.merge(seen, looked)?;
            }
        }
        if fitted { Ok(()) } else { self.explain(branches, spot, out) }
    }

    fn one(
        &mut self,
        branches: &'s [Id],
        spot: Spot<'v>,
        seen: &mut Seen<'v>,
        out: &mut Out<'s, 'v>,
    ) -> Result<(), Spent> {
        let mut fitted = 0;
        for branch in branches {
            let mut looked = Seen::default();
            if self.fits(*branch, spot, &mut looked)? {
                fitted += 1;
                self.merge(seen, looked)?;
            }
            if fitted > 1 && self.wanted == Wanted::Verdict {
                break;
            }
        }
        match fitted {
            0 => self.explain(branches, spot, out)?,
            1 => {}
            _ => self.fault(spot, What::Several { fitted, of: branches.len() }, out),
        }
        Ok(())
    }

    /// No branch fits: says what is wrong with the nearest.
    fn explain(&mut self, branches: &'s [Id], spot: Spot<'v>, out: &mut Out<'s, 'v>) -> Result<(), Spent> {
        out.failed = true;
        if self.wanted == Wanted::Verdict || !out.has_room() {
            return Ok(());
        }
        let mut tried = Vec::new();
        for branch in branches {
            let mut branch_out = Out::default();
            self.node(*branch, spot, &mut Seen::default(), &mut branch_out)?;
            tried.push(branch_out.faults);
        }
        out.take(nearest_branch(tried, &self.path, spot));
        Ok(())
    }

    pub(super) fn merge(&mut self, seen: &mut Seen<'v>, mut more: Seen<'v>) -> Result<(), Spent> {
        self.spend((more.properties.len() + more.items.len()) / 8)?;
        seen.properties.append(&mut more.properties);
        seen.items.append(&mut more.items);
        Ok(())
    }
}

pub(super) fn within(limit: Limit, count: u64, found: usize) -> bool {
    match limit {
        Limit::Least => found as u64 >= count,
        Limit::Most => found as u64 <= count,
    }
}

/// How many values there are in a value. Long strings count as several.
pub(super) fn parts(value: &Value) -> usize {
    match value {
        Value::Array(items) => 1 + items.iter().map(parts).sum::<usize>(),
        Value::Object(members) => 1 + members.iter().map(|(key, value)| key.len() / 64 + parts(value)).sum::<usize>(),
        Value::String(text) => 1 + text.len() / 64,
        Value::Number(_) | Value::Bool(_) | Value::Null => 1,
    }
}
