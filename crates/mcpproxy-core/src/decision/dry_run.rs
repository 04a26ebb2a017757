//! Dry runs: recognizes them, makes the arguments that are sent for them, and the preview if nothing is sent.

use std::ops::Deref;

use serde_json::{Value, json};

use super::Moment;
use super::approval_request::{ApprovalNeed, bind};
use super::call::{Call, Warning};
use super::checks;
use crate::catalog::Tool;
use crate::contract::{DryRun, Need};
use crate::denial::{Denial, ParameterPlace};
use crate::intent::{Arguments, Declared, Intent, Mode};
use crate::json::{Members, members, quote};
use crate::settings::{ContractSettings, IntentSettings, TwoKey};
use crate::{Agent, Attached, Binding, Untrusted};

/// Age up to which a dry run is accepted for the call it was made for: 10 minutes.
pub const DRY_RUN_FRESH_MS: i64 = 600_000;

/// The gateway's own answer to a dry run: what a real call would do according to the contract. Nothing was sent.
#[derive(Debug)]
pub struct Preview {
    pub(super) call: Call,
    pub(super) need: Option<ApprovalNeed>,
    pub(super) missing_permissions: Vec<String>,
}

impl Deref for Preview {
    type Target = Call;

    fn deref(&self) -> &Call {
        &self.call
    }
}

impl Preview {
    /// The permissions that the agent's token lacks. With any missing, a real call is refused.
    pub fn missing_permissions(&self) -> &[String] {
        &self.missing_permissions
    }

    /// The approval that a real call with these arguments needs.
    pub fn needs(&self) -> Vec<Need> {
        self.need.map(ApprovalNeed::needs).unwrap_or_default()
    }

    /// Writes the preview as JSON. The arguments keep their bytes, so that no digit of a number is lost.
    ///
    /// A direct call names no variant, so its preview does not either.
    pub fn to_json(&self, place: ParameterPlace) -> String {
        let Call { tool, intent, arguments, warnings, .. } = &self.call;
        let real = real_arguments(tool, arguments);
        let warnings: Vec<Value> =
            warnings.iter().map(|one| json!({"code": one.code, "message": one.message})).collect();
        let effects: Vec<&str> = tool.contract.side_effects.value.iter().map(Untrusted::for_json).collect();
        let call_with = match place {
            ParameterPlace::Arguments => format!("\"call_with\":{},", quote(intent.variant.tool())),
            ParameterPlace::Meta => String::new(),
        };
        let needs: Vec<&str> = self.needs().into_iter().map(Need::as_str).collect();
        format!(
            "{{\"dryRun\":true,\"wouldCall\":{{\"tool\":{},{call_with}\"arguments\":{}}},\"warnings\":{},\
             \"missingPermissions\":{},\"expectedSideEffects\":{},\"needs\":{}}}",
            quote(&tool.name.to_string()),
            // Outside of strings, a line break is white space. An answer over stdio is one line.
            real.as_str().replace(['\n', '\r'], " "),
            Value::from(warnings),
            json!(self.missing_permissions),
            json!(effects),
            json!(needs),
        )
    }
}

impl Declared {
    /// Returns `DryRun` if the agent set `dry_run`, or the argument that the contract names for the server's own dry run.
    /// Treating both the same means that a server's dry run is always recorded as one.
    pub fn mode_of(&self, tool: &Tool) -> Mode {
        let by_argument = || {
            let Some(parameter) = native(tool) else { return false };
            let given = members(self.arguments.as_str()).unwrap_or_default();
            given.iter().any(|(name, value)| name == parameter && *value == "true")
        };
        if self.mode == Mode::DryRun || by_argument() { Mode::DryRun } else { Mode::Real }
    }

    /// Returns the binding that a dry run shares with the call it is made for, and with no other call.
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

/// Returns the argument for the server's own dry run, if the tool's schema has it. A server without that argument would
/// ignore it and make the real call.
fn native(tool: &Tool) -> Option<&str> {
    tool.contract.native_dry_run().filter(|parameter| !tool.lacks_argument(parameter))
}

/// Returns the arguments that are sent for a dry run, or `None` if the gateway answers with a preview.
pub(super) fn native_arguments(settings: &ContractSettings, declared: &Declared, tool: &Tool) -> Option<Arguments> {
    let parameter = native(tool)?;
    // If the settings require an approval, a server's contract must not open a way around it.
    let is_open =
        tool.contract.dry_run.source.is_operator() || !checks::asks_by_setting(settings, tool, declared.intent.variant);
    is_open.then(|| with_argument(&declared.arguments, parameter, Some("true"))).flatten()
}

/// Explains why the server's own dry run was not used, if a contract names one.
pub(super) fn not_sent(tool: &Tool) -> Option<Warning> {
    let parameter = Untrusted::shortened(tool.contract.dry_run_parameter()?, 64);
    let parameter = parameter.for_terminal();
    let why = if tool.lacks_argument(tool.contract.dry_run_parameter()?) {
        format!("the tool has no argument '{parameter}'")
    } else {
        format!(
            "only the server's contract names '{parameter}', and a user must approve the call; the operator can name it in a \
             contract"
        )
    };
    let message = format!("The server's own dry run was not used: {why}");
    Some(Warning { code: "dry_run_not_sent", message })
}

/// Returns the arguments of the real call, without the one that requests a dry run.
fn real_arguments(tool: &Tool, arguments: &Arguments) -> Arguments {
    let real = native(tool).and_then(|parameter| with_argument(arguments, parameter, None));
    real.unwrap_or_else(|| arguments.clone())
}

/// Sets or removes one argument. All others keep their bytes.
fn with_argument(arguments: &Arguments, name: &str, value: Option<&str>) -> Option<Arguments> {
    let given: Members<'_> = members(arguments.as_str())?;
    let others = given.iter().filter(|(other, _)| other != name);
    let mut all: Vec<String> = others.map(|(other, value)| format!("{}:{value}", quote(other))).collect();
    all.extend(value.map(|value| format!("{}:{value}", quote(name))));
    Arguments::exact(&format!("{{{}}}", all.join(","))).ok()
}

/// Checks that a required dry run of exactly this call was made in the last 10 minutes.
pub(super) fn check_made(
    settings: &IntentSettings,
    declared: &Declared,
    tool: &Tool,
    moment: Moment<'_>,
) -> Result<(), Denial> {
    match &tool.contract.dry_run.value {
        DryRun::None | DryRun::Supported { .. } => return Ok(()),
        DryRun::Required { .. } => {}
    }
    let age_ms = moment.prior.dry_run_ms.map(|at_ms| moment.clock.now_ms.saturating_sub(at_ms));
    if age_ms.is_some_and(|age_ms| (0..=DRY_RUN_FRESH_MS).contains(&age_ms)) {
        return Ok(());
    }
    Err(Denial::DryRunRequired { tool: tool.name.clone(), next: next(settings, declared) })
}

/// Builds the dry run to make first, ready to be sent. The arguments are a string, so that no JSON reader rounds a number.
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
