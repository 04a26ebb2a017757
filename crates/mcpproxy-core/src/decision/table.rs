//! All decisions on intent, annotations and contracts, as one text. A change of the decision logic shows up as a diff.

mod contract;
mod dry_run;
mod permissions;
mod stage;
mod user;

use std::fmt::Write as _;

use self::stage::Stage;
use crate::Hints;
use crate::Variant;
use crate::settings::{IntentSettings, TwoKey, Unannotated};

/// The decisions on one subject. The last column is the outcome.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Section {
    pub name: &'static str,
    pub title: &'static str,
    pub columns: &'static [&'static str],
    /// Each row has as many cells as there are columns. `-` means that nothing is given.
    pub rows: Vec<Vec<String>>,
}

/// Returns all sections, in the order of the text.
pub fn sections() -> Vec<Section> {
    vec![intent_section(), contract::section(), user::section(), dry_run::section(), permissions::section()]
}

/// Returns the sections as text, one row per line.
pub fn table() -> String {
    let mut text = String::new();
    for section in sections() {
        if !text.is_empty() {
            let _infallible = write!(text, "\n# {}: {}\n", section.name, section.title);
        }
        section.write(&mut text);
    }
    text
}

impl Section {
    fn write(&self, text: &mut String) {
        let names: Vec<String> = self.columns.iter().map(|&name| name.to_owned()).collect();
        let mut widths: Vec<usize> = names.iter().map(String::len).collect();
        for row in &self.rows {
            for (width, cell) in widths.iter_mut().zip(row) {
                *width = (*width).max(cell.len());
            }
        }
        for row in std::iter::once(&names).chain(&self.rows) {
            let mut line = String::new();
            for (cell, &width) in row.iter().zip(&widths) {
                let _infallible = write!(line, "{cell:<width$}  ");
            }
            text.push_str(line.trim_end());
            text.push('\n');
        }
    }
}

/// One case and its outcome.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Row {
    pub variant: Variant,
    /// The value of `intent.operation_type`. `None` if there is no intent.
    pub declared: Option<&'static str>,
    pub read_only: Option<bool>,
    pub destructive: Option<bool>,
    pub settings: IntentSettings,
    /// `allow`, `allow with a warning` or `deny`, with the code that the agent gets.
    pub outcome: String,
}

/// A word that is not an operation type.
const INVALID: &str = "delete";
const DECLARED: [Option<&str>; 5] = [None, Some("read"), Some("write"), Some("destructive"), Some(INVALID)];
const HINT: [Option<bool>; 3] = [None, Some(true), Some(false)];

/// Returns all cases in a fixed order, decided by the functions that decide on real calls.
pub fn rows() -> Vec<Row> {
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
fn intent_section() -> Section {
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
    let title = "what agents declare and servers annotate, without contracts";
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
