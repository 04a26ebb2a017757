//! The sentence that an agent gets with a refusal: what happened, why, and which tool or parameter to use next.

use std::fmt::Display;

use super::{
    Approvers, Denial, DeniedBy, FieldHint, FirstOutcome, Mark, Missing, ParameterPlace, Retry, Ticket, Violation,
};
use crate::schema::Problem;
use crate::{RiskLevel, ToolName, Untrusted, Variant};

impl Denial {
    /// Words the refusal for an agent that uses the four tools.
    pub fn message(&self) -> String {
        self.message_in(ParameterPlace::Arguments)
    }

    /// Words the refusal for the agent, with the names of parameters that exist where it sent the call.
    pub fn message_in(&self, place: ParameterPlace) -> String {
        match self {
            Self::UnknownField { field, hint } => {
                format!("unknown field \"{}\"{}", field.for_terminal(), field_hint(hint))
            }
            Self::BadField { field, expected } => format!("{} must be {expected}", place.parameter(field)),
            Self::InvalidToolName(error) => format!("Invalid tool name: {error}"),
            Self::AmbiguousToolName { candidates } => {
                format!("Several servers have a tool of this name. Set name to {}.", one_of(candidates))
            }
            Self::InvalidArgs(why) => format!("Invalid arguments: {why}"),
            Self::InvalidIntent(why) => format!("Invalid intent: {}", place.about_intent(why)),
            Self::InvalidOperationType(found) => {
                let field = place.intent_field("operation_type");
                format!("Invalid {field} '{}': must be read, write, or destructive", found.for_terminal())
            }
            Self::InvalidSensitivity(found) => {
                let field = place.intent_field("data_sensitivity");
                format!("Invalid {field} '{}': must be public, internal, private, or unknown", found.for_terminal())
            }
            Self::ReasonTooLong => {
                format!("{} exceeds maximum length of 1000 characters", place.intent_field("reason"))
            }
            Self::MissingIntent(variant) => missing_intent(*variant, place),
            Self::MissingOperationType => format!("{} is required", place.intent_field("operation_type")),
            Self::IntentMismatch { variant, declared } => intent_mismatch(*variant, *declared, place),
            Self::NoSuchTool { name, missing, suggestions } => no_such_tool(name, *missing, suggestions, place),
            Self::Quarantined { name } => format!(
                "Tool '{name}' is quarantined: its definition changed, and a user must review it first. Tell the user to run \
                 `mcpproxy servers review {}`.",
                name.server()
            ),
            Self::ServerMismatch { tool, mark, used, right } => server_mismatch(tool, *mark, (*used, *right), place),
            Self::NotGranted { agent, variant } => not_granted(agent, *variant, place),
            Self::NotKnownToRead { agent, tool } => not_known_to_read(agent, tool, place),
            Self::ContractMismatch { tool, used, right } => contract_mismatch(tool, (*used, *right), place),
            Self::Unclassified { tool } => format!(
                "Tool '{tool}' has no risk level, and this gateway allows only tools that have one. Tell the user that the \
                 operator must write a contract for it."
            ),
            Self::MissingPermissions { agent, tool, missing } => missing_permissions(agent, tool, missing),
            Self::PolicyViolation { tool, violations } => policy_violation(tool, violations),
            Self::InvalidArguments { tool, problems } => invalid_arguments(tool, problems),
            Self::RateLimitExceeded { tool, limit, wait_ms } => format!(
                "Tool '{tool}' may be called {} in {}. Try again in {}.",
                times(limit.calls),
                span(limit.per.as_millis()),
                span(u128::from(*wait_ms))
            ),
            Self::InvalidIdempotencyKey => {
                format!("{} must be 1–255 visible ASCII characters", place.parameter("idempotency_key"))
            }
            Self::IdempotencyConflict { tool, is_natural } => conflict(tool, *is_natural, place),
            Self::OutcomeUnknown { tool, record, first } => outcome_unknown(tool, record, *first, place),
            Self::DryRunRequired { tool, .. } => dry_run_required(tool, place),
            Self::ConfirmationRequired { tool, risk, needs_step_up, approval } => {
                confirmation_required(tool, *risk, *needs_step_up, approval.as_deref())
            }
            Self::ApprovalDenied { by, comment } => denied(by, comment.as_ref()),
            Self::ApprovalExpired => place.with_approval_id(EXPIRED),
            Self::ApprovalAlreadyUsed { record, outcome } => {
                place.with_approval_id(&already_used(record.as_deref(), outcome.as_deref()))
            }
            Self::NoSuchApproval => place.with_approval_id(NOT_FOUND),
            Self::ApprovalArgsMismatch => place.with_approval_id(ARGS_MISMATCH),
            Self::ApprovalStale => place.with_approval_id(STALE),
            Self::ContractsDiffer { tool } => format!(
                "The gateways of this service have different contracts for '{tool}', and the approval was requested under \
                 another one. The approval remains open. Repeat the call in a minute. If that fails too, ask the operator to \
                 deploy the same contracts to all gateways."
            ),
            Self::TooManyApprovals { most } => format!(
                "Too many approval requests: {most} of your calls are pending, or you made too many requests in the last 10 \
                 minutes. Ask the user to decide on the pending ones first."
            ),
        }
    }
}

