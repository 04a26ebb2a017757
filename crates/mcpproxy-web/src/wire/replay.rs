//! The JSON types of a replay of recorded calls.

use std::collections::BTreeMap;

use mcpproxy_core::ServerName;
use mcpproxy_core::replay::{Change, Group, Report};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use utoipa::openapi::schema::Object;

use crate::time;

/// The files to try, and the period of calls to try them on. Active files count for those that are left out.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ReplayCalls {
    /// The start of the period: an RFC 3339 time, or an age such as `7d`. The default is `7d`.
    pub(crate) since: Option<String>,
    /// The end of the period. The default is now.
    pub(crate) until: Option<String>,
    /// All contract files, instead of those in `contracts/`.
    pub(crate) contracts: Option<Vec<TriedFile>>,
    /// All policy files, instead of those in `policies/`.
    pub(crate) policies: Option<Vec<TriedFile>>,
    /// The text of a settings file, instead of `mcp_config.json`. References such as `${env:NAME}` are not resolved.
    pub(crate) settings: Option<String>,
}

/// A file to try.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct TriedFile {
    /// The name in error messages. A contract file whose name ends in `.json` is JSON, any other YAML.
    pub(crate) name: String,
    pub(crate) text: String,
}

/// The differences that other files would have made to recorded calls.
#[derive(Serialize, ToSchema)]
pub struct Replayed {
    since: Option<String>,
    until: Option<String>,
    #[schema(schema_with = baselines)]
    compared_with: &'static str,
    /// False if the period has more records than one request reads. The oldest ones were read.
    complete: bool,
    /// Calls that were decided again.
    calls: u64,
    decisions: u64,
    /// Calls that end as before.
    unchanged: u64,
    totals: ReplayTotals,
    /// The tools with a difference, as `server:tool`.
    affected_tools: Vec<String>,
    /// Newly refused first. Within a kind, the largest first.
    groups: Vec<ReplayGroup>,
    /// Calls with a difference beyond the listed groups.
    not_listed: u64,
    /// Calls with masked arguments. Their other values were checked.
    masked: u64,
    /// Some of the masked places of each tool, as JSON pointers into the arguments.
    masked_at: BTreeMap<String, Vec<String>>,
    /// Calls whose arguments were truncated or erased. Their arguments were not checked.
    without_arguments: u64,
    not_decided: NotDecided,
}

/// Calls by the kind of difference.
#[derive(Serialize, ToSchema)]
struct ReplayTotals {
    newly_refused: u64,
    newly_asking: u64,
    newly_allowed: u64,
    /// Refused for another reason, or approved without a second factor.
    otherwise: u64,
}

/// Calls of one tool by one agent that would end differently in the same way.
#[derive(Serialize, ToSchema)]
struct ReplayGroup {
    #[schema(schema_with = changes)]
    change: &'static str,
    /// The tool, as `server:tool`.
    tool: String,
    agent: String,
    /// `allow`, `ask`, `step_up`, `dry_run_required`, `not_found`, or `deny` and a code.
    before: String,
    after: String,
    /// The refusal that the agent would get, of the first call.
    message: Option<String>,
    /// The ids of some of the policies that would refuse these calls.
    policies: Vec<String>,
    calls: u64,
    /// Calls with masked or lost arguments. A condition on these values may decide differently.
    masked: u64,
    /// Some of the masked places, as JSON pointers into the arguments. `""` stands for all arguments.
    masked_at: Vec<String>,
    first: String,
    last: String,
    /// The ids of the first records.
    examples: Vec<String>,
}

/// Records that were not decided again.
#[derive(Serialize, ToSchema)]
struct NotDecided {
    /// Repeats of a call, which were answered or refused because of the first one.
    repeats: u64,
    /// Records that do not tell a whole call.
    unreadable: u64,
    /// Calls of tools that no server lists now.
    unknown: u64,
    /// Some of these tools.
    unknown_tools: Vec<String>,
    /// Enabled servers whose tools are not known, because they were never connected.
    unlisted_servers: Vec<String>,
}

/// The period and the baseline, which a report does not know.
#[derive(Clone, Debug)]
pub struct ReplayedWith {
    pub since_ms: Option<i64>,
    pub until_ms: Option<i64>,
    pub is_against_records: bool,
    /// Servers whose tools are not known.
    pub unlisted: Vec<ServerName>,
}

impl From<(Report, ReplayedWith)> for Replayed {
    fn from((report, with): (Report, ReplayedWith)) -> Self {
        let count = |change| report.count(change);
        let totals = ReplayTotals {
            newly_refused: count(Change::NewlyRefused),
            newly_asking: count(Change::NewlyAsking),
            newly_allowed: count(Change::NewlyAllowed),
            otherwise: count(Change::Otherwise),
        };
        let ReplayTotals { newly_refused, newly_asking, newly_allowed, otherwise } = totals;
        let different = newly_refused + newly_asking + newly_allowed + otherwise;
        let mut affected_tools: Vec<String> = report.affected.iter().map(ToString::to_string).collect();
        affected_tools.sort_unstable();
        let masked_at = report.masked_at.into_iter();
        let masked_at = masked_at.map(|(tool, places)| (tool.to_string(), places.into_iter().collect()));
        Self {
            since: with.since_ms.map(time::format),
            until: with.until_ms.map(time::format),
            compared_with: if with.is_against_records { "records" } else { "active_files" },
            complete: !report.is_cut,
            calls: report.calls,
            decisions: report.decisions,
            unchanged: report.calls.saturating_sub(different),
            totals,
            affected_tools,
            groups: report.groups.into_iter().map(ReplayGroup::from).collect(),
            not_listed: report.not_listed,
            masked: report.masked,
            masked_at: masked_at.collect(),
            without_arguments: report.without_arguments,
            not_decided: NotDecided {
                repeats: report.repeats,
                unreadable: report.unreadable,
                unknown: report.unknown,
                unknown_tools: report.unknown_tools.into_iter().collect(),
                unlisted_servers: with.unlisted.iter().map(ToString::to_string).collect(),
            },
        }
    }
}

impl From<Group> for ReplayGroup {
    fn from(group: Group) -> Self {
        Self {
            change: group.change.as_str(),
            tool: group.tool.to_string(),
            agent: group.agent,
            before: group.before.to_string(),
            after: group.after.to_string(),
            message: group.message,
            policies: group.policies.into_iter().collect(),
            calls: group.calls,
            masked: group.masked,
            masked_at: group.masked_at.into_iter().collect(),
            first: time::format(group.first_ms),
            last: time::format(group.last_ms),
            examples: group.examples,
        }
    }
}

fn changes() -> Object {
    super::words("The kind of difference.", Change::ALL.map(Change::as_str))
}

fn baselines() -> Object {
    super::words(
        "`active_files`: each call was decided with the active files and with the tried ones. `records`: without files \
         to try, the active files are compared with the outcome in each record.",
        ["active_files", "records"],
    )
}
