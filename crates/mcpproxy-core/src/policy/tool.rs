//! Evaluates the policies that can apply to one tool.

use std::sync::{Arc, OnceLock};

use cedar_policy::{Entities, EvalResult, Request, eval_expression};

use super::facts::{self, Facts};
use super::read::Mentions;
use super::vocabulary::{Vocabulary, vocabulary};
use super::{Clock, Policy, Subject, Violation};
use crate::{Agent, Intent, ToolName};

/// The policies that can apply to one tool, selected when the catalog is built.
#[derive(Debug)]
pub struct ToolPolicies {
    /// The policies for all tools, this server, this category and this tool. Each list is shared with other tools.
    groups: Vec<Arc<[Arc<Policy>]>>,
    /// Built at the first call that needs it, because most tools are listed and never called.
    entities: OnceLock<Result<Entities, String>>,
}

/// The result of evaluating one policy for a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    OtherAgent,
    OtherVariant,
    /// The conditions do not hold.
    NotMet,
    Forbids,
    /// The policy could not be evaluated, so it forbids the call. The reason is for the operator.
    Failed(String),
}

impl Outcome {
    pub fn is_refusal(&self) -> bool {
        match self {
            Self::Forbids | Self::Failed(_) => true,
            Self::OtherAgent | Self::OtherVariant | Self::NotMet => false,
        }
    }
}

/// One call as policies see it.
#[derive(Clone, Copy)]
pub(crate) struct Call<'c> {
    pub(crate) agent: &'c Agent,
    pub(crate) tool: &'c ToolName,
    pub(crate) intent: &'c Intent,
    pub(crate) clock: Clock,
}

impl ToolPolicies {
    pub(super) fn new(groups: Vec<Arc<[Arc<Policy>]>>) -> Self {
        Self { groups, entities: OnceLock::new() }
    }

    /// Returns every policy that forbids the call, in the order of files and lines. An empty list allows it.
    pub fn violations(&self, agent: &Agent, tool: Subject<'_>, intent: &Intent, clock: Clock) -> Vec<Violation> {
        violations(self.outcomes(Call { agent, tool: tool.name, intent, clock }, || Facts::of(tool)))
    }

    /// Returns every policy that was considered, in the order of files and lines, with its outcome.
    pub fn explain(&self, agent: &Agent, tool: Subject<'_>, intent: &Intent, clock: Clock) -> Vec<(&Policy, Outcome)> {
        self.outcomes(Call { agent, tool: tool.name, intent, clock }, || Facts::of(tool))
    }

    /// Returns the policies that are considered when the tool is called, in the order of files and lines.
    pub fn considered(&self) -> Vec<&Policy> {
        let mut policies: Vec<&Policy> = self.policies().collect();
        policies.sort_by_key(|policy| policy.order);
        policies
    }

    fn policies(&self) -> impl Iterator<Item = &Policy> {
        self.groups.iter().flat_map(|group| group.iter().map(AsRef::as_ref))
    }

    pub(crate) fn outcomes(&self, call: Call<'_>, facts: impl Fn() -> Facts) -> Vec<(&Policy, Outcome)> {
        let mut found = Vec::new();
        let mut open = Vec::new();
        let mut mentions = Mentions::default();
        for policy in self.policies() {
            if !policy.scope.is_about_agent(&call.agent.name) {
                found.push((policy, Outcome::OtherAgent));
            } else if !policy.scope.is_about(call.intent.variant) {
                found.push((policy, Outcome::OtherVariant));
            } else if let Some(condition) = &policy.condition {
                mentions = mentions.and(policy.mentions);
                open.push((policy, condition));
            } else {
                found.push((policy, Outcome::Forbids));
            }
        }
        if !open.is_empty() {
            let input = self.evaluation_input(call, facts, mentions);
            found.extend(open.into_iter().map(|(policy, condition)| {
                let outcome = input.as_ref().map_or_else(
                    |error| Outcome::Failed(error.clone()),
                    |input| match eval_expression(&input.request, input.entities.as_ref(), condition) {
                        Ok(EvalResult::Bool(false)) => Outcome::NotMet,
                        Ok(EvalResult::Bool(true)) => Outcome::Forbids,
                        Ok(_) => Outcome::Failed("its condition is neither true nor false".to_owned()),
                        Err(error) => Outcome::Failed(error.to_string()),
                    },
                );
                (policy, outcome)
            }));
        }
        found.sort_by_key(|(policy, _)| policy.order);
        found
    }

    fn evaluation_input(
        &self,
        call: Call<'_>,
        facts: impl Fn() -> Facts,
        mentions: Mentions,
    ) -> Result<EvaluationInput<'_>, String> {
        let vocabulary = vocabulary()?;
        let made = self.entities.get_or_init(|| facts().entities(vocabulary));
        let tool = made.as_ref().map_err(Clone::clone)?;
        let request = facts::request(vocabulary, call, mentions)?;
        let entities = with_agent(tool, call.agent, mentions, vocabulary)?;
        Ok(EvaluationInput { request, entities })
    }
}

/// The request and the entities for evaluating conditions.
struct EvaluationInput<'w> {
    request: Request,
    entities: Known<'w>,
}

/// The entities. The agent is included only if a condition needs it.
enum Known<'w> {
    Tool(&'w Entities),
    Both(Entities),
}

impl AsRef<Entities> for Known<'_> {
    fn as_ref(&self) -> &Entities {
        match self {
            Self::Tool(entities) => entities,
            Self::Both(entities) => entities,
        }
    }
}

fn with_agent<'w>(
    tool: &'w Entities,
    agent: &Agent,
    mentions: Mentions,
    vocabulary: &Vocabulary,
) -> Result<Known<'w>, String> {
    if !mentions.principal {
        return Ok(Known::Tool(tool));
    }
    let agent = facts::agent(agent, vocabulary)?;
    tool.clone().add_entities([agent], None).map(Known::Both).map_err(|error| error.to_string())
}

pub(crate) fn violations(outcomes: Vec<(&Policy, Outcome)>) -> Vec<Violation> {
    let refusals = outcomes.into_iter().filter(|(_, outcome)| outcome.is_refusal());
    let violation = |(policy, outcome): (&Policy, Outcome)| {
        let message = match outcome {
            // The agent cannot fix this, and the reason may reveal too much.
            Outcome::Failed(_) => {
                Some("the policy could not be evaluated, so it forbids the call; tell the operator".into())
            }
            Outcome::Forbids | Outcome::NotMet | Outcome::OtherAgent | Outcome::OtherVariant => policy.message.clone(),
        };
        Violation { policy: policy.id.clone(), file: Arc::clone(&policy.file), line: policy.line, message }
    };
    refusals.map(violation).collect()
}
