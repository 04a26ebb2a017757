//! Compiles the patterns of a schema, and weakens a server's schema where the linear-time regex engine cannot run them.

use super::SchemaError;
use super::build::Graph;
use super::condition::{
    ArrayCondition, BranchCondition, Condition, Node, NodeId, ObjectCondition, Properties, ValueCondition, pointer,
};
use super::keyword_check::KeywordCache;
use super::messages::shortened;

/// Prefix of the pointers to patterns for property names.
const NAMES: &str = "/patternProperties";

/// The author of a schema.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Author {
    /// The server checks arguments itself, so it can check what we skip. `format` is an annotation, as in draft
    /// 2020-12, because servers often accept more than their formats say.
    Server,
    /// Nobody else checks a contract's schema, so every keyword must work.
    Contract,
}

/// Compiles patterns and formats. Returns JSON pointers to the keywords that are not checked.
pub(super) fn compile(graph: &mut Graph, author: Author) -> Result<Vec<String>, SchemaError> {
    let mut cache = KeywordCache::default();
    let draft = graph.draft.in_library();
    let mut missed: Vec<(NodeId, String)> = Vec::new();
    for (place, node) in (0..).zip(&mut graph.nodes) {
        node.conditions.retain_mut(|condition| match condition {
            Condition::Value(ValueCondition::Pattern(keyword_check)) => {
                cache.pattern(&keyword_check.text).map(|ready| *keyword_check = ready).is_some() || {
                    missed.push((place, "/pattern".to_owned()));
                    false
                }
            }
            Condition::Object(ObjectCondition::Properties(properties)) => {
                missed.extend(ready_names(properties, &mut cache).into_iter().map(|step| (place, step)));
                true
            }
            Condition::Value(ValueCondition::Format(keyword_check)) if author == Author::Contract => {
                *keyword_check = cache.format(draft, &keyword_check.text);
                true
            }
            Condition::Value(ValueCondition::Format(_)) => false,
            Condition::Value(_) | Condition::Object(_) | Condition::Array(_) | Condition::Branch(_) => true,
        });
    }
    let at = |(place, step): &(NodeId, String)| shortened(&format!("{}{step}", pointer(&graph.nodes, *place)));
    let mut left_out: Vec<String> = missed.iter().map(at).collect();
    match (author, left_out.first()) {
        (_, None) => {}
        (Author::Contract, Some(pointer)) => return Err(SchemaError::Pattern(pointer.clone())),
        (Author::Server, Some(_)) => left_out.extend(weaken(&mut graph.nodes, &missed)),
    }
    Ok(left_out)
}

/// Compiles the patterns for property names, and returns those that are skipped.
fn ready_names(properties: &mut Properties, cache: &mut KeywordCache) -> Vec<String> {
    let mut missed = Vec::new();
    properties.patterns.retain_mut(|(keyword_check, _)| {
        cache.pattern(&keyword_check.text).map(|ready| *keyword_check = ready).is_some() || {
            missed.push(format!("{NAMES}/{}", keyword_check.text.replace('~', "~0").replace('/', "~1")));
            false
        }
    });
    if !missed.is_empty() {
        // Without the pattern, it is unknown to which properties `additionalProperties` applies.
        properties.rest = None;
    }
    missed
}

/// Weakens conditions that depend on a skipped pattern the wrong way round, and returns pointers to them.
///
/// A node without its pattern admits more values. Around it, most conditions then admit more as well. But `not`, `if`,
/// `oneOf` and `maxContains` turn more into less, and a weakened check must never refuse what the full check admits.
fn weaken(nodes: &mut [Node], missed: &[(NodeId, String)]) -> Vec<String> {
    let is_name_left_out = missed.iter().any(|(_, step)| step.starts_with(NAMES));
    let is_weak = reaching(nodes, missed.iter().map(|(place, _)| *place as usize).collect());
    let is_weak = |node: NodeId| is_weak.get(node as usize).copied().unwrap_or(true);
    let mut changed = Vec::new();
    for (place, node) in (0..).zip(nodes.iter_mut()) {
        node.conditions.retain_mut(|condition| {
            let (step, is_kept) = match condition {
                Condition::Branch(BranchCondition::Not(node)) if is_weak(*node) => ("not", false),
                Condition::Branch(BranchCondition::If { test, .. }) if is_weak(*test) => ("if", false),
                Condition::Object(ObjectCondition::Unevaluated(_)) if is_name_left_out => {
                    ("unevaluatedProperties", false)
                }
                Condition::Branch(BranchCondition::One(branches)) if branches.iter().any(|node| is_weak(*node)) => {
                    *condition = BranchCondition::Any(std::mem::take(branches)).into();
                    ("oneOf", true)
                }
                Condition::Array(ArrayCondition::Contains { node, max: max @ Some(_), .. }) if is_weak(*node) => {
                    *max = None;
                    ("maxContains", true)
                }
                Condition::Value(_) | Condition::Object(_) | Condition::Array(_) | Condition::Branch(_) => return true,
            };
            changed.push((place, step));
            is_kept
        });
    }
    changed.into_iter().map(|(place, step)| shortened(&format!("{}/{step}", pointer(nodes, place)))).collect()
}

/// Marks the nodes from which one of `found` can be reached.
fn reaching(nodes: &[Node], mut found: Vec<usize>) -> Vec<bool> {
    let mut users: Vec<Vec<usize>> = vec![Vec::new(); nodes.len()];
    for (from, node) in nodes.iter().enumerate() {
        let mut used = |to: NodeId| users.get_mut(to as usize).map_or((), |users| users.push(from));
        node.conditions.iter().for_each(|condition| {
            condition.in_place(&mut used);
            condition.within(&mut used);
        });
    }
    let mut is_reaching = vec![false; nodes.len()];
    while let Some(node) = found.pop() {
        if let Some(known) = is_reaching.get_mut(node).filter(|known| !**known) {
            *known = true;
            found.extend(users.get(node).into_iter().flatten());
        }
    }
    is_reaching
}
