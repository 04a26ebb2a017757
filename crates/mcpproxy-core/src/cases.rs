//! Test cases that operators write for their contracts and policies: a call, and the decision that it must get.
//!
//! A case names a tool, and the decision is the one of live calls ([`decide`]), on the contracts, policies and settings
//! that are tested. The tool is one that its server listed, or a bare tool if the server's list is not known:
//!
//! ```yaml
//! - tool: mail:send
//!   args: { to: [kim@example.com] }
//!   expect: step_up
//! ```
//!
//! A case may also describe an imaginary tool (`tool: { name: mail:send, risk: high }`). With `expect: allow` or
//! `expect: deny`, only the policies are asked about it, because its contract is not whole. With any other expectation,
//! the description counts as the contract.

mod imagined;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::catalog::{Offer, Tool};
use crate::contract::Contracts;
use crate::decision::{Decision, DecisionInputs, Moment, PriorState, Ruling, decide};
use crate::denial::{Denial, Violation};
use crate::file::{self, Author, Fields, FileKind, Format, Keys, Mistake, Mistakes, Node, NodeValue, Reader};
use crate::intent::{Arguments, Declared, Mode};
use crate::limits::Limits;
use crate::policy::facts::Facts;
use crate::policy::tool::{Call, violations};
use crate::policy::{Clock, Policies};
use crate::replay::Rules;
use crate::time;
use crate::{Agent, Hints, Intent, RiskLevel, Scope, Sensitivity, ServerName, ToolName, Untrusted, Variant, nearest};

const CASES_MAX: usize = 10_000;
/// The time of a case without one: neither night nor weekend.
const USUAL_TIME: &str = "12:00 monday";

/// One call and its expected outcome.
#[derive(Clone, Debug)]
pub struct Case {
    pub name: String,
    pub line: usize,
    pub expect: Expect,
    /// The policy that must refuse the call. Others may refuse it too.
    pub policy: Option<String>,
    agent: Agent,
    /// True if the case gives the agent's permissions. Otherwise a whole decision assumes all of them.
    has_grants: bool,
    tool: Facts,
    /// True if the case describes the tool, and not only its name and annotations.
    is_described: bool,
    /// True if the case gives the variant. Otherwise a whole decision uses the one that the tool needs.
    has_variant: bool,
    intent: Intent,
    arguments: Arguments,
    mode: Mode,
    has_dry_run: bool,
    clock: Clock,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Expect {
    /// Refused, for whatever reason.
    Deny,
    Ruling(Ruling),
}

impl std::fmt::Display for Expect {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Deny => f.write_str("deny"),
            Self::Ruling(ruling) => ruling.fmt(f),
        }
    }
}

/// The result of a test case.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Verdict {
    /// The difference from the expectation. `None` if the case passed.
    pub failure: Option<String>,
    /// The decision.
    pub found: Ruling,
    /// The reason: the refusal, or the fields of the contract that ask for a user.
    pub why: Vec<String>,
    /// The policies that refuse the call.
    pub deciding: Vec<Violation>,
}

/// Runs one case.
pub fn run(rules: &Rules, policies: &Policies, case: &Case) -> Verdict {
    let is_about_policies = match case.expect {
        Expect::Deny | Expect::Ruling(Ruling::Allow) => case.is_described,
        Expect::Ruling(_) => false,
    };
    let (found, why, deciding) = if is_about_policies { by_policies(policies, case) } else { by_all(rules, case) };
    Verdict { failure: failure(policies, case, &found, &deciding), found, why, deciding }
}

type Found = (Ruling, Vec<String>, Vec<Violation>);

