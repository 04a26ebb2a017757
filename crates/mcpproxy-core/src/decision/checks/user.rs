//! Decides if a user must approve a call, and how.

use super::needs_contract;
use crate::Variant;
use crate::catalog::Tool;
use crate::contract::{Need, StepUp};
use crate::decision::approval_request::ApprovalNeed;
use crate::json::ExactValue;
use crate::settings::{ContractSettings, Unclassified};

/// Returns the approval that the call needs, or `None` if the agent may make it alone.
pub(super) fn approval_need(
    settings: &ContractSettings,
    tool: &Tool,
    variant: Variant,
    arguments: &ExactValue,
) -> Option<ApprovalNeed> {
    let contract = &tool.contract;
    let needs_step_up = match &contract.step_up.value {
        StepUp::Never => false,
        StepUp::When(schema) => schema.may_admit(arguments),
        StepUp::Always => true,
    };
    let by_condition = contract.asks_by_condition(arguments);
    let by_setting = asks_by_setting(settings, tool, variant);
    let is_needed = contract.asks() || by_condition || needs_step_up || by_setting;
    is_needed.then_some(ApprovalNeed { needs_step_up, by_condition, by_setting })
}

/// Returns true if some call of this tool runs without an approval, and the operator has not chosen that. The operator
/// chooses by a risk level in a contract. A tool with policies does not count, because they decide by agent and
/// arguments.
pub fn may_run_unasked(settings: &ContractSettings, tool: &Tool) -> bool {
    let contract = &tool.contract;
    let is_refused = settings.unclassified == Unclassified::Deny;
    let is_asked = contract.asks()
        || matches!(contract.step_up.value, StepUp::Always)
        || asks_by_setting(settings, tool, tool.call_with());
    !contract.is_classified() && !is_refused && !is_asked && tool.policies().is_none()
}

/// Lists what a call of this tool needs under these settings, such as `confirmation`. `contract` means that no call is
/// allowed until the operator gives the tool a risk level.
pub fn needs_under(settings: ContractSettings, tool: &Tool) -> Vec<&'static str> {
    if needs_contract(settings, tool) {
        return vec!["contract"];
    }
    let needs = tool.contract.needs();
    let asks = asks_by_setting(&settings, tool, tool.call_with()) && !needs.contains(&Need::Confirmation);
    asks.then_some(Need::Confirmation).into_iter().chain(needs).map(Need::as_str).collect()
}

/// Returns true if `contracts.unclassified` requires an approval, because the operator gave the tool no risk level.
pub(in crate::decision) fn asks_by_setting(settings: &ContractSettings, tool: &Tool, variant: Variant) -> bool {
    let destroys = variant == Variant::Destructive || tool.call_with() == Variant::Destructive;
    match settings.unclassified {
        Unclassified::Allow | Unclassified::Deny => false,
        Unclassified::ConfirmDestructive => !tool.contract.is_classified() && destroys,
    }
}
