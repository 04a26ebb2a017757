//! Words a refusal of the gateway for the person at the terminal.
//!
//! The gateway's own message speaks to an agent: it names MCP tools and parameters. Here every [`ErrorCode`] gets a
//! sentence about the command line, an exit code and, where one helps, the command to run next. All three matches are
//! exhaustive, so that a new code does not compile without its sentence. A code that this version does not know comes
//! from a newer gateway. The gateway's message is then printed unchanged.

use mcpproxy_core::{ApprovalId, DeniedBy, ErrorCode, Variant};
use serde_json::Value;

use super::invocation::Invocation;
use crate::exit::{Exit, Failure};
use crate::terminal::output::{line, member};
use crate::terminal::shell;

/// An error that the gateway itself returned instead of a result.
pub(super) struct GatewayError<'r> {
    pub(super) code: &'r str,
    pub(super) message: &'r str,
    pub(super) details: &'r Value,
}

/// Builds the failure to report: a sentence, the code in parentheses, lines with details, and a hint.
pub(super) fn failure(error: &GatewayError<'_>, invocation: &Invocation<'_>) -> Failure {
    let (exit, sentence, hint) = match ErrorCode::parse(error.code) {
        Some(code) => (exit(code, error), sentence(code, error, invocation), next_command(code, error, invocation)),
        None => (Exit::Refused, error.message(), None),
    };
    let mut text = format!("{sentence} ({})", line(error.code));
    if error.details.get("nobody_can_approve").is_some() {
        let open = invocation.command("open");
        text.push_str(&match error.text("approver_lacks") {
            Some("second_factor") => {
                format!("\n  No approver account has a second factor yet. Run `{open}`, sign in and add one.")
            }
            _ => "\n  No approver account exists yet. Open the setup link that `mcpproxy serve` printed.".to_owned(),
        });
    }
    for problem in error.list("problems") {
        text.push_str(&format!("\n  {}", problem_line(problem)));
    }
    for policy in error.list("rules").iter().skip(1) {
        text.push_str(&format!("\n  {} forbids it too{}", policy_name(policy), policy_message(policy)));
    }
    let failure = Failure::new(exit, text);
    match right_variant(error).map(|variant| invocation.with_variant(variant)).or(hint) {
        Some(hint) => failure.hint(hint),
        None => failure,
    }
}

impl GatewayError<'_> {
    /// Returns the gateway's message, escaped for the terminal.
    fn message(&self) -> String {
        line(self.message)
    }

    fn list(&self, name: &str) -> &[Value] {
        self.details.get(name).and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default()
    }

    fn text(&self, name: &str) -> Option<&str> {
        self.details.get(name).and_then(Value::as_str)
    }

    /// Returns the id of the approval request for this call, if the gateway made one.
    fn approval(&self) -> Option<ApprovalId> {
        ApprovalId::parse(self.text("approval_id")?)
    }
}

fn exit(code: ErrorCode, error: &GatewayError<'_>) -> Exit {
    use ErrorCode as Code;
    match code {
        // The server received the call, or was unavailable.
        Code::UpstreamUnavailable
        | Code::SignInRequired
        | Code::UpstreamTimeout
        | Code::UpstreamBusy
        | Code::UpstreamProtocolError
        | Code::ResultTooLarge
        | Code::OutputMismatch => Exit::ServerFailed,
        Code::ConfirmationRequired if error.approval().is_some() => Exit::Waiting,
        Code::MissingIntent
        | Code::MissingOperationType
        | Code::IntentMismatch
        | Code::ServerMismatch
        | Code::InvalidOperationType
        | Code::InvalidSensitivity
        | Code::ReasonTooLong
        | Code::UnknownField
        | Code::InvalidField
        | Code::InvalidToolName
        | Code::InvalidArgs
        | Code::InvalidIntent
        | Code::ToolNotFound
        | Code::ServerNotFound
        | Code::ToolQuarantined
        | Code::ContractMismatch
        | Code::ContractRequired
        | Code::PermissionDenied
        | Code::PolicyViolation
        | Code::InvalidArguments
        | Code::RateLimitExceeded
        | Code::InvalidIdempotencyKey
        | Code::IdempotencyConflict
        | Code::OutcomeUnknown
        | Code::DryRunRequired
        | Code::ConfirmationRequired
        | Code::ApprovalDenied
        | Code::ApprovalExpired
        | Code::ApprovalAlreadyUsed
        | Code::ApprovalNotFound
        | Code::ApprovalArgsMismatch
        | Code::ApprovalStale
        | Code::ContractsDiffer
        | Code::TooManyApprovals
        | Code::AuditUnavailable
        | Code::AgentLimit
        | Code::Cancelled => Exit::Refused,
    }
}

