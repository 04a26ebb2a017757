//! The JSON types of the activity summary.

use mcpproxy_store as store;
use serde::Serialize;
use utoipa::ToSchema;

use super::milliseconds;
use crate::time;

/// Counts and durations of records, in whole hours.
#[derive(Serialize, ToSchema)]
pub struct Summary {
    #[schema(format = DateTime)]
    from: String,
    /// The end, exclusive.
    #[schema(format = DateTime)]
    to: String,
    total: u64,
    duration: Durations,
    by_type: Vec<TypeCount>,
    by_status: Vec<Count>,
    by_intent: Vec<Count>,
    by_risk: Vec<Count>,
    by_server: Vec<Count>,
    /// Keyed by `server:tool`.
    by_tool: Vec<Count>,
}

/// The median and the 95th percentile of call durations.
#[derive(Serialize, ToSchema)]
struct Durations {
    p50_ms: Option<f64>,
    p95_ms: Option<f64>,
}

#[derive(Serialize, ToSchema)]
struct TypeCount {
    name: String,
    count: u64,
}

#[derive(Serialize, ToSchema)]
struct Count {
    name: String,
    /// Without dry runs and replayed answers. `by_status` has them as `dry_run` and `replayed`.
    count: u64,
    errors: u64,
    refused: u64,
    dry_runs: u64,
    replayed: u64,
    p50_ms: Option<f64>,
    p95_ms: Option<f64>,
}

impl From<store::Summary> for Summary {
    fn from(summary: store::Summary) -> Self {
        let counts = |counts: Vec<store::SummaryGroup>| counts.into_iter().map(Into::into).collect();
        Self {
            from: time::format(summary.from_ms),
            to: time::format(summary.to_ms),
            total: summary.total,
            duration: Durations {
                p50_ms: summary.duration.p50_us.map(milliseconds),
                p95_ms: summary.duration.p95_us.map(milliseconds),
            },
            by_type: summary.by_type.into_iter().map(|(name, count)| TypeCount { name, count }).collect(),
            by_status: counts(summary.by_status),
            by_intent: counts(summary.by_intent),
            by_risk: counts(summary.by_risk),
            by_server: counts(summary.by_server),
            by_tool: counts(summary.by_tool),
        }
    }
}

impl From<store::SummaryGroup> for Count {
    fn from(count: store::SummaryGroup) -> Self {
        Self {
            name: count.name.for_json().to_owned(),
            count: count.count,
            errors: count.errors,
            refused: count.refused,
            dry_runs: count.dry_runs,
            replayed: count.replayed,
            p50_ms: count.p50_us.map(milliseconds),
            p95_ms: count.p95_us.map(milliseconds),
        }
    }
}