/// The gateway's own parameters of a call.
const OWN_PARAMETERS: [&str; 4] = ["intent", "dry_run", "idempotency_key", "approval_id"];

impl ParameterPlace {
    /// Names a parameter of the gateway. Other names are the same everywhere.
    pub(super) fn parameter(self, name: &str) -> String {
        match self {
            Self::Meta if OWN_PARAMETERS.contains(&name) => format!("_meta[\"mcpproxy/{name}\"]"),
            Self::Arguments | Self::Meta => name.to_owned(),
        }
    }

    fn intent_field(self, name: &str) -> String {
        format!("{}.{name}", self.parameter("intent"))
    }

    /// Names the parameter in a sentence that begins with `intent`.
    fn about_intent(self, why: &str) -> String {
        match (self, why.strip_prefix("intent").filter(|rest| rest.starts_with([' ', '.']))) {
            (Self::Meta, Some(rest)) => format!("{}{rest}", self.parameter("intent")),
            (Self::Arguments | Self::Meta, _) => why.to_owned(),
        }
    }

    /// Names the parameter in a sentence that mentions `approval_id`.
    fn with_approval_id(self, text: &str) -> String {
        match self {
            Self::Arguments => text.to_owned(),
            Self::Meta => text.replace("approval_id", &self.parameter("approval_id")),
        }
    }

    /// Says how an agent finds the tools that it can call.
    fn find_tools(self) -> &'static str {
        match self {
            Self::Arguments => "use retrieve_tools to find tools",
            Self::Meta => "use tools/list to see the tools of this address",
        }
    }
}

/// Never contains the setup link itself: whoever opens it becomes an approver, and the reader of this text is an agent.
/// The last sentence is for `mcpproxy stdio`: most clients do not keep its standard error.
const NO_ACCOUNT: &str = "No approver account exists yet. Tell the user to open the one-time setup link that `mcpproxy serve` \
                          prints in its terminal, or `mcpproxy stdio` in the client's log. The link is valid for an hour. Each \
                          new approval request prints a valid one, and so does a restart of the gateway. A user who finds neither closes this client, runs \
                          `mcpproxy serve`, and starts the client again. ";
const NOT_ENROLLED: &str = "No approver account has a second factor yet. Tell the user to run `mcpproxy open`, sign in, and add \
                            an authenticator app or a passkey on the account page. ";
const EXPIRED: &str =
    "The approval expired before the call was made. Repeat the call without approval_id to request a new one.";