fn sentence(code: ErrorCode, error: &GatewayError<'_>, invocation: &Invocation<'_>) -> String {
    use ErrorCode as Code;
    let tool = invocation.tool;
    match code {
        Code::ServerMismatch => understated(error, invocation, ""),
        Code::ContractMismatch => understated(error, invocation, "By its contract, "),
        Code::ReasonTooLong => "--reason is longer than 1000 characters.".to_owned(),
        Code::InvalidIdempotencyKey => "--idempotency-key must be 1 to 255 visible ASCII characters.".to_owned(),
        Code::ToolNotFound => not_found(error, invocation),
        Code::ToolQuarantined => {
            format!("The definition of `{tool}` changed, and no user has accepted it yet.")
        }
        Code::ContractRequired => {
            format!("`{tool}` has no risk level, and the settings allow only tools that have one.")
        }
        Code::PermissionDenied => permission_denied(error, invocation),
        Code::PolicyViolation => match error.list("rules").first() {
            Some(policy) => format!("{} forbids this call{}", policy_name(policy), policy_message(policy)),
            None => error.message(),
        },
        Code::InvalidArguments => format!("The arguments do not match the schema of `{tool}`."),
        Code::RateLimitExceeded => {
            let wait_ms = error.details.get("retry_after_ms").and_then(Value::as_u64).unwrap_or_default();
            format!("The rate limit of `{tool}` is used up. Try again in {} s.", wait_ms.div_ceil(1000))
        }
        Code::IdempotencyConflict => match invocation.idempotency_key {
            Some(_) => "An earlier call used the same idempotency key with other arguments.".to_owned(),
            None => {
                "The contract treats this call as a repeat of an earlier one, but other arguments differ.".to_owned()
            }
        },
        Code::OutcomeUnknown => {
            "The same call was sent before, and the gateway does not know whether it ran.".to_owned()
        }
        Code::DryRunRequired => {
            format!("`{tool}` requires a dry run of this exact call within the last 10 minutes.")
        }
        Code::ConfirmationRequired => needs_approval(error, invocation),
        Code::ApprovalDenied => {
            let fact = line(&DeniedBy::read(error.text("decided_by")).sentence());
            match error.text("comment") {
                Some(comment) => format!("{fact}: {}", line(comment)),
                None => format!("{fact}."),
            }
        }
        Code::ApprovalExpired => "The approval expired before the call was made.".to_owned(),
        Code::ApprovalAlreadyUsed => "The approval was already used. An approval allows one call.".to_owned(),
        Code::ApprovalNotFound => format!("There is no approval `{}`.", approval_id(invocation)),
        Code::ApprovalArgsMismatch => format!("The approval `{}` is for a different call.", approval_id(invocation)),
        Code::ContractsDiffer => {
            format!("The gateways have different contracts for `{tool}`. The approval remains open.")
        }
        Code::ApprovalStale => {
            "The tool, its contract or the token changed after the approval was requested.".to_owned()
        }
        Code::TooManyApprovals => "Too many calls already wait for an approval.".to_owned(),
        Code::AuditUnavailable => {
            "The activity log cannot be written, so the gateway did not send the call.".to_owned()
        }
        Code::AgentLimit => "This agent has too many open requests. Try again when some of them are done.".to_owned(),
        // This command always sends these correctly, so the running gateway is of another version.
        Code::MissingIntent
        | Code::MissingOperationType
        | Code::IntentMismatch
        | Code::InvalidOperationType
        | Code::InvalidSensitivity
        | Code::UnknownField
        | Code::InvalidField
        | Code::InvalidIntent => format!("The gateway did not understand the call: {}", error.message()),
        Code::SignInRequired => format!("{} needs a sign-in, so the call was not processed.", tool.server()),
        // The gateway's message has the details that matter here: the position, the time limit, the size.
        Code::InvalidToolName
        | Code::InvalidArgs
        | Code::ServerNotFound
        | Code::UpstreamUnavailable
        | Code::UpstreamTimeout
        | Code::UpstreamBusy
        | Code::UpstreamProtocolError
        | Code::ResultTooLarge
        | Code::OutputMismatch
        | Code::Cancelled => error.message(),
    }
}