/// Asks only the policies, about the tool as the case describes it.
fn by_policies(policies: &Policies, case: &Case) -> Found {
    let call = Call { agent: &case.agent, tool: &case.tool.name, intent: &case.intent, clock: case.clock };
    let tool_policies = policies.for_facts(&case.tool);
    let deciding =
        tool_policies.map_or_else(Vec::new, |policies| violations(policies.outcomes(call, || case.tool.clone())));
    if deciding.is_empty() {
        return (Ruling::Allow, Vec::new(), deciding);
    }
    let denial = Denial::PolicyViolation { tool: case.tool.name.clone(), violations: deciding.clone() };
    (Ruling::of_denial(&denial), vec![denial.message()], deciding)
}

/// Makes the decision that a live call would get.
fn by_all(rules: &Rules, case: &Case) -> Found {
    let imagined = case.is_described.then(|| imagined::rules(rules, &case.tool));
    let rules = imagined.as_ref().unwrap_or(rules);
    let mut agent = case.agent.clone();
    if !case.has_grants {
        agent.scope.grants = Scope::everything().grants;
    }
    let tool = rules.catalog.resolve(&case.tool.name);
    let usual = tool.filter(|_| !case.has_variant).map(|tool| tool.call_with());
    let intent = Intent { variant: usual.unwrap_or(case.intent.variant), ..case.intent.clone() };
    let declared =
        Declared { mode: case.mode, ..Declared::plain(case.tool.name.clone(), intent, case.arguments.clone()) };
    let prior = PriorState { dry_run_ms: case.has_dry_run.then_some(case.clock.now_ms), is_repeat: false };
    let moment = Moment { clock: case.clock, limits: &Limits::default(), prior, session_began_ms: None };
    let settings = &rules.settings;
    let inputs = DecisionInputs { intent: &settings.intent, contracts: &settings.contracts, catalog: &rules.catalog };
    let decision = decide(inputs, &agent, declared, tool, moment);
    let ruling = Ruling::of(&decision);
    match decision {
        Decision::Deny(Denial::PolicyViolation { tool, violations }) => {
            let denial = Denial::PolicyViolation { tool, violations: violations.clone() };
            (ruling, vec![denial.message()], violations)
        }
        Decision::Deny(denial) => {
            let forbidden = rules.catalog.is_forbidden(&case.tool.name);
            let why = if forbidden { "a contract forbids the tool".to_owned() } else { denial.message() };
            (ruling, vec![why], Vec::new())
        }
        Decision::Ask(_) | Decision::Allow(_) | Decision::Preview(_) | Decision::Repeat(_) => {
            (ruling, tool.map(|tool| requirements(tool)).unwrap_or_default(), Vec::new())
        }
    }
}

/// Lists the fields of a contract that decide on approvals, with their sources.
fn requirements(tool: &Tool) -> Vec<String> {
    const FIELDS: [&str; 5] = ["riskLevel", "confirmation", "autonomousExecution", "stepUpAuth", "dryRun"];
    let fields = tool.contract.sources().into_iter().filter(|(field, ..)| FIELDS.contains(field));
    fields.map(|(field, value, source)| format!("{field}: {value} ({source})")).collect()
}

fn failure(policies: &Policies, case: &Case, found: &Ruling, deciding: &[Violation]) -> Option<String> {
    let is_expected = match &case.expect {
        Expect::Deny => found.is_refusal(),
        Expect::Ruling(ruling) => ruling == found,
    };
    if !is_expected {
        return Some(format!("expected {}, found {found}", case.expect));
    }
    let policy = case.policy.as_ref()?;
    if deciding.iter().any(|one| one.policy == *policy) {
        return None;
    }
    if !policies.iter().any(|one| one.id == *policy) {
        let near = nearest(policy, policies.iter().map(|one| one.id.as_str()));
        let hint = near.map(|near| format!("; did you mean `{near}`?")).unwrap_or_default();
        return Some(format!("there is no policy `{}`{hint}", Untrusted::shortened(policy, 64).for_terminal()));
    }
    let names: Vec<String> = deciding.iter().map(|one| format!("`{}`", one.policy)).collect();
    let others = if names.is_empty() { "by no policy".to_owned() } else { format!("by {}", names.join(", ")) };
    Some(format!("expected {} by policy `{policy}`, found {found} {others}", case.expect))
}

