//! Dry runs: recognizes them, builds the arguments that are sent, and answers those that are not sent.

use std::sync::Arc;

use serde_json::{Value, json};

use super::Moment;
use super::approval_request::{Asked, bind};
use super::call::{Call, Warning};
use super::checks;
use crate::catalog::Tool;
use crate::contract::{DryRun, Need};
use crate::denial::Denial;
use crate::intent::{Arguments, Declared, Intent, Mode};
use crate::json::{Members, members, quote};
use crate::settings::{ContractSettings, IntentSettings, TwoKey};
use crate::{Agent, Attached, Binding, Untrusted};

/// Time for which a dry run counts for its real call.
pub const DRY_RUN_FRESH_MS: i64 = 600_000;

/// The answer to a dry run that is not sent: what a real call would do, as far as the gateway knows.
#[derive(Debug)]
pub struct Preview {
    pub(super) call: Call,
    pub(super) asked: Option<Asked>,
    pub(super) missing_permissions: Vec<String>,
}

impl Preview {
    pub fn tool(&self) -> &Arc<Tool> {
        &self.call.tool
    }

    pub fn intent(&self) -> &Intent {
        &self.call.intent
    }

    pub fn arguments(&self) -> &Arguments {
        &self.call.arguments
    }

    /// Returns the members that would be sent beside the arguments.
    pub fn attached(&self) -> &Attached {
        &self.call.attached
    }

    pub fn warnings(&self) -> &[Warning] {
        &self.call.warnings
    }

    pub fn is_verified(&self) -> bool {
        self.call.is_verified
    }

    /// Returns the permissions that the agent's token lacks. A real call would be refused.
    pub fn missing_permissions(&self) -> &[String] {
        &self.missing_permissions
    }

    /// Returns the steps that a real call with these arguments still needs.
    pub fn needs(&self) -> Vec<Need> {
        self.asked.map(Asked::needs).unwrap_or_default()
    }

    pub fn to_json(&self) -> Value {
        let Call { tool, intent, arguments, warnings, .. } = &self.call;
        let real = real_arguments(tool, arguments);
        let warnings: Vec<Value> =
            warnings.iter().map(|one| json!({"code": one.code, "message": one.message})).collect();
        let effects: Vec<&str> = tool.contract.side_effects.value.iter().map(Untrusted::for_json).collect();
        json!({
            "dryRun": true,
            "wouldCall": {
                "tool": tool.name.to_string(),
                "call_with": intent.variant.tool(),
                // The strict reader accepts nothing that this cannot parse.
                "arguments": serde_json::from_str::<Value>(real.as_str()).unwrap_or_default(),
            },
            "warnings": warnings,
            "missingPermissions": self.missing_permissions,
            "expectedSideEffects": effects,
            "needs": self.needs().into_iter().map(Need::as_str).collect::<Vec<_>>(),
        })
    }
}

impl Declared {
    /// Returns `DryRun` if the agent sets `dry_run` or the argument that the contract names for it. Both mean the same,
    /// so no dry run bypasses these checks.
    pub fn mode_of(&self, tool: &Tool) -> Mode {
        let by_argument = || {
            let Some(parameter) = native(tool) else { return false };
            let given = members(self.arguments.as_str()).unwrap_or_default();
            given.iter().any(|(name, value)| name == parameter && *value == "true")
        };
        if self.mode == Mode::DryRun || by_argument() { Mode::DryRun } else { Mode::Real }
    }

    /// Returns the binding that only a dry run and its real call share.
    pub fn dry_run_binding(&self, agent: &Agent, tool: &Tool) -> Binding {
        dry_run_binding(agent, tool, &self.intent, &self.arguments, &self.attached)
    }
}

pub(super) fn dry_run_binding(
    agent: &Agent,
    tool: &Tool,
    intent: &Intent,
    arguments: &Arguments,
    attached: &Attached,
) -> Binding {
    bind(agent, tool, intent, real_arguments(tool, arguments).digest(), attached.dry_run_digest())
}

