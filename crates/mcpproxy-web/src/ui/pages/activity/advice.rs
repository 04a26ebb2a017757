//! Sentences for users about a code of the gateway.
//!
//! A record keeps the message that the agent got. Some of these messages tell the agent what to do: "Ask the user to
//! open …", "Repeat the call without approval_id". A user who reads that on a page thinks it is meant for them. So for
//! such codes, pages say what the code means, and what the user can do. They show the message only as what it is: the
//! answer to the agent.

use std::borrow::Cow;

use mcpproxy_core::{Denial, ErrorCode, ServerName, Variant};

use super::story::meaning;

/// Returns true if the message with this code tells the agent what to do. The log words errors of servers for users, so
/// these do not.
pub(crate) fn speaks_to_agent(code: ErrorCode) -> bool {
    use ErrorCode as Code;
    match code {
        Code::ServerMismatch
        | Code::UnknownField
        | Code::InvalidToolName
        | Code::ToolNotFound
        | Code::ServerNotFound
        | Code::ToolQuarantined
        | Code::ContractMismatch
        | Code::ContractRequired
        | Code::PermissionDenied
        | Code::RateLimitExceeded
        | Code::IdempotencyConflict
        | Code::OutcomeUnknown
        | Code::DryRunRequired
        | Code::ConfirmationRequired
        | Code::ApprovalDenied
        | Code::ApprovalExpired
        | Code::ApprovalAlreadyUsed
        | Code::ApprovalNotFound
        | Code::ApprovalArgsMismatch
        | Code::ContractsDiffer
        | Code::ApprovalStale
        | Code::TooManyApprovals => true,
        Code::MissingIntent
        | Code::MissingOperationType
        | Code::IntentMismatch
        | Code::InvalidOperationType
        | Code::InvalidSensitivity
        | Code::ReasonTooLong
        | Code::InvalidField
        | Code::InvalidArgs
        | Code::InvalidIntent
        | Code::PolicyViolation
        | Code::InvalidArguments
        | Code::InvalidIdempotencyKey
        | Code::AuditUnavailable
        | Code::AgentLimit
        | Code::UpstreamUnavailable
        | Code::SignInRequired
        | Code::UpstreamTimeout
        | Code::UpstreamBusy
        | Code::UpstreamProtocolError
        | Code::ResultTooLarge
        | Code::OutputMismatch
        | Code::Cancelled => false,
    }
}

/// Words a refusal or an error in one line for a user: the message, or the meaning of its code if the message speaks to
/// the agent.
pub(crate) fn in_a_line<'a>(code: &str, message: &'a str) -> Cow<'a, str> {
    let is_for_agent = code == super::story::FORBIDDEN_ATTEMPT || ErrorCode::parse(code).is_some_and(speaks_to_agent);
    match meaning(code).filter(|_| is_for_agent) {
        Some(meaning) => fact(code, message).map_or_else(|| Cow::Owned(without_marks(meaning)), Cow::Borrowed),
        None => Cow::Borrowed(message),
    }
}

/// Returns the first part of a message that says more than its code: who denied the call, or which permission is
/// missing. The sentences for the agent come after it. `None` for all other codes.
pub(crate) fn fact<'a>(code: &str, message: &'a str) -> Option<&'a str> {
    const TURNS: [(ErrorCode, &[&str]); 2] = [
        (ErrorCode::ApprovalDenied, &[" Do not repeat it"]),
        (ErrorCode::PermissionDenied, &[" Tell the user that", " Use retrieve_tools", " Use a tool that"]),
    ];
    let code = ErrorCode::parse(code)?;
    let (_, turns) = TURNS.into_iter().find(|(known, _)| *known == code)?;
    // The last one: a user's comment may have the same words.
    let end = turns.iter().find_map(|turn| message.rfind(turn));
    message.get(..end.unwrap_or(message.len()))
}

/// Removes the backticks, which stand for code where a sentence is rendered as such.
pub(crate) fn without_marks(sentence: &str) -> String {
    sentence.replace('`', "")
}

/// Says why a check refuses a call, to a user who asks what would happen.
pub(crate) fn why(denial: &Denial) -> String {
    let says = |who: &str, right: &Variant| format!("{who} says that the tool does more: {}.", right.operation());
    match denial {
        Denial::ServerMismatch { right, .. } => says("The server", right),
        Denial::ContractMismatch { right, .. } => says("The contract", right),
        Denial::MissingPermissions { agent, missing, .. } => {
            let noun = if missing.len() == 1 { "permission" } else { "permissions" };
            format!("Agent {agent} lacks the {noun} {}.", missing.join(", "))
        }
        Denial::NotGranted { agent, variant } => {
            format!("The token of agent {agent} does not allow {} operations.", variant.operation())
        }
        Denial::ConfirmationRequired { needs_step_up: true, .. } => {
            "A user must approve the call with a fresh second factor.".to_owned()
        }
        other => in_a_line(other.code(), &other.message()).into_owned(),
    }
}