/// Adds a bare tool for each case whose server's list is not known, so that its contract can be tested.
pub fn with_bare_tools(offers: &BTreeMap<ServerName, Arc<Offer>>, cases: &[Case]) -> BTreeMap<ServerName, Arc<Offer>> {
    let mut bare: BTreeMap<ServerName, Vec<&Facts>> = BTreeMap::new();
    for case in cases.iter().filter(|case| !offers.contains_key(case.tool.name.server())) {
        bare.entry(case.tool.name.server().clone()).or_default().push(&case.tool);
    }
    let bare = bare.into_iter().map(|(server, tools)| (server, Arc::new(imagined::offer(tools))));
    offers.iter().map(|(server, offer)| (server.clone(), Arc::clone(offer))).chain(bare).collect()
}

/// Returns tools that neither a list nor a contract has. Most likely, their names are misspelt.
pub fn unnamed_tools(
    offers: &BTreeMap<ServerName, Arc<Offer>>,
    contracts: &Contracts,
    cases: &[Case],
) -> BTreeSet<ToolName> {
    let names = cases.iter().filter(|case| !case.is_described).map(|case| &case.tool.name);
    let unnamed = names.filter(|name| !offers.contains_key(name.server()) && contracts.matching(name).is_empty());
    unnamed.cloned().collect()
}

/// Reads a file of cases. A name that ends in `.json` is JSON, any other YAML.
pub fn parse(name: &str, text: &str) -> Result<Vec<Case>, Vec<Mistake>> {
    let mut mistakes = Mistakes::default();
    let documents = file::documents(text, Format::of_name(name), KIND, &mut mistakes);
    let mut reader = Reader::new(Author::Operator, (), &mut mistakes);
    let nodes: Vec<&Node> = documents.iter().flat_map(|document| nodes(&mut reader, document)).collect();
    let cases = match nodes.get(CASES_MAX) {
        Some(beyond) => {
            reader.report(beyond.position, format!("a file has at most {CASES_MAX} cases"));
            Vec::new()
        }
        None => nodes.iter().enumerate().filter_map(|(number, node)| case(&mut reader, node, number)).collect(),
    };
    let mistakes = mistakes.in_order();
    if mistakes.is_empty() { Ok(cases) } else { Err(mistakes) }
}

const KIND: FileKind =
    FileKind { values_max: 500_000, too_many: "spread the cases over several", empty: "write `[]` for no cases" };

const FILE: Keys = Keys { known: &["cases"], advice: &[] };
const CASE: Keys = Keys {
    known: &[
        "name",
        "agent",
        "tool",
        "args",
        "variant",
        "sensitivity",
        "reason",
        "dry_run",
        "after_dry_run",
        "time",
        "expect",
        "policy",
        "rule",
    ],
    advice: &[("arguments", "did you mean `args`?")],
};
const AGENT: Keys =
    Keys { known: &["name", "grants", "operations"], advice: &[("permissions", "did you mean `grants`?")] };
const TOOL: Keys = Keys {
    known: &["name", "risk", "category", "operation", "permissions", "sideEffects", "needs", "auditEvent", "hints"],
    advice: &[("riskLevel", "did you mean `risk`?")],
};
const HINTS: Keys = Keys { known: &["readOnlyHint", "destructiveHint"], advice: &[] };

const NEEDS: [(&str, &str); 3] = [("confirmation", "confirmation"), ("step_up", "step_up"), ("dry_run", "dry_run")];
const SENSITIVITIES: [Sensitivity; 4] =
    [Sensitivity::Public, Sensitivity::Internal, Sensitivity::Private, Sensitivity::Unknown];

