//! The decision: may this agent make this call, and what must be said about it?
//!
//! One function, first failure answers. Only this module can make a `Permit`, and without one nothing reaches a server.

mod checks;
mod explain;
mod table;

use std::sync::Arc;

use crate::Agent;
use crate::catalog::{Catalog, Tool};
use crate::denial::Denial;
use crate::intent::{Arguments, Declared, Intent};
use crate::limits::Limits;
use crate::rules::Clock;
use crate::settings::{ContractSettings, IntentSettings};

pub use explain::{Explanation, Finding, Verdict, explain};
pub use table::{Row, Section, rows, sections, table};

pub enum Decision {
    Allow(Permit),
    /// A human decides.
    Ask(Question),
    Deny(Denial),
}

/// What a decision rests on: all of it from one snapshot.
#[derive(Clone, Copy, Debug)]
pub struct Ground<'a> {
    pub intent: &'a IntentSettings,
    pub contracts: &'a ContractSettings,
    pub catalog: &'a Catalog,
}

/// What is different at every call: the time, and how often tools were called lately.
#[derive(Clone, Copy, Debug)]
pub struct Moment<'a> {
    pub clock: Clock,
    pub limits: &'a Limits,
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

/// A call that waits for a human's word.
#[derive(Debug)]
pub struct Question {
    tool: Arc<Tool>,
    needs_step_up: bool,
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

    /// Whether the server's own annotations, or the operator, bear the agent's word out.
    pub fn is_verified(&self) -> bool {
        self.is_verified
    }
}

impl Question {
    /// The answer as long as there is nobody to ask.
    pub fn unanswered(&self) -> Denial {
        Denial::ConfirmationRequired {
            tool: self.tool.name.clone(),
            risk: self.tool.contract.risk(),
            needs_step_up: self.needs_step_up,
        }
    }
}

/// Decides on a call whose own shape and keys were found sound by `intent::declare`.
pub fn decide(
    ground: Ground<'_>,
    agent: &Agent,
    declared: Declared,
    tool: Option<&Arc<Tool>>,
    moment: Moment<'_>,
) -> Decision {
    let passed = match check_all(ground, agent, &declared, tool, moment) {
        Ok(passed) => passed,
        Err(denial) => return Decision::Deny(denial),
    };
    let Passed { tool, warnings, is_verified, ask } = passed;
    if let Some(needs_step_up) = ask {
        return Decision::Ask(Question { tool, needs_step_up });
    }
    if let Err(denial) = checks::take_a_turn(&tool, moment) {
        return Decision::Deny(denial);
    }
    let Declared { intent, arguments, .. } = declared;
    Decision::Allow(Permit { tool, intent, arguments, warnings, is_verified })
}

/// What a call that no check refused comes with.
struct Passed {
    tool: Arc<Tool>,
    warnings: Vec<Warning>,
    is_verified: bool,
    /// Whether a human is to be asked, and with a fresh factor.
    ask: Option<bool>,
}

/// The checks from the tool's existence on, in their order. Nothing is counted here, so it may also be asked for fun.
fn check_all(
    ground: Ground<'_>,
    agent: &Agent,
    declared: &Declared,
    tool: Option<&Arc<Tool>>,
    moment: Moment<'_>,
) -> Result<Passed, Denial> {
    let tool = tool
        .filter(|tool| agent.scope.sees(tool.name.server()))
        .ok_or_else(|| checks::no_such_tool(declared.name.clone(), agent, ground.catalog))?;
    let variant = declared.intent.variant;
    let warnings = checks::against_hints(ground.intent, tool, variant)?;
    checks::against_contract(ground.contracts, tool, variant)?;
    checks::within_scope(agent, tool, variant)?;
    checks::has_permissions(agent, tool)?;
    checks::within_rules(agent, tool, &declared.intent, moment.clock)?;
    let arguments = checks::arguments_fit(tool, &declared.arguments)?;
    checks::within_rate(tool, moment)?;
    checks::dry_run_done(tool)?;
    let ask = checks::asks_a_human(ground.contracts, tool, variant, &arguments);
    let is_verified = checks::bears_out(tool, variant);
    Ok(Passed { tool: Arc::clone(tool), warnings, is_verified, ask })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalog::{Offer, Offered};
    use crate::settings::{TwoKey, Unannotated};
    use crate::{Scope, ServerName, Variant, intent};

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
        let (offer, hidden) = Offer::new([Offered::parse(&server, &hints_json(hints.0, hints.1))]);
        assert!(hidden.is_empty());
        let catalog = Catalog::new([(server, Arc::new(offer))]);
        let declared = intent::declare(variant, &format!(r#"{{"name":"{name}"}}"#), TwoKey::Optional).unwrap();
        let tool = catalog.resolve(&declared.name).cloned();
        let agent = Agent { name: "a1".to_owned(), scope };
        let ground = Ground { intent: rules, contracts: &ContractSettings::default(), catalog: &catalog };
        let moment = Moment { clock: Clock::default(), limits: &Limits::default() };
        match decide(ground, &agent, declared, tool.as_ref(), moment) {
            Decision::Ask(_) => "ask".to_owned(),
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
            "deny permission_denied: Agent 'a1' may only read, and 'fx:tool' is not marked as read-only",
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
