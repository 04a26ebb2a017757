//! Rules about objects and arrays.

use std::collections::HashSet;

use serde_json::{Map, Value};

use super::check::{Seen, Spent, Spot, Walk, Wanted, within};
use super::equal::key;
use super::fault::{Out, Step, What};
use super::rule::{Id, Node, Properties, Rule};

impl<'s, 'v> Walk<'s, 'v> {
    pub(super) fn object(
        &mut self,
        rule: &'s Rule,
        spot: Spot<'v>,
        members: &'v Map<String, Value>,
        seen: &mut Seen<'v>,
        out: &mut Out<'s, 'v>,
    ) -> Result<(), Spent> {
        match rule {
            Rule::Properties(properties) => self.properties(properties, members, seen, out)?,
            Rule::Required(names) => self.required(names, spot, members, out)?,
            Rule::DependentRequired(needs) => {
                self.spend(needs.len())?;
                for (_, names) in needs.iter().filter(|(name, _)| members.contains_key(&**name)) {
                    self.required(names, spot, members, out)?;
                }
            }
            Rule::DependentSchemas(needs) => {
                self.spend(needs.len())?;
                for (_, node) in needs.iter().filter(|(name, _)| members.contains_key(&**name)) {
                    self.node(*node, spot, seen, out)?;
                }
            }
            Rule::PropertyNames(node) => {
                for name in members.keys() {
                    if !self.name_fits(*node, name)? {
                        self.fault(spot, What::Name(name, *node), out);
                    }
                }
            }
            Rule::UnevaluatedProperties(node) => {
                self.spend(seen.properties.len() / 4 + members.len())?;
                let known: HashSet<&str> = seen.properties.iter().copied().collect();
                for (name, value) in members.iter().filter(|(name, _)| !known.contains(name.as_str())) {
                    self.rest(*node, None, name, value, out)?;
                    seen.properties.push(name);
                }
            }
            Rule::PropertyCount(limit, count) if !within(*limit, *count, members.len()) => {
                self.fault(spot, What::Rule(rule), out);
            }
            _ if !self.plain(rule, spot.value)? => self.fault(spot, What::Rule(rule), out),
            _ => {}
        }
        Ok(())
    }

    fn properties(
        &mut self,
        properties: &'s Properties,
        members: &'v Map<String, Value>,
        seen: &mut Seen<'v>,
        out: &mut Out<'s, 'v>,
    ) -> Result<(), Spent> {
        for (name, value) in members {
            let mut is_known = false;
            self.spend(1 + if properties.positions.is_none() { properties.named.len() / 8 } else { 0 })?;
            if let Some(node) = properties.find(name) {
                is_known = true;
                self.part(node, Step::Key(name), value, out)?;
            }
            if !properties.patterns.is_empty() {
                let text = Value::String(name.clone());
                for (pattern, node) in &properties.patterns {
                    self.spend(pattern.cost(name))?;
                    if pattern.admits(&text) {
                        is_known = true;
                        self.part(*node, Step::Key(name), value, out)?;
                    }
                }
            }
            if let Some(rest) = properties.rest.filter(|_| !is_known) {
                is_known = true;
                self.rest(rest, Some(properties), name, value, out)?;
            }
            if is_known && self.has_unevaluated {
                seen.properties.push(name);
            }
            if out.failed && self.wanted == Wanted::Verdict {
                return Ok(());
            }
        }
        Ok(())
    }

    /// A property that is none of the named ones.
    fn rest(
        &mut self,
        node: Id,
        known: Option<&'s Properties>,
        name: &'v str,
        value: &'v Value,
        out: &mut Out<'s, 'v>,
    ) -> Result<(), Spent> {
        if !is_never(self.nodes, node) {
            return self.part(node, Step::Key(name), value, out);
        }
        self.path.push(Step::Key(name));
        self.fault(Spot::of(value), What::Unknown(known), out);
        self.path.pop();
        Ok(())
    }

    fn required(
        &mut self,
        names: &'s [Box<str>],
        spot: Spot<'v>,
        members: &'v Map<String, Value>,
        out: &mut Out<'s, 'v>,
    ) -> Result<(), Spent> {
        self.spend(names.len() / 8)?;
        for name in names.iter().filter(|name| !members.contains_key(&***name)) {
            self.fault(spot, What::Missing(name), out);
        }
        Ok(())
    }

    pub(super) fn array(
        &mut self,
        rule: &'s Rule,
        spot: Spot<'v>,
        items: &'v [Value],
        seen: &mut Seen<'v>,
        out: &mut Out<'s, 'v>,
    ) -> Result<(), Spent> {
        let fits = match rule {
            Rule::Items { first, rest } => {
                let nodes = first.iter().copied().map(Some).chain(std::iter::repeat(*rest));
                for ((position, item), node) in items.iter().enumerate().zip(nodes) {
                    let Some(node) = node else { break };
                    self.part(node, Step::Item(position), item, out)?;
                    if self.has_unevaluated {
                        seen.items.push(position);
                    }
                    if out.failed && self.wanted == Wanted::Verdict {
                        break;
                    }
                }
                true
            }
            Rule::Contains { node, min, max } => self.contains((*node, *min, *max), items, seen)?,
            Rule::UnevaluatedItems(node) => {
                self.spend(seen.items.len() / 4 + items.len())?;
                let known: HashSet<usize> = seen.items.iter().copied().collect();
                for (position, item) in items.iter().enumerate().filter(|(position, _)| !known.contains(position)) {
                    self.part(*node, Step::Item(position), item, out)?;
                    seen.items.push(position);
                }
                true
            }
            Rule::ItemCount(limit, count) => within(*limit, *count, items.len()),
            Rule::Unique => {
                self.spend(super::check::parts(spot.value).saturating_mul(2))?;
                let mut known = HashSet::with_capacity(items.len());
                items.iter().all(|item| known.insert(key(item)))
            }
            _ => self.plain(rule, spot.value)?,
        };
        if !fits {
            self.fault(spot, What::Rule(rule), out);
        }
        Ok(())
    }

    fn contains(
        &mut self,
        (node, min, max): (Id, u64, Option<u64>),
        items: &'v [Value],
        seen: &mut Seen<'v>,
    ) -> Result<bool, Spent> {
        let mut found = 0u64;
        for (position, item) in items.iter().enumerate() {
            if self.fits(node, Spot::of(item), &mut Seen::default())? {
                found += 1;
                if self.has_unevaluated {
                    seen.items.push(position);
                }
            }
        }
        Ok(found >= min && max.is_none_or(|max| found <= max))
    }
}

fn is_never(nodes: &[Node], node: Id) -> bool {
    nodes.get(node as usize).is_some_and(|node| matches!(node.rules.as_slice(), [Rule::Never]))
}
