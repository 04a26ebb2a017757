//! The decision: may this agent make this call, and what must be said about it?
//!
//! One function, first failure answers. Only this module can make a `Permit`, and without one nothing reaches a server.

mod explain;
mod table;

use std::sync::Arc;

use crate::catalog::{Catalog, Hints, Tool};
use crate::denial::{Denial, Mark, Missing};
use crate::intent::{Arguments, Declared, Intent};
use crate::nearest::closest;
use crate::settings::{IntentSettings, Unannotated};
use crate::{Agent, ToolName, Variant};

pub use explain::{Explanation, Finding, Verdict, explain};
pub use table::{Row, rows, table};

/// How many similar tools a refusal names.
const SUGGESTIONS_MAX: usize = 3;

pub enum Decision {
    Allow(Permit),
    Deny(Denial),
}

/// The right to make one call: this tool, with these bytes, once.
///
/// It cannot be cloned or built elsewhere, and it owns the bytes it permits, so what was decided on is what is sent.
#[derive(Debug)]
pub struct Permit {
    tool: Arc<Tool>,
    intent: Intent,
    arguments: Arguments,
    warnings: Vec<Warning>,
    is_verified: bool,
}

/// Something worth a line on the record that does not stop the call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Warning {
    pub code: &'static str,
    pub message: String,
}

impl Permit {
    pub fn tool(&self) -> &Arc<Tool> {
        &self.tool
    }

    pub fn intent(&self) -> &Intent {
        &self.intent
    }

    pub fn arguments(&self) -> &Arguments {
        &self.arguments
    }

    pub fn warnings(&self) -> &[Warning] {
        &self.warnings
    }

    /// Whether the server's own annotations bear the agent's word out.
    pub fn is_verified(&self) -> bool {
        self.is_verified
    }
}

/// Decides on a call whose own shape and keys were found sound by `intent::declare`.
pub fn decide(
    rules: &IntentSettings,
    agent: &Agent,
    declared: Declared,
    tool: Option<&Arc<Tool>>,
    catalog: &Catalog,
) -> Decision {
    let variant = declared.intent.variant;
    let Some(tool) = tool.filter(|tool| agent.scope.sees(tool.name.server())) else {
        return Decision::Deny(no_such_tool(declared.name, agent, catalog));
    };
    let warnings = match against_hints(rules, tool, variant) {
        Ok(warnings) => warnings,
        Err(denial) => return Decision::Deny(denial),
    };
    if let Err(denial) = within_scope(agent, tool, variant) {
        return Decision::Deny(denial);
    }
    let is_verified = bears_out(tool.hints, variant);
    Decision::Allow(Permit {
        tool: Arc::clone(tool),
        intent: declared.intent,
        arguments: declared.arguments,
        warnings,
        is_verified,
    })
}

/// Server annotations against the variant. An error is a contradiction; in lenient mode it is a warning.
fn against_hints(rules: &IntentSettings, tool: &Tool, variant: Variant) -> Result<Vec<Warning>, Denial> {
    let Hints { read_only, destructive } = tool.hints;
    let mismatch = |mark, right| Denial::ServerMismatch { tool: tool.name.clone(), mark, used: variant, right };
    let contradiction = match (variant, destructive, read_only) {
        (Variant::Destructive, _, _) => None,
        (Variant::Read | Variant::Write, Some(true), _) => Some(mismatch(Mark::Destructive, Variant::Destructive)),
        (Variant::Read, _, Some(false)) => Some(mismatch(Mark::NotReadOnly, Variant::Write)),
        (Variant::Read, _, Some(true)) => None,
        (Variant::Read, _, None) => return unannotated(rules, tool, &mismatch(Mark::Unannotated, Variant::Write)),
        (Variant::Write, _, Some(true)) => {
            let message = format!("Tool '{}' is marked read-only by server, call_tool_read would do", tool.name);
            return Ok(vec![Warning { code: "OVERLY_CAUTIOUS", message }]);
        }
        (Variant::Write, _, Some(false) | None) => None,
    };
    match contradiction {
        None => Ok(Vec::new()),
        Some(denial) if rules.strict_server_validation => Err(denial),
        Some(denial) => Ok(vec![Warning { code: denial.code(), message: denial.message() }]),
    }
}

