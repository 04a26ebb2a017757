//! `policy replay`: tries other files on recorded calls.

use std::path::PathBuf;
use std::sync::Arc;

use clap::{Args, ValueEnum};
use jiff::Timestamp;
use mcpproxy_core::ServerName;
use mcpproxy_core::contract::Contracts;
use mcpproxy_core::policy::Policies;
use mcpproxy_core::replay::{Change, Group, Report};
use mcpproxy_gateway::{Period, WhatIf, replay};
use mcpproxy_web::replays::{Replayed, ReplayedWith};

use crate::client::state::{held_now, held_words};
use crate::commands::activity;
use crate::exit::{Exit, Failure};
use crate::home::Home;
use crate::known_tools;
use crate::operator_files::{self, CONTRACTS, POLICIES, settings_file};
use crate::terminal::output::{self, Format, counted, line, warn};
use crate::terminal::time::local_time;

/// Tools with masked arguments that the text names, at most. JSON has all.
const MASKED_TOOLS_MAX: usize = 10;
const MASKED: &str = "Conditions on these values may decide differently.";

#[derive(Debug, Args)]
pub(crate) struct Replay {
    /// Start of the period: `2h`, `7d`, `2026-01-31` or `2026-01-31T10:00:00Z`
    #[arg(long, value_name = "TIME", default_value = "7d", value_parser = activity::parse_time)]
    since: Timestamp,
    /// End of the period [default: now]
    #[arg(long, value_name = "TIME", value_parser = activity::parse_time)]
    until: Option<Timestamp>,
    /// Contracts to try instead of contracts/: a folder or a file
    #[arg(long, value_name = "DIR")]
    contracts: Option<PathBuf>,
    /// Policies to try instead of policies/: a folder or a file
    #[arg(long, value_name = "DIR")]
    policies: Option<PathBuf>,
    /// Settings to try instead of mcp_config.json
    #[arg(long, value_name = "FILE")]
    settings: Option<PathBuf>,
    /// Exit with code 1 if a call would change in this way; repeatable
    #[arg(long, value_name = "CHANGE", value_enum)]
    fail_on: Vec<FailOn>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum FailOn {
    /// A call that was allowed or approved would be refused
    #[value(name = "newly-refused")]
    Refused,
    /// A call that ran without a user would need an approval
    #[value(name = "newly-asking")]
    Asking,
    /// A call that was refused or needed an approval would run
    #[value(name = "newly-allowed")]
    Allowed,
}

impl FailOn {
    fn change(self) -> Change {
        match self {
            Self::Refused => Change::NewlyRefused,
            Self::Asking => Change::NewlyAsking,
            Self::Allowed => Change::NewlyAllowed,
        }
    }
}

pub(super) async fn run(home: &Home, format: Format, asked: &Replay) -> anyhow::Result<Exit> {
    let until = asked.until.unwrap_or_else(Timestamp::now);
    if asked.since > until {
        return Err(Failure::new(Exit::Usage, "--since is later than --until, so no call can match").into());
    }
    let active = known_tools::files(home)?;
    let what_if = tried(asked)?;
    let tried = what_if.over(&active);
    let offers = known_tools::offers(&home.tools(), &[&active.settings, &tried.settings]);
    let (baseline, after) = what_if.sides(&active, &offers);
    let (since_ms, until_ms) = (Some(asked.since.as_millisecond()), Some(until.as_millisecond()));
    let period = Period { since_ms, until_ms, records_max: None };
    let Some(store) = activity::open(home).await? else {
        let message = format!("there is no activity log in {}", home.folder().display());
        return Err(Failure::new(Exit::Failed, message).hint("name the data folder of the gateway with --home").into());
    };
    let report = replay(&store, baseline, after, period).await?;
    let is_against_records = what_if.is_empty();
    let unlisted = what_if.unlisted(&active, &offers);
    let exit = exit(asked, &report);
    let mut warnings = warnings(&report, &unlisted, asked);
    let held = held_now(home).await;
    if held > 0 {
        let apply = home.command("mcpproxy", "config apply");
        let compared = "Replay compares with the files in the folder, not with the files in force.";
        warnings.push(format!("{}.\n{compared}\nTo confirm:\n  {apply}", held_words(held)));
    }
    let text = told(&report, asked.since, baseline_words(is_against_records, held));
    let with = ReplayedWith { since_ms, until_ms, is_against_records, unlisted };
    // The text says it too.
    if report.unknown > 0 && format != Format::Table {
        let calls = calls(report.unknown);
        warnings.push(format!("{calls} of tools that no server lists now. Replay did not decide them."));
    }
    format.print(&Replayed::from((report, with)), || text)?;
    for warning in &warnings {
        warn(warning);
    }
    Ok(exit)
}

/// Fails if there is a difference that `--fail-on` names, and if it could not have found any.
fn exit(asked: &Replay, report: &Report) -> Exit {
    let has_difference = asked.fail_on.iter().any(|fail_on| report.count(fail_on.change()) > 0);
    let is_vacuous = !asked.fail_on.is_empty() && is_undecided(report);
    if has_difference || is_vacuous { Exit::Failed } else { Exit::Done }
}

/// Returns true if there were calls and none of them could be decided.
fn is_undecided(report: &Report) -> bool {
    report.calls == 0 && report.unknown + report.unreadable > 0
}

/// Warns about calls that were not decided, so that they do not go unnoticed in a script.
fn warnings(report: &Report, unlisted: &[ServerName], asked: &Replay) -> Vec<String> {
    let mut warnings = Vec::new();
    if !unlisted.is_empty() {
        let names: Vec<String> = unlisted.iter().map(ToString::to_string).collect();
        let names = names.join(", ");
        let advice = "Start the gateway once, so that it lists them.";
        warnings.push(format!("The tools of {names} are not known yet. {advice}"));
    }
    if !asked.fail_on.is_empty() && is_undecided(report) {
        warnings.push("Replay could decide none of the recorded calls, so --fail-on fails.".to_owned());
    }
    warnings
}

/// Reads the files to try.
fn tried(asked: &Replay) -> Result<WhatIf, Failure> {
    let contracts = asked.contracts.as_deref().map(|path| CONTRACTS.read_given(path)).transpose()?;
    let contracts = contracts.map(|texts| Contracts::parse(&texts)).transpose();
    let policies = asked.policies.as_deref().map(|path| POLICIES.read_given(path)).transpose()?;
    let policies = policies.map(|texts| Policies::parse(&texts)).transpose();
    let settings = asked.settings.as_deref().map(|path| match settings_file::read_text(path)? {
        Some((_, text)) => settings_file::check_shape(path, &text),
        None => Err(Failure::new(Exit::BadSettings, format!("{}: no such file", path.display()))),
    });
    Ok(WhatIf {
        settings: settings.transpose()?.map(Arc::new),
        contracts: contracts.map_err(|mistakes| operator_files::bad_given(&mistakes))?.map(Arc::new),
        policies: policies.map_err(|mistakes| operator_files::bad_given(&mistakes))?.map(Arc::new),
    })
}

/// Names what the calls are compared with. While a change waits for a user, not all files of the folder are in
/// force.
fn baseline_words(is_against_records: bool, held: usize) -> &'static str {
    match (is_against_records, held) {
        (true, _) => "the records",
        (false, 0) => "the active files",
        (false, _) => "the files of the folder",
    }
}