const NOT_FOUND: &str = "No approval has this approval_id. Repeat the call without approval_id to request one.";
const ARGS_MISMATCH: &str = "The approval is for another call. Repeat exactly the approved call, or make this one without \
                             approval_id to request an approval for it.";
const STALE: &str = "The tool, its contract or your token changed after the approval was requested. Repeat the call \
                     without approval_id to request a new one.";

impl Mark {
    fn phrase(self) -> &'static str {
        match self {
            Self::Destructive => "marked destructive by server",
            Self::NotReadOnly => "marked not read-only by server",
            Self::Unannotated => "not marked read-only by server",
        }
    }
}

fn missing_intent(variant: Variant, place: ParameterPlace) -> String {
    match place {
        ParameterPlace::Arguments => format!("intent parameter is required for {}", variant.tool()),
        ParameterPlace::Meta => format!(
            "{} is required: send {{\"operation_type\":\"{variant}\"}} there, beside the tool's arguments",
            place.parameter("intent")
        ),
    }
}

fn intent_mismatch(variant: Variant, declared: Variant, place: ParameterPlace) -> String {
    match place {
        ParameterPlace::Arguments => {
            format!("Intent mismatch: tool is {} but intent declares {declared}", variant.tool())
        }
        ParameterPlace::Meta => format!(
            "Intent mismatch: this is a {variant} tool but {} declares {declared}",
            place.intent_field("operation_type")
        ),
    }
}

fn server_mismatch(tool: &ToolName, mark: Mark, (used, right): (Variant, Variant), place: ParameterPlace) -> String {
    let fact = format!("Tool '{tool}' is {}", mark.phrase());
    match place {
        ParameterPlace::Arguments => format!("{fact}, use {} instead of {}", right.tool(), used.tool()),
        ParameterPlace::Meta => fact,
    }
}

fn contract_mismatch(tool: &ToolName, (used, right): (Variant, Variant), place: ParameterPlace) -> String {
    let fact = format!("The contract of tool '{tool}' says {right}.");
    match place {
        ParameterPlace::Arguments => format!("{fact} Use {} instead of {}.", right.tool(), used.tool()),
        ParameterPlace::Meta => fact,
    }
}

fn not_granted(agent: &str, variant: Variant, place: ParameterPlace) -> String {
    let what = match place {
        ParameterPlace::Arguments => format!("use {}", variant.tool()),
        ParameterPlace::Meta => "call this tool".to_owned(),
    };
    format!("Agent '{agent}' may not {what}: its token does not allow {variant} operations")
}

fn not_known_to_read(agent: &str, tool: &ToolName, place: ParameterPlace) -> String {
    let next = match place {
        ParameterPlace::Arguments => "Use retrieve_tools to find a tool whose call_with is call_tool_read.",
        ParameterPlace::Meta => "Use a tool that tools/list shows with readOnlyHint: true.",
    };
    format!("Agent '{agent}' may only read, and the server does not mark '{tool}' as read-only. {next}")
}

fn missing_permissions(agent: &str, tool: &ToolName, missing: &[String]) -> String {
    format!(
        "Agent '{agent}' lacks {} for '{tool}'. Tell the user that the operator must create a token with {}.",
        named("permission", missing),
        if missing.len() == 1 { "it" } else { "them" }
    )
}

fn no_such_tool(name: &ToolName, missing: Missing, suggestions: &[String], place: ParameterPlace) -> String {
    let fact = match missing {
        Missing::Server => format!("unknown server '{}'", name.server()),
        Missing::Tool => format!("server '{}' has no tool '{}'", name.server(), name.tool()),
    };
    let hint = match suggestions {
        [] => place.find_tools().to_owned(),
        some => format!("did you mean {}?", one_of(some)),
    };
    format!("Tool '{name}' not found: {fact}; {hint}")
}

fn one_of(names: &[impl Display]) -> String {
    let quoted: Vec<String> = names.iter().map(|name| format!("'{name}'")).collect();
    quoted.join(" or ")
}

