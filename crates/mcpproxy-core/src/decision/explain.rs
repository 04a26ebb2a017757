//! Explains a decision check by check, without making the call.

use super::call::Call;
use super::{ApprovalRequest, Course, DecisionInputs, Moment, Passed, Warning, check_all, checks};
use crate::catalog::Tool;
use crate::contract::DryRun;
use crate::denial::{Check, Denial};
use crate::intent::{Declared, Mode, declare};
use crate::{Agent, RiskLevel, Variant};

/// A decision with its reasons. It is made by the same functions that decide on real calls.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Explanation {
    pub findings: Vec<Finding>,
    /// The variant that the tool needs, if the tool exists.
    pub call_with: Option<Variant>,
    /// True if the server's annotations or the operator confirm the agent's variant. `None` if the call is refused.
    pub is_verified: Option<bool>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    pub check: Check,
    pub verdict: Verdict,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    Passed(String),
    Warned(Vec<Warning>),
    Failed(Denial),
    /// An earlier check refused the call.
    NotReached,
}

impl Explanation {
    pub fn denial(&self) -> Option<&Denial> {
        self.findings.iter().find_map(|finding| match &finding.verdict {
            Verdict::Failed(denial) => Some(denial),
            Verdict::Passed(_) | Verdict::Warned(_) | Verdict::NotReached => None,
        })
    }
}

/// Decides on a call without making it. `parameters` are those of a `call_tool_*` and have passed the strict reader.
pub fn explain(
    ground: DecisionInputs<'_>,
    agent: &Agent,
    variant: Variant,
    parameters: &str,
    moment: Moment<'_>,
) -> Explanation {
    let declared = match declare(variant, parameters, ground.intent.two_key) {
        Ok(declared) => declared,
        Err(denial) => {
            return told(Err(denial), Case { tool: None, variant, mode: Mode::Real, agent });
        }
    };
    let tool = ground.catalog.resolve(&declared.name);
    let seen = tool.filter(|tool| agent.scope.sees(tool.name.server()));
    let tool = seen.map(AsRef::as_ref);
    let mode = tool.map_or(declared.mode, |tool| declared.mode_of(tool));
    let case = Case { tool, variant, mode, agent };
    match check_all(ground, agent, &declared, seen, moment) {
        Err(denial) => told(Err(denial), case),
        Ok(Passed { tool, warnings, is_verified, claim, course: Course::Ask(asked) }) => {
            let Declared { intent, arguments, attached, .. } = declared;
            let call = Call { tool, intent, arguments, attached, warnings, is_verified, claim };
            told(Err(ApprovalRequest { call, asked }.unanswered()), case)
        }
        Ok(Passed { warnings, is_verified, .. }) => {
            let mut explanation = told(Ok(warnings), case);
            explanation.is_verified = Some(is_verified);
            explanation
        }
    }
}

/// The call that the sentences describe.
#[derive(Clone, Copy)]
struct Case<'a> {
    tool: Option<&'a Tool>,
    variant: Variant,
    mode: Mode,
    agent: &'a Agent,
}

fn told(outcome: Result<Vec<Warning>, Denial>, case: Case<'_>) -> Explanation {
    let verdict = |check: Check| match &outcome {
        Err(denial) if check == denial.check() => Verdict::Failed(denial.clone()),
        Err(denial) if check > denial.check() => Verdict::NotReached,
        Ok(warnings) if check == Check::Annotations && !warnings.is_empty() => Verdict::Warned(warnings.clone()),
        Ok(_) | Err(_) => Verdict::Passed(passed(check, case)),
    };
    let findings = Check::ALL.map(|check| Finding { check, verdict: verdict(check) }).to_vec();
    Explanation { findings, call_with: case.tool.map(Tool::call_with), is_verified: None }
}

fn passed(check: Check, case: Case<'_>) -> String {
    let Case { tool, variant, mode, agent } = case;
    match check {
        Check::Shape => "well-formed".to_owned(),
        Check::TwoKeys => format!("nothing contradicts {}", variant.tool()),
        Check::Exists => {
            tool.map_or_else(String::new, |tool| format!("{} asks for {}", tool.name, tool.call_with().tool()))
        }
        Check::Annotations => tool.map_or_else(String::new, |tool| {
            let hint = |name: &str, value: Option<bool>| match value {
                None => format!("{name} not given"),
                Some(value) => format!("{name} {value}"),
            };
            let hints = tool.hints;
            format!("{}, {}", hint("readOnlyHint", hints.read_only), hint("destructiveHint", hints.destructive))
        }),
        Check::Contract => tool.map_or_else(String::new, contract_words),
        Check::Permissions => tool.map_or_else(String::new, |tool| permission_words(agent, tool, variant)),
        Check::Arguments => "as the schema asks".to_owned(),
        Check::RateLimit => match tool.and_then(|tool| tool.contract.rate_limit.as_ref()) {
            Some(limit) => format!("fewer than {} calls in {} s", limit.value.calls, limit.value.per.as_secs()),
            None => "none".to_owned(),
        },
        Check::DryRun => match (mode, tool.map(|tool| &tool.contract.dry_run.value)) {
            (Mode::DryRun, _) => "this is one".to_owned(),
            (Mode::Real, Some(DryRun::Required { .. })) => "made in the last 10 minutes".to_owned(),
            (Mode::Real, None | Some(DryRun::None | DryRun::Supported { .. })) => "not required".to_owned(),
        },
        Check::Confirmation => match mode {
            Mode::DryRun => "not asked for a dry run".to_owned(),
            Mode::Real => "not required".to_owned(),
        },
    }
}

