//! The confirm page: everything an approver needs to decide on one call.
//!
//! The page mixes three sources, and the approver must be able to tell them apart:
//!
//! - **The gateway**: agent, tool, arguments, changes, times. True by construction.
//! - **The operator**: risk level and side effects from contracts. Trusted.
//! - **The agent and the server**: reason, client name, descriptions, claims about side effects. Anyone can write
//!   anything here, so these texts carry the tag "not verified". A server's own risk level can raise the warning but
//!   never lower it.
//!
//! Visibility: the approver sees all arguments unmasked while the request is pending, because an approval of hidden
//! values is worthless. After the decision the page masks sensitive values, as the REST interface and the log always
//! do. Agents and the admin key never see this page.
//!
//! All foreign text goes through [`Visible`], which escapes HTML and shows invisible characters. Long values are cut.
//! The page then says what is missing next to the buttons, and links to the full text.
//!
//! Deny is the first button and has the focus. Approve stays disabled for a second after the page changes, so that a
//! click meant for something else approves nothing.

mod arguments;
mod attached;
mod outcome;
mod preview;
mod standing;

use askama::Template;
use mcpproxy_core::{ApprovalState, Assurance};
use mcpproxy_gateway::{ApprovalDetails, ApprovalView, SaidBy, StatedRisk};
use mcpproxy_store::StoredApproval;

use super::labels::{Risk, State, Time};
use super::{Frame, filters, one_line};
use crate::auth::factor::Factors;
use crate::visible::Visible;
use crate::wire::state_now;
use arguments::Arguments;
use attached::Attached;
use outcome::{Outcome, Piece};
use preview::FailedPreview;
use standing::StandingForm;

pub(crate) use arguments::ShownValue;
pub(crate) use outcome::{decider, state_time};
pub(crate) use preview::{Preview, preview_text};
pub(crate) use standing::TypedStanding;

#[derive(Template)]
#[template(path = "confirm.html")]
pub(crate) struct Confirm {
    pub(crate) frame: Frame,
    pub(crate) error: Option<String>,
    pub(crate) id: String,
    pub(crate) risk: Risk,
    pub(crate) state: State,
    pub(crate) expires: Time,
    pub(crate) agent: Visible,
    pub(crate) tool: Visible,
    pub(crate) server: Visible,
    pub(crate) description: Visible,
    pub(crate) description_by: &'static str,
    /// Effects according to the operator, to a draft that nobody has reviewed, and to the server only.
    pub(crate) operator: Effects,
    pub(crate) draft: Effects,
    pub(crate) from_server: Effects,
    pub(crate) preview: Option<Preview>,
    /// A dry run of this call that the server refused.
    pub(crate) failed_dry_run: Option<FailedPreview>,
    /// The arguments in one line, for the first screen of a phone.
    pub(crate) brief: Visible,
    /// The reason in one line.
    pub(crate) brief_reason: Option<Visible>,
    pub(crate) arguments: Arguments,
    /// Says whether values are masked, and which bytes the gateway sends.
    pub(crate) masking: &'static str,
    pub(crate) attached: Option<Attached>,
    /// The parts that do not fit on the page.
    pub(crate) missing: Option<String>,
    pub(crate) reason: Option<Visible>,
    pub(crate) client: Option<Visible>,
    pub(crate) sensitivity: Option<Visible>,
    pub(crate) facts: Vec<Fact>,
    /// Ids and hashes, folded.
    pub(crate) binding: Vec<Fact>,
    pub(crate) needs_step_up: bool,
    pub(crate) factors: Factors,
    pub(crate) comment: String,
    pub(crate) grant: Option<StandingForm>,
    pub(crate) outcome: Outcome,
    /// The lifetime of an approval.
    pub(crate) yes_lasts: String,
}

/// The effects of a call according to one source.
#[derive(Default)]
pub(crate) struct Effects {
    pub(crate) effects: Vec<Visible>,
    pub(crate) audit_event: Option<Visible>,
    pub(crate) permissions: Vec<Visible>,
}

pub(crate) struct Fact {
    pub(crate) name: &'static str,
    pub(crate) lines: Vec<Visible>,
    pub(crate) is_code: bool,
    /// Shown instead of lines.
    pub(crate) time: Option<Time>,
}