fn next_command(code: ErrorCode, error: &GatewayError<'_>, invocation: &Invocation<'_>) -> Option<String> {
    use ErrorCode as Code;
    let tool = invocation.tool;
    let run = |what: &str, command: &str| Some(format!("{what}: {}", invocation.command(command)));
    match code {
        Code::ToolNotFound => run("list all tools", "tools list"),
        Code::ServerNotFound => run("list all servers", "servers list"),
        Code::ToolQuarantined => run("review it", &format!("servers review {}", tool.server())),
        Code::ContractRequired => run("make a first contract", &format!("contract draft {}", tool.server())),
        Code::PermissionDenied => run("create a token that allows it", &token_command(error)?),
        Code::PolicyViolation => {
            run("see all policies that apply", &format!("policy explain {tool} --variant {}", invocation.variant))
        }
        Code::InvalidArguments => Some(format!(
            "see the schema with `{}` and the conditions of the contract with `{}`",
            invocation.command(&format!("tools show {tool}")),
            invocation.command(&format!("contract show {tool}"))
        )),
        Code::ConfirmationRequired => match error.approval() {
            Some(id) => Some(invocation.after_approval(&id)),
            None => run("see why", &format!("contract show {tool}")),
        },
        Code::ContractsDiffer => run("see which gateways differ", "status"),
        Code::RateLimitExceeded => run("see the limit", &format!("contract show {tool}")),
        Code::OutputMismatch => run("see what the contract promises", &format!("contract show {tool}")),
        Code::DryRunRequired => Some(invocation.as_dry_run()),
        Code::ApprovalExpired | Code::ApprovalStale => {
            Some(format!("request a new approval: {}", invocation.without_approval()))
        }
        Code::ApprovalArgsMismatch => {
            run("see the call that it allows", &format!("approvals show {}", approval_id(invocation)))
        }
        Code::ApprovalNotFound => run("list all approvals", "approvals list --state all"),
        Code::TooManyApprovals => run("decide on them first", "approvals list"),
        Code::ApprovalAlreadyUsed | Code::OutcomeUnknown => {
            let record = shell::plain_word(error.text("record")?);
            run("see what is known about that call", &format!("activity show {record}"))
        }
        Code::IdempotencyConflict => Some("use a new --idempotency-key for a new call".to_owned()),
        Code::UpstreamUnavailable => run("see why", "servers list"),
        Code::SignInRequired => run("sign in", &format!("servers login {}", tool.server())),
        Code::MissingIntent
        | Code::MissingOperationType
        | Code::IntentMismatch
        | Code::InvalidOperationType
        | Code::InvalidSensitivity
        | Code::UnknownField
        | Code::InvalidField
        | Code::InvalidIntent => run("restart the gateway with the version of this command", "serve"),
        // The sentence is enough, or the next step is `right_variant`.
        Code::ServerMismatch
        | Code::ContractMismatch
        | Code::ReasonTooLong
        | Code::InvalidToolName
        | Code::InvalidArgs
        | Code::InvalidIdempotencyKey
        | Code::ApprovalDenied
        | Code::AuditUnavailable
        | Code::AgentLimit
        | Code::UpstreamTimeout
        | Code::UpstreamBusy
        | Code::UpstreamProtocolError
        | Code::ResultTooLarge
        | Code::Cancelled => None,
    }
}

/// Returns the variant that the tool needs, if the call used a weaker one.
fn right_variant(error: &GatewayError<'_>) -> Option<Variant> {
    Variant::from_tool(error.text("call_with")?)
}

