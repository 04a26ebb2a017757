//! A contract in force, said in sentences.

use mcpproxy_core::contract::{Confirmation, DryRun, Effective, Need, Source, StepUp};
use mcpproxy_core::settings::{ContractSettings, Unclassified};
use mcpproxy_core::{RiskLevel, Variant};

use super::condition::when;

/// Says what a contract means for a call: the variant, what a call needs, the permissions and the rate limit.
pub(crate) fn sentences(contract: &Effective, settings: ContractSettings) -> Vec<String> {
    if contract.risk() == Some(RiskLevel::Forbidden) {
        return vec![FORBIDDEN.to_owned()];
    }
    let variant = contract.operation.as_ref().map_or(Variant::Write, |operation| operation.value);
    let mut sentences = vec![format!("Agents call it with {}.", variant.tool())];
    sentences.extend(needs(contract, settings));
    match contract.permissions.value.as_slice() {
        [] => {}
        [one] => sentences.push(format!("The agent\u{2019}s token needs the permission {one}.")),
        all => sentences.push(format!("The agent\u{2019}s token needs the permissions {}.", all.join(", "))),
    }
    sentences.extend(contract.rate_limit.as_ref().map(|limit| {
        let (calls, seconds) = (limit.value.calls, limit.value.per.as_secs());
        let calls = format!("{calls} call{}", if calls == 1 { "" } else { "s" });
        format!("All agents together may make {calls} in {}.", span(seconds))
    }));
    sentences
}

const FORBIDDEN: &str = "Agents cannot see or call this tool.";

/// Returns one sentence for each step that a call needs.
pub(crate) fn needs(contract: &Effective, settings: ContractSettings) -> Vec<String> {
    if contract.risk() == Some(RiskLevel::Forbidden) {
        return vec![FORBIDDEN.to_owned()];
    }
    if !contract.is_classified() && settings.unclassified == Unclassified::Deny {
        return vec!["Every call is refused until you give this tool a risk level.".to_owned()];
    }
    let words = contract.needs().into_iter().map(|need| match need {
        Need::Confirmation => approval(contract),
        Need::StepUp => match contract.step_up.value {
            StepUp::Never | StepUp::Always => "The approval needs a fresh second factor.".to_owned(),
            StepUp::When(_) => conditional("The approval needs a fresh second factor", contract, "stepUpAuth"),
        },
        Need::DryRun => "A dry run of the same call has to come first.".to_owned(),
    });
    let words: Vec<String> = words.collect();
    if words.is_empty() { vec!["Agents may call it without asking anyone.".to_owned()] } else { words }
}

/// Says which calls a user approves. A second factor confirms an approval, so it requires one.
fn approval(contract: &Effective) -> String {
    let begin = "A user approves a call";
    match (&contract.confirmation.value, &contract.step_up.value) {
        (Confirmation::Required, _) | (_, StepUp::Always) => "A user approves every call.".to_owned(),
        _ if contract.asks() => "A user approves every call.".to_owned(),
        (Confirmation::When(_), StepUp::When(_)) => format!("{begin} only for some arguments."),
        (Confirmation::None, _) => conditional(begin, contract, "stepUpAuth"),
        (Confirmation::When(_), StepUp::Never) => conditional(begin, contract, "confirmation"),
    }
}

/// Ends a sentence with the condition of a field, in words if it has some.
fn conditional(begin: &str, contract: &Effective, key: &str) -> String {
    let field = contract.sources().into_iter().find(|(known, _, _)| *known == key).map(|(_, value, _)| value);
    match field.as_ref().and_then(when) {
        Some(words) => format!("{begin} only if {words}."),
        None => format!("{begin} only for some arguments. The field {key} has the condition."),
    }
}

/// Says which requirements stay only because the server's contract has them. The operator's file says nothing about
/// them, so a weaker file does not lift them. Returns `None` if there are none.
pub(crate) fn kept_by_server(contract: &Effective) -> Option<String> {
    if contract.risk() == Some(RiskLevel::Forbidden) {
        return None;
    }
    let fields = [
        (!contract.autonomous.value && contract.autonomous.source == Source::Server)
            .then_some("an approval of every call (“Agents may call it alone”: no)"),
        (contract.confirmation.value != Confirmation::None && contract.confirmation.source == Source::Server)
            .then_some("an approval (“Approval”)"),
        (contract.step_up.value != StepUp::Never && contract.step_up.source == Source::Server)
            .then_some("a second factor (“Second factor for the approval”)"),
        (matches!(contract.dry_run.value, DryRun::Required { .. }) && contract.dry_run.source == Source::Server)
            .then_some("a dry run (“Dry run”)"),
    ];
    let kept: Vec<&str> = fields.into_iter().flatten().collect();
    (!kept.is_empty()).then(|| {
        format!(
            "The server\u{2019}s own contract still requires {}. Set these fields too if you want to lift that.",
            kept.join(" and ")
        )
    })
}

/// Words a time span: `1 minute`, `90 seconds`.
fn span(seconds: u64) -> String {
    let units = [(86_400, "day"), (3_600, "hour"), (60, "minute"), (1, "second")];
    let fits = units.into_iter().find(|(unit, _)| seconds >= *unit && seconds.is_multiple_of(*unit));
    let (unit, name) = fits.unwrap_or((1, "second"));
    let count = seconds / unit;
    format!("{count} {name}{}", if count == 1 { "" } else { "s" })
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use mcpproxy_core::contract::Contracts;
    use mcpproxy_core::{Hints, ToolName};

    use super::*;

    fn said(text: &str) -> String {
        let contracts = Contracts::parse(&[("a.yaml".to_owned(), format!("- tool: fx:send\n{text}"))]).unwrap();
        let written: Vec<Arc<_>> =
            contracts.matching(&ToolName::parse("fx:send").unwrap()).into_iter().cloned().collect();
        let contract = Effective::of(&written.iter().collect::<Vec<_>>(), None, Hints::default());
        sentences(&contract, ContractSettings::default()).join(" ")
    }

    #[test]
    fn a_contract_in_sentences() {
        assert_eq!(said("  riskLevel: forbidden\n"), "Agents cannot see or call this tool.");
        assert_eq!(
            said("  riskLevel: low\n  operation: read\n"),
            "Agents call it with call_tool_read. Agents may call it without asking anyone."
        );
        assert_eq!(
            said(
                "  riskLevel: critical\n  operation: destructive\n  permissions: [a:b, c:d]\n  rateLimit: {calls: 1, per: 90s}\n"
            ),
            "Agents call it with call_tool_destructive. A user approves every call. The approval needs a fresh second factor. \
             The agent\u{2019}s token needs the permissions a:b, c:d. All agents together may make 1 call in 90 seconds."
        );
        assert_eq!(
            said("  riskLevel: medium\n  operation: write\n  stepUpAuth: {when: {properties: {to: {minItems: 5}}}}\n"),
            "Agents call it with call_tool_write. A user approves a call only if to has at least 5 entries. \
             The approval needs a fresh second factor only if to has at least 5 entries."
        );
        assert_eq!([1, 60, 3_600, 7_200, 90].map(span), ["1 second", "1 minute", "1 hour", "2 hours", "90 seconds"]);
    }
}