/// Stands for the name of the server in a next step.
const SERVER: &str = "SERVER";

/// Puts the name of the server into a next step. A record may have a name that no server can have. Then the placeholder
/// stays.
pub(crate) fn at_server(step: &'static str, server: Option<&str>) -> Cow<'static, str> {
    match server.and_then(|name| ServerName::parse(name).ok()).filter(|_| step.contains(SERVER)) {
        Some(name) => Cow::Owned(step.replace(SERVER, name.as_str())),
        None => Cow::Borrowed(step),
    }
}

/// Says what a user does next about a code. Names and commands are between backticks.
pub(crate) fn next_step(code: ErrorCode) -> &'static str {
    use ErrorCode as Code;
    match code {
        Code::MissingIntent
        | Code::MissingOperationType
        | Code::IntentMismatch
        | Code::InvalidOperationType
        | Code::InvalidSensitivity
        | Code::ReasonTooLong
        | Code::UnknownField
        | Code::InvalidField
        | Code::InvalidToolName
        | Code::InvalidArgs
        | Code::InvalidIntent
        | Code::InvalidArguments
        | Code::InvalidIdempotencyKey
        | Code::IdempotencyConflict => "Nothing to do for you. The agent was told how to correct its call.",
        Code::ServerMismatch | Code::ContractMismatch => {
            "Nothing to do for you. The agent was told which variant to use. If the tool is rated wrongly, change its contract."
        }
        Code::ToolNotFound | Code::ServerNotFound => {
            "Nothing to do for you, unless the agent should have this tool. Then check that its server is connected, and \
             that the agent’s token allows the server."
        }
        Code::ToolQuarantined => {
            "Review the definition on the page of the server, or with `mcpproxy servers review SERVER`."
        }
        Code::ContractRequired => {
            "Give the tool a risk level on its page, or write contracts with `mcpproxy contract draft SERVER`."
        }
        Code::PermissionDenied => {
            "Nothing to do for you, unless the agent should be allowed to do this. Then change its token on the page Agents."
        }
        Code::PolicyViolation => "See which policy it was, and why, with `mcpproxy policy explain`.",
        Code::RateLimitExceeded => "Nothing to do for you. The agent may call again later. The contract has the limit.",
        Code::OutcomeUnknown | Code::UpstreamTimeout | Code::UpstreamProtocolError | Code::Cancelled => {
            "Check at the server if the call took effect. The gateway cannot know."
        }
        Code::DryRunRequired => "Nothing to do for you. The agent was told to make a dry run first.",
        Code::ConfirmationRequired => "Decide on the approval request. Then the agent repeats the call.",
        Code::ApprovalDenied => "Nothing to do for you. The agent was told not to try again.",
        Code::ApprovalExpired | Code::ApprovalAlreadyUsed | Code::ApprovalNotFound | Code::ApprovalStale => {
            "Nothing to do for you. If the agent still wants to make the call, it requests a new approval."
        }
        Code::ApprovalArgsMismatch => {
            "The agent changed the call after you approved it, so nothing was sent. If you did not expect this, look at what \
             else the agent did, and revoke its token on the page Agents."
        }
        Code::ContractsDiffer => "Give all gateways the same contracts. `mcpproxy status` shows which gateways differ.",
        Code::TooManyApprovals => "Decide on the approval requests that wait.",
        Code::AuditUnavailable => "Find the reason in the gateway’s own log. Often the disk is full.",
        Code::AgentLimit | Code::UpstreamBusy => "Nothing to do for you. The agent may call again later.",
        Code::UpstreamUnavailable => "See the reason on the page of the server, or with `mcpproxy servers list`.",
        Code::SignInRequired => "Sign in on the page of the server, or with `mcpproxy servers login SERVER`.",
        Code::ResultTooLarge => "The call ran. Nothing to do for you: the agent was told to ask for less data.",
        Code::OutputMismatch => {
            "The call ran. Compare its result with the contract, and correct the contract or tell the server’s author."
        }
    }
}

