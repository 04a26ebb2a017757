//! Explains a decision check by check, for `mcpproxy policy explain`.

use super::checks::{self, CHECKS, CallSummary, Candidate, CheckRow, Found, Stop};
use super::{DecisionInputs, Moment, Warning};
use crate::catalog::Tool;
use crate::denial::Denial;
use crate::intent::{Mode, declare};
use crate::{Agent, Variant};

/// A decision with the verdict of each check. It comes from the function that decides on real calls.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Explanation {
    /// One finding per check, in the order of the checks.
    pub findings: Vec<Finding>,
    /// The variant that the tool needs, if there is such a tool.
    pub call_with: Option<Variant>,
    /// True if annotations or contract confirm the agent's variant. `None` if the call is refused.
    pub is_verified: Option<bool>,
}

/// One check and its verdict.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// The name of the check, such as `rate limit`.
    pub check: &'static str,
    pub verdict: Verdict,
}

/// The result of one check.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Passed, with the reason.
    Passed(String),
    Warned(Vec<Warning>),
    Failed(Denial),
    /// An earlier check refused the call.
    NotReached,
}

impl Explanation {
    /// Returns the refusal, if the call is refused.
    pub fn denial(&self) -> Option<&Denial> {
        self.findings.iter().find_map(|finding| match &finding.verdict {
            Verdict::Failed(denial) => Some(denial),
            Verdict::Passed(_) | Verdict::Warned(_) | Verdict::NotReached => None,
        })
    }
}

/// Decides on a call without making it. `parameters` are those of a `call_tool_*` and have passed the strict reader.
pub fn explain(
    inputs: DecisionInputs<'_>,
    agent: &Agent,
    variant: Variant,
    parameters: &str,
    moment: Moment<'_>,
) -> Explanation {
    let declared = match declare(variant, parameters, inputs.intent.two_key) {
        Ok(declared) => declared,
        Err(denial) => {
            let call = CallSummary { tool: None, variant, mode: Mode::Real, agent };
            return report(call, &Found::default(), Some((checks::failed_in_declare(&denial), denial)));
        }
    };
    let tool = inputs.catalog.resolve(&declared.name);
    let mut candidate = Candidate::new(inputs, agent, &declared, tool, moment);
    let refusal = match checks::run(&mut candidate) {
        // Operators see the reason that an agent may not know.
        Some((index, Stop::Deny(denial))) => Some((index, candidate.quarantined().unwrap_or(denial))),
        Some((index, Stop::Ask(need))) => {
            Some((index, candidate.tool().map_or_else(|missing| missing, |tool| need.denial(tool, None))))
        }
        // A repeated call is answered from the store, so nothing is refused.
        Some((_, Stop::Repeat(_))) | None => None,
    };
    let is_verified = refusal.is_none().then_some(candidate.found.is_verified);
    Explanation { is_verified, ..report(candidate.summary(), &candidate.found, refusal) }
}

