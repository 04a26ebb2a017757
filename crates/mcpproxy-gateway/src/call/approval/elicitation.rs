//! Approval prompts in the agent's own client: a form where a form suffices, otherwise a link to the web page.
//!
//! A client may decline without asking its user. So a declined link, and anything declined within a second, is no
//! decision: the request stays pending, the call is held for the web page, and a record says what the client did. Only a
//! form that was declined later counts as a denial, and the texts attribute it to the client, never to a user of the
//! gateway.

use std::time::{Duration, Instant};

use mcpproxy_core::Untrusted;
use mcpproxy_core::json::{members, string_value};
use mcpproxy_store::{StoreError, StoredApproval};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use super::ApprovalFlow;
use crate::approvals::{ApprovalDetails, Approvals, INPUT_KEY, StatedRisk, for_users};
use crate::message::{field, member};
use crate::said_by::SaidBy;

const METHOD: &str = "elicitation/create";
/// Longest text that a form shows. The web page shows everything.
const SHOWN_MAX_CHARS: usize = 1500;

/// The kinds of prompts that a client may support.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Elicitation {
    Form,
    Link,
}

/// The client's answer to a prompt.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum ClientAnswer {
    Approve,
    Deny,
    /// The client declined, but its user cannot have read the prompt. Codex declines every link at once.
    NotShown,
    /// The form came back empty, the link was opened, or nothing was chosen. None of that is a decision.
    Nothing,
}

impl Elicitation {
    pub(super) fn of(capabilities: &str, form_suffices: bool) -> Option<Self> {
        let elicitation = member(capabilities, "elicitation").and_then(members)?;
        let has_link = field(&elicitation, "url").is_some();
        // A client that names neither supports forms: early revisions had nothing else.
        let has_form = field(&elicitation, "form").is_some() || !has_link;
        match (form_suffices && has_form, has_link) {
            (true, _) => Some(Self::Form),
            (false, true) => Some(Self::Link),
            (false, false) => None,
        }
    }
}

impl ClientAnswer {
    /// Reads an answer. A client declines a link instead of its user, and so it does with a form that it answers faster
    /// than a user can (`was_shown` is false). Then nobody has refused the call.
    pub(super) fn read(response: &str, prompt: Elicitation, was_shown: bool) -> Self {
        let fields = members(response).unwrap_or_default();
        let content = field(&fields, "content").and_then(members).unwrap_or_default();
        let decision = field(&content, "decision").and_then(string_value);
        match (field(&fields, "action").and_then(string_value).as_deref(), decision.as_deref()) {
            // A link shows no arguments, so whatever comes back with it approves nothing.
            (Some("accept"), Some("approve")) if prompt == Elicitation::Form => Self::Approve,
            (Some("accept"), Some("deny")) => Self::Deny,
            (Some("decline"), _) if was_shown && prompt == Elicitation::Form => Self::Deny,
            (Some("decline"), _) => Self::NotShown,
            (Some("cancel"), _) if !was_shown => Self::NotShown,
            _ => Self::Nothing,
        }
    }
}

/// Builds the result for a stateless client: the prompt, and the state to send back with its answer.
pub(super) fn input_required(prompt: Elicitation, approval: &StoredApproval, url: &str, state: &str) -> String {
    let request = json!({"method": METHOD, "params": params(prompt, approval, url)});
    json!({
        "resultType": "input_required",
        "inputRequests": {INPUT_KEY: request},
        "requestState": state,
    })
    .to_string()
}