fn permission_words(agent: &Agent, tool: &Tool, variant: Variant) -> String {
    let missing = checks::missing_permissions(agent, tool);
    if !missing.is_empty() {
        // Only a dry run gets this far without them.
        return format!("the token lacks {}, which refuses a real call", missing.join(", "));
    }
    let permissions = match tool.contract.permissions.value.as_slice() {
        [] => String::new(),
        some => format!(", and {}", some.join(", ")),
    };
    let policies = match tool.policies().map_or(0, |policies| policies.considered().len()) {
        0 => String::new(),
        1 => "; the one policy about it does not forbid it".to_owned(),
        count => format!("; none of the {count} policies about it forbids it"),
    };
    format!("the token covers {variant} operations on this tool{permissions}{policies}")
}

fn contract_words(tool: &Tool) -> String {
    let risk = tool.contract.risk().map_or("unclassified", RiskLevel::as_str);
    match (tool.contract.is_written, tool.contract.written_operation) {
        (false, _) => "nobody wrote a contract".to_owned(),
        (true, None) => format!("risk level {risk}, and no operation"),
        (true, Some(operation)) => format!("risk level {risk}, and {operation}"),
    }
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

    fn lines(tool: &str, scope: Scope, parameters: &str, variant: Variant, seen: PriorState) -> Vec<String> {
        let server = ServerName::parse("fx").unwrap();
        let catalog = Catalog::new([(server.clone(), Arc::new(Offer::new([Offered::parse(&server, tool)]).0))]);
        let agent = Agent { name: "a1".to_owned(), scope };
        let (intent, contracts) = (IntentSettings::default(), ContractSettings::default());
        let ground = DecisionInputs { intent: &intent, contracts: &contracts, catalog: &catalog };
        let moment = Moment { clock: Clock::default(), limits: &Limits::default(), seen };
        let found = explain(ground, &agent, variant, parameters, moment);
        found
            .findings
            .iter()
            .map(|finding| match &finding.verdict {
                Verdict::Passed(why) => format!("{}: passed, {why}", finding.check.words()),
                Verdict::Warned(_) => format!("{}: warned", finding.check.words()),
                Verdict::Failed(denial) => format!("{}: failed, {}", finding.check.words(), denial.code()),
                Verdict::NotReached => format!("{}: not reached", finding.check.words()),
            })
            .collect()
    }

    /// Explains a dry run, its real call before it, and the same call after it.
    #[test]
    fn dry_runs_are_told_apart() {
        let tool = r#"{"name":"drop","inputSchema":{},"_meta":{"mcp-first/contract":
            {"riskLevel":"high","dryRun":"required","permissions":["a:b"]}}}"#;
        let narrow = || Scope { grants: Vec::new(), ..Scope::everything() };
        let told = |scope, parameters: &str, seen| lines(tool, scope, parameters, Variant::Write, seen).split_off(5);
        let covers = "permissions and policies: passed, the token covers write operations on this tool, and a:b";
        let rest = ["arguments: passed, as the schema asks", "rate limit: passed, none"];
        let dry_run = ["dry run: passed, this is one", "confirmation: passed, not asked for a dry run"];
        let call = r#"{"name":"fx:drop"}"#;
        let trial = r#"{"name":"fx:drop","dry_run":true}"#;
        let none = PriorState::default();
        assert_eq!(told(Scope::everything(), trial, none), [&[covers], &rest[..], &dry_run].concat());
        let lacks = "permissions and policies: passed, the token lacks a:b, which refuses a real call";
        assert_eq!(told(narrow(), trial, none), [&[lacks], &rest[..], &dry_run].concat());
        let first = ["dry run: failed, dry_run_required", "confirmation: not reached"];
        assert_eq!(told(Scope::everything(), call, none), [&[covers], &rest[..], &first].concat());
        let then = ["dry run: passed, made in the last 10 minutes", "confirmation: failed, confirmation_required"];
        let seen = PriorState { dry_run_ms: Some(0), is_repeat: false };
        assert_eq!(told(Scope::everything(), call, seen), [&[covers], &rest[..], &then].concat());
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
                "the tool exists: passed, fx:drop asks for call_tool_destructive",
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
                "the tool exists: passed, fx:drop asks for call_tool_destructive",
                "server annotations: passed, readOnlyHint not given, destructiveHint true",
                "the contract's operation: passed, nobody wrote a contract",
                "permissions and policies: passed, the token covers destructive operations on this tool",
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
