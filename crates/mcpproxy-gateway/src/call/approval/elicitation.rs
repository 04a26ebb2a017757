//! Approval prompts in the agent's own client: a form where a form suffices, otherwise a link to the web page.

use mcpproxy_core::Untrusted;
use mcpproxy_core::json::{members, string_value};
use mcpproxy_store::{StoreError, StoredApproval};
use serde_json::{Value, json};

use super::ApprovalFlow;
use crate::approvals::{ApprovalDetails, Approvals, INPUT_KEY, SaidBy, StatedRisk};
use crate::message::{field, member};

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
    Deny {
        comment: Option<String>,
    },
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
    pub(super) fn read(response: &str) -> Self {
        let fields = members(response).unwrap_or_default();
        let content = field(&fields, "content").and_then(members).unwrap_or_default();
        let text_of = |name: &str| field(&content, name).and_then(string_value);
        let comment = || text_of("comment").map(std::borrow::Cow::into_owned);
        match (field(&fields, "action").and_then(string_value).as_deref(), text_of("decision").as_deref()) {
            (Some("accept"), Some("approve")) => Self::Approve,
            (Some("accept"), Some("deny")) => Self::Deny { comment: comment() },
            (Some("decline"), _) => Self::Deny { comment: comment() },
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

/// Prompts a client with a session. Its answer counts even if it arrives after the call was answered.
pub(super) fn in_background(
    flow: &ApprovalFlow<'_>,
    prompt: Elicitation,
    approval: &StoredApproval,
    form_suffices: bool,
) {
    let approvals = flow.state.approvals.clone();
    let mut params = params(prompt, approval, &approvals.url(&approval.id));
    if let (Elicitation::Link, Some(params)) = (prompt, params.as_object_mut()) {
        params.insert("elicitationId".to_owned(), approval.id.as_str().into());
    }
    let (channel, approval) = (flow.passage.channel.clone(), approval.clone());
    let agent = flow.agent.identity.name.clone();
    tokio::spawn(async move {
        // If the client cannot prompt, refuses or is too slow, the user decides on the web page.
        let Ok(response) = channel.ask_for_gateway(METHOD, &params.to_string()).await else { return };
        let taken = take(&approvals, &approval, &agent, ClientAnswer::read(&response), form_suffices).await;
        if let Err(error) = taken {
            tracing::warn!(%error, approval = %approval.id, "could not write the answer to an approval request");
        }
    });
}

/// Checks that a form can show everything that is sent. A user must not approve what they cannot see.
pub(super) fn shows_all(approval: &StoredApproval) -> bool {
    let fits = |text: &str| text.chars().nth(SHOWN_MAX_CHARS).is_none();
    fits(args(approval)) && attached(approval).is_none_or(fits)
}

/// Returns the unmasked arguments. The agent's client knows them already, and the approver must see them.
fn args(approval: &StoredApproval) -> &str {
    approval.args.as_deref().unwrap_or(approval.shown_args.for_json())
}

fn attached(approval: &StoredApproval) -> Option<&str> {
    approval.attached.as_deref().or(approval.shown_attached.as_ref().map(Untrusted::for_json))
}

/// Applies the client's answer. An approval by form is ignored where a form does not suffice.
pub(super) async fn take(
    approvals: &Approvals,
    approval: &StoredApproval,
    agent: &str,
    answer: ClientAnswer,
    form_suffices: bool,
) -> Result<(), StoreError> {
    match answer {
        ClientAnswer::Approve if form_suffices => drop(approvals.approve_by_form(&approval.id, agent).await?),
        ClientAnswer::Deny { comment } => drop(approvals.deny_by_form(&approval.id, agent, comment.as_deref()).await?),
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
            "message": format!("{}\n\n{}\nDetails: {url}", headline(approval), facts(approval)),
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
                    "comment": {
                        "type": "string",
                        "title": "Comment for the agent",
                        "description": "What the agent should do instead.",
                        "maxLength": 1000,
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

/// Lists the facts for a user who sees only the form, each with its source.
fn facts(approval: &StoredApproval) -> String {
    let about = ApprovalDetails::of(approval);
    let mut text = String::new();
    let effects = about.texts("side_effects");
    if !effects.is_empty() {
        text.push_str(match about.said_by("side_effects") {
            Some(SaidBy::Operator) => "Effects, according to the operator:\n",
            Some(SaidBy::Server) | None => "Effects, according to the server (not verified):\n",
        });
    }
    for effect in effects {
        text.push_str(&format!("- {}\n", visible(effect)));
    }
    text.push_str(&format!("Arguments: {}\n", visible(args(approval))));
    if let Some(attached) = attached(approval) {
        text.push_str(&format!("Also sent to the server: {}\n", visible(attached)));
    }
    if let Some(reason) = about.text("reason") {
        text.push_str(&format!("Reason, according to the agent (not verified): \"{}\"\n", visible(reason)));
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
        let deny = |comment: Option<&str>| ClientAnswer::Deny { comment: comment.map(str::to_owned) };
        let check =
            |response: &str, expected: ClientAnswer| assert_eq!(ClientAnswer::read(response), expected, "{response}");
        check(r#"{"action":"accept","content":{"decision":"approve"}}"#, ClientAnswer::Approve);
        check(r#"{"action":"accept","content":{"decision":"deny","comment":"not now"}}"#, deny(Some("not now")));
        check(r#"{"action":"decline"}"#, deny(None));
        check(r#"{"action":"decline","content":{"decision":"approve"}}"#, deny(None));
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
    }
}
