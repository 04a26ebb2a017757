//! The order of the checks: in the list, in `explain` and in `decide`.

use serde_json::json;

use super::*;
use crate::decision::checks::CHECKS;

/// The order, written down a second time on purpose: a check that moves or goes away must change this list too.
const ORDER: [&str; 10] = [
    "shape and intent fields",
    "two keys",
    "the tool exists",
    "server annotations",
    "the contract's operation",
    "permissions and policies",
    "arguments",
    "rate limit",
    "dry run",
    "confirmation",
];
/// The code of each check's refusal in the call below.
const CODES: [&str; 10] = [
    "unknown_field",
    "INTENT_MISMATCH",
    "tool_not_found",
    "SERVER_MISMATCH",
    "contract_mismatch",
    "permission_denied",
    "invalid_arguments",
    "rate_limit_exceeded",
    "dry_run_required",
    "confirmation_required",
];

/// A write call that violates the checks from the one with this index on.
struct Case {
    first_violated: usize,
}

impl Case {
    fn passes(&self, check: &str) -> bool {
        ORDER.iter().position(|name| *name == check).unwrap() < self.first_violated
    }

    fn pick<T>(&self, check: &str, good: T, bad: T) -> T {
        if self.passes(check) { good } else { bad }
    }

    fn parameters(&self) -> String {
        let mut parameters = json!({
            "name": self.pick("the tool exists", "fx:drop", "fx:gone"),
            "intent": {"operation_type": self.pick("two keys", "write", "read")},
            "args": self.pick("arguments", json!({"x": 1}), json!({})),
        });
        if !self.passes("shape and intent fields") {
            parameters["surprise"] = 1.into();
        }
        parameters.to_string()
    }

    fn tool(&self) -> String {
        let contract = json!({
            "operation": self.pick("the contract's operation", "write", "destructive"),
            "riskLevel": self.pick("confirmation", "low", "high"),
            "permissions": ["a:b"],
            "rateLimit": {"calls": 1, "per": "1m"},
            "dryRun": "required",
        });
        let annotations = self.pick("server annotations", json!({}), json!({"destructiveHint": true}));
        let schema = json!({"type": "object", "required": ["x"]});
        json!({"name": "drop", "inputSchema": schema, "annotations": annotations, "_meta": {"mcp-first/contract": contract}})
            .to_string()
    }

    fn scope(&self) -> Scope {
        let everything = Scope::everything();
        let grants = self.pick("permissions and policies", everything.grants.clone(), Vec::new());
        Scope { grants, ..everything }
    }
}

/// Runs `explain` and `decide` on the same call. Returns the failed check with its code, and the code from `decide`.
fn refusals(case: &Case) -> (Vec<&'static str>, Option<(&'static str, &'static str)>, Option<&'static str>) {
    let server = ServerName::parse("fx").unwrap();
    let (offer, hidden) = Offer::new([Offered::parse(&server, &case.tool())]);
    assert!(hidden.is_empty());
    let catalog = Catalog::new([(server, Arc::new(offer))]);
    let agent = Agent { name: "a1".to_owned(), scope: case.scope() };
    let (intent, contracts) = (IntentSettings::default(), ContractSettings::default());
    let inputs = DecisionInputs { intent: &intent, contracts: &contracts, catalog: &catalog };
    let limits = Limits::default();
    if let Some(tool) = catalog.visible(&agent.scope).next().filter(|_| !case.passes("rate limit")) {
        limits.take(&tool.name, tool.contract.rate_limit.as_ref().unwrap().value, 0).unwrap();
    }
    let prior = PriorState { dry_run_ms: case.pick("dry run", Some(0), None), is_repeat: false };
    let moment = Moment { clock: Clock::default(), limits: &limits, prior, session_began_ms: None };

    let explanation = explain(inputs, &agent, Variant::Write, &case.parameters(), moment);
    let names = explanation.findings.iter().map(|finding| finding.check).collect();
    let failed = explanation.findings.iter().find_map(|finding| match &finding.verdict {
        Verdict::Failed(denial) => Some((finding.check, denial.code())),
        Verdict::Passed(_) | Verdict::Warned(_) | Verdict::NotReached => None,
    });
    let decided = match intent::declare(Variant::Write, &case.parameters(), intent.two_key) {
        Err(denial) => Some(denial.code()),
        Ok(declared) => {
            let tool = catalog.resolve(&declared.name);
            match decide(inputs, &agent, declared, tool, moment) {
                Decision::Deny(denial) => Some(denial.code()),
                Decision::Ask(request) => Some(request.unrequested().code()),
                Decision::Allow(_) => None,
                Decision::Preview(_) | Decision::Repeat(_) => Some("not a real call"),
            }
        }
    };
    (names, failed, decided)
}

/// Starts with a call that violates every check, and repairs it check by check. The failed check moves down the list.
#[test]
fn explain_and_decide_walk_the_list_in_order() {
    assert_eq!(CHECKS.map(|row| row.name), ORDER);
    for first_violated in 0..=ORDER.len() {
        let (names, failed, decided) = refusals(&Case { first_violated });
        let expected = ORDER.get(first_violated).copied().zip(CODES.get(first_violated).copied());
        assert_eq!(names, ORDER);
        assert_eq!(failed, expected);
        assert_eq!(decided, expected.map(|(_, code)| code));
    }
}

/// Reads the numbered list under "The order of checks". Each entry begins with the name of a check in bold.
#[test]
fn the_page_about_policies_lists_the_checks_in_order() {
    let page = include_str!("../../../../../docs/policies.md");
    let (_, list) = page.split_once("## The order of checks").unwrap();
    let names = list.lines().filter_map(|line| line.split_once(". **")?.1.split_once(".**"));
    let names: Vec<String> = names.map(|(name, _)| name.to_lowercase()).collect();
    assert_eq!(names, ORDER, "docs/policies.md");
}
