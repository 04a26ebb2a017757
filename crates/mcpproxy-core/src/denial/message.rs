//! The sentence that an agent gets with a refusal: what happened, why, and which tool or parameter to use next.

use super::{Approvers, Denial, DeniedBy, FieldHint, Mark, Missing, Retry, Ticket, Violation};
use crate::schema::Problem;
use crate::{RiskLevel, ToolName, Untrusted};

impl Denial {
    /// Words the refusal for the agent.
    pub fn message(&self) -> String {
        match self {
            Self::UnknownField { field, hint } => {
                format!("unknown field \"{}\"{}", field.for_terminal(), field_hint(hint))
            }
            Self::BadField { field, expected } => format!("{field} must be {expected}"),
            Self::InvalidToolName(error) => format!("Invalid tool name: {error}"),
            Self::AmbiguousToolName { candidates } => {
                format!("Several servers have a tool of this name. Set name to {}.", one_of(candidates))
            }
            Self::InvalidArgs(why) => format!("Invalid arguments: {why}"),
            Self::InvalidIntent(why) => format!("Invalid intent: {why}"),
            Self::InvalidOperationType(found) => {
                format!("Invalid intent.operation_type '{}': must be read, write, or destructive", found.for_terminal())
            }
            Self::InvalidSensitivity(found) => format!(
                "Invalid intent.data_sensitivity '{}': must be public, internal, private, or unknown",
                found.for_terminal()
            ),
            Self::ReasonTooLong => "intent.reason exceeds maximum length of 1000 characters".to_owned(),
            Self::MissingIntent(variant) => format!("intent parameter is required for {}", variant.tool()),
            Self::MissingOperationType => "intent.operation_type is required".to_owned(),
            Self::IntentMismatch { variant, declared } => {
                format!("Intent mismatch: tool is {} but intent declares {declared}", variant.tool())
            }
            Self::NoSuchTool { name, missing, suggestions } => no_such_tool(name, *missing, suggestions),
            Self::ServerMismatch { tool, mark, used, right } => {
                format!("Tool '{tool}' is {}, use {} instead of {}", mark.phrase(), right.tool(), used.tool())
            }
            Self::NotGranted { agent, variant } => {
                format!("Agent '{agent}' may not use {}: its token does not allow {variant} operations", variant.tool())
            }
            Self::NotKnownToRead { agent, tool } => {
                format!(
                    "Agent '{agent}' may only read, and the server does not mark '{tool}' as read-only. Use retrieve_tools to \
                     find a tool whose call_with is call_tool_read."
                )
            }
            Self::ContractMismatch { tool, used, right } => {
                format!("The contract of tool '{tool}' says {right}. Use {} instead of {}.", right.tool(), used.tool())
            }
            Self::Unclassified { tool } => format!(
                "Tool '{tool}' has no risk level, and this gateway allows only tools that have one. Tell the user that the \
                 operator must write a contract for it."
            ),
            Self::MissingPermissions { agent, tool, missing } => format!(
                "Agent '{agent}' lacks {} for '{tool}'. Tell the user that the operator must create a token with {}.",
                named("permission", missing),
                if missing.len() == 1 { "it" } else { "them" }
            ),
            Self::PolicyViolation { tool, violations } => policy_violation(tool, violations),
            Self::InvalidArguments { tool, problems } => invalid_arguments(tool, problems),
            Self::RateLimitExceeded { tool, limit, wait_ms } => format!(
                "Tool '{tool}' may be called {} in {}. Try again in {}.",
                times(limit.calls),
                span(limit.per.as_millis()),
                span(u128::from(*wait_ms))
            ),
            Self::InvalidIdempotencyKey => "idempotency_key must be 1–255 visible ASCII characters".to_owned(),
            Self::IdempotencyConflict { tool, is_natural } => conflict(tool, *is_natural),
            Self::OutcomeUnknown { tool, record } => outcome_unknown(tool, record),
            Self::DryRunRequired { tool, .. } => dry_run_required(tool),
            Self::ConfirmationRequired { tool, risk, needs_step_up, approval } => {
                confirmation_required(tool, *risk, *needs_step_up, approval.as_deref())
            }
            Self::ApprovalDenied { by, comment } => denied(by, comment.as_ref()),
            Self::ApprovalExpired => EXPIRED.to_owned(),
            Self::ApprovalAlreadyUsed { record, outcome } => already_used(record.as_deref(), outcome.as_deref()),
            Self::NoSuchApproval => NOT_FOUND.to_owned(),
            Self::ApprovalArgsMismatch => ARGS_MISMATCH.to_owned(),
            Self::ApprovalStale => STALE.to_owned(),
            Self::TooManyApprovals { most } => format!(
                "Too many approval requests: {most} of your calls are pending, or you made too many requests in the last 10 \
                 minutes. Ask the user to decide on the pending ones first."
            ),
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
const STALE: &str = "The tool, its contract or your permissions changed after the approval was requested. Repeat the call \
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

fn no_such_tool(name: &ToolName, missing: Missing, suggestions: &[ToolName]) -> String {
    let fact = match missing {
        Missing::Server => format!("unknown server '{}'", name.server()),
        Missing::Tool => format!("server '{}' has no tool '{}'", name.server(), name.tool()),
    };
    let hint = match suggestions {
        [] => "use retrieve_tools to find tools".to_owned(),
        some => format!("did you mean {}?", one_of(some)),
    };
    format!("Tool '{name}' not found: {fact}; {hint}")
}

fn one_of(names: &[ToolName]) -> String {
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

fn conflict(tool: &ToolName, is_natural: bool) -> String {
    if is_natural {
        return format!(
            "The contract of '{tool}' treats this call as a repeat of an earlier one, but other arguments differ. Repeat that \
             call exactly, or set a new idempotency_key."
        );
    }
    format!(
        "This idempotency_key was used for '{tool}' with other arguments. Set a new idempotency_key for a new call."
    )
}

fn outcome_unknown(tool: &ToolName, record: &str) -> String {
    format!(
        "This call of '{tool}' was sent before (record {record}), but its result was lost, so it is not sent again. Find out \
         if it took effect and tell the user. If it did not, repeat the call with a new idempotency_key."
    )
}

fn dry_run_required(tool: &ToolName) -> String {
    format!(
        "Tool '{tool}' needs a dry run of exactly this call within the last 10 minutes. Make the same call with dry_run: true, \
         read the result, then repeat this call."
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
