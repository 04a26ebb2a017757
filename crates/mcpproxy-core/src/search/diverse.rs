//! Moves copies of a tool to the end, so that one tool on many servers does not fill the result.

use crate::search::merged::MergedIndex;
use crate::search::table::Vector;

/// Tools with at least this similarity count as copies.
const SAME: f32 = 0.93;
/// Number of copies that keep their place, so that the agent has a choice.
const COPIES_MAX: usize = 2;

/// Returns the first tools up to a limit. Further copies of a tool come after all others.
pub(super) fn choose(index: &MergedIndex, ranked: impl Iterator<Item = (u32, f32)>, limit: usize) -> Vec<(u32, f32)> {
    let meaning = |tool: u32| index.entry(tool).and_then(|entry| entry.meaning.as_ref());
    let mut chosen: Vec<(u32, f32)> = Vec::new();
    let mut late: Vec<(u32, f32)> = Vec::new();
    for (tool, score) in ranked {
        if chosen.len() >= limit {
            break;
        }
        let is_copy = |(other, _): &&(u32, f32)| {
            index.server_of(*other) != index.server_of(tool) && are_same(meaning(*other), meaning(tool))
        };
        let copies = chosen.iter().filter(is_copy).count();
        if copies >= COPIES_MAX { late.push((tool, score)) } else { chosen.push((tool, score)) }
    }
    let missing = limit.saturating_sub(chosen.len());
    chosen.extend(late.into_iter().take(missing));
    chosen
}

fn are_same(one: Option<&Vector>, other: Option<&Vector>) -> bool {
    one.zip(other).is_some_and(|(one, other)| one.cosine(other) >= SAME)
}