fn told(report: &Report, since: Timestamp, baseline: &str) -> String {
    let calls = calls(report.calls);
    let since = local_time(since.as_millisecond());
    let mut text = format!("Decided {calls} since {since} again,\ncompared with {baseline}.\n");
    if report.groups.is_empty() {
        text.push_str("No call would end differently.\n");
    }
    for change in Change::ALL {
        let groups: Vec<&Group> = report.groups.iter().filter(|group| group.change == change).collect();
        if groups.is_empty() {
            continue;
        }
        let title = match change {
            Change::NewlyRefused => "Newly refused",
            Change::NewlyAsking => "Newly asking a user",
            Change::NewlyAllowed => "Newly allowed",
            Change::Otherwise => "Different in another way",
        };
        text.push_str(&format!("\n{title}: {}\n{}", report.count(change), table(&groups)));
    }
    text.push_str(&remarks(report));
    text
}

/// Lists groups. Most changes come from contracts, so there is a column for policies only if one refuses a call.
fn table(groups: &[&Group]) -> String {
    let has_policies = groups.iter().any(|group| !group.policies.is_empty());
    let with_policies = |values: [String; 6], policies: String| {
        let [tool, agent, calls, before, after, example] = values;
        let policies = has_policies.then_some(policies);
        [tool, agent, calls, before, after].into_iter().chain(policies).chain([example]).collect::<Vec<_>>()
    };
    let header = ["TOOL", "AGENT", "CALLS", "BEFORE", "AFTER", "EXAMPLE"].map(str::to_owned);
    let header = with_policies(header, "POLICIES".to_owned());
    let rows = groups.iter().map(|group| {
        let policies: Vec<String> = group.policies.iter().map(|policy| line(policy)).collect();
        let values = [
            group.tool.to_string(),
            line(&group.agent),
            group.calls.to_string(),
            group.before.to_string(),
            group.after.to_string(),
            group.examples.first().cloned().unwrap_or_default(),
        ];
        with_policies(values, policies.join(", "))
    });
    let names: Vec<&str> = header.iter().map(String::as_str).collect();
    output::table(&names, rows)
}

