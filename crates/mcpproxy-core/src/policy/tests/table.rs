//! Table of calls and the policies that forbid them. Covers every attribute of the schema.

use super::*;
use crate::contract::{Confirmation, Source, Sourced};
use crate::time;
use crate::{RiskLevel, Sensitivity};

fn sourced<T>(value: T) -> Sourced<T> {
    Sourced { value, source: Source::Server }
}

/// Returns a tool whose contract has a value in every field that policies can read.
fn full() -> Facts {
    let hints = Hints { read_only: Some(true), destructive: Some(true) };
    let contract = Effective {
        category: Some(sourced("billing".to_owned())),
        risk: Some(sourced(RiskLevel::High)),
        operation: Some(sourced(Variant::Destructive)),
        confirmation: sourced(Confirmation::Required),
        permissions: sourced(vec!["billing:pay".to_owned()]),
        side_effects: sourced(vec![Untrusted::new("Money moves.")]),
        audit_event: Some(sourced("bill.paid".to_owned())),
        is_written: true,
        is_operators: true,
        ..Effective::of(&[], None, hints)
    };
    Facts::of(Subject { name: &ToolName::parse("bank:pay").unwrap(), hints, contract: &contract })
}

/// An agent named `laptop`, at 03:05 on Sunday, 15 November 2026, in UTC+2.
fn special() -> (Agent, Facts, Intent, Clock) {
    let scope = Scope { grants: vec!["billing:*".to_owned()], ..Scope::read_only() };
    let intent = Intent {
        variant: Variant::Destructive,
        is_declared: true,
        sensitivity: Some(Sensitivity::Private),
        reason: Some(Untrusted::new("monthly")),
    };
    (Agent { name: "laptop".to_owned(), scope }, full(), intent, time::parse("2026-11-15T03:05:00+02:00").unwrap())
}

/// An agent named `phone`, at noon on a Monday, with a tool that has no contract and no annotations.
fn plain() -> (Agent, Facts, Intent, Clock) {
    (agent("phone"), facts("mail:send"), intent(Variant::Write), time::parse("2026-12-14T12:00:00Z").unwrap())
}

#[test]
fn every_word_of_the_schema_matters() {
    let matters = |scope: &str, condition: &str| {
        let clause = if condition.is_empty() { String::new() } else { format!("when {{ {condition} }}") };
        let policies = policies(&format!("@id(\"r\") forbid ({scope}) {clause};"));
        let refused = |(agent, tool, intent, clock): (Agent, Facts, Intent, Clock)| {
            refusals(&policies, &agent, &tool, &intent, clock) == ["r"]
        };
        assert!(refused(special()), "{scope} {condition}: the special call passes");
        assert!(!refused(plain()), "{scope} {condition}: the plain call is refused");
    };
    for scope in [
        "principal == Agent::\"laptop\", action, resource",
        "principal in Agent::\"laptop\", action, resource",
        "principal is Agent in Agent::\"laptop\", action, resource",
        "principal, action == Action::\"destructive\", resource",
        "principal, action in [Action::\"destructive\", Action::\"read\"], resource",
        "principal, action, resource == Tool::\"bank:pay\"",
        "principal, action, resource in Tool::\"bank:pay\"",
        "principal, action, resource in Server::\"bank\"",
        "principal, action, resource in Category::\"billing\"",
        "principal, action, resource is Tool in Category::\"billing\"",
    ] {
        matters(scope, "");
    }
    for condition in [
        "principal.name == \"laptop\"",
        "principal == Agent::\"laptop\"",
        "principal.grants.contains(\"billing:*\")",
        "!principal.operations.contains(\"write\")",
        "action == Action::\"destructive\"",
        "action in [Action::\"destructive\"]",
        "resource.name == \"bank:pay\"",
        "resource.server == \"bank\"",
        "resource.tool like \"p*y\"",
        "resource in [Server::\"bank\", Server::\"cash\"]",
        "resource in Category::\"billing\"",
        "resource.category == \"billing\"",
        "resource.risk == \"high\"",
        "resource.riskRank >= 3",
        "resource.operation == \"destructive\"",
        "resource.permissions.contains(\"billing:pay\")",
        "resource.sideEffects.contains(\"Money moves.\")",
        "resource.needs.contains(\"confirmation\")",
        "resource.auditEvent == \"bill.paid\"",
        "resource.hasContract",
        "resource.readOnlyHint",
        "resource.destructiveHint",
        "context.variant == \"destructive\"",
        "context.sensitivity == \"private\"",
        "context.hasReason",
        "context.now < datetime(\"2026-11-15T02:00:00Z\")",
        "context.now.toTime() < duration(\"2h\")",
        "context.time.hour == 3",
        "context.time.minute == 5",
        "context.time.minuteOfDay == 185",
        "context.time.weekday == \"sunday\"",
        "context.time.isWeekend",
        "context[\"time\"][\"hour\"] == 3",
        "context[\"t\\u{69}me\"].hour == 3",
        "action in Action::\"call\" && resource.riskRank > 2",
    ] {
        matters("principal, action, resource", condition);
    }
}

#[test]
fn unknown_values_have_a_name() {
    let (agent, tool, intent, clock) = plain();
    for condition in [
        "resource.category == \"\" && resource.auditEvent == \"\"",
        "resource.risk == \"unclassified\" && resource.riskRank == 0",
        "resource.operation == \"unknown\"",
        "resource.permissions.isEmpty() && resource.sideEffects.isEmpty() && resource.needs.isEmpty()",
        "context.sensitivity == \"unknown\" && !context.hasReason",
        "principal.grants.isEmpty()",
    ] {
        let policies = policies(&format!("@id(\"r\") forbid (principal, action, resource) when {{ {condition} }};"));
        assert_eq!(refusals(&policies, &agent, &tool, &intent, clock), ["r"], "{condition}");
    }
}

