//! The form for a contract.

use askama::Template;
use mcpproxy_core::Tool;
use mcpproxy_core::contract::Effective;

use super::Choice;
use super::one::value_text;
use super::typed::{CALLS, DRY_RUNS, KEEP, Kind, PARAMETER, PER, SPECS, Spec, Typed};
use crate::editor::WrittenContract;
use crate::ui::pages::Frame;
use crate::visible::Visible;

const NOT_SET: &str = "Not set";
const NOW_MAX_CHARS: usize = 160;

#[derive(Template)]
#[template(path = "tool_contract.html")]
pub(crate) struct ContractForm {
    pub(crate) frame: Frame,
    pub(crate) name: String,
    pub(crate) path: String,
    pub(crate) place: Visible,
    pub(crate) is_new: bool,
    pub(crate) sections: Vec<Section>,
    pub(crate) error: Option<String>,
    /// A text to paste, if the file cannot be edited here.
    pub(crate) paste: Option<(Visible, Visible)>,
}

/// Inputs below one heading.
pub(crate) struct Section {
    pub(crate) title: &'static str,
    pub(crate) fields: Vec<FieldInput>,
}

/// The first field of each section, with the heading.
const SECTIONS: [(&str, &str); 3] = [
    ("riskLevel", "Risk, and what a call needs"),
    ("idempotency", "Repeats, limits and data"),
    ("sideEffects", "Words for approvers and for the log"),
];

/// One input.
pub(crate) struct FieldInput {
    pub(crate) id: &'static str,
    pub(crate) label: &'static str,
    pub(crate) hint: &'static str,
    /// The value in force, with its source.
    pub(crate) now: Option<Visible>,
    /// Empty for a text.
    pub(crate) choices: Vec<Choice>,
    pub(crate) value: String,
    /// 1 for a line.
    pub(crate) rows: usize,
}

impl ContractForm {
    pub(crate) fn new(
        frame: Frame,
        tool: &Tool,
        written: &WrittenContract,
        typed: &Typed,
        error: Option<String>,
    ) -> Self {
        let place = match written.line {
            Some(line) => format!("{}:{line}", written.file),
            None => written.file.clone(),
        };
        Self {
            frame,
            name: tool.name.to_string(),
            path: format!("/ui/tools/{}/{}", tool.name.server(), tool.name.tool()),
            place: Visible::of(&place),
            is_new: written.line.is_none(),
            sections: sections(typed, &tool.contract),
            error,
            paste: None,
        }
    }
}

fn sections(typed: &Typed, contract: &Effective) -> Vec<Section> {
    let mut sections: Vec<Section> = Vec::new();
    for spec in &SPECS {
        if let Some((_, title)) = SECTIONS.iter().find(|(first, _)| *first == spec.key) {
            sections.push(Section { title, fields: Vec::new() });
        }
        if let Some(section) = sections.last_mut() {
            section.fields.extend(inputs(spec, typed, contract));
        }
    }
    sections
}

fn inputs(spec: &Spec, typed: &Typed, contract: &Effective) -> Vec<FieldInput> {
    let text = typed.text(spec.key);
    let input = FieldInput {
        id: spec.key,
        label: spec.label,
        hint: spec.hint,
        now: now(spec.key, contract),
        choices: Vec::new(),
        value: text.to_owned(),
        rows: 1,
    };
    let select = |choices: &[(&str, &str)]| {
        let unset = Choice::new("", NOT_SET, text);
        let keep = (text == KEEP).then(|| Choice::new(KEEP, "Keep the condition that the file has", text));
        let all = choices.iter().map(|(value, word)| Choice::new(value, word, text));
        std::iter::once(unset).chain(all).chain(keep).collect::<Vec<_>>()
    };
    let more = |id: &'static str, label: &'static str, hint: &'static str| FieldInput {
        id,
        label,
        hint,
        now: None,
        choices: Vec::new(),
        value: typed.text(id).to_owned(),
        rows: 1,
    };
    match spec.kind {
        Kind::Choice(choices) => vec![FieldInput { choices: select(choices), ..input }],
        Kind::Text | Kind::Words => vec![input],
        Kind::Lines => vec![FieldInput { rows: 3, ..input }],
        Kind::Prose => vec![FieldInput { rows: 3, ..input }],
        Kind::DryRun => vec![
            FieldInput { choices: select(DRY_RUNS), ..input },
            more(
                PARAMETER,
                "Argument for a dry run",
                "The argument that makes the server do a dry run, if it has one: dryRun",
            ),
        ],
        Kind::Rate => vec![
            FieldInput {
                now: now(spec.key, contract),
                ..more(CALLS, "Rate limit: calls", "For all agents together: 30")
            },
            more(PER, "Rate limit: time span", "From 1s to 24h: 1m"),
        ],
    }
}

fn now(key: &str, contract: &Effective) -> Option<Visible> {
    let (_, value, source) = contract.sources().into_iter().find(|(known, _, _)| *known == key)?;
    let value: String = value_text(&value).chars().take(NOW_MAX_CHARS).collect();
    Some(Visible::of(&format!("In force: {value} ({source})")))
}