/// A read call on a tool of which the server does not say that it only reads.
fn unannotated(rules: &IntentSettings, tool: &Tool, denial: &Denial) -> Result<Vec<Warning>, Denial> {
    match rules.unannotated {
        Unannotated::Trust => Ok(Vec::new()),
        Unannotated::Warn => {
            let message = format!("Tool '{}' is not marked read-only by server, the agent's word was taken", tool.name);
            Ok(vec![Warning { code: "UNANNOTATED", message }])
        }
        Unannotated::RequireWrite => Err(denial.clone()),
    }
}

fn within_scope(agent: &Agent, tool: &Tool, variant: Variant) -> Result<(), Denial> {
    if !agent.scope.may(variant) {
        return Err(Denial::NotGranted { agent: agent.name.clone(), variant });
    }
    // Else an agent that may only read could run any unannotated tool by calling it a read.
    let only_reads = !agent.scope.may(Variant::Write) && !agent.scope.may(Variant::Destructive);
    if only_reads && tool.hints.read_only != Some(true) {
        return Err(Denial::NotKnownToRead { agent: agent.name.clone(), tool: tool.name.clone() });
    }
    Ok(())
}

fn bears_out(hints: Hints, variant: Variant) -> bool {
    match variant {
        Variant::Read => hints.read_only == Some(true) && hints.destructive != Some(true),
        Variant::Write => hints.destructive == Some(false) || hints.read_only.is_some() && hints.destructive.is_none(),
        Variant::Destructive => true,
    }
}

/// The answer for a tool that is not there. It suggests only what the agent may see anyway.
fn no_such_tool(name: ToolName, agent: &Agent, catalog: &Catalog) -> Denial {
    let has_server = agent.scope.sees(name.server()) && catalog.offer(name.server()).is_some();
    let missing = if has_server { Missing::Tool } else { Missing::Server };
    let suggestions = suggestions(&name, catalog.visible(&agent.scope).map(|tool| &tool.name));
    Denial::NoSuchTool { name, missing, suggestions }
}

