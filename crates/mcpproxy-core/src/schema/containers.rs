//! Checks the conditions on objects and arrays.

use std::collections::HashSet;

use serde_json::{Map, Value};

use super::check::{CheckMode, Evaluated, Instance, OutOfSteps, Walker};
use super::condition::{ArrayCondition, Condition, Node, NodeId, ObjectCondition, Properties, ValueCondition};
use super::equal::key;
use super::mismatch::{MismatchKind, Outcome, PathStep};
use super::values::{BYTES_PER_STEP, within};
use crate::json::ExactPart;

impl<'s, 'v> Walker<'s, 'v> {
    pub(super) fn object(
        &mut self,
        condition: &'s ObjectCondition,
        instance: Instance<'v>,
        members: &'v Map<String, Value>,
        evaluated: &mut Evaluated<'v>,
        outcome: &mut Outcome<'s, 'v>,
    ) -> Result<(), OutOfSteps> {
        match condition {
            ObjectCondition::Properties(properties) => self.properties(properties, members, evaluated, outcome)?,
            ObjectCondition::Required(names) => self.required(names, instance, members, outcome)?,
            ObjectCondition::DependentRequired(needs) => {
                self.spend(needs.len())?;
                for (_, names) in needs.iter().filter(|(name, _)| members.contains_key(&**name)) {
                    self.required(names, instance, members, outcome)?;
                }
            }
            ObjectCondition::DependentSchemas(needs) => {
                self.spend(needs.len())?;
                for (_, node) in needs.iter().filter(|(name, _)| members.contains_key(&**name)) {
                    self.node(*node, instance, evaluated, outcome)?;
                }
            }
            ObjectCondition::Names(node) => {
                for name in members.keys() {
                    if !self.name_fits(*node, name)? {
                        self.report(instance, MismatchKind::Name(name, *node), outcome);
                    }
                }
            }
            ObjectCondition::Unevaluated(node) => {
                self.spend(evaluated.properties.len() / 4 + members.len())?;
                let known: HashSet<&str> = evaluated.properties.iter().copied().collect();
                for (name, value) in members.iter().filter(|(name, _)| !known.contains(name.as_str())) {
                    self.rest(*node, None, name, value, outcome)?;
                    evaluated.properties.push(name);
                }
            }
            ObjectCondition::Count(limit, count) => {
                if !within(*limit, *count, members.len()) {
                    self.report(instance, MismatchKind::PropertyCount(*limit, *count), outcome);
                }
            }
        }
        Ok(())
    }

    fn properties(
        &mut self,
        properties: &'s Properties,
        members: &'v Map<String, Value>,
        evaluated: &mut Evaluated<'v>,
        outcome: &mut Outcome<'s, 'v>,
    ) -> Result<(), OutOfSteps> {
        for (name, value) in members {
            let mut is_known = false;
            self.spend(1 + if properties.positions.is_none() { properties.named.len() / 8 } else { 0 })?;
            if let Some(node) = properties.find(name) {
                is_known = true;
                self.part(node, PathStep::Key(name), value, outcome)?;
            }
            if !properties.patterns.is_empty() {
                let text = Value::String(name.clone());
                for (pattern, node) in &properties.patterns {
                    self.spend(pattern.cost(name))?;
                    if pattern.admits(&text) {
                        is_known = true;
                        self.part(*node, PathStep::Key(name), value, outcome)?;
                    }
                }
            }
            if let Some(rest) = properties.rest.filter(|_| !is_known) {
                is_known = true;
                self.rest(rest, Some(properties), name, value, outcome)?;
            }
            if is_known && self.has_unevaluated {
                evaluated.properties.push(name);
            }
            if outcome.failed && self.mode == CheckMode::Verdict {
                return Ok(());
            }
        }
        Ok(())
    }

