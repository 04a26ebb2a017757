//! Summaries: how many records of each kind there were, and how long calls took.
//!
//! A summary reads no records except those of running calls. It reads each series at the end of the range and before
//! its beginning, and the counts that have not moved into a series yet (`rollup.rs`). A series has the records of one
//! tool with one outcome, written by one gateway. So the cost follows the number of series with a record since the
//! beginning of the range, and neither the number of hours nor of records.

use std::collections::{BTreeMap, HashMap};

use mcpproxy_core::{Untrusted, Variant};

use crate::log::step_counts::StepCounts;
use crate::log::tally::{Counted, HOUR_MS, STEP_MAX, duration_of};
use crate::{CallMark, Kind, Status, Store, StoreError};

/// The last hour that fits into milliseconds.
const HOUR_MAX: i64 = i64::MAX / HOUR_MS - 1;

/// Counts of whole hours, from `from_ms` up to but not including `to_ms`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Summary {
    pub from_ms: i64,
    pub to_ms: i64,
    pub total: u64,
    pub by_type: Vec<(String, u64)>,
    pub by_status: Vec<SummaryGroup>,
    pub by_intent: Vec<SummaryGroup>,
    pub by_server: Vec<SummaryGroup>,
    /// By `server:tool`.
    pub by_tool: Vec<SummaryGroup>,
    pub by_risk: Vec<SummaryGroup>,
    /// Durations of calls only.
    pub duration: Durations,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SummaryGroup {
    pub name: Untrusted,
    /// Dry runs and replayed answers are counted apart.
    pub count: u64,
    pub errors: u64,
    pub refused: u64,
    pub dry_runs: u64,
    pub replayed: u64,
    pub p50_us: Option<u64>,
    pub p95_us: Option<u64>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Durations {
    pub p50_us: Option<u64>,
    pub p95_us: Option<u64>,
}

/// Records that [`Store::calls_by_agent`] looks at.
pub const CALLS_BY_AGENT_RECORDS: usize = 20_000;

/// The calls of one agent by intent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AgentCalls {
    pub agent: String,
    pub intent_type: Variant,
    pub count: u64,
}

impl Store {
    /// Counts the calls of each agent since a time, among the newest [`CALLS_BY_AGENT_RECORDS`] records. The limit keeps
    /// this fast in a log of any size. A call is the same as in [`Store::hourly_calls`].
    pub async fn calls_by_agent(&self, since_ms: i64) -> Result<Vec<AgentCalls>, StoreError> {
        let most = i64::try_from(CALLS_BY_AGENT_RECORDS).unwrap_or(i64::MAX);
        let rows = self.database().calls_by_agent(since_ms.max(0), most).await?;
        let known = rows.into_iter().filter_map(|(agent, intent, count)| {
            Some(AgentCalls { agent, intent_type: Variant::from_operation(&intent)?, count })
        });
        Ok(known.collect())
    }

    /// Summarizes the hours that contain these times, both included. Without a time, there is no limit. Running calls
    /// count as `started`.
    pub async fn summary(&self, since_ms: Option<i64>, until_ms: Option<i64>) -> Result<Summary, StoreError> {
        let hour = |time_ms: i64| (time_ms.max(0) / HOUR_MS).min(HOUR_MAX);
        let asked = (since_ms.map_or(0, hour), until_ms.map_or(HOUR_MAX, hour));
        let counted = self.database().counts(asked.0, asked.1).await?;
        let found = self.database().tallied_hours().await?;
        // Without a limit, the summary covers the hours that have counts.
        let first = since_ms.map(hour).or(found.map(|(first, _)| first)).unwrap_or(0);
        let last = until_ms.map(hour).or(found.map(|(_, last)| last));
        let after = last.map_or(first, |last| last + 1).max(first);
        Ok(Summary::of(&counted, first * HOUR_MS, after * HOUR_MS))
    }
}

impl Summary {
    fn of(all: &[Counted], from_ms: i64, to_ms: i64) -> Self {
        let mut types = BTreeMap::<&str, u64>::new();
        let mut calls = Steps::default();
        for counted in all {
            let sum: &mut u64 = types.entry(counted.kind.as_str()).or_default();
            *sum = sum.saturating_add(counted.count);
            if counted.kind == Kind::Call && counted.mark == CallMark::Real {
                calls.add(&counted.steps);
            }
        }
        let mut by_type: Vec<_> = types.into_iter().map(|(name, count)| (name.to_owned(), count)).collect();
        by_type.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
        let word = |word: &String| (!word.is_empty()).then(|| word.clone());
        let tool = |counted: &Counted| {
            let (server, tool) = (word(&counted.server), word(&counted.tool)?);
            Some(server.map_or(tool.clone(), |server| format!("{server}:{tool}")))
        };
        Self {
            from_ms,
            to_ms,
            total: all.iter().fold(0_u64, |total, counted| total.saturating_add(counted.count)),
            by_type,
            by_status: grouped(all.iter().map(|counted| (Some(status(counted)), CallMark::Real, counted))),
            by_intent: grouped(all.iter().map(|counted| (word(&counted.intent_type), counted.mark, counted))),
            by_server: grouped(all.iter().map(|counted| (word(&counted.server), counted.mark, counted))),
            by_tool: grouped(all.iter().map(|counted| (tool(counted), counted.mark, counted))),
            by_risk: grouped(all.iter().map(|counted| (word(&counted.risk), counted.mark, counted))),
            duration: Durations { p50_us: calls.percentile(50), p95_us: calls.percentile(95) },
        }
    }
}

