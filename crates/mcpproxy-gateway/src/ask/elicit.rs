//! Asking through the agent's own client: a form where a form is enough, a link to the page where it is not.

use mcpproxy_core::Untrusted;
use mcpproxy_core::json::{members, string_value};
use mcpproxy_store::{StoreError, StoredApproval};
use serde_json::{Value, json};

use super::Asking;
use crate::approvals::{About, Approvals, Level, SaidBy};
use crate::message::{field, member};

const METHOD: &str = "elicitation/create";
/// A form has room for so much; the page has it for all.
const SHOWN_MAX_CHARS: usize = 1500;

/// What the client can do for us.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Way {
    Form,
    Link,
}

/// What a client says came of it.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Answer {
    Approve,
    Deny {
        comment: Option<String>,
    },
    /// The form came back empty, the link was opened, or nobody chose anything: that is not a word.
    Nothing,
}

impl Way {
    pub(super) fn of(capabilities: &str, can_be_form: bool) -> Option<Self> {
        let elicitation = member(capabilities, "elicitation").and_then(members)?;
        let has_link = field(&elicitation, "url").is_some();
        // A client that names neither knows only forms: there was nothing else once.
        let has_form = field(&elicitation, "form").is_some() || !has_link;
        match (can_be_form && has_form, has_link) {
            (true, _) => Some(Self::Form),
            (false, true) => Some(Self::Link),
            (false, false) => None,
        }
    }
}

impl Answer {
    pub(super) fn read(response: &str) -> Self {
        let fields = members(response).unwrap_or_default();
        let content = field(&fields, "content").and_then(members).unwrap_or_default();
        let word = |name: &str| field(&content, name).and_then(string_value);
        let comment = || word("comment").map(std::borrow::Cow::into_owned);
        match (field(&fields, "action").and_then(string_value).as_deref(), word("decision").as_deref()) {
            (Some("accept"), Some("approve")) => Self::Approve,
            (Some("accept"), Some("deny")) => Self::Deny { comment: comment() },
            (Some("decline"), _) => Self::Deny { comment: comment() },
            _ => Self::Nothing,
        }
    }
}

/// What an agent of the newer kind gets: the question, to come back with its answer.
pub(super) fn input_required(way: Way, approval: &StoredApproval, url: &str, state: &str) -> String {
    let request = json!({"method": METHOD, "params": params(way, approval, url)});
    json!({
        "resultType": "input_required",
        "inputRequests": {super::seal::INPUT: request},
        "requestState": state,
    })
    .to_string()
}

/// Asks an agent of the older kind. Its answer counts also when it comes after the call was given back.
pub(super) fn in_background(asking: &Asking<'_>, way: Way, approval: &StoredApproval, can_be_form: bool) {
    let approvals = asking.gateway.approvals.clone();
    let mut params = params(way, approval, &approvals.url(&approval.id));
    if let (Way::Link, Some(params)) = (way, params.as_object_mut()) {
        params.insert("elicitationId".to_owned(), approval.id.as_str().into());
    }
    let (back, approval) = (asking.passage.back.clone(), approval.clone());
    let agent = asking.caller.agent.name.clone();
    tokio::spawn(async move {
        // A client that cannot, will not or is too slow leaves the question to the page.
        let Ok(response) = back.ask_aside(METHOD, &params.to_string()).await else { return };
        let taken = take(&approvals, &approval, &agent, Answer::read(&response), can_be_form).await;
        if let Err(error) = taken {
            tracing::warn!(%error, approval = %approval.id, "an answer to a question could not be written");
        }
    });
}

/// Whether a form has room for all that is sent. Nobody says yes to what they do not see.
pub(super) fn shows_all(approval: &StoredApproval) -> bool {
    let fits = |text: &str| text.chars().nth(SHOWN_MAX_CHARS).is_none();
    fits(args(approval)) && attached(approval).is_none_or(fits)
}

/// The agent's client knows them already, and whoever decides has to.
fn args(approval: &StoredApproval) -> &str {
    approval.args.as_deref().unwrap_or(approval.shown_args.for_json())
}

