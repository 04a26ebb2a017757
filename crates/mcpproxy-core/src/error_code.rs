//! Error codes that an agent can get for a tool call: one row per code.
//!
//! A row holds the code, its meaning and the next step. The enum, [`ErrorCode::ALL`], [`ErrorCode::parse`] and the page
//! `docs/reference/error-codes.md` are made from the rows. `mcpproxy call` matches on the enum to word a refusal for
//! the user at the terminal. So a new row does not compile until it has such a sentence.
//!
//! Seven codes are in upper case. They are the published codes of the intent declaration, and agents match on them. All
//! other codes are in lower case.

macro_rules! error_codes {
    ($($variant:ident $code:literal, $meaning:literal, $next:literal;)*) => {
        /// A reason why a tool call has no result.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        pub enum ErrorCode {
            $(#[doc = $meaning] $variant,)*
        }

        impl ErrorCode {
            /// All codes, in the order of the reference page.
            pub const ALL: &[Self] = &[$(Self::$variant,)*];

            /// Returns the code as it appears in `structuredContent.error.code`.
            pub fn as_str(self) -> &'static str {
                match self {
                    $(Self::$variant => $code,)*
                }
            }

            /// Returns a sentence that says what happened.
            pub fn meaning(self) -> &'static str {
                match self {
                    $(Self::$variant => $meaning,)*
                }
            }

            /// Returns a sentence that says what the agent or the operator does next.
            pub fn next_step(self) -> &'static str {
                match self {
                    $(Self::$variant => $next,)*
                }
            }
        }
    };
}