/// Returns the argument for the server's own dry run, if it is reliable. A server that does not know the argument would
/// make the real call.
fn native(tool: &Tool) -> Option<&str> {
    tool.contract.native_dry_run().filter(|parameter| !tool.lacks_argument(parameter))
}

/// Returns the arguments that are sent for a dry run, or `None` if nothing is sent.
pub(super) fn sent(settings: &ContractSettings, declared: &Declared, tool: &Tool) -> Option<Arguments> {
    let parameter = native(tool)?;
    // If the settings require approval, a server's contract cannot bypass it with a dry run.
    let is_open =
        tool.contract.dry_run.source.is_operator() || !checks::asks_by_setting(settings, tool, declared.intent.variant);
    is_open.then(|| with_argument(&declared.arguments, parameter, Some("true"))).flatten()
}

/// Explains why a dry run was not sent although a contract names an argument for it.
pub(super) fn not_sent(tool: &Tool) -> Option<Warning> {
    let parameter = Untrusted::shortened(tool.contract.dry_run_parameter()?, 64);
    let parameter = parameter.for_terminal();
    let why = if tool.lacks_argument(tool.contract.dry_run_parameter()?) {
        format!("'{parameter}' is no argument of the tool")
    } else {
        format!(
            "'{parameter}' is the server's word, and the operator wants a user asked; a contract of theirs can name it"
        )
    };
    let message = format!("The server's own dry run was not used: {why}");
    Some(Warning { code: "dry_run_not_sent", message })
}

/// Returns the arguments of the real call, without the one that asks for a dry run.
fn real_arguments(tool: &Tool, arguments: &Arguments) -> Arguments {
    let real = native(tool).and_then(|parameter| with_argument(arguments, parameter, None));
    real.unwrap_or_else(|| arguments.clone())
}

/// Returns the arguments with one of them set or removed. All others keep their bytes.
fn with_argument(arguments: &Arguments, name: &str, value: Option<&str>) -> Option<Arguments> {
    let given: Members<'_> = members(arguments.as_str())?;
    let others = given.iter().filter(|(other, _)| other != name);
    let mut all: Vec<String> = others.map(|(other, value)| format!("{}:{value}", quote(other))).collect();
    all.extend(value.map(|value| format!("{}:{value}", quote(name))));
    Arguments::exact(&format!("{{{}}}", all.join(","))).ok()
}

/// Checks that a dry run was made, if the contract requires one: of exactly this call, and within `DRY_RUN_FRESH_MS`.
pub(super) fn check_done(
    settings: &IntentSettings,
    declared: &Declared,
    tool: &Tool,
    moment: Moment<'_>,
) -> Result<(), Denial> {
    match &tool.contract.dry_run.value {
        DryRun::None | DryRun::Supported { .. } => return Ok(()),
        DryRun::Required { .. } => {}
    }
    let age_ms = moment.seen.dry_run_ms.map(|at_ms| moment.clock.now_ms.saturating_sub(at_ms));
    if age_ms.is_some_and(|age_ms| (0..=DRY_RUN_FRESH_MS).contains(&age_ms)) {
        return Ok(());
    }
    Err(Denial::DryRunRequired { tool: tool.name.clone(), next: next(settings, declared) })
}

/// Returns the dry run to make first, ready to send. The arguments are a text, so that no parser rounds their numbers.
fn next(settings: &IntentSettings, declared: &Declared) -> Value {
    let variant = declared.intent.variant;
    let mut parameters = json!({
        "name": declared.name.to_string(),
        "args_json": declared.arguments.as_str(),
        "dry_run": true,
    });
    if let (TwoKey::Required, Some(fields)) = (settings.two_key, parameters.as_object_mut()) {
        fields.insert("intent".to_owned(), json!({"operation_type": variant.operation()}));
    }
    json!({"tool": variant.tool(), "arguments": parameters})
}
