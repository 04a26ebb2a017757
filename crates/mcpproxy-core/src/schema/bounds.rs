//! Bounds how many nodes a schema applies to one value, and refuses endless loops.

use super::SchemaError;
use super::condition::{Node, NodeId, pointer};

/// Maximum number of nodes that are applied to one value. Real tools need at most 32.
pub(super) const PATHS_MAX: usize = 10_000;

/// Sorts the nodes topologically by the conditions that stay at one value, and sums up the paths.
///
/// Conditions that descend into the value may form a cycle, because they end with the value. Conditions that stay at
/// the value may not.
pub(super) fn check(nodes: &[Node]) -> Result<(), SchemaError> {
    let mut waiting = vec![0usize; nodes.len()];
    each_edge(nodes, |_, to| {
        if let Some(count) = waiting.get_mut(to as usize) {
            *count += 1;
        }
    });
    let ids = 0..NodeId::try_from(nodes.len()).unwrap_or(NodeId::MAX);
    let mut order: Vec<NodeId> =
        ids.clone().zip(&waiting).filter(|(_, waiting)| **waiting == 0).map(|(node, _)| node).collect();
    let mut next = 0;
    while let Some(node) = order.get(next).copied() {
        next += 1;
        edges(nodes, node, |to| {
            if let Some(count) = waiting.get_mut(to as usize) {
                *count -= 1;
                if *count == 0 {
                    order.push(to);
                }
            }
        });
    }
    if let Some((node, _)) = ids.zip(&waiting).find(|(_, waiting)| **waiting > 0) {
        let pointer = super::messages::shortened(&pointer(nodes, node));
        return Err(SchemaError::Endless(if pointer.is_empty() { "/".to_owned() } else { pointer }));
    }
    let mut paths = vec![1usize; nodes.len()];
    for node in order.into_iter().rev() {
        let mut sum = 1usize;
        edges(nodes, node, |to| sum = sum.saturating_add(paths.get(to as usize).copied().unwrap_or(1)));
        if sum > PATHS_MAX {
            return Err(SchemaError::TooManyPaths);
        }
        if let Some(paths) = paths.get_mut(node as usize) {
            *paths = sum;
        }
    }
    Ok(())
}

fn edges(nodes: &[Node], node: NodeId, mut each: impl FnMut(NodeId)) {
    let conditions = nodes.get(node as usize).map(|node| node.conditions.as_slice()).unwrap_or_default();
    conditions.iter().for_each(|condition| condition.in_place(&mut each));
}

fn each_edge(nodes: &[Node], mut each: impl FnMut(NodeId, NodeId)) {
    for (from, node) in (0..).zip(nodes) {
        node.conditions.iter().for_each(|condition| condition.in_place(|to| each(from, to)));
    }
}
