//! The calls of agents: over time, by reason of refusal, by duration and by failures.

use mcpproxy_core::ErrorCode;
use mcpproxy_store::{HourlyCount, RefusalCount, RefusalCounts, Summary, SummaryGroup};

use super::chart::{Chart, Period};
use crate::ui::pages::amount::{CALLS_COUNTED, duration, encoded, grouped, one_line};
use crate::visible::Visible;

/// Rows of each list.
const ROWS_MAX: usize = 5;
const REASONS_MAX: usize = 8;
const CODE_CHARS: usize = 60;

#[derive(Debug)]
pub(crate) struct Traffic {
    pub(crate) chart: Chart,
    pub(crate) period: &'static str,
    pub(crate) figures: Vec<Figure>,
    /// Says what counts as a call.
    pub(crate) counted: &'static str,
    pub(crate) refusals: Vec<RefusalRow>,
    /// Says that older refusals were not counted.
    pub(crate) refusals_note: Option<String>,
    pub(crate) slow: Vec<ToolRow>,
    pub(crate) failing: Vec<ToolRow>,
}

#[derive(Debug)]
pub(crate) struct Figure {
    pub(crate) name: &'static str,
    pub(crate) value: String,
}

#[derive(Debug)]
pub(crate) struct RefusalRow {
    pub(crate) words: Visible,
    pub(crate) code: Visible,
    pub(crate) count: String,
    pub(crate) href: String,
}

#[derive(Debug)]
pub(crate) struct ToolRow {
    pub(crate) name: Visible,
    pub(crate) href: String,
    pub(crate) activity: String,
    pub(crate) calls: String,
    pub(crate) value: String,
}

impl Traffic {
    pub(crate) fn new(
        hours: &[HourlyCount],
        summary: &Summary,
        refusals: &RefusalCounts,
        period: Period,
        now_ms: i64,
    ) -> Self {
        let failed: u64 = hours.iter().map(|hour| hour.failed).sum();
        let calls: u64 = hours.iter().map(|hour| hour.calls).sum();
        // A call that waits for an approval is recorded as refused, but nobody refused it.
        let is_asked = |reason: &&RefusalCount| reason.code.for_json() == ErrorCode::ConfirmationRequired.as_str();
        let asked: u64 = refusals.reasons.iter().filter(is_asked).map(|reason| reason.count).sum();
        let more = if refusals.is_cut { "+" } else { "" };
        let read = refusals.read - u64::from(refusals.is_cut);
        let refused = format!("{}{more}", grouped(read.saturating_sub(asked)));
        let slow = duration_or_dash(summary.duration.p95_us);
        Self {
            chart: Chart::new(hours, period, now_ms),
            period: period.words(),
            figures: vec![
                Figure { name: "Calls", value: grouped(calls) },
                Figure { name: "Failed", value: grouped(failed) },
                Figure { name: "Refused", value: refused },
                Figure { name: "Returned for approval", value: format!("{}{more}", grouped(asked)) },
                Figure { name: "95 % are faster than", value: slow },
            ],
            counted: CALLS_COUNTED,
            refusals: refusals
                .reasons
                .iter()
                .filter(|reason| !is_asked(reason))
                .take(REASONS_MAX)
                .map(RefusalRow::new)
                .collect(),
            refusals_note: refusals
                .is_cut
                .then(|| format!("Counts the newest {} refusals.", grouped(refusals.read - 1))),
            slow: slowest(&summary.by_tool),
            failing: failing(&summary.by_tool),
        }
    }
}

fn duration_or_dash(us: Option<u64>) -> String {
    us.map_or_else(|| "–".to_owned(), duration)
}

impl RefusalRow {
    fn new(reason: &RefusalCount) -> Self {
        let code = reason.code.for_json();
        let words = match code {
            "" => "Without a code",
            // The agent is told that there is no such tool. Only the log knows the reason.
            "forbidden_attempt" => "A contract forbids the tool.",
            code => ErrorCode::parse(code).map_or("Another reason", ErrorCode::meaning),
        };
        Self {
            words: Visible::of(&words.replace('`', "")),
            code: Visible::of(&one_line(code, CODE_CHARS)),
            count: grouped(reason.count),
            href: format!("/ui/activity?type=refusal&q={}", encoded(code)),
        }
    }
}

fn slowest(tools: &[SummaryGroup]) -> Vec<ToolRow> {
    let mut tools: Vec<(&SummaryGroup, u64)> = tools.iter().filter_map(|tool| Some((tool, tool.p95_us?))).collect();
    tools.sort_by_key(|(_, p95)| std::cmp::Reverse(*p95));
    tools.into_iter().take(ROWS_MAX).map(|(tool, p95)| ToolRow::new(tool, duration(p95), "")).collect()
}

fn failing(tools: &[SummaryGroup]) -> Vec<ToolRow> {
    let mut tools: Vec<&SummaryGroup> = tools.iter().filter(|tool| tool.errors > 0).collect();
    tools.sort_by_key(|tool| std::cmp::Reverse(tool.errors));
    let row = |tool: &SummaryGroup| ToolRow::new(tool, grouped(tool.errors), "&status=error");
    tools.into_iter().take(ROWS_MAX).map(row).collect()
}

impl ToolRow {
    fn new(tool: &SummaryGroup, value: String, and: &str) -> Self {
        let name = tool.name.for_json();
        let (server, own) = name.split_once(':').unwrap_or(("", name));
        Self {
            name: Visible::of(name),
            href: format!("/ui/tools/{}/{}", encoded(server), encoded(own)),
            activity: format!("/ui/activity?server={}&tool={}{and}", encoded(server), encoded(own)),
            calls: grouped(tool.count),
            value,
        }
    }
}
