//! Calls that need an approval, step-up or a dry run.

use std::sync::Arc;

use mcpproxy_core::RiskLevel;
use mcpproxy_core::contract::{Confirmation, Contract, DryRun, StepUp};
use mcpproxy_core::schema::Schema;

use super::Section;
use super::stage::{Author, Stage, written};

const COLUMNS: &[&str] = &["by", "risk", "autonomous", "confirmation", "stepUp", "arguments", "dryRun", "outcome"];

/// Arguments that `when` speaks of, and others.
const ARGUMENTS: [(&str, &str); 2] = [("match", ",\"args\":{\"to\":\"a\"}"), ("differ", ",\"args\":{\"cc\":\"a\"}")];

pub(crate) fn section() -> Section {
    let mut rows = Vec::new();
    for author in Author::ALL {
        for risk in [None].into_iter().chain(RiskLevel::ALL.map(Some)) {
            for autonomous in [None, Some(true), Some(false)] {
                for confirmation in confirmations() {
                    let contract = Contract {
                        risk: risk.and_then(written),
                        autonomous: autonomous.and_then(written),
                        confirmation: confirmation.and_then(written),
                        ..Contract::default()
                    };
                    rows.extend(below(author, &contract));
                }
            }
        }
    }
    Section {
        name: "user",
        title: "approval and step-up of a write call; one author sets everything",
        columns: COLUMNS,
        rows,
    }
}

fn below(author: Author, contract: &Contract) -> Vec<Vec<String>> {
    let mut rows = Vec::new();
    for (step_up_word, step_up) in step_ups() {
        for (arguments_word, parameters) in ARGUMENTS {
            for (dry_run_word, dry_run) in dry_runs() {
                // Where no condition is written, the arguments make no difference.
                let is_conditional = step_up_word == "when" || has_condition(contract);
                if !is_conditional && arguments_word != "match" {
                    continue;
                }
                let contract = Contract {
                    step_up: step_up.clone().and_then(written),
                    dry_run: dry_run.clone().and_then(written),
                    ..contract.clone()
                };
                let mut stage = Stage { parameters: parameters.to_owned(), ..Stage::default() };
                stage.write(author, contract.clone());
                let word = |value: Option<bool>| super::hint_word(value);
                let confirmation = contract.confirmation.as_ref().map_or("-", |written| match written.value {
                    Confirmation::None => "none",
                    Confirmation::When(_) => "when",
                    Confirmation::Required => "required",
                });
                let arguments = if is_conditional { arguments_word } else { "-" };
                let cells = [
                    author.word(),
                    contract.risk.as_ref().map_or("-", |written| written.value.as_str()),
                    word(contract.autonomous.as_ref().map(|written| written.value)),
                    confirmation,
                    step_up_word,
                    arguments,
                    dry_run_word,
                    &stage.outcome(),
                ];
                rows.push(cells.map(str::to_owned).to_vec());
            }
        }
    }
    rows
}

fn has_condition(contract: &Contract) -> bool {
    contract.confirmation.as_ref().is_some_and(|written| matches!(written.value, Confirmation::When(_)))
}

fn condition() -> Arc<Schema> {
    Arc::new(Schema::parse("{\"required\":[\"to\"]}").unwrap())
}

fn confirmations() -> [Option<Confirmation>; 4] {
    [None, Some(Confirmation::None), Some(Confirmation::When(condition())), Some(Confirmation::Required)]
}

fn step_ups() -> Vec<(&'static str, Option<StepUp>)> {
    vec![
        ("-", None),
        ("never", Some(StepUp::Never)),
        ("when", Some(StepUp::When(condition()))),
        ("always", Some(StepUp::Always)),
    ]
}

fn dry_runs() -> [(&'static str, Option<DryRun>); 3] {
    [
        ("-", None),
        ("supported", Some(DryRun::Supported { parameter: None })),
        ("required", Some(DryRun::Required { parameter: None })),
    ]
}
