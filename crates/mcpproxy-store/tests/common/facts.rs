//! Summaries that are computed from the facts about each record, without any table of counts.

use std::collections::BTreeMap;

use mcpproxy_core::{RiskLevel, Untrusted, Variant};
use mcpproxy_store::{CallMark, Durations, HourlyCount, Kind, Record, Status, Summary, SummaryGroup};

const HOUR_MS: i64 = 3_600_000;

/// The facts about a record that a summary counts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Fact {
    pub(crate) hour: i64,
    pub(crate) kind: Kind,
    pub(crate) status: Status,
    pub(crate) server: Option<String>,
    pub(crate) tool: Option<String>,
    pub(crate) intent: Option<Variant>,
    pub(crate) risk: Option<RiskLevel>,
    pub(crate) mark: CallMark,
    pub(crate) duration_us: Option<u64>,
}

impl Fact {
    pub(crate) fn of(record: &Record) -> Self {
        let word = |word: &Option<Untrusted>| word.as_ref().map(|word| word.for_json().to_owned());
        // A running call is counted as real, because its outcome is not known.
        let mark = if record.status == Status::Started { CallMark::Real } else { record.mark() };
        Self {
            hour: record.time_ms() / HOUR_MS,
            kind: record.kind,
            status: record.status,
            server: word(&record.server),
            tool: word(&record.tool),
            intent: record.intent_type,
            risk: record.risk,
            mark,
            duration_us: record.duration_us,
        }
    }

    fn status(&self) -> &'static str {
        match self.mark {
            CallMark::Real => self.status.as_str(),
            CallMark::DryRun => "dry_run",
            CallMark::Replayed => "replayed",
        }
    }
}

/// The exact percentile. Durations of these tests are below 16 µs, where each has its own step.
fn percentile(mut durations: Vec<u64>, percent: usize) -> Option<u64> {
    durations.sort_unstable();
    let rank = (durations.len() * percent).div_ceil(100);
    durations.get(rank.checked_sub(1)?).copied()
}

/// Adds up facts one by one.
fn grouped(facts: &[&Fact], name: &dyn Fn(&Fact) -> Option<String>, with_marks: bool) -> Vec<SummaryGroup> {
    let mut groups = BTreeMap::<String, Vec<&Fact>>::new();
    for fact in facts {
        if let Some(name) = name(fact) {
            groups.entry(name).or_default().push(fact);
        }
    }
    let group = |(name, facts): (String, Vec<&Fact>)| {
        let marked = |mark| facts.iter().filter(|fact| with_marks && fact.mark == mark).count() as u64;
        let real: Vec<&&Fact> = facts.iter().filter(|fact| !with_marks || fact.mark == CallMark::Real).collect();
        let with = |status| real.iter().filter(|fact| fact.status == status).count() as u64;
        let durations: Vec<u64> = real.iter().filter_map(|fact| fact.duration_us).collect();
        SummaryGroup {
            name: Untrusted::new(name),
            count: real.len() as u64,
            errors: with(Status::Error),
            refused: with(Status::Refused),
            dry_runs: marked(CallMark::DryRun),
            replayed: marked(CallMark::Replayed),
            p50_us: percentile(durations.clone(), 50),
            p95_us: percentile(durations, 95),
        }
    };
    let mut groups: Vec<SummaryGroup> = groups.into_iter().map(group).collect();
    groups.sort_by_key(|group| std::cmp::Reverse(group.count));
    groups
}

/// The summary of all facts in these hours, computed without any table of counts.
pub(crate) fn brute_force(facts: &[Fact], first: i64, last: i64) -> Summary {
    let facts: Vec<&Fact> = facts.iter().filter(|fact| (first..=last).contains(&fact.hour)).collect();
    let by = |name: &dyn Fn(&Fact) -> Option<String>| grouped(&facts, name, true);
    let mut types = BTreeMap::<&str, u64>::new();
    facts.iter().for_each(|fact| *types.entry(fact.kind.as_str()).or_default() += 1);
    let mut by_type: Vec<_> = types.into_iter().map(|(name, count)| (name.to_owned(), count)).collect();
    by_type.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    let calls = facts.iter().filter(|fact| fact.kind == Kind::Call && fact.mark == CallMark::Real);
    let durations: Vec<u64> = calls.filter_map(|fact| fact.duration_us).collect();
    Summary {
        from_ms: first * HOUR_MS,
        to_ms: (last + 1).max(first) * HOUR_MS,
        total: facts.len() as u64,
        by_type,
        by_status: grouped(&facts, &|fact| Some(fact.status().to_owned()), false),
        by_intent: by(&|fact| fact.intent.map(|intent| intent.to_string())),
        by_server: by(&|fact| fact.server.clone()),
        by_tool: by(&|fact| Some(format!("{}:{}", fact.server.as_ref()?, fact.tool.as_ref()?))),
        by_risk: by(&|fact| fact.risk.map(|risk| risk.as_str().to_owned())),
        duration: Durations { p50_us: percentile(durations.clone(), 50), p95_us: percentile(durations, 95) },
    }
}

pub(crate) fn brute_force_hours(facts: &[Fact], first: i64, last: i64) -> Vec<HourlyCount> {
    let mut hours = BTreeMap::<(i64, &str), HourlyCount>::new();
    for fact in facts.iter().filter(|fact| (first..=last).contains(&fact.hour)) {
        let Some(intent) = fact.intent.filter(|_| fact.kind == Kind::Call && fact.mark == CallMark::Real) else {
            continue;
        };
        if fact.status == Status::Started {
            continue;
        }
        let empty = HourlyCount { from_ms: fact.hour * HOUR_MS, intent, calls: 0, failed: 0 };
        let count = hours.entry((fact.hour, intent.operation())).or_insert(empty);
        count.calls += 1;
        count.failed += u64::from(fact.status == Status::Error);
    }
    hours.into_values().collect()
}
