//! Checks the argument names in a contract against the arguments that its tools take.

use std::collections::BTreeSet;

use super::{Findings, Place};
use crate::Untrusted;
use crate::catalog::Offered;
use crate::catalog::parameters::Parameters;
use crate::contract::{Confirmation, Contract, DryRun, Idempotency, StepUp};
use crate::json::member;
use crate::schema::Schema;

/// Checks one contract. `tools` are the tools it is for. An argument that any of them has is no mistake.
pub(super) fn check(findings: &mut Findings, subject: &str, contract: &Contract, tools: &[&Offered]) {
    let names_any = contract.dry_run.is_some()
        || contract.idempotency.is_some()
        || contract.sensitive.is_some()
        || contract.input_schema.is_some()
        || contract.confirmation.is_some()
        || contract.step_up.is_some();
    if tools.is_empty() || !names_any {
        return;
    }
    let parameters: Vec<Parameters<'_>> = tools.iter().map(|tool| Parameters::of(tool)).collect();
    let all_lack = |name: &str| parameters.iter().all(|parameters| parameters.lacks(name));
    let place = |line: usize| -> Place { contract.file.clone().map(|file| (file, line)) };
    let fix = || match known(&parameters) {
        Some(known) => format!("known arguments: {known}"),
        None => "the tool takes no arguments".to_owned(),
    };
    if let Some(written) = &contract.dry_run
        && let DryRun::Supported { parameter: Some(name) } | DryRun::Required { parameter: Some(name) } = &written.value
        && all_lack(name)
    {
        let message = format!("`dryRun.parameter` names {}, which is not an argument of the tool", quoted(name));
        findings.add("C401", subject, place(written.line), message, fix());
    }
    if let Some(written) = &contract.idempotency
        && let Idempotency::Natural { key_from, valid_until, .. } = &written.value
    {
        for name in key_from.iter().filter(|name| all_lack(name)) {
            let message = format!("`idempotency.keyFrom` names {}, which is not an argument of the tool", quoted(name));
            findings.add("C402", subject, place(written.line), message, fix());
        }
        for pointer in valid_until.iter().filter(|pointer| is_nowhere(pointer, tools, &all_lack)) {
            let message = format!(
                "`idempotency.validUntil` is {}, which matches no argument and no result of the tool",
                quoted(pointer)
            );
            findings.add("C402", subject, place(written.line), message, fix());
        }
    }
    if let Some(written) = &contract.sensitive {
        for pointer in written.value.iter().filter(|pointer| is_nowhere(&pointer.text, tools, &all_lack)) {
            let message = format!("{} matches no argument and no result of the tool", quoted(&pointer.text));
            findings.add("C403", subject, place(written.line), message, fix());
        }
    }
    for (field, schema, line) in schemas(contract) {
        let theirs = Parameters::of_schema(schema.text());
        let required = required(schema.text());
        let names: BTreeSet<&str> = theirs.names().chain(required.iter().map(String::as_str)).collect();
        for name in names.into_iter().filter(|name| all_lack(name)) {
            let message = format!("`{field}` names {}, which is not an argument of the tool", quoted(name));
            findings.add("C404", subject, place(line), message, fix());
        }
    }
}

/// Returns the schemas of a contract that are about arguments, with the field and its line.
fn schemas(contract: &Contract) -> Vec<(&'static str, &Schema, usize)> {
    let mut found: Vec<(&str, &Schema, usize)> = Vec::new();
    if let Some(written) = &contract.input_schema {
        found.push(("inputSchema", &written.value, written.line));
    }
    if let Some(written) = &contract.confirmation
        && let Confirmation::When(schema) = &written.value
    {
        found.push(("confirmation.when", schema, written.line));
    }
    if let Some(written) = &contract.step_up
        && let StepUp::When(schema) = &written.value
    {
        found.push(("stepUpAuth.when", schema, written.line));
    }
    found
}

/// Returns the names in `required` of a schema.
fn required(schema: &str) -> Vec<String> {
    let required = member(schema, "required");
    required.and_then(|names| serde_json::from_str(names).ok()).unwrap_or_default()
}

/// Returns the first segment of a pointer: `user` of `/user/id`.
fn first_segment(pointer: &str) -> &str {
    let rest = pointer.strip_prefix('/').unwrap_or(pointer);
    rest.split_once('/').map_or(rest, |(first, _)| first)
}

/// Returns true if a pointer leads nowhere, in arguments or results. A result without a schema may have
/// anything.
fn is_nowhere(pointer: &str, tools: &[&Offered], all_lack: &impl Fn(&str) -> bool) -> bool {
    let first = first_segment(pointer);
    let is_plain = !first.is_empty() && !first.contains(['*', '~']);
    let results_lack = || {
        tools.iter().all(|tool| {
            let schema = tool.field("outputSchema").filter(|schema| *schema != "null");
            schema.is_some_and(|schema| Parameters::of_schema(schema).lacks(first))
        })
    };
    is_plain && all_lack(first) && results_lack()
}

/// Quotes and shortens a name, because names come from untrusted servers.
fn quoted(name: &str) -> String {
    format!("`{}`", Untrusted::shortened(name, 64).for_terminal())
}

fn known(parameters: &[Parameters<'_>]) -> Option<String> {
    let names: Vec<String> = parameters.first()?.names().take(8).map(quoted).collect();
    (!names.is_empty()).then(|| names.join(", "))
}
