//! The lists of approval requests and of standing approvals.

use askama::Template;
use mcpproxy_core::ApprovalState;
use mcpproxy_gateway::{ApprovalDetails, ShownStandingApproval, StatedRisk};
use mcpproxy_store::{ApprovalPage, RecordId, Status, StoredApproval};

use super::confirm::{decider, state_time};
use super::grant_schema::Allowance;
use super::labels::{Risk, State, Time, ran_words};
use super::{Frame, filters, one_line};
use crate::visible::Visible;
use crate::wire::state_now;

#[derive(Template)]
#[template(path = "inbox.html")]
pub(crate) struct Inbox {
    pub(crate) frame: Frame,
    pub(crate) error: Option<String>,
    pub(crate) tabs: Vec<Tab>,
    /// Says how many calls are waiting.
    pub(crate) lead: Option<String>,
    pub(crate) rows: Vec<InboxRow>,
    pub(crate) empty_heading: &'static str,
    pub(crate) empty_text: &'static str,
    pub(crate) older: Option<String>,
}

pub(crate) struct Tab {
    pub(crate) name: String,
    pub(crate) href: &'static str,
    pub(crate) is_here: bool,
}

pub(crate) struct InboxRow {
    pub(crate) id: String,
    pub(crate) risk: Risk,
    pub(crate) tool: Visible,
    pub(crate) agent: Visible,
    pub(crate) client: Visible,
    /// The arguments in one line, with sensitive values masked.
    pub(crate) args: Visible,
    pub(crate) reason: Visible,
    pub(crate) state: State,
    pub(crate) outcome: RowOutcome,
    pub(crate) time_iso: String,
    pub(crate) left_ms: i64,
    pub(crate) time_words: String,
}

/// The outcome in the words of a list: the part before the time, and the part after it.
pub(crate) struct RowOutcome {
    pub(crate) word: &'static str,
    pub(crate) by_word: &'static str,
    pub(crate) by: Option<Visible>,
}

/// The filter of the list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Selected {
    Pending,
    All,
}

impl Selected {
    pub(crate) fn of(word: Option<&str>) -> Self {
        if word == Some("all") { Self::All } else { Self::Pending }
    }

    pub(crate) fn state(self) -> Option<ApprovalState> {
        match self {
            Self::Pending => Some(ApprovalState::Pending),
            Self::All => None,
        }
    }
}

impl Inbox {
    /// `ran` has the status of the records of approved calls.
    pub(crate) fn new(
        frame: Frame,
        page: &ApprovalPage,
        ran: &[(RecordId, Status)],
        selected: Selected,
        now_ms: i64,
    ) -> Self {
        let (path, empty_heading, empty_text) = match selected {
            Selected::Pending => {
                ("/ui/approvals?", "No call is waiting", "A call that needs your approval appears here at once.")
            }
            Selected::All => {
                ("/ui/approvals?state=all&", "No approval requests yet", "No call has needed an approval so far.")
            }
        };
        let row = |approval: &StoredApproval| {
            let record = approval.record.as_ref();
            let ran = record.and_then(|record| ran.iter().find(|(id, _)| id == record)).map(|(_, status)| *status);
            InboxRow::new(approval, ran, now_ms)
        };
        let rows: Vec<InboxRow> = page.approvals.iter().map(row).collect();
        // The key changes with the ids and states of the rows.
        let parts: Vec<String> = rows.iter().map(|row| format!("{}{}", row.id, row.state.class)).collect();
        let key = mcpproxy_core::Digest::of(parts.join(" ").as_bytes()).to_string();
        Self {
            error: None,
            tabs: tabs(frame.pending, Some(selected)),
            lead: (selected == Selected::Pending && frame.pending > 0).then(|| format!("{}.", waiting(frame.pending))),
            frame: Frame { key, ..frame },
            rows,
            empty_heading,
            empty_text,
            older: page.next.as_ref().map(|next| format!("{path}before={next}")),
        }
    }
}

/// The tabs of all pages about approvals. `None` is the page of standing approvals.
fn tabs(pending: u64, selected: Option<Selected>) -> Vec<Tab> {
    let tab = |name: &str, href, of| Tab { name: name.to_owned(), href, is_here: selected == of };
    let count = if pending > 0 { format!("Waiting ({pending})") } else { "Waiting".to_owned() };
    vec![
        tab(&count, "/ui/approvals", Some(Selected::Pending)),
        tab("All", "/ui/approvals?state=all", Some(Selected::All)),
        tab("Standing approvals", "/ui/grants", None),
    ]
}

