//! Tests that operators write for their policies: a call, and whether it is to be refused.

use serde_json::{Map, Value};

use super::facts::Facts;
use super::tool::{Call, violations};
use super::{Clock, Policies, Violation};
use crate::time;
use crate::{Agent, Hints, Intent, Mistake, RiskLevel, Scope, Sensitivity, ToolName, Untrusted, Variant, nearest};

const CASES_MAX: usize = 10_000;
const MISTAKES_MAX: usize = 20;
/// When a case says nothing: neither night nor weekend.
const USUAL_TIME: &str = "12:00 monday";

/// One call and what is to come of it.
#[derive(Clone, Debug)]
pub struct Case {
    pub name: String,
    pub line: usize,
    pub expect: Expect,
    /// The policy that is to refuse the call, perhaps with others.
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

/// What came of a case.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Verdict {
    /// `None` when all is as expected.
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
        (Expect::Allow, _, [_, ..]) => Some(format!("expected allow, but the call is refused by {}", names())),
        (Expect::Deny, Some(policy), deciding) if deciding.iter().any(|one| one.policy == *policy) => None,
        (Expect::Deny, Some(policy), _) if !policies.iter().any(|one| one.id == *policy) => {
            let near = nearest(policy, policies.iter().map(|one| one.id.as_str()));
            let hint = near.map(|near| format!("; did you mean `{near}`?")).unwrap_or_default();
            Some(format!("there is no policy `{}`{hint}", Untrusted::shortened(policy, 64).for_terminal()))
        }
        (Expect::Deny, Some(policy), [_, ..]) => {
            Some(format!("expected a refusal by `{policy}`, but the call is refused by {}", names()))
        }
        (Expect::Deny, Some(policy), []) => {
            Some(format!("expected a refusal by `{policy}`, but no policy refuses the call"))
        }
        (Expect::Deny, None, []) => Some("expected a refusal, but no policy refuses the call".to_owned()),
    };
    Verdict { failure, deciding }
}

/// Reads a list of cases. `position` knows the line and column of a JSON pointer.
pub fn parse(cases: &Value, position: &dyn Fn(&str) -> (usize, usize)) -> Result<Vec<Case>, Vec<Mistake>> {
    let mut reader = Reader { position, mistakes: Vec::new() };
    let (base, list) = match cases {
        Value::Object(fields) if fields.contains_key("cases") => {
            reader.only(fields, "", &["cases"]);
            ("/cases", fields.get("cases"))
        }
        other => ("", Some(other)),
    };
    let read = match list.and_then(Value::as_array) {
        Some(list) if list.len() > CASES_MAX => {
            reader.note(base, format!("a file has at most {CASES_MAX} cases"));
            Vec::new()
        }
        Some(list) => {
            list.iter().enumerate().filter_map(|(at, case)| reader.case(case, &format!("{base}/{at}"))).collect()
        }
        None => {
            reader.note(base, "expected a list of cases".to_owned());
            Vec::new()
        }
    };
    if reader.mistakes.is_empty() {
        return Ok(read);
    }
    reader.mistakes.truncate(MISTAKES_MAX);
    Err(reader.mistakes)
}

struct Reader<'p> {
    position: &'p dyn Fn(&str) -> (usize, usize),
    mistakes: Vec<Mistake>,
}

const CASE: [&str; 9] = ["name", "agent", "tool", "variant", "sensitivity", "reason", "time", "expect", "rule"];
const AGENT: [&str; 3] = ["name", "grants", "operations"];
const TOOL: [&str; 9] =
    ["name", "risk", "category", "operation", "permissions", "sideEffects", "needs", "auditEvent", "hints"];
const HINTS: [&str; 2] = ["readOnlyHint", "destructiveHint"];
const NEEDS: [&str; 3] = ["confirmation", "step_up", "dry_run"];

