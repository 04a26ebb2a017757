//! What goes to the server besides the arguments, all of it, in the agent's words.

use mcpproxy_core::{Untrusted, canonical, json};
use mcpproxy_gateway::ApprovalView;

use crate::visible::Visible;

pub(crate) struct Attached {
    pub(crate) parts: Vec<Part>,
    /// Whether the last call that was approved came with something else.
    pub(crate) is_changed: bool,
}

pub(crate) struct Part {
    /// What it is, where that is known.
    pub(crate) what: &'static str,
    pub(crate) name: Visible,
    pub(crate) value: Visible,
}

impl Attached {
    /// `None` if nothing goes besides.
    pub(crate) fn new(view: &ApprovalView) -> Option<Self> {
        let members = json::members(view.attached_for_user.as_ref().map(Untrusted::for_json)?)?;
        let part = |(name, value): &(std::borrow::Cow<'_, str>, &str)| Part {
            what: what(name),
            name: Visible::of(name),
            // No spelling of a text hides what it says.
            value: Visible::of(&canonical(value)),
        };
        let previous = view.previous.as_ref();
        let is_changed = previous.is_some_and(|previous| previous.attached_digest != view.approval.attached_digest);
        Some(Self { parts: members.iter().map(part).collect(), is_changed })
    }
}

fn what(name: &str) -> &'static str {
    match name {
        "inputResponses" => "Answers to questions of the server",
        "requestState" => "The server’s own note, which came back",
        "_meta" => "AccountNotice beside the call",
        _ => "Another part of the request",
    }
}