/// Returns the cases of a document: its list, or the list below `cases`.
fn nodes<'n>(reader: &mut Reader<'_>, document: &'n Node) -> &'n [Node] {
    match &document.value {
        NodeValue::Object(_) => {
            let list = reader
                .fields(document, &FILE)
                .and_then(|fields| reader.required(document, &fields, "cases", "a list of cases"));
            list.and_then(|list| reader.array(list)).unwrap_or_default()
        }
        NodeValue::Array(nodes) => nodes,
        NodeValue::Null | NodeValue::Bool(_) | NodeValue::Number(_) | NodeValue::Text(_) | NodeValue::Broken => {
            reader.wrong_type(document, "a list of cases").unwrap_or_default()
        }
    }
}

/// Returns `None` only if there is a mistake.
fn case(reader: &mut Reader<'_>, node: &Node, number: usize) -> Option<Case> {
    let fields = reader.fields(node, &CASE)?;
    let tool = reader.required(node, &fields, "tool", "the tool to call, such as `tool: mail:send`");
    let tool = tool.and_then(|node| tool_facts(reader, node));
    let (agent, has_grants) =
        fields.find("agent").and_then(|member| agent(reader, &member.node)).unwrap_or_else(|| (test_agent(), false));
    let variant = reader.choice_of(&fields, "variant", &operations());
    let sensitivity = reader.choice_of(&fields, "sensitivity", &SENSITIVITIES.map(|one| (one.as_str(), one)));
    let reason = reader.string_of(&fields, "reason").map(Untrusted::new);
    let clock = clock(reader, &fields);
    let mode = if reader.boolean_of(&fields, "dry_run") == Some(true) { Mode::DryRun } else { Mode::Real };
    let has_dry_run = reader.boolean_of(&fields, "after_dry_run") == Some(true);
    let arguments = arguments(reader, &fields);
    let expect = reader.required(node, &fields, "expect", "the decision, such as `expect: allow`");
    let expect = expect.and_then(|node| reader.parsed(node, parse_expect));
    // `rule` is an older name of `policy`.
    let key = if fields.find("rule").is_some() { "rule" } else { "policy" };
    let policy = reader.string_of(&fields, key);
    if let (Some(_), Some(member)) = (fields.find("policy"), fields.find("rule")) {
        reader.report(member.position, "`rule` and `policy` mean the same; remove one of them");
    }
    let is_refusal = |expect: &Expect| match expect {
        Expect::Deny => true,
        Expect::Ruling(ruling) => ruling.is_refusal(),
    };
    if let (Some(false), Some(member)) = (expect.as_ref().map(is_refusal), fields.find(key)) {
        reader.report(member.position, format!("`{key}` requires `expect: deny`; remove one of them"));
    }
    let name = reader.string_of(&fields, "name").unwrap_or_else(|| format!("case {number}"));
    let ((tool, is_described), expect, arguments, clock) = (tool?, expect?, arguments?, clock?);
    let usual = Variant::from_operation(tool.operation).unwrap_or(Variant::Write);
    let is_declared = variant.is_some();
    let intent = Intent { variant: variant.unwrap_or(usual), is_declared, sensitivity, reason };
    let line = node.position.line;
    Some(Case {
        name,
        line,
        expect,
        policy,
        agent,
        has_grants,
        tool,
        is_described,
        has_variant: variant.is_some(),
        intent,
        arguments,
        mode,
        has_dry_run,
        clock,
    })
}

fn parse_expect(text: &str) -> Result<Expect, String> {
    if text == "deny" { Ok(Expect::Deny) } else { Ruling::parse(text).map(Expect::Ruling) }
}

fn arguments(reader: &mut Reader<'_>, fields: &Fields<'_>) -> Option<Arguments> {
    let Some(member) = fields.find("args") else { return Some(Arguments::none()) };
    let NodeValue::Object(_) = &member.node.value else { return reader.wrong_type(&member.node, "object") };
    Arguments::exact(&member.node.to_json()?.to_string()).ok()
}

fn test_agent() -> Agent {
    Agent { name: "test".to_owned(), scope: Scope { grants: Vec::new(), ..Scope::everything() } }
}

