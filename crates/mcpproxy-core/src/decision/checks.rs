//! The single checks of a call. `decision.rs` runs them in order.

use serde_json::Value;

use super::approval_request::Asked;
use super::{Moment, Warning};
use crate::Hints;
use crate::catalog::{Catalog, Tool};
use crate::contract::{RateLimit, StepUp};
use crate::denial::{Denial, Mark, Missing};
use crate::intent::{Arguments, Intent};
use crate::nearest::closest;
use crate::policy::Clock;
use crate::schema::Problem;
use crate::settings::{ContractSettings, IntentSettings, Unannotated, Unclassified};
use crate::{Agent, ToolName, Variant};

/// Maximum number of similar tools that a refusal names.
const SUGGESTIONS_MAX: usize = 3;

/// Compares the server's annotations with the variant. A contradiction is an error, or a warning in lenient mode.
pub(super) fn against_hints(settings: &IntentSettings, tool: &Tool, variant: Variant) -> Result<Vec<Warning>, Denial> {
    if tool.contract.is_operators_operation() {
        // The operator has written the operation, and the next check compares the call with it.
        return Ok(Vec::new());
    }
    let Hints { read_only, destructive } = tool.hints;
    let mismatch = |mark, right| Denial::ServerMismatch { tool: tool.name.clone(), mark, used: variant, right };
    let contradiction = match (variant, destructive, read_only) {
        (Variant::Destructive, _, _) => None,
        (Variant::Read | Variant::Write, Some(true), _) => Some(mismatch(Mark::Destructive, Variant::Destructive)),
        (Variant::Read, _, Some(false)) => Some(mismatch(Mark::NotReadOnly, Variant::Write)),
        (Variant::Read, _, Some(true)) => None,
        // The server declares the operation in its contract instead.
        (Variant::Read, _, None) if tool.contract.written_operation.is_some() => None,
        (Variant::Read, _, None) => return unannotated(settings, tool, &mismatch(Mark::Unannotated, Variant::Write)),
        (Variant::Write, _, Some(true)) => {
            let message = format!("Tool '{}' is marked read-only by server, call_tool_read would do", tool.name);
            return Ok(vec![Warning { code: "overly_cautious", message }]);
        }
        (Variant::Write, _, Some(false) | None) => None,
    };
    match contradiction {
        None => Ok(Vec::new()),
        Some(denial) if settings.strict_server_validation => Err(denial),
        Some(denial) => Ok(vec![Warning { code: denial.code(), message: denial.message() }]),
    }
}

/// Handles a read call on a tool that its server does not declare as read-only.
fn unannotated(settings: &IntentSettings, tool: &Tool, denial: &Denial) -> Result<Vec<Warning>, Denial> {
    match settings.unannotated {
        Unannotated::Trust => Ok(Vec::new()),
        Unannotated::Warn => {
            let message = format!("Tool '{}' is not marked read-only by server, the agent's word was taken", tool.name);
            Ok(vec![Warning { code: "unannotated", message }])
        }
        Unannotated::RequireWrite => Err(denial.clone()),
    }
}

pub(super) fn within_scope(agent: &Agent, tool: &Tool, variant: Variant) -> Result<(), Denial> {
    if !agent.scope.may(variant) {
        return Err(Denial::NotGranted { agent: agent.name.clone(), variant });
    }
    // Otherwise an agent that may only read could run any unannotated tool by calling it a read.
    let only_reads = !agent.scope.may(Variant::Write) && !agent.scope.may(Variant::Destructive);
    if only_reads && tool.call_with() != Variant::Read {
        return Err(Denial::NotKnownToRead { agent: agent.name.clone(), tool: tool.name.clone() });
    }
    Ok(())
}

/// Returns true if the server's annotations or the operator confirm the agent's variant.
pub(super) fn bears_out(tool: &Tool, variant: Variant) -> bool {
    if tool.contract.is_operators_operation() {
        return tool.call_with() == variant || variant == Variant::Destructive;
    }
    let hints = tool.hints;
    match variant {
        Variant::Read => hints.read_only == Some(true) && hints.destructive != Some(true),
        Variant::Write => hints.destructive == Some(false) || hints.read_only.is_some() && hints.destructive.is_none(),
        Variant::Destructive => true,
    }
}

/// Compares the contract's operation with the variant. No setting turns this error into a warning.
pub(super) fn against_contract(settings: &ContractSettings, tool: &Tool, variant: Variant) -> Result<(), Denial> {
    let contract = &tool.contract;
    if !contract.is_classified() && settings.unclassified == Unclassified::Deny {
        return Err(Denial::Unclassified { tool: tool.name.clone() });
    }
    match contract.written_operation {
        Some(right) if variant < right => {
            Err(Denial::ContractMismatch { tool: tool.name.clone(), used: variant, right })
        }
        Some(_) | None => Ok(()),
    }
}

pub(super) fn missing_permissions(agent: &Agent, tool: &Tool) -> Vec<String> {
    let wanted = &tool.contract.permissions.value;
    wanted.iter().filter(|permission| !agent.scope.grants(permission)).cloned().collect()
}

pub(super) fn lacks(agent: &Agent, tool: &Tool, missing: Vec<String>) -> Denial {
    Denial::MissingPermissions { agent: agent.name.clone(), tool: tool.name.clone(), missing }
}

