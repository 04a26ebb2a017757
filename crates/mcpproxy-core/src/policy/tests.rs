//! Tests for policies: the calls that they forbid, and the messages for invalid files.

mod bombs;
mod laws;
mod mistakes;
mod table;

use super::*;
use crate::contract::Effective;
use crate::{Agent, Hints, Intent, Scope, ToolName, Untrusted, Variant};

/// Parses the policies of one file.
fn policies(text: &str) -> Policies {
    Policies::parse(&[("a.cedar".to_owned(), text.to_owned())])
        .unwrap_or_else(|mistakes| panic!("{text}: {mistakes:?}"))
}

/// Returns every mistake as `file:line:column message`.
fn mistakes(files: &[(&str, &str)]) -> Vec<String> {
    let files: Vec<(String, String)> =
        files.iter().map(|(name, text)| ((*name).to_owned(), (*text).to_owned())).collect();
    let mistakes = Policies::parse(&files).err().unwrap_or_default();
    mistakes.iter().map(|(file, it)| format!("{file}:{}:{} {}", it.line, it.column, it.message)).collect()
}

fn facts(name: &str) -> Facts {
    let hints = Hints::default();
    Facts::of(Subject { name: &ToolName::parse(name).unwrap(), hints, contract: &Effective::of(&[], None, hints) })
}

fn agent(name: &str) -> Agent {
    Agent { name: name.to_owned(), scope: Scope { grants: Vec::new(), ..Scope::everything() } }
}

fn intent(variant: Variant) -> Intent {
    Intent { variant, is_declared: true, sensitivity: None, reason: None }
}

/// Returns the ids of the policies that forbid the call.
fn refusals(policies: &Policies, agent: &Agent, tool: &Facts, intent: &Intent, clock: Clock) -> Vec<String> {
    let Some(tool_policies) = policies.for_facts(tool) else { return Vec::new() };
    let outcomes = tool_policies.outcomes(tool::Call { agent, tool: &tool.name, intent, clock }, || tool.clone());
    tool::violations(outcomes).into_iter().map(|violation| violation.policy).collect()
}
