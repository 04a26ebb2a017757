//! Table rows for a contract's operation and risk level, against variants, annotations and settings.

use mcpproxy_core::contract::Contract;
use mcpproxy_core::settings::{ContractSettings, IntentSettings, Unclassified};
use mcpproxy_core::{Hints, RiskLevel, Variant};

use super::stage::{Author, Stage, written};
use super::{HINT, Section, hint_word};

const COLUMNS: &[&str] =
    &["variant", "readOnly", "destructive", "operation", "by", "risk", "strict", "unclassified", "outcome"];

pub(crate) fn section() -> Section {
    let mut rows = Vec::new();
    for variant in Variant::ALL {
        for read_only in HINT {
            for destructive in HINT {
                for operation in operations() {
                    rows.extend(below((variant, Hints { read_only, destructive }, operation)));
                }
            }
        }
    }
    let title = "operation and risk level in contracts; the operator sets the risk level";
    Section { name: "contract", title, columns: COLUMNS, rows }
}

type Case = (Variant, Hints, Option<(Variant, Author)>);

fn below((variant, hints, operation): Case) -> Vec<Vec<String>> {
    let mut rows = Vec::new();
    for risk in [None].into_iter().chain(RiskLevel::ALL.map(Some)) {
        for strict_server_validation in [true, false] {
            for unclassified in [Unclassified::Allow, Unclassified::ConfirmDestructive, Unclassified::Deny] {
                let intent = IntentSettings { strict_server_validation, ..IntentSettings::default() };
                let contracts = ContractSettings { unclassified, ..ContractSettings::default() };
                let mut stage = Stage { variant, hints, intent, contracts, ..Stage::default() };
                let says = |operation: Option<Variant>| Contract {
                    operation: operation.and_then(written),
                    ..Contract::default()
                };
                let classified = |contract: Contract| Contract { risk: risk.and_then(written), ..contract };
                match operation {
                    Some((operation, Author::Server)) => {
                        stage.server = Some(says(Some(operation)));
                        stage.operator = risk.map(|_| classified(Contract::default()));
                    }
                    Some((operation, Author::Operator)) => stage.operator = Some(classified(says(Some(operation)))),
                    None => stage.operator = risk.map(|_| classified(Contract::default())),
                }
                rows.push(vec![
                    variant.operation().to_owned(),
                    hint_word(hints.read_only).to_owned(),
                    hint_word(hints.destructive).to_owned(),
                    operation.map_or("-", |(operation, _)| operation.operation()).to_owned(),
                    operation.map_or("-", |(_, author)| author.word()).to_owned(),
                    risk.map_or("-", RiskLevel::as_str).to_owned(),
                    strict_server_validation.to_string(),
                    unclassified.as_str().to_owned(),
                    stage.outcome(),
                ]);
            }
        }
    }
    rows
}

fn operations() -> Vec<Option<(Variant, Author)>> {
    let written = Author::ALL.into_iter().flat_map(|author| Variant::ALL.map(|variant| Some((variant, author))));
    [None].into_iter().chain(written).collect()
}