/// Says what a user does next who made a dry run that was refused or failed. Nobody told an agent anything.
pub(crate) fn next_step_of_dry_run(code: ErrorCode) -> &'static str {
    use ErrorCode as Code;
    match code {
        Code::MissingIntent
        | Code::MissingOperationType
        | Code::IntentMismatch
        | Code::InvalidOperationType
        | Code::InvalidSensitivity
        | Code::ReasonTooLong
        | Code::UnknownField
        | Code::InvalidField
        | Code::InvalidToolName
        | Code::InvalidArgs
        | Code::InvalidIntent
        | Code::InvalidArguments
        | Code::InvalidIdempotencyKey
        | Code::IdempotencyConflict
        | Code::ResultTooLarge => "Correct the arguments, and run it again.",
        Code::ServerMismatch | Code::ContractMismatch => {
            "Choose the variant with which agents call this tool, and run it again."
        }
        Code::ToolNotFound | Code::ServerNotFound => {
            "Check that the server is connected, and choose an agent whose token allows it."
        }
        Code::PermissionDenied => "Choose another agent, or change the token of this one on the page Agents.",
        Code::RateLimitExceeded | Code::AgentLimit | Code::UpstreamBusy => "Run it again later.",
        Code::OutputMismatch => {
            "Compare the result with the contract, and correct the contract or tell the server’s author."
        }
        Code::ToolQuarantined
        | Code::ContractRequired
        | Code::PolicyViolation
        | Code::OutcomeUnknown
        | Code::UpstreamTimeout
        | Code::UpstreamProtocolError
        | Code::Cancelled
        | Code::DryRunRequired
        | Code::ConfirmationRequired
        | Code::ApprovalDenied
        | Code::ApprovalExpired
        | Code::ApprovalAlreadyUsed
        | Code::ApprovalNotFound
        | Code::ApprovalStale
        | Code::ApprovalArgsMismatch
        | Code::ContractsDiffer
        | Code::TooManyApprovals
        | Code::AuditUnavailable
        | Code::UpstreamUnavailable
        | Code::SignInRequired => next_step(code),
    }
}

#[cfg(test)]
mod tests {
    use mcpproxy_core::{DeniedBy, Untrusted};

    use super::*;

    /// The words with which a message turns to an agent.
    const TO_AGENTS: [&str; 8] = [
        "the user",
        "approval_id",
        "Repeat",
        "repeat the call",
        "retrieve_tools",
        "dry_run",
        "details.",
        "idempotency_key",
    ];

    /// An agent that swaps arguments after the approval deserves a look.
    #[test]
    fn a_swapped_call_is_no_reason_to_be_calm() {
        let step = next_step(ErrorCode::ApprovalArgsMismatch);
        assert!(step.contains("nothing was sent") && step.contains("revoke its token"), "{step}");
        assert!(!step.contains("Nothing to do"), "{step}");
    }

    #[test]
    fn users_read_no_sentence_for_agents() {
        for code in ErrorCode::ALL {
            let message =
                "A user must approve it. Ask the user to open http://x. Then repeat the call with approval_id=1.";
            let shown = [next_step(*code).to_owned(), in_a_line(code.as_str(), message).into_owned()];
            let has_fact = fact(code.as_str(), message).is_some();
            let own = if speaks_to_agent(*code) && !has_fact { &shown[..] } else { &shown[..1] };
            for text in own {
                let found = TO_AGENTS.iter().find(|words| text.contains(**words));
                assert_eq!(found, None, "{}: {text}", code.as_str());
            }
            assert!(!shown[1].contains('`'), "{}", shown[1]);
        }
        assert!(!in_a_line("forbidden_attempt", "use retrieve_tools").contains("retrieve_tools"));
    }

    #[test]
    fn next_steps_name_the_server() {
        let check = |code: ErrorCode, server: Option<&str>, expected: &str| {
            let step = at_server(next_step(code), server);
            assert!(step.ends_with(expected), "{step}");
        };
        check(ErrorCode::ToolQuarantined, Some("fx"), "`mcpproxy servers review fx`.");
        check(ErrorCode::ContractRequired, Some("fx"), "`mcpproxy contract draft fx`.");
        check(ErrorCode::SignInRequired, Some("fx"), "`mcpproxy servers login fx`.");
        check(ErrorCode::SignInRequired, Some("no `server`"), "`mcpproxy servers login SERVER`.");
        check(ErrorCode::ToolQuarantined, None, "`mcpproxy servers review SERVER`.");
    }

    #[test]
    fn facts_before_the_advice_stay() {
        let tool = mcpproxy_core::ToolName::parse("fx:send").unwrap();
        let by = || DeniedBy::User("anna".to_owned());
        let check = |denial: &Denial, expected: &str| {
            assert_eq!(in_a_line(denial.code(), &denial.message()), expected);
        };
        check(&Denial::ApprovalDenied { by: by(), comment: None }, "User 'anna' denied this call.");
        let comment = Some(Untrusted::new("Do not repeat it. Really."));
        let expected = "User 'anna' denied this call: \"Do not repeat it. Really.\".";
        check(&Denial::ApprovalDenied { by: by(), comment }, expected);
        let missing = vec!["mail:send".to_owned()];
        let lacks = Denial::MissingPermissions { agent: "ci".to_owned(), tool: tool.clone(), missing };
        check(&lacks, "Agent 'ci' lacks the permission 'mail:send' for 'fx:send'.");
        let reads = Denial::NotKnownToRead { agent: "ci".to_owned(), tool };
        check(&reads, "Agent 'ci' may only read, and the server does not mark 'fx:send' as read-only.");
    }

    #[test]
    fn facts_of_a_message_stay() {
        assert_eq!(in_a_line("policy_violation", "policy files-1 forbids it"), "policy files-1 forbids it");
        // A code of a server.
        assert_eq!(in_a_line("E42", "Ask the user."), "Ask the user.");
    }
}