/// Prompts a client with a session. Its answer counts even if it arrives after the call was answered. The returned
/// token is cancelled as soon as the prompt is closed.
pub(super) fn in_background(
    flow: &ApprovalFlow<'_>,
    prompt: Elicitation,
    approval: &StoredApproval,
    form_suffices: bool,
    shown_after: Duration,
) -> CancellationToken {
    let approvals = flow.state.approvals.clone();
    let mut params = params(prompt, approval, &approvals.url(&approval.id));
    if let (Elicitation::Link, Some(params)) = (prompt, params.as_object_mut()) {
        params.insert("elicitationId".to_owned(), approval.id.as_str().into());
    }
    let (channel, approval, client) = (flow.passage.channel.clone(), approval.clone(), flow.client());
    let closed = CancellationToken::new();
    let close = closed.clone().drop_guard();
    tokio::spawn(async move {
        let _close = close;
        let sent = Instant::now();
        // If the client cannot prompt, refuses or is too slow, the user decides on the web page.
        let Ok(response) = channel.ask_for_gateway(METHOD, &params.to_string()).await else { return };
        let answer = ClientAnswer::read(&response, prompt, sent.elapsed() >= shown_after);
        let taken = take(&approvals, &approval, &client, answer, form_suffices).await;
        if let Err(error) = taken {
            tracing::warn!(%error, approval = %approval.id, "could not write the answer to an approval request");
        }
    });
    closed
}

/// Checks that a form can show everything that is sent. A user must not approve what they cannot see.
pub(super) fn shows_all(approval: &StoredApproval) -> bool {
    let fits = |text: &str| text.chars().nth(SHOWN_MAX_CHARS).is_none();
    fits(args(approval)) && attached(approval).is_none_or(|text| fits(&text))
}

/// Returns the unmasked arguments. The agent's client knows them already, and the approver must see them.
fn args(approval: &StoredApproval) -> &str {
    approval.args.as_deref().unwrap_or(approval.shown_args.for_json())
}

/// Returns what else is sent, without the client's own bookkeeping.
fn attached(approval: &StoredApproval) -> Option<String> {
    for_users(approval.attached.as_deref().or(approval.shown_attached.as_ref().map(Untrusted::for_json))?)
}

/// Applies the client's answer. An approval by form is ignored where a form does not suffice.
pub(super) async fn take(
    approvals: &Approvals,
    approval: &StoredApproval,
    client: &str,
    answer: ClientAnswer,
    form_suffices: bool,
) -> Result<(), StoreError> {
    match answer {
        ClientAnswer::Approve if form_suffices => drop(approvals.approve_by_form(&approval.id, client).await?),
        ClientAnswer::Deny => drop(approvals.deny_by_form(&approval.id, client).await?),
        ClientAnswer::NotShown => approvals.not_shown(approval, client).await?,
        ClientAnswer::Approve | ClientAnswer::Nothing => {}
    }
    Ok(())
}

fn params(prompt: Elicitation, approval: &StoredApproval, url: &str) -> Value {
    match prompt {
        Elicitation::Link => json!({
            "mode": "url",
            "url": url,
            "message": format!("{} Open the page to read the details, and to approve or deny the call.", headline(approval)),
        }),
        Elicitation::Form => json!({
            "message": form_text(approval, url),
            "requestedSchema": {
                "type": "object",
                "properties": {
                    // Required and without a default: some clients accept empty forms by themselves.
                    "decision": {
                        "type": "string",
                        "title": "Decision",
                        "description": "'approve' allows exactly this call, once. 'deny' stops it.",
                        "enum": ["approve", "deny"],
                    },
                },
                "required": ["decision"],
            },
        }),
    }
}

fn headline(approval: &StoredApproval) -> String {
    let risk = StatedRisk::of(approval).words();
    format!("Agent '{}' wants to call '{}' (risk: {risk}).", approval.agent, approval.tool)
}

/// Words a form in three lines, because clients draw about that many: the call, what is sent, and everything else.
fn form_text(approval: &StoredApproval, url: &str) -> String {
    let mut sent = format!("Arguments: {}", visible(args(approval)));
    if let Some(attached) = attached(approval) {
        sent.push_str(&format!(" Also sent to the server: {}", visible(&attached)));
    }
    format!("{}\n{sent}\n{}Details: {url}", headline(approval), statements(approval))
}

