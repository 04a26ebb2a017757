//! Enumerates all combinations of a subject and asks the decision about each.

pub(crate) mod contract;
pub(crate) mod dry_run;
pub(crate) mod permissions;
mod stage;
pub(crate) mod user;

use mcpproxy_core::settings::{IntentSettings, TwoKey, Unannotated};
use mcpproxy_core::{Hints, Variant};

use self::stage::Stage;

/// All decisions on one subject. The last column is the outcome.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Section {
    pub(crate) name: &'static str,
    pub(crate) title: &'static str,
    pub(crate) columns: &'static [&'static str],
    /// Each row has as many cells as there are columns. `-` means that nothing is given.
    pub(crate) rows: Vec<Vec<String>>,
}

/// Returns all sections, in the order of the table.
pub(crate) fn sections() -> Vec<Section> {
    vec![intent_section(), contract::section(), user::section(), dry_run::section(), permissions::section()]
}

/// One case and its outcome.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Row {
    pub(crate) variant: Variant,
    /// The value of `intent.operation_type`. `None` if there is no intent.
    pub(crate) declared: Option<&'static str>,
    pub(crate) read_only: Option<bool>,
    pub(crate) destructive: Option<bool>,
    pub(crate) settings: IntentSettings,
    /// `allow`, `allow with a warning` or `deny`, with the code that the agent gets.
    pub(crate) outcome: String,
}

/// A word that is not an operation type.
const INVALID: &str = "delete";
const DECLARED: [Option<&str>; 5] = [None, Some("read"), Some("write"), Some("destructive"), Some(INVALID)];
const HINT: [Option<bool>; 3] = [None, Some(true), Some(false)];

/// Returns all cases in a fixed order, decided by the functions that decide on real calls.
pub(crate) fn rows() -> Vec<Row> {
    let mut rows = Vec::new();
    for variant in Variant::ALL {
        for declared in DECLARED {
            for read_only in HINT {
                for destructive in HINT {
                    for settings in all_settings() {
                        let outcome = outcome(variant, declared, (read_only, destructive), &settings);
                        rows.push(Row { variant, declared, read_only, destructive, settings, outcome });
                    }
                }
            }
        }
    }
    rows
}

/// Returns the rows on intent and annotations as a section.
pub(crate) fn intent_section() -> Section {
    let cells = |row: Row| {
        vec![
            row.variant.operation().to_owned(),
            row.declared.unwrap_or("-").to_owned(),
            hint_word(row.read_only).to_owned(),
            hint_word(row.destructive).to_owned(),
            row.settings.strict_server_validation.to_string(),
            row.settings.two_key.as_str().to_owned(),
            row.settings.unannotated.as_str().to_owned(),
            row.outcome,
        ]
    };
    let columns = &["variant", "declared", "readOnly", "destructive", "strict", "two_key", "unannotated", "outcome"];
    let title = "declarations of agents and annotations of servers, without contracts";
    Section { name: "intent", title, columns, rows: rows().into_iter().map(cells).collect() }
}

fn hint_word(hint: Option<bool>) -> &'static str {
    match hint {
        None => "-",
        Some(true) => "true",
        Some(false) => "false",
    }
}

fn all_settings() -> Vec<IntentSettings> {
    let mut all = Vec::new();
    for strict_server_validation in [true, false] {
        for two_key in [TwoKey::Optional, TwoKey::Required] {
            for unannotated in [Unannotated::Trust, Unannotated::Warn, Unannotated::RequireWrite] {
                all.push(IntentSettings { strict_server_validation, two_key, unannotated });
            }
        }
    }
    all
}

fn outcome(
    variant: Variant,
    declared: Option<&str>,
    (read_only, destructive): (Option<bool>, Option<bool>),
    settings: &IntentSettings,
) -> String {
    let parameters = declared.map_or(String::new(), |word| format!(",\"intent\":{{\"operation_type\":\"{word}\"}}"));
    let hints = Hints { read_only, destructive };
    Stage { variant, parameters, hints, intent: settings.clone(), ..Stage::default() }.outcome()
}