/// Values of a refused form, to fill it again.
#[derive(Clone, Debug, Default)]
pub(crate) struct Typed {
    pub(crate) error: Option<String>,
    pub(crate) comment: String,
    pub(crate) grant: Option<TypedStanding>,
    /// True if the page key was missing or wrong.
    pub(crate) asks_password: bool,
    /// The confirmation with which the user came back from the identity provider.
    pub(crate) confirmed: Option<super::Confirmed>,
    /// The id of the input that the error is about.
    pub(crate) wrong: Option<&'static str>,
}

impl Confirm {
    pub(crate) fn new(frame: Frame, view: &ApprovalView, factors: Factors, typed: Typed, now_ms: i64) -> Self {
        let approval = &view.approval;
        let about = ApprovalDetails::of(approval);
        let state = state_now(approval, now_ms);
        let text = |name: &str| about.text(name).filter(|text| !text.trim().is_empty());
        let preview = view.dry_run.as_ref().map(|dry_run| Preview::new(dry_run, about.said_by("side_effects"), now_ms));
        let arguments = Arguments::new(view, now_ms);
        Self {
            error: typed.error.clone(),
            id: approval.id.to_string(),
            risk: StatedRisk::of(approval).into(),
            state: State::of(state, view.ran),
            expires: Time::new(approval.expires_ms, now_ms),
            agent: Visible::of(&approval.agent),
            tool: Visible::of(approval.tool.tool()),
            server: Visible::of(approval.tool.server().as_str()),
            description: Visible::of(text("description").map_or("", str::trim)),
            description_by: match about.said_by("description") {
                Some(SaidBy::Operator) => "The operator says:",
                Some(SaidBy::Draft) => "Draft, not reviewed:",
                Some(SaidBy::Server) | None => "The server says, not verified:",
            },
            operator: Effects::by(SaidBy::Operator, &about),
            draft: Effects::by(SaidBy::Draft, &about),
            from_server: Effects::by(SaidBy::Server, &about),
            missing: missing(&arguments, preview.as_ref()),
            preview,
            failed_dry_run: view.failed_dry_run.as_ref().map(|failed| FailedPreview::new(failed, now_ms)),
            brief: one_line::arguments(view.args_for_user.for_json()),
            brief_reason: text("reason").map(one_line::text),
            arguments,
            masking: masking(state),
            attached: Attached::new(view),
            yes_lasts: yes_lasts(view.yes_lasts_ms),
            client: approval.client.as_ref().map(Visible::untrusted),
            reason: text("reason").map(Visible::of),
            sensitivity: text("sensitivity").map(Visible::of),
            facts: facts(approval, &about, now_ms),
            binding: binding(approval),
            needs_step_up: approval.least == Assurance::Factor,
            factors,
            comment: typed.comment.clone(),
            grant: StandingForm::new(view, state, typed.grant.as_ref()),
            outcome: Outcome::new(view, state, now_ms),
            frame: Frame { key: format!("{}:{}", approval.id, State::of(state, view.ran).word), ..frame },
        }
    }
}

fn masking(state: ApprovalState) -> &'static str {
    match state {
        ApprovalState::Pending => {
            "Nothing is masked here until you decide. After that, sensitive values are masked. If you approve, the gateway \
             sends exactly these arguments."
        }
        ApprovalState::Approved => {
            "The request is decided, so sensitive values are masked here. The gateway sends exactly the arguments that were \
             approved."
        }
        ApprovalState::Consumed => {
            "The request is decided, so sensitive values are masked here. The gateway sent exactly the arguments that were \
             approved."
        }
        ApprovalState::Denied | ApprovalState::Expired | ApprovalState::Cancelled => {
            "The request is closed, so sensitive values are masked here. The call itself was not sent."
        }
    }
}

fn yes_lasts(lasts_ms: i64) -> String {
    match lasts_ms / 60_000 {
        ..=1 => "a minute".to_owned(),
        minutes => format!("{minutes} minutes"),
    }
}

fn texts(about: &ApprovalDetails, name: &str) -> Vec<Visible> {
    about.texts(name).into_iter().map(Visible::of).collect()
}