/// Lists what is stated about the call, each with its source.
fn statements(approval: &StoredApproval) -> String {
    let about = ApprovalDetails::of(approval);
    let mut text = String::new();
    let effects: Vec<String> = about.texts("side_effects").into_iter().map(visible).collect();
    if !effects.is_empty() {
        let source = match about.said_by("side_effects") {
            Some(SaidBy::Operator) => "according to the operator",
            Some(SaidBy::Draft) => "according to a draft, not reviewed",
            Some(SaidBy::Server) | None => "according to the server, not verified",
        };
        text.push_str(&format!("Effects ({source}): {} ", effects.join(" ")));
    }
    if let Some(reason) = about.text("reason") {
        text.push_str(&format!("Reason (according to the agent, not verified): \"{}\" ", visible(reason)));
    }
    text
}

fn visible(text: &str) -> String {
    Untrusted::shortened(text, SHOWN_MAX_CHARS).for_terminal().into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prompts_by_capability() {
        let check = |capabilities: &str, form: Option<Elicitation>, page: Option<Elicitation>| {
            assert_eq!(
                (Elicitation::of(capabilities, true), Elicitation::of(capabilities, false)),
                (form, page),
                "{capabilities}"
            );
        };
        check("{}", None, None);
        check(r#"{"elicitation":null}"#, None, None);
        check(r#"{"elicitation":{}}"#, Some(Elicitation::Form), None);
        check(r#"{"elicitation":{"form":{}}}"#, Some(Elicitation::Form), None);
        check(r#"{"elicitation":{"url":{}}}"#, Some(Elicitation::Link), Some(Elicitation::Link));
        check(r#"{"elicitation":{"form":{},"url":{}}}"#, Some(Elicitation::Form), Some(Elicitation::Link));
    }

    #[test]
    fn only_a_clear_answer_counts() {
        use Elicitation::{Form, Link};
        let check = |response: &str, expected: ClientAnswer| {
            assert_eq!(ClientAnswer::read(response, Form, true), expected, "{response}");
        };
        check(r#"{"action":"accept","content":{"decision":"approve"}}"#, ClientAnswer::Approve);
        check(r#"{"action":"accept","content":{"decision":"deny","comment":"not now"}}"#, ClientAnswer::Deny);
        check(r#"{"action":"decline"}"#, ClientAnswer::Deny);
        check(r#"{"action":"decline","content":{"decision":"approve"}}"#, ClientAnswer::Deny);
        for nothing in [
            r#"{"action":"accept"}"#,
            r#"{"action":"accept","content":{}}"#,
            r#"{"action":"accept","content":{"decision":""}}"#,
            r#"{"action":"accept","content":{"decision":true}}"#,
            r#"{"action":"accept","content":{"decision":"Approve"}}"#,
            r#"{"action":"cancel"}"#,
            r#"{"action":"cancel","content":{"decision":"approve"}}"#,
            r#"{"content":{"decision":"approve"}}"#,
            "null",
            "[]",
        ] {
            check(nothing, ClientAnswer::Nothing);
        }
        // A link, and a form that nobody can have read.
        for (prompt, was_shown) in [(Link, true), (Link, false), (Form, false)] {
            let declined = ClientAnswer::read(r#"{"action":"decline"}"#, prompt, was_shown);
            assert_eq!(declined, ClientAnswer::NotShown, "{prompt:?} {was_shown}");
            let cancelled = ClientAnswer::read(r#"{"action":"cancel"}"#, prompt, was_shown);
            assert_eq!(cancelled == ClientAnswer::NotShown, !was_shown, "{prompt:?} {was_shown}");
            let denied = ClientAnswer::read(r#"{"action":"accept","content":{"decision":"deny"}}"#, prompt, was_shown);
            assert_eq!(denied, ClientAnswer::Deny, "a clear word counts at once");
            let approve = r#"{"action":"accept","content":{"decision":"approve"}}"#;
            let is_approved = ClientAnswer::read(approve, prompt, was_shown) == ClientAnswer::Approve;
            assert_eq!(is_approved, prompt == Form, "a link shows nothing to approve");
        }
    }
}
