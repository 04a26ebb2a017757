//! Compares the variant that an agent used with the annotations of the server.

use crate::catalog::Tool;
use crate::decision::Warning;
use crate::denial::{Denial, Mark};
use crate::settings::{IntentSettings, Unannotated};
use crate::{Hints, Variant};

/// Returns the refusal for a contradiction, or a warning if the settings are lenient.
pub(super) fn against_hints(settings: &IntentSettings, tool: &Tool, variant: Variant) -> Result<Vec<Warning>, Denial> {
    if tool.contract.is_operators_operation() {
        // The operator's contract names the operation, and the next check compares the variant with that.
        return Ok(Vec::new());
    }
    let Hints { read_only, destructive } = tool.hints;
    let mismatch = |mark, right| Denial::ServerMismatch { tool: tool.name.clone(), mark, used: variant, right };
    let contradiction = match (variant, destructive, read_only) {
        (Variant::Destructive, _, _) => None,
        (Variant::Read | Variant::Write, Some(true), _) => Some(mismatch(Mark::Destructive, Variant::Destructive)),
        (Variant::Read, _, Some(false)) => Some(mismatch(Mark::NotReadOnly, Variant::Write)),
        (Variant::Read, _, Some(true)) => None,
        // The server names the operation in its contract instead.
        (Variant::Read, _, None) if tool.contract.written_operation.is_some() => None,
        (Variant::Read, _, None) => return unannotated(settings, tool, &mismatch(Mark::Unannotated, Variant::Write)),
        (Variant::Write, _, Some(true)) => {
            let message =
                format!("Tool '{}' only reads, according to its server. You can use call_tool_read.", tool.name);
            return Ok(vec![Warning { code: Warning::OVERLY_CAUTIOUS, message }]);
        }
        (Variant::Write, _, Some(false) | None) => None,
    };
    match contradiction {
        None => Ok(Vec::new()),
        Some(denial) if settings.strict_server_validation => Err(denial),
        Some(denial) => Ok(vec![Warning { code: denial.code(), message: denial.message() }]),
    }
}

/// Handles a read call on a tool that the server does not mark as read-only.
fn unannotated(settings: &IntentSettings, tool: &Tool, denial: &Denial) -> Result<Vec<Warning>, Denial> {
    match settings.unannotated {
        Unannotated::Trust => Ok(Vec::new()),
        Unannotated::Warn => {
            let message = format!(
                "The server does not mark tool '{}' as read-only. The gateway relied on your use of call_tool_read.",
                tool.name
            );
            Ok(vec![Warning { code: "unannotated", message }])
        }
        Unannotated::RequireWrite => Err(denial.clone()),
    }
}

/// Returns true if agents can call the tool as a read although nobody says that it only reads. The gateway then relies
/// on the agent.
pub fn may_be_read_on_trust(settings: &IntentSettings, tool: &Tool) -> bool {
    let is_unannotated = tool.hints.read_only.is_none() && tool.hints.destructive != Some(true);
    let has_operation = tool.contract.is_operators_operation() || tool.contract.written_operation.is_some();
    let is_allowed = match settings.unannotated {
        Unannotated::Trust | Unannotated::Warn => true,
        Unannotated::RequireWrite => false,
    };
    is_unannotated && !has_operation && is_allowed
}

/// Returns true if the server's annotations or the operator's contract confirm the variant.
pub(super) fn confirm(tool: &Tool, variant: Variant) -> bool {
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
