//! Scans the definitions of servers for attacks on the model: poisoned tools, prompts and resource templates.
//!
//! A server describes its own tools, and the model believes what it reads. So a description can carry instructions,
//! hide them from the user, or claim to be harmless. The scanner has two layers:
//!
//! - **Characters, names and annotations** are certain. No honest tool has tag characters in its description, or a
//!   Cyrillic letter in an English name. These findings are of high severity.
//! - **Wording** is likely. [`words`](self) finds words of concepts ("to send", "the user") in one pass over the folded
//!   text. Rules combine concepts that stand close to each other. The weights of all rules in three consecutive
//!   sentences add up. So "you must" stays quiet, and "you must read ~/.ssh" does not.
//!
//! All rules are tables: words in `english.rs` and `languages.rs`, rules in `rules.rs`, `parameters.rs`, `hints.rs` and
//! `names.rs`. To find a new wording, add words to a concept. To find a new kind of attack, add a rule.
//! `cargo run --release -p xtask -- scan-eval FOLDER` measures what a change costs.
//!
//! An attack that reads like documentation is not found. Contracts and approvals are the defence against those.

mod characters;
mod concept;
mod encoded;
mod english;
mod fold;
mod hints;
mod languages;
mod names;
mod neighbours;
mod padding;
mod parameters;
mod quote;
mod rules;
mod text;
mod walk;
mod wording;
mod words;

use std::collections::HashSet;

use serde_json::Value;

pub use neighbours::Neighbours;
use text::Scanner;

/// How likely a finding is an attack. High quarantines, medium is shown at review, low is a note.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Severity {
    Low,
    Medium,
    High,
}

impl Severity {
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Low => "low",
            Self::Medium => "medium",
            Self::High => "high",
        }
    }
}

/// A sign of an attack in a definition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    pub rule: &'static str,
    pub severity: Severity,
    /// The place in the definition, such as `inputSchema/properties/path/description`.
    pub place: String,
    /// One sentence that quotes the words. Invisible characters are written out.
    pub reason: String,
}

/// Findings of one definition.
const FINDINGS_MAX: usize = 20;

/// Scans a tool, prompt or resource template, as the server's own JSON. The most severe findings come first.
#[must_use]
pub fn scan(json: &str, neighbours: &Neighbours) -> Vec<Finding> {
    let Ok(definition) = serde_json::from_str::<Value>(json) else {
        let reason = "The definition cannot be read as JSON, so nothing in it was checked.".to_owned();
        return vec![Finding { rule: "unreadable", severity: Severity::High, place: String::new(), reason }];
    };
    let own = walk::own_names(&definition);
    let mut scanner = Scanner::new(&own, neighbours);
    hints::scan(&definition, &mut scanner.findings);
    if let Some(name) = definition.get("name").and_then(Value::as_str) {
        names::scan(name, neighbours, &mut scanner.findings);
    }
    walk::undocumented(&definition, &mut scanner.findings);
    walk::walk(&definition, &mut scanner);
    bounded(scanner.findings)
}

/// Scans a text, such as the `instructions` of a server.
#[must_use]
pub fn scan_text(text: &str, place: &str, neighbours: &Neighbours) -> Vec<Finding> {
    let own = HashSet::new();
    let mut scanner = Scanner::new(&own, neighbours);
    scanner.prose(text, place);
    bounded(scanner.findings)
}

fn bounded(mut findings: Vec<Finding>) -> Vec<Finding> {
    findings.sort_by(|a, b| b.severity.cmp(&a.severity));
    findings.truncate(FINDINGS_MAX);
    findings
}

#[cfg(feature = "pairs")]
pub fn pairs_of(json: &str) -> std::collections::BTreeSet<String> {
    fn strings(v: &Value, out: &mut Vec<String>) { match v { Value::String(s) => out.push(s.clone()), Value::Array(a) => a.iter().for_each(|v| strings(v,out)), Value::Object(o) => o.values().for_each(|v| strings(v,out)), _ => {} } }
    let mut s = Vec::new(); strings(&serde_json::from_str(json).unwrap(), &mut s);
    s.iter().flat_map(|s| wording::pairs(s)).map(|(a,b)| format!("{a:?}>{b:?}")).collect()
}