/// Returns the status. A dry run and a replayed answer are no success: nothing ran.
fn status(counted: &Counted) -> String {
    match counted.mark {
        CallMark::Real => counted.status.as_str(),
        CallMark::DryRun | CallMark::Replayed => counted.mark.as_str(),
    }
    .to_owned()
}

/// Groups counts by name, the most frequent first, then by name. Counts without a name are left out.
fn grouped<'c>(all: impl Iterator<Item = (Option<String>, CallMark, &'c Counted)>) -> Vec<SummaryGroup> {
    #[derive(Default)]
    struct Group {
        count: u64,
        errors: u64,
        refused: u64,
        dry_runs: u64,
        replayed: u64,
        steps: Steps,
    }
    let mut groups = HashMap::<String, Group>::new();
    for (name, mark, counted) in all {
        let Some(name) = name else { continue };
        let group = groups.entry(name).or_default();
        let count = match mark {
            CallMark::Real => &mut group.count,
            CallMark::DryRun => &mut group.dry_runs,
            CallMark::Replayed => &mut group.replayed,
        };
        *count = count.saturating_add(counted.count);
        if mark != CallMark::Real {
            continue;
        }
        match counted.status {
            Status::Error => group.errors = group.errors.saturating_add(counted.count),
            Status::Refused => group.refused = group.refused.saturating_add(counted.count),
            Status::Started | Status::Success | Status::Cancelled | Status::Interrupted => {}
        }
        group.steps.add(&counted.steps);
    }
    let mut groups: Vec<_> = groups.into_iter().collect();
    groups.sort_by(|(a, left), (b, right)| right.count.cmp(&left.count).then_with(|| a.cmp(b)));
    let count = |(name, group): (String, Group)| SummaryGroup {
        name: Untrusted::new(name),
        count: group.count,
        errors: group.errors,
        refused: group.refused,
        dry_runs: group.dry_runs,
        replayed: group.replayed,
        p50_us: group.steps.percentile(50),
        p95_us: group.steps.percentile(95),
    };
    groups.into_iter().map(count).collect()
}

/// The number of durations in each step. Its length is at most that of all steps.
#[derive(Default)]
struct Steps {
    counts: Vec<u64>,
}

impl Steps {
    /// Adds counts. Records without a duration are left out.
    fn add(&mut self, added: &StepCounts) {
        for (step, count) in added.iter() {
            let Ok(index) = usize::try_from(step.min(STEP_MAX)) else { continue };
            if self.counts.len() <= index {
                self.counts.resize(index + 1, 0);
            }
            if let Some(sum) = self.counts.get_mut(index) {
                *sum = sum.saturating_add(count);
            }
        }
    }

    /// The shortest step that covers this share of all durations.
    fn percentile(&self, percent: u64) -> Option<u64> {
        let total: u128 = self.counts.iter().copied().map(u128::from).sum();
        let rank = (total * u128::from(percent)).div_ceil(100);
        let mut seen = 0;
        (0..).zip(&self.counts).find_map(|(step, count)| {
            seen += u128::from(*count);
            (*count > 0 && seen >= rank).then(|| duration_of(step))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::log::tally::{NO_STEP, step_of};

    #[test]
    fn percentiles() {
        let check = |durations: &[u64], p50: Option<u64>, p95: Option<u64>| {
            let mut steps = Steps::default();
            steps.add(&durations.iter().map(|duration_us| (step_of(*duration_us), 1)).collect());
            assert_eq!((steps.percentile(50), steps.percentile(95)), (p50, p95), "{durations:?}");
        };
        check(&[], None, None);
        check(&[7], Some(7), Some(7));
        check(&[3, 1, 2, 4], Some(2), Some(4));
        check(&[1; 20], Some(1), Some(1));
        check(&(1..=15).collect::<Vec<_>>(), Some(8), Some(15));
        let mut steps = Steps::default();
        steps.add(&StepCounts::from_iter([(NO_STEP, 5)]));
        assert_eq!(steps.percentile(50), None, "unmeasured durations do not count");
    }
}