/// Says what the log did not tell.
fn remarks(report: &Report) -> String {
    let mut lines = Vec::new();
    let counts = [
        (report.masked, format!("with masked arguments ({}). {MASKED}", masked(report))),
        (report.without_arguments, "without stored arguments. Their arguments were not checked.".to_owned()),
        (report.not_listed, "with a difference that are in no group above, because there are too many.".to_owned()),
        (report.repeats, "answered or refused because of an earlier call. Not decided again.".to_owned()),
        (report.unreadable, "whose record does not tell the whole call. Not decided again.".to_owned()),
        (report.unknown, format!("of tools that no server lists now. Not decided again: {}", unknown(report))),
    ];
    for (count, words) in counts {
        if count > 0 {
            lines.push(format!("{} {words}\n", calls(count)));
        }
    }
    if lines.is_empty() { String::new() } else { format!("\n{}", lines.concat()) }
}

/// Names the masked places of each tool.
fn masked(report: &Report) -> String {
    let tools = report.masked_at.iter().take(MASKED_TOOLS_MAX).map(|(tool, places)| {
        let places: Vec<String> = places.iter().map(|place| line(place)).collect();
        format!("{tool} at {}", places.join(", "))
    });
    let more = report.masked_at.len().saturating_sub(MASKED_TOOLS_MAX);
    let more = (more > 0).then(|| format!("and {more} more"));
    tools.chain(more).collect::<Vec<_>>().join("; ")
}

fn calls(count: u64) -> String {
    counted(usize::try_from(count).unwrap_or(usize::MAX), "call")
}

fn unknown(report: &Report) -> String {
    report.unknown_tools.iter().map(|name| line(name)).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use mcpproxy_core::ToolName;
    use mcpproxy_core::decision::Ruling;

    use super::*;

    fn asked(fail_on: &[FailOn]) -> Replay {
        let since = Timestamp::UNIX_EPOCH;
        Replay { since, until: None, contracts: None, policies: None, settings: None, fail_on: fail_on.to_vec() }
    }

    #[test]
    fn a_gate_does_not_pass_without_decisions() {
        let check = |report: &Report, fail_on: &[FailOn], code: Exit, count: usize| {
            let asked = asked(fail_on);
            let found = (exit(&asked, report), warnings(report, &[], &asked).len());
            assert_eq!(found, (code, count), "{report:?}");
        };
        let gate = [FailOn::Refused];
        let unknown = Report { unknown: 3, ..Report::default() };
        check(&Report::default(), &gate, Exit::Done, 0);
        check(&unknown, &[], Exit::Done, 0);
        check(&unknown, &gate, Exit::Failed, 1);
        check(&Report { calls: 1, ..unknown.clone() }, &gate, Exit::Done, 0);
        check(&Report { calls: 1, totals: [(Change::NewlyRefused, 1)].into(), ..unknown }, &gate, Exit::Failed, 0);
    }

    #[test]
    fn the_header_fits() {
        let report = Report { calls: 1_234_567, ..Report::default() };
        for (is_against_records, held) in [(true, 0), (false, 0), (false, 1)] {
            let text = told(&report, Timestamp::UNIX_EPOCH, baseline_words(is_against_records, held));
            assert!(text.lines().all(|line| line.chars().count() <= 60), "{text}");
        }
    }

    #[test]
    fn policies_that_refuse_have_a_column() {
        let group = |policies: &[&str]| Group {
            change: Change::NewlyRefused,
            tool: ToolName::parse("fx:pay").unwrap(),
            agent: "ci".to_owned(),
            before: Ruling::Allow,
            after: Ruling::NotFound,
            message: None,
            policies: policies.iter().map(|id| (*id).to_owned()).collect(),
            calls: 2,
            masked: 0,
            masked_at: BTreeSet::new(),
            first_ms: 0,
            last_ms: 0,
            examples: vec!["R0".to_owned()],
        };
        let (with, without) = (group(&["night", "sums\u{1b}"]), group(&[]));
        assert_eq!(
            table(&[&with, &without]),
            "TOOL    AGENT  CALLS  BEFORE  AFTER      POLICIES           EXAMPLE\n\
             fx:pay  ci     2      allow   not_found  night, sums\\u{1b}  R0\n\
             fx:pay  ci     2      allow   not_found                     R0\n"
        );
        assert!(!table(&[&without]).contains("POLICIES"));
    }

    #[test]
    fn masked_places_are_named_by_tool() {
        let tools = (10..22).map(|n| ToolName::parse(&format!("fx:t{n}")).unwrap());
        let masked_at = tools.map(|tool| (tool, BTreeSet::from(["/a".to_owned(), "/b/0".to_owned()]))).collect();
        let report = Report { masked: 1, masked_at, ..Report::default() };
        let text = remarks(&report);
        assert!(text.starts_with("\n1 call with masked arguments (fx:t10 at /a, /b/0; fx:t11 at "), "{text}");
        assert!(text.ends_with("; and 2 more). Conditions on these values may decide differently.\n"), "{text}");
    }
}
