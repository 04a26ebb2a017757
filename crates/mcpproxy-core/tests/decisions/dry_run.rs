//! Tests the decisions on dry runs and repeats: against a second implementation, and by their invariants.

use std::collections::HashMap;
use std::sync::LazyLock;

use super::generator::{self, Section};

const LEVELS: [&str; 6] = ["-", "low", "medium", "high", "critical", "forbidden"];

static SECTION: LazyLock<Section> = LazyLock::new(generator::dry_run::section);

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Row {
    by: &'static str,
    dry_run: &'static str,
    parameter: &'static str,
    risk: &'static str,
    confirmation: &'static str,
    grants: &'static str,
    mode: &'static str,
    seen: &'static str,
}

/// Each case with its outcome.
static ROWS: LazyLock<Vec<(Row, &'static str)>> = LazyLock::new(|| {
    let columns = ["by", "dryRun", "parameter", "risk", "confirmation", "grants", "mode", "seen", "outcome"];
    assert_eq!(SECTION.columns, columns);
    let row = |cells: &'static Vec<String>| {
        let row = Row {
            by: &cells[0],
            dry_run: &cells[1],
            parameter: &cells[2],
            risk: &cells[3],
            confirmation: &cells[4],
            grants: &cells[5],
            mode: &cells[6],
            seen: &cells[7],
        };
        (row, cells[8].as_str())
    };
    SECTION.rows.iter().map(row).collect()
});

impl Row {
    fn level(&self) -> usize {
        LEVELS.iter().position(|level| *level == self.risk).unwrap()
    }

    /// Returns the steps that a user must take, in the words of the table.
    fn asks(&self) -> Option<&'static str> {
        match self.risk {
            "critical" => Some("confirmation + step_up"),
            "high" => Some("confirmation"),
            _ if self.confirmation == "required" => Some("confirmation"),
            _ => None,
        }
    }

    /// Returns true if the dry run is sent. A server's contract is not enough if the operator requires approval.
    fn is_native(&self) -> bool {
        self.parameter != "-" && (self.by == "operator" || self.asks().is_none())
    }

    fn is_dry_run(&self) -> bool {
        self.mode == "dry_run" || self.mode == "argument" && self.is_native()
    }

    fn reading(&self) -> String {
        if self.risk == "forbidden" {
            return "deny tool_not_found".to_owned();
        }
        let lacks = self.grants == "-";
        if self.is_dry_run() {
            if self.is_native() && !lacks {
                return "allow dry run unverified".to_owned();
            }
            let needs = self.asks().map(|asks| format!(", needs {asks}")).unwrap_or_default();
            return format!("preview{needs}{}", if lacks { ", lacks mail:send" } else { "" });
        }
        let is_fresh = ["now", "10 min ago"].contains(&self.seen);
        match self.asks() {
            _ if lacks => "deny permission_denied, lacks mail:send".to_owned(),
            _ if self.seen == "repeat" => "repeat".to_owned(),
            _ if self.dry_run == "required" && !is_fresh => "deny dry_run_required".to_owned(),
            Some(asks) => format!("ask {asks}"),
            None => "allow unverified".to_owned(),
        }
    }
}

#[test]
fn both_readings_agree_on_dry_runs() {
    assert_eq!(ROWS.len(), (5 + 4) * 6 * 2 * 2 * 3 * 6);
    for (row, outcome) in ROWS.iter() {
        assert_eq!(*outcome, row.reading(), "{row:?}");
    }
}

fn known() -> HashMap<&'static Row, &'static str> {
    ROWS.iter().map(|(row, outcome)| (row, *outcome)).collect()
}

/// Ranks outcomes by the obstacles between an agent and the effect of a real call.
fn weight(outcome: &str) -> usize {
    match outcome {
        outcome if outcome.starts_with("allow") => 0,
        "ask confirmation" => 1,
        "ask confirmation + step_up" => 2,
        outcome => {
            assert!(outcome.starts_with("deny") || outcome == "repeat", "{outcome}");
            3
        }
    }
}

/// Counts the requirements that an outcome names.
fn requirements(outcome: &str) -> usize {
    ["confirmation", "step_up", "dry_run_required", "permission_denied", "lacks", "tool_not_found"]
        .iter()
        .filter(|word| outcome.contains(*word))
        .count()
}

#[test]
fn a_higher_level_never_requires_less() {
    let known = known();
    let mut count = 0;
    for (row, outcome) in ROWS.iter() {
        for higher in &LEVELS[row.level() + 1..] {
            let after = known[&Row { risk: higher, ..row.clone() }];
            if row.is_dry_run() {
                assert!(
                    *higher == "forbidden"
                        || requirements(after) >= requirements(outcome)
                        || after.starts_with("allow dry run"),
                    "{row:?} -> {higher}: {after}"
                );
            } else {
                assert!(weight(after) >= weight(outcome), "{row:?} -> {higher}: {after}");
            }
            count += 1;
        }
    }
    assert!(count > 5_000, "{count}");
}

#[test]
fn stricter_fields_never_require_less() {
    let known = known();
    for (row, outcome) in ROWS.iter().filter(|(row, _)| !row.is_dry_run()) {
        let asked = known[&Row { confirmation: "required", ..row.clone() }];
        assert!(weight(asked) >= weight(outcome), "{row:?}: {asked}");
        let narrower = known[&Row { grants: "-", ..row.clone() }];
        assert!(weight(narrower) >= weight(outcome), "{row:?}: {narrower}");
        if row.dry_run == "supported" {
            let required = known[&Row { dry_run: "required", ..row.clone() }];
            assert!(weight(required) >= weight(outcome), "{row:?}: {required}");
        }
    }
}

/// A server's contract alone never lets a dry run bypass an approval that the operator requires.
#[test]
fn a_servers_contract_cannot_bypass_the_operator() {
    for (row, outcome) in ROWS.iter().filter(|(row, _)| row.by == "server" && row.asks().is_some()) {
        assert!(!outcome.starts_with("allow"), "{row:?}: {outcome}");
    }
}