error_codes! {
    MissingIntent "MISSING_INTENT",
        "The call has no `intent` parameter.",
        "Add `intent` with an `operation_type` that matches the tool variant.";
    MissingOperationType "MISSING_OPERATION_TYPE",
        "`intent` has no `operation_type`.",
        "Set `intent.operation_type` to `read`, `write` or `destructive`.";
    IntentMismatch "INTENT_MISMATCH",
        "`intent.operation_type` differs from the tool variant.",
        "Use the same value in both, for example `call_tool_write` with `write`.";
    ServerMismatch "SERVER_MISMATCH",
        "The server's annotations say that the tool does more than the variant declares.",
        "Call the tool with the variant in `details.call_with`.";
    InvalidOperationType "INVALID_OPERATION_TYPE",
        "`intent.operation_type` has an unknown value.",
        "Use `read`, `write` or `destructive`.";
    InvalidSensitivity "INVALID_SENSITIVITY",
        "`intent.data_sensitivity` has an unknown value.",
        "Use `public`, `internal`, `private` or `unknown`.";
    ReasonTooLong "REASON_TOO_LONG",
        "`intent.reason` has more than 1000 characters.",
        "Shorten the reason.";
    UnknownField "unknown_field",
        "The call has a parameter that the tool variant does not take.",
        "Remove the parameter, or put it into `args`.";
    InvalidField "invalid_field",
        "A parameter is missing or has the wrong type.",
        "Correct the parameter that the message names.";
    InvalidToolName "invalid_tool_name",
        "`name` is not of the form `server:tool`, or fits several tools.",
        "Use a name from `retrieve_tools`.";
    InvalidArgs "invalid_args",
        "`args` or `args_json` is not a JSON object.",
        "Send the tool's arguments as one JSON object.";
    InvalidIntent "invalid_intent",
        "`intent` is not an object with known fields.",
        "Send `operation_type`, and optionally `data_sensitivity` and `reason`.";
    ToolNotFound "tool_not_found",
        "No tool with this name is available to the agent.",
        "Find the right name with `retrieve_tools`.";
    ServerNotFound "server_not_found",
        "No server with this name is available to the agent.",
        "Search without the `server` parameter.";
    ToolQuarantined "tool_quarantined",
        "The definition of the tool is new or changed, and no user has accepted it yet.",
        "Ask the user to review it: `mcpproxy servers review SERVER`.";
    ContractMismatch "contract_mismatch",
        "The tool's contract says that the tool does more than the variant declares.",
        "Call the tool with the variant in `details.call_with`.";
    ContractRequired "contract_required",
        "The tool has no risk level, and the operator allows only tools with one.",
        "Write a contract: `mcpproxy contract draft SERVER` makes a first version.";
    PermissionDenied "permission_denied",
        "The agent's token lacks a permission or does not allow the operation.",
        "Create a token with the permissions in `details.missing_permissions`.";
    PolicyViolation "policy_violation",
        "One of the operator's Cedar policies forbids the call.",
        "See which one with `mcpproxy policy explain`.";
    InvalidArguments "invalid_arguments",
        "The arguments do not match the tool's schema or its contract.",
        "Correct every entry of `details.problems`.";
    RateLimitExceeded "rate_limit_exceeded",
        "The agent has used up the rate limit of the tool's contract.",
        "Wait for `details.retry_after_ms`, then call again.";
    InvalidIdempotencyKey "invalid_idempotency_key",
        "`idempotency_key` is empty, too long or not visible ASCII.",
        "Use 1 to 255 visible ASCII characters.";
    IdempotencyConflict "idempotency_conflict",
        "An earlier call used the same idempotency key with other arguments.",
        "Repeat the earlier call exactly, or use a new key.";
    OutcomeUnknown "outcome_unknown",
        "The same call was sent before, and the gateway does not know whether it ran.",
        "Check the server. If the call did not run, repeat it with a new idempotency key.";
    DryRunRequired "dry_run_required",
        "The contract requires a dry run of the same call within the last 10 minutes.",
        "Repeat the call with `dry_run: true`, read the preview, then call again.";
    ConfirmationRequired "confirmation_required",
        "A user must approve the call first.",
        "Open `details.approve_url`, then repeat the call with `details.approval_id`.";
    ApprovalDenied "approval_denied",
        "The call was denied: by a user, with the admin key, or in the agent's client.",
        "Do not repeat the call. Ask the user what to do instead.";
    ApprovalExpired "approval_expired",
        "The approval expired before the call was made.",
        "Repeat the call without `approval_id` to request a new approval.";
    ApprovalAlreadyUsed "approval_already_used",
        "The approval was already used for one call.",
        "Repeat the call without `approval_id` to request a new approval.";
    ApprovalNotFound "approval_not_found",
        "No approval of this agent has this id.",
        "Repeat the call without `approval_id` to request an approval.";
    ApprovalArgsMismatch "approval_args_mismatch",
        "The approval is for a different call.",
        "Repeat exactly the call that was approved.";
    ContractsDiffer "contracts_differ",
        "Gateways that share a database have different contracts, and the approval was requested under another one.",
        "Repeat the call with the same `approval_id` later. The operator deploys the same contracts to all gateways.";
    ApprovalStale "approval_stale",
        "The tool, its contract or the agent's token changed after the approval was requested.",
        "Repeat the call without `approval_id` to request a new approval.";
    TooManyApprovals "too_many_approvals",
        "Too many calls of this agent wait for an approval.",
        "Ask the user to decide on the pending requests first.";
    AuditUnavailable "audit_unavailable",
        "The activity log cannot be written, so the gateway did not send the call.",
        "Try again later. The operator finds the reason in the gateway's own log.";
    AgentLimit "agent_limit",
        "The agent has too many requests, sessions, streams or subscriptions open. The call was not sent.",
        "Wait until some of them end, then call again.";
    UpstreamUnavailable "upstream_unavailable",
        "The server is not connected, or the connection was lost during the call.",
        "See the reason with `mcpproxy servers list`.";
    SignInRequired "sign_in_required",
        "The server asks for OAuth, and the gateway has no valid sign-in for it. The call was not processed.",
        "A user signs in with `mcpproxy servers login NAME`, or on the page of the server.";
    UpstreamTimeout "upstream_timeout",
        "The server did not respond in time. It may have run the call.",
        "Check whether the call ran before you repeat it.";
    UpstreamBusy "upstream_busy",
        "The server is already running its maximum number of calls.",
        "Try again later.";
    UpstreamProtocolError "upstream_protocol_error",
        "The server sent a response that is not valid MCP. It may have run the call.",
        "Check whether the call ran before you repeat it, and report the fault to the server's author.";
    ResultTooLarge "result_too_large",
        "The server ran the call, and its result is larger than the limit.",
        "Ask for less data, for example with a filter or a page size.";
    OutputMismatch "output_mismatch",
        "The server ran the call, and its result does not match the contract.",
        "Do not repeat the call. Tell the operator.";
    Cancelled "cancelled",
        "The agent cancelled the call. The server may have run it.",
        "Check whether the call ran before you repeat it.";
}

impl ErrorCode {
    /// Returns the code with this text, if there is one.
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|code| code.as_str() == text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The codes of the intent declaration, which agents match on.
    const UPPER_CASE: [&str; 7] = [
        "MISSING_INTENT",
        "MISSING_OPERATION_TYPE",
        "INTENT_MISMATCH",
        "SERVER_MISMATCH",
        "INVALID_OPERATION_TYPE",
        "INVALID_SENSITIVITY",
        "REASON_TOO_LONG",
    ];

    #[test]
    fn codes_are_lower_case_except_seven() {
        let (upper, lower): (Vec<_>, Vec<_>) =
            ErrorCode::ALL.iter().map(|code| code.as_str()).partition(|code| code.starts_with(char::is_uppercase));
        assert_eq!(upper, UPPER_CASE);
        for code in lower {
            assert!(code.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_'), "{code}");
        }
    }

    #[test]
    fn every_code_parses_to_itself() {
        for code in ErrorCode::ALL {
            assert_eq!(ErrorCode::parse(code.as_str()), Some(*code));
        }
        assert_eq!(ErrorCode::parse("nonsense"), None);
    }
}