/// Returns the agent, and whether the case gives its permissions.
fn agent(reader: &mut Reader<'_>, node: &Node) -> Option<(Agent, bool)> {
    let mut agent = test_agent();
    if let NodeValue::Text(name) = &node.value {
        agent.name.clone_from(name);
        return Some((agent, false));
    }
    let fields = reader.fields(node, &AGENT)?;
    if let Some(name) = reader.string_of(&fields, "name") {
        agent.name = name;
    }
    agent.scope.grants = strings(reader, &fields, "grants");
    if fields.find("operations").is_some() {
        agent.scope.operations = each(reader, &fields, "operations", |reader, node| reader.choice(node, &operations()));
    }
    Some((agent, fields.find("grants").is_some()))
}

/// Returns the tool, and whether the case describes more than its name and annotations.
fn tool_facts(reader: &mut Reader<'_>, node: &Node) -> Option<(Facts, bool)> {
    let parse = |text: &str| ToolName::parse(text).map_err(|error| error.to_string());
    let (name, fields) = if let NodeValue::Text(_) = &node.value {
        (Some(node), Fields::default())
    } else {
        let fields = reader.fields(node, &TOOL)?;
        (reader.required(node, &fields, "name", "the whole name, such as `name: mail:send`"), fields)
    };
    let name = name.and_then(|node| reader.parsed(node, parse));
    let hints = fields.find("hints").and_then(|member| hints(reader, &member.node)).unwrap_or_default();
    let operation = reader.choice_of(&fields, "operation", &operations());
    let marked = hints.read_only.is_some() || hints.destructive.is_some();
    let facts = Facts {
        category: reader.string_of(&fields, "category").unwrap_or_default(),
        risk: reader.choice_of(&fields, "risk", &RiskLevel::ALL.map(|level| (level.as_str(), level))),
        operation: operation.or(marked.then(|| hints.call_with())).map_or("unknown", Variant::operation),
        permissions: strings(reader, &fields, "permissions"),
        side_effects: strings(reader, &fields, "sideEffects"),
        needs: each(reader, &fields, "needs", |reader, node| reader.choice(node, &NEEDS)),
        audit_event: reader.string_of(&fields, "auditEvent").unwrap_or_default(),
        has_contract: TOOL.known.iter().any(|key| !matches!(*key, "name" | "hints") && fields.find(key).is_some()),
        hints,
        name: name?,
    };
    let is_described = facts.has_contract;
    Some((facts, is_described))
}

fn hints(reader: &mut Reader<'_>, node: &Node) -> Option<Hints> {
    let fields = reader.fields(node, &HINTS)?;
    let read_only = reader.boolean_of(&fields, "readOnlyHint");
    Some(Hints { read_only, destructive: reader.boolean_of(&fields, "destructiveHint") })
}

fn clock(reader: &mut Reader<'_>, fields: &Fields<'_>) -> Option<Clock> {
    let example = "expected a time such as `2026-11-15T03:00:00+01:00` or `03:00 sunday`";
    let parse = |text: &str| time::parse(text).ok_or_else(|| example.to_owned());
    match fields.find("time") {
        Some(member) => reader.parsed(&member.node, parse),
        None => time::parse(USUAL_TIME),
    }
}

fn strings(reader: &mut Reader<'_>, fields: &Fields<'_>, key: &str) -> Vec<String> {
    each(reader, fields, key, |reader, node| reader.string(node).map(str::to_owned))
}

fn each<T>(
    reader: &mut Reader<'_>,
    fields: &Fields<'_>,
    key: &str,
    read: impl Fn(&mut Reader<'_>, &Node) -> Option<T>,
) -> Vec<T> {
    let nodes = fields.find(key).and_then(|member| reader.array(&member.node)).unwrap_or_default();
    nodes.iter().filter_map(|node| read(reader, node)).collect()
}

fn operations() -> [(&'static str, Variant); 3] {
    Variant::ALL.map(|variant| (variant.operation(), variant))
}
