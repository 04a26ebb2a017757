//! The state of a request in words: the headline of its page, and what became of it.

use mcpproxy_core::{ApprovalState, Assurance, DeniedBy, Untrusted};
use mcpproxy_gateway::ApprovalView;
use mcpproxy_store::StoredApproval;

use crate::ui::pages::labels::{Time, ran_words};
use crate::visible::Visible;

/// The outcome of a closed request.
#[derive(Default)]
pub(crate) struct Outcome {
    pub(crate) heading: &'static str,
    pub(crate) text: Vec<Piece>,
    /// The user who decided, for the middle of a sentence.
    pub(crate) by: Option<Visible>,
    /// When the call ran, or when the request was decided or expired.
    pub(crate) at: Time,
    pub(crate) comment: Option<Visible>,
    pub(crate) record: Option<String>,
}

/// A piece of a text. The page keeps times up to date.
#[derive(Clone)]
pub(crate) enum Piece {
    Words(String),
    /// An age: `3 minutes ago`.
    Age(Time),
    /// A time of day.
    Clock(Time),
}

/// The name of the user who decided, at the start and in the middle of a sentence.
struct DecidedBy {
    start: String,
    middle: String,
}

fn decided_by(approval: &StoredApproval) -> DecidedBy {
    let same = |name: String| DecidedBy { start: name.clone(), middle: name };
    let the = |rest: &str| DecidedBy { start: format!("The {rest}"), middle: format!("the {rest}") };
    match DeniedBy::read(approval.decided_by.as_deref()) {
        DeniedBy::User(name) => same(name),
        DeniedBy::AdminKey => the("operator’s admin key"),
        // Names of users are safe, but a client reports its own name.
        DeniedBy::Client(client) => the(&Untrusted::shortened(client.for_json(), 100).for_terminal()),
        DeniedBy::Unknown => DecidedBy { start: "An approver".to_owned(), middle: "an approver".to_owned() },
    }
}

/// Returns who decided, for the middle of a sentence. `None` if nobody did.
pub(crate) fn decider(approval: &StoredApproval) -> Option<Visible> {
    approval.decided_by.as_ref().map(|_| Visible::of(&decided_by(approval).middle))
}

/// Returns the time that the state is about: when the call ran, or when the request was decided or expires.
pub(crate) fn state_time(approval: &StoredApproval, state: ApprovalState) -> i64 {
    match state {
        ApprovalState::Pending | ApprovalState::Expired => approval.expires_ms,
        ApprovalState::Approved | ApprovalState::Consumed | ApprovalState::Denied | ApprovalState::Cancelled => {
            approval.consumed_ms.or(approval.decided_ms).unwrap_or(approval.created_ms)
        }
    }
}

impl Outcome {
    pub(crate) fn new(view: &ApprovalView, state: ApprovalState, now_ms: i64) -> Self {
        let approval = &view.approval;
        let ran = ran_words(view.ran);
        let by = decided_by(approval).start;
        let words = |text: &str| vec![Piece::Words(text.to_owned())];
        let age = |time_ms: Option<i64>| {
            let time = time_ms.map(|ms| Time::new(ms, now_ms));
            time.map_or_else(Vec::new, |time| vec![Piece::Words(" ".to_owned()), Piece::Age(time)])
        };
        let how = match approval.given {
            Some(Assurance::Form) => " in a form",
            Some(Assurance::Session) | None => "",
            Some(Assurance::Factor) => " with a second factor",
        };
        let approved = [words(&format!("{by} approved this call{how}")), age(approval.decided_ms)];
        let (heading, text) = match state {
            ApprovalState::Pending => ("Waiting", Vec::new()),
            ApprovalState::Approved => {
                let expires = Time::new(approval.expires_ms, now_ms);
                let then = words(". It has not run yet. It runs when the agent repeats the call, at the latest ");
                let terminal = words(". If you made the call in a terminal, run the same command again.");
                ("Approved, not yet run", [approved.concat(), then, vec![Piece::Clock(expires)], terminal].concat())
            }
            ApprovalState::Consumed => {
                let ran_at = [words(&format!(". {}", ran.sentence)), age(approval.consumed_ms), words(".")].concat();
                (ran.state, [approved.concat(), ran_at].concat())
            }
            ApprovalState::Denied => {
                let denied = words(&format!("{by} denied this call"));
                ("Denied", [denied, age(approval.decided_ms), words(". It did not run.")].concat())
            }
            ApprovalState::Expired if approval.decided_by.is_some() => {
                let late = words(", but the agent did not run it in time. The agent can ask again.");
                ("Expired", [approved.concat(), late].concat())
            }
            ApprovalState::Expired => {
                let without = words(" without a decision. The call did not run. The agent can ask again.");
                ("Expired", [words("The request expired"), age(Some(approval.expires_ms)), without].concat())
            }
            ApprovalState::Cancelled => (
                "Cancelled",
                words(
                    "The request was cancelled because the agent’s token, the tool or its contract changed. The call did not \
                     run.",
                ),
            ),
        };
        Self {
            heading,
            text,
            by: decider(approval),
            at: Time::new(state_time(approval, state), now_ms),
            comment: approval.comment.as_ref().map(Visible::untrusted),
            record: approval.record.map(|record| record.to_string()),
        }
    }
}
