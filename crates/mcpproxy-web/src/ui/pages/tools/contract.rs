//! The form for a contract.

use askama::Template;
use mcpproxy_core::Tool;
use mcpproxy_core::contract::Effective;

use super::Choice;
use super::one::value_text;
use super::typed::{CALLS, DRY_RUNS, FieldError, KEEP, Kind, PARAMETER, PER, SPECS, Spec, Typed};
use crate::editor::WrittenContract;
use crate::ui::pages::{Frame, filters};
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
    pub(crate) common: Section,
    pub(crate) more: Vec<Section>,
    /// Says how many of the folded fields your file sets.
    pub(crate) more_words: String,
    /// True if a folded field has a mistake.
    pub(crate) is_open: bool,
    pub(crate) error: Option<String>,
    /// The input with the mistake.
    pub(crate) wrong: Option<&'static str>,
    /// A text to paste, if the file cannot be edited here.
    pub(crate) paste: Option<(Visible, Visible)>,
}

/// Inputs below one heading.
pub(crate) struct Section {
    pub(crate) title: &'static str,
    pub(crate) fields: Vec<FieldInput>,
}

/// The fields that most contracts have. The form shows them at once.
const COMMON: (&str, &[&str]) =
    ("Risk and approval", &["riskLevel", "operation", "confirmation", "permissions", "sideEffects"]);
/// The other fields, which are folded.
const MORE: [(&str, &[&str]); 3] = [
    ("What else a call needs", &["autonomousExecution", "stepUpAuth", "dryRun"]),
    ("Repeats, limits and data", &["idempotency", "rateLimit", "sensitive"]),
    ("Words for approvers and for the log", &["description", "category", "auditEvent", "version"]),
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
    /// Says what is wrong with the value.
    pub(crate) mistake: Option<String>,
}

impl ContractForm {
    pub(crate) fn new(
        frame: Frame,
        tool: &Tool,
        written: &WrittenContract,
        typed: &Typed,
        error: Option<FieldError>,
    ) -> Self {
        let wrong = error.as_ref().and_then(|error| error.input);
        let error = error.map(|error| error.sentence);
        let common = section(COMMON, typed, &tool.contract, (wrong, error.as_deref()));
        let more: Vec<Section> =
            MORE.into_iter().map(|one| section(one, typed, &tool.contract, (wrong, error.as_deref()))).collect();
        let inputs = || more.iter().flat_map(|section| &section.fields);
        let set = inputs().filter(|input| !input.value.is_empty()).count();
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
            more_words: match set {
                0 => format!("{} more fields, none of them set", inputs().count()),
                set => format!("{} more fields, {set} of them set", inputs().count()),
            },
            is_open: inputs().any(|input| input.mistake.is_some()),
            common,
            more,
            error,
            wrong,
            paste: None,
        }
    }
}

fn section(
    (title, keys): (&'static str, &[&str]),
    typed: &Typed,
    contract: &Effective,
    (wrong, sentence): (Option<&'static str>, Option<&str>),
) -> Section {
    let specs = keys.iter().filter_map(|key| SPECS.iter().find(|spec| spec.key == *key));
    let fields = specs.flat_map(|spec| inputs(spec, typed, contract)).map(|input| {
        let mistake = sentence.filter(|_| wrong == Some(input.id)).map(str::to_owned);
        FieldInput { mistake, ..input }
    });
    Section { title, fields: fields.collect() }
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
        mistake: None,
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
        mistake: None,
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
                "The argument that makes the server do a dry run, if it has one. Example: dryRun",
            ),
        ],
        Kind::Rate => vec![
            FieldInput {
                now: now(spec.key, contract),
                ..more(CALLS, "Rate limit: calls", "For all agents together. Example: 30")
            },
            more(PER, "Rate limit: time span", "From 1s to 24h. Example: 1m"),
        ],
    }
}

fn now(key: &str, contract: &Effective) -> Option<Visible> {
    let (_, value, source) = contract.sources().into_iter().find(|(known, _, _)| *known == key)?;
    let value: String = value_text(&value).chars().take(NOW_MAX_CHARS).collect();
    Some(Visible::of(&format!("In force: {value} ({source})")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_field_is_in_one_section() {
        let mut shown: Vec<&str> = std::iter::once(&COMMON).chain(&MORE).flat_map(|(_, keys)| *keys).copied().collect();
        let mut known: Vec<&str> = SPECS.iter().map(|spec| spec.key).collect();
        shown.sort_unstable();
        known.sort_unstable();
        assert_eq!(shown, known);
    }
}