pub(super) fn within_policies(agent: &Agent, tool: &Tool, intent: &Intent, clock: Clock) -> Result<(), Denial> {
    let violations =
        tool.policies().map_or_else(Vec::new, |policies| policies.violations(agent, tool.subject(), intent, clock));
    if violations.is_empty() {
        return Ok(());
    }
    Err(Denial::PolicyViolation { tool: tool.name.clone(), violations })
}

/// Parses the arguments and checks them against both schemas.
pub(super) fn arguments_fit(tool: &Tool, arguments: &Arguments) -> Result<Value, Denial> {
    // The strict reader accepts nothing that this cannot parse. If it ever did, the call would be refused.
    let value: Value = serde_json::from_str(arguments.as_str())
        .map_err(|_| Denial::InvalidArgs("arguments must be a JSON object".to_owned()))?;
    let refused = |mut problems: Vec<Problem>| {
        tool.hide_sensitive(&mut problems);
        Denial::InvalidArguments { tool: tool.name.clone(), problems }
    };
    if let Some(schema) = tool.input_schema() {
        let checked = schema.check(&value).or_else(|problems| match without_nulls(&value, &problems) {
            Some(fewer) => schema.check(&fewer),
            None => Err(problems),
        });
        checked.map_err(refused)?;
    }
    if let Some(schema) = &tool.contract.input_schema {
        schema.value.check(&value).map_err(refused)?;
    }
    Ok(value)
}

/// Removes the `null` arguments that the schema rejects. Many agents write `null` for an argument they leave out, and
/// servers accept that. Only the check uses the result, and the bytes that are sent stay unchanged.
fn without_nulls(value: &Value, problems: &[Problem]) -> Option<Value> {
    let fields = value.as_object()?;
    let is_meant = |name: &str| problems.iter().any(|problem| problem.pointer.strip_prefix('/') == Some(name));
    let kept = fields.iter().filter(|(name, value)| !(value.is_null() && is_meant(name)));
    let kept: serde_json::Map<String, Value> = kept.map(|(name, value)| (name.clone(), value.clone())).collect();
    (kept.len() < fields.len()).then_some(Value::Object(kept))
}

pub(super) fn within_rate(tool: &Tool, moment: Moment<'_>) -> Result<(), Denial> {
    let Some(limit) = &tool.contract.rate_limit else { return Ok(()) };
    let wait_ms = moment.limits.wait_ms(&tool.name, limit.value, moment.clock.now_ms);
    wait_ms.map_or(Ok(()), |wait_ms| Err(too_often(tool, limit.value, wait_ms)))
}

/// Counts the call against its rate limit, as the last step before a permit. Another call may have taken the place
/// since `within_rate`.
pub(super) fn take_a_turn(tool: &Tool, moment: Moment<'_>) -> Result<(), Denial> {
    let Some(limit) = &tool.contract.rate_limit else { return Ok(()) };
    let taken = moment.limits.take(&tool.name, limit.value, moment.clock.now_ms);
    taken.map_err(|wait_ms| too_often(tool, limit.value, wait_ms))
}

fn too_often(tool: &Tool, limit: RateLimit, wait_ms: u64) -> Denial {
    Denial::RateLimitExceeded { tool: tool.name.clone(), limit, wait_ms }
}

/// Decides if the call needs a user's approval, and with a second factor or without.
pub(super) fn asks_a_user(
    settings: &ContractSettings,
    tool: &Tool,
    variant: Variant,
    arguments: &Value,
) -> Option<Asked> {
    let contract = &tool.contract;
    let needs_step_up = match &contract.step_up.value {
        StepUp::Never => false,
        StepUp::When(schema) => schema.may_admit(arguments),
        StepUp::Always => true,
    };
    let by_setting = asks_by_setting(settings, tool, variant);
    (contract.asks() || needs_step_up || by_setting).then_some(Asked { needs_step_up, by_setting })
}

/// Returns true if the settings require approval because the operator has not classified the tool.
pub(super) fn asks_by_setting(settings: &ContractSettings, tool: &Tool, variant: Variant) -> bool {
    let destroys = variant == Variant::Destructive || tool.call_with() == Variant::Destructive;
    match settings.unclassified {
        Unclassified::Allow | Unclassified::Deny => false,
        Unclassified::ConfirmDestructive => !tool.contract.is_classified() && destroys,
    }
}

/// Returns the refusal for a tool that does not exist. It suggests only tools that the agent may see.
pub(super) fn no_such_tool(name: ToolName, agent: &Agent, catalog: &Catalog) -> Denial {
    let has_server = agent.scope.sees(name.server()) && catalog.has_server(name.server());
    let missing = if has_server { Missing::Tool } else { Missing::Server };
    let suggestions = suggestions(&name, catalog.visible(&agent.scope).map(|tool| &tool.name));
    Denial::NoSuchTool { name, missing, suggestions }
}

/// Suggests tools with the same name on other servers first, then similar names.
fn suggestions<'t>(wanted: &ToolName, visible: impl Iterator<Item = &'t ToolName>) -> Vec<ToolName> {
    let (mut found, others): (Vec<&ToolName>, Vec<&ToolName>) = visible.partition(|name| name.tool() == wanted.tool());
    if found.len() < SUGGESTIONS_MAX {
        // Compare names as iterators of letters. Ten thousand names are compared without allocating one of them.
        let letters = |name: &'t ToolName| name.server().as_str().chars().chain([':']).chain(name.tool().chars());
        found.extend(closest(&wanted.to_string(), others, letters, SUGGESTIONS_MAX));
    }
    found.into_iter().take(SUGGESTIONS_MAX).cloned().collect()
}