impl Reader<'_> {
    fn note(&mut self, pointer: &str, message: String) {
        let (line, column) = (self.position)(pointer);
        self.mistakes.push(Mistake { line, column, message });
    }

    /// `None` only if there is a mistake.
    fn case(&mut self, case: &Value, at: &str) -> Option<Case> {
        let fields = self.object(case, at, &CASE)?;
        let tool = fields.get("tool").cloned().unwrap_or_default();
        let tool = self.tool(&tool, &format!("{at}/tool"));
        let agent = self.agent(fields.get("agent"), &format!("{at}/agent"));
        let variant = self.word(fields, at, "variant", &Variant::ALL, Variant::operation);
        let sensitivities = [Sensitivity::Public, Sensitivity::Internal, Sensitivity::Private, Sensitivity::Unknown];
        let sensitivity = self.word(fields, at, "sensitivity", &sensitivities, sensitivity_word);
        let reason = self.string(fields, at, "reason").map(Untrusted::new);
        let clock = self.clock(fields, at);
        let expects = [Expect::Allow, Expect::Deny];
        let expect = self.word(fields, at, "expect", &expects, |one| match one {
            Expect::Allow => "allow",
            Expect::Deny => "deny",
        });
        if !fields.contains_key("expect") {
            self.note(at, "a case needs `expect`: allow or deny".to_owned());
        }
        let policy = self.string(fields, at, "rule");
        if expect == Some(Expect::Allow) && policy.is_some() {
            self.note(&format!("{at}/rule"), "`rule` goes with expect: deny".to_owned());
        }
        let (tool, expect) = (tool?, expect?);
        let named = self.string(fields, at, "name");
        let usual = Variant::from_operation(tool.operation).unwrap_or(Variant::Write);
        Some(Case {
            name: named.unwrap_or_else(|| format!("case {}", at.rsplit('/').next().unwrap_or_default())),
            line: (self.position)(at).0,
            expect,
            policy,
            agent,
            tool,
            intent: Intent { variant: variant.unwrap_or(usual), sensitivity, reason },
            clock,
        })
    }

    fn agent(&mut self, agent: Option<&Value>, at: &str) -> Agent {
        let mut read = Agent { name: "test".to_owned(), scope: Scope { grants: Vec::new(), ..Scope::everything() } };
        match agent {
            None => {}
            Some(Value::String(name)) => read.name.clone_from(name),
            Some(other) => {
                let Some(fields) = self.object(other, at, &AGENT) else { return read };
                if let Some(name) = self.string(fields, at, "name") {
                    read.name = name;
                }
                read.scope.grants = self.strings(fields, at, "grants");
                if fields.contains_key("operations") {
                    let words = self.strings(fields, at, "operations");
                    read.scope.operations = words.iter().filter_map(|word| Variant::from_operation(word)).collect();
                    if read.scope.operations.len() != words.len() {
                        self.note(&format!("{at}/operations"), "operations are read, write, destructive".to_owned());
                    }
                }
            }
        }
        read
    }

    fn tool(&mut self, tool: &Value, at: &str) -> Option<Facts> {
        let short = tool.as_str().map(|name| Map::from_iter([("name".to_owned(), Value::from(name))]));
        let fields = match &short {
            Some(fields) => fields,
            None => self.object(tool, at, &TOOL)?,
        };
        let name = self.string(fields, at, "name").unwrap_or_default();
        let name = ToolName::parse(&name).map_err(|error| self.note(at, format!("`tool.name`: {error}"))).ok();
        let hints = match fields.get("hints") {
            None => Hints::default(),
            Some(hints) => self.hints(hints, &format!("{at}/hints")),
        };
        let operation = self.word(fields, at, "operation", &Variant::ALL, Variant::operation);
        let marked = hints.read_only.is_some() || hints.destructive.is_some();
        let operation = operation.or(marked.then(|| hints.call_with())).map_or("unknown", Variant::operation);
        let needs = self.strings(fields, at, "needs");
        let known = |word: &String| NEEDS.into_iter().find(|known| known == word);
        if let Some(word) = needs.iter().find(|word| known(word).is_none()) {
            let shown = Untrusted::shortened(word, 64).for_terminal().into_owned();
            self.note(&format!("{at}/needs"), format!("`{shown}` is not one of {}", NEEDS.join(", ")));
        }
        Some(Facts {
            category: self.string(fields, at, "category").unwrap_or_default(),
            risk: self.word(fields, at, "risk", &RiskLevel::ALL, RiskLevel::as_str),
            operation,
            permissions: self.strings(fields, at, "permissions"),
            side_effects: self.strings(fields, at, "sideEffects"),
            needs: needs.iter().filter_map(known).collect(),
            audit_event: self.string(fields, at, "auditEvent").unwrap_or_default(),
            has_contract: fields.keys().any(|key| key != "name" && key != "hints"),
            hints,
            name: name?,
        })
    }

    fn hints(&mut self, hints: &Value, at: &str) -> Hints {
        let Some(fields) = self.object(hints, at, &HINTS) else { return Hints::default() };
        let mut hint = |key: &str| {
            let value = fields.get(key)?;
            if !value.is_boolean() {
                self.note(&format!("{at}/{key}"), format!("`{key}` is true or false"));
            }
            value.as_bool()
        };
        Hints { read_only: hint("readOnlyHint"), destructive: hint("destructiveHint") }
    }

    fn clock(&mut self, fields: &Map<String, Value>, at: &str) -> Clock {
        let text = self.string(fields, at, "time");
        time::parse(text.as_deref().unwrap_or(USUAL_TIME)).unwrap_or_else(|| {
            let message = "`time` is written 2026-11-15T03:00:00+01:00, or 03:00 sunday";
            self.note(&format!("{at}/time"), message.to_owned());
            Clock::default()
        })
    }

    fn object<'v>(&mut self, value: &'v Value, at: &str, known: &[&str]) -> Option<&'v Map<String, Value>> {
        let Some(fields) = value.as_object() else {
            self.note(at, format!("expected {}", known.join(", ")));
            return None;
        };
        self.only(fields, at, known);
        Some(fields)
    }

    fn only(&mut self, fields: &Map<String, Value>, at: &str, known: &[&str]) {
        for key in fields.keys().filter(|key| !known.contains(&key.as_str())) {
            let near = nearest(key, known.iter().copied());
            let hint = near.map(|near| format!("; did you mean `{near}`?")).unwrap_or_default();
            let shown = Untrusted::shortened(key, 64);
            let pointer = format!("{at}/{}", key.replace('~', "~0").replace('/', "~1"));
            self.note(&pointer, format!("`{}` is not known here{hint}", shown.for_terminal()));
        }
    }

    fn string(&mut self, fields: &Map<String, Value>, at: &str, key: &str) -> Option<String> {
        let value = fields.get(key)?;
        if !value.is_string() {
            self.note(&format!("{at}/{key}"), format!("`{key}` is a text"));
        }
        value.as_str().map(str::to_owned)
    }

    fn strings(&mut self, fields: &Map<String, Value>, at: &str, key: &str) -> Vec<String> {
        let Some(value) = fields.get(key) else { return Vec::new() };
        let texts: Option<Vec<String>> =
            value.as_array().and_then(|list| list.iter().map(|one| one.as_str().map(str::to_owned)).collect());
        texts.unwrap_or_else(|| {
            self.note(&format!("{at}/{key}"), format!("`{key}` is a list of texts"));
            Vec::new()
        })
    }

    fn word<T: Copy>(
        &mut self,
        fields: &Map<String, Value>,
        at: &str,
        key: &str,
        all: &[T],
        spell: impl Fn(T) -> &'static str,
    ) -> Option<T> {
        let text = self.string(fields, at, key)?;
        let found = all.iter().copied().find(|one| spell(*one) == text);
        if found.is_none() {
            let words: Vec<&str> = all.iter().map(|one| spell(*one)).collect();
            self.note(&format!("{at}/{key}"), format!("`{key}` is one of {}", words.join(", ")));
        }
        found
    }
}

fn sensitivity_word(sensitivity: Sensitivity) -> &'static str {
    match sensitivity {
        Sensitivity::Public => "public",
        Sensitivity::Internal => "internal",
        Sensitivity::Private => "private",
        Sensitivity::Unknown => "unknown",
    }
}
