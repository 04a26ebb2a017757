//! Pins: the definitions that servers list, and the decisions of users about them.
//!
//! A definition is in one of three tables, or in none:
//!
//! ```text
//!                        ┌────────── listed again as accepted ──────────┐
//!                        ▼                                              │
//! listed ─▶ held ─▶ waiting_pins ── accept ──▶ accepted_pins ── replaced ──▶ past_pins (former)
//!    │                   └──────── reject ─────────────────────────────────▶ past_pins (rejected)
//!    └─▶ admitted by a rule ─────────────────▶ accepted_pins ◀── a user takes the rejection back
//! ```
//!
//! Rows belong to an *identity*, which is the digest of a server's name and of its command or address. Several gateways
//! with the same server share its rows. Every change of them is one transaction, which first locks the row of the
//! identity in `pinned_servers`. So changes of one server happen one after the other, on whichever gateways.
//!
//! Invariants:
//!
//! - **A user accepts exactly what was shown.** A decision carries the pin that the user saw. It changes a row only if
//!   that pin still waits. The accepted row is a copy of the waiting row, so no other text can slip in.
//! - **A list does not undo a decision.** A gateway judges a list with what it knew a moment ago. So [`save_listing`]
//!   looks again: a definition that was accepted meanwhile does not wait again, and one that was rejected meanwhile is
//!   neither accepted nor does it wait (`plan.rs`).
//! - **Unreadable is not unknown.** A definition with a row that makes no sense is *damaged*. If the row counted as
//!   absent, a changed definition would look new, and a rejected one might be admitted. A damaged definition waits until
//!   a user decides again, and the decision replaces its rows. If the row does not even say which definition it is, the
//!   whole read fails. A damaged row in `waiting_pins` holds no decision, so the next list replaces it.
//! - **A rejection is taken back on purpose only.** Accepting what waits does not accept what another user has rejected
//!   meanwhile. [`Choice::AcceptRejected`] does, and only while no other version waits.
//! - **An unchanged list costs one read and one small statement.** `pinned_servers.listing` is the digest of the last list.
//! - **Everything has a bound** (`bounds.rs`), also against a server that lists ten thousand other definitions each time.
//!
//! A row stores the pin, and the formula that the pin was computed with. If the formula is another one than
//! [`FORMULA`], the pin is computed again from the text at every read. So gateways of two versions can share a database.
//!
//! [`save_listing`]: crate::Store::save_listing
//! [`FORMULA`]: mcpproxy_core::trust::FORMULA

mod bounds;
mod decide;
mod forms;
mod plan;
mod read;
mod rows;
mod save;

use std::sync::Arc;

use mcpproxy_core::trust::{Accepted, Admitted, Definition, DefinitionKey, Held, Pin};

/// A list of a server, judged.
#[derive(Debug)]
pub struct Listing<'a> {
    pub identity: &'a str,
    /// The name of the server, for people.
    pub server: &'a str,
    pub now_ms: i64,
    /// Definitions that a rule accepts and that are not stored like this yet.
    pub admitted: Vec<AdmittedPin<'a>>,
    pub held: Vec<HeldPin<'a>>,
    /// The keys of everything listed, also of what is accepted already.
    pub listed: Vec<&'a DefinitionKey>,
    /// True if the judgement differs from what is stored. Otherwise, an equal list is only noted as seen.
    pub has_news: bool,
}

#[derive(Debug)]
pub struct AdmittedPin<'a> {
    pub definition: &'a Definition,
    pub pin: Pin,
    pub reason: Admitted,
}

#[derive(Debug)]
pub struct HeldPin<'a> {
    pub definition: &'a Definition,
    pub pin: Pin,
    pub reason: Held,
    /// The meaning of the change and the findings, as JSON, for the reviewer.
    pub details: String,
}

/// A definition that waits for a user.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WaitingPin {
    pub key: DefinitionKey,
    pub pin: Pin,
    pub json: Arc<str>,
    pub reason: Held,
    pub details: String,
    /// The time at which this version began to wait.
    pub first_seen_ms: i64,
    /// Exact to the minute.
    pub last_seen_ms: i64,
    /// How many versions have waited since the last decision. More than one means that the server goes on changing it.
    pub times: u64,
    /// The version that was accepted before, to compare with.
    pub accepted: Option<Accepted>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AcceptedPin {
    pub key: DefinitionKey,
    pub pin: Pin,
    pub json: Arc<str>,
    /// The time at which this version was listed for the first time.
    pub first_seen_ms: i64,
    /// Exact to the minute.
    pub last_seen_ms: i64,
    pub accepted_ms: i64,
    /// The name of a user, or the word of the rule.
    pub accepted_by: String,
    /// A user may have the name of a rule.
    pub is_by_user: bool,
}

/// A version that is no longer accepted, or that a user rejected.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PastPin {
    pub pin: Pin,
    pub state: PastState,
    /// `None` if the server had too many former versions.
    pub json: Option<Arc<str>>,
    pub first_seen_ms: i64,
    /// The time at which it was accepted or rejected.
    pub decided_ms: i64,
    /// The name of a user, or the word of the rule.
    pub decided_by: String,
    pub is_by_user: bool,
    /// The time at which another version replaced it. For a rejected one, the time of the decision.
    pub ended_ms: i64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PastState {
    Former,
    Rejected,
}

/// A version that a user rejected.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RejectedPin {
    pub key: DefinitionKey,
    pub pin: Pin,
    pub json: Arc<str>,
    pub first_seen_ms: i64,
    pub rejected_ms: i64,
    /// The name of the user.
    pub rejected_by: String,
}

/// The decision of a user about one definition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PinDecision {
    pub key: DefinitionKey,
    /// The pin of the version that the user saw.
    pub pin: Pin,
    pub choice: Choice,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Choice {
    Accept,
    /// Accepts a version that the user saw as rejected.
    AcceptRejected,
    Reject,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Decided {
    Done,
    /// Another version waits now.
    Changed,
    /// Nothing waits: somebody else decided, or the server lists it no longer.
    Gone,
}

impl PastState {
    const ALL: [Self; 2] = [Self::Former, Self::Rejected];

    pub fn as_str(self) -> &'static str {
        match self {
            Self::Former => "former",
            Self::Rejected => "rejected",
        }
    }

    fn parse(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|state| state.as_str() == word)
    }
}

impl Decided {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Done => "done",
            Self::Changed => "changed",
            Self::Gone => "gone",
        }
    }
}
