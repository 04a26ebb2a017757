//! Converts tools, agents and calls into Cedar values, which policies can read.

use std::collections::{HashMap, HashSet};

use cedar_policy::{Context, Entities, Entity, Request, RestrictedExpression};

use super::read::Mentions;
use super::tool::Call;
use super::vocabulary::Vocabulary;
use super::{Resource, Subject};
use crate::time::{Local, iso};
use crate::{Agent, Hints, RiskLevel, Sensitivity, ToolName};

/// A tool as policies see it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Facts {
    pub(crate) name: ToolName,
    pub(crate) category: String,
    pub(crate) risk: Option<RiskLevel>,
    pub(crate) operation: &'static str,
    pub(crate) permissions: Vec<String>,
    pub(crate) side_effects: Vec<String>,
    pub(crate) needs: Vec<&'static str>,
    pub(crate) audit_event: String,
    pub(crate) has_contract: bool,
    pub(crate) hints: Hints,
}

impl Facts {
    pub(super) fn of(Subject { name, hints, contract }: Subject<'_>) -> Self {
        let word = |value: Option<&String>| value.cloned().unwrap_or_default();
        Self {
            name: name.clone(),
            category: word(contract.category.as_ref().map(|category| &category.value)),
            risk: contract.risk(),
            operation: contract.operation.as_ref().map_or("unknown", |operation| operation.value.operation()),
            permissions: contract.permissions.value.clone(),
            side_effects: contract.side_effects.value.iter().map(|text| text.for_json().to_owned()).collect(),
            needs: contract.needs().into_iter().map(crate::contract::Need::as_str).collect(),
            audit_event: word(contract.audit_event.as_ref().map(|event| &event.value)),
            has_contract: contract.is_operators,
            hints,
        }
    }

    /// Returns the resources that a policy for this tool can name.
    pub(super) fn groups(&self) -> Vec<Resource> {
        let category = Some(&self.category).filter(|category| !category.is_empty());
        let named = [Resource::Server(self.name.server().to_string()), Resource::Tool(self.name.to_string())];
        named.into_iter().chain(category.cloned().map(Resource::Category)).chain([Resource::Any]).collect()
    }

    /// Returns the Cedar entity of the tool, with its server and category as parents.
    pub(super) fn entities(&self, vocabulary: &Vocabulary) -> Result<Entities, String> {
        let name = self.name.to_string();
        let uid = vocabulary.tool(&name);
        let mut parents = HashSet::from([vocabulary.server(self.name.server().as_str())]);
        if !self.category.is_empty() {
            parents.insert(vocabulary.category(&self.category));
        }
        let (risk, rank) = risk(self.risk);
        let needs = self.needs.iter().map(|need| string(need));
        let attributes = [
            ("name", string(&name)),
            ("server", string(self.name.server().as_str())),
            ("tool", string(self.name.tool())),
            ("category", string(&self.category)),
            ("risk", string(risk)),
            ("riskRank", RestrictedExpression::new_long(rank)),
            ("operation", string(self.operation)),
            ("permissions", strings(&self.permissions)),
            ("sideEffects", strings(&self.side_effects)),
            ("needs", RestrictedExpression::new_set(needs)),
            ("auditEvent", string(&self.audit_event)),
            ("hasContract", RestrictedExpression::new_bool(self.has_contract)),
            ("readOnlyHint", RestrictedExpression::new_bool(self.hints.read_only == Some(true))),
            ("destructiveHint", RestrictedExpression::new_bool(self.hints.destructive == Some(true))),
        ];
        let tool = Entity::new(uid, named(attributes), parents).map_err(|error| error.to_string())?;
        let all = vocabulary.action_entities.iter().cloned().chain([tool]);
        Entities::from_entities(all, None).map_err(|error| error.to_string())
    }
}

pub(super) fn agent(agent: &Agent, vocabulary: &Vocabulary) -> Result<Entity, String> {
    let operations = agent.scope.operations.iter().map(|variant| string(variant.operation()));
    let attributes = [
        ("name", string(&agent.name)),
        ("grants", strings(&agent.scope.grants)),
        ("operations", RestrictedExpression::new_set(operations)),
    ];
    let uid = vocabulary.agent(&agent.name);
    Entity::new(uid, named(attributes), HashSet::new()).map_err(|error| error.to_string())
}

pub(super) fn request(vocabulary: &Vocabulary, call: Call<'_>, mentions: Mentions) -> Result<Request, String> {
    let Call { agent, tool, intent, clock } = call;
    let has_reason = intent.reason.as_ref().is_some_and(|reason| !reason.for_json().trim().is_empty());
    let mut pairs = vec![
        ("variant".to_owned(), string(intent.variant.operation())),
        ("sensitivity".to_owned(), string(sensitivity(intent.sensitivity))),
        ("hasReason".to_owned(), RestrictedExpression::new_bool(has_reason)),
    ];
    if mentions.now {
        pairs.push(("now".to_owned(), RestrictedExpression::new_datetime(iso(clock.now_ms))));
    }
    if mentions.time {
        pairs.push(("time".to_owned(), time(Local::of(clock).map_err(|error| error.to_string())?)?));
    }
    let context = Context::from_pairs(pairs).map_err(|error| error.to_string())?;
    let (principal, resource) = (vocabulary.agent(&agent.name), vocabulary.tool(&tool.to_string()));
    let action = vocabulary.action(intent.variant).clone();
    Request::new(principal, action, resource, context, None).map_err(|error| error.to_string())
}

fn time(local: Local) -> Result<RestrictedExpression, String> {
    let pairs = [
        ("hour", RestrictedExpression::new_long(local.hour())),
        ("minute", RestrictedExpression::new_long(local.minute())),
        ("minuteOfDay", RestrictedExpression::new_long(local.hour() * 60 + local.minute())),
        ("weekday", string(local.weekday())),
        ("isWeekend", RestrictedExpression::new_bool(local.is_weekend())),
    ];
    RestrictedExpression::new_record(named(pairs)).map_err(|error| error.to_string())
}

fn risk(level: Option<RiskLevel>) -> (&'static str, i64) {
    let rank = match level {
        None => return ("unclassified", 0),
        Some(RiskLevel::Low) => 1,
        Some(RiskLevel::Medium) => 2,
        Some(RiskLevel::High) => 3,
        Some(RiskLevel::Critical) => 4,
        // No agent can call a forbidden tool, but an operator can ask what policies would say.
        Some(RiskLevel::Forbidden) => 5,
    };
    (level.map_or("unclassified", RiskLevel::as_str), rank)
}

fn sensitivity(declared: Option<Sensitivity>) -> &'static str {
    match declared {
        Some(Sensitivity::Public) => "public",
        Some(Sensitivity::Internal) => "internal",
        Some(Sensitivity::Private) => "private",
        Some(Sensitivity::Unknown) | None => "unknown",
    }
}

fn string(text: &str) -> RestrictedExpression {
    RestrictedExpression::new_string(text.to_owned())
}

fn strings(texts: &[String]) -> RestrictedExpression {
    RestrictedExpression::new_set(texts.iter().map(|text| string(text)))
}

fn named<const N: usize>(pairs: [(&str, RestrictedExpression); N]) -> HashMap<String, RestrictedExpression> {
    pairs.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
}