/// Gives each check its verdict. `refusal` is the index of the check that refused the call, and the refusal.
fn report(call: CallSummary<'_>, found: &Found, refusal: Option<(usize, Denial)>) -> Explanation {
    let verdict = |(index, row): (usize, &CheckRow)| {
        let warnings = found.warnings_of(index);
        let verdict = match &refusal {
            Some((failed, denial)) if index == *failed => Verdict::Failed(denial.clone()),
            Some((failed, _)) if index > *failed => Verdict::NotReached,
            None if !warnings.is_empty() => Verdict::Warned(warnings),
            Some(_) | None => Verdict::Passed((row.passed)(call)),
        };
        Finding { check: row.name, verdict }
    };
    let findings = CHECKS.iter().enumerate().map(verdict).collect();
    Explanation { findings, call_with: call.tool.map(Tool::call_with), is_verified: None }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::catalog::{Catalog, Offer, Offered};
    use crate::decision::PriorState;
    use crate::limits::Limits;
    use crate::policy::Clock;
    use crate::settings::{ContractSettings, IntentSettings};
    use crate::{Scope, ServerName};

    const PLAIN: &str = r#"{"name":"drop","inputSchema":{},"annotations":{"destructiveHint":true}}"#;

    fn check(parameters: &str, variant: Variant, expected: &[&str]) {
        let lines = lines(PLAIN, Scope::everything(), parameters, variant, PriorState::default());
        assert_eq!(lines, expected);
    }

    fn lines(tool: &str, scope: Scope, parameters: &str, variant: Variant, prior: PriorState) -> Vec<String> {
        let server = ServerName::parse("fx").unwrap();
        let catalog = Catalog::new([(server.clone(), Arc::new(Offer::new([Offered::parse(&server, tool)]).0))]);
        let agent = Agent { name: "a1".to_owned(), scope };
        let (intent, contracts) = (IntentSettings::default(), ContractSettings::default());
        let inputs = DecisionInputs { intent: &intent, contracts: &contracts, catalog: &catalog };
        let moment = Moment { clock: Clock::default(), limits: &Limits::default(), prior, session_began_ms: None };
        let found = explain(inputs, &agent, variant, parameters, moment);
        found
            .findings
            .iter()
            .map(|finding| match &finding.verdict {
                Verdict::Passed(why) => format!("{}: passed, {why}", finding.check),
                Verdict::Warned(_) => format!("{}: warned", finding.check),
                Verdict::Failed(denial) => format!("{}: failed, {}", finding.check, denial.code()),
                Verdict::NotReached => format!("{}: not reached", finding.check),
            })
            .collect()
    }

    /// A dry run, the call it is for, and that call after it: from the permissions on.
    #[test]
    fn dry_runs_are_told_apart() {
        let tool = r#"{"name":"drop","inputSchema":{},"_meta":{"mcp-first/contract":
            {"riskLevel":"high","dryRun":"required","permissions":["a:b"]}}}"#;
        let narrow = || Scope { grants: Vec::new(), ..Scope::everything() };
        let told = |scope, parameters: &str, prior| lines(tool, scope, parameters, Variant::Write, prior).split_off(5);
        let covers = "permissions and policies: passed, the token allows write operations on this tool and has a:b";
        let rest = ["arguments: passed, as the schema asks", "rate limit: passed, none"];
        let dry_run = ["dry run: passed, this is one", "confirmation: passed, not needed for a dry run"];
        let call = r#"{"name":"fx:drop"}"#;
        let trial = r#"{"name":"fx:drop","dry_run":true}"#;
        let none = PriorState::default();
        assert_eq!(told(Scope::everything(), trial, none), [&[covers], &rest[..], &dry_run].concat());
        let lacks = "permissions and policies: passed, the token lacks a:b, so a real call would be refused";
        assert_eq!(told(narrow(), trial, none), [&[lacks], &rest[..], &dry_run].concat());
        let first = ["dry run: failed, dry_run_required", "confirmation: not reached"];
        assert_eq!(told(Scope::everything(), call, none), [&[covers], &rest[..], &first].concat());
        let then = ["dry run: passed, made in the last 10 minutes", "confirmation: failed, confirmation_required"];
        let prior = PriorState { dry_run_ms: Some(0), is_repeat: false };
        assert_eq!(told(Scope::everything(), call, prior), [&[covers], &rest[..], &then].concat());
        let unknown = lines(tool, narrow(), r#"{"name":"fx:drop","approval_id":"x"}"#, Variant::Write, none);
        assert_eq!(unknown[0], "shape and intent fields: failed, approval_not_found");
        assert_eq!(unknown[9], "confirmation: not reached");
    }

    #[test]
    fn each_check_is_told_in_order() {
        check(
            r#"{"name":"fx:drop"}"#,
            Variant::Read,
            &[
                "shape and intent fields: passed, well-formed",
                "two keys: passed, nothing contradicts call_tool_read",
                "the tool exists: passed, fx:drop needs call_tool_destructive",
                "server annotations: failed, SERVER_MISMATCH",
                "the contract's operation: not reached",
                "permissions and policies: not reached",
                "arguments: not reached",
                "rate limit: not reached",
                "dry run: not reached",
                "confirmation: not reached",
            ],
        );
        check(
            r#"{"name":"fx:drop"}"#,
            Variant::Destructive,
            &[
                "shape and intent fields: passed, well-formed",
                "two keys: passed, nothing contradicts call_tool_destructive",
                "the tool exists: passed, fx:drop needs call_tool_destructive",
                "server annotations: passed, readOnlyHint not given, destructiveHint true",
                "the contract's operation: passed, the tool has no contract",
                "permissions and policies: passed, the token allows destructive operations on this tool",
                "arguments: passed, as the schema asks",
                "rate limit: passed, none",
                "dry run: passed, not required",
                "confirmation: passed, not required",
            ],
        );
        check(
            r#"{"name":"fx:drop","intent":{"operation_type":"write"}}"#,
            Variant::Read,
            &[
                "shape and intent fields: passed, well-formed",
                "two keys: failed, INTENT_MISMATCH",
                "the tool exists: not reached",
                "server annotations: not reached",
                "the contract's operation: not reached",
                "permissions and policies: not reached",
                "arguments: not reached",
                "rate limit: not reached",
                "dry run: not reached",
                "confirmation: not reached",
            ],
        );
    }
}