impl Effects {
    fn by(who: SaidBy, about: &ApprovalDetails) -> Self {
        // A text of unknown origin is treated as the server's.
        let is_theirs = |name: &str| about.said_by(name).unwrap_or(SaidBy::Server) == who;
        let texts = |name: &str| if is_theirs(name) { texts(about, name) } else { Vec::new() };
        Self {
            effects: texts("side_effects"),
            audit_event: about.text("audit_event").filter(|_| is_theirs("audit_event")).map(Visible::of),
            permissions: texts("permissions"),
        }
    }

    fn is_empty(&self) -> bool {
        self.effects.is_empty() && self.audit_event.is_none()
    }
}

/// Lists what does not fit on the page, for the warning next to the buttons.
fn missing(arguments: &Arguments, preview: Option<&Preview>) -> Option<String> {
    let some = |count: usize, word: &str| format!("{count} {word}{}", if count == 1 { "" } else { "s" });
    let mut parts = Vec::new();
    if arguments.left_out > 0 {
        parts.push(some(arguments.left_out, "argument value"));
    }
    match arguments.cut_values() {
        0 => {}
        1 => parts.push("the end of a long argument".to_owned()),
        more => parts.push(format!("the ends of {more} long arguments")),
    }
    if preview.is_some_and(|preview| preview.text.cut_chars > 0) {
        parts.push("the end of the preview".to_owned());
    }
    match parts.as_slice() {
        [] => None,
        [one] => Some(one.clone()),
        [first @ .., last] => Some(format!("{} and {last}", first.join(", "))),
    }
}

fn facts(approval: &StoredApproval, about: &ApprovalDetails, now_ms: i64) -> Vec<Fact> {
    let plain = |name, lines: Vec<Visible>| Fact { name, lines, is_code: false, time: None };
    let code = |name, lines: Vec<Visible>| Fact { name, lines, is_code: true, time: None };
    let created = Time::new(approval.created_ms, now_ms);
    // Permissions that only the server names are shown with the server's claims.
    let (permissions_title, permissions) = match about.said_by("permissions") {
        Some(SaidBy::Server) => ("Permissions", Vec::new()),
        Some(SaidBy::Draft) => ("Permissions (draft, not reviewed)", or_none(texts(about, "permissions"))),
        Some(SaidBy::Operator) | None => ("Permissions", or_none(texts(about, "permissions"))),
    };
    let mut facts = vec![
        plain("Agent", vec![Visible::of(&approval.agent)]),
        code("Tool", vec![Visible::of(&approval.tool.to_string())]),
        code("Called with", vec![Visible::of(approval.variant.tool())]),
        code(permissions_title, permissions),
        plain("Required by", or_none(about.texts("asked_by").into_iter().map(required_by).collect())),
        Fact { name: "Requested", lines: Vec::new(), is_code: false, time: Some(created) },
    ];
    facts.retain(|fact| !fact.lines.is_empty() || fact.time.is_some());
    facts
}

/// Words a requirement that names a field of the contract. The source of the field follows in brackets.
fn required_by(text: &str) -> Visible {
    const WORDS: [(&str, &str); 5] = [
        ("confirmation: required (", "the contract requires an approval ("),
        ("confirmation, for these arguments (", "the contract requires an approval for these arguments ("),
        ("autonomousExecution: false (", "the contract lets no agent call it alone ("),
        ("stepUpAuth (", "the contract requires a second factor ("),
        ("stepUpAuth, for these arguments (", "the contract requires a second factor for these arguments ("),
    ];
    let found = WORDS.iter().find_map(|(field, words)| Some(format!("{words}{}", text.strip_prefix(field)?)));
    Visible::of(&found.unwrap_or_else(|| text.to_owned()))
}

/// Lists what the approval is bound to. Nobody needs the hashes to decide, but they are in the log.
fn binding(approval: &StoredApproval) -> Vec<Fact> {
    let hash = |digest: &mcpproxy_core::Digest| vec![Visible::of(&format!("SHA-256 {digest}"))];
    let code = |name, lines| Fact { name, lines, is_code: true, time: None };
    vec![
        code("Request", vec![Visible::of(approval.id.as_str())]),
        code("Arguments", hash(&approval.args_digest)),
        code("Definition of the tool", hash(&approval.pin)),
        code("Contract", hash(&approval.contract)),
        code("Binding", hash(&approval.binding)),
    ]
}

fn or_none(lines: Vec<Visible>) -> Vec<Visible> {
    if lines.is_empty() { vec![Visible::of("none")] } else { lines }
}