/// Tools of the same name elsewhere first, then names that look alike.
fn suggestions<'t>(wanted: &ToolName, visible: impl Iterator<Item = &'t ToolName>) -> Vec<ToolName> {
    let (mut found, others): (Vec<&ToolName>, Vec<&ToolName>) = visible.partition(|name| name.tool() == wanted.tool());
    if found.len() < SUGGESTIONS_MAX {
        // Spelled out letter by letter: ten thousand names are compared without writing one of them down.
        let letters = |name: &'t ToolName| name.server().as_str().chars().chain([':']).chain(name.tool().chars());
        found.extend(closest(&wanted.to_string(), others, letters, SUGGESTIONS_MAX));
    }
    found.into_iter().take(SUGGESTIONS_MAX).cloned().collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalog::Offer;
    use crate::settings::TwoKey;
    use crate::{Scope, ServerName, intent};

    fn hints_json(read_only: Option<bool>, destructive: Option<bool>) -> String {
        let hints = [("readOnlyHint", read_only), ("destructiveHint", destructive)]
            .into_iter()
            .filter_map(|(name, value)| value.map(|value| format!("\"{name}\":{value}")))
            .collect::<Vec<_>>()
            .join(",");
        format!(r#"{{"name":"tool","inputSchema":{{}},"annotations":{{{hints}}}}}"#)
    }

    fn outcome(
        rules: &IntentSettings,
        scope: Scope,
        hints: (Option<bool>, Option<bool>),
        variant: Variant,
        name: &str,
    ) -> String {
        let server = ServerName::parse("fx").unwrap();
        let (offer, hidden) = Offer::new([Tool::parse(&server, &hints_json(hints.0, hints.1))]);
        assert!(hidden.is_empty());
        let catalog = Catalog::new([(server, Arc::new(offer))]);
        let declared = intent::declare(variant, &format!(r#"{{"name":"{name}"}}"#), TwoKey::Optional).unwrap();
        let tool = catalog.resolve(&declared.name).cloned();
        let agent = Agent { name: "a1".to_owned(), scope };
        match decide(rules, &agent, declared, tool.as_ref(), &catalog) {
            Decision::Deny(denial) => format!("deny {}: {}", denial.code(), denial.message()),
            Decision::Allow(permit) => {
                let warnings: Vec<&str> = permit.warnings().iter().map(|warning| warning.code).collect();
                let verified = if permit.is_verified() { "verified" } else { "unverified" };
                ["allow", verified, &warnings.join(" ")].join(" ").trim_end().to_owned()
            }
        }
    }

    #[test]
    fn annotations_against_variants() {
        use Variant::{Destructive, Read, Write};
        let strict = IntentSettings::default();
        let lenient = IntentSettings { strict_server_validation: false, ..IntentSettings::default() };
        let check = |rules: &IntentSettings, hints, variant, expected: &str| {
            assert_eq!(outcome(rules, Scope::everything(), hints, variant, "fx:tool"), expected, "{hints:?} {variant}");
        };
        let marked = |used: &str| {
            format!(
                "deny SERVER_MISMATCH: Tool 'fx:tool' is marked destructive by server, use call_tool_destructive instead of {used}"
            )
        };
        check(&strict, (Some(true), None), Read, "allow verified");
        check(&strict, (None, Some(true)), Read, &marked("call_tool_read"));
        check(&strict, (Some(true), Some(true)), Read, &marked("call_tool_read"));
        check(&strict, (None, None), Read, "allow unverified");
        check(
            &strict,
            (Some(false), Some(false)),
            Read,
            "deny SERVER_MISMATCH: Tool 'fx:tool' is marked not read-only by server, use call_tool_write instead of call_tool_read",
        );
        check(&strict, (Some(true), None), Write, "allow verified OVERLY_CAUTIOUS");
        check(&strict, (None, Some(true)), Write, &marked("call_tool_write"));
        check(&strict, (None, None), Write, "allow unverified");
        check(&strict, (Some(false), None), Write, "allow verified");
        for hints in [(None, None), (Some(true), None), (None, Some(true)), (Some(false), Some(false))] {
            check(&strict, hints, Destructive, "allow verified");
        }
        check(&lenient, (None, Some(true)), Read, "allow unverified SERVER_MISMATCH");
        check(&lenient, (Some(false), None), Read, "allow unverified SERVER_MISMATCH");
        let warn = IntentSettings { unannotated: Unannotated::Warn, ..IntentSettings::default() };
        let require_write = IntentSettings { unannotated: Unannotated::RequireWrite, ..IntentSettings::default() };
        check(&warn, (None, None), Read, "allow unverified UNANNOTATED");
        check(
            &require_write,
            (None, None),
            Read,
            "deny SERVER_MISMATCH: Tool 'fx:tool' is not marked read-only by server, use call_tool_write instead of call_tool_read",
        );
    }

    #[test]
    fn scope_narrows() {
        let rules = IntentSettings::default();
        let check = |scope: Scope, hints, variant, name: &str, expected: &str| {
            assert_eq!(outcome(&rules, scope, hints, variant, name), expected);
        };
        let read_only = Scope::read_only;
        check(read_only(), (Some(true), None), Variant::Read, "fx:tool", "allow verified");
        check(
            read_only(),
            (None, None),
            Variant::Read,
            "fx:tool",
            "deny permission_denied: Agent 'a1' may only read, and the server does not mark 'fx:tool' as read-only",
        );
        check(
            read_only(),
            (None, None),
            Variant::Write,
            "fx:tool",
            "deny permission_denied: Agent 'a1' may not use call_tool_write: its token does not cover write operations",
        );
        let elsewhere = Scope { servers: Some(vec![ServerName::parse("other").unwrap()]), ..Scope::everything() };
        let unknown =
            "deny TOOL_NOT_FOUND: Tool 'fx:tool' not found: unknown server 'fx'; use retrieve_tools to find tools";
        check(elsewhere, (None, None), Variant::Read, "fx:tool", unknown);
    }

    #[test]
    fn an_unknown_tool_comes_with_suggestions() {
        let rules = IntentSettings::default();
        let elsewhere = outcome(&rules, Scope::everything(), (None, None), Variant::Read, "nope:tool");
        assert_eq!(
            elsewhere,
            "deny TOOL_NOT_FOUND: Tool 'nope:tool' not found: unknown server 'nope'; did you mean 'fx:tool'?"
        );
        let found = outcome(&rules, Scope::everything(), (None, None), Variant::Read, "fx:toll");
        assert_eq!(
            found,
            "deny TOOL_NOT_FOUND: Tool 'fx:toll' not found: server 'fx' has no tool 'toll'; did you mean 'fx:tool'?"
        );
    }
}
