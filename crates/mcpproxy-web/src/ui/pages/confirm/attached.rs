//! The attached members of a call, which are sent besides its arguments. All of them are shown.

use mcpproxy_core::{Untrusted, canonical, json};
use mcpproxy_gateway::ApprovalView;

use crate::visible::Visible;

pub(crate) struct Attached {
    pub(crate) parts: Vec<Part>,
    /// True if they changed since the last approved call.
    pub(crate) is_changed: bool,
}

pub(crate) struct Part {
    /// A description of the member.
    pub(crate) what: &'static str,
    pub(crate) name: Visible,
    pub(crate) value: Visible,
}

impl Attached {
    /// Returns `None` if there are no attached members.
    pub(crate) fn new(view: &ApprovalView) -> Option<Self> {
        let members = json::members(view.attached_for_user.as_ref().map(Untrusted::for_json)?)?;
        let part = |(name, value): &(std::borrow::Cow<'_, str>, &str)| Part {
            what: what(name),
            name: Visible::of(name),
            // The canonical form resolves escapes that could hide text.
            value: Visible::of(&canonical(value)),
        };
        let previous = view.previous.as_ref();
        let is_changed = previous.is_some_and(|previous| previous.attached_digest != view.approval.attached_digest);
        Some(Self { parts: members.iter().map(part).collect(), is_changed })
    }
}

fn what(name: &str) -> &'static str {
    match name {
        "inputResponses" => "Answers to the server’s questions",
        "requestState" => "State that the server asked the client to return",
        "_meta" => "Metadata of the call",
        _ => "Another part of the request",
    }
}