#[test]
fn all_that_forbid_are_named_in_their_order() {
    let text = "// Two files would do the same.\n\
        @id(\"tool\") @message(\"Ask \\u{1b}[2J Anna\")\nforbid (principal, action, resource == Tool::\"bank:pay\");\n\
        forbid (principal == Agent::\"phone\", action, resource);\n\
        @id(\"read\") forbid (principal, action == Action::\"read\", resource);\n\
        @id(\"any\") forbid (principal, action, resource)\n  when { resource.riskRank >= 3 } // high\n  \
        unless { context.hasReason && context.sensitivity == \"public\" } when { true };\n\
        @id(\"broken\") forbid (principal, action, resource in Server::\"bank\") when { \
        9223372036854775807 + context.time.hour > 0 };";
    let policies = policies(text);
    let (agent, tool, intent, clock) = special();
    let tool_policies = policies.for_facts(&tool).unwrap();
    let call = tool::Call { agent: &agent, tool: &tool.name, intent: &intent, clock };
    let outcomes = tool_policies.outcomes(call, || tool.clone());
    let shown: Vec<String> =
        outcomes.iter().map(|(policy, it)| format!("{} (line {}): {it:?}", policy.id, policy.line)).collect();
    assert_eq!(
        shown,
        [
            "tool (line 2): Forbids",
            "a.cedar:4 (line 4): OtherAgent",
            "read (line 5): OtherVariant",
            "any (line 6): Forbids",
            "broken (line 9): Failed(\"integer overflow while attempting to add the values `9223372036854775807` and `3`\")",
        ]
    );
    let considered: Vec<&str> = tool_policies.considered().iter().map(|policy| policy.id.as_str()).collect();
    assert_eq!(considered, ["tool", "a.cedar:4", "read", "any", "broken"]);
    let violation = |policy: &str, line, message: Option<&str>| Violation {
        policy: policy.to_owned(),
        file: "a.cedar".into(),
        line,
        message: message.map(str::to_owned),
    };
    assert_eq!(
        tool::violations(outcomes),
        [
            violation("tool", 2, Some("Ask \\u{1b}[2J Anna")),
            violation("any", 6, None),
            violation(
                "broken",
                9,
                Some("the policy could not be evaluated, so it forbids the call; tell the operator")
            ),
        ]
    );
    let texts: Vec<&str> = policies.iter().map(|policy| policy.text.as_str()).collect();
    assert_eq!(texts.get(1), Some(&"forbid (principal == Agent::\"phone\", action, resource);"));
}

#[test]
fn a_time_cedar_cannot_say_refuses() {
    let policies =
        policies("@id(\"r\") forbid (principal, action, resource) when { context.now < datetime(\"1970-01-01\") };");
    let (agent, tool, intent, _) = plain();
    let far = Clock { now_ms: i64::MAX, utc_offset_s: 0 };
    assert_eq!(refusals(&policies, &agent, &tool, &intent, far), ["r"]);
    assert_eq!(refusals(&policies, &agent, &tool, &intent, Clock::default()), Vec::<String>::new());
}

#[test]
fn a_tool_that_no_policy_is_about_has_none() {
    let policies = policies("forbid (principal, action, resource in Server::\"bank\") when { context.hasReason };");
    assert!(policies.for_facts(&facts("bank:pay")).is_some());
    assert!(policies.for_facts(&facts("banks:pay")).is_none());
    assert!(policies.for_facts(&facts("x:bank")).is_none());
    assert!(Policies::default().is_empty() && !policies.is_empty());
    // A tool without a category is not in the category "".
    let nameless = self::policies("forbid (principal, action, resource in Category::\"\");");
    assert!(nameless.for_facts(&facts("bank:pay")).is_none());
}

#[test]
fn scopes_name_agent_variants_and_tools() {
    let scope = |text: &str| {
        let policies = policies(&format!("forbid ({text});"));
        format!("{:?}", policies.iter().next().unwrap().scope)
    };
    assert_eq!(
        scope("principal, action, resource"),
        "Scope { agent: None, variants: [Read, Write, Destructive], resource: Any }"
    );
    assert_eq!(
        scope("principal == Agent::\"a\", action == Action::\"read\", resource in Server::\"s\""),
        "Scope { agent: Some(\"a\"), variants: [Read], resource: Server(\"s\") }"
    );
    assert_eq!(
        scope("principal, action in [Action::\"write\"], resource in Category::\"c\""),
        "Scope { agent: None, variants: [Write], resource: Category(\"c\") }"
    );
    assert_eq!(
        scope("principal, action in Action::\"call\", resource == Tool::\"s:t\""),
        "Scope { agent: None, variants: [Read, Write, Destructive], resource: Tool(\"s:t\") }"
    );
}

#[test]
fn the_schema_of_the_documentation_is_the_one_in_use() {
    vocabulary::vocabulary().unwrap();
    assert!(SCHEMA.contains("entity Tool in [Server, Category]"));
    // The examples in the schema's comments are valid policies.
    let example: Vec<&str> = SCHEMA.lines().filter_map(|line| line.strip_prefix("//   ")).collect();
    let example = example.join("\n");
    assert_eq!(policies(&example).iter().count(), 3);
}