fn attached(approval: &StoredApproval) -> Option<&str> {
    approval.attached.as_deref().or(approval.shown_attached.as_ref().map(Untrusted::for_json))
}

/// What the client's answer does. A yes in a form does nothing where a form is not enough.
pub(super) async fn take(
    approvals: &Approvals,
    approval: &StoredApproval,
    agent: &str,
    answer: Answer,
    can_be_form: bool,
) -> Result<(), StoreError> {
    match answer {
        Answer::Approve if can_be_form => drop(approvals.approve_by_form(&approval.id, agent).await?),
        Answer::Deny { comment } => drop(approvals.deny_by_form(&approval.id, agent, comment.as_deref()).await?),
        Answer::Approve | Answer::Nothing => {}
    }
    Ok(())
}

fn params(way: Way, approval: &StoredApproval, url: &str) -> Value {
    match way {
        Way::Link => json!({
            "mode": "url",
            "url": url,
            "message": format!("{} Open the page to read what will happen, and to approve or deny it.", headline(approval)),
        }),
        Way::Form => json!({
            "message": format!("{}\n\n{}\nMore about it: {url}", headline(approval), facts(approval)),
            "requestedSchema": {
                "type": "object",
                "properties": {
                    // Required and without a default: some clients accept empty forms by themselves.
                    "decision": {
                        "type": "string",
                        "title": "Decision",
                        "description": "approve lets exactly this call through, once; deny stops it",
                        "enum": ["approve", "deny"],
                    },
                    "comment": {
                        "type": "string",
                        "title": "Comment for the agent",
                        "description": "what the agent should do instead",
                        "maxLength": 1000,
                    },
                },
                "required": ["decision"],
            },
        }),
    }
}

fn headline(approval: &StoredApproval) -> String {
    let risk = Level::of(approval).words();
    format!("Agent '{}' wants to call '{}' (risk: {risk}).", approval.agent, approval.tool)
}

/// What a user should know who sees nothing but the form, each under the name of who says so.
fn facts(approval: &StoredApproval) -> String {
    let about = About::of(approval);
    let mut text = String::new();
    let effects = about.texts("side_effects");
    if !effects.is_empty() {
        text.push_str(match about.said_by("side_effects") {
            Some(SaidBy::Operator) => "What will happen, says the operator:\n",
            Some(SaidBy::Server) | None => "What will happen, says the server (not verified):\n",
        });
    }
    for effect in effects {
        text.push_str(&format!("- {}\n", visible(effect)));
    }
    text.push_str(&format!("Arguments: {}\n", visible(args(approval))));
    if let Some(attached) = attached(approval) {
        text.push_str(&format!("Sent besides the arguments: {}\n", visible(attached)));
    }
    if let Some(reason) = about.text("reason") {
        text.push_str(&format!("Why, says the agent (not verified): \"{}\"\n", visible(reason)));
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
    fn ways_by_capability() {
        let check = |capabilities: &str, form: Option<Way>, page: Option<Way>| {
            assert_eq!((Way::of(capabilities, true), Way::of(capabilities, false)), (form, page), "{capabilities}");
        };
        check("{}", None, None);
        check(r#"{"elicitation":null}"#, None, None);
        check(r#"{"elicitation":{}}"#, Some(Way::Form), None);
        check(r#"{"elicitation":{"form":{}}}"#, Some(Way::Form), None);
        check(r#"{"elicitation":{"url":{}}}"#, Some(Way::Link), Some(Way::Link));
        check(r#"{"elicitation":{"form":{},"url":{}}}"#, Some(Way::Form), Some(Way::Link));
    }

    #[test]
    fn only_a_word_is_a_word() {
        let deny = |comment: Option<&str>| Answer::Deny { comment: comment.map(str::to_owned) };
        let check = |response: &str, expected: Answer| assert_eq!(Answer::read(response), expected, "{response}");
        check(r#"{"action":"accept","content":{"decision":"approve"}}"#, Answer::Approve);
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
            check(nothing, Answer::Nothing);
        }
    }
}