/// Formats the number of waiting requests: `1 call is waiting for your decision`.
pub(crate) fn waiting(pending: u64) -> String {
    match pending {
        1 => "1 call is waiting for your decision".to_owned(),
        more => format!("{more} calls are waiting for your decision"),
    }
}

impl RowOutcome {
    fn new(approval: &StoredApproval, state: ApprovalState, ran: Option<Status>) -> Self {
        let (word, by_word) = match state {
            ApprovalState::Pending => ("expires", ""),
            ApprovalState::Approved => ("Not yet run, approved", "by"),
            ApprovalState::Consumed => (ran_words(ran).row, "approved by"),
            ApprovalState::Denied => ("Denied", "by"),
            ApprovalState::Expired => ("Expired", "approved by"),
            ApprovalState::Cancelled => ("Cancelled", ""),
        };
        Self { word, by_word, by: decider(approval).filter(|_| !by_word.is_empty()) }
    }
}

impl InboxRow {
    fn new(approval: &StoredApproval, ran: Option<Status>, now_ms: i64) -> Self {
        let state = state_now(approval, now_ms);
        let time = Time::new(state_time(approval, state), now_ms);
        Self {
            id: approval.id.to_string(),
            risk: StatedRisk::of(approval).into(),
            tool: Visible::of(&approval.tool.to_string()),
            agent: Visible::of(&approval.agent),
            client: approval.client.as_ref().map(Visible::untrusted).unwrap_or_default(),
            args: one_line::arguments(approval.shown_args.for_json()),
            reason: ApprovalDetails::of(approval).text("reason").map(one_line::text).unwrap_or_default(),
            state: State::of(state, ran),
            outcome: RowOutcome::new(approval, state, ran),
            time_iso: time.iso,
            left_ms: time.left_ms,
            time_words: time.words,
        }
    }
}

#[derive(Template)]
#[template(path = "grants.html")]
pub(crate) struct Grants {
    pub(crate) frame: Frame,
    pub(crate) tabs: Vec<Tab>,
    pub(crate) error: Option<String>,
    pub(crate) grants: Vec<GrantRow>,
}

pub(crate) struct GrantRow {
    pub(crate) id: String,
    pub(crate) tool: Visible,
    pub(crate) agent: Visible,
    pub(crate) by: Visible,
    pub(crate) schema: Visible,
    /// The risk level of the tool. `None` if no connected server offers it.
    pub(crate) risk: Option<Risk>,
    pub(crate) allowed: Allowance,
    pub(crate) is_live: bool,
    /// The verb of the sentence: `may call`, or `could call` if it is over.
    pub(crate) may: &'static str,
    pub(crate) uses: u32,
    pub(crate) uses_left: u32,
    pub(crate) state: State,
    pub(crate) time_iso: String,
    pub(crate) left_ms: i64,
    pub(crate) time_words: String,
}

impl Grants {
    pub(crate) fn new(frame: Frame, grants: &[ShownStandingApproval], now_ms: i64) -> Self {
        let grants: Vec<GrantRow> = grants.iter().map(|grant| GrantRow::new(grant, now_ms)).collect();
        let parts: Vec<String> =
            grants.iter().map(|grant| format!("{}{}{}", grant.id, grant.uses_left, grant.state.class)).collect();
        let key = mcpproxy_core::Digest::of(parts.join(" ").as_bytes()).to_string();
        Self { tabs: tabs(frame.pending, None), frame: Frame { key, ..frame }, error: None, grants }
    }
}

impl GrantRow {
    fn new(grant: &ShownStandingApproval, now_ms: i64) -> Self {
        let (class, word, time_ms) = match grant.revoked_ms {
            Some(revoked_ms) => ("denied", "Revoked", revoked_ms),
            None if grant.expires_ms <= now_ms => ("expired", "Expired", grant.expires_ms),
            None if grant.uses_left == 0 => ("consumed", "Used up, would have expired", grant.expires_ms),
            None => ("live", "Active", grant.expires_ms),
        };
        let time = Time::new(time_ms, now_ms);
        Self {
            id: grant.id.clone(),
            tool: Visible::of(&grant.tool.to_string()),
            agent: Visible::of(&grant.agent),
            by: Visible::of(&grant.by),
            schema: Visible::lines(&grant.schema),
            risk: grant.risk().map(Risk::from),
            allowed: Allowance::of(&grant.schema),
            is_live: grant.is_live(now_ms),
            may: if grant.is_live(now_ms) { "may call" } else { "could call" },
            uses: grant.uses,
            uses_left: grant.uses_left.min(grant.uses),
            state: State { class, word, icon: "repeat" },
            time_iso: time.iso,
            left_ms: time.left_ms,
            time_words: time.words,
        }
    }
}