/// Says that the tool does more than the variant declares: `demo:create_note` changes data.
fn understated(error: &GatewayError<'_>, invocation: &Invocation<'_>, source: &str) -> String {
    let tool = invocation.tool;
    let Some(right) = right_variant(error) else { return error.message() };
    // The server has no annotation for the tool, and the settings then require a write.
    if error.message.contains("is not marked read-only by server") {
        return format!("The server does not mark `{tool}` as read-only. Use `mcpproxy call tool-{right}`.");
    }
    if error.message.contains("is marked destructive by server") {
        let server = invocation.tool.server();
        return format!(
            "`{tool}` can destroy data: it is marked destructive by server `{server}`. Use `mcpproxy call tool-{right}`."
        );
    }
    let effect = match right {
        Variant::Read => "only reads data",
        Variant::Write => "changes data",
        Variant::Destructive => "can destroy data",
    };
    format!("{source}`{tool}` {effect}. Use `mcpproxy call tool-{right}`.")
}

fn not_found(error: &GatewayError<'_>, invocation: &Invocation<'_>) -> String {
    let names: Vec<String> =
        error.list("suggestions").iter().filter_map(Value::as_str).map(|name| format!("`{}`", line(name))).collect();
    let question = match names.as_slice() {
        [] => String::new(),
        names => format!(" Did you mean {}?", names.join(" or ")),
    };
    format!("There is no tool `{}`.{question}", invocation.tool)
}

fn permission_denied(error: &GatewayError<'_>, invocation: &Invocation<'_>) -> String {
    let tool = invocation.tool;
    let missing: Vec<String> = error
        .list("missing_permissions")
        .iter()
        .filter_map(Value::as_str)
        .map(|name| format!("`{}`", line(name)))
        .collect();
    match (missing.as_slice(), error.text("operation")) {
        ([], Some(operation)) => {
            format!("The token in agent.token does not allow {} operations.", line(operation))
        }
        ([], None) => {
            format!("The token in agent.token allows only read operations, and `{tool}` is not marked as read-only.")
        }
        ([one], _) => format!("The token in agent.token lacks the permission {one}, which `{tool}` requires."),
        (some, _) => {
            format!("The token in agent.token lacks the permissions {}, which `{tool}` requires.", some.join(", "))
        }
    }
}

fn token_command(error: &GatewayError<'_>) -> Option<String> {
    let missing = error.list("missing_permissions").iter().filter_map(Value::as_str);
    let permissions: String = missing.map(|name| format!(" --grant {}", shell::word(name))).collect();
    (!permissions.is_empty()).then(|| format!("token create NAME{permissions}"))
}

fn needs_approval(error: &GatewayError<'_>, invocation: &Invocation<'_>) -> String {
    let level = error.text("risk_level").map(|level| format!(" (risk level {})", line(level))).unwrap_or_default();
    let needs_step_up = error.list("needs").iter().any(|need| need == "step_up");
    let factor = if needs_step_up { " with a second factor" } else { "" };
    let page = error.text("approve_url").map(|url| format!(" Open {}", line(url))).unwrap_or_default();
    format!("A user must approve this call of `{}`{level}{factor}.{page}", invocation.tool)
}

fn approval_id<'a>(invocation: &Invocation<'a>) -> &'a str {
    invocation.approval.map_or("ID", ApprovalId::as_str)
}

fn problem_line(problem: &Value) -> String {
    let pointer = match member(problem, "pointer").as_str() {
        "" | "-" => "arguments".to_owned(),
        pointer => pointer.to_owned(),
    };
    let description = problem.get("description").and_then(Value::as_str).map(|text| format!(" ({})", line(text)));
    let (expected, found) = (member(problem, "expected"), member(problem, "found"));
    format!("{pointer}: expected {expected}, found {found}{}", description.unwrap_or_default())
}

fn policy_name(policy: &Value) -> String {
    format!("Policy `{}`", member(policy, "rule"))
}

fn policy_message(policy: &Value) -> String {
    policy.get("message").and_then(Value::as_str).map(|text| format!(": {}", line(text))).unwrap_or_default()
}