fn field_hint(hint: &FieldHint) -> String {
    match hint {
        FieldHint::Nearest(near) => format!("; did you mean \"{near}\"?"),
        FieldHint::Shape(shape) => format!(". The tool's own arguments go into args: {}", shape.for_terminal()),
        FieldHint::IntoArgs => "; remove it or put it into args".to_owned(),
        FieldHint::Unknown => String::new(),
    }
}

fn named(word: &str, names: &[String]) -> String {
    let quoted: Vec<String> = names.iter().map(|name| format!("'{name}'")).collect();
    format!("the {word}{} {}", if names.len() == 1 { "" } else { "s" }, quoted.join(", "))
}

fn policy_violation(tool: &ToolName, violations: &[Violation]) -> String {
    match violations.first() {
        Some(Violation { policy, message: Some(message), .. }) => {
            format!("Tool '{tool}' is refused by policy '{policy}': {message}")
        }
        Some(Violation { policy, message: None, .. }) => format!("Tool '{tool}' is refused by policy '{policy}'"),
        None => format!("Tool '{tool}' is refused by a policy of the operator"),
    }
}

fn invalid_arguments(tool: &ToolName, problems: &[Problem]) -> String {
    let separator = if problems.len() == 1 { " " } else { "\n" };
    format!("Invalid arguments for '{tool}':{separator}{}", Problem::message(problems))
}

fn confirmation_required(
    tool: &ToolName,
    risk: Option<RiskLevel>,
    needs_step_up: bool,
    approval: Option<&Ticket>,
) -> String {
    let level = risk.map(|risk| format!(" (risk level {})", risk.as_str())).unwrap_or_default();
    let factor = if needs_step_up { " with a fresh second factor" } else { "" };
    let fact = format!("A user must approve this call of '{tool}'{level}{factor}.");
    match approval {
        None => format!("{fact} Make the call to request the approval."),
        Some(Ticket { id, url, retry, approvers, .. }) => {
            let with_id = match retry {
                Retry::WithId => format!(" with approval_id={id}"),
                Retry::AsItIs => String::new(),
            };
            let setup = match approvers {
                Approvers::Ready => "",
                Approvers::NotEnrolled => NOT_ENROLLED,
                Approvers::NoAccount => NO_ACCOUNT,
            };
            format!(
                "{fact} {setup}Ask the user to open {url}. Then repeat exactly this call{with_id}. Do not change the arguments."
            )
        }
    }
}

fn conflict(tool: &ToolName, is_natural: bool, place: ParameterPlace) -> String {
    let key = place.parameter("idempotency_key");
    if is_natural {
        return format!(
            "The contract of '{tool}' treats this call as a repeat of an earlier one, but other arguments differ. Repeat that \
             call exactly, or set a new {key}."
        );
    }
    format!("This {key} was used for '{tool}' with other arguments. Set a new {key} for a new call.")
}

fn outcome_unknown(tool: &ToolName, record: &str, first: FirstOutcome, place: ParameterPlace) -> String {
    let fact = match first {
        FirstOutcome::Lost => "its result was lost",
        FirstOutcome::Failed => "it failed and may have had an effect",
    };
    format!(
        "This call of '{tool}' was sent before (record {record}), but {fact}, so it is not sent again. Find out \
         if it took effect and tell the user. If it did not, repeat the call with a new {}.",
        place.parameter("idempotency_key")
    )
}

fn dry_run_required(tool: &ToolName, place: ParameterPlace) -> String {
    format!(
        "Tool '{tool}' needs a dry run of exactly this call within the last 10 minutes. Make the same call with {}: true, \
         read the result, then repeat this call.",
        place.parameter("dry_run")
    )
}

fn denied(by: &DeniedBy, comment: Option<&Untrusted>) -> String {
    let fact = by.sentence();
    match comment {
        None => format!("{fact}. Do not repeat it. Ask the user what to do instead."),
        Some(comment) => format!("{fact}: \"{}\". Do not repeat it unchanged.", comment.for_terminal_lines()),
    }
}

