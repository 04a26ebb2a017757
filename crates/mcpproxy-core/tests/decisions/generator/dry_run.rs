//! Table rows for dry runs, for calls that need one first, and for repeated calls.

use mcpproxy_core::contract::{Confirmation, Contract, DryRun};
use mcpproxy_core::{DRY_RUN_FRESH_MS, PriorState, RiskLevel, Scope};

use super::Section;
use super::stage::{Author, NOW_MS, Stage, written};

const COLUMNS: &[&str] = &["by", "dryRun", "parameter", "risk", "confirmation", "grants", "mode", "seen", "outcome"];

/// The ways to ask for a dry run, with the parameters of each.
const MODES: [(&str, &str); 3] =
    [("real", ""), ("dry_run", ",\"dry_run\":true"), ("argument", ",\"args\":{\"dry\":true}")];

/// The prior states of a call: the time of its last dry run, and whether it is a repeat.
const SEEN: [(&str, Option<i64>, bool); 6] = [
    ("-", None, false),
    ("now", Some(NOW_MS), false),
    ("10 min ago", Some(NOW_MS - DRY_RUN_FRESH_MS), false),
    ("over 10 min ago", Some(NOW_MS - DRY_RUN_FRESH_MS - 1), false),
    ("ahead", Some(NOW_MS + 1), false),
    ("repeat", None, true),
];

pub(crate) fn section() -> Section {
    let mut rows = Vec::new();
    for author in Author::ALL {
        // Without `dryRun`, the author makes no difference.
        for dry_run in dry_runs().into_iter().filter(|dry_run| dry_run.is_some() || author == Author::Operator) {
            for risk in [None].into_iter().chain(RiskLevel::ALL.map(Some)) {
                for confirmation in [None, Some(Confirmation::Required)] {
                    for grants in ["*", "-"] {
                        rows.extend(below((author, dry_run.clone(), risk, confirmation.clone(), grants)));
                    }
                }
            }
        }
    }
    let title = "dry runs and repeats of a write call; one author sets `dryRun`, the operator everything else";
    Section { name: "dry_run", title, columns: COLUMNS, rows }
}

type Case = (Author, Option<DryRun>, Option<RiskLevel>, Option<Confirmation>, &'static str);

fn below((author, dry_run, risk, confirmation, grants): Case) -> Vec<Vec<String>> {
    let operators = Contract {
        risk: risk.and_then(written),
        confirmation: confirmation.clone().and_then(written),
        permissions: written(vec!["mail:send".to_owned()]),
        ..Contract::default()
    };
    let (word, parameter) = match &dry_run {
        None | Some(DryRun::None) => ("-", None),
        Some(DryRun::Supported { parameter }) => ("supported", parameter.as_deref()),
        Some(DryRun::Required { parameter }) => ("required", parameter.as_deref()),
    };
    let dry_run = dry_run.clone().and_then(written);
    let (operator, server) = match author {
        Author::Operator => (Contract { dry_run, ..operators }, None),
        Author::Server => (operators, Some(Contract { dry_run, ..Contract::default() })),
    };
    let scope = Scope {
        grants: Some(grants).filter(|grants| *grants != "-").map(str::to_owned).into_iter().collect(),
        ..Scope::everything()
    };
    let mut rows = Vec::new();
    for (mode_word, parameters) in MODES {
        for (seen_word, dry_run_ms, is_repeat) in SEEN {
            let key = if is_repeat { ",\"idempotency_key\":\"k\"" } else { "" };
            let stage = Stage {
                parameters: format!("{parameters}{key}"),
                operator: Some(operator.clone()),
                server: server.clone(),
                scope: scope.clone(),
                prior: PriorState { dry_run_ms, is_repeat },
                ..Stage::default()
            };
            let risk = risk.map_or("-", RiskLevel::as_str);
            let confirmation = if confirmation.is_some() { "required" } else { "-" };
            let outcome = stage.outcome();
            let by = if word == "-" { "-" } else { author.word() };
            let parameter = parameter.unwrap_or("-");
            let cells = [by, word, parameter, risk, confirmation, grants, mode_word, seen_word, &outcome];
            rows.push(cells.map(str::to_owned).to_vec());
        }
    }
    rows
}

fn dry_runs() -> Vec<Option<DryRun>> {
    let parameters = [None, Some("dry".to_owned())];
    let supported = parameters.clone().map(|parameter| Some(DryRun::Supported { parameter }));
    let required = parameters.map(|parameter| Some(DryRun::Required { parameter }));
    [None].into_iter().chain(supported).chain(required).collect()
}