    /// Checks a property that has no condition of its own.
    fn rest(
        &mut self,
        node: NodeId,
        known: Option<&'s Properties>,
        name: &'v str,
        value: &'v Value,
        outcome: &mut Outcome<'s, 'v>,
    ) -> Result<(), OutOfSteps> {
        if !is_never(self.nodes, node) {
            return self.part(node, PathStep::Key(name), value, outcome);
        }
        self.path.push(PathStep::Key(name));
        self.report(Instance::of(value), MismatchKind::Unknown(known), outcome);
        self.path.pop();
        Ok(())
    }

    fn required(
        &mut self,
        names: &'s [Box<str>],
        instance: Instance<'v>,
        members: &'v Map<String, Value>,
        outcome: &mut Outcome<'s, 'v>,
    ) -> Result<(), OutOfSteps> {
        self.spend(names.len() / 8)?;
        for name in names.iter().filter(|name| !members.contains_key(&***name)) {
            self.report(instance, MismatchKind::Missing(name), outcome);
        }
        Ok(())
    }

    pub(super) fn array(
        &mut self,
        condition: &'s ArrayCondition,
        instance: Instance<'v>,
        items: &'v [Value],
        evaluated: &mut Evaluated<'v>,
        outcome: &mut Outcome<'s, 'v>,
    ) -> Result<(), OutOfSteps> {
        match condition {
            ArrayCondition::Items { first, rest } => {
                let nodes = first.iter().copied().map(Some).chain(std::iter::repeat(*rest));
                for ((position, item), node) in items.iter().enumerate().zip(nodes) {
                    let Some(node) = node else { break };
                    self.part(node, PathStep::Item(position), item, outcome)?;
                    if self.has_unevaluated {
                        evaluated.items.push(position);
                    }
                    if outcome.failed && self.mode == CheckMode::Verdict {
                        break;
                    }
                }
            }
            ArrayCondition::Contains { node, min, max } => {
                if !self.contains((*node, *min, *max), items, evaluated)? {
                    self.report(instance, MismatchKind::Contains { min: *min, max: *max }, outcome);
                }
            }
            ArrayCondition::Unevaluated(node) => {
                self.spend(evaluated.items.len() / 4 + items.len())?;
                let known: HashSet<usize> = evaluated.items.iter().copied().collect();
                for (position, item) in items.iter().enumerate().filter(|(position, _)| !known.contains(position)) {
                    self.part(*node, PathStep::Item(position), item, outcome)?;
                    evaluated.items.push(position);
                }
            }
            ArrayCondition::Count(limit, count) => {
                if !within(*limit, *count, items.len()) {
                    self.report(instance, MismatchKind::ItemCount(*limit, *count), outcome);
                }
            }
            ArrayCondition::Unique => {
                let digits = self.long_bytes(instance.value) / BYTES_PER_STEP;
                self.spend(super::values::parts(instance.value).saturating_mul(2) + digits)?;
                let mut known = HashSet::with_capacity(items.len());
                let long = self.long;
                if !items.iter().all(|item| known.insert(key(ExactPart::new(item, long)))) {
                    self.report(instance, MismatchKind::NotUnique, outcome);
                }
            }
        }
        Ok(())
    }

    fn contains(
        &mut self,
        (node, min, max): (NodeId, u64, Option<u64>),
        items: &'v [Value],
        evaluated: &mut Evaluated<'v>,
    ) -> Result<bool, OutOfSteps> {
        let mut found = 0u64;
        for (position, item) in items.iter().enumerate() {
            if self.fits(node, Instance::of(item), &mut Evaluated::default())? {
                found += 1;
                if self.has_unevaluated {
                    evaluated.items.push(position);
                }
            }
        }
        Ok(found >= min && max.is_none_or(|max| found <= max))
    }
}

fn is_never(nodes: &[Node], node: NodeId) -> bool {
    nodes
        .get(node as usize)
        .is_some_and(|node| matches!(node.conditions.as_slice(), [Condition::Value(ValueCondition::Never)]))
}