fn already_used(record: Option<&str>, outcome: Option<&str>) -> String {
    let record = record.map(|record| format!(" (record {record})")).unwrap_or_default();
    let outcome = outcome.map(|outcome| format!(" with the outcome {outcome}")).unwrap_or_default();
    format!(
        "The approval was already used for a call{record}{outcome}. An approval is valid for one call. Repeat the call without \
         approval_id to request a new one."
    )
}

fn times(calls: u32) -> String {
    match calls {
        1 => "once".to_owned(),
        calls => format!("{calls} times"),
    }
}

/// Formats a duration in one unit, rounded up.
fn span(ms: u128) -> String {
    match ms {
        0..=999 => format!("{ms} ms"),
        1_000..=119_999 => format!("{} s", ms.div_ceil(1_000)),
        120_000..=7_199_999 => format!("{} min", ms.div_ceil(60_000)),
        _ => format!("{} h", ms.div_ceil(3_600_000)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A direct call has no parameters of the gateway among its arguments, so a refusal must not name them.
    #[test]
    fn refusals_of_direct_calls_name_what_exists_there() {
        let tool = ToolName::parse("fx:send").unwrap();
        let check = |denial: &Denial, expected: &str| {
            assert_eq!(denial.message_in(ParameterPlace::Meta), expected);
        };
        check(
            &Denial::MissingIntent(Variant::Write),
            "_meta[\"mcpproxy/intent\"] is required: send {\"operation_type\":\"write\"} there, beside the tool's arguments",
        );
        check(&Denial::MissingOperationType, "_meta[\"mcpproxy/intent\"].operation_type is required");
        check(
            &Denial::IntentMismatch { variant: Variant::Write, declared: Variant::Read },
            "Intent mismatch: this is a write tool but _meta[\"mcpproxy/intent\"].operation_type declares read",
        );
        check(
            &Denial::InvalidSensitivity(Untrusted::new("secret")),
            "Invalid _meta[\"mcpproxy/intent\"].data_sensitivity 'secret': must be public, internal, private, or unknown",
        );
        check(
            &Denial::InvalidIntent("intent must be an object".to_owned()),
            "Invalid intent: _meta[\"mcpproxy/intent\"] must be an object",
        );
        check(
            &Denial::BadField { field: "dry_run", expected: "true or false" },
            "_meta[\"mcpproxy/dry_run\"] must be true or false",
        );
        check(
            &Denial::NotGranted { agent: "a".to_owned(), variant: Variant::Write },
            "Agent 'a' may not call this tool: its token does not allow write operations",
        );
        let all = [
            Denial::DryRunRequired { tool: tool.clone(), next: serde_json::Value::Null },
            Denial::IdempotencyConflict { tool: tool.clone(), is_natural: true },
            Denial::IdempotencyConflict { tool: tool.clone(), is_natural: false },
            Denial::OutcomeUnknown { tool: tool.clone(), record: "r".to_owned(), first: FirstOutcome::Failed },
            Denial::InvalidIdempotencyKey,
            Denial::ApprovalExpired,
            Denial::ApprovalStale,
            Denial::ContractsDiffer { tool: tool.clone() },
            Denial::ApprovalArgsMismatch,
            Denial::NoSuchApproval,
            Denial::ApprovalAlreadyUsed { record: None, outcome: None },
            Denial::NotKnownToRead { agent: "a".to_owned(), tool: tool.clone() },
            Denial::NoSuchTool { name: tool, missing: Missing::Tool, suggestions: Vec::new() },
            Denial::ReasonTooLong,
        ];
        for denial in all {
            let own = denial.message_in(ParameterPlace::Meta);
            for absent in [" idempotency_key", " approval_id", " dry_run", " intent.", "call_tool_", "retrieve_tools"] {
                assert!(!own.contains(absent), "{own}");
            }
        }
    }
}
