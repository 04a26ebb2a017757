//! Test cases that operators write for their policies: a call, and whether policies must refuse it.

use super::facts::Facts;
use super::tool::{Call, violations};
use super::{Clock, Policies, Violation};
use crate::file::{self, Author, Fields, FileKind, Format, Keys, Mistake, Mistakes, Node, NodeValue, Reader};
use crate::time;
use crate::{Agent, Hints, Intent, RiskLevel, Scope, Sensitivity, ToolName, Untrusted, Variant, nearest};

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
    tool: Facts,
    intent: Intent,
    clock: Clock,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expect {
    Allow,
    Deny,
}

/// The result of a test case.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Verdict {
    /// `None` if the case passed.
    pub failure: Option<String>,
    /// The policies that refuse the call.
    pub deciding: Vec<Violation>,
}

pub fn run(policies: &Policies, case: &Case) -> Verdict {
    let call = Call { agent: &case.agent, tool: &case.tool.name, intent: &case.intent, clock: case.clock };
    let tool_policies = policies.for_facts(&case.tool);
    let deciding =
        tool_policies.map_or_else(Vec::new, |policies| violations(policies.outcomes(call, || case.tool.clone())));
    let names = || deciding.iter().map(|one| format!("`{}`", one.policy)).collect::<Vec<_>>().join(", ");
    let failure = match (case.expect, &case.policy, deciding.as_slice()) {
        (Expect::Allow, _, []) | (Expect::Deny, None, [_, ..]) => None,
        (Expect::Allow, _, [_, ..]) => Some(format!("expected allow, but it is forbidden by {}", names())),
        (Expect::Deny, Some(policy), deciding) if deciding.iter().any(|one| one.policy == *policy) => None,
        (Expect::Deny, Some(policy), _) if !policies.iter().any(|one| one.id == *policy) => {
            let near = nearest(policy, policies.iter().map(|one| one.id.as_str()));
            let hint = near.map(|near| format!("; did you mean `{near}`?")).unwrap_or_default();
            Some(format!("there is no policy `{}`{hint}", Untrusted::shortened(policy, 64).for_terminal()))
        }
        (Expect::Deny, Some(policy), [_, ..]) => {
            Some(format!("expected the call to be forbidden by `{policy}`, but it is forbidden by {}", names()))
        }
        (Expect::Deny, Some(policy), []) => {
            Some(format!("expected the call to be forbidden by `{policy}`, but no policy forbids it"))
        }
        (Expect::Deny, None, []) => Some("expected the call to be forbidden, but no policy forbids it".to_owned()),
    };
    Verdict { failure, deciding }
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
    known: &["name", "agent", "tool", "variant", "sensitivity", "reason", "time", "expect", "policy", "rule"],
    advice: &[],
};
const AGENT: Keys =
    Keys { known: &["name", "grants", "operations"], advice: &[("permissions", "did you mean `grants`?")] };
const TOOL: Keys = Keys {
    known: &["name", "risk", "category", "operation", "permissions", "sideEffects", "needs", "auditEvent", "hints"],
    advice: &[("riskLevel", "did you mean `risk`?")],
};
const HINTS: Keys = Keys { known: &["readOnlyHint", "destructiveHint"], advice: &[] };

const EXPECTS: [(&str, Expect); 2] = [("allow", Expect::Allow), ("deny", Expect::Deny)];
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
    let agent = fields.find("agent").and_then(|member| agent(reader, &member.node)).unwrap_or_else(test_agent);
    let variant = reader.choice_of(&fields, "variant", &operations());
    let sensitivity = reader.choice_of(&fields, "sensitivity", &SENSITIVITIES.map(|one| (one.as_str(), one)));
    let reason = reader.string_of(&fields, "reason").map(Untrusted::new);
    let clock = clock(reader, &fields);
    let expect = reader.required(node, &fields, "expect", "`allow` or `deny`");
    let expect = expect.and_then(|node| reader.choice(node, &EXPECTS));
    // `rule` is an older name of `policy`.
    let key = if fields.find("rule").is_some() { "rule" } else { "policy" };
    let policy = reader.string_of(&fields, key);
    if let (Some(_), Some(member)) = (fields.find("policy"), fields.find("rule")) {
        reader.report(member.position, "`rule` and `policy` mean the same; remove one of them");
    }
    if let (Some(Expect::Allow), Some(member)) = (expect, fields.find(key)) {
        reader.report(member.position, format!("`{key}` requires `expect: deny`; remove one of them"));
    }
    let name = reader.string_of(&fields, "name").unwrap_or_else(|| format!("case {number}"));
    let (tool, expect) = (tool?, expect?);
    let usual = Variant::from_operation(tool.operation).unwrap_or(Variant::Write);
    let intent = Intent { variant: variant.unwrap_or(usual), sensitivity, reason };
    Some(Case { name, line: node.position.line, expect, policy, agent, tool, intent, clock: clock? })
}

fn test_agent() -> Agent {
    Agent { name: "test".to_owned(), scope: Scope { grants: Vec::new(), ..Scope::everything() } }
}

fn agent(reader: &mut Reader<'_>, node: &Node) -> Option<Agent> {
    let mut agent = test_agent();
    if let NodeValue::Text(name) = &node.value {
        agent.name.clone_from(name);
        return Some(agent);
    }
    let fields = reader.fields(node, &AGENT)?;
    if let Some(name) = reader.string_of(&fields, "name") {
        agent.name = name;
    }
    agent.scope.grants = strings(reader, &fields, "grants");
    if fields.find("operations").is_some() {
        agent.scope.operations = each(reader, &fields, "operations", |reader, node| reader.choice(node, &operations()));
    }
    Some(agent)
}

fn tool_facts(reader: &mut Reader<'_>, node: &Node) -> Option<Facts> {
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
    Some(facts)
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
